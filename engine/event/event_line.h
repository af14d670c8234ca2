/* What can be said of a line of the event log without parsing all of it, and the head of a segment,
 * a line that names the file. Pure: any thread. */
#ifndef ENGINE_EVENT_LINE_H
#define ENGINE_EVENT_LINE_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define EVENT_LINE_HEAD_MAX 128 /* bytes of a head with its newline */
#define EVENT_LINE_HEAD     "{\"type\":\"Segment\",\"number\":"

/* Whether it is one JSON object from the first byte to the last, so far as braces and quotes tell:
 * a line that a crash cut off is not. Without the newline. */
MUST_USE bool event_line_is_whole(struct slice line);
/* The value of "type", which stands first; empty when the line does not begin with it. */
struct slice event_line_type(struct slice line);
/* The bit of a type of event in a set of them; 0: there is no such type. */
unsigned event_line_type_bit(struct slice type);
/* For people who wrote something else. */
#define EVENT_LINE_TYPES                                                                           \
    "Reception, Delivery, TransientFailure, Bounce, Expiration, AdminBounce, AdminDrop, "          \
    "Suppressed, OOB, Feedback, AutoReply, Reaction, SuppressionAdded or SuppressionRemoved"
/* Whether it is about mail, as all types are but the last three. */
MUST_USE bool event_line_is_of_mail(struct slice line);
/* The value of "timestamp", usec, wall; 0: it has none. */
usec_t event_line_time(struct slice line);

/* The first line of a segment, newline included. returns: its bytes */
size_t event_line_head(uint64_t number, usec_t now, char ret[static EVENT_LINE_HEAD_MAX]);
/* The number in a head; false: it is none. The line may lack its newline, or go on behind it. */
bool event_line_head_number(struct slice line, uint64_t *ret);

#endif
