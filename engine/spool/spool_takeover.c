/* Moves places of older formats when the spool is opened; called by nothing else. */
#include "engine/spool/spool_takeover.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/spool/spool_table.h"

#include <errno.h>

#define MOVE_LIMIT 20000 /* places a transaction: bounds its dirty pages */

struct takeover {
    uint8_t class;     /* under way; SPOOL_CLASS_COUNT: it is done */
    uint64_t time, id; /* where to go on in it */
    uint64_t moved;
};

/* The first place without a flow from `at` on, in its class. errors: ERR_MISSING, storage */
static int find_old(struct spool_txn *t, const struct takeover *at, uint64_t *ret_time,
                    uint64_t *ret_id)
{
    const struct spool_key from = spool_key_old_queue(at->time, at->id);
    const enum spool_table table = spool_queue_table(at->class);
    struct slice key, record;
    int r = spool_table_seek(t, table, &from, &key, &record);
    while (r == 0 && !spool_key_read_old_queue(key, ret_time, ret_id)) {
        r = spool_table_next(t, table, &key, &record);
    }
    return r;
}

static int move_old(struct spool_txn *t, struct takeover *at, uint64_t time, uint64_t id)
{
    struct spool_position p = {.class = at->class, .time = time, .id = id};
    int r = spool_table_del_here(t, spool_queue_table(at->class));
    if (r == 0) {
        r = spool_flow_of_record(t, id, &p.flow);
    }
    if (r == 0) {
        r = spool_queue_at(t, &p);
    }
    at->time = id == UINT64_MAX ? time + 1 : time;
    at->id = id + 1;
    at->moved++;
    return r;
}

static int move_some(struct spool_txn *t, struct takeover *at)
{
    const struct spool_key name = spool_key_name(SPOOL_META_TAKEOVER);
    const unsigned most = t->store->options.takeover;
    const unsigned limit = most > 0 ? most : MOVE_LIMIT;
    int r = 0;
    for (unsigned i = 0; r == 0 && at->class < SPOOL_CLASS_COUNT && i < limit; i++) {
        uint64_t time, id;
        r = find_old(t, at, &time, &id);
        if (r == 0) {
            r = move_old(t, at, time, id);
        } else if (r == ERR_MISSING) {
            at->class ++;
            at->time = at->id = 0;
            r = 0;
        }
    }
    if (r == 0 && at->class == SPOOL_CLASS_COUNT) {
        r = spool_table_del(t, SPOOL_TABLE_META, &name);
    }
    return r;
}

/* One transaction. *at is where it was when that fails. */
static int run_some(struct spool_store *s, struct takeover *at)
{
    struct takeover next = *at;
    struct spool_txn *t;
    int r = spool_begin(s, &t);
    if (r != 0) {
        return r;
    }
    r = move_some(t, &next);
    if (r != 0) {
        spool_abort(t);
        return r;
    }
    r = spool_commit(t);
    *at = r == 0 ? next : *at;
    return r;
}

/* errors: storage */
static int is_due(struct spool_store *s, bool *ret)
{
    struct spool_txn *t;
    uint64_t number;
    int r = spool_begin(s, &t);
    if (r == 0) {
        r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_TAKEOVER, &number);
        spool_abort(t);
    }
    *ret = r == 0 || r == ERR_CORRUPT;
    return r == ERR_CORRUPT || r == ERR_MISSING ? 0 : r;
}

int spool_take_over(struct spool_store *s)
{
    struct takeover at = {.class = SPOOL_INCOMING};
    bool has_ballast = true, is_wanted;
    int r = is_due(s, &is_wanted);
    if (r != 0 || !is_wanted) {
        return r;
    }
    log_info("spool %s: its queue is put in the order of flows", s->path);
    s->flows.is_doubted = true; /* so that the start looks for the last sequence */
    while (r == 0 && at.class < SPOOL_CLASS_COUNT) {
        r = run_some(s, &at);
        if ((r == -ENOSPC || r == -EDQUOT) && has_ballast) { /* what the ballast is for */
            has_ballast = false;
            spool_store_drop_ballast(s);
            r = spool_store_must_reopen(s) ? spool_store_reopen(s, NULL, NULL) : 0;
        }
    }
    if (r == 0) {
        log_info("spool %s: %llu messages have their flows", s->path, (unsigned long long)at.moved);
    }
    return r;
}
