#include "engine/writer/suppressor.h"

#include "base/error.h"
#include "engine/config/config.h"
#include "engine/event/event.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/suppress_batch.h"
#include "engine/reply/reply.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sweep looks at this many records of each table once in its interval, in a transaction that comes
 * anyway: 10,000,000 entries are seen within a day. */
enum { SWEEP_RECORDS = 128 };
static const usec_t sweep_interval = USEC_PER_SEC;

void suppressor_init(struct suppressor *s, struct engine *engine)
{
    *s = (struct suppressor){.engine = engine};
    buf_init(&s->lines, 0);
}

void suppressor_fini(struct suppressor *s)
{
    for (uint32_t i = 0; i < s->waiting_count; i++) {
        suppress_batch_free(s->waiting[i]);
    }
    free(s->waiting);
    s->waiting = NULL;
    s->waiting_count = 0;
    buf_fini(&s->lines);
}

void suppressor_begin(struct suppressor *s)
{
    buf_clear(&s->lines);
    s->added = s->removed = 0;
    s->put_count = 0;
}

/* --- the event log -------------------------------------------------------------------------------- */

/* message_id: 0: it is about no mail */
static void log_change(struct suppressor *s, enum event_type type,
                       const struct spool_suppression *e, uint64_t message_id, usec_t now)
{
    char id[MESSAGE_ID_TEXT] = "";
    if (message_id != 0) {
        message_id_format(message_id, id);
    }
    const struct event event = {
        .type = type,
        .id = slice_of(id),
        .recipient = e->address,
        .response = {.content = e->source},
        .bounce_classification = slice_of(spool_suppress_reason_text(e->reason)),
        .event_time = now,
        .tenant = e->tenant,
    };
    if (s->engine->events != NULL) {
        event_format(&s->lines, &event);
    }
}

/* --- rules ---------------------------------------------------------------------------------------- */

static int add_entry(struct suppressor *s, struct spool_txn *txn,
                     const struct config_suppression *rules, const struct suppressor_cause *c,
                     bool *ret_is_added)
{
    bool is_new = false;
    const struct spool_suppression e = {.tenant = c->tenant,
                                        .address = c->address,
                                        .reason = c->reason,
                                        .added = c->now,
                                        .expires = rules->expire > 0 ? c->now + rules->expire : 0,
                                        .source = c->source};
    struct spool_suppression there;
    int err = spool_suppress_get(txn, c->tenant, c->address, c->now, &there);
    if (err == 0) {
        return 0; /* what stands there stays: it may last longer */
    }
    err = err == ERR_MISSING ? spool_suppress_put(txn, &e, &is_new) : err;
    if (err == 0 && is_new) {
        s->added++;
        *ret_is_added = true;
        log_change(s, EVENT_SUPPRESSION_ADDED, &e, c->message_id, c->now);
    }
    return err;
}

int suppressor_note(struct suppressor *s, struct spool_txn *txn, const struct suppressor_cause *c,
                    bool *ret_is_added)
{
    const struct config_suppression *rules =
        config_suppression_find(settings_of(s->engine)->config, c->tenant);
    const struct config_strikes *rule = &rules->rules[c->reason];
    bool is_added = false;
    uint32_t count = 1;
    int err = 0;
    if (rule->count > 1) {
        const struct spool_strike strike = {.kind = (uint8_t)c->reason,
                                            .tenant = c->tenant,
                                            .address = c->address,
                                            .message_id = c->message_id,
                                            .now = c->now,
                                            .span = rule->span,
                                            .most = rule->count};
        err = spool_suppress_strike(txn, &strike, &count);
    }
    if (err == 0 && rule->count > 0 && count >= rule->count) {
        err = add_entry(s, txn, rules, c, &is_added);
    }
    if (ret_is_added != NULL) {
        *ret_is_added = is_added;
    }
    return err == ERR_SYNTAX ? 0 : err;
}

/* SPOOL_SUPPRESS_REASON_COUNT: the result says nothing of the recipient. */
static enum spool_suppress_reason reason_of(const struct result *r,
                                            const struct result_recipient *to)
{
    bool is_failed = to->kind == RESULT_FAILED;
    if (to->code == 0 || r->order != 0 || r->is_ambiguous) {
        return SPOOL_SUPPRESS_REASON_COUNT;
    }
    if (is_failed && to->class == REPLY_MAILBOX) {
        return SPOOL_SUPPRESS_HARD_BOUNCE;
    }
    return (is_failed || to->kind == RESULT_DEFERRED) && to->class == REPLY_FULL
               ? SPOOL_SUPPRESS_MAILBOX_FULL
               : SPOOL_SUPPRESS_REASON_COUNT;
}

static int note_result(struct suppressor *s, struct spool_txn *txn, const struct message *m,
                       const struct result *r, const struct result_recipient *to)
{
    char text[SPOOL_SUPPRESS_SOURCE_MAX + 1];
    int len = snprintf(text, sizeof(text), "%u %s from %.*s", to->code, to->status,
                       SLICE_ARG(r->host_name));
    const struct suppressor_cause cause = {.reason = reason_of(r, to),
                                           .tenant = m->envelope.tenant,
                                           .address = message_address(m, to->index),
                                           .message_id = m->envelope.id,
                                           .source = slice_of_printed(text, sizeof(text), len),
                                           .now = r->done};
    return suppressor_note(s, txn, &cause, NULL);
}

int suppressor_results(struct suppressor *s, struct spool_txn *txn, const struct message *m)
{
    if (settings_of(s->engine)->config->suppression_count == 0) {
        return 0;
    }
    int err = 0;
    for (const struct result *r = m->account.fresh; r != NULL && err == 0; r = r->next) {
        for (uint32_t i = 0; i < r->count && err == 0; i++) {
            const struct result_recipient *to = &r->recipients[i];
            if (reason_of(r, to) != SPOOL_SUPPRESS_REASON_COUNT) {
                err = note_result(s, txn, m, r, to);
            }
        }
    }
    return err;
}

/* --- requests ------------------------------------------------------------------------------------- */

static void send_back(struct suppress_batch *b, int err, struct outbox *to_http)
{
    b->error = err;
    letter_put_suppressed(to_http, b);
}

void suppressor_take(struct suppressor *s, struct suppress_batch *b, struct outbox *to_http)
{
    if (s->waiting_count == s->waiting_capacity) {
        uint32_t capacity = s->waiting_capacity == 0 ? 8 : 2 * s->waiting_capacity;
        struct suppress_batch **grown = realloc(s->waiting, capacity * sizeof(*grown));
        if (grown == NULL) {
            send_back(b, -ENOMEM, to_http);
            return;
        }
        s->waiting = grown;
        s->waiting_capacity = capacity;
    }
    s->waiting[s->waiting_count++] = b;
}

bool suppressor_is_due(const struct suppressor *s)
{
    return s->waiting_count > 0;
}

static bool lasts_longer(const struct spool_suppression *a, const struct spool_suppression *b)
{
    return b->expires != 0 && (a->expires == 0 || a->expires > b->expires);
}

/* A file may be the list of another node, which does not know why an entry of ours lasts longer: that one
 * stays. Whoever names one address means what he says. */
static int put_entry(struct spool_txn *txn, const struct spool_suppression *e, bool is_of_file,
                     usec_t now, bool *ret_is_new)
{
    struct spool_suppression there;
    int err = ERR_MISSING;
    if (is_of_file && e->expires != 0) {
        err = spool_suppress_get(txn, e->tenant, e->address, now, &there);
    }
    if (err == 0 && lasts_longer(&there, e)) {
        return 0;
    }
    return err == 0 || err == ERR_MISSING ? spool_suppress_put(txn, e, ret_is_new) : err;
}

static int put_change(struct suppressor *s, struct spool_txn *txn, struct suppress_batch *b,
                      uint32_t index, usec_t now)
{
    struct suppress_change *c = &b->changes[index];
    struct spool_suppression e;
    bool is_new = false;
    suppress_batch_get(b, index, &e);
    e.added = e.added == 0 || e.added > now ? now : e.added;
    int err = c->is_removal ? spool_suppress_remove(txn, e.tenant, e.address)
                            : put_entry(txn, &e, !b->is_told, now, &is_new);
    c->was_there = c->is_removal ? err == 0 : !is_new;
    if (err != 0) {
        return err == ERR_MISSING || err == ERR_SYNTAX ? 0 : err;
    }
    s->added += is_new;
    s->removed += c->is_removal;
    if (b->is_told && c->was_there == c->is_removal) {
        log_change(s, c->is_removal ? EVENT_SUPPRESSION_REMOVED : EVENT_SUPPRESSION_ADDED, &e, 0,
                   now);
    }
    return 0;
}

static int sweep_lists(struct suppressor *s, struct spool_txn *txn, usec_t wall)
{
    unsigned removed;
    usec_t now = clock_mono();
    if (now - s->swept < sweep_interval) {
        return 0;
    }
    s->swept = now;
    usec_t span = settings_of(s->engine)->config->strike_span;
    return spool_suppress_sweep(txn, wall, span, SWEEP_RECORDS, &removed);
}

int suppressor_put(struct suppressor *s, struct spool_txn *txn)
{
    usec_t now = clock_wall();
    int err = sweep_lists(s, txn, now);
    while (err == 0 && s->put_count < s->waiting_count && s->put_count < SUPPRESSOR_BATCHES) {
        struct suppress_batch *b = s->waiting[s->put_count++];
        for (uint32_t i = 0; i < b->count && err == 0; i++) {
            err = put_change(s, txn, b, i, now);
        }
    }
    return err;
}

static void send_first(struct suppressor *s, uint32_t count, int err, struct outbox *to_http)
{
    for (uint32_t i = 0; i < count; i++) {
        send_back(s->waiting[i], err, to_http);
    }
    s->waiting_count -= count;
    memmove(s->waiting, s->waiting + count, s->waiting_count * sizeof(*s->waiting));
    s->put_count = 0;
}

void suppressor_committed(struct suppressor *s, struct outbox *to_http)
{
    if (s->added > 0 || s->removed > 0) {
        atomic_fetch_add_explicit(&s->engine->suppressions_added, s->added, memory_order_relaxed);
        atomic_fetch_add_explicit(&s->engine->suppressions_removed, s->removed,
                                  memory_order_relaxed);
        s->added = s->removed = 0;
    }
    if (s->put_count > 0) {
        send_first(s, s->put_count, 0, to_http);
    }
}

void suppressor_refuse(struct suppressor *s, int err, struct outbox *to_http)
{
    if (s->waiting_count > 0) {
        send_first(s, s->waiting_count, err, to_http);
    }
}
