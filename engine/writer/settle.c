#include "engine/writer/settle.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/post/in_core.h"
#include "engine/post/intake.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/signing.h"
#include "engine/reply/reply_set.h"
#include "engine/spool/spool_change.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/state/source_table.h"
#include "engine/tally/tally.h"
#include "engine/writer/notice.h"
#include "engine/writer/retry.h"
#include "engine/writer/suppressor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The notices of a transaction stay in memory until it is durable. One that has this many bytes of
 * them takes no further message. */
enum { NOTICE_BYTES_MAX = 8 << 20 };

/* Event lines that one expiring message may write in a transaction. Other mail waits for them: this
 * many take some 50 ms. */
enum { EXPIRED_AT_ONCE = 4096 };

/* settle_message returns this, beside 0 and negative errors, when the message has more to write
 * than one transaction takes and must go on in the next one. */
enum { SETTLE_LATER = 1 };

void settle_init(struct settle *s, struct engine *engine, struct spool_reader *reader,
                 struct suppressor *suppressor, const struct notice_log *log)
{
    *s = (struct settle){.engine = engine,
                         .reader = reader,
                         .suppressor = suppressor,
                         .log = *log,
                         .expired_at_once = EXPIRED_AT_ONCE,
                         .span = USEC_NEVER};
    list_init(&s->touched);
    list_init(&s->delivered);
}

bool settle_is_idle(const struct settle *s)
{
    return list_is_empty(&s->touched) && list_is_empty(&s->delivered);
}

/* Whether a removal in the journal is all that the message needs: only the journal has it, and
 * every recipient is delivered. */
static bool is_all_delivered(const struct message *m)
{
    if (!list_is_linked(&m->account.journaled) || m->account.pending > 0 ||
        m->account.lacks_results) {
        return false;
    }
    /* These count durable results. The transaction that stored them also moved the message from the
     * journal to the tables. */
    assert(m->account.stored.deferred == 0 && m->account.stored.failed == 0 &&
           m->account.stored.parked == 0);
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->count; i++) {
            if (r->recipients[i].kind != RESULT_DELIVERED) {
                return false;
            }
        }
    }
    return true;
}

static void touch(struct settle *s, struct message *m)
{
    bool was_all_delivered = m->account.is_all_delivered;
    m->account.is_all_delivered = is_all_delivered(m);
    if (list_is_linked(&m->account.touched)) {
        if (m->account.is_all_delivered == was_all_delivered) {
            return;
        }
        list_remove(&m->account.touched);
    }
    list_push_back(m->account.is_all_delivered ? &s->delivered : &s->touched, &m->account.touched);
}

void settle_collect(struct settle *s, struct result *result)
{
    struct message *m = result->message;
    if (!result->is_counted) {
        result->is_counted = true;
        assert(m->account.pending >= result->count);
        m->account.pending -= result->count;
    }
    result->next = m->account.fresh;
    m->account.fresh = result;
    touch(s, m);
}

void settle_without_result(struct settle *s, struct message *m, uint32_t count, unsigned shares)
{
    assert(m->account.pending >= count);
    m->account.pending -= count;
    m->account.lacks_results = m->account.lacks_results || count > 0;
    s->without_result += (shares & RESULT_WAS_DISPATCHED) != 0 ? count : 0;
    if ((shares & RESULT_WAS_LOADED) != 0) {
        in_core_remove(s->engine, m, count);
    }
    touch(s, m);
}

static bool has_kind(const struct result *r, enum result_kind kind)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->recipients[i].kind == kind) {
            return true;
        }
    }
    return false;
}

static bool message_has_kind(const struct message *m, enum result_kind kind)
{
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        if (has_kind(r, kind)) {
            return true;
        }
    }
    return (kind == RESULT_DEFERRED && m->account.stored.deferred > 0) ||
           (kind == RESULT_FAILED && m->account.stored.failed > 0) ||
           (kind == RESULT_PARKED && m->account.stored.parked > 0);
}

static void count(struct engine *e, const struct result *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        _Atomic uint64_t *counters[RESULT_KIND_COUNT] = {
            [RESULT_DELIVERED] = &e->delivered,   [RESULT_DEFERRED] = &e->deferred,
            [RESULT_FAILED] = &e->failed,         [RESULT_DROPPED] = &e->dropped,
            [RESULT_SUPPRESSED] = &e->suppressed,
        };
        _Atomic uint64_t *counter = counters[r->recipients[i].kind];
        if (counter != NULL) {
            atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
        }
    }
    if (r->is_ambiguous) {
        atomic_fetch_add_explicit(&e->ambiguous, 1, memory_order_relaxed);
    }
}

static uint64_t count_undelivered(const struct result *r)
{
    uint64_t count = 0;
    for (; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->count; i++) {
            count +=
                r->recipients[i].kind == RESULT_DEFERRED || r->recipients[i].kind == RESULT_PARKED;
        }
    }
    return count;
}

static void count_expired(struct engine *e, struct message *m)
{
    uint64_t expired =
        count_undelivered(m->account.fresh) + m->account.stored.deferred + m->account.stored.parked;
    atomic_fetch_add_explicit(&e->expired, expired, memory_order_relaxed);
    tally_expired(e->tally, m, expired);
}

/* Counts the fresh results and writes an event line for each of their recipients, only once even
 * when the transaction is repeated. A parked recipient was not tried, so it has no line. */
static void log_results(struct settle *s, struct message *m)
{
    for (struct result *r = m->account.fresh; r != NULL; r = r->next) {
        if (r->is_logged) {
            continue;
        }
        r->is_logged = true;
        count(s->engine, r);
        if (r->transport != RESULT_NO_TRANSPORT &&
            r->transport >= tally_transports(s->engine->tally)) {
            tally_add_transports(s->engine->tally, settings_of(s->engine)->config);
        }
        tally_result(s->engine->tally, m, r);
        for (uint32_t i = 0; i < r->count; i++) {
            if (r->recipients[i].kind != RESULT_PARKED) {
                notice_log_result(s->log.lines, settings_of(s->engine)->config, m, r,
                                  &r->recipients[i]);
            }
        }
        notice_log_flush(&s->log);
    }
}

/* Stores the states of recipients with fresh results, for a message that stays in the spool.
 *
 * is_told  a notice in this transaction tells the sender of the failures, so that their reasons
 *          need not be stored */
static int store_states(struct spool_txn *txn, struct message *m, const struct result *results,
                        bool is_told)
{
    for (const struct result *r = results; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->count; i++) {
            const struct result_recipient *to = &r->recipients[i];
            if (to->kind == RESULT_PARKED) {
                continue; /* it was not tried: its stored state stays what it was */
            }
            struct spool_reason reason = {
                .time = r->done,
                .state =
                    to->kind == RESULT_DEFERRED ? SPOOL_RECIPIENT_DEFERRED : SPOOL_RECIPIENT_FAILED,
                .code = to->code,
                .status = slice_of(to->status),
                .text = result_text(r, to),
                .remote_mta = r->host_name,
            };
            bool has_reason =
                to->kind == RESULT_DEFERRED || (to->kind == RESULT_FAILED && !is_told);
            enum spool_recipient_state state = to->kind == RESULT_DELIVERED
                                                   ? SPOOL_RECIPIENT_DELIVERED
                                                   : (enum spool_recipient_state)reason.state;
            int err = spool_set_recipient(txn, m->envelope.id, m->envelope.recipient_count,
                                          to->index, state, has_reason ? &reason : NULL);
            if (err != 0) {
                return err;
            }
        }
    }
    return 0;
}

/* The listener that received the message (by a flag in the envelope) and the current section of its
 * tenant can each turn notices off. */
static bool is_notice_wanted(const struct config *c, const struct message *m)
{
    const struct config_tenant *t = config_tenant_find(c, m->envelope.tenant);
    return (m->envelope.flags & SPOOL_FLAG_NO_NOTICES) == 0 && (t == NULL || t->notices);
}

/* Makes a notice about m to its sender, which the transaction gets with the others (put_notices). There is
 * none about a bounce or to the null sender. A notice that the configuration turns off is left out and counted. */
static int make_notice(struct settle *s, struct message *m, enum notice_kind kind, usec_t now)
{
    if (m->envelope.sender.len == 0 || (m->envelope.flags & SPOOL_FLAG_BOUNCE) != 0) {
        return 0;
    }
    if (!is_notice_wanted(settings_of(s->engine)->config, m)) {
        s->suppressed++;
        return 0;
    }
    if (s->notice_count == s->notice_capacity) {
        uint32_t capacity = s->notice_capacity == 0 ? 16 : s->notice_capacity * 2;
        struct intake **grown = realloc(s->notices, capacity * sizeof(struct intake *));
        if (grown == NULL) {
            return -ENOMEM; /* the transaction is tried again later */
        }
        s->notices = grown;
        s->notice_capacity = capacity;
    }
    struct intake *in = NULL;
    const struct notice_head head = {kind, engine_new_id(s->engine), now};
    int err = notice_new(settings_of(s->engine)->config, s->reader, m, &head, &in);
    if (err != 0) {
        return err == ERR_MISSING ? 0 : err;
    }
    s->notices[s->notice_count++] = in;
    s->notice_bytes += in->body.len;
    return 0;
}

/* Puts the notices into the transaction: at its end, behind the mail that was received while it took results
 * (between), which the activator knows by now. It takes mail of a flow in the order of places. */
static int put_notices(struct settle *s, struct spool_txn *txn)
{
    int err = 0;
    for (uint32_t i = 0; err == 0 && i < s->notice_count; i++) {
        err = intake_put(s->notices[i], txn);
    }
    return err;
}

/* The earlier of two times; a park_until of 0 means that nothing is parked. */
static usec_t first_end(usec_t until, usec_t park_until)
{
    return park_until != 0 && park_until < until ? park_until : until;
}

/* When the first of the parked recipients may go, or the message expires if that is earlier. */
static usec_t first_park_end(const struct settle *s, const struct message *m)
{
    usec_t until = message_expires(m, settings_of(s->engine)->config);
    until = first_end(until, m->account.stored.park_until);
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        until = first_end(until, r->park_until);
    }
    return until;
}

static bool is_paced(const struct message *m)
{
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        if (r->is_paced) {
            return true;
        }
    }
    return m->account.stored.is_paced;
}

/* Keeps the signatures for the next attempt. */
static int keep_signing(struct spool_txn *txn, const struct message *m)
{
    const struct signing *g = m->signing;
    if (g == NULL || g->is_stored || (g->fields == NULL && g->forms == 0)) {
        return 0;
    }
    const struct spool_signing record = signing_record(g);
    return spool_put_signing(txn, m->envelope.id, &record);
}

/* All undelivered recipients are suspended by orders: the message moves to the held class until the
 * first of these orders ends, or until the message expires if that is earlier. */
static int hold(struct settle *s, struct spool_txn *txn, struct message *m)
{
    usec_t until = first_park_end(s, m);
    const struct spool_position next = {SPOOL_HELD, (uint64_t)until, m->envelope.id,
                                        m->position.flow};
    m->held_until = until;
    return spool_requeue(txn, &m->position, &next, NULL);
}

/* Whether stored recipients of an expired message still lack their event line. */
static bool has_unlogged(const struct message *m)
{
    return (m->account.stored.deferred > 0 || m->account.stored.parked > 0) &&
           m->account.expiry_from < m->envelope.recipient_count;
}

/* What became of the recipients of an activation that ends. */
struct ending {
    bool has_refused;  /* some were deferred */
    bool has_deferred; /* the same, or some have no result */
    bool has_failed, has_parked;
    bool is_expired; /* those that are not delivered are given up */
};

static struct ending find_ending(const struct message *m, const struct config *c, usec_t now)
{
    struct ending e = {
        .has_refused = message_has_kind(m, RESULT_DEFERRED),
        .has_failed = message_has_kind(m, RESULT_FAILED),
        .has_parked = message_has_kind(m, RESULT_PARKED),
    };
    e.has_deferred = e.has_refused || m->account.lacks_results;
    /* Without a result nothing says what was wrong with a recipient, so the message does not expire
     * in this activation. */
    bool may_expire = (e.has_deferred || e.has_parked) && !m->account.lacks_results;
    e.is_expired = may_expire && (m->account.is_expiry_begun || now >= message_expires(m, c));
    return e;
}

/* Counts and logs the recipients that are given up. returns SETTLE_LATER, 0 or an error */
static int expire(struct settle *s, struct message *m, usec_t now)
{
    if (!m->account.is_expiry_begun) {
        count_expired(s->engine, m);
    }
    s->log.replies = settings_of(s->engine)->replies;
    int err = notice_log_expiration(&s->log, s->reader, m, now, s->expired_at_once);
    return err == 0 && has_unlogged(m) ? SETTLE_LATER : err;
}

/* Tells the sender of failures; or, when it was warned and all is well in the end, of that. */
static int tell_sender(struct settle *s, struct message *m, const struct ending *e, usec_t now)
{
    if (e->has_failed || e->is_expired) {
        return make_notice(s, m, e->is_expired ? NOTICE_EXPIRED : NOTICE_FAILED, now);
    }
    if (!e->has_deferred && !e->has_parked && m->retry.warned &&
        settings_of(s->engine)->config->confirm_delay_cleared &&
        message_has_kind(m, RESULT_DELIVERED)) {
        return make_notice(s, m, NOTICE_CLEARED, now);
    }
    return 0;
}

/* The mark of the source that the message keeps to after this result of one recipient: a receiver that
 * greylists wants to see the same one again. One that refuses it does not. */
static uint16_t source_after(uint16_t kept, const struct result *r,
                             const struct result_recipient *to)
{
    if (r->leaves_source) {
        return 0;
    }
    if (to->kind == RESULT_DEFERRED && to->class == REPLY_GREYLISTED) {
        return source_table_mark(r->source);
    }
    bool is_refused = kept != 0 && to->class == REPLY_BLOCKED;
    return is_refused && source_table_mark(r->source) == kept ? 0 : kept;
}

/* As of the results that are durable. */
static uint16_t stored_source(const struct message *m)
{
    return m->account.stored.has_source ? m->account.stored.source : m->retry.source;
}

static uint16_t kept_source(const struct message *m)
{
    uint16_t kept = stored_source(m);
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->count; i++) {
            kept = source_after(kept, r, &r->recipients[i]);
        }
    }
    return kept;
}

/* The earlier of two times of which 0 is none. */
static usec_t first_of(usec_t a, usec_t b)
{
    if (a == 0 || b == 0) {
        return a == 0 ? b : a;
    }
    return a < b ? a : b;
}

static void note_paced(struct message *m, const struct result *r)
{
    if (r->is_paced && (m->turn_by == 0 || r->paced_by < m->turn_by)) {
        m->turn_by = r->paced_by;
    }
}

/* What the message is to remember of its attempts. One whose recipients were not tried, as their
 * receiver lets too little through, has had none, and comes back when their turn is near. */
static struct spool_retry next_retry(const struct settle *s, struct message *m,
                                     const struct ending *e, usec_t now)
{
    const struct config *c = settings_of(s->engine)->config;
    struct spool_retry retry = m->retry;
    usec_t defer_until = m->account.stored.defer_until;
    retry.source = kept_source(m);
    retry.blocked = first_of(retry.blocked, m->account.stored.blocked);
    for (const struct result *r = m->account.fresh; r != NULL; r = r->next) {
        defer_until = first_of(defer_until, r->defer_until);
        retry.blocked = first_of(retry.blocked, r->blocked);
        note_paced(m, r);
    }
    retry.is_paced = !e->has_deferred;
    if (e->has_deferred) {
        retry.deferred = now;
        retry.attempts++;
        retry.due = now + retry_delay(now, m->envelope.created, c->minimal_backoff_time,
                                      c->maximal_backoff_time);
        retry.due = defer_until > now ? defer_until : retry.due;
    } else {
        /* A scan takes what is due later than any delay may be for a mistake of the clock. */
        usec_t most =
            now + retry_longest(c->minimal_backoff_time, c->maximal_backoff_time) - USEC_PER_SEC;
        usec_t turn = first_park_end(s, m);
        turn = turn < most ? turn : most;
        retry.due = turn < now ? now : turn;
    }
    return retry;
}

/* Moves the message to where it waits for its next attempt, with a warning to its sender where one
 * is due. */
static int defer(struct settle *s, struct spool_txn *txn, struct message *m, const struct ending *e,
                 usec_t now)
{
    struct spool_retry retry = next_retry(s, m, e, now);
    bool may_warn = e->has_refused || !e->has_deferred;
    s->has_deferred = true;
    if (may_warn && !retry.warned && retry_is_warning_due(now, m->envelope.warn_at)) {
        retry.warned = true;
        int err = make_notice(s, m, NOTICE_DELAYED, now);
        if (err != 0) {
            return err;
        }
    }
    m->turn = !e->has_deferred ? retry.due : 0;
    const struct spool_position next = {SPOOL_DEFERRED, (uint64_t)retry.due, m->envelope.id,
                                        m->position.flow};
    return spool_requeue(txn, &m->position, &next, &retry);
}

/* Every recipient of this activation has a result, or will have none: the message is removed, with
 * a notice where one is due, or it is deferred or held. */
static int settle_message(struct settle *s, struct spool_txn *txn, struct message *m, usec_t now)
{
    const struct ending e = find_ending(m, settings_of(s->engine)->config, now);
    m->held_until = m->turn = 0;
    int err = e.is_expired ? expire(s, m, now) : 0;
    m->account.is_settled = err != SETTLE_LATER;
    if (err == 0) {
        err = tell_sender(s, m, &e, now);
    }
    if (err != 0) {
        return err;
    }
    if ((!e.has_deferred && !e.has_parked) || e.is_expired) {
        m->account.is_removed = true;
        return spool_remove(txn, &m->position);
    }
    err = store_states(txn, m, m->account.fresh, true);
    if (err == 0 && m->account.stored.failed > 0) {
        /* A crash from now on must not repeat the notice that this transaction carries. */
        err = spool_forget_failures(txn, m->envelope.id);
    }
    err = err == 0 ? keep_signing(txn, m) : err;
    if (err != 0) {
        return err;
    }
    return e.has_deferred || is_paced(m) ? defer(s, txn, m, &e, now) : hold(s, txn, m);
}

/* Errors that concern one message only: the transaction can go on without it (spool_store.h). */
static bool is_of_one_message(int err)
{
    return err == ERR_CORRUPT || err == ERR_MISSING || err == ERR_LIMIT || err == -EEXIST;
}

void settle_log_delivered(struct settle *s)
{
    list_foreach(m, &s->delivered, struct message, account.touched)
    {
        log_results(s, m);
    }
}

int settle_write_journal(struct settle *s, struct spool_store *store)
{
    s->is_journal_only = true;
    s->unwritten = NULL;
    list_foreach(m, &s->delivered, struct message, account.touched)
    {
        m->account.is_settled = m->account.is_removed = true;
        int err = spool_journal_removal(store, &m->position);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* The message has more recipients than one transaction takes, as other mail must not wait for them
 * all. It moves behind the other touched messages and goes on in the next transaction. */
static void postpone(struct settle *s, struct message *m)
{
    list_remove(&m->account.touched);
    list_push_back(&s->touched, &m->account.touched);
    s->unwritten = s->unwritten == NULL ? m : s->unwritten;
}

int settle_write(struct settle *s, struct spool_txn *txn, usec_t now)
{
    const usec_t end = s->span == USEC_NEVER ? USEC_NEVER : clock_mono() + s->span;
    bool has_one = false;
    s->is_journal_only = false;
    s->unwritten = NULL;
    s->notice_bytes = 0;
    s->has_deferred = false;
    s->suppressed = 0; /* a transaction that failed may have left its count here */
    settle_log_delivered(s);
    list_foreach(m, &s->delivered, struct message, account.touched)
    {
        /* the transaction stores the journal's other messages, not these */
        spool_tell_removed(txn, m->envelope.id);
        m->account.is_settled = m->account.is_removed = true;
    }
    list_foreach_safe(m, &s->touched, struct message, account.touched)
    {
        if (m == s->unwritten) {
            break;
        }
        if (s->notice_bytes >= NOTICE_BYTES_MAX || (has_one && clock_mono() >= end)) {
            s->unwritten = m; /* this message and those behind it wait for the next transaction */
            break;
        }
        if (has_one && s->between != NULL) {
            s->between(s->between_ctx);
        }
        has_one = true;
        log_results(s, m);
        m->account.is_settled = m->account.is_removed = false;
        int err = suppressor_results(s->suppressor, txn, m);
        if (err != 0) {
            return err;
        }
        err = m->account.pending == 0 ? settle_message(s, txn, m, now)
                                      : store_states(txn, m, m->account.fresh, false);
        if (err == SETTLE_LATER) {
            postpone(s, m);
            continue;
        }
        if (is_of_one_message(err)) {
            char id[MESSAGE_ID_TEXT];
            message_id_format(m->envelope.id, id);
            log_error("spool: message %s: %s%s", id, err_str(err),
                      m->account.pending == 0 ? "; its records are in quarantine" : "");
            m->account.is_removed = m->account.pending == 0;
            err = m->account.is_removed ? spool_quarantine(txn, &m->position) : 0;
        }
        if (err != 0) {
            return err;
        }
    }
    int err = put_notices(s, txn);
    return err == 0 && s->has_deferred ? spool_note_clock(txn, now) : err;
}

bool settle_has_rest(const struct settle *s)
{
    return s->unwritten != NULL;
}

/* A copy that ends with a NUL. The text itself has none, which strndup may not be given. Returns
 * NULL when out of memory. */
static char *copy_text(struct slice text)
{
    char *copy = malloc(text.len + 1);
    if (copy != NULL) {
        memcpy(copy, text.data, text.len);
        copy[text.len] = '\0';
    }
    return copy;
}

static void keep_park(struct message *m, const struct result *r, struct slice text)
{
    m->account.stored.park_until = m->account.stored.park_until == 0
                                       ? r->park_until
                                       : first_end(m->account.stored.park_until, r->park_until);
    m->account.stored.is_paced = m->account.stored.is_paced || r->is_paced;
    note_paced(m, r);
    if (m->account.stored.park_text == NULL) {
        m->account.stored.park_text = copy_text(text);
    }
}

/* The result is durable: only its numbers are kept. Nobody needs the addresses any more, and a
 * later notice reads addresses and reasons from the spool. */
static void keep_counts(struct message *m, const struct result *r)
{
    m->account.stored.defer_until = first_of(m->account.stored.defer_until, r->defer_until);
    m->account.stored.blocked = first_of(m->account.stored.blocked, r->blocked);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct result_recipient *to = &r->recipients[i];
        m->account.stored.deferred += to->kind == RESULT_DEFERRED;
        m->account.stored.failed += to->kind == RESULT_FAILED;
        m->account.stored.parked += to->kind == RESULT_PARKED;
        if (to->kind == RESULT_PARKED) {
            keep_park(m, r, result_text(r, to));
        }
        if (to->kind == RESULT_PARKED || to->kind == RESULT_DEFERRED) {
            m->account.stored.source = source_after(stored_source(m), r, to);
            m->account.stored.has_source = true;
        }
        message_unload(m, to->index);
    }
}

static uint64_t forget_results(struct settle *s, struct message *m)
{
    uint64_t dispatched = 0;
    uint32_t loaded = 0;
    struct result *r = m->account.fresh;
    m->account.fresh = NULL;
    while (r != NULL) {
        struct result *next = r->next;
        dispatched += r->has_dispatch ? r->count : 0;
        loaded += r->count;
        keep_counts(m, r);
        result_free(r);
        r = next;
    }
    in_core_remove(s->engine, m, loaded);
    return dispatched;
}

static uint64_t forget_written(struct settle *s, struct list *written,
                               void (*done)(void *ctx, struct message *m), void *ctx)
{
    uint64_t dispatched = 0;
    list_foreach_safe(m, written, struct message, account.touched)
    {
        if (m == s->unwritten) {
            break;
        }
        list_remove(&m->account.touched);
        dispatched += forget_results(s, m);
        if (m->account.is_settled) {
            done(ctx, m);
        }
    }
    return dispatched;
}

uint64_t settle_committed(struct settle *s, void (*done)(void *ctx, struct message *m), void *ctx)
{
    uint64_t dispatched = forget_written(s, &s->delivered, done, ctx);
    if (!s->is_journal_only) {
        dispatched += forget_written(s, &s->touched, done, ctx) + s->without_result;
        s->without_result = 0;
        atomic_fetch_add_explicit(&s->engine->notices_suppressed, s->suppressed,
                                  memory_order_relaxed);
        s->suppressed = 0;
    }
    s->unwritten = NULL;
    return dispatched;
}

void settle_failed(struct settle *s)
{
    for (uint32_t i = 0; i < s->notice_count; i++) {
        intake_free(s->notices[i]);
    }
    s->notice_count = 0;
}

void settle_fini(struct settle *s)
{
    settle_failed(s);
    free(s->notices);
    s->notices = NULL;
    reply_matcher_free(s->log.matcher);
    s->log.matcher = NULL;
    list_foreach_safe(m, &s->touched, struct message, account.touched)
    {
        list_remove(&m->account.touched); /* the activator frees it */
    }
    list_foreach_safe(p, &s->delivered, struct message, account.touched)
    {
        list_remove(&p->account.touched);
    }
}
