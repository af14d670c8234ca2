/* The takeover of a spool that a daemon of format 4 or older left. Inside the spool files only.
 *
 * Before format 5 a place in the queue was time and id alone. When the spool is opened such places are
 * moved, some in each transaction, to the flows that the records of their messages say. A place has 16
 * bytes before and 20 after, so neither passes for the other, and each message has one of them whenever
 * a transaction ends. The first transaction of all stores the format's number, so that an older program
 * does not open the spool any more, and with it a number of the meta table that says that there may be
 * places left; the last one takes that away. So a start that is killed in the middle goes on at the
 * next. */
#ifndef ENGINE_SPOOL_TAKEOVER_H
#define ENGINE_SPOOL_TAKEOVER_H

#include "engine/spool/spool_env.h"

/* Does nothing when no place is left. Flows are loaded, and nobody reads yet. errors: storage; what was
 * moved before stays moved */
MUST_USE int spool_take_over(struct spool_store *s);

#endif
