/* What a sink thread counts: totals, per recipient domain and per listening address.
 *
 * One struct sink_count a thread, guarded by that thread's lock (sink_worker.h); the reporter
 * merges them into one of its own. */
#ifndef BENCH_SINK_COUNT_H
#define BENCH_SINK_COUNT_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "bench/tool/latency.h"

#include <stddef.h>
#include <stdint.h>

#define SINK_DOMAINS_MAX     1000000 /* further domains share the entry "(others)" */
#define SINK_DOMAIN_NAME_MAX 255     /* bytes */

struct sink_tally {
    uint64_t messages;      /* accepted at the end of data */
    uint64_t recipients;    /* of those */
    uint64_t bytes;         /* of those, content without dot stuffing */
    uint64_t deferred;      /* messages answered 4xx at MAIL, DATA or the end of data */
    uint64_t rejected;      /* recipients answered 4xx or 5xx on purpose */
    usec_t first, last;     /* wall clock of accepted messages; 0 = none */
    struct latency latency; /* usec from the stamp to the acceptance */
};

struct sink_domain {
    struct sink_tally tally;
    uint64_t hash;
    size_t name_len;
    char name[]; /* lower case */
};

struct sink_listener_count {
    struct sink_tally tally;
    uint64_t connections;   /* accepted, the refused included */
    uint64_t refused;       /* of those, with 421 or what was asked for in place of a greeting */
    uint32_t max_in_flight; /* transactions begun and not answered, of one connection */
};

struct sink_count {
    struct sink_tally total;      /* of a sum only: what the listeners have together */
    struct sink_domain **domains; /* in order of appearance; heap, each entry too */
    size_t domain_count;
    uint32_t *table;   /* open addressing: index + 1 into domains, 0 = empty */
    size_t table_size; /* a power of two */
    struct sink_listener_count *listeners;
    size_t listener_count;
};

/* errors: -ENOMEM */
MUST_USE int sink_count_init(struct sink_count *c, size_t listener_count);
void sink_count_fini(struct sink_count *c); /* accepts a zeroed one */
/* The domain of an address, or of a bare domain, in lower case; cut at so many bytes. */
struct slice sink_domain_name(struct slice address, char ret_name[SINK_DOMAIN_NAME_MAX]);
/* The tally of an address's or a bare domain (any case); "(others)" beyond the limit; never NULL.
 * Aborts when there is no memory. */
NONNULL_RET struct sink_tally *sink_count_domain(struct sink_count *c, struct slice address);
/* One accepted message for one tally. latency: usec, < 0 = it carried no stamp */
void sink_tally_message(struct sink_tally *t, uint64_t bytes, usec_t wall, usec_t latency);
void sink_count_merge(struct sink_count *into, const struct sink_count *from);

#endif
