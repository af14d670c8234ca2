/* A packed list: for each item its length in 16 bits, high byte first, then its bytes. Recipients
 * have this form from the command that brings them until the spool has them: in the SMTP core, in an
 * intake, in a record of the spool, and in a message in memory; so they are moved as a whole and
 * never encoded twice. Pure; any thread. */
#ifndef BASE_PACKED_H
#define BASE_PACKED_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PACKED_ITEM_MAX UINT16_MAX /* bytes */

static inline size_t packed_bytes(struct slice item)
{
    return 2 + item.len;
}

/* Write an item, at most PACKED_ITEM_MAX bytes, to where packed_bytes of it have room. */
static inline void packed_write(char *to, struct slice item)
{
    to[0] = (char)(item.len >> 8);
    to[1] = (char)item.len;
    memcpy(to + 2, item.data, item.len);
}

/* The item that packed_write put there. */
static inline struct slice packed_read(const char *from)
{
    const unsigned char *at = (const unsigned char *)from;
    return slice_make(from + 2, (size_t)at[0] << 8 | at[1]);
}

/* Append an item, at most PACKED_ITEM_MAX bytes; when list->failed nothing of it is in the list. */
static inline void packed_append(struct buf *list, struct slice item)
{
    assert(item.len <= PACKED_ITEM_MAX);
    char *to = buf_reserve(list, packed_bytes(item));
    if (to != NULL) {
        packed_write(to, item);
        list->len += packed_bytes(item);
    }
}

/* The same into an array of `capacity` bytes of which *len are used; false when it does not fit. */
MUST_USE static inline bool packed_fill(char *list, size_t capacity, size_t *len, struct slice item)
{
    if (item.len > PACKED_ITEM_MAX || *len > capacity || capacity - *len < packed_bytes(item)) {
        return false;
    }
    packed_write(list + *len, item);
    *len += packed_bytes(item);
    return true;
}

/* Take the next item off a list; false at the end, or when the rest is malformed. */
static inline bool packed_next(struct slice *list, struct slice *ret)
{
    if (list->len < 2) {
        return false;
    }
    struct slice item = packed_read(list->data);
    if (packed_bytes(item) > list->len) {
        return false;
    }
    *ret = item;
    *list = slice_from(*list, packed_bytes(item));
    return true;
}

/* The first items of a list, at most `most` of them, as a list. */
static inline struct slice packed_first(struct slice list, uint32_t most, uint32_t *ret_count)
{
    struct slice rest = list, item;
    uint32_t count = 0;
    while (count < most && packed_next(&rest, &item)) {
        count++;
    }
    *ret_count = count;
    return slice_to(list, list.len - rest.len);
}

#endif
