/* Resolutions in a worker: a destination's hosts from DNS, and what its MTA-STS policy leaves of
 * them.
 *
 * Owner: the worker. Each struct resolution that comes in goes back to its scheduler thread exactly
 * once. Where the destination's level is mta-sts it takes a way through three hands: the resolver
 * (hosts and TXT record), the resolver again (the policy's host), the thread that knows policies.
 *
 * A scheduler thread asks a worker only for what the shared cache of answers does not have: it reads
 * that by itself first (resolution_reader.h).
 */
#ifndef ENGINE_RESOLUTION_H
#define ENGINE_RESOLUTION_H

#include "engine/worker/worker.h"
struct resolution;
struct sts_question;

/* A scheduler wants the hosts of a destination. */
void resolution_start(struct worker *w, struct resolution *r) ON_ROLE(w->post);
/* Ask by the settings in force from now on, where a reload has changed what is said about that. */
void resolution_follow(struct worker *w) ON_ROLE(w->post);
/* The resolver may have results. */
void resolution_take_results(struct worker *w) ON_ROLE(w->post);
/* LETTER_STS_ANSWER: takes the question over. */
void resolution_take_policy(struct worker *w, struct sts_question *q) ON_ROLE(w->post);
/* At shutdown: nobody waits for it any more. */
void resolution_free(struct resolution *r);

#endif
