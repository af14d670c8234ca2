/* What is said to a proxy between the connect and the greeting of the host behind it. Owned by one
 * outbound connection, and there only while it lasts. The owner limits its time. */
#ifndef ENGINE_PROXY_DIALOGUE_H
#define ENGINE_PROXY_DIALOGUE_H

#include "base/attr.h"

#include <stdbool.h>

struct dns_host;
struct egress;
struct settings;
struct proxy_dialogue;
struct stream;

enum proxy_progress {
    PROXY_AGAIN,  /* needs an event of the socket */
    PROXY_DONE,   /* from here on the stream is the target's; nothing of it was read */
    PROXY_FAILED, /* see proxy_dialogue_error */
};

/* c        has a proxy, see egress_proxy
 * returns  NULL when out of memory */
struct proxy_dialogue *proxy_dialogue_new(const struct settings *s, const struct egress *c,
                                          const struct dns_host *target);
/* Frees it and sets it to NULL, which it may be. */
void proxy_dialogue_end(struct proxy_dialogue **d);

/* Go on while the stream can. s: connected */
MUST_USE enum proxy_progress proxy_dialogue_run(struct proxy_dialogue *d, struct stream *s);
/* After PROXY_FAILED: why, static text; and whether the target is to blame. */
const char *proxy_dialogue_error(const struct proxy_dialogue *d);
bool proxy_dialogue_blames_target(const struct proxy_dialogue *d);

#endif
