/* Retry, expiry and warning times; see the header. */
#include "engine/retry.h"

usec_t retry_delay(usec_t now, usec_t created, usec_t min, usec_t max)
{
    usec_t delay = now > created ? now - created : 0;
    if (delay > max) {
        delay = max;
    }
    return delay < min ? min : delay;
}

bool retry_is_due(usec_t now, usec_t deferred, usec_t due, usec_t longest)
{
    usec_t since = deferred == 0 ? now : deferred;
    return now >= due || now < since || due - since > longest;
}

bool retry_is_warning_due(usec_t now, usec_t warn_time)
{
    return warn_time != 0 && now >= warn_time - USEC_PER_SEC;
}
