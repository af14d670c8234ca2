/* A report of RFC 8460 by HTTPS: one POST, by libcurl, on the thread that reports on TLS, which waits
 * for it.
 *
 * Who asks for reports is a stranger: nothing but https at port 443 of a named host, whose addresses
 * were looked up here and are ones that a mail host may have; no redirect, no proxy, no more than a
 * little of an answer, and not for long. */
#ifndef ENGINE_TLS_REPORT_POST_H
#define ENGINE_TLS_REPORT_POST_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "dns/ip.h"

#include <stdbool.h>
#include <stdint.h>

enum { TLS_REPORT_POST_ADDRESSES = 8, TLS_REPORT_POST_WHY = 300 };

struct tls_report_post {
    struct slice uri;
    struct slice body;          /* gzip */
    const struct ip *addresses; /* [count], of the URI's host */
    uint32_t count;
    bool allow_loopback;
    const char *ca_file;         /* NULL: the system's */
    usec_t time;                 /* how long it may take */
    bool (*must_end)(void *ctx); /* asked about once a second */
    void *ctx;
};

/* The host of the URI. errors: ERR_SYNTAX: such a URI is not posted to, ret_why says why */
MUST_USE int tls_report_post_host(struct slice uri, char ret[static 254],
                                  char ret_why[static TLS_REPORT_POST_WHY]);
/* errors: -errno, ERR_SYNTAX; ret_why says why it was not taken */
MUST_USE int tls_report_post_send(const struct tls_report_post *p,
                                  char ret_why[static TLS_REPORT_POST_WHY]);

#endif
