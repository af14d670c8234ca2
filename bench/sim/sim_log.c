/* What the logs of several nodes cost three servers, and what binds first: frames in virtual time
 * through the processors, disks and links of nodes and servers, each a queue of its own. What a step
 * costs is a parameter, measured with real servers (docs/cluster.md has them beside the figures that
 * they led to); what is modelled is who waits for whom, and how batches come about. Fails when what
 * the queues did does not agree with what can be said without them. */
#include "bench/sim/sim_event.h"
#include "bench/sim/sluice_sim.h"
#include "bench/tool/latency.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND USEC_PER_SEC

enum {
    NODES_MAX = 32,
    SERVERS = 3,
    UNITS_MAX = 64,
    CONNECTIONS_MAX = 1000, /* of a node */
    FRAME_MESSAGES = 116,   /* 512 KB */
    SYNCS_AT_ONCE = 8,      /* of a disk */
    AT_LOAD = 16,           /* receptions of a batch behind which mail is gathered */
};
static const usec_t gathers_most = 5000; /* as engine/writer/spool_writer_batch.c has it */

/* In usec of one processor, if not said otherwise. */
struct costs {
    double node_message;    /* of the node, without a log */
    double node_log;        /* more, for a message in the log */
    double node_frame;      /* more, for a frame */
    double client;          /* of source and receiver; on one machine only */
    double server_frame;    /* of all servers, for a frame ... */
    double server_message;  /* ... and for a message in it */
    double sync;            /* of a disk, usec */
    double sent, stored;    /* bytes of a message in frames as they are sent; in a node's spool */
    double disk, link, way; /* bytes/usec; the same; usec that a packet takes */
};

/* With messages of 4 KB, by docs/cluster.md, "How far three servers go". */
static const struct costs measured = {
    .node_message = 75,
    .node_log = 6,
    .node_frame = 60,
    .client = 58,
    .server_frame = 1150,
    .server_message = 15.5,
    .sync = 200,
    .sent = 2250,
    .stored = 4500,
    .disk = 500,
    .link = 125,
    .way = 50,
};
/* Of what all servers do for a frame: the leader's when it comes, and as much again when two have it;
 * and each other one's. */
static const double leader_part = 0.24, follower_part = 0.13;

/* So many units that work side by side; who comes takes the one that is free first. */
struct resource {
    unsigned units;
    double free_at[UNITS_MAX], busy;
};

struct machine {
    struct resource cpu, disk, syncs, in, out; /* disk: what is written */
};

enum kind { CPU, DISK, SYNCS, IN, OUT, BATCHES, KIND_COUNT };
static const char *const kind_names[KIND_COUNT] = {
    "processors", "disks", "syncs", "links in", "links out", "one batch at a time"};

struct node;
struct run;

/* A frame at one of the servers: 0 is its leader. */
struct copy {
    struct sim_event step;
    struct node *node;
    unsigned number, at, messages;
    unsigned behind; /* frames that it has not yet, beside the one that is under way */
    uint64_t serial;
    bool is_busy;
};

struct connection {
    struct sim_event next;
    struct node *node;
    usec_t came; /* its message has come whole */
};

struct node {
    struct run *run;
    unsigned number;
    struct machine *machine;
    struct sim_event arrival, begin, step;
    struct copy copies[SERVERS];
    unsigned at;
    struct connection connections[CONNECTIONS_MAX];
    struct connection *idle[CONNECTIONS_MAX], *waiting[CONNECTIONS_MAX], *batch[CONNECTIONS_MAX];
    unsigned idle_count, waiting_count, batch_count, frame_messages, left; /* left: of the batch */
    uint64_t serial;                                                       /* of the frame */
    bool counts;                                                           /* it is on two disks */
    bool is_busy; /* a batch is under way */
    usec_t shipped, ship_took;
    double busy; /* with batches */
};

struct plan {
    struct costs costs;
    unsigned nodes, cores, connections;
    double rate; /* messages a second of a node; 0: each connection sends the next one at once */
    bool is_one_machine;
    usec_t span;
    uint64_t seed;
};

struct figures {
    double rate; /* messages a second that a node answers */
    double sent; /* that all send */
    double frame_messages;
    usec_t p50, p99;
    double load[KIND_COUNT]; /* of the busiest server or node, 0 .. 1 */
    double server_cpu;       /* usec a message */
};

struct run {
    const struct plan *plan;
    struct sim_world world;
    struct machine nodes_at[NODES_MAX], servers[SERVERS];
    struct node *nodes;
    struct latency answers;
    uint64_t answered, frames, framed;
    double server_busy; /* usec of processors, also where all are one machine's */
};

static double use(struct resource *r, double from, double cost)
{
    unsigned first = 0;
    for (unsigned i = 1; i < r->units; i++) {
        first = r->free_at[i] < r->free_at[first] ? i : first;
    }
    double begin = r->free_at[first] > from ? r->free_at[first] : from;
    r->free_at[first] = begin + cost;
    r->busy += cost;
    return begin + cost;
}

static struct machine *server_of(struct run *run, const struct node *n, unsigned copy)
{
    return &run->servers[(n->number + copy) % SERVERS];
}

/* Processors and disk of a machine; where all are one, its. */
static struct resource *cpu_of(struct run *run, struct machine *m)
{
    return run->plan->is_one_machine ? &run->nodes_at[0].cpu : &m->cpu;
}

/* A disk writes and syncs. */
static double store(struct run *run, struct machine *m, double bytes)
{
    const struct costs *c = &run->plan->costs;
    m = run->plan->is_one_machine ? &run->nodes_at[0] : m;
    double written = use(&m->disk, (double)run->world.now, bytes / c->disk);
    return use(&m->syncs, written, c->sync);
}

/* Bytes that leave one machine come to the other meanwhile. */
static double arrive(struct run *run, struct machine *to, double bytes)
{
    const struct costs *c = &run->plan->costs;
    double span = bytes / c->link;
    return use(&to->in, (double)run->world.now - span, span) + c->way;
}

static void happen_at(struct run *run, struct sim_event *e, double at)
{
    sim_at(&run->world, e, (usec_t)(at + 0.5));
}

/* --- clients ---------------------------------------------------------------------------------- */

/* A message begins: half of what it costs comes before its end, half with its delivery. */
static void begin_message(struct connection *c)
{
    struct run *run = c->node->run;
    const struct costs *costs = &run->plan->costs;
    double cost = costs->node_message + (run->plan->is_one_machine ? costs->client : 0);
    happen_at(run, &c->next, use(cpu_of(run, c->node->machine), (double)run->world.now, cost / 2));
}

static void at_arrival(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, arrival);
    double chance = (double)sim_between(&n->run->world, (struct sim_range){1, 1000000}) / 1e6;
    sim_after(&n->run->world, e, (usec_t)(-log(chance) * 1e6 / n->run->plan->rate + 0.5));
    if (n->idle_count > 0) { /* else it waits elsewhere: it is not answered, and not counted */
        begin_message(n->idle[--n->idle_count]);
    }
}

static void answer_client(struct connection *c)
{
    struct run *run = c->node->run;
    const struct costs *costs = &run->plan->costs;
    double cost = costs->node_message + (run->plan->is_one_machine ? costs->client : 0);
    latency_add(&run->answers, run->world.now - c->came);
    run->answered++;
    (void)use(cpu_of(run, c->node->machine), (double)run->world.now, cost / 2);
    if (run->plan->rate > 0) {
        c->node->idle[c->node->idle_count++] = c;
    } else {
        begin_message(c);
    }
}

/* --- a batch ---------------------------------------------------------------------------------- */

static void plan_batch(struct node *n, usec_t at)
{
    n->is_busy = true;
    sim_at(&n->run->world, &n->begin, at);
}

static void at_ready(struct sim_event *e)
{
    struct connection *c = container_of(e, struct connection, next);
    struct node *n = c->node;
    c->came = n->run->world.now;
    n->waiting[n->waiting_count++] = c;
    if (!n->is_busy) {
        plan_batch(n, n->run->world.now);
    }
}

static void send_frame(struct node *n)
{
    n->frame_messages = n->left < FRAME_MESSAGES ? n->left : FRAME_MESSAGES;
    n->run->frames++;
    n->run->framed += n->frame_messages;
    n->serial++;
    n->counts = false;
    n->at = 0;
    sim_at(&n->run->world, &n->step, n->run->world.now);
}

static void at_begin(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, begin);
    n->is_busy = n->waiting_count > 0;
    if (!n->is_busy) {
        return;
    }
    memcpy(n->batch, n->waiting, n->waiting_count * sizeof(struct connection *));
    n->batch_count = n->left = n->waiting_count;
    n->waiting_count = 0;
    n->shipped = n->run->world.now;
    send_frame(n);
}

static void end_batch(struct node *n)
{
    n->busy += (double)(n->run->world.now - n->shipped);
    usec_t gathers = n->ship_took < gathers_most ? n->ship_took : gathers_most;
    for (unsigned i = 0; i < n->batch_count; i++) {
        answer_client(n->batch[i]);
    }
    plan_batch(n, n->run->world.now + (n->batch_count >= AT_LOAD ? gathers : 0));
}

/* --- a frame ---------------------------------------------------------------------------------- */

static double server_cost(struct run *run, unsigned messages, double part)
{
    const struct costs *c = &run->plan->costs;
    double cost = part * (c->server_frame + c->server_message * messages);
    run->server_busy += cost;
    return cost;
}

static double bytes_of(const struct run *run, unsigned messages)
{
    return run->plan->costs.sent * messages;
}

/* Where a frame is: at its node, at the leader, at the node again. */
enum step { MADE, LEAVES, COMES, READ, KEPT, COUNTS, STORED, ACKNOWLEDGED, COMMITTED };
/* And at each of the two others. */
enum copy_step { COPY_LEAVES, COPY_COMES, COPY_READ, COPY_KEPT };

/* One frame after the other. */
static void begin_copy(struct copy *copy)
{
    struct node *n = copy->node;
    if (copy->is_busy) {
        copy->behind++;
        return;
    }
    copy->is_busy = true;
    copy->at = COPY_LEAVES;
    copy->serial = n->serial - copy->behind;
    copy->messages = n->frame_messages;
    sim_at(&n->run->world, &copy->step, n->run->world.now);
}

static void copy_kept(struct copy *copy)
{
    struct node *n = copy->node;
    struct run *run = n->run;
    struct machine *m = server_of(run, n, copy->number);
    if (copy->serial == n->serial && !n->counts) { /* with the leader two have it */
        n->counts = true;
        sim_at(&run->world, &n->step, run->world.now);
    }
    /* Nobody waits for this, but others do behind it. */
    (void)use(cpu_of(run, m), (double)run->world.now,
              server_cost(run, copy->messages, follower_part));
    (void)store(run, m, bytes_of(run, copy->messages));
    copy->is_busy = false;
    if (copy->behind > 0) {
        copy->behind--;
        begin_copy(copy);
    }
}

static void at_copy(struct sim_event *e)
{
    struct copy *copy = container_of(e, struct copy, step);
    struct node *n = copy->node;
    struct run *run = n->run;
    const struct costs *c = &run->plan->costs;
    struct machine *m = server_of(run, n, copy->number);
    double now = (double)run->world.now, link = bytes_of(run, copy->messages) / c->link;
    switch ((enum copy_step)copy->at++) {
    case COPY_LEAVES:
        happen_at(run, e, use(&server_of(run, n, 0)->out, now, link));
        break;
    case COPY_COMES:
        happen_at(run, e, arrive(run, m, bytes_of(run, copy->messages)));
        break;
    case COPY_READ:
        happen_at(run, e,
                  use(cpu_of(run, m), now, server_cost(run, copy->messages, follower_part)));
        break;
    case COPY_KEPT:
        happen_at(run, e, store(run, m, bytes_of(run, copy->messages)) + c->way);
        break;
    default:
        copy_kept(copy);
    }
}

static void frame_acknowledged(struct node *n)
{
    struct run *run = n->run;
    const struct costs *c = &run->plan->costs;
    n->left -= n->frame_messages;
    if (n->left > 0) {
        send_frame(n);
        return;
    }
    n->ship_took = run->world.now - n->shipped;
    happen_at(run, &n->step, store(run, n->machine, c->stored * n->batch_count));
}

static void at_step(struct sim_event *e)
{
    struct node *n = container_of(e, struct node, step);
    struct run *run = n->run;
    const struct costs *c = &run->plan->costs;
    struct machine *leader = server_of(run, n, 0);
    double now = (double)run->world.now, link = bytes_of(run, n->frame_messages) / c->link;
    switch ((enum step)n->at++) {
    case MADE:
        happen_at(
            run, e,
            use(cpu_of(run, n->machine), now, c->node_frame + c->node_log * n->frame_messages));
        break;
    case LEAVES:
        happen_at(run, e, use(&n->machine->out, now, link));
        break;
    case COMES:
        happen_at(run, e, arrive(run, leader, bytes_of(run, n->frame_messages)));
        break;
    case READ:
        happen_at(run, e,
                  use(cpu_of(run, leader), now, server_cost(run, n->frame_messages, leader_part)));
        break;
    case KEPT:
        happen_at(run, e, store(run, leader, bytes_of(run, n->frame_messages)));
        break;
    case COUNTS:
        for (unsigned i = 1; i < SERVERS; i++) {
            begin_copy(&n->copies[i]);
        }
        break; /* the first of them goes on */
    case STORED:
        happen_at(run, e,
                  use(cpu_of(run, leader), now, server_cost(run, n->frame_messages, leader_part)));
        break;
    case ACKNOWLEDGED:
        happen_at(run, e, store(run, leader, bytes_of(run, n->frame_messages)) + c->way);
        break;
    case COMMITTED:
        frame_acknowledged(n);
        break;
    default:
        end_batch(n);
    }
}

/* --- a run ------------------------------------------------------------------------------------ */

static void begin_node(struct run *run, unsigned number)
{
    struct node *n = &run->nodes[number];
    const struct plan *plan = run->plan;
    n->run = run;
    n->number = number;
    n->machine = &run->nodes_at[number];
    n->arrival.happen = at_arrival;
    n->begin.happen = at_begin;
    n->step.happen = at_step;
    for (unsigned i = 0; i < SERVERS; i++) {
        n->copies[i] = (struct copy){.step.happen = at_copy, .node = n, .number = i};
    }
    for (unsigned i = 0; i < plan->connections; i++) {
        struct connection *c = &n->connections[i];
        *c = (struct connection){.next.happen = at_ready, .node = n};
        if (plan->rate > 0) {
            n->idle[n->idle_count++] = c;
        } else {
            begin_message(c);
        }
    }
    if (plan->rate > 0) {
        sim_at(&run->world, &n->arrival, number);
    }
}

static void set_units(struct machine *m, unsigned cores)
{
    m->cpu.units = cores;
    m->syncs.units = SYNCS_AT_ONCE;
    m->disk.units = m->in.units = m->out.units = 1;
}

static void read_figures(struct run *run, struct figures *ret)
{
    const struct plan *plan = run->plan;
    double span = (double)plan->span, answered = (double)run->answered;
    *ret = (struct figures){.rate = answered * SECOND / span / plan->nodes,
                            .sent = (double)run->framed * SECOND / span,
                            .frame_messages =
                                (double)run->framed / (double)(run->frames > 0 ? run->frames : 1),
                            .p50 = latency_quantile(&run->answers, 0.5),
                            .p99 = latency_quantile(&run->answers, 0.99),
                            .server_cpu = run->server_busy / answered};
    for (unsigned i = 0; i < SERVERS; i++) {
        const struct machine *m = &run->servers[i];
        const double loads[KIND_COUNT] = {[CPU] = m->cpu.busy / plan->cores,
                                          [DISK] = m->disk.busy,
                                          [SYNCS] = m->syncs.busy / SYNCS_AT_ONCE,
                                          [IN] = m->in.busy,
                                          [OUT] = m->out.busy,
                                          [BATCHES] = run->nodes[0].busy};
        for (unsigned k = 0; k < KIND_COUNT; k++) {
            ret->load[k] = loads[k] / span > ret->load[k] ? loads[k] / span : ret->load[k];
        }
    }
}

static void run_plan(const struct plan *plan, struct figures *ret)
{
    struct run *run = calloc(1, sizeof(*run));
    struct node *nodes = calloc(plan->nodes, sizeof(*nodes));
    if (run == NULL || nodes == NULL) {
        abort();
    }
    run->plan = plan;
    run->nodes = nodes;
    sim_world_init(&run->world, plan->seed);
    for (unsigned i = 0; i < SERVERS; i++) {
        set_units(&run->servers[i], plan->cores);
    }
    for (unsigned i = 0; i < plan->nodes; i++) {
        set_units(&run->nodes_at[i], plan->cores);
        begin_node(run, i);
    }
    while (run->world.now < plan->span && sim_step(&run->world)) {
    }
    read_figures(run, ret);
    sim_world_fini(&run->world);
    latency_fini(&run->answers);
    free(nodes);
    free(run);
}

/* --- what is asked for ------------------------------------------------------------------------ */

static enum kind most_loaded(const struct figures *f)
{
    enum kind most = CPU;
    for (unsigned k = 0; k < BATCHES; k++) {
        most = f->load[k] > f->load[most] ? k : most;
    }
    return most;
}

/* What keeps nodes from more; "": they got all that was asked for. */
static const char *binds(const struct plan *plan, const struct figures *f)
{
    enum kind most = most_loaded(f);
    if (f->rate > 0.97 * plan->rate) {
        return "";
    }
    if (f->load[most] > 0.9) {
        return kind_names[most];
    }
    bool are_full = f->frame_messages > 0.7 * FRAME_MESSAGES && f->load[BATCHES] > 0.7;
    return are_full ? kind_names[BATCHES] : NULL;
}

/* What can be said without queues: what comes in at each server is what all nodes send, no answer
 * comes before four syncs, and who does not get what was asked for has found what binds. */
static bool agrees(const struct plan *plan, const struct figures *f)
{
    const struct costs *c = &plan->costs;
    double in = f->sent * c->sent / c->link / SECOND;
    return fabs(f->load[IN] - in) < 0.01 + 0.05 * in && (double)f->p50 > 4 * c->sync &&
           binds(plan, f) != NULL;
}

static bool print_table(struct plan *plan)
{
    static const unsigned counts[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, NODES_MAX};
    bool is_good = true;
    (void)puts("nodes  messages/s of each  a frame  250: p50    p99 ms  servers: processors  disk  "
               "syncs    in   out  batches  what binds");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct figures f;
        plan->nodes = counts[i];
        run_plan(plan, &f);
        bool is_row_good = agrees(plan, &f);
        (void)printf(
            "%5u %19.0f %9.1f %9.1f %9.1f %19.0f%% %4.0f%% %5.0f%% %4.0f%% %4.0f%% %7.0f%%  %s\n",
            plan->nodes, f.rate, f.frame_messages, (double)f.p50 / 1000, (double)f.p99 / 1000,
            100 * f.load[CPU], 100 * f.load[DISK], 100 * f.load[SYNCS], 100 * f.load[IN],
            100 * f.load[OUT], 100 * f.load[BATCHES],
            is_row_good ? binds(plan, &f) : "DOES NOT AGREE");
        is_good &= is_row_good;
    }
    return is_good;
}

/* As tests/integration/test_log.py -k cost measures: all on one machine. */
static void print_one_machine(struct plan *plan)
{
    plan->is_one_machine = true;
    plan->costs.disk = 2000; /* of its memory: files are synced soon after they were written */
    plan->costs.link = 1e6;
    plan->costs.way = 0;
    plan->cores = 2;
    plan->connections = 100;
    (void)puts("nodes  messages/s of all  a frame  servers us  at 1,000/s of all: p50 ms");
    for (plan->nodes = 1; plan->nodes <= 3; plan->nodes++) {
        struct figures most, steady;
        plan->rate = 0;
        run_plan(plan, &most);
        plan->rate = 1000.0 / plan->nodes;
        run_plan(plan, &steady);
        (void)printf("%5u %18.0f %8.1f %11.1f %26.1f\n", plan->nodes, most.rate * plan->nodes,
                     most.frame_messages, most.server_cpu, (double)steady.p50 / 1000);
    }
}

int sim_log(int argc, char **argv)
{
    struct plan plan = {.costs = measured,
                        .cores = 4,
                        .connections = 1000,
                        .rate = 20000,
                        .span = 2 * SECOND,
                        .seed = 1};
    double gigabit = 1;
    const struct {
        const char *name;
        double *value, most;
    } options[] = {{"--rate", &plan.rate, 1e6},
                   {"--gbit", &gigabit, 1000},
                   {"--disk", &plan.costs.disk, 1e5},
                   {"--sync", &plan.costs.sync, 1e6},
                   {"--way", &plan.costs.way, 1e6}};
    bool is_one_machine = argc == 1 && strcmp(argv[0], "--one-machine") == 0;
    for (int i = 0; i < argc && !is_one_machine; i += 2) {
        const double *found = NULL;
        for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
            if (i + 1 < argc && strcmp(argv[i], options[k].name) == 0) {
                *options[k].value = strtod(argv[i + 1], NULL);
                bool is_right = *options[k].value > 0 && *options[k].value <= options[k].most;
                found = is_right ? options[k].value : NULL;
            }
        }
        if (found == NULL) {
            (void)fputs("sluice-sim log: bad arguments\n", stderr);
            return 2;
        }
    }
    plan.costs.link = gigabit * 125;
    if (is_one_machine) {
        print_one_machine(&plan);
        return 0;
    }
    return print_table(&plan) ? 0 : 1;
}
