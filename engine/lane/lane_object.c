/* Writes lanes as JSON. A member for which there is no memory is left out. */
#include "engine/lane/lane_object.h"

#include "engine/config/config.h"
#include "engine/http/api.h"
#include "engine/order/order_book.h"
#include "engine/schedule/lanes.h"
#include "engine/schedule/receiver.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "sched/limit/pace.h"
#include "sched/limit/rate_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const lane_units[LIMIT_PACES] = {
    [PACE_MESSAGES] = "messages", [PACE_RECIPIENTS] = "recipients", [PACE_CONNECTS] = "connects"};

/* --- members ---------------------------------------------------------------------------------- */

static void set_list(json_t *o, const char *name, json_t *list)
{
    if (json_array_size(list) > 0) {
        (void)json_object_set_new(o, name, list);
    } else {
        json_decref(list);
    }
}

static void set_cause(json_t *o, const struct limit_fact *fact)
{
    if (fact->since == 0) {
        return;
    }
    api_set_time(o, "since", fact->since);
    api_set_number(o, "times", fact->times);
    if (fact->rule[0] != '\0') {
        api_set_text(o, "rule", slice_of(fact->rule));
    }
    if (fact->text[0] != '\0') {
        api_set_text(o, "text", slice_of(fact->text));
    }
}

static void set_paces(json_t *o, const struct limit_lane_report *r)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < LIMIT_PACES; i++) {
        if (r->paces[i] > 0) {
            json_t *pace = json_pack("{s:s, s:f}", "of", lane_units[i], "per_second",
                                     round(r->paces[i] * 1e4) / 1e4);
            if (pace != NULL && r->pace_until[i] > clock_wall()) {
                api_set_time(pace, "until", r->pace_until[i]);
            }
            set_cause(pace, &r->pace_facts[i]);
            (void)json_array_append_new(list, pace);
        }
    }
    set_list(o, "paces", list);
}

static void add_ceiling(json_t *list, const char *of, uint32_t most, const struct limit_fact *fact)
{
    json_t *o = most == 0 ? NULL : json_pack("{s:s, s:i}", "of", of, "most", (int)most);
    if (o != NULL) {
        set_cause(o, fact);
        (void)json_array_append_new(list, o);
    }
}

static void set_ceilings(json_t *o, const struct limit_lane_report *r)
{
    json_t *list = json_array();
    add_ceiling(list, "connections", r->state.most_connections, &r->connections_fact);
    add_ceiling(list, "messages", r->state.most_messages, &r->session_fact);
    set_list(o, "ceilings", list);
}

static void set_stop(json_t *o, const char *name, bool is_ordered, usec_t until,
                     const struct limit_fact *fact)
{
    json_t *stop = json_pack("{s:s}", "by", is_ordered ? "order" : "receiver");
    if (stop != NULL) {
        api_set_time(stop, "until", until);
        set_cause(stop, fact);
        (void)json_object_set_new(o, name, stop);
    }
}

static void add_rate(json_t *list, enum limit_owner owner, const char *unit,
                     const struct rate_rule *rule)
{
    char text[RATE_TEXT_BYTES];
    if (rule->count > 0) {
        rate_print(rule, text);
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s, s:s}", "of", limit_owner_text(owner),
                                              "unit", unit, "rate", text));
    }
}

static void set_rates(json_t *o, const struct limit_lane_report *r)
{
    json_t *rates = json_array(), *quotas = json_array();
    for (enum limit_owner owner = LIMIT_OF_LANE; owner <= LIMIT_OF_SOURCE; owner++) {
        const struct limit_rates *rate = &r->rates[owner];
        add_rate(rates, owner, lane_units[PACE_MESSAGES], &rate->messages);
        add_rate(rates, owner, lane_units[PACE_RECIPIENTS], &rate->recipients);
        add_rate(rates, owner, lane_units[PACE_CONNECTS], &rate->connects);
        if (r->quota_left[owner] != UINT64_MAX) {
            char text[RATE_TEXT_BYTES];
            json_t *quota = json_pack("{s:s, s:I}", "of", limit_owner_text(owner), "left",
                                      (json_int_t)r->quota_left[owner]);
            rate_print(&rate->quota, text);
            if (quota != NULL && rate->quota.count > 0) {
                api_set_text(quota, "quota", slice_of(text));
            }
            (void)json_array_append_new(quotas, quota);
        }
    }
    set_list(o, "rates", rates);
    set_list(o, "quotas", quotas);
}

static void set_destinations(json_t *o, const struct engine *e, const struct lane_view *v,
                             uint32_t most)
{
    const struct limit_key key = {slice_of(v->limits.source), slice_of(v->limits.site),
                                  slice_of(v->limits.hosts)};
    json_t *list = json_array();
    struct limit_destination_report *found =
        v->limits.closed_destinations == 0 ? NULL : calloc(most + 1, sizeof(*found));
    uint32_t count = found == NULL ? 0
                                   : limits_report_destinations(e->limits, &key, found, most,
                                                                clock_mono(), clock_wall());
    for (uint32_t i = 0; i < count; i++) {
        json_t *one = json_object();
        api_set_text(one, "destination", slice_of(found[i].destination));
        api_set_text(one, "reason", slice_of(found[i].reason));
        api_set_time(one, "since", found[i].since);
        api_set_time(one, "until", found[i].until);
        (void)json_array_append_new(list, one);
    }
    free(found);
    set_list(o, "destinations", list);
}

/* A standing order keeps everything from leaving by the source, whatever the lane allows. */
static void set_suspended(json_t *o, const struct engine *e, struct slice source)
{
    char id[24];
    const struct order *bar =
        source.len == 0 ? NULL : order_book_bar_of(e->orders, source, clock_wall());
    json_t *one = bar == NULL ? NULL : json_object();
    if (one != NULL) {
        (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)bar->id);
        api_set_text(one, "order", slice_of(id));
        api_set_time(one, "until", bar->until);
        api_set_text(one, "reason", slice_of(bar->reason));
        (void)json_object_set_new(o, "suspended", one);
    }
}

static json_t *suspension_object(const struct order *order)
{
    char id[24];
    json_t *o = json_object();
    const char *tenant = order->selector.value[SELECTOR_TENANT];
    const char *campaign = order->selector.value[SELECTOR_CAMPAIGN];
    (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)order->id);
    api_set_text(o, "order", slice_of(id));
    if (tenant != NULL) {
        api_set_text(o, "tenant", slice_of(tenant));
    }
    if (campaign != NULL) {
        api_set_text(o, "campaign", slice_of(campaign));
    }
    api_set_time(o, "until", order->until);
    api_set_text(o, "reason", slice_of(order->reason));
    return o;
}

void lane_set_suspensions(json_t *o, const struct engine *e, struct slice site)
{
    enum { LISTED_MAX = 10 };
    usec_t now = clock_wall();
    const struct order *at = NULL;
    json_t *list = order_book_has_site_orders(e->orders) ? json_array() : NULL;
    if (list == NULL) {
        return; /* also for want of memory */
    }
    for (uint64_t id = 0;
         json_array_size(list) < LISTED_MAX && (at = order_book_next(e->orders, id, NULL)) != NULL;
         id = at->id) {
        if (at->site != NULL && at->until > now && slice_eq(slice_of(at->site), site)) {
            (void)json_array_append_new(list, suspension_object(at)); /* likewise */
        }
    }
    set_list(o, "suspensions", list);
}

/* --- the object ------------------------------------------------------------------------------- */

static void set_waits(json_t *o, const struct limit_lane_report *r)
{
    enum limit_cause cause = lane_view_waits(r, clock_wall());
    json_t *wait = cause == LIMIT_NO_CAUSE ? NULL
                                           : json_pack("{s:s, s:s}", "for", limit_cause_text(cause),
                                                       "of", limit_owner_text(r->waits_whose));
    if (wait != NULL) {
        if (r->waits_until > 0) {
            api_set_time(wait, "until", r->waits_until);
        }
        (void)json_object_set_new(o, "waits", wait);
    }
}

static void set_limits(json_t *o, const struct engine *e, const struct lane_view *v,
                       uint32_t destinations)
{
    const struct limit_lane_report *r = &v->limits;
    set_waits(o, r);
    set_paces(o, r);
    set_ceilings(o, r);
    if (v->state == LANE_CLOSED || v->state == LANE_PROBING) {
        set_stop(o, "closed", r->is_ordered, r->state.until, &r->closed_fact);
    }
    if (r->paused_until > 0) {
        set_stop(o, "paused", false, r->paused_until, &r->paused_fact);
    }
    set_rates(o, r);
    api_set_number(o, "open_connections", r->open_connections);
    if (r->last_accepted > 0) {
        api_set_time(o, "last_accepted", r->last_accepted);
    }
    api_set_number(o, "closed_destinations", r->closed_destinations);
    set_destinations(o, e, v, destinations);
}

static void set_core(json_t *o, const struct engine *e, const struct lane_view *v)
{
    const struct sched_lane_view *core = &v->core;
    api_set_text(o, "transport", slice_of(settings_of(e)->config->transports[v->transport].name));
    const struct {
        const char *name;
        int value;
    } numbers[] = {{"window", core->window},
                   {"busy", core->busy},
                   {"connections", core->connections},
                   {"idle", core->idle},
                   {"in_flight", core->in_flight}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        (void)json_object_set_new(o, numbers[i].name, json_integer(numbers[i].value));
    }
}

json_t *lane_object(const struct engine *e, const struct lane_view *v, uint32_t destinations)
{
    json_t *o = json_object();
    if (o == NULL) {
        return NULL;
    }
    struct slice name, hosts;
    const struct config *c = settings_of(e)->config;
    size_t provider = receiver_provider(c, v->site);
    receiver_limits(v->site, &name, &hosts);
    api_set_text(o, "site", v->site);
    if (provider < c->provider_count) {
        api_set_text(o, "provider", slice_of(c->providers[provider].options.name));
    }
    if (hosts.len > 0) {
        api_set_text(o, "hosts", hosts);
    }
    api_set_text(o, "source", v->source);
    api_set_text(o, "state", slice_of(lane_state_text(v->state)));
    if (v->until > 0) {
        api_set_time(o, "until", v->until);
    }
    set_suspended(o, e, v->source);
    lane_set_suspensions(o, e, v->site);
    if (v->transport != LANE_NO_TRANSPORT) {
        set_core(o, e, v);
    }
    if (v->has_limits) {
        set_limits(o, e, v, destinations);
    }
    return o;
}
