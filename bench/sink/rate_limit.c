/* The bucket: credit in token-microseconds, so that nothing is ever rounded. Pure. */
#include "bench/sink/rate_limit.h"

static int64_t full(const struct rate *rate)
{
    return (int64_t)rate->burst * rate->span;
}

static void advance(struct rate_limit *l, const struct rate *rate, usec_t now)
{
    if (!l->is_begun) {
        *l = (struct rate_limit){true, now, full(rate)};
    }
    usec_t passed = now - l->last;
    if (passed <= 0) {
        return;
    }
    /* Compared first, or the product could overflow. */
    l->credit = passed > full(rate) / (int64_t)rate->count
                    ? full(rate)
                    : l->credit + passed * (int64_t)rate->count;
    l->credit = l->credit < full(rate) ? l->credit : full(rate);
    l->last = now;
}

bool rate_limit_take(struct rate_limit *l, const struct rate *rate, usec_t now)
{
    if (rate->count == 0) {
        return true;
    }
    advance(l, rate, now);
    if (l->credit < rate->span) {
        return false;
    }
    l->credit -= rate->span;
    return true;
}

void rate_limit_change(struct rate_limit *l, const struct rate *from, const struct rate *to,
                       usec_t at)
{
    if (from->count == 0 || to->count == 0) {
        *l = (struct rate_limit){0};
    }
    if (!l->is_begun) {
        return;
    }
    advance(l, from, at);
    l->credit = (int64_t)((__int128)l->credit * to->span / from->span);
    l->credit = l->credit < full(to) ? l->credit : full(to);
}
