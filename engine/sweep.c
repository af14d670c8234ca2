/* Owns the sweeps that wait and how far the first of them has come. The activator's thread only;
 * finds messages, and leaves what becomes of them to the activator. */
#include "engine/sweep.h"

#include "base/clock.h"
#include "engine/activation.h"

#include <stdlib.h>
#include <string.h>

/* The classes that each kind walks, in this order; SPOOL_CLASS_COUNT ends them. */
static const uint8_t walks[][SPOOL_CLASS_COUNT + 1] = {
    [SWEEP_REVIEW] = {SPOOL_HELD, SPOOL_CLASS_COUNT},
    [SWEEP_FLUSH] = {SPOOL_DEFERRED, SPOOL_CLASS_COUNT},
    [SWEEP_APPLY] = {SPOOL_HELD, SPOOL_DEFERRED, SPOOL_INCOMING, SPOOL_CLASS_COUNT},
};

struct sweep *sweep_new(enum sweep_kind kind, const struct selector *selector)
{
    struct sweep *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->kind = kind;
    if (selector_copy(&s->selector, selector) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void sweep_free(struct sweep *s)
{
    if (s != NULL) {
        selector_fini(&s->selector);
        free(s);
    }
}

void sweeper_init(struct sweeper *s)
{
    *s = (struct sweeper){0};
}

void sweeper_fini(struct sweeper *s)
{
    while (s->first != NULL) {
        struct sweep *next = s->first->next;
        sweep_free(s->first);
        s->first = next;
    }
    id_set_fini(&s->taken);
    sweeper_init(s);
}

static void begin_class(struct sweeper *s, uint8_t walk)
{
    s->walk = walk;
    s->at = (struct spool_position){.class = walks[s->first->kind][walk]};
}

static void begin(struct sweeper *s)
{
    id_set_fini(&s->taken);
    begin_class(s, 0);
}

void sweeper_add(struct sweeper *s, struct sweep *sweep)
{
    sweep->next = NULL;
    if (s->first == NULL) {
        s->first = s->last = sweep;
        begin(s);
    } else {
        s->last->next = sweep;
        s->last = sweep;
    }
}

static void end(struct sweeper *s)
{
    struct sweep *done = s->first;
    s->first = done->next;
    sweep_free(done);
    if (s->first != NULL) {
        begin(s);
    } else {
        s->last = NULL;
        id_set_fini(&s->taken);
    }
}

/* false when it was found before, or cannot be remembered */
static bool remember(struct sweeper *s, uint64_t id)
{
    return !id_set_has(&s->taken, id) && id_set_add(&s->taken, id);
}

/* --- the walk ----------------------------------------------------------------------------------
 */

static bool is_wanted(struct sweeper *s, struct activation *a, const struct spool_position *p)
{
    usec_t not_before = 0;
    if (!activation_matches(a, p, &s->first->selector, &not_before)) {
        return false;
    }
    /* The order may be lifted or over by now: then it is no reason to try anything. */
    bool is_timely =
        s->first->kind == SWEEP_APPLY ? activation_may_end(a, p) : not_before <= clock_wall();
    return is_timely && remember(s, p->id);
}

/* What was given back, if it is there still. */
static bool take_again(struct sweeper *s, struct activation *a, struct spool_position *ret)
{
    const struct spool_position wanted = s->again;
    const struct spool_position before = {wanted.class, wanted.time, wanted.id - 1};
    if (wanted.id == 0) {
        return false;
    }
    s->again.id = 0;
    return spool_scan(a->reader, (enum spool_class)wanted.class, &before, ret) == 0 &&
           ret->time == wanted.time && ret->id == wanted.id;
}

void sweeper_give_back(struct sweeper *s, const struct spool_position *position)
{
    s->again = *position;
}

bool sweeper_next(struct sweeper *s, struct activation *a, int *budget, struct spool_position *ret)
{
    if (take_again(s, a, ret)) {
        return true;
    }
    while (s->first != NULL && *budget > 0) {
        uint8_t class = walks[s->first->kind][s->walk];
        if (class == SPOOL_CLASS_COUNT) {
            end(s);
            continue;
        }
        --*budget;
        if (spool_scan(a->reader, (enum spool_class) class, &s->at, &s->at) != 0) {
            begin_class(s, (uint8_t)(s->walk + 1));
        } else if (is_wanted(s, a, &s->at)) {
            *ret = s->at;
            return true;
        }
    }
    return false;
}
