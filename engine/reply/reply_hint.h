/* The time that a reply asks for: "try again in 5 minutes". Pure. */
#ifndef ENGINE_REPLY_HINT_H
#define ENGINE_REPLY_HINT_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#define REPLY_HINT_MOST (24 * 3600 * USEC_PER_SEC)

/* The first number in the text that a unit of time follows (second, minute, hour, and what is short
 * for them), where "try", "retry", "again", "wait", "after", "back" or "later" stands before it or
 * right behind it: so a rate such as "20 per minute" and "the last 60 minutes" are not taken for one.
 *
 * returns  0: it names none; more than REPLY_HINT_MOST is REPLY_HINT_MOST */
MUST_USE usec_t reply_hint(struct slice text);

#endif
