/* Questions to name servers: one c-ares channel, the shared cache in front of it, and one query for
 * all who ask the same thing at once.
 *
 * Belongs to a resolver and its thread. Callbacks of c-ares, which may come inside any call here,
 * only put answers on a list; askers meet them in lookup_next(). */
#ifndef DNS_LOOKUP_H
#define DNS_LOOKUP_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/slice.h"
#include "dns/dns_config.h"
#include "dns/rrset.h"

#include <stdbool.h>
#include <stdint.h>

struct dns_cache;
struct lookup;

/* One who waits for an answer; embedded in an object of the asker, zeroed before the first use. */
struct lookup_waiter {
    struct list link; /* in the question while it is asked */
    bool is_waiting;
    struct dns_rrset *set; /* one reference, which the asker owns; NULL also when memory ran out */
    void *asker;
};

struct lookup_counters {
    uint64_t queries, timeouts;
    uint32_t outstanding, waiting;
};

/* Takes a reference of the cache. errors: as resolver_new */
MUST_USE int lookup_new(const struct dns_config *config, struct dns_cache *cache,
                        const struct resolver_hooks *hooks, struct lookup **ret);
/* Nobody may be waiting any more. Accepts NULL. */
void lookup_free(struct lookup *l);

/* Ask for a name (lower case, valid). The answer is in waiter->set at once when the cache has it;
 * otherwise is_waiting is set and lookup_next() returns the waiter some time later.
 *
 * errors   -ENOMEM, nothing follows */
MUST_USE int lookup_ask(struct lookup *l, struct slice name, enum dns_type type,
                        struct lookup_waiter *waiter, usec_t now);
/* Give up; no-op when not waiting. The query goes on for the cache's sake. */
void lookup_forget(struct lookup_waiter *waiter);
/* The next waiter that has its answer, or NULL; also sends what waited for its turn. */
struct lookup_waiter *lookup_next(struct lookup *l, usec_t now);
void lookup_fd_event(struct lookup *l, int fd, bool is_readable, bool is_writable, usec_t now);
void lookup_tick(struct lookup *l, usec_t now);
usec_t lookup_wake_at(const struct lookup *l);
/* Nothing is asked, and nobody waits. */
bool lookup_is_idle(const struct lookup *l);
/* Whether an AD bit of these servers counts. */
bool lookup_trusts_ad(const struct lookup *l);
void lookup_read_counters(const struct lookup *l, struct lookup_counters *ret);

#endif
