/* Letters between threads: a mailbox is one thread's ring and its waker; an outbox is one sender's
 * side of it.
 *
 * Owner of a mailbox: the thread that reads it. Any thread may send through its own outbox. A full
 * ring never blocks or drops: the letters wait in the sender's outbox, in order, and the next
 * outbox_flush tries again. Letters of one outbox arrive in order. What a letter points to belongs
 * to the receiver from the moment it is put. Wake-ups are coalesced: one a flush, and none for
 * letters that can wait when the reader only dozes (waker.h). */
#ifndef ENGINE_MAILBOX_H
#define ENGINE_MAILBOX_H

#include "base/attr.h"
#include "base/ring.h"
#include "base/waker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a letter means; each receiver knows its own kinds. */
enum letter_kind {
    /* to the spool writer */
    LETTER_STAGE,    /* struct intake: bytes or recipients of an unfinished reception */
    LETTER_STORE,    /* struct intake: the reception is complete */
    LETTER_DISCARD,  /* number: message id of a staged reception that ended */
    LETTER_RESULT,   /* struct result */
    LETTER_FORGONE,  /* struct message (lent), number: see result_send */
    LETTER_DAMAGED,  /* struct spool_position (heap): its record fails its checksum */
    LETTER_PARK,     /* struct spool_position (heap), and number: suspended until then, wall */
    LETTER_ROTATE,   /* reopen the event log */
    LETTER_RETURNED, /* struct message: arrived, but it has to come from the spool later */
    /* to the activator */
    LETTER_ARRIVED, /* struct message, committed just now; NULL: see number (position) */
    LETTER_SETTLED, /* struct message or NULL, and number, its id: it is no longer active */
    LETTER_READ,    /* struct read_request */
    LETTER_HELD,    /* number: wall time; a message is held until then */
    LETTER_SWEEP,   /* struct sweep: find mail that is not active and try it now; number: see
                     * order_book_wanted_review */
    /* to a scheduler */
    LETTER_SUBMIT,   /* struct submission: a message's first recipients */
    LETTER_MORE,     /* struct submission: what LETTER_READ asked for */
    LETTER_REPORT,   /* struct delivery */
    LETTER_RESOLVED, /* struct resolution */
    LETTER_LOST,     /* number: transport << 48 | worker << 32 | connection, an idle one that
                      * the peer closed, or one whose end was promised or asked for */
    LETTER_REVIVE,   /* struct sweep: its selector names dead destinations to be tried at once */
    LETTER_ORDERS,   /* standing orders have changed; by way of the activator */
    LETTER_SETTINGS, /* struct settings, a reference: go on by these */
    /* to a worker */
    LETTER_STORED,        /* struct intake: committed, or refused with its error */
    LETTER_STAGED,        /* struct intake: staged, or refused with its error */
    LETTER_DELIVER,       /* struct delivery */
    LETTER_RESOLVE,       /* struct resolution */
    LETTER_CLOSE,         /* number: LOST is awaited << 48 | transport << 32 | connection */
    LETTER_ADOPT,         /* number: descriptor of a trusted local SMTP session */
    LETTER_AUTHENTICATED, /* struct auth_request */
    LETTER_STS_ANSWER,    /* struct sts_question */
    LETTER_TRACE,         /* struct trace_question, with a reference */
    /* to a clerk, and back to the http thread */
    LETTER_CALL,   /* struct api_call */
    LETTER_ANSWER, /* struct api_call, answered */
    LETTER_INNER,  /* struct api_call from inside the process */
    /* to the thread that knows MTA-STS policies */
    LETTER_STS_QUESTION, /* struct sts_question */
};

struct letter {
    void *body;      /* owned by the receiver */
    uint64_t number; /* for kinds that need no body */
    uint32_t kind;   /* enum letter_kind */
};

struct mailbox {
    struct ring *ring;
    struct waker waker;
};

/* For a thread that sleeps in waker_wait. capacity: letters. errors: -ENOMEM */
MUST_USE int mailbox_init(struct mailbox *m, size_t capacity);
/* For a thread that polls waker.fd with others. errors: -ENOMEM, -errno of eventfd */
MUST_USE int mailbox_init_polled(struct mailbox *m, size_t capacity);
void mailbox_fini(struct mailbox *m); /* accepts a zeroed mailbox */
/* The next letter, or false. Thread: the owner. */
MUST_USE bool mailbox_take(struct mailbox *m, struct letter *ret);

struct outbox {
    struct mailbox *to;
    struct letter *waiting; /* those that did not fit, oldest first */
    size_t first, count, capacity;
    bool is_urgent;   /* something was pushed since the last wake-up */
    bool has_patient; /* and this of what can wait */
};

void outbox_init(struct outbox *o, struct mailbox *to);
void outbox_fini(struct outbox *o); /* letters still waiting are dropped: shutdown only */
void outbox_put(struct outbox *o, uint32_t kind, void *body, uint64_t number);
/* The same for a letter that can wait until a dozing reader gets up by itself. */
void outbox_put_patient(struct outbox *o, uint32_t kind, void *body, uint64_t number);
/* Push what waits and wake the receiver if anything was pushed since the last flush. true when
 * nothing waits any more. */
bool outbox_flush(struct outbox *o);

#endif
