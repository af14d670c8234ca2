/* What the files of an outbound connection share with each other; nobody else includes it.
 * outbound.c has its deliveries and its dialogue, outbound_report.c what is said of them afterwards,
 * outbound_socket.c its bytes, outbound_trace.c what is recorded of it.
 *
 * A connection object lives as long as the scheduler's connection slot holds a socket, or a
 * delivery wants one. It is in one of these states:
 *   CONNECTING  connect() under way, for a delivery
 *   PROXYING    a proxy connects to the server
 *   HANDSHAKE   TLS under way
 *   TALKING     the core is in a dialogue, for deliveries
 *   IDLE        between deliveries; the scheduler knows it as idle
 *   LEAVING     QUIT is being flushed, or the server's close awaited; no delivery, and no longer in
 *               the worker's table
 * Everything is the worker's alone. */
#ifndef ENGINE_OUTBOUND_PRIVATE_H
#define ENGINE_OUTBOUND_PRIVATE_H

#include "base/list.h"
#include "dns/hosts.h"
#include "engine/config/config.h"
#include "engine/config/policy.h"
#include "engine/outbound/egress.h"
#include "engine/outbound/outbound.h"
#include "engine/outbound/outflow.h"
#include "engine/outbound/proxy_dialogue.h"
#include "engine/outbound/tls_policy.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/trace/flight_recorder.h"
#include "net/poller.h"
#include "net/smtp_client.h"
#include "net/stream.h"
#include "net/timeout.h"
#include "net/tls.h"

enum outbound_state {
    OUTBOUND_CONNECTING,
    OUTBOUND_PROXYING,
    OUTBOUND_HANDSHAKE,
    OUTBOUND_TALKING,
    OUTBOUND_IDLE,
    OUTBOUND_LEAVING
};

struct outbound {
    struct worker_ready ready;
    struct list all;
    struct worker *worker;
    struct settings *settings;    /* own reference: it was opened by them, and goes by them */
    const struct policy *options; /* of the settings: the same for all whose mail it carries */
    struct smtp_client_config
        *own_client; /* what smtp goes by, where that is nobody else's; or NULL */
    uint16_t transport;
    uint32_t connection;
    enum outbound_state state;
    struct poller_watch watch;
    struct timeout timer;
    struct stream stream;
    struct smtp_client smtp;
    bool has_core; /* smtp is initialised */

    struct egress egress;         /* where it comes from; the same for a retry in clear */
    struct proxy_dialogue *proxy; /* PROXYING only */

    /* the server at the other end */
    struct dns_hosts *hosts; /* own reference: smtp keeps slices of it */
    uint32_t host;           /* index in hosts */
    char address[IP_TEXT_MAX];
    struct tls_policy policy; /* demanded of the TLS */
    struct tls_facts tls;     /* of the finished handshake */
    uint32_t notes;           /* DELIVERY_NOTE_ bits learnt here */
    bool avoids_chunking;     /* replies broke the order here lately: DATA, not BDAT */
    bool is_tls_broken;       /* a handshake failed here or lately: level `may` goes without TLS */
    bool wants_tls;           /* flush, then handshake */
    bool wants_plain;         /* the handshake failed: the same address again, without TLS */
    bool is_relaxed;          /* TLS is less than the receiver wants, for `TLS-Required: No` */
    bool is_tls_counted;      /* for reports: the session counts once */
    bool is_ready;            /* MAIL may be said */
    bool has_accepted;        /* the server took a message in this session */
    bool is_leaving;          /* no further delivery begins here */
    bool is_awaited;          /* the scheduler waits for LETTER_LOST when the connection ends */
    bool is_out_of_step;      /* it failed with several deliveries in flight */

    struct list started; /* requests with a transaction under way, in the order of their numbers */
    struct list waiting; /* requests that want one, in order */
    struct outflow flow;

    struct flight *flight; /* what is recorded of it; NULL: nothing */
    uint64_t traced;       /* bytes of commands recorded, of all the core ever queued */
};

static inline const struct config_smtp *outbound_settings(const struct outbound *c)
{
    return &c->options->options.smtp;
}

/* --- outbound_socket.c ------------------------------------------------------------------------ */

/* Begin to connect to hosts[host], from c->egress. errors: -errno; nothing is open then */
MUST_USE int outbound_open(struct outbound *c);
void outbound_close_socket(struct outbound *c);
/* Do what can be done now; c may be gone afterwards. */
void outbound_run(struct outbound *c);
void outbound_run_ready(struct worker_ready *self);
void outbound_on_timeout(struct timeout *t, usec_t now);

/* --- outbound.c ------------------------------------------------------------------------------- */

/* Take the events of the core, and start what waits; false: c is gone or has a new socket. */
MUST_USE bool outbound_drain(struct outbound *c);
/* No connection could be made; c is gone afterwards.
 *
 * err  -errno */
void outbound_connect_failed(struct outbound *c, int err);
/* The same when a proxy failed, with the reason in words. is_own: this says nothing about the
 * server */
void outbound_unreachable(struct outbound *c, const char *why, bool is_own);
/* The server is at the other end: the dialogue begins. */
void outbound_connected(struct outbound *c);
void outbound_free(struct outbound *c);

/* --- outbound_report.c ---
 * Those with a request take it out of the connection's lists. */

struct request;
struct request_session;

/* Whether further mail may go over it. */
bool outbound_may_be_reused(const struct outbound *c);
/* The name of the receiver's provider; empty: it has none that the configuration knows. */
struct slice outbound_provider(const struct outbound *c);
/* Where the session goes and comes from, for results. Slices of c. */
struct request_session outbound_session(const struct outbound *c);
/* Sets what the delivery's report says of the connection and its server. */
void outbound_describe(struct outbound *c, struct delivery *d, bool server_failed);
/* Whether the refusal is about more than the recipients that it was said of; these are held then. */
MUST_USE bool outbound_is_wider(struct outbound *c, struct request *r,
                                const struct outcome_verdict *v);
/* Sends the report as it stands to the delivery's scheduler. */
void outbound_report(struct worker *w, struct delivery *d);
/* Ends a delivery: the spool writer gets the recipients' results, the scheduler the report.
 *
 * session  where its last server was; NULL: it came to none */
void outbound_finish_request(struct worker *w, struct request *r,
                             const struct request_session *session);
void outbound_finish_here(struct outbound *c, struct request *r, bool server_failed);
void outbound_send_again(struct outbound *c, struct request *r, bool tried, bool server_failed);
void outbound_send_all_again(struct outbound *c);
/* Whether some delivery waits that has had no transaction here; those are given back. */
bool outbound_has_unbegun(const struct outbound *c);
void outbound_send_unbegun_again(struct outbound *c);
void outbound_send_refused(struct outbound *c, struct request *r, bool is_complete,
                           bool server_failed);
void outbound_leave_server(struct outbound *c, struct request *r, bool server_failed);
void outbound_site_failed(struct outbound *c, const struct outcome_verdict *v);

/* --- outbound_table.c ------------------------------------------------------------------------- */

/* The connection that the scheduler has by this number; NULL: none is left. */
struct outbound *outbound_find(const struct worker *w, uint32_t transport, uint32_t number);
/* Makes the table long enough for slot `number`. false: out of memory */
MUST_USE bool outbound_make_room(struct worker_connections *t, uint32_t number);
/* The number is no longer its. */
void outbound_leave_table(struct outbound *c);

/* --- outbound_trace.c ---
 * All of these do nothing where nothing is recorded. */

void outbound_trace_connect(struct outbound *c);   /* connect() is called; begins a session */
void outbound_trace_connected(struct outbound *c); /* to the server, or its proxy */
void outbound_trace_resume(struct outbound *c);    /* a delivery comes to an idle connection */
void outbound_trace_rest(struct outbound *c);      /* it is idle */
/* Mail of the delivery is about to go over it, whatever destination it was opened for. */
void outbound_trace_carry(struct outbound *c, const struct delivery *d);
/* What of the core's commands is not recorded yet. Before each of them is written. */
void outbound_trace_commands(struct outbound *c);
/* The body that is due, behind the commands. */
void outbound_trace_body(struct outbound *c, const struct message *m);
void outbound_trace_heard(struct outbound *c, struct slice replies);
/* The handshake ended. failure: why it, or what it proved, is not enough; NULL: it is */
void outbound_trace_tls(struct outbound *c, const char *failure);
void outbound_trace_verdict(struct outbound *c, const struct outcome_verdict *v);
void outbound_trace_unreachable(struct outbound *c, const char *why);
void outbound_trace_lost(struct outbound *c, int err); /* err as of read and write, or 0 */
void outbound_trace_note(struct outbound *c, const char *what, const char *detail);
void outbound_trace_end(struct outbound *c);

#endif
