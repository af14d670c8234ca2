/* Answers why: finds out what is asked for, and puts together what the counts of the queue, the
 * schedulers and the orders say of a destination or a tenant. Called on the slow clerk's thread. */
#include "engine/report/why_report.h"

#include "base/error.h"
#include "base/plural.h"
#include "engine/census/census.h"
#include "engine/census/clerk_walk.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/event/reply_line.h"
#include "engine/http/clerk.h"
#include "engine/post/message.h"
#include "engine/report/why_chain.h"
#include "engine/report/why_destination.h"
#include "engine/report/why_gate.h"
#include "engine/report/why_message.h"
#include "engine/report/why_past.h"
#include "engine/report/why_reply.h"
#include "engine/schedule/destination_site.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS_SHOWN = 10,
    REASONS_KEPT = 64,
    REASONS_SHOWN = 5,
    REASONS_SAMPLE = 2000, /* deferred recipients whose reasons are read */
};

/* --- counts ----------------------------------------------------------------------------------- */

static void put_row(struct why *w, const struct census_result *n, const struct census_row *row)
{
    char age[WHY_SPAN_TEXT];
    struct slice destination = census_row_value(n, row, (enum census_word)SELECTOR_DESTINATION);
    struct slice transport = census_row_value(n, row, (enum census_word)SELECTOR_TRANSPORT);
    (void)why_link(
        w, 0,
        "%llu %s%s" SLICE_FMT "%s" SLICE_FMT ": " SLICE_FMT
        " (in %llu %s, the oldest received %s ago)",
        (unsigned long long)row->recipients, plural(row->recipients, "recipient", "recipients"),
        destination.len > 0 ? " for " : " without a route", SLICE_ARG(destination),
        transport.len > 0 ? " by " : "", SLICE_ARG(transport),
        SLICE_ARG(census_row_value(n, row, CENSUS_STATE)), (unsigned long long)row->messages,
        plural(row->messages, "message", "messages"), why_span_text(w->now - row->oldest, age));
}

/* What is queued of it, by destination and state. What else can be said of the largest ones'
 * destinations is put below them. errors: of census_run */
static int put_counts(struct why *w, const struct queue_filter *filter, bool has_destinations,
                      uint64_t *ret_recipients)
{
    const struct census_result *n;
    const struct census_query query = {.by = 1u << SELECTOR_DESTINATION | 1u << SELECTOR_TRANSPORT |
                                             1u << CENSUS_STATE,
                                       .filter = *filter};
    int err = census_run(w->clerk, &query, &n);
    if (err != 0) {
        return err;
    }
    why_refresh(w);
    api_set_number(w->about, "recipients", n->recipients);
    api_set_number(w->about, "messages", n->messages);
    for (size_t i = 0; i < n->row_count && i < ROWS_SHOWN; i++) {
        const struct census_row *row = &n->rows[i];
        struct slice name = census_row_value(n, row, (enum census_word)SELECTOR_DESTINATION);
        size_t transport = config_transport_find(
            w->config, census_row_value(n, row, (enum census_word)SELECTOR_TRANSPORT));
        put_row(w, n, row);
        if (has_destinations && transport < w->transport_count) {
            (void)why_destination(w, 1, (uint32_t)transport, name, WHY_ANY_POOL);
        }
    }
    if (n->row_count > ROWS_SHOWN || n->other.recipients > 0) {
        (void)why_link(w, 0, "and more: sluice counts --by destination,state");
    }
    *ret_recipients = n->recipients;
    return 0;
}

/* --- reasons ---------------------------------------------------------------------------------- */

struct reason {
    char text[200];
    uint64_t count;
};

struct reasons {
    struct reason items[REASONS_KEPT];
    size_t count;
    uint64_t read;
};

static void count_reason(struct reasons *r, const struct spool_reason *reason)
{
    char line[REPLY_LINE_MAX], text[sizeof(r->items[0].text)];
    size_t i = 0;
    (void)snprintf(text, sizeof(text), "%s",
                   reply_line(reason->code, reason->status, reason->text, line));
    while (i < r->count && strcmp(r->items[i].text, text) != 0) {
        i++;
    }
    if (i == REASONS_KEPT) {
        return;
    }
    if (i == r->count) {
        memcpy(r->items[r->count++].text, text, sizeof(text));
    }
    r->items[i].count++;
}

static void put_reasons(struct why *w, const struct reasons *r)
{
    bool is_shown[REASONS_KEPT] = {false};
    for (int n = 0; n < REASONS_SHOWN; n++) {
        size_t best = REASONS_KEPT;
        for (size_t i = 0; i < r->count; i++) {
            if (!is_shown[i] &&
                (best == REASONS_KEPT || r->items[i].count > r->items[best].count)) {
                best = i;
            }
        }
        if (best == REASONS_KEPT) {
            return;
        }
        is_shown[best] = true;
        json_t *link =
            why_link(w, 0, "%llu of %llu deferred %s looked at %s told",
                     (unsigned long long)r->items[best].count, (unsigned long long)r->read,
                     plural(r->read, "recipient", "recipients"),
                     plural(r->items[best].count, "was", "were"));
        why_reply(w, link, slice_of(r->items[best].text));
    }
}

/* What receivers said to the first deferred recipients that fit. errors: of the walk */
static int put_replies(struct why *w, const struct queue_filter *filter)
{
    struct queue_filter deferred = *filter; /* shares its texts, and is not freed */
    struct reasons r = {.count = 0};
    struct queue_source from;
    struct queue_walk walk;
    deferred.states = 1u << QUEUE_DEFERRED;
    clerk_source(w->clerk, &from);
    queue_walk_begin(&walk, &from, &deferred, 0, false);
    while (r.read < REASONS_SAMPLE && queue_walk_next(&walk)) {
        while (r.read < REASONS_SAMPLE && queue_walk_recipient(&walk)) {
            struct spool_reason reason;
            if (walk.recipient.is_deferred &&
                spool_read_reason(from.reader, walk.message.envelope.id, walk.recipient.index,
                                  &reason) == 0) {
                count_reason(&r, &reason);
                r.read++;
            }
        }
    }
    int err = walk.error;
    queue_walk_end(&walk);
    why_refresh(w);
    put_reasons(w, &r);
    return err;
}

/* --- what is asked for ------------------------------------------------------------------------ */

/* Who asks for a domain, or an address, may mean its mail, which a route sends elsewhere. */
static void put_route(struct why *w, struct slice name)
{
    struct route_result route;
    struct slice domain = router_domain(name);
    name = domain.len > 0 ? domain : name;
    bool is_domain = slice_find(name, '[') == name.len && slice_find(name, ':') == name.len;
    if (is_domain && router_route(settings_of(w->clerk->engine)->router, name, SLICE(""), &route) &&
        !slice_eq(route.nexthop, name)) {
        json_t *link = why_link(w, 0,
                                "mail for the domain " SLICE_FMT " goes to " SLICE_FMT
                                ", which is another destination",
                                SLICE_ARG(name), SLICE_ARG(route.nexthop));
        why_next(link, "sluice why -d " SLICE_FMT " says what holds that back",
                 SLICE_ARG(route.nexthop));
    }
}

/* Nothing is queued: what became of it, as the event log knows it under `member`; or what may have
 * been meant by a name that nobody knows. */
static void put_nothing(struct why *w, const char *word, const char *member, struct slice name,
                        bool is_known)
{
    char text[WHY_PAST_MEMBER_MAX];
    (void)why_link(w, 0, "nothing of it is queued");
    bool has_failed = why_past_failures(w, why_past_member(member, name, text));
    if (!is_known && !has_failed) {
        why_past_near(w, word, name);
    }
}

static int show_destination(struct why *w, struct slice name, const struct queue_filter *filter)
{
    const struct slice facts[SELECTOR_COUNT] = {[SELECTOR_DESTINATION] = name};
    bool is_known = false;
    struct destination_site site = {.key = SLICE("")};
    for (uint32_t t = 0; t < w->transport_count && site.key.len == 0; t++) {
        destination_site_find(w->clerk->engine, t, name, &site);
    }
    for (uint32_t t = 0; t < w->transport_count; t++) {
        if (why_destination(w, 0, t, name, WHY_ANY_POOL)) {
            is_known = true;
            why_tls(w, 0, t, name);
        }
    }
    if (!is_known) {
        (void)why_link(w, 0, "no scheduler has mail for it now");
        put_route(w, name);
    }
    bool has_orders = why_orders(w, 0, facts, site.key) > 0;
    uint64_t queued = 0;
    int err = put_counts(w, filter, false, &queued);
    if (err == 0 && queued == 0) {
        put_nothing(w, "destination", "queue", name, is_known || has_orders);
    }
    return err != 0 ? err : put_replies(w, filter);
}

static int show_tenant(struct why *w, struct slice name, const struct queue_filter *filter)
{
    const struct slice facts[SELECTOR_COUNT] = {[SELECTOR_TENANT] = name};
    bool is_known = why_orders(w, 0, facts, SLICE("")) > 0;
    uint64_t queued = 0;
    bool is_own = w->owner.len > 0; /* the name as it stands */
    int err = put_counts(w, filter, !is_own, &queued);
    if (err == 0 && queued == 0) {
        is_known = is_own || why_past_has_tenant(w, &name) || is_known;
        put_nothing(w, "tenant", "tenant", name, is_known);
    }
    return err != 0 ? err : put_replies(w, filter);
}

/* A destination or a tenant by its name. errors: ERR_SYNTAX it cannot be one; of the walks */
static int show_name(struct why *w, const char *word, struct slice name)
{
    char lower[SELECTOR_VALUE_MAX];
    struct queue_filter filter = {0};
    bool is_destination = strcmp(word, "destination") == 0;
    if (name.len > sizeof(lower)) {
        return ERR_SYNTAX;
    }
    slice_lower(name, lower);
    if (is_destination) {
        name.data = lower;
    }
    int err = selector_set(&filter.selector, slice_of(word), name);
    if (err == 0) {
        api_set_text(w->about, word, name);
        why_gates(w, 0);
        (void)why_memory(w, 0);
        err = is_destination ? show_destination(w, name, &filter) : show_tenant(w, name, &filter);
    }
    queue_filter_fini(&filter);
    return err;
}

/* Nobody can read the spool while the writer cannot open it again, as on a full disk. What is known without
 * it has been said by then; to whoever is bound to a tenant nothing is said of what may be another's.
 * returns err, or 0 when the answer stands */
static int put_closed(struct why *w, int err)
{
    if (err != ERR_AGAIN || w->owner.len > 0) {
        return err;
    }
    why_refresh(w);
    (void)why_link(w, 0,
                   "what is queued cannot be read, nor counted, until the spool is open again");
    return 0;
}

static int show(struct why *w, const char *word, struct slice value)
{
    uint64_t id;
    if (strcmp(word, "message") != 0) {
        return put_closed(w, show_name(w, word, value));
    }
    if (!message_id_parse(value, &id) || id == 0) {
        return ERR_SYNTAX;
    }
    int err = put_closed(w, why_message(w, id));
    return err == ERR_MISSING && why_past_message(w, id) ? 0 : err;
}

void why_report_show(struct clerk *k, struct api_call *c)
{
    static const char *const words[] = {"message", "destination", "tenant"};
    const char *word = NULL;
    struct slice value, found = SLICE("");
    struct why w;
    int count = 0;
    for (size_t i = 0; i < 3; i++) {
        if (api_param(c, words[i], &value)) {
            word = words[i];
            found = value;
            count++;
        }
    }
    if (count != 1) {
        api_error(c, 400, "usage", "one of message, destination and tenant");
        return;
    }
    if (api_tenant(c).len > 0 && strcmp(word, "destination") == 0) {
        api_deny(c, DENIAL_TENANT, "destinations are all tenants', and the token is bound to one");
        return;
    }
    if (strcmp(word, "tenant") == 0 && !api_may_name(c, found)) {
        return;
    }
    why_init(&w, k);
    int err = show(&w, word, found);
    if (err == 0) {
        api_object(c, 200, why_answer(&w));
    } else if (err == ERR_MISSING) {
        api_error(c, 404, "missing",
                  "no such message in the queue, and none in the newest 256 MB of the event log");
    } else if (err == ERR_SYNTAX || err == ERR_LIMIT) {
        api_error(c, 400, "usage", "%s: not %s", word,
                  strcmp(word, "message") == 0 ? "an id of 16 hex digits" : "a name");
    } else {
        clerk_walk_error(k, c, err);
    }
    why_fini(&w);
}
