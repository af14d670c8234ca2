/* The client side of SMTP on one connection, as a state machine: bytes, events and time in; bytes
 * and events out. Called by the shell that owns the socket, on its thread; it touches no socket, no
 * clock, no TLS library and decides nothing about other servers (net/outcome does).
 *
 * How a shell drives it:
 *   - after connect(): smtp_client_init; then, after EVERY call into the core, pull events with
 *     smtp_client_next_event until false, write core->out, and set a timer for
 *     smtp_client_deadline;
 *   - bytes of out that the transport took are taken off with smtp_client_consume, and body bytes
 *     that it took are told by smtp_client_body_progress, all of them, and only then: a reply to
 *     the end of a message counts only when all of that message was handed over (R1);
 *   - bytes read go to smtp_client_input, again and again until the slice is empty; it stops
 *     early whenever events are pending. Read also while a write is blocked or a body is under
 *     way: replies to earlier transactions come then;
 *   - end of file: smtp_client_eof, after everything read before it; a failed read or write:
 *     read what is left first, then smtp_client_io_error; the deadline passed: smtp_client_timeout;
 *   - SMTP_CLIENT_CLOSED is the last event: flush out if `flush` says so, close the socket.
 *
 * Several transactions may be in flight: whenever no event is left, and while something waits and
 * smtp_client_can_start says so, start another. When WANT_BODY is taken, what stands in out belongs
 * before that body, and the core puts nothing behind it until smtp_client_body_sent. That may be
 * called, once no event is left, as soon as the shell has queued the body, so that one writev can
 * carry commands, body, next commands and even next bodies: the shell notes out.len at each
 * WANT_BODY and keeps that order. With CLOSED all bodies still queued are void.
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
#include "net/smtp_pace.h"
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
    struct slice ehlo_name; /* what we say in EHLO; a server that greets with this name is this
                             * machine */
    struct slice auth_user; /* empty: no AUTH; else no mail goes to a server that refuses it */
    struct slice auth_password;
    enum smtp_client_tls tls;
    bool use_pipelining;       /* true */
    bool always_send_ehlo;     /* true; false: only when the banner says ESMTP */
    bool skip_5xx_greeting;    /* true: a 5yz banner is soft */
    bool bounce_5xx_handshake; /* false; true: 5yz to HELO or a mandatory STARTTLS bounces */
    bool check_loop;           /* true: on port 25, a server with our name is ourselves */
    bool skip_quit_response;   /* true: closed as soon as QUIT is written */
    bool use_chunking;         /* true */
    bool auth_requires_tls;    /* true: the password is never sent in clear */
    uint16_t pipeline_depth;   /* transactions in flight, 1..1000; 1: one at a time. 16 */
    uint32_t chunk_wait;       /* bytes; a larger body waits for the replies to its envelope before
                                * BDAT. 256 KB */
    uint32_t unacked_max;      /* bytes of commands without reply on the connection, 4096 */
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
    bool has_requiretls;
    bool has_chunking, has_dsn, has_enhanced_status;
    bool has_auth_plain, has_auth_login;
    uint64_t size_max; /* bytes; 0 = not stated or unlimited */
    uint32_t rcpt_max; /* LIMITS RCPTMAX, 0 = not stated: start with no more recipients */
    uint32_t mail_max; /* LIMITS MAILMAX, 0 = not stated; kept by the core */
};

#define SMTP_CLIENT_ADDRESS_MAX 1000 /* bytes */

/* One message to some recipients. All of it stays valid until SMTP_CLIENT_DONE or _RETURNED.
 * Addresses are in wire form (quoted where needed), without <>; an empty sender is the null one. */
struct smtp_transaction {
    struct slice sender;
    const struct slice *recipients;
    uint32_t recipient_count; /* >= 1 */
    uint64_t size_bytes;      /* body with CRLF line ends, before dot-stuffing; for SIZE=, and
                               * exact: BDAT announces it */
    bool has_8bit;
    bool needs_smtputf8;
    bool requires_tls;  /* RFC 8689: not without REQUIRETLS, nor in a session that is not proved */
    bool is_tls_proved; /* this session is; this and the next count only when requires_tls */
    bool is_tls_broken; /* TLS failed here lately and may not do so later */
};

enum smtp_client_event_kind {
    SMTP_CLIENT_NONE,
    SMTP_CLIENT_WANT_TLS,  /* flush out, handshake, then smtp_client_tls_done */
    SMTP_CLIENT_READY,     /* the handshake is done, or a transaction is over: look whether
                            * smtp_client_can_start; or, with none in flight, smtp_client_quit */
    SMTP_CLIENT_WANT_BODY, /* write what stands in out, then the body (net/smtp_wire, or raw when
                            * is_chunk), and call smtp_client_body_sent */
    SMTP_CLIENT_STOP_BODY, /* stop writing the body, drop what is left of it */
    SMTP_CLIENT_RECIPIENT, /* verdict about recipient `index` */
    SMTP_CLIENT_REST,      /* verdict about every recipient of the transaction without one. The body
                            * may be wanted all the same, until DONE */
    SMTP_CLIENT_DONE,      /* transaction over, all recipients have a verdict */
    SMTP_CLIENT_RETURNED,  /* transaction over without verdicts: the connection failed and nothing
                            * of it can have been taken (its end was not sent, or 421 was said
                            * before it, and nothing behind that but the end of file). Bring it to
                            * another connection, without penalty */
    SMTP_CLIENT_FAILED,    /* the session failed before READY: verdict about the server, for
                            * whatever waited for it. CLOSED follows */
    SMTP_CLIENT_CLOSED,    /* nothing more; close the socket */
    SMTP_CLIENT_EVENT_COUNT
};

struct smtp_client_event {
    enum smtp_client_event_kind kind;
    uint32_t transaction; /* WANT_BODY, STOP_BODY, RECIPIENT, REST, DONE, RETURNED: 0 is the first
                           * started on the connection. They end in any order, at most one
                           * DONE or RETURNED each */
    uint32_t index;       /* RECIPIENT */
    const struct outcome_verdict *verdict; /* RECIPIENT, REST, FAILED; RETURNED: why the connection
                                            * failed. Valid until the next call */
    bool can_reuse; /* DONE: READY follows; not: nothing more can be started on the connection, but
                     * what is in flight may go on */
    bool is_complete; /* DONE: the dialogue ran to its end; false after a loss or protocol error */
    bool is_doubtful; /* DONE: the verdicts were refusals, but the order of replies broke: the
                       * message may have been taken all the same */
    bool is_chunk;    /* WANT_BODY: write exactly size_bytes raw bytes (no dot-stuffing, no dot) */
    bool is_neutral;  /* REST after a loss: not the first that the loss hit; teaches nothing about
                       * the site */
    bool flush;       /* CLOSED: what is in out is worth writing (QUIT), within seconds */
};

enum smtp_client_state {
    SMTP_CLIENT_STATE_GREETING,
    SMTP_CLIENT_STATE_EHLO,
    SMTP_CLIENT_STATE_HELO,
    SMTP_CLIENT_STATE_STARTTLS,
    SMTP_CLIENT_STATE_TLS, /* handshake in the shell's hands */
    SMTP_CLIENT_STATE_AUTH,
    SMTP_CLIENT_STATE_IDLE, /* ready, and nothing in flight */
    SMTP_CLIENT_STATE_BUSY, /* transactions in flight */
    SMTP_CLIENT_STATE_QUIT,
    SMTP_CLIENT_STATE_CLOSED,
};

struct smtp_client_envelope; /* a transaction in flight */

/* Commands whose good replies are told apart, and what is said to one: hashes; see
 * smtp_client_idiom.c. */
enum smtp_client_asked {
    SMTP_CLIENT_ASKED_RESET,
    SMTP_CLIENT_ASKED_MAIL,
    SMTP_CLIENT_ASKED_RCPT,
    SMTP_CLIENT_ASKED_END,
    SMTP_CLIENT_ASKED_COUNT
};

struct smtp_client_saying {
    uint32_t status; /* enhanced code */
    uint32_t words;  /* code and words; 0: not known */
    uint64_t bytes;  /* all of a reply that was such; 0: none was seen. Not of an end */
};

#define SMTP_CLIENT_EVENTS_MAX 4

/* One connection. Fields marked public may be read; the rest is private. */
struct smtp_client {
    struct buf out;                       /* public: commands to write; see smtp_client_consume */
    struct smtp_client_features features; /* public */
    enum smtp_client_state state;         /* public */
    uint32_t transactions; /* public: started on this connection: the next's number */
    bool is_tls;           /* public: handshake done */
    bool is_out_of_step;   /* public: the server broke the order of replies */

    const struct smtp_client_config *config;
    struct smtp_client_peer peer;
    struct smtp_reply reply;
    struct outcome_verdict verdict; /* of the pending event */
    struct buf text;                /* of the verdict */
    struct smtp_client_event events[SMTP_CLIENT_EVENTS_MAX];
    uint8_t event_first, event_count;
    uint8_t auth_step;
    bool avoids_chunking; /* see smtp_client_avoid_chunking */
    bool no_reuse;        /* 421 was said, line ends were wrong, ...: begin no transaction any more,
                    * but the first */
    bool is_reply_premature; /* the reply began before the last byte of the message was handed
                              * over */
    bool was_last_421;       /* the last reply was 421 */
    bool is_parting;  /* 421 was said while messages were handed over: the end of file is awaited */
    bool has_quit;    /* is_parting, and QUIT was said because the end of file did not come */
    bool has_parted;  /* is_parting, and the end of file came with no reply before it: a message
                       * whose end was not answered was not taken */
    bool is_used_up;  /* ending: the MAIL of the oldest transaction was refused as one too many
                       * on this connection */
    bool is_desynced; /* one reply more than there are commands was seen */
    bool is_loop;     /* the server calls itself by our name */
    bool is_ending;   /* the transactions in flight get their ends, one after the other, then
                       * CLOSED */
    bool is_leaving;  /* ending: with QUIT */
    bool is_timed_out; /* ending: by a timeout */
    bool has_head;     /* ending: the verdict is about the oldest transaction, which is not ended
                        * yet */
    bool has_hit;      /* ending: some transaction got its verdict by the loss */

    struct buf flight; /* transactions in flight, from flight_first on, oldest first: envelopes.
                        * Freed while idle */
    uint32_t flight_first, flight_count;
    uint32_t written;       /* of them, those whose commands and body are all queued */
    uint32_t mails;         /* transactions that were, or will be, begun with MAIL */
    uint32_t unanswered;    /* commands queued, their replies not read */
    uint32_t unacked_bytes; /* of their RSET, MAIL and RCPT commands */
    uint64_t out_taken;     /* bytes consumed from out since the connection began */

    /* see smtp_client_idiom.c */
    struct smtp_client_saying said[SMTP_CLIENT_ASKED_COUNT];
    struct smtp_client_saying said_also[SMTP_CLIENT_ASKED_COUNT][2]; /* other words */
    bool has_also;                                                   /* some are known */
    bool has_varied;     /* the server's words vary beyond what is taken out of them */
    bool is_told;        /* the reply to the end of a message is known to differ from those to
                          * MAIL and RCPT */
    bool is_reset_told;  /* and from the reply to RSET */
    bool is_suspect;     /* the server said to another command what it says to the end of a
                          * message */
    bool is_reset_odd;   /* by all that is usual, what the server says to RSET is a reply to
                          * another command */
    bool is_all_address; /* MAIL and RCPT got the same code, of addresses */

    struct smtp_pace pace;
    usec_t now;      /* the time that the latest call brought */
    usec_t deadline; /* of the state; see smtp_client_deadline */
    usec_t reply_at; /* when the last reply came */
    usec_t idle_at;  /* since when nothing is in flight */
    usec_t body_started, body_deadline;
    uint64_t body_bytes; /* of the body being handed over */
};

/* After connect(); waits for the greeting. Nothing is allocated. */
void smtp_client_init(struct smtp_client *c, const struct smtp_client_config *config,
                      const struct smtp_client_peer *peer, usec_t now);
void smtp_client_fini(struct smtp_client *c);
/* Use DATA also where the server offers CHUNKING: its 354 stands between the replies to the envelope
 * and the end's, so that the end of a server that answers in unusual words can be told. After
 * smtp_client_init, before the first transaction. */
void smtp_client_avoid_chunking(struct smtp_client *c);

/* The next event, until false. */
bool smtp_client_next_event(struct smtp_client *c, struct smtp_client_event *ret);
/* Whether smtp_client_next_event has one. */
bool smtp_client_has_event(const struct smtp_client *c);

/* Read replies from in, which is advanced; stops after a reply that gave events. */
void smtp_client_input(struct smtp_client *c, struct slice *in, usec_t now);
void smtp_client_eof(struct smtp_client *c, usec_t now);
/* error    a positive errno of the failed read or write, or 0 when only the TLS layer failed */
void smtp_client_io_error(struct smtp_client *c, int error, usec_t now);
/* The deadline passed (nothing happens when it has not). */
void smtp_client_timeout(struct smtp_client *c, usec_t now);

/* Absolute time by which the awaited reply, handshake or body progress must have come; USEC_NEVER
 * while idle. A reply's time counts from when its command was handed over or the reply before it
 * came, whichever is later. */
usec_t smtp_client_deadline(const struct smtp_client *c);

/* The handshake asked for by WANT_TLS ended.
 *
 * reason   not ok: what failed, any bytes; ignored otherwise */
void smtp_client_tls_done(struct smtp_client *c, bool ok, struct slice reason, usec_t now);

/* The transport took the first bytes of out: they are removed from it. To be called after every
 * write, before anything is read. Time is that of the latest other call. */
void smtp_client_consume(struct smtp_client *c, size_t bytes);

/* Transactions that the connection can use at once now: 1 without PIPELINING; at most 2 with it
 * (the dot of one and the envelope of the next in one group, RFC 2920), config->pipeline_depth with
 * CHUNKING as well (RFC 3030); 1 while, or where, its replies are not told apart; and no more than
 * net/smtp_pace found useful, 1 at first. */
uint16_t smtp_client_depth(const struct smtp_client *c);
/* Transactions to have at hand: as many, and one more where two go by DATA. The reply that lets the
 * content of one be sent then finds the next envelope there, and both leave in one write; who gets
 * the next transaction only for the end of one before sends them in two. Where the server is fast
 * (net/smtp_pace) two more: it answers before whoever heard of an end has found the next one. */
uint16_t smtp_client_at_hand(const struct smtp_client *c);
/* Transactions started and not over. */
uint32_t smtp_client_in_flight(const struct smtp_client *c);
/* A transaction may be started now: fewer than the depth are in flight, the session is ready and
 * will go on, no event is pending. The depth can fall: whoever placed more must wait. */
bool smtp_client_can_start(const struct smtp_client *c);

/* When the server, near and fast so far, will have been silent for so long (smtp_pace_patience) that
 * nothing should wait behind the message that it has. USEC_NEVER: it is not, or has none. */
usec_t smtp_client_stalls_at(const struct smtp_client *c);
/* It has been: one transaction at a time until it has answered. What was at hand and is not started
 * goes faster elsewhere, and no byte of it was sent here. */
void smtp_client_stall(struct smtp_client *c);

/* Begin a transaction; only when smtp_client_can_start. Its number is c->transactions of before.
 * Reuse of an idle connection: look for readable bytes or end of file first and hand them in.
 *
 * t        copied; what it points to is not
 * errors   ERR_SYNTAX (an address holds a control byte, or a recipient is empty), ERR_LIMIT (an
 *          address beyond SMTP_CLIENT_ADDRESS_MAX), -ENOMEM; nothing was sent or counted, the
 *          connection stays as it is */
MUST_USE int smtp_client_start(struct smtp_client *c, const struct smtp_transaction *t, usec_t now);

/* The transport took bytes of the body, or of queued bodies in their order (they move the deadline;
 * by them the core knows when a chunk is wholly out). Bytes that stand in out are not of the body.
 */
void smtp_client_body_progress(struct smtp_client *c, size_t bytes, usec_t now);
/* The body asked for last is wholly written, or queued behind what was in out at WANT_BODY and in
 * front of what will be appended now: ends it. A body by DATA ends in CRLF or is empty. */
void smtp_client_body_sent(struct smtp_client *c, usec_t now);
/* The body asked for last cannot be read on this side (spool error, malformed): recipients without
 * a verdict are deferred with 4.3.0 and reason, or bounced with 5.6.0 when `permanent`; the
 * connection closes as soon as the transactions before it are answered. */
void smtp_client_body_failed(struct smtp_client *c, bool permanent, struct slice reason,
                             usec_t now);

/* End the session in an orderly way; only in SMTP_CLIENT_STATE_IDLE. */
void smtp_client_quit(struct smtp_client *c, usec_t now);

#endif
