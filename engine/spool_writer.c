/* Order inside one batch: results (their event lines are written first), then receptions; one
 * commit; then answers. A reception is answered, activated and logged only when the commit that
 * holds it is durable. */
#include "engine/spool_writer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "engine/activator.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "engine/event_log.h"
#include "engine/intake.h"
#include "engine/message.h"
#include "engine/notice.h"
#include "engine/result.h"
#include "engine/settle.h"
#include "engine/spool_store.h"
#include "engine/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_LETTERS = 4096,
    BATCH_BYTES = 8 << 20,
    ID_BLOCK = 1 << 20, /* ids reserved at a time: one small record a million messages */
};
static const usec_t retry_interval = 500 * USEC_PER_MSEC;
/* Nobody waits for results alone: they stay this long for a reception whose commit carries them. */
static const usec_t results_patience = 5 * USEC_PER_MSEC;

struct spool_writer {
    /* set at creation */
    struct engine *engine;
    struct mailbox box;
    struct thread thread;
    _Atomic bool is_stopping;

    /* writer thread only */
    struct outbox to_activator;
    struct outbox *to_workers; /* [engine->worker_count] */
    struct settle settle;
    struct spool_reader *reader;
    struct buf log;        /* event lines not yet in the file */
    struct intake **parts; /* STAGE and STORE letters of the batch, in order */
    uint32_t part_count;
    uint64_t *discards; /* staged receptions to forget; kept over a failure */
    uint32_t discard_count, discard_capacity;
    struct spool_position **damaged; /* likewise */
    uint32_t damaged_count, damaged_capacity;
    size_t batch_bytes;
    bool has_more; /* the batch limit was hit */
    bool rotate;
    bool is_broken;
    usec_t retry_at;
    uint64_t reserved_ids;  /* as committed */
    uint64_t reserving_ids; /* in the transaction under way; 0: nothing */
    usec_t synced;          /* monotonic: the event log, the last time */
    usec_t space_seen;      /* monotonic: likewise */
    usec_t results_due;     /* monotonic: results that wait must be written; 0: none wait */
};

int spool_writer_new(struct engine *engine, struct spool_writer **ret)
{
    struct spool_writer *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return -ENOMEM;
    }
    w->engine = engine;
    buf_init(&w->log, 0);
    list_init(&w->settle.touched);
    w->settle.engine = engine;
    w->settle.config = engine->config;
    w->settle.log = &w->log;
    w->parts = calloc(BATCH_LETTERS, sizeof(struct intake *));
    int err = w->parts == NULL ? -ENOMEM : mailbox_init(&w->box, 1 << 16);
    if (err == 0) {
        err = spool_reader_new(engine->store, &w->reader);
        w->settle.reader = w->reader;
    }

    /* The first commit: ids that no earlier run handed out, and the bound a crash is held to. */
    uint64_t first = spool_store_first_id(engine->store);
    w->reserved_ids = first + ID_BLOCK;
    struct spool_txn *txn = NULL;
    if (err == 0) {
        err = spool_begin(engine->store, &txn);
    }
    if (err == 0) {
        err = spool_reserve_ids(txn, w->reserved_ids);
        if (err == 0) {
            err = spool_store_bound(txn, engine->duplicate_bound);
        }
        if (err == 0) {
            err = spool_commit(txn);
        } else {
            spool_abort(txn);
        }
    }
    if (err != 0) {
        spool_writer_free(w);
        return err;
    }
    atomic_store(&engine->next_id, first);
    atomic_store(&engine->id_limit, w->reserved_ids);
    *ret = w;
    return 0;
}

struct mailbox *spool_writer_box(struct spool_writer *w)
{
    return &w->box;
}

void spool_writer_free(struct spool_writer *w)
{
    if (w == NULL) {
        return;
    }
    struct letter letter;
    while (w->box.ring != NULL && mailbox_take(&w->box, &letter)) {
        if (letter.kind == LETTER_STAGE || letter.kind == LETTER_STORE) {
            intake_free(letter.body);
        } else if (letter.kind == LETTER_RESULT) {
            result_free(letter.body);
        } else if (letter.kind == LETTER_DAMAGED) {
            free(letter.body);
        }
    }
    mailbox_fini(&w->box);
    settle_fini(&w->settle);
    spool_reader_free(w->reader);
    if (w->to_workers != NULL) {
        for (uint32_t i = 0; i < w->engine->worker_count; i++) {
            outbox_fini(&w->to_workers[i]);
        }
    }
    outbox_fini(&w->to_activator);
    for (uint32_t i = 0; i < w->damaged_count; i++) {
        free(w->damaged[i]);
    }
    free(w->damaged);
    free(w->discards);
    free(w->to_workers);
    free(w->parts);
    buf_fini(&w->log);
    free(w);
}

/* --- taking letters ----------------------------------------------------------------------------
 */

static bool grow(void *array, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    void **items = array;
    if (count < *capacity) {
        return true;
    }
    uint32_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = realloc(*items, wanted * item_bytes);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

static void take_letter(struct spool_writer *w, const struct letter *letter)
{
    switch (letter->kind) {
    case LETTER_STAGE:
    case LETTER_STORE: {
        struct intake *in = letter->body;
        in->is_last = letter->kind == LETTER_STORE;
        w->parts[w->part_count++] = in;
        w->batch_bytes += in->body.len + in->packed.len;
        break;
    }
    case LETTER_DISCARD:
        /* Not kept when memory is short: staging is cleared at the next start anyway. */
        if (grow(&w->discards, w->discard_count, &w->discard_capacity, sizeof(*w->discards))) {
            w->discards[w->discard_count++] = letter->number;
        }
        break;
    case LETTER_RESULT:
        settle_collect(&w->settle, letter->body);
        break;
    case LETTER_FORGONE:
        settle_forgo(&w->settle, letter->body, (uint32_t)letter->number,
                     (unsigned)(letter->number >> 32));
        break;
    case LETTER_DAMAGED:
        if (grow(&w->damaged, w->damaged_count, &w->damaged_capacity, sizeof(*w->damaged))) {
            w->damaged[w->damaged_count++] = letter->body;
        } else {
            struct spool_position *position = letter->body;
            outbox_put(&w->to_activator, LETTER_SETTLED, NULL, position->id); /* found again */
            free(position);
        }
        break;
    case LETTER_ROTATE:
        w->rotate = true;
        break;
    default:
        assert(false && "unknown letter to the spool writer");
    }
}

static bool take_batch(struct spool_writer *w)
{
    struct letter letter;
    uint32_t taken = 0;
    w->has_more = false;
    while (mailbox_take(&w->box, &letter)) {
        take_letter(w, &letter);
        if (++taken == BATCH_LETTERS || w->batch_bytes >= BATCH_BYTES) {
            w->has_more = true;
            break;
        }
    }
    return taken > 0;
}

/* --- writing -----------------------------------------------------------------------------------
 */

static int put_part(struct spool_txn *txn, struct intake *in)
{
    uint64_t id = in->envelope.id;
    int err = 0;
    if (!in->is_last) {
        if (!in->is_staged) {
            err = spool_stage(txn, id);
        }
        if (err == 0 && in->puts_recipients) {
            err = spool_put_recipients(txn, id, in->batch, buf_slice(&in->packed));
        }
        if (err == 0 && in->puts_body) {
            err = spool_put_chunk(txn, id, in->chunk, buf_slice(&in->body));
        }
        return err;
    }
    struct slice packed = buf_slice(&in->packed);
    struct slice body = buf_slice(&in->body);
    if (in->batch > 0 && packed.len > 0) {
        err = spool_put_recipients(txn, id, in->batch, packed);
    }
    if (in->batch > 0) {
        packed = SLICE("");
    }
    if (err == 0 && (in->chunk > 0 || body.len > SPOOL_INLINE_BODY_BYTES)) {
        if (body.len > 0) {
            err = spool_put_chunk(txn, id, in->chunk, body);
        }
        in->envelope.chunk_count = in->chunk + (body.len > 0 ? 1 : 0);
        body = SLICE("");
    }
    if (err == 0) {
        err = spool_put_message(txn, &in->envelope, packed, body, &in->position);
    }
    return err;
}

static bool needs_ids(const struct spool_writer *w)
{
    return atomic_load_explicit(&w->engine->next_id, memory_order_relaxed) + ID_BLOCK / 2 >
           w->reserved_ids;
}

static int put_housekeeping(struct spool_writer *w, struct spool_txn *txn)
{
    int err = 0;
    for (uint32_t i = 0; err == 0 && i < w->discard_count; i++) {
        err = spool_discard(txn, w->discards[i]);
    }
    for (uint32_t i = 0; err == 0 && i < w->damaged_count; i++) {
        err = spool_quarantine(txn, w->damaged[i]);
    }
    w->reserving_ids = 0;
    if (err == 0 && needs_ids(w)) {
        uint64_t next = atomic_load_explicit(&w->engine->next_id, memory_order_relaxed);
        w->reserving_ids = next + ID_BLOCK;
        err = spool_reserve_ids(txn, w->reserving_ids);
    }
    return err;
}

static void housekeeping_committed(struct spool_writer *w)
{
    if (w->reserving_ids != 0) {
        w->reserved_ids = w->reserving_ids;
        atomic_store_explicit(&w->engine->id_limit, w->reserved_ids, memory_order_release);
    }
    for (uint32_t i = 0; i < w->damaged_count; i++) {
        char id[MESSAGE_ID_TEXT];
        message_id_format(w->damaged[i]->id, id);
        log_error("spool: message %s is damaged; its records are in quarantine", id);
        outbox_put(&w->to_activator, LETTER_SETTLED, NULL, w->damaged[i]->id);
        free(w->damaged[i]);
    }
    w->damaged_count = 0;
    w->discard_count = 0;
}

/* The event lines of results must be in the file before the commit that acts on them. */
static int write_log(struct spool_writer *w)
{
    if (w->log.len == 0 || w->engine->events == NULL) {
        buf_clear(&w->log);
        return 0;
    }
    int err = event_log_append(w->engine->events, buf_slice(&w->log));
    if (err == 0) {
        buf_clear(&w->log);
    }
    return err;
}

/* One transaction with everything that waits. On an error nothing of it is stored. */
static int write_batch(struct spool_writer *w)
{
    struct spool_txn *txn;
    usec_t now = clock_wall();
    int err = spool_begin(w->engine->store, &txn);
    if (err != 0) {
        return err;
    }
    err = settle_write(&w->settle, txn, now);
    if (err == 0) {
        err = put_housekeeping(w, txn);
    }
    for (uint32_t i = 0; err == 0 && i < w->part_count; i++) {
        struct intake *in = w->parts[i];
        in->error = put_part(txn, in);
        /* What concerns this one alone is its answer; anything else fails them all. */
        err = in->error == ERR_LIMIT || in->error == -EEXIST || in->error == ERR_MISSING ||
                      in->error == ERR_CORRUPT
                  ? 0
                  : in->error;
    }
    if (err == 0) {
        err = write_log(w);
    }
    if (err != 0) {
        spool_abort(txn);
        return err;
    }
    return spool_commit(txn);
}

/* --- after the commit --------------------------------------------------------------------------
 */

static void message_done(void *ctx, struct message *m)
{
    struct spool_writer *w = ctx;
    outbox_put(&w->to_activator, LETTER_SETTLED, m, m->envelope.id);
}

/* A committed message goes to the reader, which decides whether it becomes active at once. */
static void announce(struct spool_writer *w, struct intake *in)
{
    struct message *m = in->message;
    in->message = NULL;
    if (m == NULL) {
        outbox_put(&w->to_activator, LETTER_ARRIVED, NULL, in->position.time);
        return;
    }
    m->envelope.chunk_count = in->envelope.chunk_count; /* known since the last part was put */
    m->position = in->position;
    outbox_put(&w->to_activator, LETTER_ARRIVED, m, in->position.time);
}

static void answer(struct spool_writer *w, struct intake *in, int err)
{
    in->error = err;
    atomic_fetch_sub_explicit(&w->engine->intake_bytes, in->body.len + in->packed.len,
                              memory_order_relaxed);
    outbox_put(&w->to_workers[in->worker], in->is_last ? LETTER_STORED : LETTER_STAGED, in, 0);
}

static void batch_committed(struct spool_writer *w)
{
    usec_t now = clock_wall();
    for (uint32_t i = 0; i < w->settle.notice_count; i++) {
        struct intake *in = w->settle.notices[i];
        notice_log_reception(&w->log, in, now);
        announce(w, in);
        intake_free(in);
    }
    w->settle.notice_count = 0;
    for (uint32_t i = 0; i < w->part_count; i++) {
        if (w->parts[i]->is_last && w->parts[i]->error == 0) {
            notice_log_reception(&w->log, w->parts[i], now);
            atomic_fetch_add_explicit(&w->engine->received, 1, memory_order_relaxed);
        }
    }
    if (write_log(w) != 0) {
        log_warning("event log: cannot write; %zu bytes wait in memory", w->log.len);
    }
    for (uint32_t i = 0; i < w->part_count; i++) {
        struct intake *in = w->parts[i];
        if (in->is_last && in->error == 0) {
            announce(w, in);
        }
        answer(w, in, in->error);
    }
    w->part_count = 0;
    w->batch_bytes = 0;
    engine_durable(w->engine, settle_committed(&w->settle, message_done, w));
    housekeeping_committed(w);
}

static void refuse_parts(struct spool_writer *w, int err)
{
    for (uint32_t i = 0; i < w->part_count; i++) {
        answer(w, w->parts[i], err);
    }
    w->part_count = 0;
    w->batch_bytes = 0;
}

static void wake_all(void *ctx)
{
    engine_wake_all(ctx);
}

static void batch_failed(struct spool_writer *w, int err)
{
    if (!w->is_broken) {
        log_error("spool: commit failed: %s; intake and dispatch stop until it works again",
                  err_str(err));
        engine_gate_set(w->engine, ENGINE_GATE_BROKEN);
        w->is_broken = true;
    }
    settle_failed(&w->settle);
    refuse_parts(w, err);
    if (err == -ENOSPC || err == -EDQUOT) {
        spool_store_drop_ballast(w->engine->store);
    }
    w->retry_at = clock_mono() + retry_interval;
}

/* The store is opened anew, then everything that waits in memory is written first. */
static void try_again(struct spool_writer *w)
{
    refuse_parts(w, -EIO);
    if (clock_mono() < w->retry_at) {
        return;
    }
    w->retry_at = clock_mono() + retry_interval;
    int err = !spool_store_must_reopen(w->engine->store)
                  ? 0
                  : spool_store_reopen(w->engine->store, wake_all, w->engine);
    if (err == ERR_AGAIN) {
        w->retry_at = clock_mono() + 10 * USEC_PER_MSEC;
        return;
    }
    if (err == 0) {
        err = write_batch(w);
    }
    if (err != 0) {
        settle_failed(&w->settle);
        return;
    }
    batch_committed(w);
    w->is_broken = false;
    engine_gate_clear(w->engine, ENGINE_GATE_BROKEN);
    log_info("spool: works again");
}

static void watch_space(struct spool_writer *w)
{
    usec_t now = clock_mono();
    if (now - w->space_seen < 100 * USEC_PER_MSEC) {
        return;
    }
    w->space_seen = now;
    uint64_t reserve = w->engine->config->spool.reserve;
    uint64_t free_bytes = spool_store_free_bytes(w->engine->store);
    bool is_low = (engine_gate(w->engine) & ENGINE_GATE_LOW_SPACE) != 0;
    if (!is_low && free_bytes < reserve) {
        log_warning("spool: %llu bytes free, below spool_reserve; new mail is refused with 452",
                    (unsigned long long)free_bytes);
        engine_gate_set(w->engine, ENGINE_GATE_LOW_SPACE);
    } else if (is_low && free_bytes >= reserve + reserve / 16) {
        log_info("spool: space is back, mail is accepted again");
        engine_gate_clear(w->engine, ENGINE_GATE_LOW_SPACE);
        spool_store_restore_ballast(w->engine->store);
    }
}

/* --- the thread --------------------------------------------------------------------------------
 */

/* Lines are in the file before the commit that needs them, which outlives a crash of the process;
 * one sync a second bounds what a power cut takes from the log. */
static void sync_log(struct spool_writer *w)
{
    struct event_log *log = w->engine->events;
    usec_t now = clock_mono();
    if (log != NULL && log->has_unsynced && now - w->synced >= USEC_PER_SEC) {
        w->synced = now;
        int err = event_log_sync(log);
        if (err != 0) {
            log_error("event log: sync: %s", err_str(err));
        }
    }
}

/* Whether this pass commits. Results alone wait a moment, unless so many are undurable that
 * dispatch would soon stop. */
static bool must_write(struct spool_writer *w)
{
    if (w->part_count > 0 || w->discard_count > 0 || w->damaged_count > 0 || needs_ids(w)) {
        return true;
    }
    if (list_is_empty(&w->settle.touched)) {
        w->results_due = 0;
        return false;
    }
    usec_t now = clock_mono();
    if (w->results_due == 0) {
        w->results_due = now + results_patience;
    }
    return now >= w->results_due || atomic_load(&w->is_stopping) ||
           atomic_load_explicit(&w->engine->undurable, memory_order_relaxed) >
               w->engine->dispatch_limit / 2;
}

static void pass(struct spool_writer *w)
{
    if (w->rotate) {
        w->rotate = false;
        if (w->engine->events != NULL && event_log_reopen(w->engine->events) != 0) {
            log_error("event log: cannot reopen the file; the old one stays in use");
        }
    }
    if (w->is_broken) {
        try_again(w);
    } else if (must_write(w)) {
        int err = write_batch(w);
        w->results_due = 0;
        if (err == 0) {
            batch_committed(w);
        } else {
            batch_failed(w, err);
        }
    }
    watch_space(w);
    sync_log(w);
    (void)outbox_flush(&w->to_activator); /* what does not fit goes with the next flush */
    for (uint32_t i = 0; i < w->engine->worker_count; i++) {
        (void)outbox_flush(&w->to_workers[i]);
    }
}

static bool has_waiting_letters(const struct spool_writer *w)
{
    if (w->to_activator.count > 0) {
        return true;
    }
    for (uint32_t i = 0; i < w->engine->worker_count; i++) {
        if (w->to_workers[i].count > 0) {
            return true;
        }
    }
    return false;
}

static void nap(struct spool_writer *w)
{
    usec_t deadline = USEC_NEVER;
    if (w->is_broken) {
        deadline = w->retry_at;
    } else if ((engine_gate(w->engine) & ENGINE_GATE_LOW_SPACE) != 0) {
        deadline = clock_mono() + retry_interval;
    }
    if (w->engine->events != NULL && w->engine->events->has_unsynced &&
        w->synced + USEC_PER_SEC < deadline) {
        deadline = w->synced + USEC_PER_SEC;
    }
    if (w->results_due != 0 && w->results_due < deadline) {
        deadline = w->results_due;
    }
    if (has_waiting_letters(w)) {
        deadline = clock_mono() + USEC_PER_MSEC;
    }
    waker_prepare(&w->box.waker);
    if (ring_count(w->box.ring) == 0 && !atomic_load(&w->is_stopping)) {
        rcu_sleep();
        waker_wait(&w->box.waker, deadline);
        rcu_awake();
    }
    waker_finish(&w->box.waker);
}

static void run(void *arg)
{
    struct spool_writer *w = arg;
    for (;;) {
        bool is_stopping = atomic_load(&w->is_stopping);
        bool took = take_batch(w);
        pass(w);
        rcu_pass();
        if (took || w->has_more) {
            continue;
        }
        if (is_stopping && list_is_empty(&w->settle.touched)) {
            return;
        }
        if (is_stopping && w->is_broken) {
            /* A broken spool keeps its results in memory; what they say is then repeated. */
            return;
        }
        nap(w);
    }
}

int spool_writer_start(struct spool_writer *w)
{
    struct engine *e = w->engine;
    w->to_workers = calloc(e->worker_count, sizeof(*w->to_workers));
    if (w->to_workers == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < e->worker_count; i++) {
        outbox_init(&w->to_workers[i], worker_box(e->workers[i]));
    }
    outbox_init(&w->to_activator, activator_box(e->activator));
    return thread_start(&w->thread, "spool-writer", run, w);
}

void spool_writer_stop(struct spool_writer *w)
{
    atomic_store(&w->is_stopping, true);
    waker_kick(&w->box.waker);
    thread_join(&w->thread);
}
