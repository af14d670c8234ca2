/* The letters between the engine's threads: for each kind a function that puts one and a function
 * that takes it, so that the compiler sees what both ends believe it to be. How letters travel is
 * base/mailbox.h and base/post.h.
 *
 * A kind has one receiver and one meaning. What a letter points to is the receiver's from the put
 * on; a letter that only lends it says so. letter_take_x asserts that the letter is one of its kind;
 * a letter may be taken once, except a lent one. Which thread a function may be called on: the
 * owner of the outbox, and of the mailbox. */
#ifndef ENGINE_LETTER_H
#define ENGINE_LETTER_H

#include "base/clock.h"
#include "base/mailbox.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_call;
struct auth_request;
struct delivery;
struct hearing;
struct intake;
struct message;
struct read_request;
struct recall;
struct resolution;
struct result;
struct settings;
struct spool_position;
struct sts_question;
struct submission;
struct suppress_batch;
struct sweep;
struct tls_tally;
struct trace_question;

enum letter_kind {
    /* to the spool writer */
    LETTER_STAGE,     /* bytes or recipients of an unfinished reception */
    LETTER_STORE,     /* the reception is complete */
    LETTER_DISCARD,   /* a staged reception has ended without being stored */
    LETTER_RESULT,    /* what became of recipients */
    LETTER_NO_RESULT, /* recipients have no result; see result_send */
    LETTER_DAMAGED,   /* a message's record fails its checksum */
    LETTER_PARK,      /* a message is suspended */
    LETTER_ROTATE,    /* reopen the event log */
    LETTER_HEARD,     /* what was learned of a message for us */
    LETTER_SUPPRESS,  /* changes of the lists of suppressed recipients */
    LETTER_RETURNED,  /* a message arrived, but it has to come from the spool later */
    /* to the activator */
    LETTER_ARRIVED,        /* a message was committed just now */
    LETTER_QUEUED,         /* the same, but the tables alone have it */
    LETTER_SETTLED,        /* a message is no longer active */
    LETTER_READ,           /* a scheduler's pool wants more recipients */
    LETTER_HELD,           /* a message is held until some time */
    LETTER_DEFERRED,       /* a message that was never active here is deferred */
    LETTER_SWEEP,          /* find mail that is not active and try it now */
    LETTER_RECALL,         /* these deferred messages may go now */
    LETTER_KEPT,           /* a message that was asked for its place cannot give it back */
    LETTER_ORDERS_CHANGED, /* standing orders have changed: tell the schedulers */
    /* to a thread that signs */
    LETTER_SIGN, /* a message's first recipients, for its scheduler when the message is signed */
    /* to a scheduler */
    LETTER_SUBMIT,   /* a message's first recipients */
    LETTER_MORE,     /* what LETTER_READ asked for */
    LETTER_REPORT,   /* how a delivery ended, or that it is to be placed again */
    LETTER_RESOLVED, /* the hosts of a destination, or why there are none */
    LETTER_LOST,     /* a connection has ended */
    LETTER_REVIVE,   /* dead destinations are to be tried at once */
    LETTER_GIVE_WAY, /* a message is to give its place back, if nothing of it was ever selected */
    LETTER_ORDERS, /* the orders have changed, and mail submitted by the earlier ones came before */
    LETTER_SETTINGS, /* go on by these */
    /* to a worker, the http thread or the one that reports on TLS, whichever made the mail */
    LETTER_STORED, /* committed, or refused with its error */
    LETTER_STAGED, /* staged, or refused with its error */
    /* to a worker */
    LETTER_DELIVER,       /* deliver an entry */
    LETTER_RESOLVE,       /* find the hosts of a destination */
    LETTER_CLOSE,         /* end an idle connection */
    LETTER_ADOPT,         /* a trusted local SMTP session */
    LETTER_HEARING_DONE,  /* a message for us was heard, or not */
    LETTER_AUTHENTICATED, /* whether a password is right */
    LETTER_STS_ANSWER,    /* the MTA-STS policy in force */
    LETTER_TRACE,         /* which sessions were recorded */
    LETTER_TLS_COLLECT,   /* hand over what was counted of TLS */
    /* to the thread that reports on TLS */
    LETTER_TLS_TALLY, /* what a worker has counted */
    /* to the thread that hears */
    LETTER_HEAR, /* a message for us */
    /* to the auth thread */
    LETTER_PASSWORD, /* compare it */
    /* to the thread that knows MTA-STS policies */
    LETTER_STS_QUESTION, /* which policy is in force */
    /* to a clerk: from the http thread, or from the other clerk, who goes no further with it */
    LETTER_CALL,
    /* to the http thread */
    LETTER_SUPPRESSED, /* the changes are durable, or refused with their error */
    LETTER_ANSWER,     /* a call that a clerk has answered */
    LETTER_INNER,      /* a call from inside the process */
};

/* --- letters that are one object -------------------------------------------------------------- */

#define LETTER_OF(name, kind_of, type, put)                                                        \
    static inline void letter_put_##name(struct outbox *to, type *body)                            \
    {                                                                                              \
        put(to, kind_of, body, 0);                                                                 \
    }                                                                                              \
    static inline type *letter_take_##name(const struct letter *letter)                            \
    {                                                                                              \
        assert(letter->kind == (kind_of));                                                         \
        return letter->body;                                                                       \
    }

LETTER_OF(stage, LETTER_STAGE, struct intake, outbox_put)
LETTER_OF(store, LETTER_STORE, struct intake, outbox_put)
LETTER_OF(arrived, LETTER_ARRIVED, struct message, outbox_put)
LETTER_OF(result, LETTER_RESULT, struct result, outbox_put_patient)
LETTER_OF(damaged, LETTER_DAMAGED, struct spool_position, outbox_put)
LETTER_OF(returned, LETTER_RETURNED, struct message, outbox_put)
LETTER_OF(read, LETTER_READ, struct read_request, outbox_put)
LETTER_OF(recall, LETTER_RECALL, struct recall, outbox_put)
LETTER_OF(kept, LETTER_KEPT, struct message, outbox_put) /* the reference of give_way */
LETTER_OF(sign, LETTER_SIGN, struct submission, outbox_put)
LETTER_OF(submit, LETTER_SUBMIT, struct submission, outbox_put)
LETTER_OF(more, LETTER_MORE, struct submission, outbox_put)
LETTER_OF(resolved, LETTER_RESOLVED, struct resolution, outbox_put)
LETTER_OF(revive, LETTER_REVIVE, struct sweep, outbox_put)
LETTER_OF(give_way, LETTER_GIVE_WAY, struct message, outbox_put) /* a reference of its own */
LETTER_OF(settings, LETTER_SETTINGS, struct settings, outbox_put) /* a reference of its own */
LETTER_OF(stored, LETTER_STORED, struct intake, outbox_put)
LETTER_OF(staged, LETTER_STAGED, struct intake, outbox_put)
LETTER_OF(deliver, LETTER_DELIVER, struct delivery, outbox_put)
LETTER_OF(resolve, LETTER_RESOLVE, struct resolution, outbox_put)
LETTER_OF(authenticated, LETTER_AUTHENTICATED, struct auth_request, outbox_put)
LETTER_OF(sts_answer, LETTER_STS_ANSWER, struct sts_question, outbox_put)
LETTER_OF(trace, LETTER_TRACE, struct trace_question, outbox_put) /* a reference of its own */
LETTER_OF(password, LETTER_PASSWORD, struct auth_request, outbox_put)
LETTER_OF(sts_question, LETTER_STS_QUESTION, struct sts_question, outbox_put)
LETTER_OF(tls_tally, LETTER_TLS_TALLY, struct tls_tally, outbox_put)
LETTER_OF(call, LETTER_CALL, struct api_call, outbox_put)
LETTER_OF(answer, LETTER_ANSWER, struct api_call, outbox_put)
LETTER_OF(hear, LETTER_HEAR, struct hearing, outbox_put)
LETTER_OF(heard, LETTER_HEARD, struct hearing, outbox_put)
LETTER_OF(hearing_done, LETTER_HEARING_DONE, struct hearing, outbox_put)
LETTER_OF(suppress, LETTER_SUPPRESS, struct suppress_batch, outbox_put)
LETTER_OF(suppressed, LETTER_SUPPRESSED, struct suppress_batch, outbox_put)
LETTER_OF(inner, LETTER_INNER, struct api_call, outbox_put)

/* A report wakes a scheduler at once, or can wait until one that dozes gets up by itself. */
static inline void letter_put_report(struct outbox *to, struct delivery *d)
{
    outbox_put(to, LETTER_REPORT, d, 0);
}

static inline void letter_put_patient_report(struct outbox *to, struct delivery *d)
{
    outbox_put_patient(to, LETTER_REPORT, d, 0);
}

static inline struct delivery *letter_take_report(const struct letter *letter)
{
    assert(letter->kind == LETTER_REPORT);
    return letter->body;
}

/* --- letters that say nothing more ------------------------------------------------------------ */

static inline void letter_put_rotate(struct outbox *to)
{
    outbox_put(to, LETTER_ROTATE, NULL, 0);
}

static inline void letter_put_orders_changed(struct outbox *to)
{
    outbox_put(to, LETTER_ORDERS_CHANGED, NULL, 0);
}

static inline void letter_put_orders(struct outbox *to)
{
    outbox_put(to, LETTER_ORDERS, NULL, 0);
}

/* --- letters with numbers --------------------------------------------------------------------- */

static inline void letter_put_discard(struct outbox *to, uint64_t message_id)
{
    outbox_put(to, LETTER_DISCARD, NULL, message_id);
}

static inline uint64_t letter_take_discard(const struct letter *letter)
{
    assert(letter->kind == LETTER_DISCARD);
    return letter->number;
}

/* Lends the message, which the writer's account keeps. shares: set of enum result_share */
static inline void letter_put_no_result(struct outbox *to, struct message *lent, uint32_t count,
                                        unsigned shares)
{
    outbox_put_patient(to, LETTER_NO_RESULT, lent, (uint64_t)shares << 32 | count);
}

static inline struct message *letter_take_no_result(const struct letter *letter,
                                                    uint32_t *ret_count, unsigned *ret_shares)
{
    assert(letter->kind == LETTER_NO_RESULT);
    *ret_count = (uint32_t)letter->number;
    *ret_shares = (unsigned)(letter->number >> 32);
    return letter->body;
}

/* until: wall */
static inline void letter_put_park(struct outbox *to, struct spool_position *position, usec_t until)
{
    outbox_put(to, LETTER_PARK, position, (uint64_t)until);
}

static inline struct spool_position *letter_take_park(const struct letter *letter,
                                                      usec_t *ret_until)
{
    assert(letter->kind == LETTER_PARK);
    *ret_until = (usec_t)letter->number;
    return letter->body;
}

/* A flow's number stands where other letters have what they point to. */
static inline void *letter_flow_body(uint32_t flow)
{
    return (void *)(uintptr_t)flow;
}

static inline uint32_t letter_flow(const struct letter *letter)
{
    return (uint32_t)(uintptr_t)letter->body;
}

/* flow, place: of the message in the incoming class */
static inline void letter_put_queued(struct outbox *to, uint32_t flow, uint64_t place)
{
    outbox_put(to, LETTER_QUEUED, letter_flow_body(flow), place);
}

static inline uint32_t letter_take_queued(const struct letter *letter, uint64_t *ret_place)
{
    assert(letter->kind == LETTER_QUEUED);
    *ret_place = letter->number;
    return letter_flow(letter);
}

/* m: NULL when it was not loaded */
static inline void letter_put_settled(struct outbox *to, struct message *m, uint64_t message_id)
{
    outbox_put(to, LETTER_SETTLED, m, message_id);
}

static inline struct message *letter_take_settled(const struct letter *letter,
                                                  uint64_t *ret_message_id)
{
    assert(letter->kind == LETTER_SETTLED);
    *ret_message_id = letter->number;
    return letter->body;
}

/* until: wall, the time of its place in the held class of the flow */
static inline void letter_put_held(struct outbox *to, uint32_t flow, uint64_t until)
{
    outbox_put(to, LETTER_HELD, letter_flow_body(flow), until);
}

static inline uint32_t letter_take_held(const struct letter *letter, uint64_t *ret_until)
{
    assert(letter->kind == LETTER_HELD);
    *ret_until = letter->number;
    return letter_flow(letter);
}

static inline void letter_put_deferred(struct outbox *to, uint32_t flow)
{
    outbox_put(to, LETTER_DEFERRED, letter_flow_body(flow), 0);
}

static inline uint32_t letter_take_deferred(const struct letter *letter)
{
    assert(letter->kind == LETTER_DEFERRED);
    return letter_flow(letter);
}

/* review: see order_book_wanted_review */
static inline void letter_put_sweep(struct outbox *to, struct sweep *sweep, uint64_t review)
{
    outbox_put(to, LETTER_SWEEP, sweep, review);
}

static inline struct sweep *letter_take_sweep(const struct letter *letter, uint64_t *ret_review)
{
    assert(letter->kind == LETTER_SWEEP);
    *ret_review = letter->number;
    return letter->body;
}

static inline void letter_put_tls_collect(struct outbox *to)
{
    outbox_put(to, LETTER_TLS_COLLECT, NULL, 0);
}

/* fd: the receiver closes it */
static inline void letter_put_adopt(struct outbox *to, int fd)
{
    outbox_put(to, LETTER_ADOPT, NULL, (uint64_t)(unsigned)fd);
}

static inline int letter_take_adopt(const struct letter *letter)
{
    assert(letter->kind == LETTER_ADOPT);
    return (int)letter->number;
}

/* Connections to receivers go by the numbers that the scheduler has for them. */

/* An idle one that the peer closed, or one whose end was promised or asked for. */
struct letter_lost {
    uint16_t transport;
    uint16_t worker;     /* that had it */
    uint32_t connection; /* its slot */
};

static inline void letter_put_lost(struct outbox *to, const struct letter_lost *lost)
{
    outbox_put(to, LETTER_LOST, NULL,
               (uint64_t)lost->transport << 48 | (uint64_t)lost->worker << 32 | lost->connection);
}

static inline struct letter_lost letter_take_lost(const struct letter *letter)
{
    assert(letter->kind == LETTER_LOST);
    return (struct letter_lost){.transport = (uint16_t)(letter->number >> 48),
                                .worker = (uint16_t)(letter->number >> 32),
                                .connection = (uint32_t)letter->number};
}

struct letter_close {
    uint16_t transport;
    uint32_t connection; /* its slot */
    bool is_awaited;     /* the scheduler keeps its place until LETTER_LOST */
};

static inline void letter_put_close(struct outbox *to, const struct letter_close *close)
{
    outbox_put(to, LETTER_CLOSE, NULL,
               (uint64_t)close->is_awaited << 48 | (uint64_t)close->transport << 32 |
                   close->connection);
}

static inline struct letter_close letter_take_close(const struct letter *letter)
{
    assert(letter->kind == LETTER_CLOSE);
    return (struct letter_close){.transport = (uint16_t)(letter->number >> 32),
                                 .connection = (uint32_t)letter->number,
                                 .is_awaited = letter->number >> 48 != 0};
}

#endif
