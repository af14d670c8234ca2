/* Which receptions are refused as their tenants have as many messages queued as they may
 * (queue_limit): the last word, said before a batch is written, by numbers that only this thread
 * changes. Sessions and requests look at the same numbers earlier, and may see them late.
 *
 * Owner: the spool writer. */
#ifndef ENGINE_ADMISSION_H
#define ENGINE_ADMISSION_H

#include "base/attr.h"
#include "base/clock.h"

#include <stdbool.h>

struct engine;
struct intake;
struct journaled;
struct message;
struct spool_reader;

struct admission {
    struct engine *engine;
    struct spool_reader *reader;
    usec_t count_after; /* monotonic: queued mail is not counted again before */
};

void admission_init(struct admission *a, struct engine *engine, struct spool_reader *reader);
/* Once a pass, before receptions are judged: counts all queued mail when there is a limit and no
 * number, or after damage. Without a working count nobody has a limit. online for RCU
 *
 * journaled   messages that the tables do not have
 * returns     false: there are no limits and nothing to count, judge no reception */
bool admission_begin(struct admission *a, const struct journaled *journaled);
/* A reception that is complete. false: it is to be refused with ERR_QUOTA; else it is counted. */
MUST_USE bool admission_take(struct admission *a, struct intake *in);
/* It is answered: unless it was stored it is not counted any more. */
void admission_answered(struct admission *a, struct intake *in, bool is_stored);
/* A notice was stored; an activation ended, and perhaps the message has left the queue. */
void admission_notice(struct admission *a, const struct intake *in);
void admission_settled(struct admission *a, const struct message *m);
/* Messages were lost or quarantined, and nobody knows whose. */
void admission_doubt(struct admission *a);

#endif
