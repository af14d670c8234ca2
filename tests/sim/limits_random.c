/* Random operations of three transports on limits that they share, in virtual time: holds, loans,
 * what receivers say, rules that change, clocks that jump, orders, and restarts by the memory file.
 * After each one what the transports were told is compared with what stands, and all lists with
 * what they should hold.
 *
 * usage: limits_random [FIRST_SEED [SEEDS]] */
#include "base/file.h"
#include "base/hash.h"
#include "engine/limit/limits.h"
#include "engine/limit/limits_memory.h"
#include "engine/limit/limits_private.h"
#include "engine/limit/limits_report.h"
#include "tests/sim/require.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND USEC_PER_SEC
#define HOUR   (3600 * SECOND)
#define DAY    (24 * HOUR)

enum { TRANSPORTS = 3, SOURCES = 3, SITES = 4, HOLDS = 16, STEPS = 4000, LANES_MAX = 10 };

/* What a transport believes. */
struct user {
    struct limits_hold *hold; /* NULL: none */
    unsigned transport, source, site;
    struct limit_state known;
    struct limit_grant grant; /* messages: what is left of it */
    int64_t window;           /* of source 0's quota when it was lent */
    uint32_t edition;         /* of site 0's rates then */
    uint32_t source_edition;  /* of source 0's */
    uint32_t open;
};

struct run {
    uint64_t chance;
    struct limits *limits;
    struct limits_borrower *borrowers[TRANSPORTS];
    struct user users[HOLDS];
    struct limit_rules rules;
    usec_t now, wall;
    /* Of source 0, which has a quota that never changes: used and lent in the present window. */
    int64_t window;
    uint64_t quota_used;
    /* Of site 0, which has a rate that never changes: up to where its time is used up. */
    usec_t used_until;
    char path[64];
};

static const uint32_t quota_count = 3000, rate_count = 4000;
static const usec_t interval = SECOND / 4000;

static uint32_t choose(struct run *r, uint32_t below)
{
    r->chance = r->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(r->chance >> 33) % below;
}

static struct limit_key key_of(unsigned source, unsigned site)
{
    static const char *const sources[SOURCES] = {"ip0", "ip1", "ip 2"};
    static const char *const sites[SITES] = {"site0", "site1", "site2", "site%3"};
    return (struct limit_key){slice_of(sources[source]), slice_of(sites[site]),
                              site == 3 ? SLICE("mx.example") : SLICE("")};
}

static struct limit_rules rules_of(const struct run *r, unsigned source, unsigned site)
{
    struct limit_rules rules = r->rules;
    rules.source.quota = (struct rate_rule){source == 0 ? quota_count : 0, 0, DAY};
    rules.site.messages = (struct rate_rule){site == 0 ? rate_count : 0, 0, SECOND};
    return rules;
}

/* --- checks ----------------------------------------------------------------------------------- */

static void check_lane(const struct limits *l, const struct limits_lane *lane, usec_t now)
{
    uint32_t holds = 0, open = 0, connecting = 0, destinations = 0;
    list_foreach(h, &lane->holds, const struct limits_hold, in_lane)
    {
        REQUIRE(h->lane == lane);
        holds++;
        open += h->open;
        connecting += h->connecting;
    }
    REQUIRE(open == lane->connections.open && connecting == lane->connecting);
    REQUIRE((holds == 0) == list_is_linked(&lane->idle));
    REQUIRE(l->lanes[lane->slot] == lane);
    const struct limits_learned *learned = lane->learned;
    if (learned == NULL) {
        return;
    }
    list_foreach(c, &learned->destinations, const struct limits_closed, in_lane)
    {
        REQUIRE(c->serial <= lane->destination_serial);
        destinations++;
    }
    REQUIRE(destinations == learned->destination_count);
    for (unsigned i = 0; i < LIMITS_UNITS; i++) {
        const struct pace *p = learned->paces[i];
        REQUIRE(p == NULL || p->phase == PACE_FREE ||
                (isfinite(p->rate) && p->rate >= PACE_LEAST && p->rate <= PACE_MOST));
    }
    REQUIRE(learned->closed_until == 0 || learned->is_closed);
    REQUIRE(learned->probed_at <= now);
}

/* NULL: there is none. Nobody else runs. */
static struct limits_meter *meter_of(const struct run *r, enum limit_owner owner, const char *name)
{
    const struct limits_table *t = &r->limits->meter_table;
    for (uint64_t i = 0; i <= t->mask; i++) {
        for (struct limits_link *link = t->chains[i]; link != NULL; link = link->next) {
            struct limits_meter *m = container_of(link, struct limits_meter, link);
            if (m->owner == owner && slice_eq(slice_make(m->name, m->name_len), slice_of(name))) {
                return m;
            }
        }
    }
    return NULL;
}

/* What the quota and the rate that never change have counted is exactly what was lent and not given
 * back. */
static void check_sums(struct run *r)
{
    const struct limits_meter *quota = meter_of(r, LIMIT_OF_SOURCE, "ip0");
    const struct limits_meter *rate = meter_of(r, LIMIT_OF_SITE, "site0");
    if (quota != NULL && quota->quota.rule.count > 0) {
        if (quota->quota.window != r->window) {
            REQUIRE(quota->quota.window > r->window || r->quota_used == 0 ||
                    r->wall / DAY < r->window);
            r->window = quota->quota.window;
            r->quota_used = quota->quota.used; /* of a window that has just begun */
            REQUIRE(quota->quota.used <= 50);
        }
        REQUIRE(quota->quota.used == r->quota_used && r->quota_used <= quota_count);
    } else if (quota == NULL) {
        REQUIRE(r->quota_used == 0 || r->wall / DAY > r->window);
    }
    usec_t expected = r->used_until > r->now ? r->used_until : r->now;
    if (rate != NULL && rate->rates[PACE_MESSAGES].rule.count > 0) {
        usec_t is = rate->rates[PACE_MESSAGES].used_until;
        REQUIRE((is > r->now ? is : r->now) == expected);
    }
}

static void check(struct run *r)
{
    struct limits *l = r->limits;
    uint32_t lanes = 0, meters = 0, closed = 0, paced = 0;
    limits_enter(l);
    for (uint32_t i = 0; i < l->slot_end; i++) {
        if (l->lanes[i] != NULL) {
            check_lane(l, l->lanes[i], r->now);
            lanes++;
            closed += l->lanes[i]->learned != NULL && l->lanes[i]->learned->is_closed;
            paced += l->lanes[i]->is_paced;
        }
    }
    REQUIRE(lanes == l->lane_table.count && lanes <= LANES_MAX);
    REQUIRE(lanes + l->free_slot_count == l->slot_end);
    REQUIRE(closed == l->closed_lanes && paced == l->paced_lanes);
    for (uint64_t i = 0; i <= l->meter_table.mask; i++) {
        const struct limits_link *link = l->meter_table.chains[i];
        for (; link != NULL; link = link->next, meters++) {
            const struct limits_meter *m = container_of(link, struct limits_meter, link);
            REQUIRE((m->references == 0) == list_is_linked(&m->idle));
        }
    }
    REQUIRE(meters == l->meter_table.count);
    limits_leave_lock(l);
    check_sums(r);
}

static void hear(struct run *r)
{
    struct limit_change change;
    for (unsigned i = 0; i < TRANSPORTS; i++) {
        while (limits_next_change(r->borrowers[i], &change, r->now)) {
            struct user *u = change.user;
            REQUIRE(u->hold == change.hold);
            if (change.kind == LIMIT_CHANGED_LANE) {
                u->known = change.state;
            } else {
                REQUIRE(change.destination[0] != '\0');
            }
        }
        REQUIRE(!limits_has_changes(r->borrowers[i]));
    }
}

/* What was told is what stands. That a pause is over is found by whoever asks next. */
static void compare(struct run *r)
{
    for (unsigned i = 0; i < HOLDS; i++) {
        struct user *u = &r->users[i];
        struct limit_lane_report report;
        struct limit_key key = key_of(u->source, u->site);
        if (u->hold == NULL) {
            continue;
        }
        REQUIRE(limits_report_lane(r->limits, &key, r->now, r->wall, &report));
        REQUIRE(report.id == limits_hold_id(u->hold));
        REQUIRE(report.state.is_closed == u->known.is_closed);
        REQUIRE(!report.state.is_closed || report.state.until - r->wall == u->known.until - r->now);
        REQUIRE(report.state.most_connections == u->known.most_connections);
        REQUIRE(report.state.most_messages == u->known.most_messages);
        REQUIRE(u->known.is_limited || !report.state.is_limited);
    }
}

/* --- operations ------------------------------------------------------------------------------- */

static struct user *any_user(struct run *r)
{
    return &r->users[choose(r, HOLDS)];
}

static void do_hold(struct run *r)
{
    struct user *u = any_user(r);
    if (u->hold != NULL) {
        return;
    }
    *u = (struct user){
        .transport = choose(r, TRANSPORTS), .source = choose(r, SOURCES), .site = choose(r, SITES)};
    struct limit_key key = key_of(u->source, u->site);
    struct limit_rules rules = rules_of(r, u->source, u->site);
    int err = limits_hold(r->borrowers[u->transport], &key, &rules, u, r->now, &u->hold);
    REQUIRE(err == 0 || u->hold == NULL);
}

/* They count, from then on. */
static void count_lent(struct run *r, struct user *u)
{
    const struct limits_meter *quota = meter_of(r, LIMIT_OF_SOURCE, "ip0");
    const struct limits_meter *rate = meter_of(r, LIMIT_OF_SITE, "site0");
    if (u->source == 0) {
        u->window = quota->quota.window;
        u->source_edition = quota->edition;
        if (u->window != r->window) {
            REQUIRE(u->window > r->window || r->wall / DAY < r->window);
            r->window = u->window;
            r->quota_used = 0;
        }
        r->quota_used += u->grant.messages;
    }
    if (u->site == 0) {
        u->edition = rate->edition;
        r->used_until = r->used_until > r->now ? r->used_until : r->now;
        r->used_until += u->grant.messages * interval;
    }
}

static void count_back(struct run *r, const struct user *u, uint32_t messages)
{
    const struct limits_meter *quota = meter_of(r, LIMIT_OF_SOURCE, "ip0");
    const struct limits_meter *rate = meter_of(r, LIMIT_OF_SITE, "site0");
    if (u->source == 0 && u->window == r->window && u->source_edition == quota->edition) {
        r->quota_used -= messages;
    }
    if (u->site == 0 && u->edition == rate->edition) {
        r->used_until -= messages * interval;
    }
}

static void settle_grant(struct run *r, struct user *u)
{
    uint32_t back = choose(r, u->grant.messages + 1);
    if (back > 0) {
        count_back(r, u, back);
        limits_repay(u->hold, &(struct limit_units){.messages = back}, r->now);
    }
    u->grant = (struct limit_grant){0};
}

static void do_release(struct run *r)
{
    struct user *u = any_user(r);
    if (u->hold != NULL) {
        settle_grant(r, u);
        limits_release(u->hold, r->now);
        u->hold = NULL;
    }
}

static void do_lend(struct run *r)
{
    struct user *u = any_user(r);
    if (u->hold == NULL) {
        return;
    }
    settle_grant(r, u);
    const struct limit_ask ask = {.messages = 1 + choose(r, 50),
                                  .recipients = choose(r, 100),
                                  .connects = choose(r, 3),
                                  .owed = choose(r, 10) == 0 ? choose(r, 30) : 0,
                                  .has_connection = choose(r, 2) == 0};
    bool was_closed = u->known.is_closed;
    usec_t until = u->known.until;
    limits_lend(u->hold, &ask, r->now, r->wall, &u->grant);
    struct limit_grant *g = &u->grant;
    REQUIRE(g->messages <= ask.messages && g->per_second >= 0);
    if (g->messages == 0) {
        REQUIRE(g->due > r->now && g->turn >= g->due && g->why != LIMIT_NO_CAUSE);
        return;
    }
    count_lent(r, u);
    REQUIRE(g->from >= r->now && g->until > g->from && g->until <= r->now + SECOND);
    REQUIRE(g->recipients > 0 && (g->connects == LIMIT_UNBOUNDED || g->connects <= ask.connects));
    REQUIRE(!was_closed || r->now >= until);
    hear(r);
    REQUIRE(!u->known.is_closed || g->messages == 1);
}

static void do_give_back(struct run *r)
{
    struct user *u = any_user(r);
    if (u->hold == NULL || u->grant.messages == 0) {
        return;
    }
    uint32_t n = 1 + choose(r, u->grant.messages);
    const struct limits_meter *quota = meter_of(r, LIMIT_OF_SOURCE, "ip0");
    if (u->source == 0 && quota->quota.window == (r->wall - (r->now - u->grant.from)) / DAY &&
        quota->quota.window == r->window) {
        r->quota_used -= n < r->quota_used ? n : r->quota_used;
    }
    r->used_until -= u->site == 0 ? n * interval : 0;
    limits_give_back(u->hold, &(struct limit_units){.messages = n}, u->grant.from, r->now, r->wall);
    u->grant = (struct limit_grant){0};
}

static void do_accept(struct run *r)
{
    struct user *u = any_user(r);
    if (u->hold != NULL) {
        const struct limit_accepted a = {.messages = 1 + choose(r, 20),
                                         .recipients = choose(r, 50),
                                         .session_messages = choose(r, 40),
                                         .tenant = choose(r, 3),
                                         .destination = SLICE("d1"),
                                         .sent_at = r->now - choose(r, 3000000)};
        limits_accepted(u->hold, &a, r->now);
    }
}

static void do_refuse(struct run *r)
{
    static const char *const actions[] = {
        "none",          "slow",      "slow 0.5", "pause 5s", "close 10m",
        "close-site 5m", "next-host", "defer 1h", "bounce",   "pause 1m after 3 in 1m"};
    static const char *const names[] = {"d0", "d1", "d2", "d3", "d4"};
    struct user *u = any_user(r);
    struct reply_action action;
    char why[REPLY_ACTION_WHY_MAX];
    struct limit_verdict v;
    if (u->hold == NULL) {
        return;
    }
    const char *text = actions[choose(r, sizeof(actions) / sizeof(actions[0]))];
    REQUIRE(reply_action_parse(slice_of(text), &action, why) == 0);
    bool is_throttled = choose(r, 2) == 0;
    struct limit_refusal said = {
        .class = is_throttled ? REPLY_THROTTLED : choose(r, REPLY_CLASS_COUNT),
        .scope = REPLY_MESSAGES + choose(r, 5),
        .stage = REPLY_AT_MAIL + choose(r, 4),
        .code = choose(r, 2) == 0 ? 421 : 550,
        .text = choose(r, 6) == 0 ? SLICE("[192.0.2.1] listed") : SLICE("no"),
        .rule = SLICE("rule"),
        .actions = &action,
        .action_count = choose(r, 8) == 0,
        .address = SLICE("192.0.2.1"),
        .destination = slice_of(names[choose(r, 5)]),
        .tenant = choose(r, 3),
        .message = choose(r, 100),
        .sent_at = r->now - choose(r, 2000000),
        .has_other_source = choose(r, 2) == 0,
    };
    if (said.class == REPLY_BLOCKED) {
        said.scope = choose(r, 3) == 0 ? REPLY_DESTINATION : REPLY_LANE;
    }
    /* Those that stay or go by another source are given back to the quota, which then is not what
     * was lent. */
    said.class = u->source == 0 && said.class == REPLY_THROTTLED ? REPLY_MAILBOX : said.class;
    said.has_other_source = u->source != 0 && said.has_other_source;
    limits_refused(u->hold, &said, r->now, r->wall, &v);
    REQUIRE(v.fate < LIMIT_FATE_COUNT);
    REQUIRE(!v.is_negative || v.is_throttled);
}

static void do_connection(struct run *r)
{
    struct user *u = any_user(r);
    if (u->hold == NULL) {
        return;
    }
    unsigned what = choose(r, 3);
    if (what == 0 && u->open > 0) {
        limits_disconnected(u->hold, r->now);
        u->open--;
    } else if (what == 1) {
        limits_not_connected(u->hold, r->now);
    } else {
        limits_connected(u->hold, r->now, r->now);
        u->open++;
    }
}

static void do_order(struct run *r)
{
    struct limit_key key = key_of(choose(r, SOURCES), choose(r, SITES));
    struct limit_order order = {.kind = choose(r, 4),
                                .span = 1 + choose(r, 600) * SECOND,
                                .rate = 0.01 + choose(r, 10000) / 10.0,
                                .reason = SLICE("an operator")};
    int err = limits_order(r->limits, &key, &order, r->now);
    REQUIRE(err == 0 || r->limits->lane_table.count == LANES_MAX);
}

static void do_rules(struct run *r)
{
    static const usec_t spans[] = {SECOND, 60 * SECOND, HOUR, DAY};
    r->rules.lane.messages = (struct rate_rule){choose(r, 200), choose(r, 20), spans[choose(r, 4)]};
    r->rules.lane.recipients = (struct rate_rule){choose(r, 500), 0, spans[choose(r, 4)]};
    r->rules.lane.connects = (struct rate_rule){choose(r, 50), 0, spans[choose(r, 4)]};
    r->rules.site.quota = (struct rate_rule){choose(r, 2) * 1000, 0, spans[2 + choose(r, 2)]};
    r->rules.serial++;
    for (unsigned i = 0; i < HOLDS; i++) {
        struct user *u = &r->users[i];
        if (u->hold != NULL && choose(r, 5) > 0) { /* some hear of it later */
            struct limit_rules rules = rules_of(r, u->source, u->site);
            REQUIRE(limits_set_rules(u->hold, &rules, r->now) == 0);
        }
    }
}

static void do_time(struct run *r)
{
    static const usec_t steps[] = {100, 3000, 50000, SECOND, 20 * SECOND, 1000 * SECOND};
    usec_t step = choose(r, (uint32_t)steps[choose(r, 6)] + 1);
    r->now += step;
    r->wall += step;
    if (choose(r, 200) == 0) { /* somebody sets the clock */
        r->wall += ((usec_t)choose(r, 7200) - 3600) * SECOND;
    }
}

/* --- restarts --------------------------------------------------------------------------------- */

static void begin(struct run *r)
{
    r->limits = limits_new(&(struct limits_config){
        .lanes_max = LANES_MAX, .sites_max = SITES, .lane_memory = HOUR, .seed = r->chance | 1});
    REQUIRE(r->limits != NULL);
    for (unsigned i = 0; i < TRANSPORTS; i++) {
        const struct limits_borrower_config config = {.number = i};
        r->borrowers[i] = limits_borrower_new(r->limits, &config);
        REQUIRE(r->borrowers[i] != NULL);
    }
}

static void end(struct run *r)
{
    for (unsigned i = 0; i < HOLDS; i++) {
        if (r->users[i].hold != NULL) {
            settle_grant(r, &r->users[i]);
            limits_release(r->users[i].hold, r->now);
            r->users[i].hold = NULL;
        }
    }
    for (unsigned i = 0; i < TRANSPORTS; i++) {
        limits_borrower_free(r->borrowers[i]);
    }
}

/* A file in which something is wrong though its checksum is right: it is read without harm. */
static void read_damaged(struct run *r)
{
    static char bytes[1 << 20];
    FILE *file = fopen(r->path, "r");
    REQUIRE(file != NULL);
    size_t len = fread(bytes, 1, sizeof(bytes) - 64, file);
    REQUIRE(fclose(file) == 0 && len > 30);
    size_t end_len = sizeof("end 0123456789abcdef\n") - 1,
           head_len = sizeof("sluice-limits 1\n") - 1;
    len -= end_len;
    for (unsigned i = choose(r, 5); i > 0 && len > head_len; i--) {
        size_t at = head_len + choose(r, (uint32_t)(len - head_len));
        static const char odd[] = "\n %-90x\377";
        bytes[at] = odd[choose(r, sizeof(odd) - 1)];
    }
    (void)snprintf(bytes + len, end_len + 1, "end %016llx\n",
                   (unsigned long long)hash_checksum(bytes, len));
    REQUIRE(file_replace(r->path, slice_make(bytes, len + end_len)) == 0);
    struct limits *l = limits_new(&(struct limits_config){.lanes_max = 3, .seed = 1});
    REQUIRE(l != NULL && limits_memory_load(l, r->path, r->now, r->wall) == 0);
    limits_free(l);
}

static void do_restart(struct run *r)
{
    static struct limit_lane_report before[LANES_MAX];
    uint32_t at = 0;
    if (choose(r, 4) > 0) {
        return; /* each one waits for the disk */
    }
    end(r);
    uint32_t count = limits_report(r->limits, &at, before, LANES_MAX, r->now, r->wall);
    REQUIRE(limits_memory_save(r->limits, r->path, r->now, r->wall) == 0);
    limits_free(r->limits);
    begin(r);
    REQUIRE(limits_memory_load(r->limits, r->path, r->now, r->wall) == 0);
    r->used_until = r->used_until - r->now > SECOND ? r->used_until : 0; /* not worth a line */
    for (uint32_t i = 0; i < count; i++) {
        const struct limit_lane_report *b = &before[i];
        struct limit_key key = {slice_of(b->source), slice_of(b->site), slice_of(b->hosts)};
        struct limit_lane_report after = {0};
        bool is_there = limits_report_lane(r->limits, &key, r->now, r->wall, &after);
        REQUIRE(is_there || (!b->state.is_closed && b->paused_until == 0 && b->paces[0] <= 0));
        REQUIRE(after.state.is_closed == b->state.is_closed);
        REQUIRE(!b->state.is_closed || b->is_probing || after.state.until == b->state.until);
        REQUIRE(after.state.most_connections == b->state.most_connections);
        REQUIRE(after.state.most_messages == b->state.most_messages);
        for (unsigned u = 0; u < LIMIT_PACES; u++) {
            REQUIRE(fabs(after.paces[u] - b->paces[u]) <= 1e-6 + b->paces[u] * 1e-6);
        }
    }
    read_damaged(r);
}

static void run_seed(uint64_t seed)
{
    static void (*const often[])(struct run *) = {do_hold,   do_lend,   do_lend,      do_lend,
                                                  do_accept, do_accept, do_refuse,    do_time,
                                                  do_time,   do_time,   do_connection};
    static void (*const seldom[])(struct run *) = {do_release, do_give_back, do_order,  do_rules,
                                                   do_restart, do_release,   do_release};
    struct run r = {.chance = seed, .now = 10 * SECOND, .wall = 20788 * DAY + 20 * HOUR};
    (void)snprintf(r.path, sizeof(r.path), "/tmp/limits_random.%d", (int)getpid());
    begin(&r);
    for (unsigned i = 0; i < STEPS; i++) {
        if (choose(&r, 30) == 0) {
            seldom[choose(&r, sizeof(seldom) / sizeof(seldom[0]))](&r);
        } else {
            often[choose(&r, sizeof(often) / sizeof(often[0]))](&r);
        }
        hear(&r);
        compare(&r);
        check(&r);
    }
    end(&r);
    limits_free(r.limits);
    (void)unlink(r.path);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 60;
    for (uint64_t seed = first; seed < first + count; seed++) {
        (void)printf("seed %llu\n", (unsigned long long)seed);
        (void)fflush(stdout);
        run_seed(seed);
    }
    return 0;
}
