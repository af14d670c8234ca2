/* The client side of SMTP on one connection, as a state machine: bytes, events and time in; bytes
 * and events out. Called by the shell that owns the socket, on its thread; it touches no socket, no
 * clock, no TLS library and decides nothing about other servers (net/outcome does).
 *
 * How a shell drives it:
 *   - after connect(): smtp_client_init; then, after EVERY call into the core, pull events with
 *     smtp_client_next_event until false, write core->out, and set a timer for
 * smtp_client_deadline;
 *   - bytes written to the transport are taken off with buf_consume(&core->out, n), and only then:
 *     a reply to end-of-data counts only when out is empty (R1);
 *   - bytes read go to smtp_client_input, again and again until the slice is empty; it stops
 *     early whenever events are pending;
 *   - end of file: smtp_client_eof, after everything read before it; a failed read or write:
 *     read what is left first, then smtp_client_io_error; the deadline passed: smtp_client_timeout;
 *   - SMTP_CLIENT_CLOSED is the last event: flush out if `flush` says so, close the socket.
 *
 * Deviations from Postfix, for safety: a protocol error (garbage, a reply of the wrong class, a
 * reply nobody asked for) defers with 4.5.0 and closes, it never bounces; a 5yz before MAIL is a
 * problem of the host, not of the mail (bounce_5xx_handshake = true gives Postfix's); after a
 * timeout or protocol error the connection is closed, never reset and reused; a session lost after
 * the final dot is not retried at another server in the same request. */
#ifndef NET_SMTP_CLIENT_H
#define NET_SMTP_CLIENT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"
#include "net/outcome.h"
#include "net/smtp_reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum smtp_client_tls {
    SMTP_CLIENT_TLS_NONE,    /* never */
    SMTP_CLIENT_TLS_MAY,     /* when offered and accepted, else plaintext */
    SMTP_CLIENT_TLS_ENCRYPT, /* or fail with 4.7.4 */
};

/* Immutable; shared by connections; outlives them. */
struct smtp_client_config {
    struct slice ehlo_name; /* also the name that means "myself" in loop detection */
    enum smtp_client_tls tls;
    bool use_pipelining;       /* true */
    bool always_send_ehlo;     /* true; false: only when the banner says ESMTP */
    bool skip_5xx_greeting;    /* true: a 5yz banner is soft */
    bool bounce_5xx_handshake; /* false; true: 5yz to HELO or a mandatory STARTTLS bounces */
    bool check_loop;           /* true: on port 25, a server with our name is ourselves */
    bool skip_quit_response;   /* true: closed as soon as QUIT is written */
    uint32_t unacked_max;      /* bytes of commands without reply in one batch, 4096 */
    uint32_t min_data_rate;    /* bytes a second while sending a body, 500; 0 = none */
    /* scheduler-semantics 9.1; each is for one whole reply, body: without any progress */
    usec_t helo_timeout, starttls_timeout, mail_timeout, rcpt_timeout;
    usec_t data_init_timeout, data_xfer_timeout, data_done_timeout, rset_timeout, quit_timeout;
};

/* The defaults named above and in 9.1; ehlo_name "localhost", TLS none. */
void smtp_client_config_defaults(struct smtp_client_config *ret);

/* The server at the other end; the slices outlive the core. */
struct smtp_client_peer {
    struct slice host;    /* MX name, or the name in brackets */
    struct slice address; /* text form */
    struct slice nexthop; /* what was routed to; for the loop message */
    uint16_t port;
    bool is_best_mx; /* of the best preference: a loop then bounces (5.4.6), else defers (4.4.6) */
};

/* What the last EHLO offered. */
struct smtp_client_features {
    bool has_esmtp, has_pipelining, has_size, has_8bitmime, has_smtputf8, has_starttls;
    bool has_chunking, has_dsn, has_enhanced_status;
    bool has_auth_plain, has_auth_login;
    uint64_t size_max; /* bytes; 0 = not stated or unlimited */
    uint32_t rcpt_max; /* LIMITS RCPTMAX, 0 = not stated: start with no more recipients */
    uint32_t mail_max; /* LIMITS MAILMAX, 0 = not stated; kept by the core */
};

#define SMTP_CLIENT_ADDRESS_MAX 1000 /* bytes */

/* One message to some recipients. All of it stays valid until SMTP_CLIENT_DONE or _FAILED.
 * Addresses are in wire form (quoted where needed), without <>; an empty sender is the null one. */
struct smtp_transaction {
    struct slice sender;
    const struct slice *recipients;
    uint32_t recipient_count; /* >= 1 */
    uint64_t size_bytes;      /* body with CRLF line ends, before dot-stuffing; for SIZE= */
    bool has_8bit;
    bool needs_smtputf8;
};

enum smtp_client_event_kind {
    SMTP_CLIENT_NONE,
    SMTP_CLIENT_WANT_TLS,  /* flush out, handshake, then smtp_client_tls_done */
    SMTP_CLIENT_READY,     /* smtp_client_start or smtp_client_quit may be called */
    SMTP_CLIENT_WANT_BODY, /* flush out, write the body (net/smtp_wire), then smtp_client_body_sent
                            */
    SMTP_CLIENT_STOP_BODY, /* stop writing the body, drop what is left of it */
    SMTP_CLIENT_RECIPIENT, /* verdict about recipient `index` */
    SMTP_CLIENT_REST,      /* verdict about every recipient of the transaction without one */
    SMTP_CLIENT_DONE,   /* transaction over, all recipients have a verdict; READY or CLOSED next */
    SMTP_CLIENT_FAILED, /* the session failed and the transaction, if any, never began: verdict
                         * is for the whole request; or retry_fresh. CLOSED follows */
    SMTP_CLIENT_CLOSED, /* nothing more; close the socket */
    SMTP_CLIENT_EVENT_COUNT
};

struct smtp_client_event {
    enum smtp_client_event_kind kind;
    uint32_t index;                        /* RECIPIENT */
    const struct outcome_verdict *verdict; /* RECIPIENT, REST, FAILED; valid until the next call
                                            * other than smtp_client_next_event */
    bool can_reuse;                        /* DONE: READY follows */
    bool is_complete; /* DONE: the dialogue ran to its end; false after a loss or protocol error */
    bool retry_fresh; /* FAILED: a reused connection had died before the server took anything:
                       * open a new one for the same transaction, once, without penalty */
    bool flush;       /* CLOSED: what is in out is worth writing (QUIT), within seconds */
};

enum smtp_client_state {
    SMTP_CLIENT_STATE_GREETING,
    SMTP_CLIENT_STATE_EHLO,
    SMTP_CLIENT_STATE_HELO,
    SMTP_CLIENT_STATE_STARTTLS,
    SMTP_CLIENT_STATE_TLS,      /* handshake in the shell's hands */
    SMTP_CLIENT_STATE_IDLE,     /* ready for a transaction */
    SMTP_CLIENT_STATE_ENVELOPE, /* MAIL, RCPT, DATA under way */
    SMTP_CLIENT_STATE_BODY,
    SMTP_CLIENT_STATE_DOT,
    SMTP_CLIENT_STATE_RSET,
    SMTP_CLIENT_STATE_QUIT,
    SMTP_CLIENT_STATE_CLOSED,
};

/* Progress of the transaction under way: commands are answered in the order MAIL, RCPT 0..n-1,
 * DATA, so counts say which reply comes next. Its own struct, so that several can be in flight. */
struct smtp_client_envelope {
    struct smtp_transaction t;
    uint32_t rcpt_sent, rcpt_answered; /* in order */
    uint32_t accepted;                 /* recipients answered 2yz */
    uint32_t undecided;                /* recipients without a verdict */
    uint32_t mail_bytes;               /* length of the MAIL command */
    uint32_t unacked_bytes;            /* of MAIL and RCPT commands without reply */
    bool mail_answered, mail_accepted;
    bool data_sent, data_answered;
    bool is_lone_dot; /* 354 though nobody was accepted: an empty message to nobody is ended */
};

#define SMTP_CLIENT_EVENTS_MAX 4

/* One connection. Fields marked public may be read, out also consumed; the rest is private. */
struct smtp_client {
    struct buf out;                       /* public: commands to write */
    struct smtp_client_features features; /* public */
    enum smtp_client_state state;         /* public */
    uint32_t transactions;                /* public: started on this connection */
    bool is_tls;                          /* public: handshake done */

    const struct smtp_client_config *config;
    struct smtp_client_peer peer;
    struct smtp_reply reply;
    struct smtp_client_envelope envelope;
    struct outcome_verdict verdict; /* of the pending event */
    struct buf text;                /* of the verdict */
    struct smtp_client_event events[SMTP_CLIENT_EVENTS_MAX];
    uint8_t event_first, event_count;
    bool no_reuse;    /* 421 was said, line ends were wrong, ...: close after this transaction */
    bool is_desynced; /* a reply too many was seen behind the last one */
    bool is_loop;     /* the server calls itself by our name */
    usec_t deadline;
    usec_t body_started;
    uint64_t body_bytes;
};

/* After connect(); waits for the greeting. Nothing is allocated. */
void smtp_client_init(struct smtp_client *c, const struct smtp_client_config *config,
                      const struct smtp_client_peer *peer, usec_t now);
void smtp_client_fini(struct smtp_client *c);

/* The next event, until false. */
bool smtp_client_next_event(struct smtp_client *c, struct smtp_client_event *ret);

/* Read replies from in, which is advanced; stops after a reply that gave events. */
void smtp_client_input(struct smtp_client *c, struct slice *in, usec_t now);
void smtp_client_eof(struct smtp_client *c, usec_t now);
/* error    a positive errno of the failed read or write, or 0 when only the TLS layer failed */
void smtp_client_io_error(struct smtp_client *c, int error, usec_t now);
/* The deadline passed (nothing happens when it has not). */
void smtp_client_timeout(struct smtp_client *c, usec_t now);

/* Absolute time by which the awaited reply, handshake or body progress must have come; USEC_NEVER
 * while idle. */
usec_t smtp_client_deadline(const struct smtp_client *c);

/* The handshake asked for by WANT_TLS ended.
 *
 * reason   not ok: what failed, any bytes; ignored otherwise */
void smtp_client_tls_done(struct smtp_client *c, bool ok, struct slice reason, usec_t now);

/* Begin a transaction; only in SMTP_CLIENT_STATE_IDLE. Reuse of an idle connection: look for
 * readable bytes or end of file first and hand them in.
 *
 * t        copied; what it points to is not
 * errors   ERR_SYNTAX (an address holds a control byte, or a recipient is empty), ERR_LIMIT (an
 *          address beyond SMTP_CLIENT_ADDRESS_MAX); nothing was sent, the connection stays idle */
MUST_USE int smtp_client_start(struct smtp_client *c, const struct smtp_transaction *t, usec_t now);

/* bytes of the body were written to the transport (they move the deadline). */
void smtp_client_body_progress(struct smtp_client *c, size_t bytes, usec_t now);
/* The body, ending in CRLF or empty, is wholly written or queued in front of out: ends it. */
void smtp_client_body_sent(struct smtp_client *c, usec_t now);
/* The body cannot be read on this side (spool error, malformed): recipients without a verdict are
 * deferred with 4.3.0 and reason, or bounced with 5.6.0 when `permanent`; the connection closes. */
void smtp_client_body_failed(struct smtp_client *c, bool permanent, struct slice reason,
                             usec_t now);

/* End the session in an orderly way; only while idle. */
void smtp_client_quit(struct smtp_client *c, usec_t now);

#endif
