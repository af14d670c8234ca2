/* Owns where the scan stands. Reads queue entries and retry records; becomes of them what the
 * activator decides. */
#include "engine/activator/deferred_scan.h"

#include "base/error.h"
#include "engine/writer/retry.h"

/* The clock is set back by more than this: less is nobody's delay. */
static const usec_t step = USEC_PER_SEC;

enum { CHECKS = 2 };

void deferred_scan_init(struct deferred_scan *s, usec_t noted, usec_t wall)
{
    *s = (struct deferred_scan){.at.class = SPOOL_DEFERRED, .checks = noted > wall ? CHECKS : 0};
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
    s->is_running = true;
    s->is_checking = s->checks > 0;
    s->checks -= s->is_checking;
    s->at = (struct spool_position){.class = SPOOL_DEFERRED};
    s->until = (uint64_t)(wall + USEC_PER_SEC);
    if (longest < s->longest || s->lowered == 0 || s->lowered > wall) {
        s->lowered = wall;
    }
    s->longest = longest;
}

/* A record that cannot be read says nothing of when it was written. */
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

int deferred_scan_next(struct deferred_scan *s, struct spool_reader *reader, usec_t wall,
                       int *budget, struct spool_position *ret)
{
    /* Nothing that was deferred before now, by this clock, is due later. */
    const struct spool_position last = {SPOOL_DEFERRED, (uint64_t)(wall + s->longest), UINT64_MAX};
    while (s->is_running) {
        struct spool_position next;
        if (spool_scan(reader, SPOOL_DEFERRED, &s->at, &next) != 0) {
            s->is_running = false;
        } else if (next.time > s->until && next.time <= last.time && !s->is_checking) {
            s->at = last;
        } else if (next.time > s->until && --*budget < 0) {
            return ERR_AGAIN;
        } else if (next.time <= s->until || is_due(s, reader, &next, wall)) {
            *ret = next;
            return 0;
        } else {
            s->at = next;
        }
    }
    return ERR_MISSING;
}

void deferred_scan_pass(struct deferred_scan *s, const struct spool_position *position)
{
    s->at = *position;
}
