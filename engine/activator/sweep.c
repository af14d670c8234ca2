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
        id_set_fini(&s->walk.taken);
        free(s->walk.left);
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
    sweeper_init(s);
}

static enum spool_class class_of(const struct sweep *s)
{
    return (enum spool_class)walks[s->kind][s->walk.classes];
}

static void begin_class(struct sweep *s, uint8_t classes)
{
    struct sweep_walk *w = &s->walk;
    w->left_count = w->refused = 0;
    w->is_in_left = false;
    w->classes = classes;
    w->at = (struct spool_position){.class = walks[s->kind][classes]};
}

static void begin_part(struct sweep *s, uint64_t part)
{
    id_set_fini(&s->walk.taken);
    s->walk.part = part;
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
    s->begun++;
    s->first->walk.parts = counts.messages / s->part_size + 1;
    s->first->walk.end = atomic_load_explicit(&a->engine->next_id, memory_order_relaxed);
    begin_part(s->first, 0);
}

/* Makes the newest sweep of the same kind that has not begun select all mail. false: there is none
 */
static bool widen_another(struct sweeper *s, const struct sweep *sweep)
{
    struct sweep *other = NULL;
    for (struct sweep *at = s->first; at != NULL; at = at->next) {
        other = at->kind == sweep->kind && at->walk.parts == 0 && at != s->first ? at : other;
    }
    if (other != NULL) {
        selector_fini(&other->selector);
    }
    return other != NULL;
}

/* NULL: there is none */
static struct sweep *find_turns(const struct sweeper *s)
{
    struct sweep *at = s->first;
    while (at != NULL && at->kind != SWEEP_TURNS) {
        at = at->next;
    }
    return at;
}

void sweeper_add(struct sweeper *s, struct sweep *sweep)
{
    struct sweep *turns = sweep->kind == SWEEP_TURNS ? find_turns(s) : NULL;
    if (turns != NULL) {
        turns->is_repeated = turns->walk.parts > 0; /* else it is still to look at all */
        sweep_free(sweep);
        return;
    }
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
    sweeper_retry(s);
    if (s->first == NULL) {
        s->first = s->last = sweep;
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
    s->waiting--;
    s->begun--;
    s->refused = 0;
    if (s->first != NULL) {
        s->first->walk.refused = 0;
    }
    if (!done->is_repeated) {
        sweep_free(done);
        return;
    }
    done->is_repeated = false;
    id_set_fini(&done->walk.taken);
    done->walk.parts = 0;
    sweeper_add(s, done);
}

/* The first one has to wait for places: the next one that may go on comes first. A place may have become
 * free behind a flow that was tried before, so it takes a further round to be sure that all have to. */
static void go_to_next(struct sweeper *s)
{
    s->refused++;
    s->is_stuck = s->refused > s->begun && (s->begun == s->waiting || s->begun >= SWEEPS_BEGUN);
    do {
        struct sweep *first = s->first;
        s->last->next = first;
        s->last = first;
        s->first = first->next;
        first->next = NULL;
    } while (s->first->walk.parts == 0 && s->begun >= SWEEPS_BEGUN);
    s->first->walk.refused = 0;
}

static bool is_of_part(const struct sweep_walk *s, uint64_t id)
{
    const int node = SPOOL_NODE_SHIFT; /* what was taken over has ids of its own node */
    bool is_there = id < s->end || id >> node != s->end >> node;
    return is_there && (id * 0x9E3779B97F4A7C15u >> 32) % s->parts == s->part;
}

/* Notes that the message was found in this part. false when it was found before, or when there is
 * no memory to note it */
static bool remember(struct sweep_walk *s, uint64_t id)
{
    return !id_set_has(&s->taken, id) && id_set_add(&s->taken, id);
}

/* --- flows that were left --------------------------------------------------------------------- */

static bool reserve_left(struct sweep_walk *s)
{
    enum { FIRST_CAPACITY = 16 };
    if (s->left_count < s->left_capacity) {
        return true;
    }
    uint32_t capacity = s->left_capacity == 0 ? FIRST_CAPACITY : 2 * s->left_capacity;
    struct spool_position *left = malloc(capacity * sizeof(*left));
    for (uint32_t i = 0; left != NULL && i < s->left_count; i++) {
        left[i] = s->left[(s->left_first + i) % s->left_capacity];
    }
    if (left == NULL) {
        return false;
    }
    free(s->left);
    s->left = left;
    s->left_capacity = capacity;
    s->left_first = 0;
    return true;
}

/* The flow goes on behind `from` when its turn comes. There is room. */
static void leave(struct sweep_walk *s, const struct spool_position *from)
{
    s->left[(s->left_first + s->left_count++) % s->left_capacity] = *from;
}

static void end_first_left(struct sweep_walk *s)
{
    s->left_first = (s->left_first + 1) % s->left_capacity;
    s->left_count--;
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
static int look_at(struct sweep *s, struct activation *a, const struct spool_position *p,
                   bool *ret_is_wanted)
{
    usec_t not_before = 0;
    bool is_wanted = false;
    int err = s->kind == SWEEP_TURNS
                  ? waits_for_turn(a, p, &is_wanted)
                  : activation_matches(a, p, &s->selector, &is_wanted, &not_before);
    if (err == 0 && is_wanted && s->kind == SWEEP_APPLY) {
        /* The order of this sweep may be lifted or over by now, and then ends no mail. */
        err = activation_may_end(a, p, &is_wanted);
    } else if (err == 0 && is_wanted) {
        is_wanted = not_before <= clock_wall();
        if (is_wanted && s->kind == SWEEP_REVIEW) {
            err = activation_is_free(a, p, &is_wanted);
        }
    }
    *ret_is_wanted = err == 0 && is_wanted && !id_set_has(&s->walk.taken, p->id);
    return err;
}

/* The message at s->at is wanted. Whether it may become active; if not, its flow is left behind `before`,
 * and the walk goes on in the next one. */
static bool enter(struct sweep_walk *s, const struct sweep_entrance *entrance,
                  const struct spool_position *before)
{
    const bool is_first = before->flow != s->at.flow;
    const struct spool_position from = {s->at.class, is_first ? 0 : before->time,
                                        is_first ? 0 : before->id, s->at.flow};
    if (entrance->may_enter(entrance->ctx, &s->at)) {
        s->refused = 0;
        return remember(s, s->at.id);
    }
    if (s->is_in_left) {
        s->refused++;
        s->at = from;
    } else if (reserve_left(s)) {
        leave(s, &from);
        s->at.time = s->at.id = UINT64_MAX;
    } else {
        s->at = *before; /* it waits at this place, with all behind it */
    }
    return false;
}

/* Looks at the next message of the class under way. *ret_is_wanted: the message at walk.at is to be
 * made active. errors: ERR_AGAIN: walk.at is where it was */
static int step_class(struct sweep *s, struct activation *a, const struct sweep_entrance *entrance,
                      bool *ret_is_wanted)
{
    struct sweep_walk *w = &s->walk;
    const struct spool_position before = w->at;
    int err = spool_scan(a->reader, class_of(s), &before, &w->at);
    if (err == 0 && is_of_part(w, w->at.id)) {
        err = look_at(s, a, &w->at, ret_is_wanted);
    } else if (err != 0 && err != ERR_AGAIN) {
        w->is_in_left = true;
        return 0;
    }
    if (err != 0) {
        w->at = before;
    } else if (*ret_is_wanted) {
        *ret_is_wanted = enter(w, entrance, &before);
    }
    return err;
}

/* The same in the flows that were left, of each in turn until a message is found in it. */
static int step_left(struct sweep *s, struct activation *a, const struct sweep_entrance *entrance,
                     bool *ret_is_wanted)
{
    struct sweep_walk *w = &s->walk;
    const struct spool_position before = w->left[w->left_first];
    int err = spool_scan_flow(a->reader, &before, &w->at);
    if (err == 0 && is_of_part(w, w->at.id)) {
        err = look_at(s, a, &w->at, ret_is_wanted);
    } else if (err != 0 && err != ERR_AGAIN) {
        end_first_left(w);
        w->refused = 0;
        return 0;
    }
    if (err != 0) {
        return err;
    }
    bool is_found = *ret_is_wanted;
    *ret_is_wanted = is_found && enter(w, entrance, &before);
    const struct spool_position from = w->at;
    w->left[w->left_first] = from;
    if (is_found) {
        end_first_left(w);
        leave(w, &from);
    }
    return 0;
}

static int step_sweep(struct sweep *s, struct activation *a, const struct sweep_entrance *entrance,
                      bool *ret_is_wanted)
{
    *ret_is_wanted = false;
    if (!s->walk.is_in_left) {
        return step_class(s, a, entrance, ret_is_wanted);
    }
    if (s->walk.left_count > 0) {
        return step_left(s, a, entrance, ret_is_wanted);
    }
    begin_class(s, (uint8_t)(s->walk.classes + 1));
    return 0;
}

/* Every flow in which there may be more has been tried, and had to be left. */
static bool has_to_wait(const struct sweep *s)
{
    const struct sweep_walk *w = &s->walk;
    return w->is_in_left && w->left_count > 0 && w->refused >= w->left_count;
}

int sweeper_next(struct sweeper *s, struct activation *a, const struct sweep_entrance *entrance,
                 int *budget, struct spool_position *ret)
{
    int err = ERR_MISSING;
    if (s->is_stuck) {
        sweeper_retry(s); /* the caller knows why it asks */
    }
    while (err == ERR_MISSING && s->first != NULL && *budget > 0 && !s->is_stuck) {
        struct sweep *first = s->first;
        bool is_wanted;
        if (first->walk.parts == 0) {
            begin_sweep(s, a);
        }
        if (has_to_wait(first)) {
            go_to_next(s);
        } else if (class_of(first) < SPOOL_CLASS_COUNT) {
            --*budget;
            err = step_sweep(first, a, entrance, &is_wanted);
            err = err == 0 && !is_wanted ? ERR_MISSING : err;
            s->refused = err == 0 ? 0 : s->refused;
            *ret = first->walk.at;
        } else if (first->walk.part + 1 < first->walk.parts) {
            begin_part(first, first->walk.part + 1);
        } else {
            end_sweep(s);
        }
    }
    return err;
}
