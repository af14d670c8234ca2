/* Where a tool listens or connects: numeric addresses with ports, and ranges of them. */
#ifndef BENCH_ENDPOINT_H
#define BENCH_ENDPOINT_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ENDPOINT_TEXT_BYTES 64
#define ENDPOINT_LIST_MAX   65536 /* endpoints in one list */

struct endpoint {
    struct sockaddr_storage address;
    socklen_t len;
};

struct endpoint_list {
    struct endpoint *items; /* heap */
    size_t count, capacity;
};

/* Addresses from one to another, with one port or any. */
struct endpoint_range {
    uint8_t first[16], last[16]; /* keys as endpoint_key makes them */
    uint16_t port;               /* 0: any */
};

/* Append what `text` names: comma-separated "1.2.3.4:25", "1.2.3.4-1.2.3.9:25", "[::1]:25" or
 * "localhost:25" (127.0.0.1).
 *
 * errors   ERR_SYNTAX, ERR_LIMIT, -ENOMEM; the list keeps what came before
 */
MUST_USE int endpoint_list_add(struct endpoint_list *list, const char *text);
void endpoint_list_fini(struct endpoint_list *list);
/* Read "1.2.3.4", "1.2.3.4-1.2.3.9" or "::1", each also with a port: "1.2.3.4:25", "[::1]:25".
 * errors: ERR_SYNTAX */
MUST_USE int endpoint_range_read(const char *text, struct endpoint_range *ret);
bool endpoint_range_has(const struct endpoint_range *r, const struct sockaddr_storage *address);
/* The address without its port: IPv6, or IPv4 behind twelve zero bytes. */
void endpoint_key(const struct sockaddr_storage *address, uint8_t ret[16]);
/* "1.2.3.4:25" or "[::1]:25" */
void endpoint_text(const struct sockaddr_storage *address, char ret[ENDPOINT_TEXT_BYTES]);

#endif
