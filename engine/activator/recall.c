/* Owns the recalls that wait and how far the first of them has come. The activator's thread only;
 * finds messages, and leaves what becomes of them to the activator. */
#include "engine/activator/recall.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>

struct recall *recall_new(uint32_t capacity, _Atomic uint32_t *counter)
{
    struct recall *r = calloc(1, sizeof(*r) + capacity * sizeof(r->at[0]));
    if (r != NULL) {
        r->counter = counter;
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); /* a figure */
    }
    return r;
}

void recall_free(struct recall *r)
{
    if (r != NULL) {
        atomic_fetch_sub_explicit(r->counter, 1, memory_order_relaxed); /* a figure */
        free(r);
    }
}

static void end_first(struct recaller *c)
{
    struct recall *done = c->first;
    c->first = done->next;
    c->last = c->first == NULL ? NULL : c->last;
    recall_free(done);
}

void recaller_fini(struct recaller *c)
{
    while (c->first != NULL) {
        end_first(c);
    }
    id_set_fini(&c->missed);
}

void recaller_add(struct recaller *c, struct recall *r)
{
    r->next = NULL;
    if (c->first == NULL) {
        c->first = r;
    } else {
        c->last->next = r;
    }
    c->last = r;
}

void recaller_pass(struct recaller *c)
{
    if (++c->first->done >= c->first->count) {
        end_first(c);
    }
}

void recaller_settled(struct recaller *c, uint64_t id, uint32_t flow, usec_t turn,
                      _Atomic uint32_t *counter)
{
    if (!id_set_has(&c->missed, id)) {
        return;
    }
    id_set_remove(&c->missed, id);
    struct recall *again = turn == 0 ? NULL : recall_new(1, counter);
    if (again != NULL) {
        again->at[again->count++] =
            (struct spool_position){SPOOL_DEFERRED, (uint64_t)turn, id, flow};
        recaller_add(c, again);
    }
}

int recaller_next(struct recaller *c, struct spool_reader *reader, int *budget,
                  const struct id_set *active, struct spool_position *ret)
{
    while (c->first != NULL && --*budget >= 0) {
        if (c->first->done >= c->first->count) {
            end_first(c);
            continue;
        }
        const struct spool_position wanted = c->first->at[c->first->done];
        const struct spool_position before = {wanted.class, wanted.time, wanted.id - 1,
                                              wanted.flow};
        int err = spool_scan(reader, (enum spool_class)wanted.class, &before, ret);
        if (err == ERR_AGAIN) {
            return ERR_AGAIN;
        }
        bool is_active = id_set_has(active, wanted.id);
        if (err == 0 && ret->time == wanted.time && ret->id == wanted.id && !is_active) {
            return 0;
        }
        if (is_active && !id_set_add(&c->missed, wanted.id)) {
            log_error("out of memory: a message comes at its turn, and not before");
        }
        recaller_pass(c);
    }
    return ERR_MISSING;
}
