/* What a NATS server says of itself before anybody logs in: its first line, and its monitoring page.
 * For `sluice check` and for the start; waits for the network, a few seconds at most. */
#ifndef ENGINE_SERVER_PROBE_H
#define ENGINE_SERVER_PROBE_H

#include "base/attr.h"

#include <stdbool.h>

#define SERVER_PROBE_TEXT   300
#define SERVER_PROBE_OLDEST "2.12" /* compare-and-set is broken with 3 replicas before */

struct server_probe {
    char version[32];
    bool has_jetstream;
    bool is_new_enough;
};

/* server  "nats://[USER[:PASSWORD]@]HOST[:PORT]", or tls://
 * errors  -errno, -ETIMEDOUT, ERR_MISSING: no such host, ERR_SYNTAX: what answered is no NATS server */
MUST_USE int server_probe_ask(const char *server, struct server_probe *ret);

/* Whether every write is synced before it is acknowledged.
 *
 * monitor  "http://HOST:PORT"
 * errors   ERR_CLOSED: nobody answered; ERR_SYNTAX: not in a way that tells */
MUST_USE int server_probe_syncs(const char *monitor, bool *ret);

#endif
