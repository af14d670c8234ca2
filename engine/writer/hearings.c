#include "engine/writer/hearings.h"

#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/event/event_log.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/writer/suppressor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int hearings_init(struct hearings *h, struct engine *engine)
{
    h->engine = engine;
    h->count = 0;
    h->waiting = calloc(HEARINGS_MAX, sizeof(struct hearing *));
    return h->waiting == NULL ? -ENOMEM : 0;
}

void hearings_fini(struct hearings *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        hearing_free(h->waiting[i]);
    }
    h->count = 0;
    free(h->waiting);
    h->waiting = NULL;
}

void hearings_take(struct hearings *h, struct hearing *one)
{
    assert(h->count < HEARINGS_MAX); /* no more of them exist */
    h->waiting[h->count++] = one;
}

int hearings_put(struct hearings *h, struct suppressor *suppressor, struct spool_txn *txn)
{
    int err = 0;
    for (uint32_t i = 0; err == 0 && i < h->count; i++) {
        const struct hearing *one = h->waiting[i];
        for (uint32_t c = 0; err == 0 && c < one->cause_count; c++) {
            const struct hearing_cause *cause = &one->causes[c];
            const struct suppressor_cause what = {
                .reason = cause->reason,
                .tenant = label_slice(&cause->tenant),
                .address = slice_of(cause->address),
                .message_id = cause->message_id,
                .source = slice_of(cause->source),
                .now = one->received,
            };
            err = suppressor_note(suppressor, txn, &what, NULL);
        }
    }
    return err;
}

void hearings_log(const struct hearings *h, struct buf *log)
{
    for (uint32_t i = 0; i < h->count; i++) {
        buf_append_slice(log, buf_slice(&h->waiting[i]->lines));
    }
}

void hearings_answer(struct hearings *h, int err, struct outbox *to_workers)
{
    if (h->count == 0) {
        return;
    }
    if (err == 0 && h->engine->events != NULL) {
        rcu_sleep(); /* a disk that stalls must not stop reclaim */
        err = event_log_sync(h->engine->events);
        rcu_awake();
        if (err != 0) {
            log_error("event log: sync: %s; what was heard is refused for now", err_str(err));
        }
    }
    for (uint32_t i = 0; i < h->count; i++) {
        struct hearing *one = h->waiting[i];
        one->error = err;
        letter_put_hearing_done(&to_workers[one->worker], one);
    }
    h->count = 0;
}
