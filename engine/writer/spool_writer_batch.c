/* How the spool writer's batch is written, and who hears of it after the commit: the activator, the
 * sessions, and whoever counts. Called by spool_writer.c on the writer's thread; decides neither
 * when a batch is written nor what is in it. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/event/event_log.h"
#include "engine/post/backlog.h"
#include "engine/post/intake.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/replica/replica.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/tally/tally.h"
#include "engine/writer/name_keeper.h"
#include "engine/writer/notice.h"
#include "engine/writer/spool_writer_private.h"

#include <errno.h>

int spool_writer_write_log(struct spool_writer *w)
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

struct outbox *spool_writer_to_http(struct spool_writer *w)
{
    return &w->to_workers[w->engine->worker_count];
}

void spool_writer_take_part(struct spool_writer *w, struct intake *in, bool is_last)
{
    in->is_last = is_last;
    w->parts[w->part_count++] = in;
    w->batch_bytes += in->body.len + in->packed.len;
    w->received = clock_mono();
}

void spool_writer_take_receptions(struct spool_writer *w)
{
    enum { BATCH_BYTES = 8 << 20 };
    struct letter letter;
    while (w->part_count < SPOOL_WRITER_PARTS && w->batch_bytes < BATCH_BYTES &&
           post_take_first(&w->post, &letter)) {
        if (letter.kind == LETTER_STORE) {
            spool_writer_take_part(w, letter_take_store(&letter), true);
        } else {
            spool_writer_take_part(w, letter_take_stage(&letter), false);
        }
    }
}

bool spool_writer_journal_takes(const struct spool_writer *w, usec_t now)
{
    if (!spool_journal_is_open(w->engine->store) || now < w->journal_after) {
        return false;
    }
    for (uint32_t i = 0; i < w->part_count; i++) {
        if (!intake_fits_journal(w->parts[i])) {
            return false;
        }
    }
    return true;
}

void spool_writer_rest_journal(struct spool_writer *w, int err)
{
    static const usec_t pause = 10 * USEC_PER_SEC;
    log_warning("spool: the journal cannot be written: %s; the tables are used meanwhile",
                err_str(err));
    w->journal_after = clock_mono() + pause;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void begin_replica(struct spool_writer *w, bool is_idle)
{
    if (w->engine->replica != NULL) {
        replica_begin(w->engine->replica, is_idle);
    }
}

/* errors: of the store */
static int note_replica(struct spool_writer *w, struct spool_txn *txn)
{
    return w->engine->replica == NULL ? 0 : replica_note(w->engine->replica, txn);
}

/* The servers have all of the batch when this returns 0. As with a disk that stalls, waiting must not
 * stop reclaim, and no RCU pointer of this pass is used after it. */
static int ship_replica(struct spool_writer *w)
{
    if (w->engine->replica == NULL) {
        return 0;
    }
    rcu_sleep();
    usec_t before = clock_mono();
    int err = replica_ship(w->engine->replica);
    w->shipped_for = clock_mono() - before;
    rcu_awake();
    return err;
}

static int heed_commit(struct spool_writer *w, int err)
{
    if (err != 0 && w->engine->replica != NULL) {
        replica_doubt(w->engine->replica);
    }
    return err;
}

int spool_writer_retell(struct spool_writer *w)
{
    begin_replica(w, true);
    return ship_replica(w);
}

/* How long the transaction takes results: new mail that comes meanwhile waits for all of it. About as
 * long as its commit is going to take, so that many results share that; without new mail all that
 * there are. */
static usec_t settle_span(const struct spool_writer *w)
{
    static const usec_t least = 5 * USEC_PER_MSEC, most = 40 * USEC_PER_MSEC;
    bool is_quiet = w->received == 0 || clock_mono() - w->received > USEC_PER_SEC;
    if (is_quiet || w->commit_took > most) {
        return is_quiet ? USEC_NEVER : most;
    }
    return w->commit_took < least ? least : w->commit_took;
}

static int write_tables(struct spool_writer *w)
{
    struct spool_txn *txn;
    usec_t now = clock_wall();
    int err = spool_begin(w->engine->store, &txn);
    if (err != 0) {
        return err;
    }
    begin_replica(w, false);
    suppressor_begin(&w->suppressor);
    adopter_begin(&w->adopter);
    err = journaled_put(&w->journaled, txn, NULL);
    if (err == 0) {
        const struct message *put = journaled_last(&w->journaled);
        w->settle.span = settle_span(w);
        err = settle_write(&w->settle, txn, now);
        err = err == 0 ? journaled_put(&w->journaled, txn, put) : err; /* came meanwhile */
    }
    if (err == 0) {
        err = spool_absorb_journal(txn);
    }
    if (err == 0) {
        err = housekeeping_put(&w->housekeeping, txn);
    }
    for (uint32_t i = 0; err == 0 && i < w->part_count; i++) {
        struct intake *in = w->parts[i];
        in->error = intake_put(in, txn);
        /* An error of this reception alone becomes its answer; any other fails the whole batch. */
        err = in->error == ERR_LIMIT || in->error == -EEXIST || in->error == ERR_MISSING ||
                      in->error == ERR_CORRUPT
                  ? 0
                  : in->error;
    }
    err = err == 0 ? adopter_put(&w->adopter, txn) : err;
    err = err == 0 ? hearings_put(&w->hearings, &w->suppressor, txn) : err;
    err = err == 0 ? suppressor_put(&w->suppressor, txn) : err;
    if (err == 0) {
        err = spool_forget_flows(txn);
    }
    err = err == 0 ? note_replica(w, txn) : err;
    /* While the disk fails, it is asked first: the same batch comes twice a second, and each copy of it
     * would stay in the log, which nothing shortens meanwhile. Nobody's reception is in it. */
    err = err == 0 && !w->is_broken ? ship_replica(w) : err;
    if (err == 0) {
        /* Not before: a batch that is not shipped is made again, and these lines with it. */
        buf_append_slice(&w->log, buf_slice(&w->suppressor.lines));
        hearings_log(&w->hearings, &w->log);
        err = heed_commit(w, spool_writer_write_log(w));
    }
    if (err != 0) {
        spool_abort(txn);
        return err;
    }
    /* A disk that stalls must not stop reclaim. No RCU pointer of this pass is used after this. */
    rcu_sleep();
    usec_t before = clock_mono();
    err = spool_commit(txn);
    w->commit_took = clock_mono() - before;
    rcu_awake();
    if (err == 0 && w->is_broken) {
        (void)heed_commit(w, ship_replica(w)); /* it counts, and a retelling says so to the log */
    }
    return heed_commit(w, err);
}

int spool_writer_write_tables(struct spool_writer *w)
{
    int err = write_tables(w);
    if (adopter_has_failed(&w->adopter)) { /* which the mail of this node has nothing to do with */
        settle_failed(&w->settle);
        err = write_tables(w);
    }
    return err;
}

/* Writes the receptions of the batch into the journal's. */
static int put_parts(struct spool_writer *w)
{
    int err = 0;
    for (uint32_t i = 0; err == 0 && i < w->part_count; i++) {
        err = intake_put_journal(w->parts[i], w->engine->store);
    }
    return err;
}

int spool_writer_write_journal(struct spool_writer *w)
{
    struct spool_store *store = w->engine->store;
    begin_replica(w, false);
    int err = settle_write_journal(&w->settle, store);
    err = err == 0 ? put_parts(w) : err;
    err = err == 0 ? ship_replica(w) : err;
    if (err != 0) {
        spool_journal_abort(store);
        return err;
    }
    rcu_sleep(); /* as in spool_writer_write_tables */
    err = spool_journal_commit(store);
    rcu_awake();
    return heed_commit(w, err);
}

/* --- after the commit ------------------------------------------------------------------------- */

static void count_reception(struct spool_writer *w, const struct intake *in)
{
    struct tally *t = w->engine->tally;
    uint16_t tenant = tally_tenant(t, &in->envelope);
    tally_received(t, tenant, &in->envelope);
    if (in->is_class_lowered) {
        tally_lowered(t, tenant);
    }
    if (in->message != NULL) {
        in->message->account.tenant_row = tenant;
    }
    atomic_fetch_add_explicit(&w->engine->received, 1, memory_order_relaxed);
}

static void message_done(void *ctx, struct message *m)
{
    struct spool_writer *w = ctx;
    admission_settled(&w->admission, m);
    journaled_drop(&w->journaled, m);
    if (m->envelope.recipient_count >= SPOOL_REASONS_AT_ONCE) {
        /* Removes reasons that spool_remove left, also those of an earlier attempt; it does nothing
         * when the message is still there. */
        housekeeping_discard(&w->housekeeping, m->envelope.id);
    }
    letter_put_settled(w->to_activator, m, m->envelope.id);
}

/* Tells the activator of a message in the tables. It gets the message itself when nothing of its flow
 * waits in front of it in the spool, and decides whether it becomes active at once. */
static void announce(struct spool_writer *w, struct intake *in)
{
    struct message *m = in->message;
    if (in->position.class == SPOOL_HELD) {
        letter_put_held(w->to_activator, in->position.flow, in->position.time);
        return;
    }
    if (m == NULL || backlog_is_seen(w->engine, in->position.flow)) {
        letter_put_queued(w->to_activator, in->position.flow, in->position.time);
        return;
    }
    in->message = NULL;
    m->envelope.chunk_count = in->envelope.chunk_count; /* known since the last part was put */
    m->position = in->position;
    letter_put_arrived(w->to_activator, m);
}

/* Tells the activator of a message that only the journal has. The activator takes the mail of a flow in
 * order: when other mail of it is in front of this message (in the spool, or in the journal and not
 * announced either), it is announced once a transaction has moved it to the tables. */
static void announce_journaled(struct spool_writer *w, struct intake *in)
{
    struct message *m = in->message;
    const uint32_t flow = in->position.flow;
    bool is_announced =
        !backlog_is_seen(w->engine, flow) && !journaled_has_unannounced(&w->journaled, flow);
    journaled_add(&w->journaled, in, is_announced, clock_mono());
    if (is_announced) {
        letter_put_arrived(w->to_activator, m);
    }
}

/* Tells the activator that the tables have messages of the journal that were not announced. */
static void announce_absorbed(void *ctx, uint32_t flow, uint64_t place)
{
    struct spool_writer *w = ctx;
    letter_put_queued(w->to_activator, flow, place);
}

/* The part leaves the batch. */
static void give_memory_back(struct spool_writer *w, const struct intake *in)
{
    size_t bytes = in->body.len + in->packed.len;
    atomic_fetch_sub_explicit(&w->engine->intake_bytes, bytes, memory_order_relaxed);
    w->batch_bytes -= bytes;
}

static void answer(struct spool_writer *w, struct intake *in, int err)
{
    in->error = err;
    if (in->is_last) {
        letter_put_stored(&w->to_workers[in->worker], in);
    } else {
        letter_put_staged(&w->to_workers[in->worker], in);
    }
}

/* When the next batch may begin. Most of what servers do for a frame does not depend on what is in it:
 * so at load mail is gathered for as long as they took for the last one, and a quarter fewer frames
 * are needed. At less, whoever waits for a 250 would wait for that too, and for little. */
static usec_t gathering_end(const struct spool_writer *w)
{
    enum { RECEPTIONS_AT_LOAD = 16 };
    static const usec_t most = 5 * USEC_PER_MSEC;
    if (w->engine->replica == NULL || w->part_count < RECEPTIONS_AT_LOAD) {
        return 0;
    }
    return clock_mono() + (w->shipped_for < most ? w->shipped_for : most);
}

static void log_receptions(struct spool_writer *w, usec_t now)
{
    for (uint32_t i = 0; i < w->part_count; i++) {
        if (w->parts[i]->is_last && w->parts[i]->error == 0) {
            notice_log_reception(&w->log, w->parts[i], now);
            count_reception(w, w->parts[i]);
        }
    }
    if (spool_writer_write_log(w) != 0) {
        log_warning("event log: cannot write; %zu bytes wait in memory", w->log.len);
    }
}

/* The parts of the batch are durable. */
static void answer_parts(struct spool_writer *w, bool is_journal)
{
    for (uint32_t i = 0; i < w->part_count; i++) {
        struct intake *in = w->parts[i];
        give_memory_back(w, in);
        admission_answered(&w->admission, in, in->error == 0);
        if (is_journal) {
            announce_journaled(w, in);
        } else if (in->is_last && in->error == 0) {
            announce(w, in);
        }
        answer(w, in, in->error);
    }
    w->part_count = 0;
}

/* What the transaction under way has taken so far is the same with or without this: the journal is a
 * file of its own, and the transaction takes over what is put here before it ends (write_tables). A crash
 * before that finds the journal's generation in force, and these receptions in it. With a log in the
 * cluster they wait, as the transaction's changes are being gathered for it. Nothing that the transaction
 * brings has a place in the queue yet, notices neither: nobody is told of it before the commit, and the
 * activator would take it for mail that it has met when it got mail from behind it first (backlog.h). */
void spool_writer_take_meanwhile(void *ctx)
{
    struct spool_writer *w = ctx;
    post_assert_owner(&w->post);
    if (!post_has_first(&w->post) || w->part_count > 0 || w->is_broken || post_must_end(&w->post) ||
        w->engine->replica != NULL) {
        return;
    }
    spool_writer_take_receptions(w);
    spool_writer_admit_parts(w);
    if (w->part_count == 0 || !spool_writer_journal_takes(w, clock_mono())) {
        return;
    }
    int err = put_parts(w);
    if (err != 0) {
        spool_journal_abort(w->engine->store);
        return; /* it is full: they go with the transaction */
    }
    rcu_sleep(); /* as in spool_writer_write_tables; no RCU pointer is kept between messages */
    err = spool_journal_commit(w->engine->store);
    rcu_awake();
    if (err != 0) {
        spool_writer_rest_journal(w, err);
        return;
    }
    log_receptions(w, clock_wall());
    answer_parts(w, true);
    (void)post_flush(&w->post); /* what does not fit goes at the end of the pass */
}

void spool_writer_committed(struct spool_writer *w, bool is_journal) ON_ROLE(w->post)
{
    usec_t now = clock_wall();
    w->gathers_until = gathering_end(w);
    bool has_rest = settle_has_rest(&w->settle);
    uint64_t durable = settle_committed(&w->settle, message_done, w);
    w->delivered_due = 0; /* results that come from now on get a wait of their own */
    if (!is_journal) {
        w->touched_due = has_rest ? clock_mono() : 0;
        w->touched_since = 0;
        journaled_absorbed(&w->journaled, announce_absorbed, w);
    }
    for (uint32_t i = 0; i < w->settle.notice_count; i++) {
        struct intake *in = w->settle.notices[i];
        notice_log_reception(&w->log, in, now);
        admission_notice(&w->admission, in);
        announce(w, in);
        intake_free(in);
    }
    w->settle.notice_count = 0;
    log_receptions(w, now);
    answer_parts(w, is_journal);
    engine_durable(w->engine, durable);
    if (w->engine->replica != NULL) {
        replica_committed(w->engine->replica, !is_journal);
    }
    if (!is_journal) {
        suppressor_committed(&w->suppressor, spool_writer_to_http(w));
        hearings_answer(&w->hearings, 0, w->to_workers);
        if (w->housekeeping.damaged_count > 0) {
            admission_doubt(&w->admission);
        }
        housekeeping_committed(&w->housekeeping, w->to_activator);
        if (adopter_is_due(&w->adopter)) {
            adopter_committed(&w->adopter, w->to_activator);
            admission_doubt(&w->admission);
        }
    }
}

void spool_writer_admit_parts(struct spool_writer *w)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->part_count; i++) {
        struct intake *in = w->parts[i];
        if (w->has_limits && in->is_last && !admission_take(&w->admission, in)) {
            give_memory_back(w, in);
            answer(w, in, ERR_QUOTA);
        } else {
            w->parts[kept++] = in;
        }
    }
    w->part_count = kept;
    if (kept > 0) {
        name_keeper_keep(w->engine, w->parts, kept);
    }
}

void spool_writer_refuse_parts(struct spool_writer *w, int err)
{
    for (uint32_t i = 0; i < w->part_count; i++) {
        give_memory_back(w, w->parts[i]);
        admission_answered(&w->admission, w->parts[i], false);
        answer(w, w->parts[i], err);
    }
    w->part_count = 0;
    suppressor_refuse(&w->suppressor, err, spool_writer_to_http(w));
    hearings_answer(&w->hearings, err, w->to_workers);
}
