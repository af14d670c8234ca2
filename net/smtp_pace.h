/* How many transactions a connection can use at once, from the times of its replies.
 * Owned by smtp_client; pure: the caller brings all times (usec, monotonic). */
#ifndef NET_SMTP_PACE_H
#define NET_SMTP_PACE_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct smtp_pace {
    usec_t round_trip; /* least time from a command to its reply; USEC_NEVER: not measured */
    usec_t interval;   /* service time of a message, smoothed; valid when has_interval */
    usec_t last_end;   /* when the last message was answered */
    uint16_t depth;    /* 1.. */
    bool has_interval;
};

void smtp_pace_init(struct smtp_pace *p);

/* The first reply to a group of commands took so long. */
void smtp_pace_reply(struct smtp_pace *p, usec_t took);

/* A message was answered: measures its service and moves the depth.
 *
 * sent_at   when its end was handed over
 * now       when it was answered */
void smtp_pace_end(struct smtp_pace *p, usec_t sent_at, usec_t now);

/* min(allowed, ceil(round trip / interval - 0.1) + 1), reached by at most doubling with each
 * message; 1 before the first. allowed >= 1.
 *
 * The interval is what the server needs for a message with the line taken off: from when it could
 * begin (the answer before it, or its arrival) to its answer. In a round trip it could have served
 * round trip / interval messages, and one more is being served. A round trip below a tenth of the
 * interval keeps 1: a second message in flight would gain less than a tenth, and what stands
 * behind it would wait. Where the server is fast it would wait for less than anybody notices, and two
 * in flight share a write and a read, so there it is 2. */
uint16_t smtp_pace_depth(const struct smtp_pace *p, uint16_t allowed);
/* The interval is measured, and below a millisecond. */
bool smtp_pace_is_fast(const struct smtp_pace *p);
/* How long a server that is fast, and nearer than a millisecond, may be silent before what was said of it
 * does not hold for the message that it has: 20 times the longest that it is fast with. USEC_NEVER for others:
 * what is in flight to these fills the round trip, and in theirs silence is usual. */
usec_t smtp_pace_patience(const struct smtp_pace *p);
/* It was silent for longer: the depth is 1 until it has answered. */
void smtp_pace_stall(struct smtp_pace *p);

#endif
