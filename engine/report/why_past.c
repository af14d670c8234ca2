/* Searches the event log for what why and message are asked about, and known names for one that is
 * not known. Called by why_report.c and message_report.c; reads only. */
#include "engine/report/why_past.h"

#include "base/json_line.h"
#include "base/plural.h"
#include "engine/config/config.h"
#include "engine/event/event_line.h"
#include "engine/event/event_search.h"
#include "engine/event/reply_line.h"
#include "engine/http/api.h"
#include "engine/http/clerk.h"
#include "engine/post/message.h"
#include "engine/report/why_reply.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/tally/tally.h"
#include "sched/sched.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SEARCH_BYTES (256u << 20) /* of the log, the newest: a second or less */

enum {
    FAILURES_SHOWN = 5,
    EVENTS_SHOWN = 50, /* of one message */
    NAME_MAX_BYTES = 256,
    NEAR_SHOWN = 5,       /* names of each kind */
    NEAR_LOOKED = 200000, /* destinations */
};

struct slice why_past_member(const char *name, struct slice value,
                             char ret[static WHY_PAST_MEMBER_MAX])
{
    size_t room = WHY_PAST_MEMBER_MAX - strlen(name) - 4;
    value.len = json_line_string_max(value.len) > room ? NAME_MAX_BYTES : value.len;
    int len = snprintf(ret, WHY_PAST_MEMBER_MAX, "\"%s\":", name);
    assert(json_line_string_max(value.len) <= room);
    const char *end = json_line_string(ret + len, value);
    return slice_make(ret, (size_t)(end - ret));
}

/* --- events ----------------------------------------------------------------------------------- */

struct gathering {
    struct clerk *clerk;
    json_t *events; /* the newest first */
    bool is_deserted;
};

static void take_past_line(void *ctx, struct slice line)
{
    struct gathering *g = ctx;
    json_t *o = json_loadb(line.data, line.len, 0, NULL);
    if (o != NULL) {
        (void)json_array_insert_new(g->events, 0, o); /* out of memory leaves it out */
    }
}

static bool between_segments(void *ctx)
{
    struct gathering *g = ctx;
    const struct clerk *k = g->clerk;
    clerk_quiesce(g->clerk);
    g->is_deserted = clerk_must_end(k) || (k->call != NULL && api_is_deserted(k->call));
    return !g->is_deserted;
}

static void tell_searched(const struct event_search *s, char ret[static WHY_PAST_SEARCHED_MAX])
{
    char span[WHY_SPAN_TEXT];
    if (s->is_complete || s->oldest == 0) {
        (void)snprintf(ret, WHY_PAST_SEARCHED_MAX, "all of the event log");
    } else {
        (void)snprintf(ret, WHY_PAST_SEARCHED_MAX, "%llu MB of the event log, back to %s ago",
                       (unsigned long long)((s->bytes >> 20) + 1),
                       why_span_text(clock_wall() - s->oldest, span));
    }
}

int why_past_events(struct clerk *k, struct slice member, unsigned types, unsigned newest_max,
                    json_t **ret, char searched[static WHY_PAST_SEARCHED_MAX])
{
    struct gathering g = {.clerk = k, .events = json_array()};
    const struct label owner = clerk_owner(k);
    char of_owner[WHY_PAST_MEMBER_MAX];
    struct event_search s = {
        .texts = {member, owner.len == 0
                              ? SLICE("")
                              : why_past_member("tenant", label_slice(&owner), of_owner)},
        .types = types,
        .lines_max = newest_max,
        .bytes_max = SEARCH_BYTES,
        .take = take_past_line,
        .between = between_segments,
        .ctx = &g};
    (void)snprintf(searched, WHY_PAST_SEARCHED_MAX, "no event log");
    if (g.events == NULL) {
        return -ENOMEM;
    }
    bool has_log = k->engine->feed != NULL;
    int err = has_log ? event_search(&s, k->engine->events->path) : 0;
    if (err == 0 && g.is_deserted) {
        err = -ECANCELED;
    }
    if (err != 0) {
        json_decref(g.events);
        return err;
    }
    if (has_log) {
        tell_searched(&s, searched);
    }
    *ret = g.events;
    return 0;
}

static const char *member_text(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text == NULL ? "" : text;
}

static json_int_t number_of(const json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

static void put_event(struct why *w, const json_t *o)
{
    char span[WHY_SPAN_TEXT], status[32] = "", line[REPLY_LINE_MAX];
    const json_t *response = json_object_get(o, "response");
    const json_t *code = json_object_get(response, "enhanced_code");
    const char *to = member_text(o, "recipient"), *by = member_text(o, "queue");
    usec_t time = (usec_t)number_of(o, "timestamp") * USEC_PER_SEC;
    json_int_t attempts = number_of(o, "num_attempts");
    json_t *link =
        why_link(w, 0, "%s%s%s%s%s %s ago%s", member_text(o, "type"), to[0] != '\0' ? " of " : "",
                 to, by[0] != '\0' ? " at " : "", by, why_span_text(w->now - time, span),
                 attempts > 1 ? ", after more than one attempt" : "");
    if (code != NULL) {
        (void)snprintf(status, sizeof(status), "%d.%d.%d", (int)number_of(code, "class"),
                       (int)number_of(code, "subject"), (int)number_of(code, "detail"));
    }
    if (response != NULL) {
        why_reply(w, link,
                  slice_of(reply_line((unsigned)number_of(response, "code"), slice_of(status),
                                      slice_of(member_text(response, "content")), line)));
    }
    if (to[0] != '\0' && strcmp(member_text(w->about, "message"), member_text(o, "id")) != 0) {
        why_next(link, "sluice message %s shows all that became of it", member_text(o, "id"));
    }
}

static unsigned failures(void)
{
    return event_line_type_bit(SLICE("TransientFailure")) | event_line_type_bit(SLICE("Bounce")) |
           event_line_type_bit(SLICE("Expiration")) | event_line_type_bit(SLICE("AdminBounce")) |
           event_line_type_bit(SLICE("AdminDrop")) | event_line_type_bit(SLICE("Suppressed"));
}

bool why_past_failures(struct why *w, struct slice member)
{
    char searched[WHY_PAST_SEARCHED_MAX];
    json_t *events;
    if (why_past_events(w->clerk, member, failures(), FAILURES_SHOWN, &events, searched) != 0) {
        return false; /* no event could be read; the rest of the chain is answered */
    }
    why_refresh(w);
    size_t count = json_array_size(events);
    if (count == 0) {
        (void)why_link(w, 0, "no failure of it is in the event log (looked at %s)", searched);
    } else {
        (void)why_link(w, 0, "the last %s in the event log:",
                       plural(count, "failure of it", "failures of it"));
    }
    for (size_t i = count; i > 0; i--) {
        put_event(w, json_array_get(events, i - 1));
    }
    json_decref(events);
    return count > 0;
}

bool why_past_message(struct why *w, uint64_t id)
{
    char text[MESSAGE_ID_TEXT], member[WHY_PAST_MEMBER_MAX], searched[WHY_PAST_SEARCHED_MAX];
    json_t *events;
    message_id_format(id, text);
    if (why_past_events(w->clerk, why_past_member("id", slice_of(text), member), 0, EVENTS_SHOWN,
                        &events, searched) != 0) {
        return false;
    }
    why_refresh(w);
    size_t count = json_array_size(events);
    if (count > 0) {
        api_set_text(w->about, "message", slice_of(text));
        (void)why_link(w, 0, "it is no longer in the queue; its last %s in the event log:",
                       plural(count, "event", "events"));
    }
    for (size_t i = 0; i < count; i++) {
        put_event(w, json_array_get(events, i));
    }
    json_decref(events);
    return count > 0;
}

/* --- names ------------------------------------------------------------------------------------ */

/* Names that have `part` in theirs, as "a, b"; nothing of it is kept when they are too many. */
struct near {
    char part[NAME_MAX_BYTES]; /* lower case */
    size_t part_len;
    char text[NEAR_SHOWN * (NAME_MAX_BYTES + 2)];
    size_t len;
    unsigned count;
};

static void near_begin(struct near *n, struct slice name)
{
    *n = (struct near){.part_len = name.len < NAME_MAX_BYTES ? name.len : NAME_MAX_BYTES};
    slice_lower(slice_to(name, n->part_len), n->part);
}

static void near_offer(struct near *n, struct slice name)
{
    char lower[NAME_MAX_BYTES];
    if (name.len > sizeof(lower) || name.len == 0 || n->count == NEAR_SHOWN) {
        return;
    }
    slice_lower(name, lower);
    if (name.len == n->part_len && memcmp(lower, n->part, name.len) == 0) {
        return; /* the name asked for itself is no near name */
    }
    bool is_told = n->len > 0 && memmem(n->text, n->len, name.data, name.len) != NULL;
    if (!is_told && memmem(lower, name.len, n->part, n->part_len) != NULL) {
        n->len += (size_t)snprintf(n->text + n->len, sizeof(n->text) - n->len, "%s" SLICE_FMT,
                                   n->count++ == 0 ? "" : ", ", SLICE_ARG(name));
    }
}

static void offer_destinations(const struct why *w, struct near *n)
{
    const struct engine *e = w->clerk->engine;
    unsigned looked = 0;
    for (uint32_t t = 0; t < w->transport_count; t++) {
        struct sched_destination_view d;
        uint64_t cursor = 0;
        while (looked++ < NEAR_LOOKED && n->count < NEAR_SHOWN &&
               sched_view_destinations(sched_thread_core(e->scheds[t % e->sched_count], t), &cursor,
                                       &d)) {
            near_offer(n, d.name);
        }
    }
    for (size_t i = 0; i < w->config->route_count; i++) {
        near_offer(n, slice_of(w->config->routes[i].pattern));
    }
}

bool why_past_has_tenant(const struct why *w, struct slice *name)
{
    const struct tally_table *t = w->clerk->engine->tally->tenants;
    struct slice other = {NULL, 0};
    for (uint32_t i = 0; i < tally_table_rows(t); i++) {
        struct slice known = tally_row_name(tally_table_row(t, i));
        if (known.len > 0 && slice_eq(known, *name)) {
            return true;
        }
        other = known.len > 0 && slice_ieq(known, *name) && other.len == 0 ? known : other;
    }
    *name = other.len > 0 ? other : *name;
    return other.len > 0;
}

static void put_near(char *text, size_t bytes, size_t *len, const char *kind, const struct near *n)
{
    if (n->count > 0 && *len < bytes) {
        *len += (size_t)snprintf(text + *len, bytes - *len, "; %s: %s", kind, n->text);
    }
}

void why_past_near(struct why *w, const char *word, struct slice name)
{
    struct near destinations, transports, tenants;
    char text[4200] = ""; /* three of them */
    size_t len = 0;
    const struct tally_table *t = w->clerk->engine->tally->tenants;
    near_begin(&destinations, name);
    near_begin(&transports, name);
    near_begin(&tenants, name);
    offer_destinations(w, &destinations);
    for (size_t i = 0; i < w->config->transport_count; i++) {
        if (!w->config->transports[i].is_gone) {
            near_offer(&transports, slice_of(w->config->transports[i].name));
        }
    }
    for (uint32_t i = 0; i < tally_table_rows(t); i++) {
        near_offer(&tenants, tally_row_name(tally_table_row(t, i)));
    }
    put_near(text, sizeof(text), &len, "destinations", &destinations);
    put_near(text, sizeof(text), &len, "transports", &transports);
    put_near(text, sizeof(text), &len, "tenants", &tenants);
    (void)why_link(w, 0, "no %s " SLICE_FMT "%s", word, SLICE_ARG(name), text);
}
