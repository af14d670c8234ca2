/* What became of mail, counted: by tenant, by transport and by egress source; how long it took, by
 * transport; and which replies deferred or refused it.
 *
 * Owner: the spool writer, which counts each reception that is durable and each result once, before
 * or after its commit but never twice. Any thread may read at any time (responses: while online):
 * tables, spans and responses say how. Counters never go backwards while the daemon runs.
 *
 * A message is looked up by its tenant once: who counts it keeps the row. */
#ifndef ENGINE_TALLY_H
#define ENGINE_TALLY_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/mail_class.h"
#include "engine/reply/reply.h"
#include "engine/tally/tally_table.h"

#include <stdatomic.h>
#include <stdint.h>

struct config;
struct message;
struct queue_count;
struct responses;
struct result;
struct spool_envelope;

/* Spans of time in buckets that a monitoring system knows: bucket i counts spans up to
 * tally_span_bounds[i], the last one all above. Stored by the owner, read by any thread. */
#define TALLY_SPAN_BOUNDS 31
extern const usec_t tally_span_bounds[TALLY_SPAN_BOUNDS]; /* ascending */

struct tally_spans {
    _Atomic uint64_t buckets[TALLY_SPAN_BOUNDS + 1];
    _Atomic uint64_t sum; /* usec */
};

enum tally_span {
    TALLY_QUEUE_TIME,    /* creation of the message to its delivery; each delivered recipient */
    TALLY_DELIVERY_TIME, /* dispatch of the attempt to its end; each that delivered to somebody */
    TALLY_SPAN_COUNT
};

struct tally {
    /* set at creation */
    uint8_t first_bounds[64]; /* by the highest bit of a span: the first bound that may hold it */
    struct tally_table *tenants, *transports, *sources;
    struct responses *responses;
    struct queue_count *queued;                     /* see queue_count.h */
    _Atomic uint64_t (*classes)[REPLY_CLASS_COUNT]; /* [room + 1]: refusals by class, the last row
                                                     * those of no transport */
    struct tally_row **transport_rows;              /* [room] */
    struct tally_spans (*spans)[TALLY_SPAN_COUNT];  /* [room] */
    uint32_t room;
    /* any thread, atomic; the writer adds */
    _Atomic uint64_t received[MAIL_CLASS_COUNT]; /* messages */
    _Atomic uint32_t transport_count;            /* rows that are there */
};

/* For the transports of the configuration, which is not kept, and as many as may come (settings.h).
 * NULL when out of memory. */
struct tally *tally_new(const struct config *config);
/* Rows for transports that are new in a later configuration. Owner. */
void tally_add_transports(struct tally *t, const struct config *config);
/* Transports that have a row. Any thread. */
static inline uint32_t tally_transports(const struct tally *t)
{
    /* Acquire pairs with the release of tally_add_transports. */
    return atomic_load_explicit(&t->transport_count, memory_order_acquire);
}
void tally_free(struct tally *t); /* accepts NULL */

/* Where the message's tenant is counted; never 0, which stands for not looked up. Owner. */
uint16_t tally_tenant(struct tally *t, const struct spool_envelope *e);
/* A message became durable. tenant: from tally_tenant */
void tally_received(struct tally *t, uint16_t tenant, const struct spool_envelope *e);
/* ... whose tenant may not use the class that it would have had. */
void tally_lowered(struct tally *t, uint16_t tenant);
/* All recipients of a result, which is counted once. Looks the tenant up if m has no row yet. */
void tally_result(struct tally *t, struct message *m, const struct result *r);
/* Recipients of m were given up as their time is over. */
void tally_expired(struct tally *t, struct message *m, uint64_t recipients);

/* Any thread. */
static inline uint64_t tally_bucket(const struct tally_spans *s, uint32_t bucket)
{
    return atomic_load_explicit(&s->buckets[bucket], memory_order_relaxed);
}

#endif
