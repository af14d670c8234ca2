/* Limits over all nodes: the real division of shares (limit_share.c) and the real liveness
 * (member.c) in virtual time, over a model of a key-value store with compare-and-set, of nodes that
 * die, that stand still and that hear nothing of others for a while, and of receivers that count what is
 * open or comes. Fails when a limit is exceeded, too little of it is used, or a node waits too long for its
 * turn. */
#include "bench/sim/sim_event.h"
#include "bench/sim/sluice_sim.h"
#include "engine/cluster/limit_share.h"
#include "engine/cluster/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND    USEC_PER_SEC
#define NODES_MAX 16
#define OPEN_MAX  32
#define WARM_UP   (15 * SECOND)
#define TICK      (SECOND / 50) /* as engine/nodes/nodes.c looks */
#define CLOSING   (SECOND / 10) /* as engine/limit/limits_seats.c has it */
#define AGAIN     (1 * SECOND)  /* between a node's entries, as engine/nodes/nodes.c has it */

struct scene {
    const char *name;
    uint32_t nodes, limit;
    bool is_rate;      /* then `limit` is the burst */
    uint32_t a_minute; /* of a rate */
    bool varies;       /* demand, else all want everything */
    bool has_faults;   /* a node dies and returns, another stands still, a new one joins */
    bool is_busy;      /* answers of servers take long */
    bool has_blind; /* watches of nodes' entries hear nothing for a while, and then what is there */
};

static const struct scene scenes[] = {
    {.name = "all want all", .nodes = 4, .limit = 2},
    {.name = "all want all", .nodes = 4, .limit = 20},
    {.name = "busy servers", .nodes = 4, .limit = 2, .is_busy = true},
    {.name = "busy servers", .nodes = 4, .limit = 20, .is_busy = true},
    {.name = "all want all", .nodes = 8, .limit = 20},
    {.name = "all want all", .nodes = 16, .limit = 2},
    {.name = "all want all", .nodes = 16, .limit = 20},
    {.name = "wants vary", .nodes = 4, .limit = 20, .varies = true},
    {.name = "wants vary", .nodes = 16, .limit = 20, .varies = true},
    {.name = "faults", .nodes = 4, .limit = 2, .has_faults = true},
    {.name = "faults", .nodes = 4, .limit = 20, .has_faults = true},
    {.name = "faults", .nodes = 16, .limit = 20, .has_faults = true},
    {.name = "blind watches", .nodes = 4, .limit = 20, .has_blind = true},
    {.name = "blind, faults", .nodes = 4, .limit = 20, .has_blind = true, .has_faults = true},
    {.name = "blind, faults",
     .nodes = 16,
     .limit = 20,
     .has_blind = true,
     .has_faults = true,
     .is_busy = true},
    {.name = "10/s, burst 5", .nodes = 4, .limit = 5, .is_rate = true, .a_minute = 600},
    {.name = "10/s, burst 5", .nodes = 16, .limit = 5, .is_rate = true, .a_minute = 600},
    {.name = "2/min, burst 1", .nodes = 4, .limit = 1, .is_rate = true, .a_minute = 2},
    {.name = "10/s, faults",
     .nodes = 4,
     .limit = 5,
     .is_rate = true,
     .a_minute = 600,
     .varies = true,
     .has_faults = true},
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

struct run;

/* A node's entry in sluice_nodes. */
struct entry {
    uint64_t revision; /* 0: none yet */
    uint64_t beats;
};

struct delivery {
    struct sim_event end;
    struct node *node;
    bool is_open;
};

struct node {
    struct run *run;
    struct sim_event tick, beat, beat_request, beat_reply, wish, request, reply, life, sight;
    struct sim_event hears;       /* of the limit's key */
    struct sim_event hears_nodes; /* of others' entries */
    struct limit_share_self self;
    struct limit_share seen;
    struct limit_share_step step; /* under way */
    uint64_t revision, sent_for;
    usec_t known; /* since when it knows the value as it is but for its own entry */
    bool is_up, is_still, is_blind, is_asking, is_stored, is_lost;
    uint32_t may, open, demand;
    uint32_t closing; /* that the receiver may have yet, as the node believes */
    usec_t closed_at;
    struct delivery deliveries[OPEN_MAX];
    struct member others[NODES_MAX];
    struct member_ear ear;
    struct member_lease lease;
    uint32_t lapses;              /* of the lease, that the share knows of */
    usec_t beat_sent, idle_since; /* idle: nothing open, though it wants */
    uint64_t beats;
    double bucket; /* tokens */
    usec_t filled;
};

struct figures {
    uint32_t most,
        beyond; /* open at once; above what is allowed, with the share of who stood still */
    double used, beyond_rate; /* tokens above rate x T + burst */
    usec_t longest_wait;
    uint64_t puts, refused;
};

struct run {
    const struct scene *scene;
    struct sim_world world;
    struct limit_share value;
    uint64_t revision;
    struct entry entries[NODES_MAX];
    uint64_t last_entry; /* the bucket's revision */
    struct node nodes[NODES_MAX];
    uint32_t open, stood; /* stood: what the one that stands still has open */
    double open_time, busy_time;
    usec_t counted, end;
    double shared_bucket; /* the receiver's: rate and burst of all nodes */
    usec_t shared_filled;
    uint64_t sent;
    struct figures figures;
};

/* usec to the servers, or back */
static usec_t way(struct run *run)
{
    return sim_between(&run->world, run->scene->is_busy ? (struct sim_range){5000, 50000}
                                                        : (struct sim_range){300, 1500});
}

static double unit_rate(const struct run *run) /* tokens a second of one unit */
{
    const struct scene *scene = run->scene;
    return scene->a_minute / 60.0 / limit_share_parts(scene->limit);
}

static uint32_t held(struct node *n)
{
    if (n->run->world.now - n->closed_at >= CLOSING) {
        n->closing = 0;
    }
    return n->open + n->closing;
}

/* Add up what was open since the last change, while everybody wants as much as there is. */
static void count_open(struct run *run)
{
    usec_t now = run->world.now;
    uint32_t demand = 0;
    for (uint32_t i = 0; i < run->scene->nodes; i++) {
        const struct node *n = &run->nodes[i];
        demand += n->is_up && !n->is_still ? n->demand : 0;
    }
    if (now > WARM_UP && demand >= run->scene->limit) {
        run->open_time += (double)run->open * (double)(now - run->counted);
        run->busy_time += (double)run->scene->limit * (double)(now - run->counted);
    }
    run->counted = now;
}

static void change_open(struct node *n, int by)
{
    struct run *run = n->run;
    count_open(run);
    n->open += (uint32_t)by;
    run->open += (uint32_t)by;
    if (n == run->nodes + 1 && !n->is_still && n->open < run->stood) {
        run->stood = n->open;
    }
    struct figures *f = &run->figures;
    uint32_t allowed = run->scene->limit + run->stood;
    f->most = run->open > f->most ? run->open : f->most;
    if (run->open > allowed && run->open - allowed > f->beyond) {
        f->beyond = run->open - allowed;
    }
}

static void end_wait(struct node *n)
{
    struct figures *f = &n->run->figures;
    usec_t waited = n->run->world.now - n->idle_since;
    if (n->idle_since >= WARM_UP && waited > f->longest_wait && n->demand > 0) {
        f->longest_wait = waited;
    }
}

static void open_more(struct node *n)
{
    for (int i = 0; i < OPEN_MAX && held(n) < n->may && n->open < n->demand; i++) {
        struct delivery *d = &n->deliveries[i];
        if (!d->is_open) {
            d->is_open = true;
            if (n->open == 0) {
                end_wait(n);
            }
            change_open(n, 1);
            sim_after(&n->run->world, &d->end,
                      sim_between(&n->run->world, (struct sim_range){SECOND / 5, SECOND}));
        }
    }
}

static void close_one(struct delivery *d)
{
    sim_cancel(&d->node->run->world, &d->end);
    d->is_open = false;
    d->node->closing = held(d->node) - d->node->open + 1;
    d->node->closed_at = d->node->run->world.now;
    change_open(d->node, -1);
    if (d->node->open == 0) {
        d->node->idle_since = d->node->run->world.now;
    }
}

/* A node's bucket, up to now, with the units that it may use. */
static void fill(struct node *n)
{
    double rate = unit_rate(n->run) * n->may;
    double burst = (double)n->run->scene->limit * n->may / n->self.limit;
    n->bucket += rate * (double)(n->run->world.now - n->filled) / SECOND;
    n->bucket = n->bucket > burst ? burst : n->bucket;
    n->filled = n->run->world.now;
}

static void use(struct node *n, uint32_t units)
{
    if (n->run->scene->is_rate) {
        fill(n);
    }
    n->may = units;
}

/* Asked before anything else that a node does. */
static bool has_right(struct node *n)
{
    bool has = member_lease_right(&n->lease, n->run->world.now) == MEMBER_RIGHT_ALL;
    if (n->lease.lapses != n->lapses) {
        n->lapses = n->lease.lapses;
        limit_share_void(&n->self);
        n->bucket = 0;
        use(n, 0);
    }
    return has;
}

/* Entries of nodes that are late count no more. What a value says of one may be younger than its silence: it
 * is left as long as the value was not known when our last entry went. */
static void drop_late(struct node *n, struct limit_share *seen)
{
    struct run *run = n->run;
    usec_t now = run->world.now, heard = n->ear.heard;
    bool is_in_doubt = false;
    for (uint32_t i = 0; i < run->scene->nodes; i++) {
        const struct member *m = &n->others[i];
        if (&run->nodes[i] == n || m->revision == 0) {
            continue;
        }
        enum member_state state = member_look(m, heard);
        bool is_late = state != MEMBER_ALIVE;
        if (is_late && n->known <= heard) {
            limit_share_drop(seen, (uint16_t)(i + 1));
        }
        is_in_doubt |= member_look(m, now) != state || (is_late && n->known > heard);
    }
    if (is_in_doubt && now - n->beat_sent >= AGAIN) {
        sim_at(&run->world, &n->beat, now);
    }
}

/* What the node does now, and what it asks the servers for. */
static void think(struct node *n)
{
    struct run *run = n->run;
    usec_t now = run->world.now;
    struct limit_share seen = n->seen;
    if (!n->is_up || n->is_still) {
        return;
    }
    if (!has_right(n) || n->is_asking) {
        return;
    }
    drop_late(n, &seen);
    n->self.want = n->demand;
    n->self.in_use = run->scene->is_rate ? 0 : held(n);
    if (run->scene->is_rate) {
        fill(n);
        n->self.tokens = (uint32_t)(n->bucket * 1000);
    }
    limit_share_next(&seen, &n->self, now, &n->step);
    use(n, n->step.is_due ? n->step.may_use : n->step.then_use);
    if (n->step.is_due) {
        n->bucket -= n->step.give / 1000.0;
        n->is_asking = true;
        n->sent_for = n->revision;
        n->is_lost =
            run->scene->has_faults && sim_between(&run->world, (struct sim_range){0, 49}) == 0;
        run->figures.puts++;
        sim_after(&run->world, &n->request, way(run));
    }
    if (!run->scene->is_rate) {
        open_more(n);
    }
}

/* Shares may never add up to more than the limit, whatever happened. */
static void check_shares(const struct node *n)
{
    const struct limit_share *v = &n->run->value;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        sum += v->entries[i].share;
    }
    struct figures *f = &n->run->figures;
    if (sum > n->self.limit && sum - n->self.limit > f->beyond) {
        f->beyond = sum - n->self.limit;
    }
}

static void at_server(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, request);
    struct run *run = n->run;
    n->is_stored = n->sent_for == run->revision;
    if (n->is_stored) {
        run->value = n->step.value;
        run->revision++;
        check_shares(n);
        for (uint32_t i = 0; i < run->scene->nodes; i++) {
            sim_after(&run->world, &run->nodes[i].hears, way(run));
        }
    } else {
        run->figures.refused++;
    }
    /* An answer that is lost is replaced by reading the key, after a second. */
    sim_after(&run->world, &n->reply, n->is_lost ? SECOND : way(run));
}

static void read_key(struct node *n)
{
    if (n->is_up && !n->is_still && n->revision != n->run->revision) {
        n->seen = n->run->value;
        n->revision = n->run->revision;
        n->known = n->run->world.now;
    }
}

/* Its put succeeded: what others have in the value is as it knew it. */
static void know_own(struct node *n)
{
    n->seen = n->step.value;
    n->revision = n->sent_for + 1;
}

static void at_reply(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, reply);
    if (n->is_still) {
        sim_after(&n->run->world, &n->reply, SECOND); /* it stays in the socket */
        return;
    }
    n->is_asking = false;
    (void)has_right(n); /* puts that were made before are not gone by then */
    if (n->is_lost) {
        n->bucket = n->bucket > 0 ? n->bucket : 0; /* what was given stays given */
    } else if (n->is_stored) {
        if (n->revision == n->sent_for) {
            know_own(n);
        }
        if (limit_share_put(&n->self, &n->step, n->run->world.now)) {
            use(n, n->step.then_use);
            n->bucket += n->step.take / 1000.0;
        }
    } else if (n->self.voids == n->step.voids) {
        n->bucket += n->step.give / 1000.0;
    }
    read_key(n);
    think(n);
}

static void at_hears(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, hears);
    read_key(n);
    think(n);
}

static void at_end(struct sim_event *e)
{
    struct delivery *d = container_of(e, struct delivery, end);
    struct node *n = d->node;
    if (n->is_still) {
        sim_after(&n->run->world, e, SECOND); /* the receiver waits for it */
        return;
    }
    think(n);
    if (n->open > n->may || n->open > n->demand) {
        close_one(d);
    } else {
        sim_after(&n->run->world, e,
                  sim_between(&n->run->world, (struct sim_range){SECOND / 5, SECOND}));
    }
    think(n);
}

/* One goes: the receiver's own bucket says whether all together were within the limit. */
static void send_one(struct node *n)
{
    struct run *run = n->run;
    usec_t now = run->world.now;
    run->shared_bucket += run->scene->a_minute / 60.0 * (double)(now - run->shared_filled) / SECOND;
    double burst = run->scene->limit;
    run->shared_bucket = (run->shared_bucket > burst ? burst : run->shared_bucket) - 1;
    run->shared_filled = now;
    run->sent += now > WARM_UP;
    if (-run->shared_bucket > run->figures.beyond_rate) {
        run->figures.beyond_rate = -run->shared_bucket;
    }
    end_wait(n);
    n->idle_since = now;
    n->bucket -= 1;
}

static void at_tick(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, tick);
    sim_after(&n->run->world, e, TICK);
    think(n);
    if (n->run->scene->is_rate && n->is_up && !n->is_still) {
        fill(n);
        while (n->bucket >= 1 && n->demand > 0) {
            send_one(n);
        }
    }
}

static void hear_entry(struct node *n, uint32_t from)
{
    const struct entry *e = &n->run->entries[from];
    usec_t now = n->run->world.now;
    member_ear_told(&n->ear, e->revision, now);
    if (&n->run->nodes[from] == n && e->beats == n->beats) {
        member_ear_own(&n->ear, n->beat_sent);
    }
    if (n->others[from].revision == 0) {
        member_init(&n->others[from], e->revision, now);
    } else {
        member_seen(&n->others[from], e->revision, now);
    }
}

/* Of all that was put since the last that it heard, what has not been replaced, in the order of revisions. */
static void at_hears_nodes(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, hears_nodes);
    const struct entry *entries = n->run->entries;
    if (n->is_still) {
        sim_after(&n->run->world, e, SECOND);
    }
    while (n->is_up && !n->is_still && !n->is_blind && n->ear.revision < n->run->last_entry) {
        uint32_t next = NODES_MAX;
        for (uint32_t i = 0; i < NODES_MAX; i++) {
            bool is_later = entries[i].revision > n->ear.revision;
            next = is_later && (next == NODES_MAX || entries[i].revision < entries[next].revision)
                       ? i
                       : next;
        }
        hear_entry(n, next);
    }
}

static void at_sight(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, sight);
    n->is_blind = !n->is_blind;
    sim_after(&n->run->world, e,
              sim_between(&n->run->world, n->is_blind
                                              ? (struct sim_range){SECOND, 20 * SECOND}
                                              : (struct sim_range){5 * SECOND, 60 * SECOND}));
    sim_after(&n->run->world, &n->hears_nodes, 0);
}

static void at_beat(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, beat);
    struct run *run = n->run;
    sim_after(&run->world, e, n->is_still ? SECOND : MEMBER_BEAT);
    if (n->is_up && !n->is_still) {
        n->beats++;
        n->beat_sent = run->world.now;
        sim_after(&run->world, &n->beat_request, way(run));
    }
}

static void at_beat_request(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, beat_request);
    struct run *run = n->run;
    run->entries[n - run->nodes] = (struct entry){++run->last_entry, n->beats};
    sim_after(&run->world, &n->beat_reply, way(run));
    for (uint32_t i = 0; i < run->scene->nodes; i++) {
        sim_after(&run->world, &run->nodes[i].hears_nodes, way(run));
    }
}

static void at_beat_reply(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, beat_reply);
    usec_t now = n->run->world.now;
    if (n->is_still) {
        sim_after(&n->run->world, e, SECOND);
    } else if (n->is_up && !member_lease_renew(&n->lease, n->beat_sent, now)) {
        member_lease_begin(&n->lease, n->lease.epoch + 1, n->beat_sent);
    }
}

static void at_wish(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, wish);
    struct run *run = n->run;
    count_open(run);
    bool wants = sim_between(&run->world, (struct sim_range){0, 2}) > 0;
    usec_t most = 2 * (usec_t)run->scene->limit;
    uint32_t demand = wants ? (uint32_t)sim_between(&run->world, (struct sim_range){1, most}) : 0;
    if (n->demand == 0) {
        n->idle_since = run->world.now;
    }
    n->demand = demand;
    sim_after(&run->world, e, sim_between(&run->world, (struct sim_range){SECOND, 8 * SECOND}));
    think(n);
}

/* A process starts, with nothing but its number. */
static void start(struct node *n)
{
    usec_t now = n->run->world.now;
    count_open(n->run);
    n->self = (struct limit_share_self){.node = (uint16_t)(n - n->run->nodes + 1),
                                        .is_rate = n->run->scene->is_rate,
                                        .limit = n->run->scene->limit};
    if (n->self.is_rate) {
        n->self.limit = limit_share_parts(n->run->scene->limit);
        n->self.turn_min = (usec_t)(SECOND / unit_rate(n->run));
    }
    memset(n->others, 0, sizeof(n->others));
    n->ear = (struct member_ear){.revision = 0};
    n->is_up = true;
    n->is_asking = false;
    n->may = n->closing = 0;
    n->bucket = 0;
    n->filled = n->idle_since = now;
    member_lease_begin(&n->lease, n->lease.epoch + 1, now);
    read_key(n);
    sim_at(&n->run->world, &n->beat, now);
    sim_after(&n->run->world, &n->hears_nodes, way(n->run));
}

static void die(struct node *n)
{
    count_open(n->run);
    n->is_up = false;
    sim_cancel(&n->run->world, &n->reply);
    for (int i = 0; i < OPEN_MAX; i++) {
        if (n->deliveries[i].is_open) {
            close_one(&n->deliveries[i]);
        }
    }
}

/* The first node dies at 200 s and returns at 300 s; the second stands still from 400 to 430 s; the
 * last joins at 100 s. */
static void at_life(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, life);
    struct run *run = n->run;
    usec_t now = run->world.now;
    if (n == run->nodes) {
        if (n->is_up) {
            die(n);
            sim_after(&run->world, e, 100 * SECOND);
        } else {
            start(n);
        }
    } else if (n == run->nodes + 1 && now < 430 * SECOND) {
        count_open(run);
        n->is_still = true;
        run->stood = n->open;
        sim_at(&run->world, e, 430 * SECOND);
    } else if (n == run->nodes + 1 && n->is_still) {
        count_open(run);
        n->is_still = false;
        n->idle_since = now;
        sim_after(&run->world, e, 3 * SECOND); /* until all is closed that it had open */
    } else if (n == run->nodes + 1) {
        run->stood = 0;
    } else {
        start(n);
    }
}

static void begin_node(struct run *run, uint32_t number)
{
    struct node *n = &run->nodes[number];
    const struct scene *scene = run->scene;
    n->run = run;
    n->tick.happen = at_tick;
    n->beat.happen = at_beat;
    n->beat_request.happen = at_beat_request;
    n->beat_reply.happen = at_beat_reply;
    n->wish.happen = at_wish;
    n->request.happen = at_server;
    n->reply.happen = at_reply;
    n->hears.happen = at_hears;
    n->hears_nodes.happen = at_hears_nodes;
    n->sight.happen = at_sight;
    n->life.happen = at_life;
    n->demand = 1000;
    for (int i = 0; i < OPEN_MAX; i++) {
        n->deliveries[i] = (struct delivery){.end.happen = at_end, .node = n};
    }
    sim_at(&run->world, &n->tick, sim_between(&run->world, (struct sim_range){0, TICK}));
    if (scene->varies) {
        sim_at(&run->world, &n->wish, number);
    }
    if (scene->has_blind) {
        sim_at(&run->world, &n->sight,
               sim_between(&run->world, (struct sim_range){0, 60 * SECOND}));
    }
    if (scene->has_faults && number == 0) {
        sim_at(&run->world, &n->life, 200 * SECOND);
    } else if (scene->has_faults && number == 1) {
        sim_at(&run->world, &n->life, 400 * SECOND);
    } else if (scene->has_faults && number == scene->nodes - 1) {
        sim_at(&run->world, &n->life, 100 * SECOND);
        return;
    }
    start(n);
}

static struct figures run_scene(const struct scene *scene, uint64_t seed)
{
    static struct run run;
    memset(&run, 0, sizeof(run));
    run.scene = scene;
    run.revision = 1;
    run.end = (scene->a_minute == 2 ? 3600 : 600) * SECOND;
    run.shared_bucket = scene->limit;
    sim_world_init(&run.world, seed);
    for (uint32_t i = 0; i < scene->nodes; i++) {
        begin_node(&run, i);
    }
    while (run.world.now < run.end && sim_step(&run.world)) {
    }
    count_open(&run);
    run.figures.used = run.open_time / run.busy_time;
    if (scene->is_rate) {
        run.figures.used =
            (double)run.sent * 60 * SECOND / scene->a_minute / (double)(run.end - WARM_UP);
    }
    sim_world_fini(&run.world);
    return run.figures;
}

static bool holds_limits(const struct scene *scene, const struct figures *f)
{
    usec_t turn = scene->a_minute == 2 ? 150 * SECOND : LIMIT_SHARE_ROUND;
    bool is_calm = !scene->varies && !scene->has_faults;
    bool is_met = f->beyond == 0 && f->beyond_rate < 1e-6;
    is_met &= !(is_calm && scene->is_rate) || f->used >= 0.9;
    is_met &= scene->is_rate || scene->has_faults || f->used >= 0.95;
    return is_met && (!is_calm || f->longest_wait <= turn);
}

int sim_cluster(int argc, char **argv)
{
    uint64_t seed = 1;
    bool is_met = true;
    if (argc == 2 && strcmp(argv[0], "--seed") == 0) {
        seed = strtoull(argv[1], NULL, 10);
    } else if (argc > 0) {
        (void)fputs("sluice-sim cluster: bad arguments\n", stderr);
        return 2;
    }
    (void)puts(
        "scene            nodes  limit   most  beyond    used  longest wait   puts/s  refused");
    for (size_t i = 0; i < SCENES; i++) {
        const struct scene *scene = &scenes[i];
        struct figures f = run_scene(scene, seed);
        bool is_good = holds_limits(scene, &f);
        double seconds = scene->a_minute == 2 ? 3600 : 600;
        (void)printf("%-15s %6u %6u %6u %7.2f %6.1f%% %11.1f s %8.2f %7.1f%%%s\n", scene->name,
                     scene->nodes, scene->limit, f.most,
                     scene->is_rate ? f.beyond_rate + f.beyond : (double)f.beyond, 100 * f.used,
                     (double)f.longest_wait / SECOND, (double)f.puts / seconds,
                     100.0 * (double)f.refused / (double)(f.puts > 0 ? f.puts : 1),
                     is_good ? "" : "  NOT MET");
        is_met &= is_good;
    }
    return is_met ? 0 : 1;
}
