#include "tests/sim/sched_driver.h"

#include "base/hash.h"
#include "sched/sched.h"
#include "sched/transport.h"
#include "tests/sim/driver_state.h"
#include "tests/sim/lane_moves.h"
#include "tests/sim/require.h"
#include "tests/sim/sched_oracle.h"

#include <errno.h>
#include <string.h>

struct question {
    struct sched_destination *destination;
    struct question *next;
};

static const struct sched_reason withdrawal = {"4.7.0", "left alone by order"};

static void *allocate(void *ctx, size_t size)
{
    struct driver *d = ctx;
    if (d->fail_after == 0) {
        return NULL;
    }
    d->fail_after -= d->fail_after > 0;
    d->objects++;
    return malloc(size);
}

static void release(void *ctx, void *obj)
{
    struct driver *d = ctx;
    d->objects--;
    free(obj);
}

/* Hosts are counted objects, so that a late or double release is seen by ASan. */
static void release_hosts(void *ctx, void *hosts)
{
    struct driver *d = ctx;
    d->hosts--;
    free(hosts);
}

static void act(struct driver *d, const struct sched_action *a);

void driver_check(struct driver *d)
{
    struct sched_fault fault;
    if (sched_check(d->sched, &fault) != 0) {
        (void)fprintf(stderr, "sched_check: %s\n", fault.text);
        abort();
    }
    REQUIRE(sched_in_flight(d->sched) == d->flights.count);
    sched_oracle_check(d->sched);
}

static void submit(struct driver *d)
{
    uint64_t id = d->mail.next_id;
    if (!mail_write(&d->mail, &d->choices)) {
        return;
    }
    struct sched_message part = mail_next_part(&d->mail, id, sched_read_limit(d->sched));
    part.owner = owner_moves_of(d);
    if (d->has_flows) {
        part.flow = (struct sched_flow_key){take(d, 3), take(d, 3), take(d, 2)};
        part.weight = (uint16_t)take(d, 5);
    }
    if (sched_submit(d->sched, &part, d->now) == 0) {
        struct mail_message *m = mail_of(&d->mail, id);
        m->is_active = true;
        mail_accepted(m, &part);
        d->mail.next_id++;
    }
}

static void read_more(struct driver *d, uint64_t id, uint32_t wanted)
{
    struct sched_message part = mail_next_part(&d->mail, id, wanted);
    if (sched_submit_more(d->sched, &part, d->now) == 0) {
        struct mail_message *m = mail_of(&d->mail, id);
        m->is_reading = false;
        mail_accepted(m, &part);
    }
}

static void deliver(struct driver *d, const struct sched_action *a)
{
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(a->entry, &count);
    REQUIRE(sched_entry_message_id(a->entry) == a->message_id);
    REQUIRE(sched_destination_nexthop(a->destination).data[0] != '@');
    bool is_back;
    (void)flight_deliver(&d->flights, a, d->now, &is_back);
    loan_used(&d->flights.loans, a, count, d->flights.is_delayed, d->now);
    if (!is_back) {
        owner_moves_used(d, a, count, d->flights.is_delayed);
    }
    int limit = d->config.destination_recipient_limit;
    REQUIRE(limit == 0 || count <= (uint32_t)limit || is_back);
    mail_move(a->handle, indexes, count, is_back ? BUSY : WAITING, BUSY);
    REQUIRE((a->hosts != NULL) == d->config.must_resolve || !a->connection_is_new);
}

static void ask(struct driver *d, struct sched_destination *destination)
{
    for (struct question *q = d->questions; q != NULL; q = q->next) {
        REQUIRE(q->destination != destination);
    }
    struct question *q = malloc(sizeof(*q));
    REQUIRE(q != NULL);
    *q = (struct question){destination, d->questions};
    d->questions = q;
}

/* What was done so far: which action, for whom, on what. */
static void digest(struct driver *d, const struct sched_action *a)
{
    uint64_t what[] = {(uint64_t)a->kind, a->message_id,  a->connection,
                       a->source,         a->index_count, a->wanted};
    bool has_name = a->destination != NULL;
    struct slice name = has_name ? sched_destination_name(a->destination) : SLICE("");
    d->digest = hash_bytes(what, sizeof(what), d->digest ^ (uint64_t)d->now);
    d->digest = hash_bytes(name.data, name.len, d->digest);
}

static void act(struct driver *d, const struct sched_action *a)
{
    struct mail_message *m = a->handle;
    digest(d, a);
    REQUIRE(m == NULL || m == mail_of(&d->mail, a->message_id));
    switch (a->kind) {
    case SCHED_DELIVER:
        deliver(d, a);
        if (sched_destination_is_bound(a->destination) && take(d, 2) == 0) {
            struct sched_bound bound = {.until = d->now + USEC_PER_SEC * take(d, 5)};
            bound.turn = bound.until + USEC_PER_SEC * take(d, 64);
            bound.why = take(d, 2) == 0 ? SCHED_WHY_QUOTA : SCHED_WHY_RATE;
            sched_bound_wait(d->sched, a->entry, &bound, d->now);
        }
        break;
    case SCHED_RESOLVE:
        REQUIRE(d->config.must_resolve);
        ask(d, a->destination);
        break;
    case SCHED_CLOSE:
        flight_close(&d->flights, a);
        break;
    case SCHED_EXHAUSTED:
        flight_exhaust(&d->flights, a);
        break;
    case SCHED_DEFER:
    case SCHED_BOUNCE:
        /* 4.3.5: it avoids the one source that is left. */
        REQUIRE(!d->is_kind || (a->is_paced && (d->has_owners || d->flights.has_terms)) ||
                strcmp(a->reason->status, "4.3.5") == 0);
        REQUIRE(a->reason->text[0] != '\0' && a->destination != NULL);
        REQUIRE(sched_destination_name(a->destination).len > 0);
        REQUIRE(!a->is_paced || (a->kind == SCHED_DEFER && !a->is_withdrawn));
        REQUIRE(a->is_withdrawn == (strcmp(a->reason->text, withdrawal.text) == 0));
        mail_move(m, a->indexes, a->index_count, WAITING, SETTLED);
        break;
    case SCHED_READ:
        REQUIRE(m->is_active && !m->is_reading && a->wanted > 0);
        m->is_reading = true;
        if (take(d, 3) != 0) {
            read_more(d, a->message_id, a->wanted);
        }
        break;
    case SCHED_FINISHED:
        mail_finish(m);
        break;
    case SCHED_ASK:
        lane_moves_asked(d, a);
        break;
    case SCHED_RETURN:
    case SCHED_LANE_GONE:
        loan_returned(&d->flights.loans, a);
        break;
    case SCHED_OWNER_ASKS:
        owner_moves_asked(d, a);
        break;
    case SCHED_OWNER_RETURNS:
        owner_moves_returned(d, a);
        break;
    case SCHED_NONE:
    default:
        REQUIRE(false);
    }
    d->flights.is_delayed = a->kind != SCHED_DELIVER && a->kind != SCHED_EXHAUSTED;
}

/* At most so many actions, but for those in front of a delivery that is decided. */
static void pull(struct driver *d, unsigned most)
{
    struct sched_action a;
    for (; most > 0 || sched_has_selected(d->sched); most -= most > 0) {
        if (!sched_pull(d->sched, &a, d->now)) {
            REQUIRE(a.kind == SCHED_NONE && sched_wake_at(d->sched) > d->now);
            REQUIRE(!sched_oracle_has_work(d->sched));
            d->flights.is_delayed = false;
            flight_check_idle(&d->flights);
            return;
        }
        act(d, &a);
        driver_check(d);
    }
}

static struct sched_outcome take_outcome(struct driver *d, const struct flight *f)
{
    static const struct sched_reason reasons[] = {
        {"4.4.1", "refused"}, {"x", ""}, {"4.4444.1", "status too long"}};
    bool is_well = d->is_kind || (d->has_riders && take(d, 16) != 0);
    unsigned kind = is_well ? 7 : take(d, 8);
    struct sched_outcome o = {
        .entry = f->entry,
        .feedback = kind < 2   ? SCHED_NEGATIVE
                    : kind < 3 ? SCHED_NEUTRAL
                               : SCHED_POSITIVE,
        .has_deferred = kind % 2 == 0,
        .connection_open = take(d, 2) == 0,
        .reason = kind == 0 ? NULL : &reasons[kind % 3],
        .depth = (uint16_t)take(d, 8),
        .server_notes = 1u << take(d, 4),
    };
    static const enum sched_feedback_sign slower[] = {SCHED_SLOWER, SCHED_NEUTRAL};
    unsigned more = is_well ? 0 : take(d, 16);
    o.depth = is_well && d->has_riders ? UINT16_MAX : o.depth;
    o.is_out_of_step = more == 1;
    if (f->place == FLIGHT_CARRIED && more > 8) {
        o.again = true;
        o.feedback = SCHED_NEUTRAL;
        o.server_tried = more % 2 == 0;
        o.source_tried = more % 4 == 1;
        o.server_failed = more >= 12;
    } else {
        o.server_failed = more > 2 && o.feedback == SCHED_NEGATIVE;
        o.throttled = more == 2;
        o.feedback = more == 2 ? slower[kind % 2] : o.feedback;
    }
    o.connection_open = (o.connection_open || (is_well && d->has_riders)) && !o.server_failed;
    o.connection_ends = d->config.awaits_end && !o.connection_open && take(d, 2) == 0;
    return o;
}

/* false: the shell has no entry */
static bool report(struct driver *d, unsigned which)
{
    unsigned used = d->flights.used;
    for (unsigned i = 0; i < used; i++) {
        struct flight *f = &d->flights.flights[(which + i) % used];
        if (f->entry == NULL || f->place == FLIGHT_DISPLACED) {
            continue;
        }
        struct sched_outcome o = take_outcome(d, f);
        if (!o.again) {
            uint32_t count;
            const uint32_t *indexes = sched_entry_indexes(f->entry, &count);
            mail_move(sched_entry_handle(f->entry), indexes, count, BUSY,
                      o.throttled ? WAITING : SETTLED);
        }
        flight_report(&d->flights, f, &o, d->now);
        return true;
    }
    return false;
}

static void take_servers(struct driver *d, struct flight_hosts *hosts)
{
    if (d->has_riders && take(d, 16) != 0) {
        *hosts = (struct flight_hosts){.count = 1, .site = 1};
        hosts->servers[0] = (struct sched_server){.key = {(uint8_t)take(d, 3)}, .key_len = 1};
        return;
    }
    *hosts = (struct flight_hosts){.count = take(d, 7)};
    hosts->site = d->has_sites ? take(d, SITES) : 0;
    hosts->tls = hosts->site > 0 && take(d, 4) == 0;
    if (hosts->site > 0 && take(d, 2) == 0) {
        hosts->count = 2; /* those of the site, as all of its destinations should have */
        for (uint32_t i = 0; i < 2; i++) {
            hosts->servers[i] = (struct sched_server){
                .key = {(uint8_t)((hosts->site + i) % HOSTS)}, .key_len = 1, .preference = 10};
        }
        return;
    }
    for (uint32_t i = 0; i < hosts->count; i++) {
        hosts->servers[i] = (struct sched_server){
            .key = {(uint8_t)take(d, HOSTS)}, .key_len = 1, .preference = (uint16_t)take(d, 3)};
        hosts->servers[i].name = hosts->site > 0 ? take(d, 2) : 0;
        hosts->servers[i].families = hosts->site > 0 ? (uint8_t)take(d, 4) : 0;
    }
}

/* Half of the destinations that have terms have them of one kind or another. */
static const struct sched_terms *take_terms(struct driver *d, struct sched_terms *room)
{
    if (!d->flights.has_terms || take(d, 2) == 0) {
        return NULL;
    }
    *room = (struct sched_terms){
        .recipient_limit = (int)take(d, 4),
        .most_in_flight = (int)take(d, 3),
        .rate_delay = take(d, 4) == 0 ? 2 * USEC_PER_SEC : 0,
        .connection_idle_limit = USEC_PER_SEC * take(d, 8),
        .connection_age_limit = take(d, 2) == 0 ? USEC_PER_SEC * take(d, 20) : 0,
        .connection_reuse_limit = (int)take(d, 4),
        .messages = {take(d, 2) * (1 + take(d, 3)), take(d, 2), USEC_PER_SEC},
        .recipients = {take(d, 3) == 0 ? 2 : 0, 0, USEC_PER_SEC},
        .quota = {take(d, 4) == 0, 0, USEC_PER_SEC},
    };
    return room;
}

/* It had no memory for them, and the destination is there to remember. */
static bool has_dropped_servers(const struct driver *d, const struct sched_hosts_result *r)
{
    list_foreach(destination, &d->sched->destinations, const struct sched_destination, all)
    {
        if (destination == r->destination) {
            return r->server_count > 0 && destination->party->server_count == 0;
        }
    }
    return false;
}

static bool hosts_of_own(const struct driver *d, const struct sched_hosts_result *r)
{
    list_foreach(destination, &d->sched->destinations, const struct sched_destination, all)
    {
        if (destination == r->destination) {
            return destination->hosts == r->hosts && r->hosts != NULL &&
                   destination->party->site == NULL;
        }
    }
    return false;
}

static void answer(struct driver *d, unsigned which)
{
    static const struct sched_reason reason = {"4.4.3", "timeout"};
    struct question **q = &d->questions;
    while (*q != NULL && which > 0) {
        q = &(*q)->next;
        which--;
    }
    if (*q == NULL) {
        return;
    }
    struct question *asked = *q;
    *q = asked->next;
    bool is_found = d->is_kind || (d->has_riders && take(d, 16) != 0);
    unsigned kind = is_found ? 2 : take(d, 6);
    struct sched_hosts_result r = {
        .destination = asked->destination,
        .resolution = kind == 0   ? SCHED_RESOLVE_SOFT
                      : kind == 1 ? SCHED_RESOLVE_HARD
                                  : SCHED_RESOLVED,
        .expires = d->now + take(d, 30) * USEC_PER_SEC,
        .reason = &reason,
    };
    free(asked);
    struct sched_terms terms;
    if (r.resolution == SCHED_RESOLVED) {
        r.terms = take_terms(d, &terms);
        struct flight_hosts *hosts = malloc(sizeof(*hosts));
        REQUIRE(hosts != NULL);
        take_servers(d, hosts);
        r.hosts = hosts;
        r.servers = hosts->servers;
        r.server_count = hosts->count;
        r.tls = hosts->tls;
        r.site = flight_site(hosts->site);
        d->hosts++;
    }
    struct flight_hosts known = {0};
    if (r.hosts != NULL) {
        known = *(struct flight_hosts *)r.hosts;
    }
    /* A site whose time is over may be made anew by the answer, and knows nothing of its lanes then. */
    transport_enter(d->sched, d->now);
    flight_forget_lanes(&d->flights);
    sched_resolved(d->sched, &r, d->now);
    if (hosts_of_own(d, &r)) {
        ((struct flight_hosts *)r.hosts)->site = 0;
    }
    if (has_dropped_servers(d, &r)) {
        known.count = 0;
        ((struct flight_hosts *)r.hosts)->count = 0;
    }
    flight_resolved(&d->flights, r.destination, &known);
}

static void lose(struct driver *d, unsigned which)
{
    if (which >= d->flights.process_limit_max) {
        return;
    }
    /* The core may know already, and its CLOSE may be waiting; the model follows the actions. */
    struct sched_action a;
    while (sched_pull_pending(d->sched, &a, d->now)) {
        act(d, &a);
    }
    flight_end(&d->flights, which, d->now);
}

/* false: none was to end */
static bool end_all(struct driver *d)
{
    bool did_end = false;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        if (d->flights.connections[i].is_ending) {
            flight_end(&d->flights, i, d->now);
            did_end = true;
        }
    }
    return did_end;
}

void driver_pull_pending(struct driver *d)
{
    struct sched_action a;
    while (sched_pull_pending(d->sched, &a, d->now)) {
        act(d, &a);
        driver_check(d);
    }
}

/* Another config, with memory for all of it, some or none. What was decided before is seen by the
 * model before. Three values are given at creation and stay, whatever the new config says. */
static void reconfigure(struct driver *d)
{
    const struct sched_config old = d->config;
    driver_pull_pending(d);
    driver_configure(d);
    if (d->has_riders) {
        driver_configure_riders(d);
    }
    d->config.hold = d->sched->hold;
    d->fail_after = take(d, 8) == 0 ? (long)take(d, 4) : -1;
    int err = sched_reconfigure(d->sched, &d->config, d->now);
    REQUIRE(err == 0 || d->fail_after == 0);
    d->fail_after = -1;
    if (err != 0) {
        d->config = old;
    }
    d->config.must_resolve = old.must_resolve;
    d->config.awaits_end = old.awaits_end;
    d->config.unasked_selection = old.unasked_selection;
    d->flights.config = d->config;
    d->flights.was_reconfigured = true;
    if (d->flights.process_limit_max < (uint32_t)d->config.process_limit) {
        d->flights.process_limit_max = (uint32_t)d->config.process_limit;
    }
    driver_check(d);
    if (take(d, 2) == 0) {
        pull(d, UINT32_MAX); /* what the new config opened does not wait for the next event */
    }
}

/* A message, or what it has for one nexthop, is withdrawn: nothing of that is left waiting, and
 * nothing else is touched. */
static void withdraw(struct driver *d, unsigned which, unsigned recipient)
{
    driver_pull_pending(d);
    uint64_t id = d->mail.next_id - 1 - which;
    struct mail_message *m = mail_of(&d->mail, id);
    if (which >= d->mail.next_id || !m->is_active) {
        return;
    }
    struct slice nexthop = {0};
    if (recipient < m->count) {
        nexthop = m->recipients[recipient].nexthop;
    }
    struct mail_message before = *m;
    sched_withdraw(d->sched, id, nexthop, &withdrawal, d->now);
    driver_check(d);
    driver_pull_pending(d);
    for (uint32_t i = 0; i < before.read && m->is_active; i++) {
        bool is_meant = nexthop.len == 0 || slice_eq(before.recipients[i].nexthop, nexthop);
        REQUIRE(before.states[i] != WAITING || (m->states[i] == WAITING) == !is_meant);
    }
}

static void revive(struct driver *d, unsigned which, unsigned recipient)
{
    const struct mail_message *m = mail_of(&d->mail, which);
    if (which % 4 == 0) {
        sched_flush_hosts(d->sched, d->now);
        driver_check(d);
    }
    struct slice nexthop = recipient < m->count ? m->recipients[recipient].nexthop : SLICE("none");
    bool was_dead = sched_revive(d->sched, nexthop, d->now);
    driver_check(d);
    REQUIRE(!was_dead || recipient < m->count);
    /* One none of whose hosts may be tried by its pool's addresses is given up again at once. */
    bool is_given_up = !list_is_empty(&d->sched->unreachable);
    REQUIRE(!sched_revive(d->sched, nexthop, d->now) || is_given_up);
}

static void forget_hosts(struct driver *d)
{
    driver_pull_pending(d);
    if (!d->config.must_resolve) {
        return;
    }
    const struct flight_hosts none = {0};
    list_foreach(known, &d->sched->destinations, struct sched_destination, all)
    {
        flight_resolved(&d->flights, known, &none);
    }
    sched_forget_hosts(d->sched, d->now);
}

static void answer_reads(struct driver *d)
{
    for (uint64_t id = 0; id < d->mail.next_id; id++) {
        struct mail_message *m = mail_of(&d->mail, id);
        /* Only the youngest message of a place is there. */
        if (id + MESSAGES >= d->mail.next_id && m->is_active && m->is_reading) {
            read_more(d, id, 1 + take(d, RECIPIENTS));
        }
    }
}

/* Rarer steps. */
static void misc(struct driver *d)
{
    switch (take(d, 10)) {
    case 8:
        reconfigure(d);
        break;
    case 9:
        forget_hosts(d);
        break;
    case 0:
        sched_flush(d->sched, d->now);
        break;
    case 1:
        sched_set_hold(d->sched, take(d, 2) == 0, d->now);
        break;
    case 2:
        d->fail_after = take(d, 12);
        submit(d);
        answer_reads(d);
        answer(d, take(d, 4));
        (void)report(d, take(d, 64)); /* there may be none */
        d->fail_after = -1;
        break;
    case 4:
    case 6:
        if (d->has_flows && take(d, 2) == 0) {
            sched_tenant_weight(d->sched, take(d, 3), (uint16_t)(1 + take(d, 10)), d->now);
        } else {
            withdraw(d, take(d, MESSAGES), take(d, 2 * RECIPIENTS));
        }
        break;
    case 5:
        revive(d, take(d, MESSAGES), take(d, RECIPIENTS));
        break;
    default:
        d->now += take(d, 60) * (take(d, 4) == 0 ? 60 : 1) * USEC_PER_SEC;
        break;
    }
}

/* Much mail, and all questions answered; in half of these worlds some deliveries last. */
static void step_of_riders(struct driver *d)
{
    submit(d);
    answer_reads(d);
    while (d->questions != NULL) {
        answer(d, 0);
    }
    pull(d, take(d, 32));
    for (unsigned i = take(d, 16); i > 0; i--) {
        (void)report(d, take(d, d->choices.size % 4 == 3 ? 3 : 64)); /* there may be none */
        pull(d, take(d, 3));
    }
    driver_check(d);
}

static void step(struct driver *d)
{
    if (d->has_riders && take(d, 8) != 0) {
        step_of_riders(d);
        return;
    }
    switch (take(d, 16)) {
    case 13:
    case 14:
        if (d->has_sites) {
            lane_moves_step(d);
        }
        break;
    case 0:
    case 1:
    case 2:
        submit(d);
        break;
    case 3:
    case 4:
    case 5:
        pull(d, 1 + take(d, 8));
        break;
    case 6:
    case 7:
    case 8:
        (void)report(d, take(d, 64)); /* there may be none */
        break;
    case 9:
        d->now += take(d, 10) * USEC_PER_SEC / 2;
        break;
    case 10:
        answer(d, take(d, 4));
        break;
    case 11:
        lose(d, take(d, CONNECTIONS));
        break;
    case 12:
        answer_reads(d);
        lane_moves_answer(d);
        owner_moves_answer(d);
        break;
    case 15:
        if (d->has_owners) {
            owner_moves_step(d);
            break;
        }
        misc(d);
        break;
    default:
        misc(d);
        break;
    }
    flight_forget_lanes(&d->flights);
    driver_check(d);
}

/* Everything comes to an end when it is answered and time passes; in one of two ways, by the size
 * of the input. Either everything fails, or nothing does, and then no destination is dead or ends:
 * every entry is selected once its window is open. */
static void drain(struct driver *d)
{
    sched_set_hold(d->sched, false, d->now);
    lane_moves_end(d);
    owner_moves_end(d);
    if (d->choices.size % 2 == 0) {
        sched_flush(d->sched, d->now);
        struct sched_action a;
        while (sched_pull_pending(d->sched, &a, d->now)) {
            act(d, &a);
        }
        d->is_kind = true;
    }
    for (unsigned round = 0;; round++) {
        REQUIRE(round < 100000);
        pull(d, UINT32_MAX);
        if (mail_is_finished(&d->mail)) {
            break;
        }
        answer_reads(d);
        answer(d, 0);
        bool is_carried = report(d, round);
        (void)end_all(d); /* there may be none */
        driver_check(d);
        usec_t wake = sched_wake_at(d->sched);
        /* What is in flight may have come back, and wait for the end of a rate delay that began
         * under way. */
        if (!is_carried && d->questions == NULL && wake != USEC_NEVER && wake > d->now) {
            d->now = wake;
        }
    }
    while (d->questions != NULL) {
        answer(d, 0);
        driver_check(d);
    }
}

static void walk(const struct driver *d)
{
    struct sched_counters c;
    struct sched_destination_view v;
    struct sched_job_view j;
    uint64_t cursor = 0, destinations = 0, jobs = 0, waiting = 0;
    sched_view_counters(d->sched, &c);
    while (sched_view_destinations(d->sched, &cursor, &v)) {
        destinations++;
        waiting += (uint64_t)v.todo;
        REQUIRE(sched_why_text(v.why) != NULL && v.busy >= 0 && v.idle <= v.connections);
        struct sched_destination_view same;
        REQUIRE(sched_view_destination_in(d->sched, v.name, v.pool, &same) && same.todo == v.todo);
        REQUIRE(sched_view_destination(d->sched, v.name, &same) && same.pool <= v.pool);
    }
    cursor = 0;
    while (sched_view_jobs(d->sched, &cursor, &j)) {
        REQUIRE(sched_why_text(j.why) != NULL && j.recipients >= j.waiting + j.in_flight);
        jobs++;
    }
    struct sched_debug record;
    while (sched_debug_next(d->sched, &record)) {
        REQUIRE(d->config.feedback_debug && record.window >= 0);
    }
    struct sched_change change;
    while (sched_change_next(d->sched, &change)) {
        REQUIRE(change.cause < SCHED_CHANGE_COUNT && change.name[0] != '\0');
        REQUIRE(change.from >= 0 && change.to >= 0 && change.time <= d->now);
    }
    REQUIRE(destinations == c.destinations && jobs == c.jobs && waiting == c.entries_waiting);
}

/* Only what is in flight is waited for: actions are left, and answers to questions. */
static void abandon(struct driver *d)
{
    struct sched_action a;
    bool is_unlimited = false;
    while (d->flights.count > 0 || d->sched->undelivered != NULL) {
        if (report(d, 0)) {
            driver_check(d);
        } else if (sched_pull_pending(d->sched, &a, d->now)) {
            act(d, &a);
        } else if (d->questions != NULL) {
            answer(d, 0); /* entries that came back wait for hosts that were forgotten */
        } else if (!end_all(d)) {
            usec_t wake = sched_wake_at(d->sched);
            if (wake == USEC_NEVER && !is_unlimited) {
                is_unlimited = true;
                lane_moves_end(d); /* entries that came back wait for a loan */
                continue;
            }
            REQUIRE(wake != USEC_NEVER);
            d->now = wake;
        }
    }
    while (d->questions != NULL) {
        struct question *q = d->questions;
        d->questions = q->next;
        free(q);
    }
}

/* With memory for less and less of it, by the size of the input. */
static void start(struct driver *d)
{
    const struct sched_host host = {allocate, release, release, d};
    d->fail_after = (long)(d->choices.size % 8);
    sched_free(sched_new(&d->config, &host, release_hosts, 0));
    REQUIRE(d->objects == 0);
    d->fail_after = -1;
    d->sched = sched_new(&d->config, &host, release_hosts, 0);
    REQUIRE(d->sched != NULL);
    d->flights.config = d->config;
    d->flights.process_limit_max = (uint32_t)d->config.process_limit;
    d->flights.sched = d->sched;
}

uint64_t sched_driver_run(const uint8_t *data, size_t size)
{
    struct driver *d = calloc(1, sizeof(*d));
    REQUIRE(d != NULL);
    d->choices = (struct choices){data, size, 0};
    driver_configure(d);
    d->has_sites = take(d, 4) != 0;
    d->flights.has_terms = size % 3 == 0;
    d->has_flows = size % 5 < 3;
    d->has_riders = size % 10 == 1;
    d->has_owners = take(d, 3) == 0 && !d->has_riders;
    if (d->has_riders) {
        driver_configure_riders(d);
    }
    d->has_sites = d->has_sites || d->has_riders;
    start(d);
    if (d->has_sites && take(d, 2) == 0) {
        lane_moves_set_sources(d);
    }
    while (choices_are_left(&d->choices)) {
        step(d);
    }
    walk(d);
    if (size % 8 == 7) {
        abandon(d);
    } else {
        drain(d);
    }
    sched_free(d->sched);
    REQUIRE(d->objects == 0 && d->hosts == 0);
    uint64_t done = d->digest;
    free(d);
    return done;
}
