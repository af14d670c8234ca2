/* Destinations at hosts with room, see sched/place/host_queue.h. Called by parking and server about
 * destinations, by destdb about hosts. A destination stands at each host of its group, so that any
 * of them that has room leads to it. */
#include "sched/place/host_queue.h"

#include "sched/parking.h"
#include "sched/transport.h"
#include "sched/turn.h"

static const struct party *party_of(const struct tree_node *n)
{
    return container_of(n, const struct server, in_queue)->party;
}

static uint64_t server_key(const struct tree_node *n)
{
    return party_first_position(party_of(n));
}

static uint64_t host_key(const struct tree_node *n)
{
    return server_key(container_of(n, const struct destdb_host, in_queue)->queue.first);
}

void host_queue_init(struct sched *s)
{
    tree_init(&s->host_queue, host_key);
}

void host_queue_init_host(struct destdb_host *h)
{
    tree_init(&h->queue, server_key);
    tree_node_init(&h->in_queue);
}

static void unlink_host(struct sched *s, struct destdb_host *h)
{
    if (tree_node_is_linked(&h->in_queue)) {
        tree_remove(&s->host_queue, &h->in_queue);
    }
}

static void file_host(struct sched *s, struct destdb_host *h)
{
    bool is_useful = !h->is_full && h->wanted > 0;
    s->useful_hosts += is_useful - h->is_useful;
    h->is_useful = is_useful;
    if (!h->is_full && !tree_is_empty(&h->queue) && !tree_node_is_linked(&h->in_queue)) {
        tree_insert(&s->host_queue, &h->in_queue);
    }
}

/* Its hosts are unlinked as well, because their order may depend on it. */
static void take_out(struct sched *s, struct party *p)
{
    for (uint32_t i = 0; i < p->server_count; i++) {
        struct server *server = &p->servers[i];
        struct destdb_host *h = server->host;
        unlink_host(s, h);
        if (tree_node_is_linked(&server->in_queue)) {
            tree_remove(&h->queue, &server->in_queue);
        }
        h->wanted -= server->is_wanted;
        server->is_wanted = false;
    }
}

static void file_hosts(struct sched *s, struct party *p)
{
    for (uint32_t i = 0; i < p->server_count; i++) {
        file_host(s, p->servers[i].host);
    }
}

void host_queue_leave(struct sched *s, struct party *p)
{
    if (s->config.host_concurrency_limit > 0) {
        take_out(s, p);
        file_hosts(s, p);
    }
}

void host_queue_update(struct sched *s, struct party *p)
{
    if (s->config.host_concurrency_limit == 0) {
        return;
    }
    take_out(s, p);
    for (uint32_t i = 0; p->work == OPEN_HOST && i < p->server_count; i++) {
        struct server *server = &p->servers[i];
        if (server->preference != p->group || destdb_host_is_waiting(server->host) ||
            (server->families & party_room(s, p)) == 0) {
            continue;
        }
        server->is_wanted = true;
        server->host->wanted++;
        if (party_has_parked(p)) {
            tree_insert(&server->host->queue, &server->in_queue);
        }
    }
    file_hosts(s, p);
}

static void touch_users(struct sched *s, struct destdb_host *h)
{
    list_foreach(server, &h->users, struct server, in_host)
    {
        turn_touch(s, server->party);
    }
}

void host_queue_filled(struct sched *s, struct destdb_host *h)
{
    h->full_since = s->selection_runs;
    unlink_host(s, h);
    file_host(s, h);
    if (flows_take_turns(s)) {
        touch_users(s, h);
    }
}

/* As with slots (parking_slot_opened): jobs that were passed over meanwhile may go on, and there
 * are not more displaced entries than entries in flight. */
void host_queue_opened(struct sched *s, struct destdb_host *h)
{
    file_host(s, h);
    if (flows_take_turns(s)) {
        touch_users(s, h);
    } else if (h->wanted > 0 && h->full_since != s->selection_runs) {
        job_unblock_all(s, &s->flow);
    }
    placement_slot_opened(s);
}

const struct party *host_queue_first(const struct sched *s)
{
    if (tree_is_empty(&s->host_queue)) {
        return NULL;
    }
    const struct destdb_host *h =
        container_of(s->host_queue.first, const struct destdb_host, in_queue);
    return party_of(h->queue.first);
}
