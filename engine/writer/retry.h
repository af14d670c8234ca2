/* When a message is tried again, when its sender is warned: pure arithmetic
 * on wall-clock times, because these times are stored and must survive restarts. */
#ifndef ENGINE_RETRY_H
#define ENGINE_RETRY_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* Time from now until the next attempt: the message's age, at most `max` and then at least `min`
 * (min wins when it is the larger one).
 *
 * now, created   usec, wall; an age below zero (the clock was set back) counts as zero
 * min, max       minimal_backoff_time and maximal_backoff_time, >= 0
 * source         Postfix qmgr_active.c; reference vectors TM-1 to TM-4
 */
usec_t retry_delay(usec_t now, usec_t created, usec_t min, usec_t max);

/* The longest that retry_delay can give. */
static inline usec_t retry_longest(usec_t min, usec_t max)
{
    return min > max ? min : max;
}

/* When to try a message whose delay is longer than the configuration allows since a reload. The ids
 * spread all such messages over the new longest delay, so that they are not due in one moment.
 *
 * lowered   wall: when that configuration came into force
 */
usec_t retry_turn(usec_t lowered, usec_t longest, uint64_t id);

/* Whether a deferred message is tried now. It is when its time has come; when it was deferred after
 * `now`, which means that the clock was set back since, and one attempt too early is better than
 * one that is late by the clock's error; or when it has waited longer than the longest delay and
 * its turn has come.
 *
 * now, due, turn   usec, wall; see retry_turn
 * deferred         wall: when the message was deferred; 0: not known
 * longest          the longest delay that the configuration allows
 */
bool retry_is_due(usec_t now, usec_t deferred, usec_t due, usec_t longest, usec_t turn);

/* Whether the sender is due the one notice of a delay: after an attempt that left something
 * undelivered and did not expire.
 *
 * warn_time   usec, wall, stored with the message: arrival + delay_warning_time; 0: never, or
 *             already sent, or an empty sender. One second of grace, as Postfix has it
 */
bool retry_is_warning_due(usec_t now, usec_t warn_time);

#endif
