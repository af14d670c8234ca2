/* A thread's post: how it gets letters and sends them, how it sleeps, and how it is told to end.
 * Every thread of the engine with a loop has one; what it does between a nap and the next, and
 * until when it sleeps, is its own.
 *
 * Who owns what. The thread that post_start starts owns the post until it ends: it alone takes
 * letters, puts letters into its outboxes, flushes them and naps. Before post_start and after
 * post_stop the post belongs to whoever made it. Any thread may put letters into the mailbox,
 * through an outbox of its own, and wake the thread (mailbox_wake); one other thread stops it.
 *
 * What pairs with what. This is the whole argument why nothing is lost between threads; the parts
 * are in ring.h and waker.h.
 *   - Letters: outbox_put publishes a letter in the ring with release, and post_take acquires it:
 *     what the letter points to is the receiver's, as the sender left it. One outbox is one order:
 *     what did not fit waits in the outbox, and what is put later waits behind it.
 *   - Wakes: post_flush kicks each receiver after its last letter was published, and mailbox_wake
 *     after whatever its caller stored. Both are one read-modify-write of the receiver's waker, and
 *     so is post_nap_prepare. If the kick is the first of the two, post_nap_prepare acquires what
 *     was published or stored before it, and what is looked at afterwards shows it: the ring and
 *     the flag, by post_nap_prepare itself; and whatever else must keep the thread awake, by the
 *     caller, between post_nap_prepare and the sleep and not before. If the kick is the second, it
 *     ends the sleep.
 *   - Letters that go first: a second ring with the same waker, so the argument above holds for both
 *     rings, as post_nap_prepare looks at both. Between the two there is no order.
 *   - Patient letters: a reader that dozes is not woken by them, as it gets up soon by itself.
 *   - The end: post_stop stores the flag with release and then wakes; post_must_end acquires. So a
 *     thread that has seen the flag also finds, by post_take and post_take_first, every letter that was
 *     sent before: by threads that had ended, or by who stops it.
 *   - Full rings: nobody waits for room. What is left in an outbox goes with the next post_flush,
 *     so a thread whose post_flush returned false must not sleep long. */
#ifndef BASE_POST_H
#define BASE_POST_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* To clang it is a capability of its owner: a function marked ON_ROLE(x->post) can be called only
 * where another such mark or post_assert_owner says that this is the owner's thread. */
struct THREAD_ROLE post {
    /* set at creation */
    struct mailbox box;
    struct mailbox first; /* for letters that must not wait behind those of the box; zeroed: none */
    /* set before the thread starts; what is in an outbox is the owner's */
    struct outbox *outboxes; /* [outbox_count], in the order in which they are flushed */
    uint32_t outbox_count, outbox_capacity;
    struct thread thread;
    void (*run)(void *arg);
    void *arg;

    /* owner only */
    struct thread_owner owner; /* set while its thread runs */

    /* any thread, atomic */
    _Atomic bool is_stopping;
};

/* A zeroed post can be opened and then sends letters, but gets none. */

/* For a thread that sleeps in post_nap. letters: the capacity of its ring, 1 for a thread that gets
 * none. errors: -ENOMEM */
MUST_USE int post_init(struct post *p, size_t letters);
/* For a thread that polls post_fd with others. errors: -ENOMEM, -errno of eventfd */
MUST_USE int post_init_polled(struct post *p, size_t letters);
/* After one of these: the thread also gets letters in `first`, and takes them by post_take_first.
 * errors: -ENOMEM */
MUST_USE int post_init_first(struct post *p, size_t letters);
/* Room for `outboxes` outboxes, once in a post's life. errors: -ENOMEM */
MUST_USE int post_open(struct post *p, uint32_t outboxes);
/* An outbox to one mailbox, valid until post_fini. After post_open, before post_start. */
struct outbox *post_write_to(struct post *p, struct mailbox *to);
/* Outboxes to several, in their order. returns the first; NULL when count is 0 */
struct outbox *post_write_to_each(struct post *p, struct mailbox *const *to, uint32_t count);
/* Start the thread that owns the post from now on. errors: -errno */
MUST_USE int post_start(struct post *p, const char *name, void (*run)(void *), void *arg);
/* Tell the thread to end, and wait until it has. */
void post_stop(struct post *p);
/* A letter that nobody takes any more: for whoever frees what it points to, when the thread has
 * ended or was never started. Accepts a zeroed post. */
MUST_USE bool post_take_left(struct post *p, struct letter *ret);
/* Letters in outboxes are dropped, those in the mailbox as well. Accepts a zeroed post. */
void post_fini(struct post *p);

/* --- the owner's ------------------------------------------------------------------------------ */

/* As thread_owner_assert; so are all functions below, and putting into an outbox of the post. To
 * clang it proves that the caller's thread is the owner. */
static inline void post_assert_owner(const struct post *p) ROLE_ASSERTED(p);
static inline void post_assert_owner(const struct post *p)
{
    thread_owner_assert(&p->owner);
}

/* The next letter of the box, or false. */
MUST_USE bool post_take(struct post *p, struct letter *ret) ON_ROLE(p);
/* The next letter of those that go first, or false. */
MUST_USE bool post_take_first(struct post *p, struct letter *ret) ON_ROLE(p);
/* Whether there is one. */
MUST_USE bool post_has_first(const struct post *p) ON_ROLE(p);
/* In place of post_take, of a thread that nobody writes to: it is woken only. */
void post_take_wakes(struct post *p) ON_ROLE(p);
/* Send what is in the outboxes, and wake who gets letters. true: nothing is left in them */
bool post_flush(struct post *p) ON_ROLE(p);
/* Whether post_stop was called. */
MUST_USE bool post_must_end(const struct post *p) ON_ROLE(p);

/* Sleep until a letter, mailbox_wake, post_stop or the monotonic deadline; at once awake when there
 * is one of them already. A thread that is online for RCU is offline while it sleeps. */
void post_nap(struct post *p, usec_t deadline) ON_ROLE(p);
/* The same in steps, for a thread that also stays awake for something else, or that polls:
 * post_nap_prepare; then, when it and the thread's own conditions say so, one sleep, or the poll
 * with a timeout of 0 when they do not; then post_nap_finish. */
MUST_USE bool post_nap_prepare(struct post *p) ON_ROLE(p); /* true: it may sleep */
void post_nap_sleep(struct post *p, usec_t deadline) ON_ROLE(p);
/* Not ended by patient letters. deadline: near, not USEC_NEVER */
void post_nap_doze(struct post *p, usec_t deadline) ON_ROLE(p);
void post_nap_finish(struct post *p) ON_ROLE(p);

/* The eventfd of a polled post: readable when there is something. */
int post_fd(const struct post *p);
/* Who polls for its level and not for its edges: makes it unreadable again, after
 * post_nap_finish. */
void post_clear(struct post *p) ON_ROLE(p);

#endif
