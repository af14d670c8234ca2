/* Dates as mail writes them. Pure. */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>

#define DATE_BYTES 40

/* A moment on the proleptic Gregorian calendar, in UTC. */
struct date {
    unsigned year;       /* years beyond 9999 keep their last four digits */
    unsigned month, day; /* from 1 */
    unsigned weekday;    /* 0: Sunday */
    unsigned hour, minute, second;
};

/* wall: usec since the epoch; before it counts as 0. */
void date_split(usec_t wall, struct date *ret);
/* Write `value` with `count` digits, leading zeros included, at `at`. Here, so that a constant
 * count is unrolled. */
static inline void date_digits(char *at, unsigned value, int count)
{
    while (count-- > 0) {
        at[count] = (char)('0' + value % 10);
        value /= 10;
    }
}
/* "Sat, 21 Nov 2026 09:08:42 +0000" (RFC 5322 3.3, in UTC). Any thread. */
void date_format(usec_t wall, char ret[DATE_BYTES]);
/* Read a time of RFC 3339: "2026-11-21T09:08:42.123456Z", "2026-11-21T10:08:42+01:00"; "t", "z" and
 * a space between date and time are accepted, a leap second is the one after it, digits beyond
 * microseconds are dropped. false: it is none, or before 1970. Any thread. */
MUST_USE bool date_parse(struct slice text, usec_t *ret);

#endif
