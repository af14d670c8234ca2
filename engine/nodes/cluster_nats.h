/* What the files of the module have in common. Nobody else includes it. */
#ifndef ENGINE_CLUSTER_NATS_H
#define ENGINE_CLUSTER_NATS_H

#include "engine/nodes/cluster_api_module.h"
#include "engine/nodes/cluster_module.h"

#include <nats/nats.h>

extern const struct cluster_api_module cluster_nats_api_module; /* cluster_nats_api.c */

/* What every connection is set to, but who hears of its events. */
natsStatus cluster_nats_set(natsOptions *o, const struct cluster_options *from);
/* libnats's status as an error of the module. */
int cluster_nats_error(natsStatus s);

#endif
