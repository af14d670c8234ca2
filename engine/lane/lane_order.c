/* Finds the lanes that a request is about, and gives the order to struct limits, which tells all
 * transports. The first clerk runs it; nothing here is kept. */
#include "engine/lane/lane_order.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/config/config_near.h"
#include "engine/config/policy.h"
#include "engine/http/clerk.h"
#include "engine/lane/lane_memory.h"
#include "engine/lane/lane_object.h"
#include "engine/lane/lane_request.h"
#include "engine/lane/lane_view.h"
#include "engine/schedule/destination_site.h"
#include "engine/schedule/lanes.h"
#include "engine/schedule/receiver.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES_MOST = 4096,         /* of a site that one order is for */
    SOURCE_LANES_MOST = 20000, /* of a source */
    LANES_SHOWN = 100,         /* of the answer */
    NAMES_TEXT = 400,
};

/* A lane by its names in struct limits. */
struct target {
    size_t source_len, site_len, hosts_len;
    char source[LIMITS_NAME_MAX + 1], site[LIMITS_NAME_MAX + 1], hosts[LIMITS_NAME_MAX + 1];
};

struct order {
    struct clerk *clerk;
    struct api_call *call;
    const struct engine *engine;
    struct lane_request request;
    struct target *lanes; /* own */
    uint32_t count;
    bool can_make; /* the source is one of the configuration: lanes of it may be made */
    bool is_too_many, is_short; /* of memory */
};

static size_t copy_name(char *ret, struct slice name)
{
    size_t len = name.len < LIMITS_NAME_MAX ? name.len : LIMITS_NAME_MAX;
    if (len > 0) {
        memcpy(ret, name.data, len);
    }
    ret[len] = '\0';
    return len;
}

static void add_lane(struct order *o, const struct limit_key *key)
{
    struct target t;
    t.source_len = copy_name(t.source, key->source);
    t.site_len = copy_name(t.site, key->site);
    t.hosts_len = copy_name(t.hosts, key->hosts);
    for (uint32_t i = 0; i < o->count && o->request.site.len > 0; i++) {
        const struct target *seen = &o->lanes[i];
        if (strcmp(seen->source, t.source) == 0 && strcmp(seen->site, t.site) == 0 &&
            strcmp(seen->hosts, t.hosts) == 0) {
            return;
        }
    }
    if (o->count == (o->request.site.len > 0 ? LANES_MOST : SOURCE_LANES_MOST)) {
        o->is_too_many = true;
        return;
    }
    struct target *grown = realloc(o->lanes, (o->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        o->is_short = true;
        return;
    }
    o->lanes = grown;
    o->lanes[o->count++] = t;
}

/* --- which lanes ------------------------------------------------------------------------------ */

/* Called for each lane that struct limits has, without RCU being kept. */
typedef void each_lane(void *ctx, const struct limit_lane_report *r);

static void walk_lanes(struct order *o, each_lane *take, void *ctx)
{
    struct limit_lane_report *page = calloc(LIMITS_PAGE_MAX, sizeof(*page));
    uint32_t at = 0, count;
    o->is_short = o->is_short || page == NULL;
    while (page != NULL && (count = limits_report(o->engine->limits, &at, page, LIMITS_PAGE_MAX,
                                                  clock_mono(), clock_wall())) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            take(ctx, &page[i]);
        }
        clerk_quiesce(o->clerk);
    }
    free(page);
}

/* Lanes of one site; of a provider without a set of hosts those of all its sets. */
struct wanted {
    struct order *order;
    struct limit_key key;
    bool is_any_source;
    bool is_known; /* some lane of the site was there, of whatever source */
    struct target sample;
};

static void take_wanted(void *ctx, const struct limit_lane_report *r)
{
    struct wanted *w = ctx;
    if (!slice_eq(slice_of(r->site), w->key.site) ||
        (w->key.hosts.len > 0 && !slice_eq(slice_of(r->hosts), w->key.hosts))) {
        return;
    }
    w->is_known = true;
    bool is_of_source = w->is_any_source || slice_eq(slice_of(r->source), w->key.source);
    /* Of a source of the configuration that has no lane there yet one is made. */
    bool is_made =
        !w->is_any_source && w->order->can_make && w->order->request.kind != LIMIT_ORDER_OPEN;
    if (is_of_source || is_made) {
        const struct limit_key key = {is_of_source ? slice_of(r->source) : w->key.source,
                                      slice_of(r->site), slice_of(r->hosts)};
        add_lane(w->order, &key);
    }
}

/* The lanes of a site as its key names it. returns whether the site is known */
static bool take_site(struct order *o, struct slice site)
{
    char room[LANES_KEY_ROOM];
    struct wanted w = {.order = o, .is_any_source = !o->request.has_source};
    lanes_limit_key(site, o->request.source, room, &w.key);
    walk_lanes(o, take_wanted, &w);
    return w.is_known;
}

/* Of the source, those that something holds back. */
static void take_held(void *ctx, const struct limit_lane_report *r)
{
    struct order *o = ctx;
    usec_t until;
    bool is_held = lane_view_state(NULL, r, clock_mono(), clock_wall(), &until) != LANE_OPEN ||
                   r->state.most_connections > 0 || r->state.most_messages > 0 ||
                   r->closed_destinations > 0;
    if (is_held && slice_eq(slice_of(r->source), o->request.source)) {
        const struct limit_key key = {slice_of(r->source), slice_of(r->site), slice_of(r->hosts)};
        add_lane(o, &key);
    }
}

/* Where mail for a destination goes, or went last. */
static bool take_destination(struct order *o, struct slice name)
{
    size_t count = settings_of(o->engine)->transport_count;
    char lower[LIMITS_NAME_MAX];
    bool is_known = false;
    if (name.len > sizeof(lower)) {
        return false;
    }
    slice_lower(name, lower);
    name.data = lower;
    for (uint32_t t = 0; t < count; t++) {
        struct destination_site site;
        char key[RECEIVER_SITE_MAX];
        destination_site_find(o->engine, t, name, &site);
        size_t len = site.key.len;
        if (len > 0 && len <= sizeof(key)) {
            memcpy(key, site.key.data, len); /* the walk leaves RCU */
            is_known = take_site(o, slice_make(key, len)) || is_known;
        }
    }
    return is_known;
}

/* --- lanes that are not there yet ------------------------------------------------------------- */

/* Of each source that some transport has. */
static void make_lanes(struct order *o, struct slice site)
{
    const struct source_table *table = settings_of(o->engine)->sources;
    if (o->request.has_source) {
        add_lane(o, &(struct limit_key){o->request.source, site, SLICE("")});
        return;
    }
    for (size_t t = 0; t < table->transport_count; t++) {
        for (uint32_t i = 0; i < table->transports[t].count; i++) {
            const struct config_egress_source *s = table->transports[t].sections[i];
            const struct slice source = s == NULL ? SLICE("") : slice_of(s->name);
            add_lane(o, &(struct limit_key){source, site, SLICE("")});
        }
    }
}

static bool is_source(const struct config *c, struct slice name)
{
    bool is_any = name.len == 0;
    for (size_t i = 0; i < c->egress_source_count && !is_any; i++) {
        is_any = slice_eq(slice_of(c->egress_sources[i].name), name);
    }
    return is_any;
}

/* --- what may have been meant ----------------------------------------------------------------- */

struct near_site {
    struct slice name;
    struct config_near near;
    char parts[NAMES_TEXT]; /* sites that have it in their name */
    uint32_t part_count;
    char found[LIMITS_NAME_MAX + 1]; /* what near.found points to */
};

static void offer_site(void *ctx, const struct limit_lane_report *r)
{
    enum { SHOWN = 3 };
    struct near_site *n = ctx;
    const char *before = n->near.found;
    if (memmem(r->site, strlen(r->site), n->name.data, n->name.len) != NULL &&
        strstr(n->parts, r->site) == NULL) {
        size_t len = strlen(n->parts);
        if (n->part_count++ < SHOWN) {
            (void)snprintf(n->parts + len, sizeof(n->parts) - len, "%s%.100s", len == 0 ? "" : ", ",
                           r->site);
        }
    }
    config_near_offer(&n->near, r->site);
    if (n->near.found != before) {
        (void)snprintf(n->found, sizeof(n->found), "%s", n->near.found);
        n->near.found = n->found;
    }
}

static void refuse_site(struct order *o)
{
    const struct slice site = o->request.site;
    const struct config *c = settings_of(o->engine)->config;
    char *name = slice_dup(site), text[CONFIG_NEAR_TEXT];
    struct near_site n = {.name = site};
    config_near_begin(&n.near, name == NULL ? "" : name);
    for (size_t i = 0; i < c->provider_count; i++) {
        config_near_offer(&n.near, c->providers[i].options.name);
    }
    if (n.near.found != NULL) {
        (void)snprintf(n.found, sizeof(n.found), "%s", n.near.found);
        n.near.found = n.found; /* the walk leaves RCU */
    }
    walk_lanes(o, offer_site, &n);
    if (n.part_count > 0) {
        api_error(o->call, 404, "missing",
                  "no site \"" SLICE_FMT "\" is known; sites with it in their names: %s%s",
                  SLICE_ARG(site), n.parts, n.part_count > 3 ? ", .." : "");
    } else {
        api_error(o->call, 404, "missing",
                  "no site, provider or destination \"" SLICE_FMT "\" is known%s; see sluice sites",
                  SLICE_ARG(site), config_near_text(&n.near, text));
    }
    free(name);
}

static void refuse_source(struct order *o)
{
    const struct config *c = settings_of(o->engine)->config;
    char *name = slice_dup(o->request.source), text[CONFIG_NEAR_TEXT];
    struct config_near near;
    config_near_begin(&near, name == NULL ? "" : name);
    for (size_t i = 0; i < c->egress_source_count; i++) {
        config_near_offer(&near, c->egress_sources[i].name);
    }
    api_error(o->call, 404, "missing", "there is no source \"" SLICE_FMT "\"%s; see sluice sources",
              SLICE_ARG(o->request.source), config_near_text(&near, text));
    free(name);
}

/* --- finding them ----------------------------------------------------------------------------- */

/* "provider:NAME" of a provider of the configuration, by its name or as a site. */
static bool provider_site(const struct order *o, char *ret, size_t size, size_t *ret_index)
{
    static const struct slice mark = {"provider:", sizeof("provider:") - 1};
    const struct config *c = settings_of(o->engine)->config;
    struct slice name = o->request.site;
    if (name.len > mark.len && memcmp(name.data, mark.data, mark.len) == 0) {
        name = slice_from(name, mark.len);
    }
    for (size_t i = 0; i < c->provider_count; i++) {
        const char *provider = c->providers[i].options.name;
        if (slice_eq(slice_of(provider), name)) {
            (void)snprintf(ret, size, "provider:%s", provider);
            *ret_index = i;
            return true;
        }
    }
    return false;
}

/* false: the call was answered */
static bool find_lanes(struct order *o)
{
    char provider[LIMITS_NAME_MAX + 1];
    size_t index = 0;
    const struct lane_request *r = &o->request;
    bool is_provider = provider_site(o, provider, sizeof(provider), &index);
    bool is_source_known = !r->has_source || is_source(settings_of(o->engine)->config, r->source);
    o->can_make = is_source_known;
    if (r->site.len == 0) {
        walk_lanes(o, take_held, o);
        if (o->count == 0 && !is_source_known) {
            refuse_source(o);
        }
        return o->count > 0 || is_source_known;
    }
    bool is_known = take_site(o, r->site);
    is_known = is_known || (is_provider && take_site(o, slice_of(provider)));
    is_known = is_known || take_destination(o, r->site);
    const struct settings *s = settings_of(o->engine);
    if (!is_known && is_provider && is_source_known) {
        if (policy_is_by_domains(s->policies, index)) {
            api_error(o->call, 404, "missing",
                      "no mail has gone to provider %s yet: its domains alone name it, so each set "
                      "of hosts has lanes of its own, known once mail goes there",
                      s->config->providers[index].options.name);
            return false;
        }
        make_lanes(o, slice_of(provider));
        return true;
    }
    if (r->has_source && !is_source_known && o->count == 0) {
        refuse_source(o);
    } else if (!is_known) {
        refuse_site(o);
    } else if (o->count == 0) {
        api_error(o->call, 404, "missing", "source \"" SLICE_FMT "\" has no lane there",
                  SLICE_ARG(r->source));
    }
    return o->count > 0;
}

/* Each lane has a pace of its own: one for all of them would be another total than was meant. */
static bool is_one_source(struct order *o)
{
    char names[NAMES_TEXT] = "";
    bool is_one = true;
    for (uint32_t i = 0; i < o->count; i++) {
        size_t len = strlen(names);
        bool is_new = true;
        for (uint32_t k = 0; k < i; k++) {
            is_new = is_new && strcmp(o->lanes[k].source, o->lanes[i].source) != 0;
        }
        is_one = is_one && (i == 0 || !is_new);
        if (is_new && len < sizeof(names) - LIMITS_NAME_MAX) {
            (void)snprintf(names + len, sizeof(names) - len, "%s%.200s", len == 0 ? "" : ", ",
                           o->lanes[i].source[0] == '\0' ? "-" : o->lanes[i].source);
        }
    }
    if (!is_one) {
        api_error(o->call, 422, "wrong", "source: whose pace it is, one of %s", names);
    }
    return is_one;
}

/* --- carrying out ----------------------------------------------------------------------------- */

static struct limit_key key_of(const struct target *t)
{
    return (struct limit_key){slice_make(t->source, t->source_len),
                              slice_make(t->site, t->site_len), slice_make(t->hosts, t->hosts_len)};
}

static void log_order(const struct order *o, const char *by)
{
    const struct lane_request *r = &o->request;
    char what[80] = "";
    if (r->kind == LIMIT_ORDER_CLOSE) {
        (void)snprintf(what, sizeof(what), " for %lld s", (long long)(r->span / USEC_PER_SEC));
    } else if (r->kind == LIMIT_ORDER_PACE) {
        (void)snprintf(what, sizeof(what), " %.6g messages a second", r->rate);
    } else if (r->kind == LIMIT_ORDER_UNPACE) {
        (void)snprintf(what, sizeof(what), " none");
    }
    log_info("lanes: %s%s by %s: site " SLICE_FMT "%s" SLICE_FMT ", lanes %u%s" SLICE_FMT,
             lane_request_word(r->kind), what, by,
             SLICE_ARG(r->site.len > 0 ? r->site : SLICE("any")), r->has_source ? ", source " : "",
             SLICE_ARG(r->source), o->count, r->reason.len > 0 ? ": " : "", SLICE_ARG(r->reason));
}

static json_t *answer(const struct order *o, const char *by)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < o->count && i < LANES_SHOWN; i++) {
        const struct limit_key key = key_of(&o->lanes[i]);
        struct limit_lane_report report;
        struct lane_view v;
        if (limits_report_lane(o->engine->limits, &key, clock_mono(), clock_wall(), &report)) {
            lane_view_remembered(&report, &v);
            (void)json_array_append_new(list, lane_object(o->engine, &v, 0)); /* or left out */
        }
    }
    json_t *object = json_pack("{s:s, s:s, s:i, s:o}", "order", lane_request_word(o->request.kind),
                               "by", by, "count", (int)o->count, "lanes", list);
    if (object != NULL && o->request.reason.len > 0) {
        api_set_text(object, "reason", o->request.reason);
    }
    return object;
}

static void carry_out(struct order *o)
{
    const struct lane_request *r = &o->request;
    const char *by = api_who(o->call);
    char reason[LIMITS_TEXT_MAX + 1];
    (void)snprintf(reason, sizeof(reason), "by %.30s%s" SLICE_FMT, by,
                   r->reason.len > 0 ? ": " : "", SLICE_ARG(r->reason));
    const struct limit_order order = {
        .kind = r->kind, .span = r->span, .rate = r->rate, .reason = slice_of(reason)};
    for (uint32_t i = 0; i < o->count; i++) {
        const struct limit_key key = key_of(&o->lanes[i]);
        int err = limits_order(o->engine->limits, &key, &order, clock_mono());
        if (err != 0) {
            api_error(o->call, err == ERR_LIMIT ? 429 : 503,
                      err == ERR_LIMIT ? "busy" : "unavailable",
                      "%s; carried out for %u of %u lanes", err_str(err), i, o->count);
            return;
        }
    }
    log_order(o, by);
    api_object(o->call, 200, answer(o, by));
}

void lane_order_give(struct clerk *k, struct api_call *c)
{
    char text[LANE_REQUEST_TEXT_MAX];
    struct order o = {.clerk = k, .call = c, .engine = k->engine};
    if (lane_request_read(api_body(c), &o.request, text) != 0) {
        api_error(c, 422, "wrong", "%s", text);
        return;
    }
    bool is_found = find_lanes(&o);
    if (o.is_short) {
        api_error(c, 503, "unavailable", "out of memory");
    } else if (o.is_too_many) {
        api_error(c, 422, "wrong", "more than %u lanes; say a site, and one source", o.count);
    } else if (is_found &&
               (o.request.kind != LIMIT_ORDER_PACE || o.request.has_source || is_one_source(&o))) {
        carry_out(&o);
        lane_memory_keep(k->engine); /* before the answer leaves: it holds over a kill */
    }
    free(o.lanes);
}
