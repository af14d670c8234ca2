/* What one job has for one destination. Called by batch, entry and selection. */
#include "sched/peer.h"

#include "sched/place/site.h"
#include "sched/transport.h"
#include "sched/turn.h"

#include <assert.h>

struct peer *peer_new(struct sched *s, struct job *job, struct sched_destination *d)
{
    struct peer *p = &job->first_peer;
    if (p->job != NULL) {
        p = s->host.alloc(s->host.ctx, sizeof(*p));
        if (p == NULL) {
            return NULL;
        }
    }
    struct stand *stand = flows_take_turns(s) ? turn_add_peer(s, job->flow, d) : NULL;
    if (flows_take_turns(s) && stand == NULL) {
        if (p != &job->first_peer) {
            s->host.release(s->host.ctx, p);
        }
        return NULL;
    }
    list_init(&p->link);
    tree_node_init(&p->in_parked);
    p->job = job;
    p->destination = d;
    p->stand = stand;
    p->waiting = (struct entry_queue){0};
    p->entries = 0;
    p->held = 1;
    p->first_entry.state = ENTRY_NONE;
    return p;
}

void peer_remove(struct sched *s, struct peer *p)
{
    assert(p->entries == 0 && !peer_is_waiting(p) && !tree_node_is_linked(&p->in_parked));
    list_remove(&p->link);
    if (flows_take_turns(s)) {
        turn_remove_peer(s, p);
    }
    peer_release(s, p);
}

void peer_release(struct sched *s, struct peer *p)
{
    assert(p->held > 0);
    p->held--;
    if (p->held > 0) {
        return;
    }
    if (p == &p->job->first_peer) {
        p->job = NULL;
    } else {
        s->host.release(s->host.ctx, p);
    }
}

bool peer_is_open(const struct sched *s, const struct peer *p)
{
    return flows_take_turns(s) ? turn_allows(s, p->destination, p->job->flow)
                               : destination_is_open(s, p->destination);
}

static void expect_peer(const struct peer *p)
{
    const char *at = (const char *)p;
    __builtin_prefetch(at, 1);
    __builtin_prefetch(at + offsetof(struct peer, waiting), 1);
    __builtin_prefetch(at + sizeof(struct peer) - 1, 1);
}

static void expect_next(const struct peer *p)
{
    destination_expect_selection(p->destination);
    __builtin_prefetch(p->first_entry.place.link.next, 1);
}

/* With many jobs what lies in the ring was out of the cache since it came: the next peer's destination, what
 * its entry is linked with, and the peer behind it are on the way while this one is selected. */
static void look_ahead(const struct job *job, const struct peer *selected)
{
    const struct peer *next = list_first(&job->peers, const struct peer, link);
    if (next == selected) {
        return; /* the only one */
    }
    expect_next(next);
    const struct peer *behind = container_of(next->link.next, const struct peer, link);
    if (next->destination->party->site == NULL || behind == selected) {
        expect_peer(behind);
        return;
    }
    /* Several steps lead to what is read at a site: each is taken one selection after the one before it. */
    site_expect(next->destination->party);
    site_expect_party(behind->destination->party);
    const struct peer *third = container_of(behind->link.next, const struct peer, link);
    if (third != selected) {
        expect_next(third);
        expect_peer(container_of(third->link.next, const struct peer, link));
    }
}

struct peer *peer_pick(struct sched *s, struct job *job, bool needs_connection)
{
    list_foreach(p, &job->peers, struct peer, link)
    {
        const struct sched_destination *d = p->destination;
        if (!peer_is_waiting(p) || !peer_is_open(s, p) ||
            (needs_connection && !placement_has_connection(s, d))) {
            continue;
        }
        list_remove(&job->peers);
        list_insert_after(&p->link, &job->peers);
        look_ahead(job, p);
        return p;
    }
    return NULL;
}
