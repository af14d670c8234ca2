/* Recipient slots (section 6): how many recipients of each message are in memory. A slot belongs to
 * a job or to the pool. Owner thread only. */
#ifndef SCHED_RECIPIENT_POOL_H
#define SCHED_RECIPIENT_POOL_H

#include "sched/sched.h"

struct job;

/* A newly linked job takes what the pool has. */
void recipient_pool_grant(struct sched *s, struct job *j);
/* A preempting job that is not fully read takes half of what is left, the overdraft included. */
/* recipient_limit changed by so much. A smaller pool is overdrawn until jobs give slots back. */
void recipient_pool_resize(struct sched *s, int64_t change);
void recipient_pool_grant_preempting(struct sched *s, struct job *j);
/* Slots that the job cannot use go to the next job that can (6.3). */
void recipient_pool_move(struct sched *s, struct job *j);
/* It owns more slots than it has recipients, counted with the message's minimum. */
bool recipient_pool_can_read(const struct sched *s, const struct job *j);
/* Enough of them, or for long enough, to read on before it runs dry. */
bool recipient_pool_should_refill(const struct sched *s, const struct job *j);
/* Recipients to read at most; > 0. */
uint32_t recipient_pool_wanted(const struct sched *s, const struct job *j);

#endif
