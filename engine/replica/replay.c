/* Owns how a log becomes a spool. Called by who restores a node's mail; must not ask a server. */
#include "engine/replica/replay.h"

#include "base/error.h"
#include "engine/cluster/adoption.h"
#include "engine/cluster/log_frame.h"
#include "engine/spool/spool_adopt.h"
#include "engine/spool/spool_change.h"

#include <errno.h>
#include <stdlib.h>

enum { TRANSACTION_BYTES = 32 << 20 };

struct replay_doubt {
    uint64_t id;     /* of the message, or the mark */
    uint16_t source; /* log with whose mark it is believed */
    uint16_t log;    /* of a mark; 0: it is a message */
};

/* false: it changes nothing in a spool */
static bool change_of(const struct log_item *item, struct spool_change *ret)
{
    static const struct {
        enum spool_change_kind kind;
        bool is_one;
    } kinds[LOG_ITEM_KIND_COUNT] = {
        [LOG_ITEM_RECEPTION] = {SPOOL_CHANGE_MESSAGE, true},
        [LOG_ITEM_BODY] = {SPOOL_CHANGE_BODY, true},
        [LOG_ITEM_RECIPIENTS] = {SPOOL_CHANGE_RECIPIENTS, true},
        [LOG_ITEM_RESULT] = {SPOOL_CHANGE_RESULT, true},
        [LOG_ITEM_REASON] = {SPOOL_CHANGE_REASON, true},
        [LOG_ITEM_NOTIFIED] = {SPOOL_CHANGE_NOTIFIED, true},
        [LOG_ITEM_RETRY] = {SPOOL_CHANGE_RETRY, true},
        [LOG_ITEM_SIGNING] = {SPOOL_CHANGE_SIGNING, true},
        [LOG_ITEM_DONE] = {SPOOL_CHANGE_REMOVED, true},
        [LOG_ITEM_BOUND] = {SPOOL_CHANGE_BOUND, true},
        [LOG_ITEM_ADOPTED] = {SPOOL_CHANGE_ADOPTED, true},
    };
    *ret = (struct spool_change){kinds[item->kind].kind, item->id, item->number, item->bytes};
    return kinds[item->kind].is_one;
}

/* --- what is not believed yet ----------------------------------------------------------------- */

static int doubt(struct replay *r, const struct replay_doubt *d)
{
    if (r->doubt_count == r->doubt_room) {
        size_t room = r->doubt_room == 0 ? 256 : r->doubt_room * 2;
        struct replay_doubt *more = realloc(r->doubts, room * sizeof(*more));
        if (more == NULL) {
            return -ENOMEM;
        }
        r->doubts = more;
        r->doubt_room = room;
    }
    r->doubts[r->doubt_count++] = *d;
    return 0;
}

/* A message that was read before stays believed, or not, until there is more to go by. errors:
 * -ENOMEM, of the store */
static int meet_message(struct replay *r, const struct log_item *item)
{
    if (item->number == 0) {
        for (size_t i = 0; i < r->doubt_count; i++) {
            if (r->doubts[i].log == 0 && r->doubts[i].id == item->id) {
                r->doubts[i--] = r->doubts[--r->doubt_count];
            }
        }
        return 0;
    }
    int err = spool_find(r->txn, item->id);
    if (err == ERR_MISSING) {
        err = doubt(r,
                    &(const struct replay_doubt){.id = item->id, .source = (uint16_t)item->number});
    }
    return err;
}

static int believe(struct replay *r, uint16_t log, uint64_t mark)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < r->doubt_count; i++) {
        const struct replay_doubt d = r->doubts[i];
        bool is_covered =
            d.log == 0 ? adoption_is_covered(d.id, mark, r->writer) : mark == ADOPTION_DONE;
        if (d.source == log && is_covered) {
            err = d.log == 0 ? 0 : spool_put_adopted(r->txn, d.log, d.id);
            r->doubts[i--] = r->doubts[--r->doubt_count];
        }
    }
    return err;
}

/* ret_is_held  it is not to be applied for now */
static int meet_mark(struct replay *r, const struct log_item *item, bool *ret_is_held)
{
    uint16_t log = (uint16_t)item->number;
    if (item->bytes.len == 0) {
        return believe(r, log, item->id);
    }
    const unsigned char *bytes = (const unsigned char *)item->bytes.data;
    *ret_is_held = true;
    return doubt(r, &(const struct replay_doubt){.id = item->id,
                                                 .log = log,
                                                 .source = (uint16_t)(bytes[0] << 8 | bytes[1])});
}

static int drop_doubts(struct replay *r)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < r->doubt_count; i++) {
        const struct replay_doubt *d = &r->doubts[i];
        if (d->log == 0) {
            const struct spool_change gone = {.kind = SPOOL_CHANGE_REMOVED, .id = d->id};
            err = r->txn == NULL ? spool_begin(r->store, &r->txn) : 0;
            err = err != 0 ? err : spool_apply_change(r->txn, &gone);
            r->dropped++;
        }
    }
    return err;
}

/* --- frames ----------------------------------------------------------------------------------- */

static int apply(struct replay *r, struct slice items)
{
    struct log_item item;
    struct spool_change change;
    int err = 0;
    while (err == 0 && log_frame_next(&items, &item)) {
        bool is_held = false;
        if (!change_of(&item, &change)) {
            continue;
        }
        if (item.kind == LOG_ITEM_RECEPTION) {
            err = meet_message(r, &item);
        } else if (item.kind == LOG_ITEM_ADOPTED) {
            err = meet_mark(r, &item, &is_held);
        } else if (item.kind == LOG_ITEM_BOUND) {
            r->bound = item.id;
        }
        if (item.kind != LOG_ITEM_ADOPTED && item.kind != LOG_ITEM_BOUND) {
            uint64_t count = item.id & ((1ULL << SPOOL_NODE_SHIFT) - 1);
            r->greatest = count > r->greatest ? count : r->greatest;
        }
        r->changes++;
        err = err != 0 || is_held ? err : spool_apply_change(r->txn, &change);
        if (err == ERR_CORRUPT) {
            r->damaged++;
            err = 0;
        }
    }
    return err;
}

static int commit_pending(struct replay *r)
{
    struct spool_txn *txn = r->txn;
    r->txn = NULL;
    r->pending = 0;
    return txn == NULL ? 0 : spool_commit(txn);
}

int replay_frame(struct replay *r, struct slice bytes)
{
    struct log_frame frame;
    int err = log_frame_read(bytes, &frame);
    if (err != 0) {
        return err;
    }
    enum log_verdict verdict = log_reader_take(&r->reader, &frame.id);
    r->frames++;
    r->void_frames += verdict == LOG_VOID;
    r->epochs += verdict == LOG_FENCE;
    if (verdict != LOG_COUNTS) {
        return 0;
    }
    if (r->txn == NULL) {
        err = spool_begin(r->store, &r->txn);
    }
    if (err == 0) {
        r->writer = frame.node;
        err = apply(r, frame.items);
        r->pending += bytes.len;
    }
    if (err == 0 && r->pending >= TRANSACTION_BYTES) {
        err = commit_pending(r);
    }
    return err;
}

/* The greatest id in the log is of no message: it says which ids were reserved (spool_reserve_ids). Logs of older
 * programs do not say so, but have lesser ids than the clock gives (spool_id_at). */
static int pass_ids_over(struct replay *r)
{
    int err = r->greatest == 0 || r->txn != NULL ? 0 : spool_begin(r->store, &r->txn);
    return r->greatest == 0 || err != 0 ? err : spool_reserve_ids(r->txn, r->greatest + 1);
}

int replay_end(struct replay *r)
{
    int err = drop_doubts(r);
    err = err != 0 ? err : pass_ids_over(r);
    int end = commit_pending(r);
    free(r->doubts);
    r->doubts = NULL;
    r->doubt_count = r->doubt_room = 0;
    return err != 0 ? err : end;
}
