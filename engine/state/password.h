/* Passwords towards others: of sources at their SOCKS proxies, of transports at their smart hosts,
 * and the secrets that webhooks sign with.
 * Read once at start, while the files may be read; immutable afterwards, for any thread; wiped at
 * the end, and never printed. */
#ifndef ENGINE_PASSWORD_H
#define ENGINE_PASSWORD_H

#include "base/attr.h"
#include "base/slice.h"

struct config;

#define PASSWORD_TEXT_MAX 512
/* Bytes of a smart host's password: more than any token that serves as one is known to have. */
#define PASSWORD_MAX 4000

/* Empty where the configuration has none. */
struct passwords {
    struct slice *sources;    /* [config->egress_source_count] */
    struct slice *transports; /* [config->transport_count] */
    struct slice *webhooks;   /* [config->webhook_count]; secrets for signatures */
};

/* The first line of each password file.
 *
 * ret      zeroed by the caller; nothing in it on an error
 * errors   -errno, ERR_SYNTAX, ERR_LIMIT: ret_text says which file and why */
MUST_USE int passwords_load(const struct config *config, struct passwords *ret,
                            char ret_text[static PASSWORD_TEXT_MAX]);
void passwords_free(const struct config *config, struct passwords *p); /* accepts a zeroed one */

#endif
