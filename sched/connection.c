/* Connection slots. Called by the pull loop (placement), the report path and the timers. One entry
 * is in flight on a connection at a time. */
#include "sched/connection.h"

#include "sched/transport.h"

#include <assert.h>
#include <errno.h>

int connection_init_all(struct sched *s)
{
    size_t count = (size_t)s->config.process_limit;
    s->connections = s->host.alloc(s->host.ctx, count * sizeof(struct connection));
    if (s->connections == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct connection *c = &s->connections[i];
        *c = (struct connection){.state = CONNECTION_FREE};
        list_init(&c->in_destination);
        action_init(&c->close);
        list_push_back(&s->free_connections, &c->in_transport);
    }
    return 0;
}

void connection_fini_all(struct sched *s)
{
    if (s->connections != NULL) {
        s->host.release(s->host.ctx, s->connections);
        s->connections = NULL;
    }
}

uint32_t connection_number(const struct sched *s, const struct connection *c)
{
    return (uint32_t)(c - s->connections);
}

bool connection_is_available(const struct sched *s)
{
    return s->shared.entries_in_flight < (uint64_t)s->config.process_limit;
}

static void leave_idle(struct sched *s, struct connection *c)
{
    assert(c->state == CONNECTION_IDLE);
    list_remove(&c->in_transport);
    list_remove(&c->in_destination);
    shared_sub(&c->destination->idle_connections, 1);
    shared_sub(&s->shared.idle, 1);
}

/* Neither in flight nor idle any more. The slot most recently used is used first. */
static void set_free(struct sched *s, struct connection *c)
{
    shared_sub(&c->destination->connections, 1);
    shared_sub(&s->shared.connections, 1);
    c->destination = NULL;
    c->state = CONNECTION_FREE;
    list_push_front(&s->free_connections, &c->in_transport);
}

static void end_idle(struct sched *s, struct connection *c)
{
    leave_idle(s, c);
    set_free(s, c);
    action_queue(s, &c->close, SCHED_CLOSE);
}

/* End the connection that has been idle longest; its destination has none in flight on it, so no
 * entry waits for it in particular. */
static void make_room(struct sched *s)
{
    assert(!list_is_empty(&s->idle_connections));
    struct connection *c = list_first(&s->idle_connections, struct connection, in_transport);
    struct sched_destination *other = c->destination;
    end_idle(s, c);
    destination_settle(s, other);
}

void connection_place(struct sched *s, struct sched_entry *e)
{
    struct sched_destination *d = entry_destination(e);
    struct connection *c;
    if (!list_is_empty(&d->idle)) {
        c = list_first(&d->idle, struct connection, in_destination);
        leave_idle(s, c);
        c->is_new = false;
    } else {
        destination_refresh_hosts(s, d);
        if (list_is_empty(&s->free_connections)) {
            make_room(s);
        }
        c = list_first(&s->free_connections, struct connection, in_transport);
        list_remove(&c->in_transport);
        c->destination = d;
        c->is_new = true;
        shared_add(&d->connections, 1);
        shared_add(&s->shared.connections, 1);
    }
    c->state = CONNECTION_BUSY;
    c->entry = e;
    e->connection = connection_number(s, c);
}

/* A dead destination keeps no connection, nor does one whose hosts are gone. */
static bool may_idle(const struct sched *s, const struct sched_destination *d)
{
    return s->config.connection_idle_limit > 0 && !destination_is_dead(d) && !d->lacks_hosts;
}

void connection_report(struct sched *s, uint32_t number, bool is_open)
{
    struct connection *c = &s->connections[number];
    assert(c->state == CONNECTION_BUSY);
    c->entry = NULL;
    if (is_open && may_idle(s, c->destination)) {
        c->state = CONNECTION_IDLE;
        c->idle_since = s->now;
        list_push_back(&s->idle_connections, &c->in_transport);
        list_push_front(&c->destination->idle, &c->in_destination);
        shared_add(&c->destination->idle_connections, 1);
        shared_add(&s->shared.idle, 1);
        return;
    }
    set_free(s, c);
    if (is_open) {
        action_queue(s, &c->close, SCHED_CLOSE);
    }
}

void connection_lose(struct sched *s, uint32_t number)
{
    assert(number < (uint32_t)s->config.process_limit);
    struct connection *c = &s->connections[number];
    if (c->state != CONNECTION_IDLE) {
        return;
    }
    struct sched_destination *d = c->destination;
    leave_idle(s, c);
    set_free(s, c);
    destination_settle(s, d);
}

void connection_close_idle(struct sched *s, struct sched_destination *d)
{
    while (!list_is_empty(&d->idle)) {
        end_idle(s, list_first(&d->idle, struct connection, in_destination));
    }
}

usec_t connection_wake_at(const struct sched *s)
{
    if (list_is_empty(&s->idle_connections)) {
        return USEC_NEVER;
    }
    return list_first(&s->idle_connections, struct connection, in_transport)->idle_since +
           s->config.connection_idle_limit;
}

void connection_expire(struct sched *s)
{
    while (connection_wake_at(s) <= s->now) {
        make_room(s);
    }
}
