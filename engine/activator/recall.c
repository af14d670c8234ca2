/* Owns the lines of recalls and how far the first of each has come. The activator's thread only, but for
 * making a recall; finds messages, and leaves what becomes of them to the activator. */
#include "engine/activator/recall.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>

struct recall_account *recall_account_new(void)
{
    struct recall_account *a = calloc(1, sizeof(*a));
    if (a != NULL) {
        atomic_init(&a->holders, 1);
    }
    return a;
}

void recall_account_put(struct recall_account *a)
{
    /* Nobody reads anything else of it, so the last one need only be the last. */
    if (a != NULL && atomic_fetch_sub_explicit(&a->holders, 1, memory_order_acq_rel) == 1) {
        free(a);
    }
}

struct recall *recall_new(uint32_t capacity, struct recall_account *account)
{
    struct recall *r = calloc(1, sizeof(*r) + capacity * sizeof(r->at[0]));
    if (r != NULL && account != NULL) {
        r->account = account;
        atomic_fetch_add_explicit(&account->holders, 1, memory_order_relaxed); /* we hold it */
    }
    return r;
}

void recall_free(struct recall *r)
{
    if (r != NULL) {
        recall_account_put(r->account);
        free(r);
    }
}

static void end_first(struct recall_line *l)
{
    struct recall *done = l->last->next;
    l->last->in_line -= done->count - done->done;
    l->last->next = done->next;
    l->last = l->last == done ? NULL : l->last;
    recall_free(done);
}

void recall_line_fini(struct recall_line *l)
{
    while (l->last != NULL) {
        end_first(l);
    }
}

void recall_line_add_first(struct recall_line *l, struct recall *r)
{
    struct recall *last = l->last == NULL ? r : l->last;
    last->in_line = recall_line_count(l) + r->count - r->done;
    r->next = last->next;
    last->next = r;
    l->last = last;
}

void recall_line_add(struct recall_line *l, struct recall *r)
{
    recall_line_add_first(l, r);
    r->in_line = recall_line_count(l);
    l->last = r;
}

void recall_line_pass(struct recall_line *l)
{
    struct recall *first = l->last->next;
    first->done++;
    l->last->in_line--;
    if (first->done >= first->count) {
        end_first(l);
    }
}

bool recall_take_missed(struct id_set *missed, uint64_t id)
{
    bool was_missed = id_set_has(missed, id);
    if (was_missed) {
        id_set_remove(missed, id);
    }
    return was_missed;
}

int recall_line_next(struct recall_line *l, struct spool_reader *reader, int *budget,
                     const struct id_set *active, struct id_set *missed, struct spool_position *ret)
{
    while (l->last != NULL && --*budget >= 0) {
        const struct recall *first = l->last->next;
        const struct spool_position wanted = first->at[first->done];
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
        if (is_active && !id_set_add(missed, wanted.id)) {
            log_error("out of memory: a message comes at its turn, and not before");
        }
        recall_line_pass(l);
    }
    return ERR_MISSING;
}
