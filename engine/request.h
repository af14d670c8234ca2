/* One delivery across the servers it is tried at: which recipients the session under way carries,
 * which server comes next, and in the end the result and the report. No sockets; owned by the
 * outbound connection that carries it. Server choice: scheduler-semantics 9.3. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "base/attr.h"
#include "base/clock.h"
#include "net/outcome.h"
#include "net/smtp_client.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct config_smtp;
struct delivery;
struct dns_host;
struct dns_hosts;
struct engine;
struct result;

struct request {
    struct delivery *delivery; /* NULL: none under way, everything else is zero */
    const uint32_t *indexes;   /* of the entry: positions in the message */
    struct outcome outcome;    /* by position in the entry */
    bool *is_tried;            /* by position in the entry: at the present server */
    struct slice *recipients;  /* of the transaction under way */
    uint32_t *positions;       /* of the transaction under way: positions in the entry */
    bool *is_answered;         /* by position in the transaction */
    struct smtp_transaction transaction;
    uint32_t next_host;           /* in the hosts */
    uint32_t skip_host;           /* already tried through a reused connection; UINT32_MAX: none */
    uint32_t addresses, sessions; /* used up so far */
    usec_t connected;             /* wall: ready for MAIL the last time */
    bool has_transaction;         /* one was begun at the present server */
    bool is_in_session;           /* outcome_session_begin without its end */
    bool is_final;                /* no server after this one */
    bool has_been_fresh;          /* a dead idle connection was replaced once */
    bool wants_fresh;             /* open the same address again, without penalty */
    bool wants_plain;             /* likewise, without TLS */
    bool without_tls;
    bool wants_tls; /* flush, then handshake */
};

/* errors: -ENOMEM, nothing kept */
MUST_USE int request_init(struct request *r, struct delivery *d, usec_t now);
/* Forget it at shutdown: the mail stays queued. Returns the delivery, its report neutral. */
struct delivery *request_drop(struct request *r);

static inline bool request_is_undecided(const struct request *r)
{
    return r->outcome.undecided > 0;
}

static inline bool request_has_transaction(const struct request *r)
{
    return r->has_transaction;
}

/* Choose the next server. false: none is left, or a limit is reached. */
MUST_USE bool request_next_host(struct request *r, const struct config_smtp *s,
                                const struct dns_hosts *hosts, uint32_t *ret_host);
/* The connection was open already; its server counts as tried. */
void request_reuse(struct request *r, const struct config_smtp *s, const struct dns_hosts *hosts,
                   uint32_t host);
/* The server is ready for MAIL on a fresh connection. */
void request_greeted(struct request *r, const struct config_smtp *s);
/* Recipients for a transaction: undecided and not tried at this server, as many as it takes. */
const struct smtp_transaction *request_begin_transaction(struct request *r,
                                                         const struct smtp_client_features *f);
/* Some recipients were not in any transaction with this server yet. */
bool request_has_untried(const struct request *r);

/* Verdicts of the client core. */
void request_recipient(struct request *r, uint32_t index, const struct outcome_verdict *v);
void request_rest(struct request *r, const struct outcome_verdict *v);
void request_end_transaction(struct request *r, bool is_complete);
void request_failed(struct request *r, const struct outcome_verdict *v, bool retry_fresh);
/* The server could not be reached. */
void request_site_failed(struct request *r, const struct outcome_verdict *v);

/* What the result says about the server. */
struct request_session {
    const struct dns_host *host; /* NULL: none */
    const char *address;
    uint32_t uses;
    struct tls_facts tls;
};
/* Everything is tried: fills the delivery's report, returns the result for the spool writer (NULL
 * when out of memory: see result_send), and empties the request. */
struct result *request_finish(struct request *r, const struct request_session *session);
/* A delivery that could not begin: everything is deferred. */
struct result *request_refuse(struct delivery *d, const char *status, const char *text);

/* The core's settings for a transport at a level of TLS, built at start. */
MUST_USE int request_configs_init(struct engine *e);
void request_configs_fini(struct engine *e);
const struct smtp_client_config *request_client_config(const struct engine *e, uint32_t transport,
                                                       enum smtp_client_tls tls);

#endif
