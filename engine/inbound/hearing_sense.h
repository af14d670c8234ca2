/* What is believed of a message that came back: which of our messages it is about, whom, and what
 * follows from it. A token counts when its MAC is good, an address when its hash is the token's; what
 * else stands in a report is told as the reporter's words. */
#ifndef ENGINE_HEARING_SENSE_H
#define ENGINE_HEARING_SENSE_H

#include "engine/heard/heard.h"
#include "engine/post/hearing.h"

struct reply_matcher;
struct reply_set;
struct return_book;

struct hearing_rules {
    const struct return_book *book;
    const struct reply_set *replies;
    struct reply_matcher *matcher; /* the thread's; NULL: classes stay open */
};

/* Write the lines of the event log and the causes of suppression. Out of memory: lines.failed.
 * heard   what was read of it, not HEARD_UNKNOWN
 * Thread: online under RCU. */
void hearing_sense(struct hearing *one, const struct heard *heard,
                   const struct hearing_rules *rules);

#endif
