/* The module's third table: questions that nodes ask each other, and their answers. They travel as plain
 * messages, which no server keeps. It has a connection of its own, so that a large answer does not
 * stand before what keeps a node's lease. */
#ifndef ENGINE_CLUSTER_API_MODULE_H
#define ENGINE_CLUSTER_API_MODULE_H

#include "engine/nodes/cluster_module.h"

#define CLUSTER_API_SUBJECT   "sluice.api." /* before the name of the node that is asked */
#define CLUSTER_API_TOKEN_MAX 40            /* bytes; letters, digits and - */
#define CLUSTER_API_REPLY_MAX 127           /* bytes */

struct cluster_api;

/* Who hears what comes: called by two threads of the module, one for questions, one for answers; must
 * not wait. Both outlive the client. data: valid during the call, as all that it gets. */
struct cluster_api_hearer {
    /* reply: what `answer` takes */
    void (*question)(void *ctx, const char *reply, const void *data, size_t len);
    /* token: as it was asked with. data NULL: nobody is there who could answer */
    void (*answer)(void *ctx, const char *token, const void *data, size_t len);
    void *ctx;
};

/* Errors are negative enum err. `ask` and `answer` hand over to a buffer, and wait only when a server
 * takes nothing any more; one thread calls all of these. */
struct cluster_api_module {
    /* As cluster_module.open. */
    int (*open)(const struct cluster_options *options, const char *node,
                const struct cluster_api_hearer *hearer, struct cluster_api **ret);
    void (*close)(struct cluster_api *a); /* nothing is heard any more; accepts NULL */
    /* errors: ERR_CLOSED: no server is connected */
    int (*ask)(struct cluster_api *a, const char *node, const char *token, struct slice question);
    /* errors: the same */
    int (*answer)(struct cluster_api *a, const char *reply, struct slice part);
};

#endif
