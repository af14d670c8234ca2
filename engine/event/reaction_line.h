/* The line of the event log that tells what was done to a lane: that it is paced, closed, open again,
 * ..., and why. It is about no message, so it has no id. Pure: any thread. */
#ifndef ENGINE_REACTION_LINE_H
#define ENGINE_REACTION_LINE_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdint.h>

/* Everything is optional but reaction and time: an empty slice or a zero leaves the field out. Slices
 * may hold any bytes; they are escaped. */
struct reaction_line {
    usec_t time;           /* wall */
    struct slice reaction; /* "paced", "closed", ...; "lost" */
    struct slice cause;    /* the class of the reply, or "order", "accepted", "time" */
    struct slice rule, text;
    struct slice source, site, hosts, destination;
    double value;      /* of a pace, a second; of a ceiling */
    struct slice unit; /* of a pace: "messages", "recipients", "connects" */
    usec_t until;      /* wall */
    uint64_t count;    /* of reactions that were lost */
};

/* Append one line, its newline included. Failure is the buffer's sticky flag. */
void reaction_line_format(struct buf *out, const struct reaction_line *r);

#endif
