/* The replies that deferred or refused mail, by what they say: receivers answer with a few texts
 * that differ in numbers and addresses only (response_text.h), and how often which of them comes is
 * what an operator looks at first.
 *
 * Owner: one thread counts (the spool writer); it is registered with RCU. Readers: any thread that
 * is online; a response is published under RCU, its text is constant, its counters are atomics that
 * the owner alone stores, and its names are constant below their count. At most RESPONSES_MAX; then
 * the smallest gives way, where a count halves for each hour in which it was not seen, and among
 * equals the one seen longest ago. */
#ifndef ENGINE_RESPONSES_H
#define ENGINE_RESPONSES_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/post/result.h"
#include "engine/reply/reply.h"

#include <stdbool.h>
#include <stdint.h>

#define RESPONSES_MAX         500
#define RESPONSE_NAMES        5   /* the first destinations, and tenants */
#define RESPONSE_EXAMPLE_MAX  400 /* bytes; the rest is cut */
#define RESPONSE_NAME_MAX     127 /* bytes; the rest is cut */
#define RESPONSE_STATUS_BYTES sizeof(((struct result_recipient *)NULL)->status)

struct response_sight {
    enum result_kind kind; /* deferred or failed */
    uint16_t code;         /* SMTP reply code; 0: the text is our own finding, not a receiver's */
    const char *status;
    struct slice text, destination, tenant;
    usec_t time; /* wall */
    enum reply_class class;
};

struct responses;

/* NULL when out of memory. seed: of the hash, as strangers choose the texts */
struct responses *responses_new(uint64_t seed);
/* When all threads have ended. Accepts NULL. */
void responses_free(struct responses *r);
/* Count one more recipient who got this reply. Without memory for a new reply it is not counted.
 * Owner thread only. */
void responses_count(struct responses *r, const struct response_sight *s);

/* Slices are valid while the reader stays online. */
struct response_view {
    struct slice text, example, status;
    enum result_kind kind;
    uint16_t code;
    uint64_t count;
    usec_t first, last;     /* wall */
    enum reply_class class; /* of the last one: rules may have changed */
    struct slice destinations[RESPONSE_NAMES], tenants[RESPONSE_NAMES];
    uint32_t destination_count, tenant_count;
};
/* Walk all in no order; cursor starts at 0; false at the end. Any thread, online. */
MUST_USE bool responses_next(const struct responses *r, uint32_t *cursor,
                             struct response_view *ret);

#endif
