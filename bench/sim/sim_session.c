/* The connections of one lane. Called by bench/sim/sim_pace.c. */
#include "bench/sim/sim_session.h"

#include "bench/sim/sim_event.h"
#include "sched/limit/ceiling.h"

#include <assert.h>

#define CONNECTIONS_MAX 100

enum session_state { SESSION_CLOSED, SESSION_ARRIVING, SESSION_CONNECTING, SESSION_OPEN };

struct session {
    struct sim_event event;
    struct lane *lane;
    enum session_state state;
    bool is_refused; /* by the receiver, which the lane learns with the event */
    uint32_t sent, taken;
};

struct lane {
    struct sim_world world;
    const struct sim_session_config *config;
    struct ceiling connections, messages;
    struct ceiling_count count;
    uint32_t trying;
    struct sim_event noticed[CONNECTIONS_MAX]; /* ends that the receiver is about to learn of */
    uint32_t noticed_next, held;               /* held: connections that the receiver counts */
    struct session sessions[CONNECTIONS_MAX];
    struct sim_session_result result;
    usec_t from, counted_until;
};

static struct lane *only; /* one run at a time: an event names its connection only */

static void count_open(struct lane *l)
{
    usec_t now = l->world.now;
    if (now > l->counted_until && now > l->from) {
        usec_t begin = l->counted_until > l->from ? l->counted_until : l->from;
        l->result.open += (double)(now - begin) * l->count.open;
    }
    l->counted_until = now;
}

static bool is_counted(const struct lane *l)
{
    return l->world.now >= l->from;
}

static void notice(struct sim_event *e)
{
    only->held--;
}

static void end(struct session *s, usec_t wait)
{
    struct lane *l = s->lane;
    s->state = SESSION_CLOSED;
    sim_after(&l->world, &s->event,
              wait + sim_between(&l->world, (struct sim_range){0, l->config->rest}));
}

static void connect_one(struct session *s)
{
    struct lane *l = s->lane;
    const struct sim_session_config *c = l->config;
    uint32_t held = ceiling_count_held(&l->count, l->world.now);
    if (!ceiling_permits(&l->connections, held + l->trying, l->world.now)) {
        sim_after(&l->world, &s->event, USEC_PER_SEC / 10);
        return;
    }
    l->trying++;
    s->state = SESSION_ARRIVING;
    sim_after(&l->world, &s->event,
              c->delay / 2 + sim_between(&l->world, (struct sim_range){0, c->delay / 4}));
}

static void arrived(struct session *s)
{
    struct lane *l = s->lane;
    const struct sim_session_config *c = l->config;
    s->state = SESSION_CONNECTING;
    s->is_refused = c->allowed > 0 && l->held >= c->allowed;
    l->held += !s->is_refused;
    sim_after(&l->world, &s->event,
              c->delay / 2 + sim_between(&l->world, (struct sim_range){0, c->delay / 4}));
}

static void connected(struct session *s)
{
    struct lane *l = s->lane;
    l->trying--;
    count_open(l);
    if (s->is_refused) {
        l->result.connects_refused += is_counted(l);
        ceiling_count_refused(&l->count, &l->connections, l->world.now);
        end(s, USEC_PER_SEC);
        return;
    }
    l->result.connects += is_counted(l);
    ceiling_count_opened(&l->count, &l->connections, l->world.now);
    s->state = SESSION_OPEN;
    s->sent = s->taken = 0;
    sim_after(&l->world, &s->event, l->config->delay);
}

static void close_one(struct session *s)
{
    struct lane *l = s->lane;
    struct sim_event *e = &l->noticed[l->noticed_next++ % CONNECTIONS_MAX];
    count_open(l);
    ceiling_count_closed(&l->count, l->world.now);
    e->happen = notice;
    assert(e->node.position == 0);
    sim_after(&l->world, e, l->config->noticed);
    end(s, 0);
}

/* The verdict on a message, and the next one. */
static void message(struct session *s)
{
    struct lane *l = s->lane;
    const struct sim_session_config *c = l->config;
    if (s->sent > 0) {
        bool is_taken = c->allowed_on_each == 0 || s->taken < c->allowed_on_each;
        l->result.messages += is_taken && is_counted(l);
        l->result.messages_refused += !is_taken && is_counted(l);
        if (!is_taken) {
            ceiling_refused(&l->messages, s->taken, l->world.now);
            close_one(s);
            return;
        }
        ceiling_proved(&l->messages, ++s->taken);
    }
    if (s->sent >= c->each || !ceiling_permits(&l->messages, s->sent, l->world.now)) {
        close_one(s);
        return;
    }
    s->sent++;
    sim_after(&l->world, &s->event, c->delay);
}

static void step(struct sim_event *e)
{
    struct session *s = container_of(e, struct session, event);
    if (s->state == SESSION_CLOSED) {
        connect_one(s);
    } else if (s->state == SESSION_ARRIVING) {
        arrived(s);
    } else if (s->state == SESSION_CONNECTING) {
        connected(s);
    } else {
        message(s);
    }
}

struct sim_session_result sim_session_run(const struct sim_session_config *c, usec_t from)
{
    static struct lane lane;
    assert(c->wanted <= CONNECTIONS_MAX / 2);
    lane = (struct lane){.config = c, .from = from};
    only = &lane;
    sim_world_init(&lane.world, c->seed);
    for (uint32_t i = 0; i < c->wanted; i++) {
        lane.sessions[i].lane = &lane;
        lane.sessions[i].event.happen = step;
        sim_at(&lane.world, &lane.sessions[i].event, 0);
    }
    while (lane.world.now < c->span && sim_step(&lane.world)) {
    }
    count_open(&lane);
    lane.result.open /= (double)(lane.world.now - from);
    sim_world_fini(&lane.world);
    return lane.result;
}
