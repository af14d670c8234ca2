/* The file that keeps the standing orders over a restart: orders.json in the spool folder. */
#ifndef ENGINE_ORDER_FILE_H
#define ENGINE_ORDER_FILE_H

#include "base/attr.h"
#include "engine/order/order.h"

#include <stddef.h>
#include <stdint.h>

#define ORDER_FILE_NAME     "orders.json"
#define ORDER_FILE_TEXT_MAX 512
#define ORDER_COUNT_MAX     1000

struct order_file {
    uint64_t next_id;
    bool is_reviewed;     /* no held mail waits for an order that was lifted */
    struct order *orders; /* of read: heap, in ascending order of ids */
    size_t count;
};

/* ret is empty, with next_id 1 and not reviewed, when there is no file.
 *
 * errors   ERR_SYNTAX, ERR_LIMIT, -errno, -ENOMEM; text names the file and what is wrong with it;
 *          *ret unchanged */
MUST_USE int order_file_read(const char *folder, struct order_file *ret,
                             char text[static ORDER_FILE_TEXT_MAX]);
void order_file_fini(struct order_file *f); /* of what was read */

/* Replace the file; it is on the disk, under its name, when this returns.
 *
 * orders   [count], in ascending order of ids
 * errors   -errno; the file is as before, or the new one */
MUST_USE int order_file_write(const char *folder, uint64_t next_id, bool is_reviewed,
                              const struct order *const *orders, size_t count);

#endif
