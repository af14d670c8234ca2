/* Owns how a log becomes a spool. Called by who restores a node's mail; must not ask a server. */
#include "engine/replica/replay.h"

#include "base/error.h"
#include "engine/cluster/log_frame.h"
#include "engine/spool/spool_change.h"

enum { TRANSACTION_BYTES = 32 << 20 };

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
    };
    *ret = (struct spool_change){kinds[item->kind].kind, item->id, item->number, item->bytes};
    return kinds[item->kind].is_one;
}

static int apply(struct replay *r, struct slice items)
{
    struct log_item item;
    struct spool_change change;
    int err = 0;
    while (err == 0 && log_frame_next(&items, &item)) {
        if (change_of(&item, &change)) {
            r->changes++;
            err = spool_apply_change(r->txn, &change);
            if (err == ERR_CORRUPT) {
                r->damaged++;
                err = 0;
            }
        }
    }
    return err;
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
        err = apply(r, frame.items);
        r->pending += bytes.len;
    }
    if (err == 0 && r->pending >= TRANSACTION_BYTES) {
        err = replay_end(r);
    }
    return err;
}

int replay_end(struct replay *r)
{
    struct spool_txn *txn = r->txn;
    r->txn = NULL;
    r->pending = 0;
    return txn == NULL ? 0 : spool_commit(txn);
}
