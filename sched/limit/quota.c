/* Quotas by windows of the calendar. Called for each message that one concerns, by its one owner
 * (quota.h); must not know whose quota it is. */
#include "sched/limit/quota.h"

#include "base/error.h"

#include <assert.h>
#include <stdio.h>

#define DAY_SPAN   (86400 * USEC_PER_SEC)
#define LOAN_PARTS 64 /* a loan is at most this part of what is left */
#define SHOWN      20

static usec_t span_of(const struct quota *q)
{
    return q->warmup != NULL ? DAY_SPAN : q->rule.span;
}

static bool is_limited(const struct quota *q)
{
    return q->warmup != NULL || q->rule.count > 0;
}

/* What may go in a window; UINT64_MAX: no limit. */
static uint64_t limit_of(const struct quota *q, int64_t window)
{
    if (q->warmup == NULL) {
        return q->rule.count;
    }
    int64_t day = window - q->warmup->since;
    if (day < 0) {
        return 0;
    }
    uint32_t step = q->warmup->steps[day < q->warmup->count ? day : q->warmup->count - 1];
    return step > 0 ? step : UINT64_MAX;
}

void quota_init(struct quota *q, const struct rate_rule *rule, const struct quota_warmup *warmup)
{
    assert(warmup == NULL || (warmup->count > 0 && warmup->count <= QUOTA_STEPS_MAX));
    *q = (struct quota){.rule = *rule, .warmup = warmup};
}

void quota_change(struct quota *q, const struct rate_rule *rule, const struct quota_warmup *warmup)
{
    struct quota old = *q;
    quota_init(q, rule, warmup);
    if (is_limited(&old) && is_limited(q) && span_of(&old) == span_of(q)) {
        q->window = old.window;
        q->used = old.used;
    }
}

static void turn(struct quota *q, usec_t wall)
{
    int64_t window = wall / span_of(q);
    if (window > q->window) {
        q->window = window;
        q->used = 0;
    } else if (q->window > window + 1) {
        /* The clock was far ahead: no stall until then, and no second quota either. */
        q->window = window + 1;
    }
}

/* Is there room for the amount beside what was used? */
static bool fits(uint64_t limit, uint64_t used, uint32_t amount)
{
    if (limit == 0) {
        return false;
    }
    return used == 0 || (used < limit && amount <= limit - used);
}

usec_t quota_due(struct quota *q, uint32_t amount, usec_t wall)
{
    if (!is_limited(q)) {
        return 0;
    }
    turn(q, wall);
    if (fits(limit_of(q, q->window), q->used, amount)) {
        return wall;
    }
    int64_t next = q->window + 1;
    if (q->warmup != NULL && next < q->warmup->since) {
        next = q->warmup->since;
    }
    return next * span_of(q);
}

uint64_t quota_left(struct quota *q, usec_t wall)
{
    if (!is_limited(q)) {
        return UINT64_MAX;
    }
    turn(q, wall);
    uint64_t limit = limit_of(q, q->window);
    if (limit == UINT64_MAX) {
        return UINT64_MAX;
    }
    return q->used < limit ? limit - q->used : 0;
}

uint64_t quota_most(struct quota *q, usec_t wall)
{
    if (!is_limited(q)) {
        return UINT64_MAX;
    }
    turn(q, wall);
    return limit_of(q, q->window);
}

int64_t quota_take(struct quota *q, uint32_t amount, usec_t wall)
{
    if (is_limited(q)) {
        turn(q, wall);
        q->used += amount;
    }
    return q->window;
}

void quota_give_back(struct quota *q, uint32_t amount, int64_t window)
{
    if (window == q->window) {
        q->used -= amount < q->used ? amount : q->used;
    }
}

usec_t quota_lend(struct quota *q, uint32_t want, usec_t wall, struct quota_loan *ret)
{
    assert(want > 0);
    if (!is_limited(q)) {
        *ret = (struct quota_loan){want, q->window, USEC_NEVER};
        return 0;
    }
    usec_t due = quota_due(q, 1, wall);
    if (due > wall) {
        return due;
    }
    uint64_t part = quota_left(q, wall) / LOAN_PARTS;
    part = part > 1 ? part : 1;
    uint32_t lent = want < part ? want : (uint32_t)part;
    int64_t window = quota_take(q, lent, wall);
    *ret = (struct quota_loan){lent, window, (window + 1) * span_of(q)};
    return 0;
}

void quota_repay(struct quota *q, struct quota_loan *loan)
{
    quota_give_back(q, loan->left, loan->window);
    loan->left = 0;
}

struct quota_state quota_export(const struct quota *q)
{
    return (struct quota_state){is_limited(q) ? span_of(q) : 0, q->window, q->used};
}

void quota_import(struct quota *q, const struct quota_state *state)
{
    if (is_limited(q) && state->span == span_of(q) && state->window >= 0 &&
        state->window <= INT64_MAX / DAY_SPAN) {
        q->window = state->window;
        q->used = state->used;
    }
}

static bool read_digits(struct slice text, size_t at, size_t count, int64_t *ret)
{
    int64_t value = 0;
    for (size_t i = at; i < at + count; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (text.data[i] - '0');
    }
    *ret = value;
    return true;
}

static int64_t days_of_month(int64_t year, int64_t month)
{
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap);
}

/* Days since 1970, from 1970 on. */
static int64_t day_number(int64_t year, int64_t month, int64_t day)
{
    int64_t past = year - 1;
    int64_t number = past * 365 + past / 4 - past / 100 + past / 400 - 719162;
    for (int64_t m = 1; m < month; m++) {
        number += days_of_month(year, m);
    }
    return number + day - 1;
}

int quota_parse_date(struct slice text, int64_t *ret, char ret_why[QUOTA_WHY_BYTES])
{
    int64_t year, month, day;
    struct slice t = slice_trim(text);
    bool is_date = t.len == 10 && t.data[4] == '-' && t.data[7] == '-' &&
                   read_digits(t, 0, 4, &year) && read_digits(t, 5, 2, &month) &&
                   read_digits(t, 8, 2, &day);
    int shown = t.len < SHOWN ? (int)t.len : SHOWN;
    if (!is_date) {
        (void)snprintf(ret_why, QUOTA_WHY_BYTES,
                       "\"%.*s\" is no date; write year, month and day, such as 2026-12-01", shown,
                       t.data);
        return ERR_SYNTAX;
    }
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month)) {
        (void)snprintf(ret_why, QUOTA_WHY_BYTES,
                       "\"%.*s\" is no day of the calendar; write one such as 2026-12-01", shown,
                       t.data);
        return ERR_SYNTAX;
    }
    *ret = day_number(year, month, day);
    return 0;
}
