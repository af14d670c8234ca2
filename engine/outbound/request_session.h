/* What the result of a delivery says about the server and how it was reached. */
#ifndef ENGINE_REQUEST_SESSION_H
#define ENGINE_REQUEST_SESSION_H

#include "base/slice.h"
#include "net/tls.h"

struct dns_host;
struct limits_figure;

struct request_session {
    const struct dns_host *host;
    const char *address; /* of the host, as text */
    struct tls_facts tls;
    struct slice source;          /* of the egress; "": none */
    struct limits_figure *figure; /* where what the server says is counted; NULL: nowhere */
};

#endif
