/* Owns what is asked of servers before a client is opened. Called by the thread `cluster`; opens none. */
#include "engine/nodes/fit_servers.h"

#include "base/error.h"
#include "engine/nodes/server_probe.h"

#include <errno.h>
#include <stdio.h>

/* Servers before the oldest one have two winners of one race; none of them is spoken to. true: one
 * answered, and all that answered will do */
static bool are_new_enough(const struct cluster_options *options, char text[FIT_SERVERS_TEXT])
{
    size_t answered = 0;
    for (size_t i = 0; i < options->server_count; i++) {
        const char *server = options->servers[i];
        struct server_probe p;
        if (server_probe_ask(server, &p) != 0) {
            continue;
        }
        answered++;
        if (!p.is_new_enough) {
            (void)snprintf(text, FIT_SERVERS_TEXT,
                           "%.150s is %s, and " SERVER_PROBE_OLDEST " is the oldest that will do",
                           server, p.version);
            return false;
        }
        if (!p.has_jetstream) {
            (void)snprintf(text, FIT_SERVERS_TEXT, "%.150s has no JetStream (version %s)", server,
                           p.version);
            return false;
        }
    }
    return answered > 0;
}

/* What servers say against this node is of interest only when none lets it in. libnats closes a client for
 * good that was refused twice, so none is opened before. */
static bool is_let_in(const struct cluster_module *module, const struct cluster_options *options,
                      char text[FIT_SERVERS_TEXT])
{
    struct cluster_options one = *options;
    one.server_count = 1;
    for (size_t i = 0; i < options->server_count; i++) {
        char why[CLUSTER_DESCRIPTION_SIZE];
        one.servers = &options->servers[i];
        int err = module->reach(&one, why);
        if (err == 0) {
            text[0] = '\0';
            return true;
        }
        if (err != ERR_CLOSED && err != -ETIMEDOUT) {
            (void)snprintf(text, FIT_SERVERS_TEXT, "%.120s does not let this node in: %.140s",
                           one.servers[0], why);
        }
    }
    return false;
}

int fit_servers_look(const struct cluster_module *module, const struct cluster_options *options,
                     char text[static FIT_SERVERS_TEXT])
{
    text[0] = '\0';
    return are_new_enough(options, text) && is_let_in(module, options, text) ? 0 : ERR_AGAIN;
}
