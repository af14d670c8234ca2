/* One SMTP session from the server's side, as a pure core: bytes and time in, replies and events
 * out. Owned and called by the worker that holds the connection; does no I/O, reads no clock.
 *
 * The shell's loop: smtp_server_step() until it returns SMTP_SERVER_INPUT, SMTP_SERVER_WAIT or
 * SMTP_SERVER_CLOSE; each time it must send what is in `out` (buf_consume what was sent) before it
 * waits for anything. It calls step with an empty slice when smtp_server_deadline() has passed.
 *
 * After ENVELOPE was accepted exactly one of MESSAGE and ABORTED follows, unless the connection is
 * lost first; what the shell staged for the transaction belongs to that one outcome. */
#ifndef NET_SMTP_SERVER_H
#define NET_SMTP_SERVER_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"
#include "net/smtp_address.h"
#include "net/smtp_body.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SMTP_SERVER_HELO_MAX     255   /* bytes of the EHLO argument */
#define SMTP_SERVER_PEER_MAX     64    /* bytes of the peer's address text, with NUL */
#define SMTP_SERVER_PASSWORD_MAX 255   /* bytes; user names too */
#define SMTP_SERVER_BATCH_BYTES  65536 /* a batch of recipients is handed over at this size */

/* The settings of one listener's sessions: immutable, shared by the sessions, and freed after
 * them. */
struct smtp_server_config {
    const char *hostname;         /* in the greeting and the Received header */
    const char *software;         /* behind it; may be "" */
    uint64_t message_size_limit;  /* bytes; 0 = none */
    uint64_t header_size_limit;   /* bytes of the header fields; 0 = none */
    uint32_t header_fields_limit; /* 0 = none */
    uint32_t text_line_limit;     /* bytes of a line of content; 0 = none */
    uint32_t command_line_limit;  /* bytes with CRLF, at least 512 */
    uint32_t recipient_limit;     /* a message; beyond: 452, beyond twice that: 421. 0 = none */
    uint32_t recipient_batch;     /* recipients an event, at least 1 */
    uint32_t error_limit;         /* errors a session, forgotten with each message accepted */
    uint32_t junk_limit;          /* NOOP, RSET, VRFY ... beyond which each is an error */
    uint32_t hop_limit;           /* Received: fields */
    uint32_t min_data_rate;       /* bytes a second of content; 0 = none */
    usec_t command_timeout;       /* from one command to the next */
    usec_t transaction_timeout;   /* from MAIL to the end of the content; 0 = none */
    bool offers_starttls;
    bool offers_auth;
    bool offers_chunking;
    bool offers_smtputf8;
    bool offers_mt_priority;
    bool auth_needs_tls;     /* AUTH is neither offered nor allowed in clear */
    bool hides_client;       /* the client's name and address are left out of the Received header */
    bool fix_bare_lf;        /* accept LF as line end in commands and content (old clients) */
    bool refuses_early_talk; /* input before our reply, where pipelining forbids it: 554, close */
    /* Whether mail to a domain (lower case) can go anywhere; else RCPT is refused. NULL: always.
     * Reads `routes` only, never blocks. */
    bool (*has_route)(const void *routes, struct slice domain);
    const void *routes;
};

/* Defaults: 50 MB messages, 1,000 recipients, 2,048-byte commands, 20 errors, 100 junk commands,
 * 50 hops, 300 s a command, 500 B/s, 1 h a transaction; offers CHUNKING and SMTPUTF8, neither
 * STARTTLS nor AUTH nor MT-PRIORITY; AUTH would need TLS. hostname is "localhost", software "". */
void smtp_server_config_defaults(struct smtp_server_config *ret);

struct smtp_server_peer {
    const char *address; /* "192.0.2.1" or "2001:db8::1"; copied */
    bool is_trusted;     /* in relay_from: may send to anywhere without AUTH */
};

#define SMTP_SERVER_REFUSAL_MAX 200 /* bytes with NUL */

enum smtp_server_event {
    SMTP_SERVER_INPUT, /* all input is consumed: send `out`, read more */
    SMTP_SERVER_FLUSH, /* `out` is full: send some of it before the next step */
    /* `out` ends with the 220: send it, drop input already read (the core dropped what it was
     * given), do the handshake, then call smtp_server_tls_started(); close when it fails. */
    SMTP_SERVER_STARTTLS,
    /* auth_username and auth_password are to be checked (valid until the answer, then wiped):
     * smtp_server_auth_answer(). Delay the answer to slow down guessing. */
    SMTP_SERVER_AUTH,
    /* MAIL: sender and the fields behind it are set; smtp_server_answer() with a code below 300
     * accepts, another refuses. */
    SMTP_SERVER_ENVELOPE,
    /* Recipients to take over before the next step: smtp_server_recipients(). All of them come
     * before the first BODY. */
    SMTP_SERVER_RECIPIENTS,
    /* The body buffer is full: take its bytes and buf_clear() it before the next step. */
    SMTP_SERVER_BODY,
    /* The message is complete: the body buffer holds its last bytes (perhaps none), body.facts
     * describes it; smtp_server_answer() when it is safe. */
    SMTP_SERVER_MESSAGE,
    /* The transaction ended without a message: forget it, buf_clear() the body buffer. */
    SMTP_SERVER_ABORTED,
    SMTP_SERVER_WAIT,  /* an answer is missing; nothing was consumed */
    SMTP_SERVER_CLOSE, /* send `out`, then close; returned for ever after */
    SMTP_SERVER_EVENT_COUNT
};

enum smtp_server_state {
    SMTP_SERVER_COMMAND,      /* reading a command */
    SMTP_SERVER_TLS_WAIT,     /* STARTTLS accepted, handshake outstanding */
    SMTP_SERVER_AUTH_INPUT,   /* reading a line of the AUTH exchange */
    SMTP_SERVER_AUTH_WAIT,    /* shell checks the password */
    SMTP_SERVER_MAIL_WAIT,    /* shell decides on MAIL */
    SMTP_SERVER_DATA,         /* reading content by DATA */
    SMTP_SERVER_CHUNK,        /* reading content of one BDAT */
    SMTP_SERVER_SKIP,         /* reading and dropping the content of a refused BDAT */
    SMTP_SERVER_BODY_END,     /* content complete, verdict to be given */
    SMTP_SERVER_MESSAGE_WAIT, /* shell makes the message safe */
    SMTP_SERVER_CLOSING,
    SMTP_SERVER_STATE_COUNT
};

enum smtp_server_transaction {
    SMTP_SERVER_NO_MAIL,
    SMTP_SERVER_HAS_MAIL,
    SMTP_SERVER_HAS_RCPT, /* at least one recipient accepted */
    SMTP_SERVER_HAS_BDAT, /* at least one chunk accepted */
};

enum smtp_server_hearing {
    SMTP_SERVER_NOT_HEARD,
    SMTP_SERVER_HEARD,         /* mail for us, from anybody */
    SMTP_SERVER_HEARD_UNKNOWN, /* in a domain of ours, and nobody there */
};

enum smtp_server_login { /* which line of the AUTH exchange comes next */
                         SMTP_SERVER_LOGIN_NONE,
                         SMTP_SERVER_LOGIN_PLAIN,
                         SMTP_SERVER_LOGIN_USERNAME,
                         SMTP_SERVER_LOGIN_PASSWORD,
};

/* Open so that it can be embedded; the shell writes only `out` (buf_consume). */
struct smtp_server {
    /* set at creation */
    const struct smtp_server_config *config;
    char peer[SMTP_SERVER_PEER_MAX];
    bool is_trusted;

    /* set by the shell behind smtp_server_init: whether a recipient that is right otherwise is refused;
     * then ret is what follows the code 550, which NUL ends. NULL: nobody is. Must not block. */
    bool (*refuses_recipient)(void *ctx, struct slice address,
                              char ret[static SMTP_SERVER_REFUSAL_MAX]);
    void *refuses_ctx;
    /* likewise: what is said of a recipient before anybody asks whether the client may relay. A message that
     * is heard has one recipient. NULL: nobody is heard. Must not block. */
    enum smtp_server_hearing (*hears_recipient)(void *ctx, struct slice address);
    void *hears_ctx;

    /* replies to send */
    struct buf out;

    /* the session; read by the shell */
    bool is_esmtp; /* EHLO, not HELO */
    bool is_tls;
    bool is_authenticated;
    char tls_version[16];
    char tls_cipher[48];
    char helo[SMTP_SERVER_HELO_MAX + 1]; /* "" before EHLO; only characters safe in a header */
    struct slice auth_username;          /* during SMTP_SERVER_AUTH, and after success */
    struct slice auth_password;          /* during SMTP_SERVER_AUTH */
    uint32_t error_count;
    uint32_t junk_count;
    uint64_t message_count; /* accepted with 2xx */

    /* the transaction; read by the shell from ENVELOPE to MESSAGE's answer or ABORTED */
    struct smtp_address sender; /* len 0 = null sender */
    uint64_t declared_size;     /* SIZE=, 0 when absent */
    bool is_8bitmime;           /* BODY=8BITMIME */
    bool is_smtputf8;
    bool requires_tls; /* REQUIRETLS was said, which is possible over TLS only */
    bool has_priority; /* MT-PRIORITY= was said, by a client that is trusted or authenticated */
    int8_t priority;   /* -9 to 9 */
    uint64_t recipient_count; /* accepted so far, all batches */
    bool is_heard;            /* hears_recipient said so of its recipient */
    struct smtp_body body;    /* body.facts at SMTP_SERVER_MESSAGE */

    /* private */
    enum smtp_server_state state;
    enum smtp_server_transaction transaction;
    enum smtp_server_login login;
    usec_t now; /* of the current step */
    usec_t deadline;
    usec_t transaction_deadline;
    struct buf line;       /* a command received in part */
    uint64_t discarded;    /* bytes of an overlong command dropped so far */
    struct buf recipients; /* the batch: base/packed.h */
    uint32_t batch_count;
    uint64_t overshoot_count; /* RCPT beyond the limit */
    uint64_t chunk_left;      /* bytes of the current BDAT */
    bool is_last_chunk;
    bool is_discarding;  /* an overlong command is being dropped */
    bool is_batch_given; /* the shell has the batch until the next step */
    bool is_paused;      /* the shell has held us since paused_at: not the peer's fault */
    usec_t paused_at;
    bool is_staged;  /* the shell accepted ENVELOPE and has seen no end of it */
    bool is_aborted; /* SMTP_SERVER_ABORTED is due */
    bool is_stopping;
    bool is_close_told;      /* SMTP_SERVER_CLOSE was returned */
    bool refuses_recipients; /* with fail_code and fail_text */
    bool has_failed;         /* smtp_server_fail() */
    int fail_code;
    char fail_text[128]; /* with the enhanced code */
    int skip_code;       /* reply after SMTP_SERVER_SKIP */
    const char *skip_text;
    char credentials[3 * (SMTP_SERVER_PASSWORD_MAX + 1)]; /* wiped when not needed */
};

/* Begin a session; the greeting is in `out`. config must outlive it. */
void smtp_server_init(struct smtp_server *server, const struct smtp_server_config *config,
                      const struct smtp_server_peer *peer, usec_t now);
void smtp_server_fini(struct smtp_server *server); /* accepts a zeroed one; wipes credentials */

/* Go on with the session.
 *
 * in       in/out; bytes received, moved past what was consumed. Everything is consumed unless an
 *          event other than SMTP_SERVER_INPUT asks for attention first.
 * body     content goes there, at most body->limit bytes (required, at least 1,024); the shell
 *          owns it. May be NULL while no transaction has begun.
 * now      usec, monotonic
 * returns  see above; slices of the event are valid until the next call */
MUST_USE enum smtp_server_event smtp_server_step(struct smtp_server *server, struct slice *in,
                                                 struct buf *body, usec_t now);

/* When step must be called at the latest: the end of the peer's time; a moment in the past while
 * an event is due that no input will bring (after a timeout, an answer of 421, or stop);
 * USEC_NEVER while it is the shell's turn: an answer, or the next step after BODY and
 * RECIPIENTS. */
usec_t smtp_server_deadline(const struct smtp_server *server);

/* The shell had stopped reading for its own reasons (back-pressure) and goes on: the peer's time
 * starts anew. */
void smtp_server_resume(struct smtp_server *server, usec_t now);

/* The handshake after SMTP_SERVER_STARTTLS is done (or one before the greeting): the session
 * starts from before EHLO. version and cipher are copied. */
void smtp_server_tls_started(struct smtp_server *server, const char *version, const char *cipher,
                             usec_t now);

enum smtp_server_auth { SMTP_SERVER_AUTH_OK, SMTP_SERVER_AUTH_BAD, SMTP_SERVER_AUTH_TEMPFAIL };
void smtp_server_auth_answer(struct smtp_server *server, enum smtp_server_auth answer, usec_t now);

/* Answer SMTP_SERVER_ENVELOPE or SMTP_SERVER_MESSAGE. code 250, or 4xx, 5xx; 421 also closes.
 * enhanced like "2.0.0"; text one line without CR and LF, cut at 400 bytes. */
void smtp_server_answer(struct smtp_server *server, int code, const char *enhanced,
                        const char *text, usec_t now);

/* The shell takes no recipients in the transaction whose SMTP_SERVER_ENVELOPE it answers: each RCPT
 * that is right otherwise gets this 4xx or 5xx reply. Before that answer. */
void smtp_server_refuse_recipients(struct smtp_server *server, int code, const char *enhanced,
                                   const char *text);

/* The shell cannot keep the transaction (between ENVELOPE and MESSAGE): the rest of the content
 * is read and dropped, and the end of it gets this 4xx or 5xx reply. ABORTED follows. */
void smtp_server_fail(struct smtp_server *server, int code, const char *enhanced, const char *text);

/* Refuse the session, right after smtp_server_init (too many connections): the greeting becomes
 * this 4xx or 5xx reply and the session closes. */
void smtp_server_refuse(struct smtp_server *server, int code, const char *enhanced,
                        const char *text);

/* The daemon stops: the next step answers 421 and closes, except that content being received and
 * a message being made safe are finished first. */
void smtp_server_stop(struct smtp_server *server);

/* The recipients of a batch as a packed list (base/packed.h), and their number. Each is local@domain
 * (or a bare postmaster), the domain in lower case and behind the last '@'. Valid until the next
 * step. */
struct slice smtp_server_recipients(const struct smtp_server *server, uint32_t *ret_count);

/* Append the Received: field of the current transaction, folded, with its CRLF.
 *
 * id       the message's identifier, an atom
 * date     RFC 5322 date-time
 * source   RFC 5321 4.4, RFC 3848 and RFC 6531 for the protocol names */
void smtp_server_received_header(const struct smtp_server *server, struct slice id,
                                 struct slice date, struct buf *out);

#endif
