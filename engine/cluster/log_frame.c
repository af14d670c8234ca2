/* Bytes of a log's frames.
 * Called by the thread that writes the log and by who replays one. It must not know what the spool's
 * records hold. */
#include "engine/cluster/log_frame.h"

#include "base/error.h"
#include "base/hash.h"

#include <assert.h>
#include <errno.h>

enum { NODE_AT = 1, EPOCH_AT = 3, SERIAL_AT = 11, LENGTH_AT = 19, CHECKSUM = 8 };

static void put_number(char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (char)(value >> (8 * (bytes - 1 - i)));
    }
}

static uint64_t take_bytes(const char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | (unsigned char)from[i];
    }
    return value;
}

/* Below the number of a node ids are counted; the last count would leave none for the next message. */
static bool is_message(uint64_t id)
{
    const uint64_t counts = (1ULL << 48) - 1;
    return id > 0 && (id & counts) != counts;
}

/* What each kind of item has; all that it does not have is 0. */
static bool is_item_right(const struct log_item *item)
{
    bool has_bytes = item->bytes.len > 0;
    switch (item->kind) {
    case LOG_ITEM_RECEPTION:
        return is_message(item->id) && item->number <= UINT16_MAX && has_bytes;
    case LOG_ITEM_RETRY:
    case LOG_ITEM_SIGNING:
        return is_message(item->id) && item->number == 0 && has_bytes;
    case LOG_ITEM_BODY:
    case LOG_ITEM_RECIPIENTS:
    case LOG_ITEM_REASON:
        return is_message(item->id) && has_bytes;
    case LOG_ITEM_RESULT:
        return is_message(item->id) && item->bytes.len == 1;
    case LOG_ITEM_DONE:
    case LOG_ITEM_NOTIFIED:
        return is_message(item->id) && item->number == 0 && !has_bytes;
    case LOG_ITEM_BOUND:
        return item->number == 0 && !has_bytes;
    case LOG_ITEM_ADOPTED:
        return item->id > 0 && item->number > 0 && item->number <= UINT16_MAX &&
               (!has_bytes || item->bytes.len == LOG_CARRIED_BYTES);
    case LOG_ITEM_FENCE:
        return item->id == 0 && item->number > 0 && item->number <= UINT16_MAX && !has_bytes;
    case LOG_ITEM_NONE:
    case LOG_ITEM_KIND_COUNT:
        break;
    }
    return false;
}

void log_frame_begin(struct buf *out, uint16_t node, const struct log_frame_id *id)
{
    char head[LOG_FRAME_HEAD] = {LOG_FRAME_VERSION};
    assert(node > 0 && id->epoch > 0 && out->len == 0);
    put_number(head + NODE_AT, node, 2);
    put_number(head + EPOCH_AT, id->epoch, 8);
    put_number(head + SERIAL_AT, id->serial, 8);
    buf_append(out, head, sizeof(head));
}

bool log_frame_has_room(const struct buf *out, size_t bytes)
{
    size_t used = out->len + LOG_ITEM_HEAD + CHECKSUM;
    return used <= LOG_FRAME_BYTES_MAX && bytes <= LOG_FRAME_BYTES_MAX - used;
}

void log_frame_add(struct buf *out, const struct log_item *item)
{
    char head[LOG_ITEM_HEAD];
    assert(is_item_right(item) && (out->failed || log_frame_has_room(out, item->bytes.len)));
    head[0] = (char)item->kind;
    put_number(head + 1, item->id, 8);
    put_number(head + 9, item->number, 4);
    put_number(head + 13, item->bytes.len, 4);
    buf_append(out, head, sizeof(head));
    buf_append_slice(out, item->bytes);
}

void log_frame_end(struct buf *out)
{
    char checksum[CHECKSUM];
    if (out->failed) {
        return;
    }
    put_number(out->data + LENGTH_AT, out->len - LOG_FRAME_HEAD, 4);
    put_number(checksum, hash_checksum(out->data, out->len), CHECKSUM);
    buf_append(out, checksum, sizeof(checksum));
}

bool log_frame_next(struct slice *items, struct log_item *ret)
{
    if (items->len < LOG_ITEM_HEAD) {
        return false;
    }
    const char *at = items->data;
    size_t len = take_bytes(at + 13, 4);
    if (len > items->len - LOG_ITEM_HEAD || (unsigned char)at[0] >= LOG_ITEM_KIND_COUNT) {
        return false;
    }
    *ret = (struct log_item){.kind = (enum log_item_kind)at[0],
                             .id = take_bytes(at + 1, 8),
                             .number = (uint32_t)take_bytes(at + 9, 4),
                             .bytes = slice_make(at + LOG_ITEM_HEAD, len)};
    *items = slice_from(*items, LOG_ITEM_HEAD + len);
    return true;
}

/* A fence stands alone in a frame of serial 0, and nothing else stands there. */
static bool are_items_right(const struct log_frame *f)
{
    struct slice rest = f->items;
    struct log_item item;
    unsigned fences = 0, others = 0;
    while (log_frame_next(&rest, &item)) {
        if (!is_item_right(&item)) {
            return false;
        }
        fences += item.kind == LOG_ITEM_FENCE;
        others += item.kind != LOG_ITEM_FENCE;
    }
    bool is_fence = f->id.serial == 0;
    return rest.len == 0 && fences == (is_fence ? 1 : 0) && (others == 0 || !is_fence);
}

int log_frame_read(struct slice bytes, struct log_frame *ret)
{
    if (bytes.len < LOG_FRAME_OVERHEAD || bytes.len > LOG_FRAME_BYTES_MAX) {
        return ERR_CORRUPT;
    }
    size_t end = bytes.len - CHECKSUM;
    if (take_bytes(bytes.data + end, CHECKSUM) != hash_checksum(bytes.data, end)) {
        return ERR_CORRUPT;
    }
    if ((unsigned char)bytes.data[0] > LOG_FRAME_VERSION) {
        return -EPROTONOSUPPORT;
    }
    struct log_frame f = {.node = (uint16_t)take_bytes(bytes.data + NODE_AT, 2),
                          .id = {.epoch = take_bytes(bytes.data + EPOCH_AT, 8),
                                 .serial = take_bytes(bytes.data + SERIAL_AT, 8)},
                          .items = slice_make(bytes.data + LOG_FRAME_HEAD, end - LOG_FRAME_HEAD)};
    bool is_right = bytes.data[0] == LOG_FRAME_VERSION && f.node > 0 && f.id.epoch > 0 &&
                    take_bytes(bytes.data + LENGTH_AT, 4) == f.items.len && are_items_right(&f);
    if (!is_right) {
        return ERR_CORRUPT;
    }
    *ret = f;
    return 0;
}
