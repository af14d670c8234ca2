/* Order inside one commit: results (their event lines are written first), then receptions; then
 * answers. A reception is answered, activated and logged only when the commit that holds it is
 * durable.
 *
 * A commit goes to the journal when that can hold all of it: small receptions, and removals of
 * messages that only the journal has. Every transaction takes over what the journal holds, so the
 * journal is only ever ahead of the tables, and never beside them. When a transaction is due, such
 * receptions are committed to the journal and answered before it begins, for a client waits for them
 * and nobody for results. Those that come while the transaction takes results are committed to the
 * journal between two messages, and taken over by it at its end; those that come during its commit wait
 * for that, so while new mail comes it takes no more results than suits its commit.
 *
 * Receptions have a ring of their own (post.h, `first`), so they wait behind no line of results. A batch
 * takes as many of either as it has room for, so neither keeps the other waiting. No order between the
 * two rings is needed: a reception's parts are one letter at a time, and what else is said about it
 * (LETTER_DISCARD, results) follows the answer to the part before it. */
#include "engine/writer/spool_writer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/event/event_log.h"
#include "engine/post/in_core.h"
#include "engine/post/intake.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/signing.h"
#include "engine/replica/replica.h"
#include "engine/reply/reply_set.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/tally_queued.h"
#include "engine/writer/left_letter.h"
#include "engine/writer/notice.h"
#include "engine/writer/spool_writer_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { BATCH_LETTERS = 4096 }; /* beside receptions */
static const usec_t retry_interval = 500 * USEC_PER_MSEC;
/* How long results without a reception wait for one whose commit carries them; nobody waits for
 * these results. Those that need a transaction (touched) wait longer: each transaction also moves
 * the journal's messages to the tables, most of which are delivered a moment later. */
static const usec_t delivered_patience = 5 * USEC_PER_MSEC;
static const usec_t touched_patience = 20 * USEC_PER_MSEC;
/* The longest that these wait where transactions take long: mail of many flows lies on as many pages, and
 * each transaction writes a page once, however many of its results change that. */
static const usec_t touched_patience_most = 100 * USEC_PER_MSEC;
/* How long an orderly stop waits for the log. */
static const usec_t log_patience = 5 * USEC_PER_SEC;

static void write_gathered(void *ctx)
{
    /* On an error the lines stay, and the write before the commit decides. */
    (void)spool_writer_write_log(ctx);
}

static void wake_writer(void *ctx)
{
    struct spool_writer *w = ctx;
    mailbox_wake(&w->post.box);
}

int spool_writer_new(struct engine *engine, struct spool_writer **ret)
{
    struct spool_writer *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return -ENOMEM;
    }
    w->engine = engine;
    buf_init(&w->log, 0);
    journaled_init(&w->journaled);
    w->parts = calloc(SPOOL_WRITER_PARTS, sizeof(struct intake *));
    int err = w->parts == NULL ? -ENOMEM : post_init(&w->post, 1 << 16);
    err = err == 0 ? post_init_first(&w->post, 1 << 12) : err;
    if (err == 0) {
        err = spool_reader_new(engine->store, &w->reader);
    }
    admission_init(&w->admission, engine, w->reader);
    /* Out of memory: the lines of expired recipients have no class. */
    const struct notice_log log = {
        .lines = &w->log, .write = write_gathered, .ctx = w, .matcher = reply_matcher_new()};
    suppressor_init(&w->suppressor, engine);
    settle_init(&w->settle, engine, w->reader, &w->suppressor, &log);
    w->settle.between = spool_writer_take_meanwhile;
    w->settle.between_ctx = w;
    w->adopter.engine = engine;
    reaction_log_init(&w->reactions, engine->limits, engine->events, wake_writer, w);
    if (err == 0) {
        err = hearings_init(&w->hearings, engine);
    }
    if (err == 0) {
        err = housekeeping_init(&w->housekeeping, engine);
    }
    if (err != 0) {
        spool_writer_free(w);
        return err;
    }
    if (engine->replica != NULL) {
        w->waits_for_log = true;
        engine_gate_set(engine, ENGINE_GATE_LOG);
    }
    *ret = w;
    return 0;
}

struct mailbox *spool_writer_box(struct spool_writer *w)
{
    return &w->post.box;
}

struct mailbox *spool_writer_receptions(struct spool_writer *w)
{
    return &w->post.first;
}

void spool_writer_free(struct spool_writer *w)
{
    if (w == NULL) {
        return;
    }
    struct letter letter;
    while (post_take_left(&w->post, &letter)) {
        left_letter_drop(&letter);
    }
    post_fini(&w->post);
    settle_fini(&w->settle);
    suppressor_fini(&w->suppressor);
    hearings_fini(&w->hearings);
    journaled_fini(&w->journaled);
    spool_reader_free(w->reader);
    housekeeping_fini(&w->housekeeping);
    reaction_log_fini(&w->reactions);
    free(w->parts);
    buf_fini(&w->log);
    free(w);
}

/* --- taking letters --------------------------------------------------------------------------- */

/* The activator had no room for the message: it will read it from the tables later. */
static void take_back(struct spool_writer *w, struct message *m)
{
    if (list_is_linked(&m->account.journaled)) {
        journaled_take_back(&w->journaled, m, clock_mono());
    } else {
        letter_put_queued(w->to_activator, m->position.flow, m->position.time);
    }
    message_put(m);
}

/* Recipients of a message that gives its place in memory back. With the last of them its activation
 * is over, and the message waits where it was. */
static void take_given_way(struct spool_writer *w, struct message *m, uint32_t count)
{
    assert(m->account.pending >= count && m->account.fresh == NULL);
    m->account.pending -= count;
    in_core_remove(w->engine, m, count);
    if (m->account.pending > 0) {
        return;
    }
    m->is_returned = true;
    if (m->signing != NULL && m->signing->is_done) { /* its fields go with it, and are made anew */
        atomic_fetch_add_explicit(&w->engine->seals_again[m->signing->result], 1,
                                  memory_order_relaxed);
    }
    if (list_is_linked(&m->account.journaled)) {
        journaled_take_back(&w->journaled, m, clock_mono());
    }
    atomic_fetch_add_explicit(&w->engine->given_back, 1, memory_order_relaxed);
    letter_put_settled(w->to_activator, m, m->envelope.id);
}

static void take_no_result(struct spool_writer *w, const struct letter *letter)
{
    uint32_t count;
    unsigned shares;
    struct message *lent = letter_take_no_result(letter, &count, &shares);
    if ((shares & RESULT_GIVES_WAY) != 0) {
        take_given_way(w, lent, count);
        return;
    }
    settle_without_result(&w->settle, lent, count, shares);
}

static void take_park(struct spool_writer *w, const struct letter *letter)
{
    usec_t until;
    struct spool_position *from = letter_take_park(letter, &until);
    housekeeping_park(&w->housekeeping, from, until, w->to_activator);
    free(from);
}

static void take_writer_letter(struct spool_writer *w, const struct letter *letter) ON_ROLE(w->post)
{
    switch (letter->kind) {
    case LETTER_DISCARD:
        housekeeping_discard(&w->housekeeping, letter_take_discard(letter));
        break;
    case LETTER_RESULT:
        settle_collect(&w->settle, letter_take_result(letter));
        break;
    case LETTER_NO_RESULT:
        take_no_result(w, letter);
        break;
    case LETTER_DAMAGED:
        housekeeping_quarantine(&w->housekeeping, letter_take_damaged(letter), w->to_activator);
        break;
    case LETTER_PARK:
        take_park(w, letter);
        break;
    case LETTER_HEARD:
        hearings_take(&w->hearings, letter_take_heard(letter));
        break;
    case LETTER_SUPPRESS:
        suppressor_take(&w->suppressor, letter_take_suppress(letter), spool_writer_to_http(w));
        break;
    case LETTER_RETURNED:
        take_back(w, letter_take_returned(letter));
        break;
    case LETTER_ROTATE:
        w->rotate = true;
        break;
    default:
        assert(false && "unknown letter to the spool writer");
    }
}

static bool take_batch(struct spool_writer *w) ON_ROLE(w->post)
{
    struct letter letter;
    uint32_t taken = 0;
    spool_writer_take_receptions(w);
    w->has_more = post_has_first(&w->post);
    while (post_take(&w->post, &letter)) {
        take_writer_letter(w, &letter);
        if (++taken == BATCH_LETTERS) {
            w->has_more = true;
            break;
        }
    }
    return taken > 0 || w->part_count > 0;
}

static void wake_all(void *ctx)
{
    engine_wake_all(ctx);
}

/* Ids are given once, so one that is there already is a bug of ours, and which of the two messages a result is
 * for cannot be told. The journal has all that was acknowledged. */
static void end_if_id_is_taken(int err)
{
    if (err == -EEXIST) {
        log_error("spool: another message has an id that was given now; stopping: the next start "
                  "gives those in the journal a new one");
        _exit(EX_SOFTWARE);
    }
}

static void batch_failed(struct spool_writer *w, int err) ON_ROLE(w->post)
{
    end_if_id_is_taken(err);
    if (!w->is_broken) {
        log_error("spool: commit failed: %s; intake and dispatch stop until it works again",
                  err_str(err));
        atomic_store_explicit(&w->engine->broken_by, err, memory_order_relaxed);
        engine_gate_set(w->engine, ENGINE_GATE_BROKEN);
        w->is_broken = true;
    }
    settle_failed(&w->settle);
    adopter_failed(&w->adopter);
    spool_writer_refuse_parts(w, err);
    if (err == -ENOSPC || err == -EDQUOT) {
        spool_store_drop_ballast(w->engine->store);
    }
    w->retry_at = clock_mono() + retry_interval;
}

/* --- the log ---------------------------------------------------------------------------------- */

/* The batch did not get into the log, or nobody knows. Results stay in memory, so deliveries go on
 * until as many are without a durable result as a crash may repeat. */
static void wait_for_log(struct spool_writer *w, int err) ON_ROLE(w->post)
{
    if (!w->waits_for_log) {
        log_warning("log: it does not work: %s; new mail is refused until it does", err_str(err));
        engine_gate_set(w->engine, ENGINE_GATE_LOG);
        w->waits_for_log = true;
    }
    spool_writer_refuse_parts(w, err);
}

static void log_failed(struct spool_writer *w, int err) ON_ROLE(w->post)
{
    settle_failed(&w->settle);
    adopter_failed(&w->adopter);
    wait_for_log(w, err);
}

/* Whether a batch can be committed; without a log it always can. */
static bool log_lets(struct spool_writer *w) ON_ROLE(w->post)
{
    if (w->engine->replica == NULL) {
        return true;
    }
    if (!replica_is_ready(w->engine->replica)) {
        wait_for_log(w, ERR_CLOSED);
        return false;
    }
    /* With the log the spool gets its number, and ids that have it are reserved first. */
    uint64_t next = atomic_load_explicit(&w->engine->next_id, memory_order_relaxed);
    if (w->waits_for_log && engine_id_is_reserved(w->engine, next)) {
        w->waits_for_log = false;
        log_info("log: it works, mail is accepted");
        engine_gate_clear(w->engine, ENGINE_GATE_LOG);
    }
    return true;
}

static void watch_log_room(struct spool_writer *w) ON_ROLE(w->post)
{
    if (w->engine->replica == NULL) {
        return;
    }
    bool is_full = replica_is_full(w->engine->replica);
    bool was_full = (engine_gate(w->engine) & ENGINE_GATE_LOG_FULL) != 0;
    if (is_full && !was_full) {
        log_warning("log: it has no room for more mail; new mail is refused with 452");
        engine_gate_set(w->engine, ENGINE_GATE_LOG_FULL);
    } else if (!is_full && was_full) {
        log_info("log: there is room again, mail is accepted");
        engine_gate_clear(w->engine, ENGINE_GATE_LOG_FULL);
    }
}

static usec_t retelling_due(const struct spool_writer *w)
{
    return w->engine->replica == NULL ? USEC_NEVER : replica_retelling_due(w->engine->replica);
}

/* The log wants a transaction, also when there is no mail to be committed. */
static bool must_commit_for_log(const struct spool_writer *w)
{
    return w->engine->replica != NULL && replica_wants_tables(w->engine->replica);
}

static bool must_retell(const struct spool_writer *w)
{
    usec_t due = retelling_due(w);
    return due != USEC_NEVER && clock_mono() >= due;
}

/* The log is told more of what there is while nothing is to be committed. */
static void retell(struct spool_writer *w) ON_ROLE(w->post)
{
    if (must_retell(w)) {
        int err = spool_writer_retell(w);
        if (err != 0) {
            log_failed(w, err);
        }
    }
}

/* Opens the store again after a failed commit and writes results that wait in memory, before any
 * reception is accepted. */
static void try_again(struct spool_writer *w) ON_ROLE(w->post)
{
    /* Stored by this thread alone. */
    int why = atomic_load_explicit(&w->engine->broken_by, memory_order_relaxed);
    spool_writer_refuse_parts(w, why);
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
    if (err == ERR_CORRUPT) {
        /* All acknowledged mail is on the disk; the next start reads what the journal holds. */
        log_error("spool: stopping; run: sluice repair --salvage -c %s", w->engine->config->path);
        _exit(EX_DATAERR);
    }
    if (err == 0) {
        err = spool_writer_write_tables(w);
        end_if_id_is_taken(err);
    }
    if (err != 0) {
        atomic_store_explicit(&w->engine->broken_by, err, memory_order_relaxed);
        settle_failed(&w->settle);
        return;
    }
    spool_writer_committed(w, false);
    admission_doubt(&w->admission);
    w->is_broken = false;
    engine_gate_clear(w->engine, ENGINE_GATE_BROKEN);
    log_info("spool: works again");
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Event lines are written to the file before the commit that needs them, so a crash of the process
 * loses none. This sync, once a second, bounds how many lines a power cut can take. */
static void sync_log(struct spool_writer *w)
{
    struct event_log *log = w->engine->events;
    const struct config *config = settings_of(w->engine)->config;
    usec_t now = clock_mono();
    if (log != NULL) {
        event_log_limit(log, config->event_log_rotate_size,
                        (unsigned)config->event_log_rotate_keep);
    }
    if (log != NULL && log->has_unsynced && now - w->synced >= USEC_PER_SEC) {
        w->synced = now;
        rcu_sleep();
        int err = event_log_sync(log);
        rcu_awake();
        if (err != 0) {
            log_error("event log: sync: %s", err_str(err));
        }
    }
}

static bool journal_takes(const struct spool_writer *w, usec_t now)
{
    return !housekeeping_is_due(&w->housekeeping) && spool_writer_journal_takes(w, now);
}

/* When the results of a list must be written even if no reception comes; 0: the list is empty. */
static usec_t results_due(const struct list *results, usec_t due, usec_t now, usec_t patience)
{
    if (list_is_empty(results)) {
        return 0;
    }
    return due != 0 ? due : now + patience;
}

/* Whether results that need a transaction, and have waited for company, wait on: until they have waited four
 * times as long as the last transaction took, so that the thread has most of its time for other things. Not when
 * the places in memory that their messages hold, and what is in flight, are a good part of all: new mail
 * would soon wait for these. */
static bool touched_wait_on(const struct spool_writer *w, usec_t now)
{
    usec_t patience = 4 * w->tables_took;
    patience = patience < touched_patience_most ? patience : touched_patience_most;
    return now < w->touched_since + patience &&
           4 * atomic_load_explicit(&w->engine->undurable, memory_order_relaxed) <
               atomic_load_explicit(&w->engine->active_messages, memory_order_relaxed);
}

enum commit { COMMIT_NOTHING, COMMIT_JOURNAL, COMMIT_TABLES };

/* What this pass commits. Results without a reception wait a moment, unless so many dispatched
 * recipients have no durable result that dispatch would soon stop. */
static enum commit next_commit(struct spool_writer *w) ON_ROLE(w->post)
{
    usec_t now = clock_mono();
    bool is_stopping = post_must_end(&w->post);
    bool is_urgent = is_stopping ||
                     atomic_load_explicit(&w->engine->undurable, memory_order_relaxed) >
                         atomic_load_explicit(&w->engine->dispatch_limit, memory_order_relaxed) / 2;
    w->delivered_due = results_due(&w->settle.delivered, w->delivered_due, now, delivered_patience);
    w->touched_since = w->touched_due == 0 ? now : w->touched_since;
    w->touched_due = results_due(&w->settle.touched, w->touched_due, now,
                                 spool_journal_is_open(w->engine->store) ? touched_patience
                                                                         : delivered_patience);
    if (w->touched_due != 0 && now >= w->touched_due && touched_wait_on(w, now)) {
        w->touched_due = now + touched_patience;
    }
    bool has_parts = w->part_count > 0 || housekeeping_is_due(&w->housekeeping);
    bool has_delivered = w->delivered_due != 0 && (is_urgent || now >= w->delivered_due);
    bool has_touched = w->touched_due != 0 && (is_urgent || now >= w->touched_due);
    bool is_last = is_stopping && !spool_journal_is_empty(w->engine->store);
    bool is_damaged = spool_store_is_damaged(w->engine->store); /* spool_begin examines it */
    if (has_touched || suppressor_is_due(&w->suppressor) || hearings_are_due(&w->hearings) ||
        is_last || is_damaged || adopter_is_due(&w->adopter) ||
        now >= journaled_due(&w->journaled) || must_commit_for_log(w)) {
        return COMMIT_TABLES;
    }
    if (!has_parts && !has_delivered) {
        return COMMIT_NOTHING;
    }
    return journal_takes(w, now) ? COMMIT_JOURNAL : COMMIT_TABLES;
}

/* Writes the commit. When the journal has no room or fails, the same mail goes to the tables. */
static int commit(struct spool_writer *w, enum commit *kind) ON_ROLE(w->post)
{
    if (*kind == COMMIT_JOURNAL) {
        settle_log_delivered(&w->settle);
        int err = spool_writer_write_log(w);
        if (err != 0) {
            return err;
        }
        err = spool_writer_write_journal(w);
        if (err == 0 || err == ERR_CLOSED) {
            return err;
        }
        if (err != ERR_LIMIT) {
            spool_writer_rest_journal(w, err);
        }
        *kind = COMMIT_TABLES;
    }
    usec_t before = clock_mono();
    int err = spool_writer_write_tables(w);
    w->tables_took = clock_mono() - before;
    return err;
}

/* Receptions need not wait for the transaction that is due. The last ones of an orderly stop, and
 * those that meet a damaged store, do. */
static bool receptions_go_first(struct spool_writer *w) ON_ROLE(w->post)
{
    return w->part_count > 0 && !post_must_end(&w->post) &&
           !spool_store_is_damaged(w->engine->store) && journal_takes(w, clock_mono());
}

static void commit_once(struct spool_writer *w, enum commit *kind) ON_ROLE(w->post)
{
    int err = commit(w, kind);
    if (err == 0) {
        spool_writer_committed(w, *kind == COMMIT_JOURNAL);
        (void)log_lets(w);          /* it may have waited for what this commit reserved */
    } else if (err == ERR_CLOSED) { /* of the log alone */
        log_failed(w, err);
    } else {
        batch_failed(w, err);
    }
}

static void commit_pass(struct spool_writer *w, enum commit kind) ON_ROLE(w->post)
{
    enum commit first = COMMIT_JOURNAL;
    if (kind == COMMIT_TABLES && receptions_go_first(w)) {
        commit_once(w, &first);
        if (w->is_broken || w->waits_for_log || first == COMMIT_TABLES) {
            return; /* nothing more can be committed, or nothing is left: the journal was full */
        }
        (void)post_flush(&w->post); /* the answers; what does not fit goes at the end of the pass */
    }
    commit_once(w, &kind);
}

static void pass(struct spool_writer *w) ON_ROLE(w->post)
{
    if (w->rotate) {
        w->rotate = false;
        if (w->engine->events != NULL && event_log_reopen(w->engine->events) != 0) {
            log_error("event log: cannot reopen the file; the old one stays in use");
        }
    }
    w->has_limits = !w->is_broken && admission_begin(&w->admission, &w->journaled);
    spool_writer_admit_parts(w);
    bool may_commit = log_lets(w);
    enum commit kind = w->is_broken || !may_commit ? COMMIT_NOTHING : next_commit(w);
    if (w->is_broken && may_commit) {
        try_again(w);
    } else if (kind != COMMIT_NOTHING) {
        commit_pass(w, kind);
    } else if (may_commit) {
        retell(w);
    }
    housekeeping_watch_space(&w->housekeeping);
    watch_log_room(w);
    reaction_log_write(&w->reactions, clock_mono(), false);
    sync_log(w);
}

/* The last transaction left something for the next one, which no letter will ask for: of a message
 * of very many recipients, or more results or notices than one transaction carries. */
static bool has_rest(const struct spool_writer *w)
{
    bool has_results = w->touched_due != 0 && clock_mono() >= w->touched_due;
    return !w->is_broken && !w->waits_for_log &&
           (has_results || must_retell(w) || adopter_is_due(&w->adopter) ||
            w->housekeeping.discard_count > 0 || suppressor_is_due(&w->suppressor));
}

static usec_t earlier(usec_t a, usec_t b)
{
    return a < b ? a : b;
}

static void nap_writer(struct spool_writer *w, bool is_flushed) ON_ROLE(w->post)
{
    usec_t deadline = USEC_NEVER;
    if (w->waits_for_log) {
        deadline =
            clock_mono() + retry_interval; /* the keeper of the log wakes this thread before */
    } else if (w->is_broken) {
        deadline = w->retry_at;
    } else if ((engine_gate(w->engine) & (ENGINE_GATE_LOW_SPACE | ENGINE_GATE_LOG_FULL)) != 0) {
        deadline = clock_mono() + retry_interval;
    }
    if (w->engine->events != NULL && w->engine->events->has_unsynced &&
        w->synced + USEC_PER_SEC < deadline) {
        deadline = w->synced + USEC_PER_SEC;
    }
    if (!w->is_broken && !w->waits_for_log) {
        deadline = earlier(deadline, w->delivered_due == 0 ? USEC_NEVER : w->delivered_due);
        deadline = earlier(deadline, w->touched_due == 0 ? USEC_NEVER : w->touched_due);
        deadline = earlier(deadline, journaled_due(&w->journaled));
        deadline = earlier(deadline, must_commit_for_log(w) ? clock_mono() : retelling_due(w));
    }
    deadline = earlier(deadline, reaction_log_due(&w->reactions));
    if (!is_flushed) {
        deadline = clock_mono() + USEC_PER_MSEC;
    }
    bool may_sleep = post_nap_prepare(&w->post) && reaction_log_may_sleep(&w->reactions);
    if (may_sleep && (w->delivered_due != 0 || w->touched_due != 0)) {
        post_nap_doze(&w->post, deadline); /* further results need not wake this thread */
    } else if (may_sleep) {
        post_nap_sleep(&w->post, deadline);
    }
    post_nap_finish(&w->post);
}

/* Letters that come meanwhile wake nobody. */
static void gather(struct spool_writer *w) ON_ROLE(w->post)
{
    usec_t left = w->gathers_until == 0 ? 0 : w->gathers_until - clock_mono();
    if (left > 0 && !post_must_end(&w->post)) {
        rcu_sleep();
        (void)usleep((useconds_t)left); /* shorter is as good */
        rcu_awake();
    }
}

static void write_until_the_end(struct spool_writer *w) ON_ROLE(w->post)
{
    for (;;) {
        gather(w);
        bool is_stopping = post_must_end(&w->post);
        bool took = take_batch(w);
        pass(w);
        bool is_flushed = post_flush(&w->post);
        rcu_pass();
        if (took || w->has_more) {
            continue;
        }
        if (is_stopping && settle_is_idle(&w->settle) && spool_journal_is_empty(w->engine->store)) {
            housekeeping_store_end(
                w->engine); /* the journal is empty: the next start has none to read */
            return;
        }
        if (is_stopping && w->waits_for_log) {
            usec_t now = clock_mono();
            w->log_missed = w->log_missed == 0 ? now : w->log_missed;
            bool is_taken = atomic_load_explicit(&w->engine->taken_by, memory_order_relaxed) != 0;
            if (is_taken) {
                return; /* the log will not work again, and what is here is void */
            }
            if (now - w->log_missed >= log_patience) {
                log_warning(
                    "log: it does not work; what became of the last mail is not stored, and "
                    "is found out again at the next start");
                return; /* as after a crash */
            }
        }
        if (is_stopping && w->is_broken) {
            /* The spool is broken and the results in memory are lost, so their deliveries are
             * repeated. The next start reads what the journal holds. */
            return;
        }
        if (!has_rest(w)) {
            nap_writer(w, is_flushed);
        }
    }
}

static void run_writer(void *arg)
{
    struct spool_writer *w = arg;
    post_assert_owner(&w->post);
    rcu_sleep(); /* the disk may be slow */
    int err = tally_note_queued(w->engine->tally, w->reader);
    rcu_awake();
    if (err != 0) {
        log_warning("reports do not name a tenant before something of its mail is counted");
    }
    write_until_the_end(w);
    reaction_log_write(&w->reactions, clock_mono(), true);
}

int spool_writer_start(struct spool_writer *w)
{
    struct engine *e = w->engine;
    int err = post_open(&w->post, e->worker_count + 3);
    if (err != 0) {
        return err;
    }
    w->to_activator = post_write_to(&w->post, e->boxes.activator);
    w->to_workers = post_write_to_each(&w->post, e->boxes.workers, e->worker_count);
    (void)post_write_to(&w->post, e->boxes.http); /* these stand behind them */
    (void)post_write_to(&w->post, e->boxes.tls_reporter);
    spool_store_on_damage(e->store, wake_writer, w);
    return post_start(&w->post, "spool-writer", run_writer, w);
}

void spool_writer_stop(struct spool_writer *w)
{
    post_stop(&w->post);
}
