#include "bench/sim/sim_server.h"

#include <assert.h>
#include <stdlib.h>

static const struct sim_range wire = {USEC_PER_MSEC / 5, USEC_PER_MSEC / 2};
/* From a client's leaving to the next accept. Shorter than a client's way from one delivery to the
 * next, as it was: otherwise the limiter refuses every connection that follows another one. */
static const struct sim_range leaving = {USEC_PER_MSEC, 2 * USEC_PER_MSEC};

#define REPETITIONS 5 /* of a Linux server's SYN-ACK, at 3, 6, 12, 24 and 48 s distance */

enum link_state {
    LINK_CALLING,   /* the client sends SYN, and again */
    LINK_HALF_OPEN, /* the client takes the connection for established */
    LINK_FORGOTTEN, /* the same, but the server does not know of it any more */
    LINK_QUEUED,
    LINK_SERVED,
};

struct sim_link {
    struct sim_event packet; /* CALLING: a SYN arrives; HALF_OPEN: the end of a handshake */
    struct list in_queue;
    struct sim_server *server;
    struct sim_process *process; /* SERVED */
    void (*tell)(void *ctx, enum sim_news);
    void *ctx;
    enum link_state state;
    int repeated;
    bool is_dead; /* QUEUED: the client left */
};

/* The queue holds one more than its backlog, on both systems. */
static bool is_full(const struct sim_server *s)
{
    return s->queued > s->config.process_limit;
}

static int served(const struct sim_server *s)
{
    int count = 0;
    for (int i = 0; i < s->config.process_limit; i++) {
        count += s->processes[i].link != NULL || s->processes[i].is_leaving;
    }
    return count;
}

static void say_news(struct sim_process *p, enum sim_news news, usec_t after)
{
    p->news = news;
    sim_after(p->server->world, &p->event, after);
}

static void leave_process(struct sim_process *p)
{
    p->link = NULL;
    p->is_leaving = true;
    sim_after(p->server->world, &p->event, sim_between(p->server->world, leaving));
}

static void serve_link(struct sim_server *s, struct sim_process *p, struct sim_link *l)
{
    list_remove(&l->in_queue);
    s->queued--;
    p->is_free = false;
    if (l->is_dead) {
        free(l);
        leave_process(p);
        return;
    }
    l->state = LINK_SERVED;
    l->process = p;
    p->link = l;
    bool is_refused = s->config.client_limit > 0 && served(s) > s->config.client_limit;
    say_news(p, is_refused ? SIM_REFUSED : SIM_GREETED, sim_between(s->world, s->config.greeting));
}

static void accept_next(struct sim_server *s)
{
    for (int i = 0; i < s->config.process_limit && !list_is_empty(&s->queue); i++) {
        if (s->processes[i].is_free) {
            serve_link(s, &s->processes[i], list_first(&s->queue, struct sim_link, in_queue));
        }
    }
}

static void process_event(struct sim_event *e)
{
    struct sim_process *p = container_of(e, struct sim_process, event);
    if (p->is_leaving) {
        p->is_leaving = false;
        p->is_free = true;
        accept_next(p->server);
        return;
    }
    struct sim_link *l = p->link;
    l->tell(l->ctx, p->news);
    if (p->news == SIM_REFUSED) {
        leave_process(p);
        free(l);
    }
}

static void enter_queue(struct sim_link *l)
{
    l->state = LINK_QUEUED;
    l->server->queued++;
    list_push_back(&l->server->queue, &l->in_queue);
    accept_next(l->server);
}

/* A FreeBSD 6 client waits 3 s between SYNs, later longer. */
static void call_again(struct sim_link *l)
{
    static const int seconds[] = {3, 3, 3, 3, 3, 6, 12, 24};
    int last = (int)(sizeof(seconds) / sizeof(seconds[0])) - 1;
    int at = l->repeated < last ? l->repeated : last;
    l->repeated++;
    sim_after(l->server->world, &l->packet, seconds[at] * USEC_PER_SEC);
}

static void wait_half_open(struct sim_link *l)
{
    sim_after(l->server->world, &l->packet, (3LL << l->repeated) * USEC_PER_SEC);
}

static void syn_arrives(struct sim_link *l)
{
    struct sim_server *s = l->server;
    bool is_dropped = is_full(s) && (s->config.full_queue == SIM_SYN_DROPPED || s->young > 1);
    if (is_dropped) {
        call_again(l);
        return;
    }
    l->tell(l->ctx, SIM_CONNECTED);
    if (!is_full(s)) {
        enter_queue(l);
        return;
    }
    l->state = LINK_HALF_OPEN;
    l->repeated = 0;
    s->young++;
    wait_half_open(l);
}

static void grow_old(struct sim_link *l)
{
    l->server->young -= l->state == LINK_HALF_OPEN && l->repeated == 0;
}

static void repeat_handshake(struct sim_link *l)
{
    grow_old(l);
    l->repeated++;
    if (l->repeated > REPETITIONS) {
        l->state = LINK_FORGOTTEN;
    } else if (is_full(l->server)) {
        wait_half_open(l);
    } else {
        enter_queue(l);
    }
}

static void packet_arrives(struct sim_event *e)
{
    struct sim_link *l = container_of(e, struct sim_link, packet);
    if (l->state == LINK_CALLING) {
        syn_arrives(l);
    } else {
        repeat_handshake(l);
    }
}

void sim_server_init(struct sim_server *s, struct sim_world *w, const struct sim_server_config *c)
{
    assert(c->process_limit > 0 && c->process_limit <= SIM_PROCESSES_MAX);
    *s = (struct sim_server){.config = *c, .world = w};
    list_init(&s->queue);
    for (int i = 0; i < c->process_limit; i++) {
        s->processes[i] =
            (struct sim_process){.event.happen = process_event, .server = s, .is_free = true};
    }
}

void sim_server_fini(struct sim_server *s)
{
    list_foreach_safe(l, &s->queue, struct sim_link, in_queue)
    {
        assert(l->is_dead);
        free(l);
    }
}

struct sim_link *sim_link_open(struct sim_server *s, void (*tell)(void *ctx, enum sim_news),
                               void *ctx)
{
    struct sim_link *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        abort();
    }
    l->packet.happen = packet_arrives;
    l->server = s;
    l->tell = tell;
    l->ctx = ctx;
    list_init(&l->in_queue);
    sim_after(s->world, &l->packet, sim_between(s->world, wire));
    return l;
}

void sim_link_pass(struct sim_link *l, void *ctx)
{
    l->ctx = ctx;
}

void sim_link_deliver(struct sim_link *l, uint32_t recipients)
{
    assert(l->state == LINK_SERVED);
    struct sim_server *s = l->server;
    say_news(l->process, SIM_DELIVERED,
             recipients * s->config.per_recipient + sim_between(s->world, s->config.message));
}

void sim_link_close(struct sim_link *l)
{
    if (l == NULL) {
        return;
    }
    if (l->state == LINK_QUEUED) {
        l->is_dead = true;
        return;
    }
    grow_old(l);
    sim_cancel(l->server->world, &l->packet);
    if (l->state == LINK_SERVED) {
        leave_process(l->process);
    }
    free(l);
}
