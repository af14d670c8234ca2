/* Owns the scan's position. Reads queue entries and retry records and finds the messages that are
 * due; the activator decides what becomes of them. */
#include "engine/activator/deferred_scan.h"

#include "base/error.h"
#include "engine/writer/retry.h"

/* A clock that is set back by less than this delays no mail by much, and is not noticed. */
static const usec_t step = USEC_PER_SEC;

enum { CHECKS = 2 }; /* scans that look at all waiting mail after the clock was set back */

void deferred_scan_init(struct deferred_scan *s, usec_t noted, usec_t wall)
{
    *s = (struct deferred_scan){.checks = noted > wall ? CHECKS : 0};
}

static void see_clock(struct deferred_scan *s, usec_t offset)
{
    bool is_back = s->has_offset && offset < s->offset - step;
    s->checks = is_back ? CHECKS : s->checks;
    if (is_back || !s->has_offset || offset > s->offset) {
        s->offset = offset;
    }
    s->has_offset = true;
}

void deferred_scan_start(struct deferred_scan *s, usec_t wall, usec_t mono, usec_t longest)
{
    see_clock(s, wall - mono);
    s->is_checking = s->checks > 0;
    s->checks -= s->is_checking;
    /* What is due behind the new longest delay was not, by the old one. */
    s->is_thorough = s->is_checking || longest != s->longest;
    s->until = (uint64_t)(wall + USEC_PER_SEC);
    if (longest < s->longest || s->lowered == 0 || s->lowered > wall) {
        s->lowered = wall;
    }
    s->longest = longest;
}

bool deferred_scan_wants(const struct deferred_scan *s, const struct deferred_place *at)
{
    return s->is_thorough || at->next_due <= s->until;
}

void deferred_scan_enter(const struct deferred_scan *s, struct deferred_place *at, uint32_t flow)
{
    *at = (struct deferred_place){
        .flow = flow, .next_due = UINT64_MAX, .is_checking = s->is_checking};
}

/* Whether the message at p is tried now. Without a readable retry record nobody knows when the
 * message was deferred. */
static bool is_due(const struct deferred_scan *s, struct spool_reader *reader,
                   const struct spool_position *p, usec_t wall)
{
    struct spool_retry retry;
    if (spool_read_retry(reader, p->id, &retry) != 0) {
        retry.deferred = 0;
    }
    return retry_is_due(wall, retry.deferred, (usec_t)p->time, s->longest,
                        retry_turn(s->lowered, s->longest, p->id));
}

int deferred_scan_next(const struct deferred_scan *s, struct deferred_place *at,
                       struct spool_reader *reader, usec_t wall, int *budget,
                       struct spool_position *ret)
{
    /* A message that was deferred by this clock is due at this place at the latest. */
    const uint64_t last = (uint64_t)(wall + s->longest);
    for (;;) {
        const struct spool_position from = {SPOOL_DEFERRED, at->time, at->id, at->flow};
        struct spool_position next;
        int err = spool_scan_flow(reader, &from, &next);
        if (err != 0) {
            at->next_due = err == ERR_MISSING ? at->next_due : 0;
            return ERR_MISSING;
        }
        if (next.time > s->until && next.time <= last && !at->is_checking) {
            at->next_due = next.time;
            at->time = last;
            at->id = UINT64_MAX;
            continue;
        }
        if (next.time > s->until && --*budget < 0) {
            return ERR_AGAIN;
        }
        /* Whatever stands behind the longest delay each scan looks at, and what is tried may not be
         * deferred again in the end. */
        at->next_due = 0;
        if (next.time <= s->until || is_due(s, reader, &next, wall)) {
            *ret = next;
            return 0;
        }
        deferred_scan_pass(at, &next);
    }
}

void deferred_scan_pass(struct deferred_place *at, const struct spool_position *position)
{
    at->time = position->time;
    at->id = position->id;
}
