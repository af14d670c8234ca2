/* Owns the sweeps that wait and how far the first of them has come. The activator's thread only;
 * finds messages, and leaves what becomes of them to the activator. */
#include "engine/activator/sweep.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/activator/activation.h"
#include "engine/state/engine.h"

#include <stdlib.h>
#include <string.h>

/* The classes that each kind walks, in this order; SPOOL_CLASS_COUNT ends them. */
static const uint8_t walks[][SPOOL_CLASS_COUNT + 1] = {
    [SWEEP_REVIEW] = {SPOOL_HELD, SPOOL_CLASS_COUNT},
    [SWEEP_FLUSH] = {SPOOL_DEFERRED, SPOOL_CLASS_COUNT},
    [SWEEP_APPLY] = {SPOOL_HELD, SPOOL_DEFERRED, SPOOL_INCOMING, SPOOL_CLASS_COUNT},
    [SWEEP_TURNS] = {SPOOL_DEFERRED, SPOOL_CLASS_COUNT},
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
        if (s->counter != NULL) {
            atomic_fetch_sub_explicit(s->counter, 1, memory_order_relaxed); /* a figure */
        }
        selector_fini(&s->selector);
        free(s);
    }
}

void sweep_count(struct sweep *s, _Atomic uint32_t *counter)
{
    s->counter = counter;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Messages of a part: their ids take 16 MB at most. */
enum { PART_SIZE = 1 << 19 };

void sweeper_init(struct sweeper *s)
{
    *s = (struct sweeper){.part_size = PART_SIZE};
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

static void begin_part(struct sweeper *s, uint64_t part)
{
    id_set_fini(&s->taken);
    s->part = part;
    begin_class(s, 0);
}

/* Divides the mail that is there now into parts. Mail that comes later is judged by the orders when
 * it is activated, so the sweep leaves it out. */
static void begin_sweep(struct sweeper *s, struct activation *a)
{
    struct spool_counts counts = {0};
    if (spool_read_counts(a->reader, &counts) != 0) {
        counts.messages = 0; /* all mail is one part: it takes more memory, but misses none */
    }
    s->parts = counts.messages / s->part_size + 1;
    s->end = atomic_load_explicit(&a->engine->next_id, memory_order_relaxed);
    begin_part(s, 0);
}

/* Makes the newest sweep of the same kind that has not begun select all mail. false: there is none
 */
static bool widen_another(struct sweeper *s, const struct sweep *sweep)
{
    struct sweep *other = NULL;
    for (struct sweep *at = s->first->next; at != NULL; at = at->next) {
        other = at->kind == sweep->kind ? at : other;
    }
    if (other != NULL) {
        selector_fini(&other->selector);
    }
    return other != NULL;
}

void sweeper_add(struct sweeper *s, struct sweep *sweep)
{
    sweep->next = NULL;
    if (s->waiting >= SWEEPS_MAX && sweep->kind == SWEEP_FLUSH) {
        log_warning("%d walks over the queue wait: a flush is dropped", SWEEPS_MAX);
        sweep_free(sweep);
        return;
    }
    if (s->waiting >= SWEEPS_MAX && widen_another(s, sweep)) {
        sweep_free(sweep);
        return;
    }
    s->waiting++;
    if (s->first == NULL) {
        s->first = s->last = sweep;
        s->parts = 0;
    } else {
        s->last->next = sweep;
        s->last = sweep;
    }
}

static void end_sweep(struct sweeper *s)
{
    struct sweep *done = s->first;
    s->first = done->next;
    s->last = s->first == NULL ? NULL : s->last;
    s->parts = 0;
    s->waiting--;
    sweep_free(done);
    id_set_fini(&s->taken);
}

static bool is_of_part(const struct sweeper *s, uint64_t id)
{
    return id < s->end && (id * 0x9E3779B97F4A7C15u >> 32) % s->parts == s->part;
}

/* Notes that the message was found in this part. false when it was found before, or when there is
 * no memory to note it */
static bool remember(struct sweeper *s, uint64_t id)
{
    return !id_set_has(&s->taken, id) && id_set_add(&s->taken, id);
}

/* --- the walk --------------------------------------------------------------------------------- */

/* Whether the message was not tried and waits for its turn. errors: ERR_AGAIN */
static int waits_for_turn(struct activation *a, const struct spool_position *p, bool *ret)
{
    struct spool_retry retry = {.is_paced = false};
    int err = spool_read_retry(a->reader, p->id, &retry);
    *ret = err == 0 && retry.is_paced;
    return err == ERR_AGAIN ? err : 0;
}

/* Whether the sweep wants the message at p. errors: ERR_AGAIN: it cannot be read for now */
static int look_at(struct sweeper *s, struct activation *a, const struct spool_position *p,
                   bool *ret_is_wanted)
{
    usec_t not_before = 0;
    bool is_wanted = false;
    int err = s->first->kind == SWEEP_TURNS
                  ? waits_for_turn(a, p, &is_wanted)
                  : activation_matches(a, p, &s->first->selector, &is_wanted, &not_before);
    if (err == 0 && is_wanted && s->first->kind == SWEEP_APPLY) {
        /* The order of this sweep may be lifted or over by now, and then ends no mail. */
        err = activation_may_end(a, p, &is_wanted);
    } else if (err == 0 && is_wanted) {
        is_wanted = not_before <= clock_wall();
        if (is_wanted && s->first->kind == SWEEP_REVIEW) {
            err = activation_is_free(a, p, &is_wanted);
        }
    }
    *ret_is_wanted = err == 0 && is_wanted && remember(s, p->id);
    return err;
}

/* The message that was given back, if its queue entry is still there. errors: ERR_MISSING: none was
 * given back, or it is gone; ERR_AGAIN */
static int take_again(struct sweeper *s, struct activation *a, struct spool_position *ret)
{
    const struct spool_position wanted = s->again;
    const struct spool_position before = {wanted.class, wanted.time, wanted.id - 1};
    if (wanted.id == 0) {
        return ERR_MISSING;
    }
    int err = spool_scan(a->reader, (enum spool_class)wanted.class, &before, ret);
    if (err == ERR_AGAIN) {
        return ERR_AGAIN;
    }
    s->again.id = 0;
    return err == 0 && ret->time == wanted.time && ret->id == wanted.id ? 0 : ERR_MISSING;
}

void sweeper_give_back(struct sweeper *s, const struct spool_position *position)
{
    s->again = *position;
}

/* Looks at the next message of the class under way. *ret_is_wanted: the message at s->at is to be
 * made active. errors: ERR_AGAIN: s->at is where it was */
static int step_sweep(struct sweeper *s, struct activation *a, bool *ret_is_wanted)
{
    enum spool_class class = (enum spool_class)walks[s->first->kind][s->walk];
    const struct spool_position before = s->at;
    int err = spool_scan(a->reader, class, &before, &s->at);
    *ret_is_wanted = false;
    if (err == 0 && is_of_part(s, s->at.id)) {
        err = look_at(s, a, &s->at, ret_is_wanted);
    } else if (err != 0 && err != ERR_AGAIN) {
        begin_class(s, (uint8_t)(s->walk + 1));
        return 0;
    }
    if (err != 0) {
        s->at = before;
    }
    return err;
}

int sweeper_next(struct sweeper *s, struct activation *a, int *budget, struct spool_position *ret)
{
    int err = take_again(s, a, ret);
    while (err == ERR_MISSING && s->first != NULL && *budget > 0) {
        bool is_wanted;
        if (s->parts == 0) {
            begin_sweep(s, a);
        }
        if (walks[s->first->kind][s->walk] < SPOOL_CLASS_COUNT) {
            --*budget;
            err = step_sweep(s, a, &is_wanted);
            err = err == 0 && !is_wanted ? ERR_MISSING : err;
            *ret = s->at;
        } else if (s->part + 1 < s->parts) {
            begin_part(s, s->part + 1);
        } else {
            end_sweep(s);
        }
    }
    return err;
}
