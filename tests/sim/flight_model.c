#include "tests/sim/flight_model.h"

#include "sched/place/avoidance.h"
#include "sched/transport.h"
#include "tests/sim/require.h"
#include "tests/sim/sched_oracle.h"

static unsigned host_of(const struct sched_action *a)
{
    const struct flight_hosts *hosts = a->hosts;
    if (hosts == NULL || hosts->count == 0) {
        REQUIRE(a->server == 0 && a->server_notes == 0);
        return NO_HOST;
    }
    REQUIRE(a->server < hosts->count);
    return hosts->servers[a->server].key[0];
}

static bool find_view(const struct flight_model *m, unsigned host, struct sched_host_view *ret)
{
    uint64_t cursor = 0;
    while (sched_view_hosts(m->sched, &cursor, ret)) {
        REQUIRE(ret->key_len == 1 && ret->key[0] < HOSTS);
        if (ret->key[0] == host) {
            return true;
        }
    }
    return false;
}

static bool is_of_lane(const struct flight_connection *c, const struct flight_connection *other)
{
    if (c->site == 0 || other->site == 0) {
        return c->site == other->site && c->destination == other->destination;
    }
    return c->site == other->site && c->source == other->source;
}

/* What a server that limits the connections of one source counts, but for idle ones; all sources.
 */
static int count_busy(const struct flight_model *m, const struct flight_connection *like,
                      bool is_any_source)
{
    int busy = 0;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        const struct flight_connection *c = &m->connections[i];
        bool is_counted = is_any_source ? c->site == like->site : is_of_lane(c, like);
        busy += c != like && is_counted && (c->in_flight > 0 || c->is_ending);
    }
    return busy;
}

static const struct flight_hosts *hosts_of(const struct sched_action *a)
{
    static const struct flight_hosts none = {0};
    return a->hosts == NULL ? &none : a->hosts;
}

static const struct lane *lane_of(const struct flight_model *m, const struct sched_action *a)
{
    const struct site *site = a->destination->party->site;
    if (site == NULL) {
        return &a->destination->lane;
    }
    const struct site_lane *l = lane_find(site, source_find(m->sched, a->source));
    REQUIRE(l != NULL);
    return &l->lane;
}

/* The site went away and came back since its lane was given a ceiling: the core forgets that with the
 * site. */
static bool is_forgotten(const struct flight_model *m, const struct sched_action *a)
{
    const struct site *site = a->destination->party->site;
    if (site == NULL) {
        return false; /* it has left the site since it was placed */
    }
    const struct site_lane *l = lane_find(site, source_find(m->sched, a->source));
    return l != NULL && l->most_connections == 0;
}

static void open_connection(struct flight_model *m, const struct sched_action *a, usec_t now)
{
    struct flight_connection *c = &m->connections[a->connection];
    REQUIRE(!c->is_open && c->in_flight == 0);
    const struct flight_hosts *hosts = hosts_of(a);
    *c = (struct flight_connection){.is_open = true,
                                    .depth = 1,
                                    .host = host_of(a),
                                    .opened = now,
                                    .destination = a->destination,
                                    .site = hosts->site,
                                    .tls = hosts->tls,
                                    .name = hosts->count == 0 ? 0 : hosts->servers[a->server].name,
                                    .source = a->source};
    REQUIRE(m->is_delayed || count_busy(m, c, false) < lane_of(m, a)->window);
    uint32_t ceiling = c->site == 0 || c->source >= SOURCES ? 0 : m->ceilings[c->site][c->source];
    if (ceiling > 0 && is_forgotten(m, a)) {
        ceiling = m->ceilings[c->site][c->source] = 0;
    }
    REQUIRE(m->is_delayed || ceiling == 0 || count_busy(m, c, false) < (int)ceiling);
    REQUIRE(m->is_delayed || hosts->site == 0 || m->config.site_concurrency_limit == 0 ||
            m->was_reconfigured || count_busy(m, c, true) < m->config.site_concurrency_limit);
    if (c->host == NO_HOST) {
        return;
    }
    int open = 0;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        open += m->connections[i].is_open && m->connections[i].host == c->host;
    }
    /* Those that a smaller limit left are busy, and take nothing more. */
    REQUIRE(m->is_delayed || m->config.host_concurrency_limit == 0 ||
            open <= m->config.host_concurrency_limit || m->was_reconfigured);
    struct sched_host_view v;
    REQUIRE(find_view(m, c->host, &v));
    REQUIRE(m->is_delayed || v.connections == open);
    REQUIRE(m->is_delayed || v.retry_until <= now);
    REQUIRE(m->is_delayed || a->server_notes == (now < v.notes_until ? v.notes : 0));
}

/* Mail goes to hosts that its own destination names only, in its preference, by the name and the TLS
 * that it demands; whoever opened the connection. */
static void check_sharing(const struct flight_model *m, const struct flight_connection *c,
                          const struct sched_action *a)
{
    const struct flight_hosts *hosts = hosts_of(a);
    REQUIRE(c->destination == a->destination || c->site != 0);
    if (m->is_delayed || hosts->site == 0) {
        return;
    }
    REQUIRE(c->site == hosts->site && c->tls == hosts->tls && c->source == a->source);
    bool is_named = hosts->count == 0 && c->host == NO_HOST;
    for (uint32_t i = 0; i < hosts->count; i++) {
        is_named =
            is_named || (hosts->servers[i].key[0] == c->host && hosts->servers[i].name == c->name);
    }
    REQUIRE(is_named);
}

struct slice flight_site(unsigned site)
{
    return slice_make("12345678", site);
}

void flight_forget_lanes(struct flight_model *m)
{
    for (unsigned site = 0; site < SITES; site++) {
        for (unsigned source = 0; source < SOURCES; source++) {
            if (source_find(m->sched, source) == SCHED_SOURCES_MAX ||
                site_find(m->sched, flight_site(site)) == NULL) {
                m->closed_until[site][source] = 0;
                m->ceilings[site][source] = 0;
            }
        }
    }
    for (unsigned i = 0; i < m->used; i++) {
        for (unsigned source = 0; source < SOURCES; source++) {
            if (source_find(m->sched, source) == SCHED_SOURCES_MAX) {
                m->flights[i].tried_sources &= ~(1u << source);
            }
        }
    }
}

/* Mail goes by lanes of its pool that are open, or probing with nothing in flight. */
static void check_lane(const struct flight_model *m, const struct flight *f,
                       const struct sched_action *a, usec_t now)
{
    const struct party *p = a->destination->party;
    uint32_t place = source_find(m->sched, a->source);
    if (m->is_delayed || p->site == NULL) {
        return;
    }
    REQUIRE(place < SCHED_SOURCES_MAX && (f->tried_sources >> a->source & 1) == 0);
    REQUIRE((source_pool(m->sched, a->destination->pool) & source_bit(place)) != 0);
    REQUIRE((avoidance_mask(a->destination) & source_bit(place)) == 0);
    unsigned site = m->connections[a->connection].site;
    /* 1 stands for a lane that was closed at time 0 until time 0. */
    REQUIRE(site < SITES);
    REQUIRE(m->closed_until[site][a->source] <= (now > 0 ? now : 1));
    if (m->closed_until[site][a->source] > 0) {
        const struct flight_connection *c = &m->connections[a->connection];
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            const struct flight_connection *other = &m->connections[i];
            REQUIRE(other == c || !is_of_lane(c, other) || other->in_flight == 0);
        }
        REQUIRE(c->in_flight == 0);
    }
}

static void check_reuse(const struct flight_model *m, const struct sched_action *a, usec_t now)
{
    const struct flight_connection *c = &m->connections[a->connection];
    const struct sched_config *config = &m->config;
    REQUIRE(c->is_open && !c->is_closing);
    check_sharing(m, c, a);
    REQUIRE(m->is_delayed || m->has_terms || config->connection_age_limit == 0 ||
            now - c->opened < config->connection_age_limit);
}

static struct flight *flight_of(struct flight_model *m, const struct sched_entry *e)
{
    for (unsigned i = 0; i < m->used; i++) {
        if (m->flights[i].entry == e) {
            return &m->flights[i];
        }
    }
    return NULL;
}

struct flight *flight_deliver(struct flight_model *m, const struct sched_action *a, usec_t now,
                              bool *ret_is_back)
{
    REQUIRE(a->connection < m->process_limit_max);
    struct flight_connection *c = &m->connections[a->connection];
    if (a->connection_is_new) {
        open_connection(m, a, now);
    } else {
        check_reuse(m, a, now);
    }
    struct flight *f = flight_of(m, a->entry);
    *ret_is_back = f != NULL;
    if (f == NULL) {
        f = flight_of(m, NULL);
        if (f == NULL) {
            REQUIRE(m->used < FLIGHTS);
            f = &m->flights[m->used++];
        }
        *f = (struct flight){.entry = a->entry, .destination = a->destination};
        m->count++;
    } else {
        REQUIRE(f->place == FLIGHT_DISPLACED && f->destination == a->destination);
    }
    REQUIRE((f->tried >> c->host & 1) == 0);
    check_lane(m, f, a, now);
    f->place = FLIGHT_CARRIED;
    f->connection = a->connection;
    c->in_flight++;
    c->carried++;
    int depth = c->depth < m->config.pipeline_depth ? c->depth : m->config.pipeline_depth;
    /* A host that keeps quiet for an hour is forgotten. */
    usec_t broken = m->out_of_step[c->host];
    if (c->host != NO_HOST && broken > 0 && now < broken + 3600 * USEC_PER_SEC) {
        depth = 1;
    }
    REQUIRE(c->in_flight <= depth || (m->is_delayed && c->in_flight == 1));
    REQUIRE(m->is_delayed || m->has_terms || m->config.connection_reuse_limit == 0 ||
            c->carried <= m->config.connection_reuse_limit);
    return f;
}

/* What an entry has tried, as bits of its destination's servers. */
static uint64_t tried_servers(const struct flight *f)
{
    const struct sched_destination *d = f->destination;
    uint64_t tried = d->party->server_count == 0 && (f->tried >> NO_HOST & 1) != 0;
    for (uint32_t i = 0; i < d->party->server_count; i++) {
        tried |= (uint64_t)(f->tried >> d->party->servers[i].host->key[0] & 1) << i;
    }
    return tried;
}

void flight_exhaust(struct flight_model *m, const struct sched_action *a)
{
    struct flight *f = flight_of(m, a->entry);
    REQUIRE(f != NULL && f->place == FLIGHT_DISPLACED && f->destination == a->destination);
    f->place = FLIGHT_EXHAUSTED;
    const struct sched_destination *d = a->destination;
    if (m->is_delayed || d->lacks_hosts || destination_refuses(m->sched, d)) {
        return;
    }
    uint64_t sources = source_tried(m->sched, a->entry);
    if (sources != 0) {
        REQUIRE(sched_oracle_place(m->sched, d, tried_servers(f), sources) == ORACLE_NOTHING);
        return;
    }
    REQUIRE(d->party->server_count > 0 || (f->tried >> NO_HOST & 1) != 0);
    for (uint32_t i = 0; i < d->party->server_count; i++) {
        const struct destdb_host *h = d->party->servers[i].host;
        REQUIRE((f->tried >> h->key[0] & 1) != 0 || destdb_host_is_waiting(h) ||
                d->party->servers[i].families != SITE_FAMILIES);
    }
}

void flight_close(struct flight_model *m, const struct sched_action *a)
{
    struct flight_connection *c = &m->connections[a->connection];
    REQUIRE(c->is_open && c->in_flight == 0 && !c->is_ending);
    if (a->end_is_awaited) {
        REQUIRE(m->config.awaits_end);
        c->is_closing = c->is_ending = true;
    } else {
        *c = (struct flight_connection){0};
    }
}

void flight_end(struct flight_model *m, uint32_t connection, usec_t now)
{
    struct flight_connection *c = &m->connections[connection];
    if (c->in_flight == 0) {
        *c = (struct flight_connection){0};
    }
    c->is_ending = false;
    sched_connection_closed(m->sched, connection, now);
}

/* What was tried is known for the servers of the moment only. */
static bool is_listed(const struct sched_destination *d, unsigned host)
{
    bool is_found = d->party->server_count == 0 && host == NO_HOST;
    for (uint32_t i = 0; i < d->party->server_count; i++) {
        is_found = is_found || d->party->servers[i].host->key[0] == host;
    }
    return is_found;
}

/* What the host's failures may be after a report: none once MAIL was reached; as many as before
 * where that is not known; at most one more where it failed, none more while another connection is
 * live. */
static bool is_counted(const struct sched_outcome *o, int before, int after)
{
    if (o->server_failed) {
        return after == before || after == before + 1;
    }
    bool has_reached = o->connection_open || o->depth > 0 || o->feedback != SCHED_NEUTRAL;
    return after == (has_reached ? 0 : before);
}

static void report_carried(struct flight_model *m, struct flight *f, const struct sched_outcome *o,
                           usec_t now)
{
    struct flight_connection *c = &m->connections[f->connection];
    struct sched_host_view before, after;
    unsigned host = c->host;
    REQUIRE(host == NO_HOST || find_view(m, host, &before));
    c->in_flight--;
    c->is_closing |= !o->connection_open;
    c->is_ending |= o->connection_ends;
    c->is_open = !c->is_closing || c->in_flight > 0 || c->is_ending;
    c->depth = o->depth > 0 ? o->depth : c->depth;
    if (o->is_out_of_step) {
        m->out_of_step[host] = now + 1;
    }
    if (o->again && o->server_tried && is_listed(f->destination, host)) {
        f->tried |= 1u << host;
    }
    if (o->again && o->source_tried) {
        f->tried_sources |= 1u << c->source;
    }
    sched_report(m->sched, o, now);
    REQUIRE(host == NO_HOST || find_view(m, host, &after));
    REQUIRE(host == NO_HOST || is_counted(o, before.failures, after.failures));
}

void flight_report(struct flight_model *m, struct flight *f, const struct sched_outcome *o,
                   usec_t now)
{
    if (f->place == FLIGHT_CARRIED) {
        report_carried(m, f, o, now);
    } else {
        sched_report(m->sched, o, now);
    }
    if (o->again) {
        f->place = FLIGHT_DISPLACED;
        return;
    }
    f->entry = NULL;
    m->count--;
}

static unsigned hosts_of_party(const struct party *p)
{
    unsigned known = p->server_count == 0 ? 1u << NO_HOST : 0;
    for (uint32_t i = 0; i < p->server_count; i++) {
        known |= 1u << p->servers[i].host->key[0];
    }
    return known;
}

void flight_resolved(struct flight_model *m, const struct sched_destination *d,
                     const struct flight_hosts *hosts)
{
    unsigned known = hosts->count == 0 ? 1u << NO_HOST : 0;
    for (uint32_t i = 0; i < hosts->count; i++) {
        known |= 1u << hosts->servers[i].key[0];
    }
    for (unsigned i = 0; i < m->used; i++) {
        if (m->flights[i].entry != NULL && m->flights[i].destination == d) {
            /* At a site it has the servers of its party, until a successful answer changes that. */
            m->flights[i].tried &= d->party->site == NULL ? known : hosts_of_party(d->party);
        }
    }
}

void flight_check_idle(const struct flight_model *m)
{
    for (unsigned i = 0; i < m->used; i++) {
        const struct flight *f = &m->flights[i];
        REQUIRE(f->entry == NULL || f->place != FLIGHT_DISPLACED ||
                sched_oracle_place(m->sched, f->destination, tried_servers(f),
                                   source_tried(m->sched, f->entry)) == ORACLE_LATER);
    }
}
