/* Numbers of the tenants and campaigns that have active messages: what the scheduler cores know flows
 * by. A number is given with the first active message of a name and is free again with its last one,
 * so there are no more of them than active messages have names. Names are the same in either case of
 * letters; 0 is nobody's.
 *
 * Beyond CAMPAIGNS_MOST names of campaigns a further one shares a number with others of its tenant, one
 * of CAMPAIGNS_SHARED by its hash.
 *
 * Owner: the activator, which gives numbers and takes them back, without a lock; it holds the lock while
 * something comes or goes. Any thread may ask for a name, and holds it meanwhile. */
#ifndef ENGINE_FLOW_NAMES_H
#define ENGINE_FLOW_NAMES_H

#include "base/attr.h"
#include "engine/config/label.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

enum { FLOW_CAMPAIGNS_MOST = 100000, FLOW_CAMPAIGNS_SHARED = 1024 };

struct flow_names;
struct spool_envelope;

struct flow_names *flow_names_new(void);    /* NULL: no memory */
void flow_names_free(struct flow_names *n); /* accepts NULL */

/* The flow of a message that becomes active. Without memory for a new name the message goes with those of
 * nobody, or of no campaign. Owner. */
struct sched_flow_key flow_names_take(struct flow_names *n, const struct spool_envelope *e);
/* It is not active any more. Owner. */
void flow_names_give_back(struct flow_names *n, const struct sched_flow_key *flow);

/* The tenant with that number, in lower case. false: it has none, or the number is not in use. Any
 * thread. */
MUST_USE bool flow_names_tenant(struct flow_names *n, uint32_t number, struct label *ret);

#endif
