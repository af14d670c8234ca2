/* Owns the order of the steps of a start, a nap and a stop. Called by the threads of the engine.
 * Must not know what a letter says; the ordering argument is in post.h. */
#include "base/post.h"

#include "base/rcu.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* --- life ------------------------------------------------------------------------------------- */

int post_init(struct post *p, size_t letters)
{
    return mailbox_init(&p->box, letters);
}

int post_init_polled(struct post *p, size_t letters)
{
    return mailbox_init_polled(&p->box, letters);
}

int post_init_first(struct post *p, size_t letters)
{
    return mailbox_init_beside(&p->first, letters, &p->box);
}

int post_open(struct post *p, uint32_t outboxes)
{
    assert(p->outboxes == NULL);
    p->outboxes = calloc(outboxes, sizeof(*p->outboxes));
    if (p->outboxes == NULL && outboxes > 0) {
        return -ENOMEM;
    }
    p->outbox_capacity = outboxes;
    return 0;
}

struct outbox *post_write_to(struct post *p, struct mailbox *to)
{
    assert(p->outbox_count < p->outbox_capacity && !p->owner.is_set);
    struct outbox *o = &p->outboxes[p->outbox_count++];
    outbox_init(o, to);
    o->owner = &p->owner;
    return o;
}

struct outbox *post_write_to_each(struct post *p, struct mailbox *const *to, uint32_t count)
{
    struct outbox *first = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct outbox *o = post_write_to(p, to[i]);
        first = i == 0 ? o : first;
    }
    return first;
}

static void run_owner(void *arg)
{
    struct post *p = arg;
    thread_owner_set(&p->owner);
    p->run(p->arg);
    thread_owner_clear(&p->owner);
}

int post_start(struct post *p, const char *name, void (*run)(void *), void *arg)
{
    p->run = run;
    p->arg = arg;
    return thread_start(&p->thread, name, run_owner, p);
}

void post_stop(struct post *p)
{
    /* Partner: the load in is_told_to_end. */
    atomic_store_explicit(&p->is_stopping, true, memory_order_release);
    mailbox_wake(&p->box);
    thread_join(&p->thread);
}

bool post_take_left(struct post *p, struct letter *ret)
{
    return (p->first.ring != NULL && mailbox_take(&p->first, ret)) ||
           (p->box.ring != NULL && mailbox_take(&p->box, ret));
}

void post_fini(struct post *p)
{
    for (uint32_t i = 0; i < p->outbox_count; i++) {
        outbox_fini(&p->outboxes[i]);
    }
    free(p->outboxes);
    p->outboxes = NULL;
    p->outbox_count = p->outbox_capacity = 0;
    mailbox_fini(&p->first);
    mailbox_fini(&p->box);
}

/* --- the owner's ------------------------------------------------------------------------------ */

static bool is_told_to_end(const struct post *p)
{
    /* Partner: the store in post_stop. */
    return atomic_load_explicit(&p->is_stopping, memory_order_acquire);
}

bool post_take(struct post *p, struct letter *ret)
{
    post_assert_owner(p);
    return mailbox_take(&p->box, ret);
}

bool post_take_first(struct post *p, struct letter *ret)
{
    post_assert_owner(p);
    return mailbox_take(&p->first, ret);
}

bool post_has_first(const struct post *p)
{
    post_assert_owner(p);
    return p->first.ring != NULL && mailbox_count(&p->first) > 0;
}

void post_take_wakes(struct post *p)
{
    struct letter none;
    post_assert_owner(p);
    while (mailbox_take(&p->box, &none)) {
        /* there is none; what woke the thread is taken note of */
    }
}

bool post_flush(struct post *p)
{
    post_assert_owner(p);
    bool is_done = true;
    for (uint32_t i = 0; i < p->outbox_count; i++) {
        is_done = outbox_flush(&p->outboxes[i]) && is_done;
    }
    return is_done;
}

bool post_must_end(const struct post *p)
{
    post_assert_owner(p);
    return is_told_to_end(p);
}

bool post_nap_prepare(struct post *p)
{
    post_assert_owner(p);
    waker_prepare(&p->box.waker);
    return mailbox_count(&p->box) == 0 && !post_has_first(p) && !is_told_to_end(p);
}

/* A producer's kick ends the sleep; grace periods need not wait for this thread meanwhile. */
static void sleep_offline(struct post *p, void (*sleep)(struct waker *w, usec_t deadline),
                          usec_t deadline)
{
    bool was_online = rcu_is_online();
    if (was_online) {
        rcu_sleep();
    }
    sleep(&p->box.waker, deadline);
    if (was_online) {
        rcu_awake();
    }
}

void post_nap_sleep(struct post *p, usec_t deadline)
{
    sleep_offline(p, waker_wait, deadline);
}

void post_nap_doze(struct post *p, usec_t deadline)
{
    sleep_offline(p, waker_doze, deadline);
}

void post_nap_finish(struct post *p)
{
    waker_finish(&p->box.waker);
}

void post_nap(struct post *p, usec_t deadline)
{
    if (post_nap_prepare(p)) {
        post_nap_sleep(p, deadline);
    }
    post_nap_finish(p);
}

int post_fd(const struct post *p)
{
    return p->box.waker.fd;
}

void post_clear(struct post *p)
{
    waker_clear(&p->box.waker);
}
