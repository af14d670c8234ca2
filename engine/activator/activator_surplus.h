/* Messages that give their places in memory back, while others wait for theirs: which flows have
 * more than their share says rota_plan, and of such a flow the youngest messages go first. One goes
 * when nothing of it was ever selected: its scheduler lets go of it, the writer ends its
 * activation, and it waits in the spool where it was, as nothing was written about it. So it is not
 * an attempt, a crash finds the message at its place at any moment, and the scan of its flow meets
 * it again once the activator has forgotten it. What was active before a scan would have found it
 * (resumed, flushed, called back) waits in its flow's line of recalls. Of held mail there the order book is not
 * told that it was reviewed, so the next start resumes it again.
 *
 *     activator --LETTER_GIVE_WAY--> scheduler --LETTER_NO_RESULT--> writer --LETTER_SETTLED--> activator
 *                                        '-------LETTER_KEPT, when it was selected----------->
 *
 * A plan is made when the last one has been answered, but a moment later when it brought nothing: where
 * all that is above its share is partly sent, or goes by several transports, nobody can give. One that
 * names nobody is repeated a quarter of a second later.
 *
 * Owner: the activator thread. */
#ifndef ENGINE_ACTIVATOR_SURPLUS_H
#define ENGINE_ACTIVATOR_SURPLUS_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct activator;
struct message;

struct surplus {
    uint32_t asked;     /* messages without an answer */
    usec_t next;        /* monotonic: the next plan, not before */
    usec_t forget_kept; /* monotonic: then who could not give may be asked again */
};

/* Once a pass, when places were given: asks for some where they lack. */
void surplus_ask(struct activator *a);
/* When to look again (monotonic); USEC_NEVER: a letter will come, or nobody lacks a place. */
MUST_USE usec_t surplus_wake_at(const struct activator *a);
/* The answer is that the message stays. Takes the reference that surplus_ask took. */
void surplus_kept(struct activator *a, struct message *m);
/* The message has settled, by the answer or otherwise. */
void surplus_settled(struct activator *a, struct message *m);
/* A message that gave its place back is not in the activator any more: its flow is to have it active again
 * when it is its turn. */
void surplus_returned(struct activator *a, const struct message *m);

#endif
