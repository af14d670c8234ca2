/* Bounded multi-producer single-consumer ring of small records, passed by value.
 *
 * Concurrency: every slot has a turn number. A producer claims a position by compare-and-swap on
 * `tail`, copies its record and publishes by storing the slot's turn with release; the consumer
 * loads that turn with acquire. Producers never wait for each other: one that is preempted between
 * claim and publish only makes the ring look empty behind its slot for a moment.
 *
 * Rings are sized so that they cannot be full: whoever sends holds a credit for each record in
 * flight. ring_push therefore asserts on a full ring; ring_try_push is for senders whose credits
 * are the ring itself.
 *
 * Wake-ups are the waker's business (base/waker.h): push any number, then waker_kick once. */
#ifndef BASE_RING_H
#define BASE_RING_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring;

/* capacity: rounded up to a power of two; record_bytes: <= 64. NULL when out of memory. */
struct ring *ring_new(size_t capacity, size_t record_bytes);
void ring_free(struct ring *r);
/* Any thread. */
void ring_push(struct ring *r, const void *record);
MUST_USE bool ring_try_push(struct ring *r, const void *record);
/* Consumer only. false when nothing is published at the head. */
MUST_USE bool ring_pop(struct ring *r, void *ret_record);
/* Any thread; a momentary figure for metrics. */
size_t ring_count(const struct ring *r);

#endif
