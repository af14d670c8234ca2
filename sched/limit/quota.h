/* So many in each window of the calendar in UTC, an hour or a day; and a quota that grows by the
 * day. Pure: the caller brings the wall clock (usec since 1970), which may go back.
 *
 * A window is the number of spans since 1970, so it begins at midnight UTC or at the full hour
 * whenever the daemon was started. A clock that was set back stays in the window that was begun: it
 * gives no second quota. One that was set back by more than a window waits until the window after
 * the present one is over.
 *
 * One owner at a time, as with struct rate; several schedulers take parts by quota_lend. */
#ifndef SCHED_LIMIT_QUOTA_H
#define SCHED_LIMIT_QUOTA_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "sched/limit/rate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_STEPS_MAX 366
#define QUOTA_WHY_BYTES 128

/* A quota by days: so many on the first day, and so on. The last one stays. */
struct quota_warmup {
    uint32_t steps[QUOTA_STEPS_MAX]; /* a day each; 0: no limit from that day on */
    uint32_t count;                  /* > 0 */
    int64_t since;                   /* days since 1970; nothing goes before that day */
};

struct quota {
    struct rate_rule rule;             /* count 0: no limit; unused where there is a warmup */
    const struct quota_warmup *warmup; /* borrowed; NULL: none */
    int64_t window;                    /* spans since 1970 */
    uint64_t used;                     /* in that window */
};

/* What outlives a restart. */
struct quota_state {
    usec_t span;
    int64_t window;
    uint64_t used;
};

/* A part of one window that a scheduler holds. */
struct quota_loan {
    uint32_t left;
    int64_t window;
    usec_t until; /* wall; what is left then goes back by quota_repay */
};

/* warmup: NULL, or valid for as long as the quota, or until quota_change */
void quota_init(struct quota *q, const struct rate_rule *rule, const struct quota_warmup *warmup);
/* Another rule takes its place (reload): what was used of the window stays used, unless the span is
 * another one. */
void quota_change(struct quota *q, const struct rate_rule *rule, const struct quota_warmup *warmup);

/* When `amount` may go: at most `wall` when they may now, else the begin of a window; USEC_NEVER
 * when no window has room. An amount larger than the quota goes as the first of a window. */
MUST_USE usec_t quota_due(struct quota *q, uint32_t amount, usec_t wall);
/* What may still go in the present window; UINT64_MAX: no limit. */
MUST_USE uint64_t quota_left(struct quota *q, usec_t wall);
/* What may go in a window such as the present one; UINT64_MAX: no limit. */
MUST_USE uint64_t quota_most(struct quota *q, usec_t wall);
/* They went; returns the window, for quota_give_back. */
int64_t quota_take(struct quota *q, uint32_t amount, usec_t wall);
/* Undoes quota_take; nothing when that window is over. */
void quota_give_back(struct quota *q, uint32_t amount, int64_t window);

/* A part of what is left for one of several schedulers: taken at once, so the sum is exact.
 * want     >= 1
 * returns  0: lent; else as quota_due */
MUST_USE usec_t quota_lend(struct quota *q, uint32_t want, usec_t wall, struct quota_loan *ret);
/* The pair of quota_lend. */
void quota_repay(struct quota *q, struct quota_loan *loan);

struct quota_state quota_export(const struct quota *q);
/* Values of another span, or that cannot be, change nothing. */
void quota_import(struct quota *q, const struct quota_state *state);

/* "2026-12-01" as days since 1970. errors: ERR_SYNTAX: ret_why says what would be right */
MUST_USE int quota_parse_date(struct slice text, int64_t *ret, char ret_why[QUOTA_WHY_BYTES]);

#endif
