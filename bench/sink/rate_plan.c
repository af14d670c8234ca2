/* The steps of a plan: read, followed by a bucket, and averaged for the report. Pure. */
#include "bench/sink/rate_plan.h"

#include "base/error.h"

#include <assert.h>
#include <string.h>

#define FROM_MAX_SEC 86400

/* ", burst N", if it is there. returns: what is behind it; NULL after a mistake */
static const char *read_burst(const char *text, uint64_t *ret)
{
    static const char word[] = ", burst ";
    int64_t count = 0;
    if (strncmp(text, word, sizeof(word) - 1) != 0) {
        return text;
    }
    const char *end = value_digits(text + sizeof(word) - 1, &count);
    if (count < 1 || count > RATE_COUNT_MAX) {
        return NULL;
    }
    *ret = (uint64_t)count;
    return end;
}

/* " from SECONDS", if it is there, at the end. returns: false after a mistake */
static bool read_from(const char *text, usec_t *ret)
{
    static const char word[] = " from ";
    int64_t seconds = 0;
    if (*text == '\0') {
        return true;
    }
    if (strncmp(text, word, sizeof(word) - 1) != 0) {
        return false;
    }
    const char *end = value_digits(text + sizeof(word) - 1, &seconds);
    *ret = seconds * USEC_PER_SEC;
    return end != NULL && *end == '\0' && seconds <= FROM_MAX_SEC;
}

/* "200/s". returns: what is behind it; NULL after a mistake */
static const char *read_rate(const char *text, int64_t *ret_count, usec_t *ret_span)
{
    static const struct {
        char unit;
        usec_t span;
    } units[] = {{'s', USEC_PER_SEC},
                 {'m', 60 * USEC_PER_SEC},
                 {'h', 3600 * USEC_PER_SEC},
                 {'d', 86400 * USEC_PER_SEC}};
    const char *end = value_digits(text, ret_count);
    for (size_t i = 0; end != NULL && i < sizeof(units) / sizeof(units[0]); i++) {
        if (end[0] == '/' && end[1] == units[i].unit) {
            *ret_span = units[i].span;
            return end + 2;
        }
    }
    return NULL;
}

static uint64_t usual_burst(int64_t count, usec_t span, enum rate_burst burst)
{
    if (burst == RATE_BURST_SPAN) {
        return (uint64_t)count;
    }
    int64_t tenth = count * (USEC_PER_SEC / 10) / span;
    return tenth < 1 ? 1 : (uint64_t)tenth;
}

int rate_plan_add(struct rate_plan *p, const char *text, enum rate_burst burst,
                  char ret_why[VALUE_WHY_BYTES])
{
    struct rate_step step = {0};
    int64_t count = 0;
    const char *end = NULL;
    if (strncmp(text, "none", 4) == 0) {
        end = text + 4;
    } else {
        end = read_rate(text, &count, &step.rate.span);
        if (end != NULL && (count < 1 || count > RATE_COUNT_MAX)) {
            return value_refuse(ret_why, "%.40s is out of range; write 1 to %d messages", text,
                                RATE_COUNT_MAX);
        }
        step.rate.count = (uint64_t)count;
        step.rate.burst = end == NULL ? 0 : usual_burst(count, step.rate.span, burst);
        end = end == NULL ? NULL : read_burst(end, &step.rate.burst);
    }
    if (end == NULL || !read_from(end, &step.from)) {
        return value_refuse(ret_why,
                            "\"%.40s\" is not a rate; write a number of messages and /s, /m, /h or "
                            "/d, such as 100/s, or \"6000/m, burst 50 from 60\"",
                            text);
    }
    if (p->count > 0 && p->steps[p->count - 1].from >= step.from) {
        return value_refuse(ret_why,
                            "%.40s begins no later than the one before; write its \" from "
                            "SECONDS\", in the order of time",
                            text);
    }
    if (p->count == RATE_STEPS_MAX) {
        return value_refuse(ret_why, "there are too many; write at most %d", RATE_STEPS_MAX);
    }
    p->steps[p->count++] = step;
    return 0;
}

bool rate_plan_take(struct rate_bucket *b, const struct rate_plan *p, usec_t begin, usec_t now)
{
    static const struct rate none = {0};
    while (b->step_count < p->count && now >= begin + p->steps[b->step_count].from) {
        const struct rate *old = b->step_count == 0 ? &none : &p->steps[b->step_count - 1].rate;
        rate_limit_change(&b->limit, old, &p->steps[b->step_count].rate,
                          begin + p->steps[b->step_count].from);
        b->step_count++;
    }
    return b->step_count == 0 || rate_limit_take(&b->limit, &p->steps[b->step_count - 1].rate, now);
}

double rate_plan_mean(const struct rate_plan *p, usec_t from, usec_t to)
{
    double sum = 0;
    assert(from < to);
    if (p->count == 0 || from < p->steps[0].from) {
        return -1;
    }
    for (size_t i = 0; i < p->count; i++) {
        const struct rate *rate = &p->steps[i].rate;
        usec_t begin = p->steps[i].from > from ? p->steps[i].from : from;
        usec_t end = i + 1 < p->count && p->steps[i + 1].from < to ? p->steps[i + 1].from : to;
        if (begin >= end) {
            continue;
        }
        if (rate->count == 0) {
            return -1;
        }
        sum +=
            (double)rate->count * (double)USEC_PER_SEC / (double)rate->span * (double)(end - begin);
    }
    return sum / (double)(to - from);
}
