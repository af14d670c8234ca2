/* The bytes of a log's frames, version 1, both ways. Pure: no allocation but the buffer's, no clock.
 *
 * A frame is a head, items, and a 64-bit checksum over both; all numbers are big-endian. docs/cluster-log.md
 * has the tables. For which place of the stream a frame was sent does not stand in it, because a frame
 * may have to move behind a void one (log_prefix.h) and is the same frame then: its serial says where
 * it belongs. Readers trust no length: what they return lies inside the frame.
 *
 * One owner at a time. */
#ifndef ENGINE_LOG_FRAME_H
#define ENGINE_LOG_FRAME_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "engine/cluster/log_prefix.h"

#include <stdint.h>

#define LOG_FRAME_VERSION   1
#define LOG_FRAME_HEAD      23 /* bytes: version, node, epoch, serial, bytes of all items */
#define LOG_FRAME_OVERHEAD  (LOG_FRAME_HEAD + 8)
#define LOG_FRAME_BYTES_MAX (512U * 1024) /* with head and checksum */
#define LOG_CARRIED_BYTES   2
#define LOG_ITEM_HEAD       17 /* bytes: kind, id, number, length */

enum log_item_kind {
    LOG_ITEM_NONE,       /* no item has it */
    LOG_ITEM_RECEPTION,  /* id; number of the spool whose log it was adopted from, or 0; bytes: the
                          * spool's record of the message */
    LOG_ITEM_BODY,       /* id; number of the chunk; bytes: a piece of a large body */
    LOG_ITEM_RECIPIENTS, /* id; number of the batch; bytes: packed recipients of a large envelope */
    LOG_ITEM_RESULT,     /* id; number of the recipient; bytes: 1, the spool's state of it */
    LOG_ITEM_RETRY,      /* id; bytes: the spool's retry record */
    LOG_ITEM_SIGNING,    /* id; bytes: the spool's record of its signatures */
    LOG_ITEM_DONE,       /* id: nothing of it is to be delivered any more */
    LOG_ITEM_ADOPTED,    /* id: of the message up to which the log of spool `number` was adopted, or
                        * ADOPTION_DONE; bytes: number of the spool whose own mark this was, which
                        * counts once that spool's log is ADOPTION_DONE, or empty */
    LOG_ITEM_FENCE,    /* number: the spool that holds the log from here on; alone, with serial 0 */
    LOG_ITEM_REASON,   /* id; number of the recipient; bytes: the spool's record: state and reply */
    LOG_ITEM_NOTIFIED, /* id: its sender was told of the failures that it has reasons for */
    LOG_ITEM_BOUND,    /* id: how many deliveries a crash of its writer may repeat, 0 as well */
    LOG_ITEM_KIND_COUNT
};

struct log_item {
    enum log_item_kind kind;
    uint64_t id;        /* of the message, where there is one; else as the kind says, or 0 */
    uint32_t number;    /* as the kind says, or 0 */
    struct slice bytes; /* as the kind says, or empty */
};

struct log_frame {
    uint16_t node; /* number of the spool whose log it is, at least 1 */
    struct log_frame_id id;
    struct slice items;
};

/* Begin a frame in an empty buffer, whose limit should be LOG_FRAME_BYTES_MAX. */
void log_frame_begin(struct buf *out, uint16_t node, const struct log_frame_id *id);

/* Whether an item with so many bytes has room, and the checksum behind it. */
MUST_USE bool log_frame_has_room(const struct buf *out, size_t bytes);

/* Append an item that has room; one that no reader would take is a bug and asserts. */
void log_frame_add(struct buf *out, const struct log_item *item);

/* Put length and checksum in; out->failed: it is no frame. */
void log_frame_end(struct buf *out);

/* Read head and checksum, and look at every item.
 *
 * ret     its items lie in `bytes`
 * errors  ERR_CORRUPT; -EPROTONOSUPPORT: of a version that is newer than this program */
MUST_USE int log_frame_read(struct slice bytes, struct log_frame *ret);

/* Take the next item of a frame that was read; false at the end. */
MUST_USE bool log_frame_next(struct slice *items, struct log_item *ret);

#endif
