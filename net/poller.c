/* The epoll shell: slots with generations, so that an event never reaches a watch that was removed
 * after the event was fetched. Called by every loop; knows nothing of what it watches. */
#include "net/poller.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define POLLER_FIRST_SLOTS 64
#define POLLER_SLOTS_MAX   (1U << 30)
#define POLLER_TAG_FIRST   (1U << 31) /* beside the slot's number: the watch is_first */

/* Slot 0 is never used, so that a zeroed watch is one that was not added. */
struct poller_slot {
    struct poller_watch *watch; /* NULL: free */
    uint32_t generation;        /* changes each time the slot is freed */
    uint32_t next_free;
};

static uint32_t event_bits(unsigned wants)
{
    uint32_t bits = EPOLLRDHUP;
    if ((wants & POLLER_READ) != 0) {
        bits |= EPOLLIN;
    }
    if ((wants & POLLER_WRITE) != 0) {
        bits |= EPOLLOUT;
    }
    return bits;
}

static unsigned event_set(uint32_t bits)
{
    unsigned events = 0;
    if ((bits & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        events |= POLLER_READ;
    }
    if ((bits & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        events |= POLLER_WRITE;
    }
    if ((bits & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        events |= POLLER_HANGUP;
    }
    return events;
}

int poller_init(struct poller *p, int batch)
{
    assert(batch >= 1);
    memset(p, 0, sizeof(*p));
    p->epfd = -1;
    p->batch = batch;
    p->events = calloc((size_t)batch, sizeof(*p->events));
    if (p->events == NULL) {
        return -ENOMEM;
    }
    p->epfd = epoll_create1(EPOLL_CLOEXEC);
    if (p->epfd < 0) {
        int err = -errno;
        free(p->events);
        p->events = NULL;
        return err;
    }
    return 0;
}

void poller_fini(struct poller *p)
{
    if (p->events == NULL) {
        return;
    }
    assert(p->used == 0);
    (void)close(p->epfd);
    free(p->events);
    free(p->slots);
    memset(p, 0, sizeof(*p));
    p->epfd = -1;
}

static bool slots_grow(struct poller *p)
{
    uint32_t capacity = p->capacity == 0 ? POLLER_FIRST_SLOTS : p->capacity * 2;
    if (capacity > POLLER_SLOTS_MAX) {
        return false;
    }
    struct poller_slot *slots = realloc(p->slots, capacity * sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = capacity - 1; i >= p->capacity && i > 0; i--) {
        slots[i] = (struct poller_slot){.next_free = p->free_slot};
        p->free_slot = i;
    }
    p->slots = slots;
    p->capacity = capacity;
    return true;
}

/* What epoll gives back with an event: never 0, as no slot 0 is used. */
static uint64_t event_tag(const struct poller_watch *watch, uint32_t slot, uint32_t generation)
{
    return (uint64_t)generation << 32 | slot | (watch->is_first ? POLLER_TAG_FIRST : 0);
}

static int register_watch(struct poller *p, struct poller_watch *watch, int fd, uint32_t bits,
                          void (*ready)(struct poller_watch *, unsigned))
{
    assert(watch->slot == 0);
    if (p->free_slot == 0 && !slots_grow(p)) {
        return -ENOMEM;
    }
    uint32_t index = p->free_slot;
    struct poller_slot *slot = &p->slots[index];
    struct epoll_event event = {.events = bits,
                                .data.u64 = event_tag(watch, index, slot->generation)};
    if (epoll_ctl(p->epfd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return -errno;
    }
    p->free_slot = slot->next_free;
    slot->watch = watch;
    p->used++;
    watch->ready = ready;
    watch->fd = fd;
    watch->slot = index;
    return 0;
}

int poller_add(struct poller *p, struct poller_watch *watch, int fd,
               void (*ready)(struct poller_watch *, unsigned))
{
    return register_watch(p, watch, fd, event_bits(POLLER_READ | POLLER_WRITE) | EPOLLET, ready);
}

int poller_watch(struct poller *p, struct poller_watch *watch, int fd, unsigned wants,
                 void (*ready)(struct poller_watch *, unsigned))
{
    return register_watch(p, watch, fd, event_bits(wants), ready);
}

int poller_change(struct poller *p, struct poller_watch *watch, unsigned wants)
{
    assert(watch->slot != 0);
    struct epoll_event event = {
        .events = event_bits(wants),
        .data.u64 = event_tag(watch, watch->slot, p->slots[watch->slot].generation)};
    return epoll_ctl(p->epfd, EPOLL_CTL_MOD, watch->fd, &event) == 0 ? 0 : -errno;
}

void poller_remove(struct poller *p, struct poller_watch *watch)
{
    if (watch->slot != 0) {
        /* Fails only when the descriptor is gone already, and then there is nothing to remove. */
        (void)epoll_ctl(p->epfd, EPOLL_CTL_DEL, watch->fd, NULL);
        poller_leave(p, watch);
    }
}

void poller_leave(struct poller *p, struct poller_watch *watch)
{
    if (watch->slot == 0) {
        return;
    }
    struct poller_slot *slot = &p->slots[watch->slot];
    assert(slot->watch == watch);
    slot->watch = NULL;
    slot->generation++;
    slot->next_free = p->free_slot;
    p->free_slot = watch->slot;
    p->used--;
    watch->slot = 0;
    watch->fd = -1;
}

static int milliseconds(usec_t timeout)
{
    if (timeout == USEC_NEVER) {
        return -1;
    }
    if (timeout <= 0) {
        return 0;
    }
    usec_t rounded = timeout / USEC_PER_MSEC + (timeout % USEC_PER_MSEC != 0);
    return rounded > INT32_MAX ? INT32_MAX : (int)rounded;
}

/* count: what epoll_wait returned */
static int note_events(struct poller *p, int count)
{
    if (count < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    p->event_count += count;
    return count;
}

int poller_wait(struct poller *p, usec_t timeout)
{
    int room = p->batch - p->event_count;
    if (room == 0) {
        return 0;
    }
    int wait = poller_has_events(p) ? 0 : milliseconds(timeout);
    return note_events(p, epoll_wait(p->epfd, p->events + p->event_count, room, wait));
}

int poller_wait_exact(struct poller *p, usec_t timeout)
{
    if (timeout == USEC_NEVER || timeout <= 0 || poller_has_events(p)) {
        return poller_wait(p, timeout);
    }
    const struct timespec span = {.tv_sec = timeout / USEC_PER_SEC,
                                  .tv_nsec = timeout % USEC_PER_SEC * 1000};
    int count = epoll_pwait2(p->epfd, p->events, p->batch, &span, NULL);
    return count < 0 && errno == ENOSYS ? poller_wait(p, timeout) : note_events(p, count);
}

/* returns: calls made, 0 or 1 */
static int dispatch_one(struct poller *p, const struct epoll_event *event)
{
    /* Looked up anew each time: a callback may add watches, which moves the table. */
    const uint64_t tag = event->data.u64;
    struct poller_slot *slot = &p->slots[(uint32_t)tag & ~POLLER_TAG_FIRST];
    if (slot->watch == NULL || slot->generation != (uint32_t)(tag >> 32)) {
        p->stale++;
        return 0;
    }
    slot->watch->ready(slot->watch, event_set(event->events));
    return 1;
}

int poller_dispatch(struct poller *p)
{
    int calls = 0, kept = 0, others = 0;
    const int count = p->event_count;
    const int turn = p->turn == 0 ? count : p->turn;
    for (int i = 0; i < count; i++) {
        if (((uint32_t)p->events[i].data.u64 & POLLER_TAG_FIRST) != 0) {
            calls += dispatch_one(p, &p->events[i]);
        } else {
            p->events[others++] = p->events[i];
        }
    }
    for (int i = 0; i < others; i++) {
        if (i < turn) {
            calls += dispatch_one(p, &p->events[i]);
        } else {
            p->events[kept++] = p->events[i];
        }
    }
    p->event_count = kept;
    return calls;
}
