/* Positions on the schedule: order maintenance with labels (Bender and others, "Two simplified
 * algorithms for maintaining order in a list", 2002). Called by job and preempt, which decide where
 * a job goes. */
#include "sched/position.h"

#include "sched/transport.h"

#include <assert.h>

#define POSITION_BITS 62
#define POSITION_GAP  (UINT64_C(1) << 20) /* left between jobs at the end of the list */

static struct job *job_of(struct list *at)
{
    return container_of(at, struct job, in_schedule);
}

static uint64_t position_of(const struct flow *f, struct list *at)
{
    return at == &f->schedule ? POSITION_NONE : job_of(at)->position;
}

/* A stretch of neighbours whose positions lie in an aligned range of numbers. */
struct stretch {
    struct list *first, *last;
    uint64_t low, size;
    uint64_t count;
};

static void widen(struct flow *f, struct stretch *r, unsigned bits)
{
    r->size = UINT64_C(1) << bits;
    r->low = position_of(f, r->first) & ~(r->size - 1);
    while (r->first->prev != &f->schedule && position_of(f, r->first->prev) >= r->low) {
        r->first = r->first->prev;
        r->count++;
    }
    while (r->last->next != &f->schedule && position_of(f, r->last->next) - r->low < r->size) {
        r->last = r->last->next;
        r->count++;
    }
}

static void spread(struct flow *f, const struct stretch *r)
{
    uint64_t step = r->size / (r->count + 1), next = r->low;
    bool holds_passed = f->passed >= r->low && f->passed - r->low < r->size;
    for (struct list *at = r->first;; at = at->next) {
        struct job *j = job_of(at);
        next += step;
        if (holds_passed && j->position >= f->passed) {
            f->passed = next;
            holds_passed = false;
        }
        j->position = next;
        if (at == r->last) {
            break;
        }
    }
    if (holds_passed) {
        f->passed = r->low + r->size;
    }
}

/* Make room behind a job: the smallest range around it that is sparse enough, the sparser the
 * larger it is, so that the cost of spreading is shared by many insertions. */
static void make_position_room(struct flow *f, struct list *at)
{
    struct stretch r = {.first = at, .last = at, .count = 1};
    double most = 1;
    for (unsigned bits = 1; bits <= POSITION_BITS; bits++) {
        most *= 4 / 3.0;
        widen(f, &r, bits);
        if ((double)r.count <= most && r.size / (r.count + 1) >= 4) {
            break;
        }
    }
    assert(r.size / (r.count + 1) >= 4);
    spread(f, &r);
}

void position_insert_after(struct job *j, struct list *at)
{
    struct flow *f = j->flow;
    bool is_last = at->next == &f->schedule;
    if (at != &f->schedule &&
        (is_last ? position_of(f, at) > (UINT64_C(1) << POSITION_BITS) - 2 * POSITION_GAP
                 : position_of(f, at->next) - position_of(f, at) < 2)) {
        make_position_room(f, at);
    } else if (at == &f->schedule && !is_last && position_of(f, at->next) < 2) {
        make_position_room(f, at->next);
    }
    uint64_t before = position_of(f, at);
    uint64_t gap = is_last ? 2 * POSITION_GAP : position_of(f, at->next) - before;
    j->position = before + gap / 2;
    list_insert_after(at, &j->in_schedule);
}
