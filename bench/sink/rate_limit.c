/* The bucket: credit in token-microseconds, so that nothing is ever rounded. Pure. */
#include "bench/sink/rate_limit.h"

bool rate_limit_take(struct rate_limit *l, const struct rate *rate, usec_t now)
{
    const int64_t full = (int64_t)rate->count * rate->span;
    if (rate->count == 0) {
        return true;
    }
    if (!l->is_begun) {
        *l = (struct rate_limit){true, now, full};
    } else if (now - l->last >= rate->span) {
        l->credit = full;
        l->last = now;
    } else if (now > l->last) {
        l->credit += (now - l->last) * (int64_t)rate->count;
        l->credit = l->credit < full ? l->credit : full;
        l->last = now;
    }
    if (l->credit < rate->span) {
        return false;
    }
    l->credit -= rate->span;
    return true;
}
