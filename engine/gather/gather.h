/* The thread `gather`: asks other nodes of the cluster for what a call is about, makes one answer of
 * theirs and this node's, and has the questions of other nodes answered. It alone waits for them.
 *
 * What stands here holds with a cluster only (config.cluster.node); else gather_new gives NULL, which
 * every function below takes for "there is none". */
#ifndef ENGINE_GATHER_H
#define ENGINE_GATHER_H

#include "base/attr.h"

struct engine;
struct gather;

/* The nodes and the http thread's object exist. Loads the module, as the nodes did. errors: -ENOMEM;
 * ERR_MISSING, ERR_SYNTAX: of the module, which the log has */
MUST_USE int gather_new(struct engine *engine, struct gather **ret);
/* errors: -errno */
MUST_USE int gather_start(struct gather *g);
/* Before the http thread ends, which answers the calls that were not. */
void gather_stop(struct gather *g);
/* The http thread's object is gone. */
void gather_free(struct gather *g);

#endif
