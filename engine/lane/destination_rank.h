/* The best so many of any number of destinations, in memory for that many. Pure; one owner. */
#ifndef ENGINE_DESTINATION_RANK_H
#define ENGINE_DESTINATION_RANK_H

#include "base/attr.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum destination_order {
    DESTINATION_ORDER_NONE, /* no order: the first ones offered are kept */
    DESTINATION_ORDER_NAME,
    DESTINATION_ORDER_LOAD,      /* in flight and waiting, the most first */
    DESTINATION_ORDER_DELIVERED, /* the most first, as below */
    DESTINATION_ORDER_DEFERRED,
    DESTINATION_ORDER_COUNT
};

struct destination_row {
    struct sched_destination_view view; /* `name` is a copy that the row owns */
    uint32_t transport;
};

struct destination_rank {
    enum destination_order order;
    size_t limit, count, capacity;
    struct destination_row *rows; /* [capacity]; with an order a heap, the worst first */
    bool has_more;                /* rows were left out for want of room */
    bool has_failed;              /* out of memory: rows are missing */
};

/* limit: >= 1 */
void destination_rank_init(struct destination_rank *r, enum destination_order order, size_t limit);
void destination_rank_fini(struct destination_rank *r);
/* One more; its name is copied. O(log limit), or O(1) when it is not among the best. */
void destination_rank_add(struct destination_rank *r, uint32_t transport,
                          const struct sched_destination_view *d);
/* More of them cannot change anything: there is no order, and no room. */
bool destination_rank_is_full(const struct destination_rank *r);
/* The best first; nothing is added afterwards. */
void destination_rank_finish(struct destination_rank *r);

/* "name", "load", "delivered", "deferred".  DESTINATION_ORDER_COUNT: none of them */
enum destination_order destination_order_find(struct slice text);

#endif
