/* Time as one type: microseconds in a signed 64-bit integer.
 * Pure rooms take usec_t arguments and never call the functions below. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

typedef int64_t usec_t;

#define USEC_PER_MSEC 1000LL
#define USEC_PER_SEC  1000000LL
#define USEC_NEVER    INT64_MAX

/* Microseconds of the monotonic clock; for timers and the scheduler. Any thread. */
usec_t clock_mono(void);

/* Microseconds since 1970 (UTC); for records, logs and expiry only. Any thread. */
usec_t clock_wall(void);

#endif
