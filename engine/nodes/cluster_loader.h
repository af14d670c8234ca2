/* The module that speaks to NATS servers, and how the configuration has it connect. */
#ifndef ENGINE_CLUSTER_LOADER_H
#define ENGINE_CLUSTER_LOADER_H

#include "base/attr.h"
#include "engine/nodes/cluster_log_module.h"
#include "engine/nodes/cluster_module.h"

struct config_cluster;

#define CLUSTER_LOADER_TEXT 400

/* The module stays loaded until the process ends, as its library has threads.
 *
 * path    NULL: where it was installed
 * ret_log its other table
 * errors  ERR_MISSING: it cannot be loaded; ERR_SYNTAX: it is another version's. text says why */
MUST_USE int cluster_loader_load(const char *path, const struct cluster_module **ret,
                                 const struct cluster_log_module **ret_log,
                                 char text[static CLUSTER_LOADER_TEXT]);

/* How the configuration has a connection made; it points into the configuration.
 *
 * name  what the servers show of it; kept by the caller */
struct cluster_options cluster_loader_options(const struct config_cluster *config, const char *name,
                                              usec_t timeout);

#endif
