/* Lists lanes. Sites are ranked by what their keys and loads are (destination_rank), and looked up
 * again when their lanes are written; those that only struct limits remembers are read page by page.
 * Reads under RCU and by limits_report; changes nothing. */
#include "engine/lane/lane_report.h"

#include "engine/config/config.h"
#include "engine/http/clerk.h"
#include "engine/lane/destination_rank.h"
#include "engine/lane/lane_object.h"
#include "engine/lane/lane_view.h"
#include "engine/schedule/destination_site.h"
#include "engine/schedule/receiver.h"
#include "engine/schedule/sched_thread.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <stdlib.h>
#include <string.h>

enum { SITES_MAX = 200 }; /* of sort=worst-sites, which has all lanes of each */

struct site_name {
    size_t len; /* 0: none */
    char text[RECEIVER_SITE_MAX];
};

struct question {
    struct slice match, site, transport; /* "": all */
    bool has_source;
    struct slice source;
    bool is_any_state;
    bool has_state[LANE_STATE_COUNT];
    struct site_name *sites; /* own; [transport_count] of a destination; NULL: any */
    uint32_t site_count;
    uint64_t limit, destinations;
    bool is_worst_first, is_by_site;
};

struct listing {
    struct clerk *clerk;
    struct api_call *call;
    const struct engine *engine;
    struct question question;
    struct destination_rank rank;
};

/* --- what is asked for ------------------------------------------------------------------------ */

static bool has_part(struct slice text, struct slice part)
{
    return part.len == 0 || memmem(text.data, text.len, part.data, part.len) != NULL;
}

/* transport: LANE_NO_TRANSPORT: of any */
static bool fits_site(const struct question *q, uint32_t transport, struct slice site)
{
    bool is_of_destination = q->sites == NULL;
    for (uint32_t t = 0; t < q->site_count && !is_of_destination; t++) {
        is_of_destination = (transport == t || transport == LANE_NO_TRANSPORT) &&
                            q->sites[t].len > 0 &&
                            slice_eq(slice_make(q->sites[t].text, q->sites[t].len), site);
    }
    bool is_site = q->site.len == 0 || slice_eq(q->site, site);
    return is_of_destination && is_site && has_part(site, q->match);
}

static bool fits_lane(const struct question *q, const struct lane_view *v)
{
    return q->has_state[v->state] && (!q->has_source || slice_eq(q->source, v->source));
}

static bool take_state(struct api_call *c, struct question *q)
{
    struct slice word;
    q->is_any_state = !api_param(c, "state", &word);
    bool is_found = q->is_any_state;
    for (enum lane_state i = 0; i < LANE_STATE_COUNT; i++) {
        q->has_state[i] = q->is_any_state || slice_eq(word, slice_of(lane_state_text(i)));
        is_found = is_found || q->has_state[i];
    }
    if (!is_found) {
        api_error(c, 400, "usage", "state: open, paced, paused, closed, probing or dead");
    }
    return is_found;
}

static bool take_sort(struct api_call *c, struct question *q, enum destination_order *ret)
{
    struct slice word;
    *ret = DESTINATION_ORDER_NONE;
    if (api_param(c, "sort", &word)) {
        q->is_by_site = slice_eq(word, SLICE("worst-sites"));
        q->is_worst_first = q->is_by_site || slice_eq(word, SLICE("worst"));
        if (q->is_worst_first) {
            *ret = DESTINATION_ORDER_LOAD; /* of those with which nothing is wrong */
            return true;
        }
        *ret = destination_order_find(word);
        if (*ret != DESTINATION_ORDER_NAME && *ret != DESTINATION_ORDER_LOAD) {
            api_error(c, 400, "usage", "sort: name, load, worst or worst-sites");
            return false;
        }
    }
    return true;
}

/* The site of the destination in each transport, now or when its hosts were found last. false: the
 * call was answered */
static bool take_destination(struct api_call *c, const struct engine *e, struct question *q)
{
    struct slice name;
    char lower[LIMITS_NAME_MAX];
    if (!api_param(c, "destination", &name)) {
        return true;
    }
    if (name.len > sizeof(lower)) {
        api_error(c, 400, "usage", "destination: at most %zu bytes", sizeof(lower));
        return false;
    }
    slice_lower(name, lower);
    name.data = lower;
    uint32_t count = (uint32_t)settings_of(e)->transport_count;
    q->sites = calloc(count, sizeof(*q->sites));
    if (q->sites == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return false;
    }
    q->site_count = count;
    for (uint32_t t = 0; t < count; t++) {
        struct destination_site site;
        destination_site_find(e, t, name, &site);
        if (site.key.len > 0 && site.key.len <= sizeof(q->sites[t].text)) {
            memcpy(q->sites[t].text, site.key.data, site.key.len);
            q->sites[t].len = site.key.len;
        }
    }
    return true;
}

static bool take_question(struct listing *l, enum destination_order *ret_order)
{
    struct question *q = &l->question;
    struct api_call *c = l->call;
    (void)api_param(c, "match", &q->match); /* a parameter that is missing leaves it "" */
    (void)api_param(c, "site", &q->site);
    (void)api_param(c, "transport", &q->transport);
    q->has_source = api_param(c, "source", &q->source);
    if (slice_eq(q->source, SLICE("-"))) {
        q->source = SLICE("");
    }
    return take_state(c, q) && take_sort(c, q, ret_order) && api_param_limit(c, &q->limit) &&
           api_param_number(c, "destinations", 0, LANE_DESTINATIONS_MAX, LANE_DESTINATIONS_DEFAULT,
                            &q->destinations) &&
           take_destination(c, l->engine, q);
}

/* --- lanes of cores --------------------------------------------------------------------------- */

static const struct sched *core_of(const struct listing *l, uint32_t transport)
{
    const struct engine *e = l->engine;
    return sched_thread_core(e->scheds[transport % e->sched_count], transport);
}

static bool has_fitting_lane(const struct listing *l, uint32_t transport, struct slice site)
{
    struct lane_view v;
    if (l->question.is_any_state && !l->question.has_source) {
        return true;
    }
    for (uint32_t i = 0; lane_view_in_core(l->engine, transport, site, i, &v); i++) {
        if (fits_lane(&l->question, &v)) {
            return true;
        }
    }
    return false;
}

static void rank_sites(struct listing *l, uint32_t transport)
{
    const struct question *q = &l->question;
    const char *name = settings_of(l->engine)->config->transports[transport].name;
    struct sched_site_view v;
    uint64_t cursor = 0;
    if (q->transport.len > 0 && !slice_eq(q->transport, slice_of(name))) {
        return;
    }
    while (!destination_rank_is_full(&l->rank) &&
           sched_view_sites(core_of(l, transport), &cursor, &v)) {
        if (fits_site(q, transport, v.key) && has_fitting_lane(l, transport, v.key)) {
            struct sched_destination_view row = {
                .name = v.key, .in_flight = v.in_flight, .todo = v.todo};
            if (q->is_worst_first && v.state == SCHED_LANE_DEAD) {
                row.todo = INT32_MAX; /* before all others */
            }
            destination_rank_add(&l->rank, transport, &row);
        }
    }
}

static void put_site(const struct listing *l, const struct destination_row *row)
{
    struct lane_view v;
    for (uint32_t i = 0; lane_view_in_core(l->engine, row->transport, row->view.name, i, &v); i++) {
        bool was_put = l->question.is_worst_first && !l->question.is_by_site && v.has_limits &&
                       limits_report_is_troubled(&v.limits);
        if (fits_lane(&l->question, &v) && !was_put) {
            api_put(l->call, lane_object(l->engine, &v, (uint32_t)l->question.destinations));
        }
    }
}

/* --- remembered ones -------------------------------------------------------------------------- */

/* returns whether there are more than may be listed */
static bool put_remembered(struct listing *l)
{
    const struct question *q = &l->question;
    struct limit_lane_report *page = calloc(LIMITS_PAGE_MAX, sizeof(*page));
    struct lane_view v;
    uint64_t left = q->limit - l->rank.count;
    uint32_t at = 0, count;
    bool has_more = false;
    while (page != NULL && !has_more &&
           (count = limits_report(l->engine->limits, &at, page, LIMITS_PAGE_MAX, clock_mono(),
                                  clock_wall())) > 0) {
        for (uint32_t i = 0; i < count && !has_more; i++) {
            if (page[i].holds > 0) {
                continue;
            }
            lane_view_remembered(&page[i], &v);
            if (fits_site(q, LANE_NO_TRANSPORT, v.site) && fits_lane(q, &v)) {
                has_more = left == 0 || api_is_long(l->call);
                if (!has_more) {
                    left--;
                    api_put(l->call, lane_object(l->engine, &v, (uint32_t)q->destinations));
                }
            }
        }
        clerk_quiesce(l->clerk);
    }
    free(page);
    return has_more;
}

/* --- the worst first -------------------------------------------------------------------------- */

/* What is wrong counts first, then whether anybody uses the lane now. */
static int32_t badness(const struct limit_lane_report *r)
{
    static const int32_t weights[LANE_STATE_COUNT] = {[LANE_CLOSED] = 5,
                                                      [LANE_PROBING] = 4,
                                                      [LANE_PAUSED] = 3,
                                                      [LANE_PACED] = 2,
                                                      [LANE_OPEN] = 1};
    usec_t until;
    enum lane_state state = lane_view_state(NULL, r, clock_mono(), clock_wall(), &until);
    uint32_t open = r->open_connections < 1U << 20 ? r->open_connections : 1U << 20;
    return (weights[state] << 24) + (r->holds > 0 ? 1 << 22 : 0) + (int32_t)open;
}

/* A row of the rank is named by its key, with a NUL behind each part. */
static void rank_lane(struct destination_rank *rank, const struct limit_lane_report *r)
{
    char name[3 * (LIMITS_NAME_MAX + 1)];
    const char *parts[] = {r->site, r->hosts, r->source};
    size_t len = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t part = strlen(parts[i]) + 1;
        memcpy(name + len, parts[i], part);
        len += part;
    }
    const struct sched_destination_view row = {.name = slice_make(name, len), .todo = badness(r)};
    destination_rank_add(rank, LANE_NO_TRANSPORT, &row);
}

static void rank_troubled(struct listing *l, struct destination_rank *rank)
{
    struct limit_lane_page page = {calloc(LIMITS_PAGE_MAX, sizeof(*page.lanes)), LIMITS_PAGE_MAX,
                                   0};
    const struct question *q = &l->question;
    struct lane_view v;
    uint32_t at = 0;
    rank->has_failed = page.lanes == NULL;
    while (page.lanes != NULL &&
           limits_report_troubled(l->engine->limits, &at, &page, clock_mono(), clock_wall())) {
        for (uint32_t i = 0; i < page.count; i++) {
            lane_view_remembered(&page.lanes[i], &v);
            bool has_source = !q->has_source || slice_eq(q->source, v.source);
            if (has_source && fits_site(q, LANE_NO_TRANSPORT, v.site)) {
                rank_lane(rank, &page.lanes[i]);
            }
        }
        clerk_quiesce(l->clerk);
    }
    free(page.lanes);
}

/* Of each transport that has the lane; else as it is remembered. */
static void put_troubled(struct listing *l, const struct limit_lane_report *r)
{
    const struct settings *settings = settings_of(l->engine);
    const struct question *q = &l->question;
    struct lane_view all, v;
    bool has_any = false;
    lane_view_remembered(r, &all);
    for (uint32_t t = 0; t < settings->transport_count; t++) {
        bool is_wanted = q->transport.len == 0 ||
                         slice_eq(q->transport, slice_of(settings->config->transports[t].name));
        for (uint32_t i = 0; lane_view_in_core(l->engine, t, all.site, i, &v); i++) {
            bool is_it = slice_eq(v.source, all.source);
            has_any = has_any || is_it;
            if (is_it && is_wanted && fits_site(q, t, v.site) && fits_lane(q, &v)) {
                api_put(l->call, lane_object(l->engine, &v, (uint32_t)q->destinations));
            }
        }
    }
    if (!has_any && q->transport.len == 0 && fits_lane(q, &all)) {
        api_put(l->call, lane_object(l->engine, &all, (uint32_t)q->destinations));
    }
}

/* The lane that a row of the rank is named by. */
static struct limit_key key_of_row(const struct destination_row *row)
{
    const char *site = row->view.name.data, *hosts = site + strlen(site) + 1;
    return (struct limit_key){.site = slice_of(site),
                              .hosts = slice_of(hosts),
                              .source = slice_of(hosts + strlen(hosts) + 1)};
}

static bool is_same_place(const struct limit_key *a, const struct limit_key *b)
{
    return slice_eq(a->site, b->site) && slice_eq(a->hosts, b->hosts);
}

/* Whether it is the site of one of the first rows, as receiver.h names sites. */
static bool is_site_among(const struct destination_rank *rank, size_t count, struct slice site)
{
    struct slice name, hosts;
    receiver_limits(site, &name, &hosts);
    const struct limit_key wanted = {.site = name, .hosts = hosts};
    for (size_t i = 0; i < count; i++) {
        const struct limit_key key = key_of_row(&rank->rows[i]);
        if (is_same_place(&key, &wanted)) {
            return true;
        }
    }
    return false;
}

static void put_row(struct listing *l, const struct destination_row *row)
{
    const struct limit_key key = key_of_row(row);
    struct limit_lane_report r;
    if (limits_report_lane(l->engine->limits, &key, clock_mono(), clock_wall(), &r)) {
        put_troubled(l, &r);
    }
}

/* As many as are wanted of those of which something stands. returns whether there are more */
static bool put_worst(struct listing *l, const struct destination_rank *rank)
{
    size_t i = 0;
    for (; i < rank->count && !api_is_long(l->call); i++) {
        put_row(l, &rank->rows[i]);
    }
    return rank->has_more || i < rank->count;
}

/* The other lanes of a site: those of which nothing stands. */
static void put_untroubled(struct listing *l, const struct limit_key *key)
{
    struct limit_lane_report r = {.id = 0};
    struct lane_view place, v;
    memcpy(r.site, key->site.data, key->site.len);
    memcpy(r.hosts, key->hosts.data, key->hosts.len);
    lane_view_remembered(&r, &place);
    for (uint32_t t = 0; t < settings_of(l->engine)->transport_count; t++) {
        const char *name = settings_of(l->engine)->config->transports[t].name;
        const struct question *q = &l->question;
        bool is_wanted = q->transport.len == 0 || slice_eq(q->transport, slice_of(name));
        for (uint32_t i = 0; is_wanted && lane_view_in_core(l->engine, t, place.site, i, &v); i++) {
            bool is_put = v.has_limits && limits_report_is_troubled(&v.limits);
            if (!is_put && fits_site(q, t, v.site) && fits_lane(q, &v)) {
                api_put(l->call, lane_object(l->engine, &v, (uint32_t)q->destinations));
            }
        }
    }
}

/* Of so many sites at most, in the order of the worst lane of each, all lanes together.
 *
 * ret_count  how many rows were gone through
 * returns    how many sites were put */
static uint64_t put_worst_sites(struct listing *l, const struct destination_rank *rank,
                                size_t *ret_count)
{
    uint64_t sites = 0;
    size_t i = 0;
    for (; i < rank->count && sites < l->question.limit && !api_is_long(l->call); i++) {
        const struct limit_key key = key_of_row(&rank->rows[i]);
        bool is_first = true;
        for (size_t k = 0; k < i && is_first; k++) {
            const struct limit_key other = key_of_row(&rank->rows[k]);
            is_first = !is_same_place(&key, &other);
        }
        for (size_t k = i; k < rank->count && is_first; k++) {
            const struct limit_key other = key_of_row(&rank->rows[k]);
            if (is_same_place(&key, &other)) {
                put_row(l, &rank->rows[k]);
            }
        }
        if (is_first) {
            put_untroubled(l, &key);
            sites++;
        }
    }
    *ret_count = i;
    return sites;
}

static void put_lanes(struct listing *l)
{
    size_t i = 0;
    for (; i < l->rank.count && !api_is_long(l->call); i++) {
        put_site(l, &l->rank.rows[i]);
    }
    bool has_more = l->rank.has_more || i < l->rank.count;
    if (!has_more && l->question.transport.len == 0) {
        has_more = put_remembered(l);
    }
    api_end(l->call, has_more);
}

/* The sites by their order, at most so many. false: the call was answered */
static bool rank_all_sites(struct listing *l, enum destination_order order, uint64_t limit)
{
    destination_rank_init(&l->rank, order, limit);
    for (uint32_t t = 0; t < settings_of(l->engine)->transport_count; t++) {
        rank_sites(l, t);
        clerk_quiesce(l->clerk);
    }
    destination_rank_finish(&l->rank);
    if (l->rank.has_failed) {
        api_error(l->call, 503, "unavailable", "out of memory");
    }
    return !l->rank.has_failed;
}

/* So many of the busiest sites that are not among the first rows of the rank. returns whether there are
 * more */
static bool put_other_sites(struct listing *l, const struct destination_rank *worst, size_t count,
                            uint64_t left)
{
    size_t i = 0;
    for (; i < l->rank.count && left > 0 && !api_is_long(l->call); i++) {
        if (!is_site_among(worst, count, l->rank.rows[i].view.name)) {
            put_site(l, &l->rank.rows[i]);
            left--;
        }
    }
    return l->rank.has_more || i < l->rank.count;
}

static void put_worst_first(struct listing *l, const struct destination_rank *worst)
{
    const struct question *q = &l->question;
    size_t gone_through = 0;
    bool has_more = worst->has_more;
    if (q->is_by_site) {
        uint64_t put = put_worst_sites(l, worst, &gone_through);
        has_more = has_more || gone_through < worst->count;
        has_more = put_other_sites(l, worst, gone_through, q->limit - put) || has_more;
    } else {
        has_more = put_worst(l, worst);
        has_more = put_other_sites(l, worst, 0, q->limit - worst->count) || has_more;
    }
    api_end(l->call, has_more);
}

static void list_worst(struct listing *l)
{
    enum { LANES_OF_A_SITE = 16 }; /* that may be as bad as that of the last site */
    struct destination_rank worst;
    uint64_t lanes = l->question.limit;
    if (l->question.is_by_site) {
        l->question.limit = lanes = lanes < SITES_MAX ? lanes : SITES_MAX;
        lanes *= LANES_OF_A_SITE;
    }
    destination_rank_init(&worst, DESTINATION_ORDER_LOAD, lanes);
    rank_troubled(l, &worst);
    destination_rank_finish(&worst);
    if (worst.has_failed) {
        api_error(l->call, 503, "unavailable", "out of memory");
    } else if (rank_all_sites(l, DESTINATION_ORDER_LOAD, l->question.limit)) {
        put_worst_first(l, &worst);
    }
    destination_rank_fini(&worst);
}

void lane_report_list(struct clerk *k, struct api_call *c)
{
    struct listing l = {
        .clerk = k,
        .call = c,
        .engine = k->engine,
        .question = {
            .match = SLICE(""), .site = SLICE(""), .transport = SLICE(""), .source = SLICE("")}};
    enum destination_order order;
    if (take_question(&l, &order)) {
        if (l.question.is_worst_first) {
            list_worst(&l);
        } else if (rank_all_sites(&l, order, l.question.limit)) {
            put_lanes(&l);
        }
        destination_rank_fini(&l.rank);
    }
    free(l.question.sites);
}
