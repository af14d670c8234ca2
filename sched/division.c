/* Waiting entries divided to a smaller recipient limit, see sched/division.h. What a crash can
 * repeat is bounded by the size of an entry, so none may keep one that the config does not allow.
 * Staging and committing walk the same lists in the same order. */
#include "sched/division.h"

#include "sched/terms.h"
#include "sched/transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Of the piece that starts at a recipient. */
static uint32_t piece_size(const struct sched_entry *e, uint32_t at, uint32_t limit)
{
    return e->count - at < limit ? e->count - at : limit;
}

static int stage_entry(struct sched *s, struct sched_entry *e, uint32_t limit,
                       struct entry_queue *pieces)
{
    for (uint32_t at = limit; at < e->count; at += piece_size(e, at, limit)) {
        struct sched_entry *piece = entry_new(s, e->peer, piece_size(e, at, limit));
        if (piece == NULL) {
            return -ENOMEM;
        }
        entry_queue_push(pieces, piece);
    }
    return 0;
}

static int stage_all(struct sched *s, const struct sched_destination *d, uint32_t limit,
                     struct entry_queue *pieces)
{
    int err = 0;
    for (struct list *at = d->todo.next; limit > 0 && err == 0 && at != &d->todo; at = at->next) {
        err = stage_entry(s, container_of(at, struct sched_entry, place.link), limit, pieces);
    }
    return err;
}

int division_stage_one(struct sched *s, const struct sched_destination *d, uint32_t limit,
                       struct entry_queue *ret_pieces)
{
    struct entry_queue pieces = {0};
    int err = stage_all(s, d, limit, &pieces);
    if (err != 0) {
        division_abandon(s, &pieces);
    } else {
        *ret_pieces = pieces;
    }
    return err;
}

int division_stage(struct sched *s, uint32_t limit, struct entry_queue *ret_pieces)
{
    struct entry_queue pieces = {0};
    list_foreach(d, &s->destinations, struct sched_destination, all)
    {
        if (stage_all(s, d, terms_recipient_limit(d, limit), &pieces) != 0) {
            division_abandon(s, &pieces);
            return -ENOMEM;
        }
    }
    *ret_pieces = pieces;
    return 0;
}

void division_abandon(struct sched *s, struct entry_queue *pieces)
{
    struct sched_entry *piece;
    while ((piece = entry_queue_pop(pieces)) != NULL) {
        entry_free(s, piece);
    }
}

static void commit_entry(struct sched *s, struct sched_entry *e, uint32_t limit,
                         struct entry_queue *pieces)
{
    struct sched_entry *last = e;
    for (uint32_t at = limit; at < e->count; at += last->count) {
        struct sched_entry *piece = entry_queue_pop(pieces);
        assert(piece != NULL && piece->peer == e->peer);
        piece->count = piece_size(e, at, limit);
        assert(piece->count <= piece->capacity);
        memcpy(entry_indexes(piece), entry_indexes(e) + at, piece->count * sizeof(uint32_t));
        entry_wait_behind(s, piece, last);
        last = piece;
    }
    e->count = e->count < limit ? e->count : limit;
}

/* The pieces of an entry are in the list behind it when it is done, and small enough. */
static void commit_all(struct sched *s, const struct sched_destination *d, uint32_t limit,
                       struct entry_queue *pieces)
{
    for (struct list *at = d->todo.next; limit > 0 && at != &d->todo; at = at->next) {
        commit_entry(s, container_of(at, struct sched_entry, place.link), limit, pieces);
    }
}

void division_commit_one(struct sched *s, const struct sched_destination *d, uint32_t limit,
                         struct entry_queue *pieces)
{
    commit_all(s, d, limit, pieces);
    assert(pieces->last == NULL);
}

void division_commit(struct sched *s, uint32_t limit, struct entry_queue *pieces)
{
    list_foreach(d, &s->destinations, struct sched_destination, all)
    {
        commit_all(s, d, terms_recipient_limit(d, limit), pieces);
    }
    assert(pieces->last == NULL);
}
