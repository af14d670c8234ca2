/* One SMTP session of the receiver: I/O, commands, and what is counted and written for each
 * message. Owner: one worker thread; frees itself when the connection ends. */
#ifndef BENCH_SINK_SESSION_H
#define BENCH_SINK_SESSION_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/list.h"
#include "bench/sink/reply_queue.h"
#include "bench/sink/sink_content.h"
#include "bench/sink/sink_worker.h"
#include "net/poller.h"
#include "net/stream.h"
#include "net/timeout.h"

#include <stdbool.h>
#include <stdint.h>

enum sink_state {
    SINK_BANNER,
    SINK_COMMAND,
    SINK_CONTENT,
    SINK_CHUNK,       /* within the bytes behind a BDAT line */
    SINK_CONTENT_END, /* the message is complete, the answer is due */
    SINK_HANDSHAKE,
    SINK_STALLED, /* read and never answer */
    SINK_LOST,    /* end it with a reset */
    SINK_CLOSING, /* send what is left, then wait for the peer to close */
};

struct sink_session {
    struct poller_watch watch;
    struct timeout timer;
    struct list link; /* sink_worker.sessions */
    struct sink_worker *worker;
    struct sink_listener *listener;
    size_t listener_index;
    uint8_t client[16];
    struct sink_clients *receiver;     /* whom the listening address belongs to */
    struct sink_client *known;         /* the client's entry there */
    const struct behaviour *behaviour; /* the listener's towards this client */
    bool is_refused;                   /* gets connection_reply in place of a greeting */
    bool has_left;                     /* the limit of connections does not count it any more */

    struct stream stream;
    struct buf in;
    size_t taken;    /* bytes at the start of `in` that were processed */
    struct buf out;  /* replies, the sent ones removed now and then */
    uint64_t out_at; /* position of its first byte in all output of the session */
    uint64_t sent;   /* position of the first byte that was not sent */
    struct reply_queue replies;
    struct timeout reply_timer;
    uint32_t in_flight; /* transactions begun whose last reply was not let go yet */
    uint32_t ended;     /* of those, whose last reply is in `out` and not yet in `replies` */
    enum sink_state state;
    bool is_paused;   /* a delay runs; input waits */
    bool is_delayed;  /* the delay of what comes next has passed */
    bool is_yielding; /* others have their turn; goes on in the next pass */
    bool is_input_over;
    usec_t tarpit;     /* the delay that the next reply but one gets in addition */
    uint32_t messages; /* complete ones, whatever the answer was */

    /* the transaction */
    bool has_sender;
    struct buf sender;
    struct buf recipients; /* each ends in LF */
    uint32_t recipient_count;
    struct sink_rule *domain;      /* rule of the first recipient's domain that has one, or NULL */
    struct sink_rule *last_domain; /* the last one whose rate it counted for, or NULL */
    struct sink_content content;
    bool is_chunked;     /* the content comes by BDAT */
    uint64_t chunk_size; /* of the chunk under way */
    uint64_t chunk_left;
    bool is_last_chunk;
    bool is_chunk_refused; /* read and thrown away */
    bool has_token;        /* of the rates of messages that act at RCPT */
    /* The connection ends with the refusal of a message: those behind it are counted. */
    bool is_counting_behind;
};

/* Take over an accepted socket. errors: -errno; the socket is closed */
MUST_USE int sink_session_start(struct sink_worker *w, size_t listener_index, int fd,
                                const struct sockaddr_storage *peer);
void sink_session_free(struct sink_session *s);
/* Nothing holds greetings back any more. May free it. */
void sink_session_resume(struct sink_session *s);

/* The commands, in sink_command.c: take one line (without CRLF) and append the answer to out.
 * returns: false when the line must be offered again after a pause that was begun */
MUST_USE bool sink_command(struct sink_session *s, struct slice line);
/* A line behind the one that ended the connection: count it if it is a MAIL.
 * returns: bytes of a chunk that follow it */
MUST_USE uint64_t sink_command_behind(struct sink_session *s, struct slice line);
void sink_session_reset(struct sink_session *s); /* forget the transaction; there need not be one */
void sink_session_begin(struct sink_session *s); /* a transaction: MAIL was accepted */
void sink_session_reply(struct sink_session *s, const char *text); /* without CRLF */
/* The same for what a behaviour says: '{client}', '{sender}' (its domain) and '{domain}' in it are
 * filled in, the last from `recipient`. The connection ends behind a 421. */
void sink_session_refuse(struct sink_session *s, const char *text, struct slice recipient);
/* Count what happened to the client. */
void sink_session_count(struct sink_session *s, enum sink_happening what, uint64_t count,
                        usec_t wall);
/* Begin the delay of a reply unless it has just passed; the tarpit adds to it. returns: true when
 * the caller must wait */
MUST_USE bool sink_session_pause(struct sink_session *s, struct behaviour_delay delay);
/* The refusal that is drawn at this stage, or NULL. */
const char *sink_session_rejection(struct sink_session *s, const struct behaviour *b,
                                   enum behaviour_stage stage);
/* What a recipient domain says about `key`, else the listener towards the client. domain: may be
 * NULL */
NONNULL_RET const struct behaviour *sink_session_behaviour(const struct sink_session *s,
                                                           const struct sink_rule *domain,
                                                           enum behaviour_key key);
/* The same client among those of a domain. */
NONNULL_RET struct sink_client *sink_session_known_to(const struct sink_session *s,
                                                      struct sink_rule *domain);

/* In sink_limit.c: each takes a token where the limit acts at this stage.
 * returns: what is said beyond the limit, or NULL */
MUST_USE const char *sink_limit_connection(struct sink_session *s);
MUST_USE const char *sink_limit_mail(struct sink_session *s);
MUST_USE const char *sink_limit_recipient(struct sink_session *s, struct sink_rule *domain,
                                          struct slice address);
MUST_USE const char *sink_limit_dot(struct sink_session *s);
/* In sink_delivery.c: the message is complete: store, write the ledger, count, answer. */
void sink_delivery(struct sink_session *s);
/* Refuse the whole message, now and on purpose: count and answer. At MAIL it has no recipients. */
void sink_delivery_refuse(struct sink_session *s, const char *reply);

#endif
