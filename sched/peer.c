/* What one job has for one destination. Called by batch, entry and selection. */
#include "sched/peer.h"

#include "sched/transport.h"

#include <assert.h>

struct peer *peer_new(struct sched *s, struct job *job, struct sched_destination *d)
{
    struct peer *p = &job->first_peer;
    if (job->has_first_peer) {
        p = s->host.alloc(s->host.ctx, sizeof(*p));
        if (p == NULL) {
            return NULL;
        }
    } else {
        job->has_first_peer = true;
    }
    list_init(&p->link);
    list_init(&p->waiting);
    tree_node_init(&p->in_parked);
    p->job = job;
    p->destination = d;
    p->entries = 0;
    return p;
}

void peer_free(struct sched *s, struct peer *p)
{
    assert(p->entries == 0 && !peer_is_waiting(p) && !tree_node_is_linked(&p->in_parked));
    list_remove(&p->link);
    if (p == &p->job->first_peer) {
        p->job->has_first_peer = false;
        return;
    }
    s->host.release(s->host.ctx, p);
}

struct peer *peer_pick(struct sched *s, struct job *job, bool needs_connection)
{
    list_foreach(p, &job->peers, struct peer, link)
    {
        const struct sched_destination *d = p->destination;
        if (!peer_is_waiting(p) || !destination_is_open(s, d) ||
            (needs_connection && d->work != OPEN_NOW)) {
            continue;
        }
        list_remove(&job->peers);
        list_insert_after(&p->link, &job->peers);
        return p;
    }
    return NULL;
}
