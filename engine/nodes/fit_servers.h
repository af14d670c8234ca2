/* Whether the servers will do, before anything is stored there. */
#ifndef ENGINE_FIT_SERVERS_H
#define ENGINE_FIT_SERVERS_H

#include "base/attr.h"
#include "engine/nodes/cluster_module.h"

#define FIT_SERVERS_TEXT 300

/* Ask all of them, as anybody may, and have one let this node in. Waits for servers, some seconds each at
 * most.
 *
 * text    what speaks against them; "": none answers
 * errors  ERR_AGAIN: none answers, none lets it in, or one will not do */
MUST_USE int fit_servers_look(const struct cluster_module *module,
                              const struct cluster_options *options,
                              char text[static FIT_SERVERS_TEXT]);

#endif
