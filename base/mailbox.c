#include "base/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mailbox_init(struct mailbox *m, size_t capacity)
{
    m->ring = ring_new(capacity, sizeof(struct letter));
    m->shared = NULL;
    waker_init(&m->waker);
    return m->ring == NULL ? -ENOMEM : 0;
}

int mailbox_init_polled(struct mailbox *m, size_t capacity)
{
    int err = waker_init_polled(&m->waker);
    if (err != 0) {
        return err;
    }
    m->ring = ring_new(capacity, sizeof(struct letter));
    m->shared = NULL;
    if (m->ring == NULL) {
        waker_fini(&m->waker);
        return -ENOMEM;
    }
    return 0;
}

int mailbox_init_beside(struct mailbox *m, size_t capacity, struct mailbox *main)
{
    m->ring = ring_new(capacity, sizeof(struct letter));
    m->shared = &main->waker;
    return m->ring == NULL ? -ENOMEM : 0;
}

void mailbox_fini(struct mailbox *m)
{
    if (m->ring != NULL) {
        ring_free(m->ring);
        m->ring = NULL;
        if (m->shared == NULL) {
            waker_fini(&m->waker);
        }
    }
}

static struct waker *waker_of(struct mailbox *m)
{
    return m->shared != NULL ? m->shared : &m->waker;
}

bool mailbox_take(struct mailbox *m, struct letter *ret)
{
    return ring_pop(m->ring, ret);
}

void mailbox_wake(struct mailbox *m)
{
    waker_kick(waker_of(m));
}

size_t mailbox_count(const struct mailbox *m)
{
    return ring_count(m->ring);
}

void outbox_init(struct outbox *o, struct mailbox *to)
{
    memset(o, 0, sizeof(*o));
    o->to = to;
}

void outbox_fini(struct outbox *o)
{
    free(o->waiting);
    o->waiting = NULL;
}

static void outbox_keep(struct outbox *o, const struct letter *letter)
{
    if (o->first + o->count == o->capacity) {
        if (o->first > 0) {
            memmove(o->waiting, o->waiting + o->first, o->count * sizeof(*o->waiting));
            o->first = 0;
        } else {
            size_t capacity = o->capacity == 0 ? 256 : o->capacity * 2;
            struct letter *grown = realloc(o->waiting, capacity * sizeof(*grown));
            /* Dropping a letter would lose mail or a credit; there is nothing to fall back on. */
            assert(grown != NULL);
            o->waiting = grown;
            o->capacity = capacity;
        }
    }
    o->waiting[o->first + o->count++] = *letter;
}

static void assert_owner(const struct outbox *o)
{
    if (o->owner != NULL) {
        thread_owner_assert(o->owner);
    }
}

static bool push_letter(struct outbox *o, const struct letter *letter)
{
    assert_owner(o);
    if (o->count == 0 && ring_try_push(o->to->ring, letter)) {
        return true;
    }
    outbox_keep(o, letter);
    return false;
}

void outbox_put(struct outbox *o, uint32_t kind, void *body, uint64_t number)
{
    const struct letter letter = {.body = body, .number = number, .kind = kind};
    o->is_urgent |= push_letter(o, &letter);
}

void outbox_put_patient(struct outbox *o, uint32_t kind, void *body, uint64_t number)
{
    const struct letter letter = {.body = body, .number = number, .kind = kind};
    o->has_patient |= push_letter(o, &letter);
}

bool outbox_flush(struct outbox *o)
{
    assert_owner(o);
    while (o->count > 0 && ring_try_push(o->to->ring, &o->waiting[o->first])) {
        o->first++;
        o->count--;
        o->is_urgent = true; /* they have waited */
    }
    if (o->count == 0) {
        o->first = 0;
    }
    if (o->is_urgent || o->count > 0) { /* a full ring is urgent */
        waker_kick(waker_of(o->to));
    } else if (o->has_patient) {
        waker_nudge(waker_of(o->to));
    }
    o->is_urgent = o->has_patient = false;
    return o->count == 0;
}
