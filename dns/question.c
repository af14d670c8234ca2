/* See the header. A lookup with a cache for one answer, and poll(2) around it. */
#include "dns/question.h"

#include "base/rcu.h"
#include "dns/cache.h"
#include "dns/lookup.h"

#include <errno.h>
#include <poll.h>

/* c-ares has a socket for UDP and one for TCP with each server that it asks. */
enum { WATCHES = 64 };

struct question_wait {
    struct pollfd fds[WATCHES];
    nfds_t count;
};

static void watch(void *ctx, int fd, bool want_read, bool want_write)
{
    struct question_wait *w = ctx;
    nfds_t at = 0;
    while (at < w->count && w->fds[at].fd != fd) {
        at++;
    }
    if (!want_read && !want_write) {
        if (at < w->count) {
            w->fds[at] = w->fds[--w->count];
        }
    } else if (at < WATCHES) { /* else a server is heard by its timeout alone */
        short events = (short)((want_read ? POLLIN : 0) | (want_write ? POLLOUT : 0));
        w->fds[at] = (struct pollfd){.fd = fd, .events = events};
        w->count += at == w->count;
    }
}

/* Wait for sockets until the lookup wants to be called, and hand over what they have. */
static void wait_once(struct question_wait *w, struct lookup *l, usec_t give_up)
{
    usec_t now = clock_mono(), at = lookup_wake_at(l);
    usec_t until = at < give_up ? at : give_up;
    int span = until <= now ? 0 : (int)((until - now) / USEC_PER_MSEC) + 1;
    rcu_sleep();
    int ready = poll(w->fds, w->count, span);
    rcu_awake();
    struct question_wait then = *w; /* each call can change what is watched */
    now = clock_mono();
    for (nfds_t i = 0; ready > 0 && i < then.count; i++) {
        short events = then.fds[i].revents;
        if (events != 0) {
            lookup_fd_event(l, then.fds[i].fd, (events & ~POLLOUT) != 0, (events & POLLOUT) != 0,
                            now);
        }
    }
    lookup_tick(l, now);
}

static int ask_and_wait(const struct dns_config *config, struct dns_cache *cache, struct slice name,
                        enum dns_type type, struct dns_rrset **ret)
{
    struct question_wait w = {.count = 0};
    const struct resolver_hooks hooks = {watch, &w};
    struct lookup *l;
    struct lookup_waiter waiter = {.asker = NULL};
    int err = lookup_new(config, cache, &hooks, &l);
    if (err != 0) {
        return err;
    }
    usec_t now = clock_mono(), give_up = now + config->deadline;
    err = lookup_ask(l, name, type, &waiter, now);
    while (err == 0 && waiter.is_waiting) {
        if (lookup_next(l, now) == NULL) {
            err = now < give_up ? 0 : -ETIMEDOUT;
            if (err == 0) {
                wait_once(&w, l, give_up);
                now = clock_mono();
            }
        }
    }
    lookup_forget(&waiter);
    lookup_free(l);
    if (err == 0 && waiter.set == NULL) {
        err = -ENOMEM;
    }
    *ret = waiter.set; /* NULL with an error */
    return err;
}

int dns_question_ask(const struct dns_config *config, struct slice name, enum dns_type type,
                     struct dns_rrset **ret)
{
    struct dns_cache_config small;
    dns_cache_config_defaults(&small);
    small.entry_limit = 8; /* the name and its aliases */
    struct dns_cache *cache = dns_cache_new(&small);
    if (cache == NULL) {
        return -ENOMEM;
    }
    int err = ask_and_wait(config, cache, name, type, ret);
    dns_cache_clear(cache);
    dns_cache_put(cache);
    return err;
}
