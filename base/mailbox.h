/* Letters between threads: a mailbox is one thread's ring and its waker; an outbox is one sender's
 * side of it.
 *
 * Owner of a mailbox: the thread that reads it. Any thread may send through its own outbox. A full
 * ring never blocks or drops: the letters wait in the sender's outbox, in order, and the next
 * outbox_flush tries again. Letters of one outbox arrive in order. What a letter points to belongs
 * to the receiver from the moment it is put, unless its kind says that it is lent. Wake-ups are
 * coalesced: one a flush, and none for letters that can wait when the reader only dozes (waker.h).
 * A thread may read two mailboxes that share a waker, so that what is in one does not wait behind what
 * is in the other. What pairs with what: post.h. */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include "base/attr.h"
#include "base/ring.h"
#include "base/thread.h"
#include "base/waker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct letter {
    void *body;      /* owned by the receiver */
    uint64_t number; /* for kinds that need no body */
    uint32_t kind;   /* of the receiver's; engine: enum letter_kind */
};

struct mailbox {
    struct ring *ring;
    struct waker *shared; /* set at creation: another mailbox's, in place of its own; NULL */
    struct waker waker;
};

/* For a thread that sleeps in waker_wait. capacity: letters. errors: -ENOMEM */
MUST_USE int mailbox_init(struct mailbox *m, size_t capacity);
/* For a thread that polls waker.fd with others. errors: -ENOMEM, -errno of eventfd */
MUST_USE int mailbox_init_polled(struct mailbox *m, size_t capacity);
/* For a thread that reads `main`, which is ready, as well: it sleeps for both. main must outlive it.
 * errors: -ENOMEM */
MUST_USE int mailbox_init_beside(struct mailbox *m, size_t capacity, struct mailbox *main);
void mailbox_fini(struct mailbox *m); /* accepts a zeroed mailbox */
/* The next letter, or false. Thread: the owner. */
MUST_USE bool mailbox_take(struct mailbox *m, struct letter *ret);
/* Have the owner look again at what the caller has stored elsewhere. Any thread. */
void mailbox_wake(struct mailbox *m);
/* Letters that wait, those that are being put among them. Any thread; momentary for others than the
 * owner. */
size_t mailbox_count(const struct mailbox *m);

struct outbox {
    struct mailbox *to;
    const struct thread_owner *owner; /* who alone may use it; NULL: that is not checked */
    struct letter *waiting;           /* those that did not fit, oldest first */
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
