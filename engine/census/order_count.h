/* How much of the queue an order is about: shown before and after it is given, and where its count
 * of what it matched begins. */
#ifndef ENGINE_ORDER_COUNT_H
#define ENGINE_ORDER_COUNT_H

#include "base/attr.h"
#include "engine/order/order.h"

#include <stdint.h>

struct clerk;

struct order_count {
    uint64_t messages, recipients;
};

/* Count the queued mail that an order of this kind and selector decides about. ORDER_NONE: all that
 * the selector is about. An order that names a source decides about mail that no other source is
 * left to, as the book stands now. On a clerk that walks.
 *
 * before   wall: only what was received until then; 0: all
 * errors   of census_run */
MUST_USE int order_count_take(struct clerk *k, enum order_kind kind,
                              const struct selector *selector, usec_t before,
                              struct order_count *ret);

#endif
