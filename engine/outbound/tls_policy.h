/* What outbound TLS a session must have: from the destination's level (policy_tls_level) and what
 * was found out about the host, to the demands on one connection, and whether they were met.
 *
 * Called by outbound connections: tls_policy_choose before a session, tls_policy_connection when
 * STARTTLS was accepted, tls_policy_judge after the handshake. The levels mean what the option
 * smtp_tls_security_level says; where a password is at stake (smtp_auth_requires_tls), `may` is
 * taken as `encrypt`. Only TLS_LEVEL_MAY ever goes on in clear. */
#ifndef ENGINE_TLS_POLICY_H
#define ENGINE_TLS_POLICY_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/config/config.h"
#include "net/smtp_client.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stdint.h>

struct dns_host;
struct dns_hosts;
struct policy;
struct settings;
struct ssl_st;
struct tls_session_cache;

/* The demands on a session with one host; a value, kept by the connection. */
struct tls_policy {
    enum tls_level level;        /* of this host: NONE, or what a handshake has to prove */
    enum smtp_client_tls client; /* the same for the SMTP core */
};

/* Whom a session is with. */
struct tls_policy_peer {
    const struct policy *options; /* of the transport for that destination */
    struct slice
        destination; /* the nexthop (not the name, which with recipient limit 1 is longer) */
    const struct dns_hosts *hosts;
    uint32_t host; /* index in hosts */
};

/* The level of one of the hosts, from that of the destination (policy_tls_level). Pure. */
enum tls_level tls_policy_level(const struct config_smtp *smtp, enum config_tls_level level,
                                const struct dns_hosts *hosts, uint32_t host);

/* is_optional  the mail says `TLS-Required: No` (RFC 8689 section 4.3): what DANE and MTA-STS demand in
 *              the receiver's name is `may`; what the operator demands stays
 * is_broken    TLS with this host failed just now, or lately (DELIVERY_NOTE_BROKEN_TLS): level MAY
 *              becomes NONE, no other one changes
 * returns      true when is_optional made it less: the session is for this mail alone
 * thread       any; reads only */
MUST_USE bool tls_policy_choose(const struct settings *s, const struct tls_policy_peer *peer,
                                bool is_optional, bool is_broken, struct tls_policy *ret);

/* Whether a failed handshake is followed by another try in clear. */
static inline bool tls_policy_may_fall_back(const struct tls_policy *p)
{
    return p->level == TLS_LEVEL_MAY;
}

/* An SSL object for stream_start_tls that demands what p says.
 *
 * cache    the calling worker's
 * errors   NULL: out of memory or an unusable host name */
MUST_USE struct ssl_st *tls_policy_connection(const struct settings *s,
                                              const struct tls_policy_peer *peer,
                                              const struct tls_policy *p,
                                              struct tls_session_cache *cache);

/* A finished handshake: NULL when it proves what p demands, else a static text for the refusal
 * (4.7.5). The TLS layer has refused already what it saw itself; a resumed session is seen here. */
const char *tls_policy_judge(const struct tls_policy *p, const struct tls_facts *facts);

#endif
