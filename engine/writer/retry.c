/* Retry, expiry and warning times; see the header. */
#include "engine/writer/retry.h"

usec_t retry_delay(usec_t now, usec_t created, usec_t min, usec_t max)
{
    usec_t delay = now > created ? now - created : 0;
    if (delay > max) {
        delay = max;
    }
    return delay < min ? min : delay;
}

usec_t retry_turn(usec_t lowered, usec_t longest, uint64_t id)
{
    uint64_t share = id * 0x9E3779B97F4A7C15u >> 32; /* of 2^32; neighbours are far apart */
    return lowered + (usec_t)((double)longest * (double)share / 4294967296.0);
}

bool retry_is_due(usec_t now, usec_t deferred, usec_t due, usec_t longest, usec_t turn)
{
    if (deferred == 0) {
        return now >= due || due - now > longest;
    }
    bool is_too_long = due - deferred > longest && now - deferred >= longest;
    return now >= due || now < deferred || (is_too_long && now >= turn);
}

bool retry_is_warning_due(usec_t now, usec_t warn_time)
{
    return warn_time != 0 && now >= warn_time - USEC_PER_SEC;
}
