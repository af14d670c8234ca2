/* Which incoming mail of a flow is in the spool and not in memory, and how the spool writer, the
 * activator and the schedulers agree about it. New mail must not pass mail of its flow that came before
 * it; what other flows have queued does not concern it.
 *
 * A message, from its commit until it is active:
 *
 *     committed, and nothing is in front:          committed, and other mail is in front
 *     no backlog, and in the journal no            (or it is too large to be kept in memory)
 *     message of the flow is unannounced                         |
 *                 |                                              |
 *                 | LETTER_ARRIVED with the message              | in the journal alone: unannounced,
 *                 v                                              | until a transaction has moved it
 *     +------------------------+  no: LETTER_RETURNED,           v
 *     | activator: no backlog, |  by way of the writer  +----------------------------------+
 *     | and is it its turn?    | ---------------------> | tables: LETTER_QUEUED, so there  |
 *     +------------------------+                        | is a backlog                     |
 *                 | yes                                 +----------------------------------+
 *                 v                                              |
 *              active  <-----------------------------------------+  read back in order, when
 *                                                                   it is the flow's turn
 *
 * The backlog, which only the activator changes:
 *
 *              LETTER_QUEUED, or a message goes back with
 *              LETTER_RETURNED, or gives its place back
 *     +------+ ----------------------------------------------> +----------+
 *     | NONE |                                                 | READABLE | <--- at the start: an
 *     +------+ <---------------------------------------------- +----------+      earlier run may
 *              the scan is at its end, and has passed              |    ^        have left mail
 *              all that went back                                  |    |
 *                                    the scan is at its end, but   |    | LETTER_QUEUED
 *                                    the tables do not have yet    v    |
 *                                    all that went back        +---------+
 *                                                              | AWAITED |
 *                                                              +---------+
 *
 * NONE is the only state in which mail of the flow becomes active from memory. The writer reads whether
 * there is a backlog from an atomic number and may see a change late, or see that of another flow whose
 * number falls on the same place: it then gives a message away that must queue, which comes back, or
 * keeps one that need not queue, which is read from the tables.
 *
 * Recipients of a large active message are in the spool, unread, and not in memory either. Their
 * number is in message.parts (activator), with each submission it goes to the scheduler, and its core
 * asks for more when its pool has room: SCHED_READ, LETTER_READ, activation_read, LETTER_MORE. */
#ifndef ENGINE_BACKLOG_H
#define ENGINE_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

struct engine;

enum backlog_state { BACKLOG_NONE, BACKLOG_READABLE, BACKLOG_AWAITED };

/* Activator only. A flow that begins without mail has one of zeros, but for its number. */
struct backlog {
    uint64_t at;       /* place of the last message that was taken or passed over */
    uint64_t returned; /* place of the last message that went back */
    uint32_t flow;
    uint8_t state; /* enum backlog_state */
};

/* New mail with this place came by a letter: a scan has met it already, as the letter was late. */
static inline bool backlog_has_passed(const struct backlog *b, uint64_t place)
{
    return place <= b->at;
}

/* New mail may become active from memory. */
static inline bool backlog_is_empty(const struct backlog *b)
{
    return b->state == BACKLOG_NONE;
}

/* It is worth a scan of the tables. */
static inline bool backlog_is_readable(const struct backlog *b)
{
    return b->state == BACKLOG_READABLE;
}

/* The tables have, or may have, mail behind `at` (LETTER_QUEUED, and at the start). */
void backlog_grow(struct backlog *b, struct engine *e);
/* A message with this place goes back (LETTER_RETURNED). */
void backlog_return(struct backlog *b, struct engine *e, uint64_t place);
/* A message with this place, which was taken, has given its place in memory back: the scan meets it again,
 * once the tables have it. */
void backlog_reopen(struct backlog *b, struct engine *e, uint64_t place);
/* The message at the place is taken or passed over: from memory in state NONE, else by the scan. */
void backlog_pass(struct backlog *b, uint64_t place);
/* The scan found nothing behind `at`. */
void backlog_end(struct backlog *b, struct engine *e);

/* Whether the flow has one, as far as the caller has seen. Spool writer. */
bool backlog_is_seen(const struct engine *e, uint32_t flow);
/* Whether any flow has. Any thread. */
bool backlog_is_any(const struct engine *e);

#endif
