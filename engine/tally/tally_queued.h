/* Rows for the tenants whose mail an earlier run has left in the spool, so that reports name them before
 * anything of it is counted. */
#ifndef ENGINE_TALLY_QUEUED_H
#define ENGINE_TALLY_QUEUED_H

#include "base/attr.h"

struct spool_reader;
struct tally;

/* Looks at the first message of each flow, of which there are 100,000 and 1,024 a tenant beyond that. The
 * reader is not begun. Owner: that of the tally. errors: storage */
MUST_USE int tally_note_queued(struct tally *t, struct spool_reader *reader);

#endif
