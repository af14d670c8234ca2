#include "bench/sim/sim_client.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS            100 /* the client's process limit: never reached */
#define CONNECT_TIMEOUT  (30 * USEC_PER_SEC)
#define GREETING_TIMEOUT (300 * USEC_PER_SEC)
#define CACHE_TIME       (2 * USEC_PER_SEC)   /* an idle connection is kept so long */
#define REUSE_TIME       (300 * USEC_PER_SEC) /* a connection carries mail until it is so old */

struct client;

/* A connection slot of the core. */
struct slot {
    struct sim_event timer; /* the hand-off, then the timeout of the step */
    struct client *client;
    struct sched_entry *entry; /* NULL: idle or free */
    struct sim_link *link;
    usec_t opened;
    uint32_t recipients;
    bool is_handed_off, is_connected, may_be_kept;
};

struct client {
    struct sim_run run;
    struct sim_world world;
    struct sim_server server;
    struct sim_event wake;
    struct sched *sched;
    struct slot slots[SLOTS];
    struct sched_recipient *recipients;
    uint32_t read;
    usec_t last_done;
    struct sim_result result;
    double sum, squares;
    bool is_finished;
};

static void *allocate_client_memory(void *ctx, size_t size)
{
    return malloc(size);
}

static void release_client_memory(void *ctx, void *obj)
{
    free(obj);
}

static void release_client_hosts(void *ctx, void *hosts)
{
}

static void act_client(struct client *c);

/* --- results ---------------------------------------------------------------------------------- */

static void count_windows(struct client *c)
{
    struct sched_debug d;
    while (sched_debug_next(c->sched, &d)) {
        c->result.feedbacks++;
        c->sum += d.window;
        c->squares += (double)d.window * d.window;
    }
}

static void report_slot(struct slot *s, enum sched_feedback_sign sign, bool is_open)
{
    static const struct sched_reason reason = {"4.4.2", "lost connection or timeout"};
    struct client *c = s->client;
    struct sched_outcome o = {
        .entry = s->entry,
        .feedback = sign,
        .has_deferred = sign == SCHED_NEGATIVE,
        .connection_open = is_open,
        .reason = &reason,
    };
    s->entry = NULL;
    c->last_done = c->world.now;
    if (sign == SCHED_NEGATIVE) {
        c->result.deferred += s->recipients;
    }
    sched_report(c->sched, &o, c->world.now);
    count_windows(c);
    act_client(c);
}

static void hang_up(struct slot *s)
{
    sim_cancel(&s->client->world, &s->timer);
    sim_link_close(s->link);
    s->link = NULL;
}

/* Postfix keeps whole seconds here. */
static bool may_be_kept(const struct slot *s)
{
    usec_t until = s->opened / USEC_PER_SEC * USEC_PER_SEC + REUSE_TIME;
    return s->may_be_kept && s->client->world.now / USEC_PER_SEC * USEC_PER_SEC <= until;
}

static void hear(void *ctx, enum sim_news news)
{
    struct slot *s = ctx;
    struct client *c = s->client;
    switch (news) {
    case SIM_CONNECTED:
        s->is_connected = true;
        sim_after(&c->world, &s->timer, GREETING_TIMEOUT);
        break;
    case SIM_GREETED:
        sim_cancel(&c->world, &s->timer);
        sim_link_deliver(s->link, s->recipients);
        break;
    case SIM_REFUSED:
        sim_cancel(&c->world, &s->timer);
        s->link = NULL;
        c->result.refused += s->recipients;
        report_slot(s, SCHED_NEGATIVE, false);
        break;
    case SIM_DELIVERED:
    default:
        if (may_be_kept(s)) {
            report_slot(s, SCHED_POSITIVE, true);
        } else {
            hang_up(s);
            report_slot(s, SCHED_POSITIVE, false);
        }
    }
}

static void begin_session(struct slot *s)
{
    struct client *c = s->client;
    if (s->link != NULL) {
        sim_link_deliver(s->link, s->recipients);
        return;
    }
    s->is_connected = false;
    s->opened = c->world.now;
    s->link = sim_link_open(&c->server, hear, s);
    sim_after(&c->world, &s->timer, CONNECT_TIMEOUT);
}

static void slot_timer(struct sim_event *e)
{
    struct slot *s = container_of(e, struct slot, timer);
    if (!s->is_handed_off) {
        s->is_handed_off = true;
        begin_session(s);
        return;
    }
    struct sim_result *r = &s->client->result;
    *(s->is_connected ? &r->greeting_timeouts : &r->connect_timeouts) += s->recipients;
    hang_up(s);
    report_slot(s, SCHED_NEGATIVE, false);
}

/* --- the core's actions ----------------------------------------------------------------------- */

static struct sched_message next_client_part(struct client *c, uint32_t limit)
{
    uint32_t left = c->run.recipients - c->read;
    uint32_t count = left < limit ? left : limit;
    struct sched_message part = {
        .id = 1,
        .recipients = c->recipients + c->read,
        .recipient_count = count,
        .unread_count = left - count,
        .more = count == limit,
    };
    c->read += count;
    return part;
}

static void deliver_entry(struct client *c, const struct sched_action *a)
{
    struct slot *s = &c->slots[a->connection];
    assert(s->entry == NULL && (s->link == NULL) == a->connection_is_new);
    s->entry = a->entry;
    (void)sched_entry_indexes(a->entry, &s->recipients);
    s->is_handed_off = false;
    /* Postfix asks for a connection to be kept only when deliveries follow each other closely; what
     * an already kept one was opened with stays. */
    if (a->connection_is_new) {
        s->may_be_kept = c->run.is_caching && c->last_done + USEC_PER_SEC >= c->world.now;
    }
    sim_after(&c->world, &s->timer, sim_between(&c->world, c->run.hand_off));
}

static void act_client(struct client *c)
{
    struct sched_action a;
    while (sched_pull(c->sched, &a, c->world.now)) {
        switch (a.kind) {
        case SCHED_DELIVER:
            deliver_entry(c, &a);
            break;
        case SCHED_CLOSE:
            hang_up(&c->slots[a.connection]);
            break;
        case SCHED_READ: {
            struct sched_message part = next_client_part(c, a.wanted);
            if (sched_submit_more(c->sched, &part, c->world.now) != 0) {
                abort();
            }
            break;
        }
        case SCHED_DEFER:
            c->result.untried += a.index_count;
            c->result.deferred += a.index_count;
            break;
        case SCHED_FINISHED:
            c->is_finished = true;
            break;
        case SCHED_ASK:
        case SCHED_RETURN:
        case SCHED_LANE_GONE:
        case SCHED_OWNER_ASKS:
        case SCHED_OWNER_RETURNS:
        case SCHED_NONE:
        case SCHED_RESOLVE:
        case SCHED_BOUNCE:
        case SCHED_EXHAUSTED:
        default:
            abort();
        }
    }
    usec_t at = sched_wake_at(c->sched);
    if (at == USEC_NEVER) {
        sim_cancel(&c->world, &c->wake);
    } else {
        sim_at(&c->world, &c->wake, at);
    }
}

static void client_wakes(struct sim_event *e)
{
    act_client(container_of(e, struct client, wake));
}

/* --- a run ------------------------------------------------------------------------------------ */

static void configure(struct sched_config *c, const struct sim_run *r)
{
    sched_config_defaults(c);
    c->concurrency_feedback_rule = r->rule;
    c->initial_destination_concurrency = r->initial;
    c->destination_concurrency_limit = r->limit;
    c->destination_concurrency_positive_feedback = r->feedback;
    c->destination_concurrency_negative_feedback = r->feedback;
    c->destination_recipient_limit = (int)r->recipients_per_delivery;
    c->process_limit = SLOTS;
    c->connection_idle_limit = CACHE_TIME;
    c->feedback_debug = true;
}

static void start_client(struct client *c)
{
    static const char address[] = "u@server.example";
    struct sched_config config;
    configure(&config, &c->run);
    const struct sched_host host = {allocate_client_memory, release_client_memory,
                                    release_client_memory, NULL};
    c->sched = sched_new(&config, &host, release_client_hosts, 0);
    c->recipients = calloc(c->run.recipients, sizeof(struct sched_recipient));
    if (c->sched == NULL || c->recipients == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < c->run.recipients; i++) {
        c->recipients[i] =
            (struct sched_recipient){slice_of(address), slice_of(strchr(address, '@') + 1), i, 0};
    }
    for (int i = 0; i < SLOTS; i++) {
        c->slots[i] = (struct slot){.timer.happen = slot_timer, .client = c};
    }
    c->wake.happen = client_wakes;
    c->last_done = -USEC_PER_SEC - 1; /* nothing done yet */
    struct sched_message part = next_client_part(c, sched_read_limit(c->sched));
    if (sched_submit(c->sched, &part, 0) != 0) {
        abort();
    }
    act_client(c);
}

static void finish_client(struct client *c)
{
    struct sim_result *r = &c->result;
    r->recipients = c->run.recipients;
    r->duration = c->world.now;
    r->average = c->sum / r->feedbacks;
    r->deviation = sqrt(fmax(0, c->squares / r->feedbacks - r->average * r->average));
    for (int i = 0; i < SLOTS; i++) {
        hang_up(&c->slots[i]);
    }
    sched_free(c->sched);
    sim_server_fini(&c->server);
    sim_world_fini(&c->world);
    free(c->recipients);
}

struct sim_result sim_client_run(const struct sim_run *r)
{
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        abort();
    }
    c->run = *r;
    sim_world_init(&c->world, r->seed);
    sim_server_init(&c->server, &c->world, &r->server);
    start_client(c);
    while (!c->is_finished) {
        if (!sim_step(&c->world)) {
            abort();
        }
    }
    finish_client(c);
    struct sim_result result = c->result;
    free(c);
    return result;
}
