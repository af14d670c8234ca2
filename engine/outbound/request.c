#include "engine/outbound/request.h"

#include "dns/hosts.h"
#include "engine/config/config.h"
#include "engine/heard/return_book.h"
#include "engine/heard/return_token.h"
#include "engine/limit/limits_figures.h"
#include "engine/outbound/egress.h"
#include "engine/outbound/refusal.h"
#include "engine/post/delivery.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/suppressed.h"
#include "engine/reply/reply_set.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request *request_new(struct delivery *d)
{
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(d->entry, &count);
    /* Slices first, then what needs less alignment. */
    size_t each = sizeof(struct slice) + sizeof(uint32_t) + 5 * sizeof(bool);
    struct request *r = calloc(1, sizeof(*r) + count * each);
    if (r == NULL || outcome_init(&r->outcome, count) != 0) {
        free(r);
        return NULL;
    }
    list_init(&r->link);
    r->delivery = d;
    r->indexes = indexes;
    r->recipients = (struct slice *)(r + 1);
    r->positions = (uint32_t *)(r->recipients + count);
    r->is_tried = (bool *)(r->positions + count);
    r->is_held = r->is_tried + count;
    r->is_parked = r->is_held + count;
    r->is_suppressed = r->is_parked + count;
    r->is_answered = r->is_suppressed + count;
    return r;
}

void request_free(struct request *r)
{
    if (r != NULL) {
        list_remove(&r->link);
        outcome_fini(&r->outcome);
        free(r->refusal);
        free(r->return_path);
        free(r);
    }
}

void request_suppress(struct request *r, struct spool_reader *reader, usec_t now_wall)
{
    const struct message *m = r->delivery->message;
    for (uint32_t i = 0; i < r->outcome.recipient_count; i++) {
        struct spool_suppression found;
        char text[SUPPRESSED_TEXT_MAX];
        if (r->outcome.recipients[i].kind != OUTCOME_UNDECIDED ||
            spool_suppress_find(reader, m->envelope.tenant, message_address(m, r->indexes[i]),
                                now_wall, &found) != 0) {
            continue;
        }
        const struct outcome_verdict verdict = {.class = OUTCOME_HARD,
                                                .scope = OUTCOME_SCOPE_MESSAGE,
                                                .stage = OUTCOME_STAGE_LOCAL,
                                                .status = outcome_status_of("5.1.8"),
                                                .text = suppressed_text(&found, text)};
        r->is_suppressed[i] = outcome_decide(&r->outcome, i, &verdict);
    }
}

/* What held its recipients is over, and none is held any more. */
static void drop_refusal(struct request *r)
{
    free(r->refusal);
    r->refusal = NULL;
    memset(r->is_held, 0, r->outcome.recipient_count * sizeof(*r->is_held));
}

/* --- servers ---------------------------------------------------------------------------------- */

static bool is_limited(uint32_t used, int limit)
{
    return limit > 0 && used >= (uint32_t)limit;
}

void request_begin_server(struct request *r, const struct config_smtp *s, bool is_last,
                          bool is_ready)
{
    r->addresses++;
    r->is_final = is_last || is_limited(r->addresses, s->smtp_mx_address_limit);
    r->is_in_session = true;
    r->was_in_vain = false;
    if (r->refusal != NULL) {
        drop_refusal(r);
    }
    memset(r->is_tried, 0, r->outcome.recipient_count * sizeof(*r->is_tried));
    outcome_session_begin(&r->outcome, r->is_final);
    if (is_ready) {
        request_greeted(r, s);
    }
}

void request_set_provider(struct request *r, struct slice provider)
{
    size_t len = provider.len < sizeof(r->provider) ? provider.len : sizeof(r->provider) - 1;
    memcpy(r->provider, provider.data, len);
    r->provider[len] = '\0';
}

void request_greeted(struct request *r, const struct config_smtp *s)
{
    r->sessions++;
    r->connected = clock_wall();
    if (is_limited(r->sessions, s->smtp_mx_session_limit)) {
        r->is_final = true;
        outcome_session_is_final(&r->outcome);
    }
}

/* --- transactions ----------------------------------------------------------------------------- */

static_assert(CONFIG_VERP_MAX + 1 + RETURN_TOKEN_LEN == 254 &&
                  CONFIG_VERP_LOCAL_MAX + 1 + RETURN_TOKEN_LEN <= 64,
              "a return address is one that any receiver takes");

/* LOCAL@DOMAIN of the return addresses that the message's recipients have; NULL: they have none. */
static const char *return_base(const struct request *r, const struct worker *w)
{
    const struct config *config = w == NULL ? NULL : settings_of(w->engine)->config;
    const struct spool_envelope *envelope = &r->delivery->message->envelope;
    if (config == NULL || !config->has_return_tokens || envelope->sender.len == 0) {
        return NULL;
    }
    return config_verp(config, r->delivery->transport, envelope->tenant);
}

/* The sender of the transaction with this recipient, in memory that the request keeps; the
 * message's own when there is none for an address. */
static struct slice return_address(struct request *r, uint32_t position,
                                   const struct return_book *book, const char *base)
{
    const struct message *m = r->delivery->message;
    const struct return_subject subject = message_subject(m, r->indexes[position]);
    if (r->return_path == NULL) {
        r->return_path = malloc(RETURN_ADDRESS_MAX);
    }
    size_t len = r->return_path == NULL
                     ? 0
                     : return_book_address(book, slice_of(base), &subject, r->return_path);
    return len == 0 ? m->envelope.sender : slice_make(r->return_path, len);
}

const struct smtp_transaction *request_begin_transaction(struct request *r,
                                                         const struct smtp_client_features *f,
                                                         const struct worker *w)
{
    const struct message *m = r->delivery->message;
    const char *base = return_base(r, w);
    const uint32_t most = base != NULL ? 1 : f->rcpt_max;
    uint32_t count = 0;
    r->undecided = r->outcome.undecided;
    r->delivered = r->outcome.delivered;
    r->refused = 0;
    r->is_mail_taken = false;
    if (!r->is_in_session) {
        r->is_in_session = true;
        outcome_session_begin(&r->outcome, r->is_final);
    }
    for (uint32_t i = 0; i < r->outcome.recipient_count; i++) {
        if (r->outcome.recipients[i].kind != OUTCOME_UNDECIDED || r->is_tried[i] ||
            (most > 0 && count == most)) {
            continue;
        }
        r->is_tried[i] = true;
        r->recipients[count] = message_address(m, r->indexes[i]);
        r->positions[count] = i;
        r->is_answered[count] = false;
        count++;
    }
    r->transaction = (struct smtp_transaction){
        .sender = base != NULL && count > 0
                      ? return_address(r, r->positions[0], w->engine->returns, base)
                      : m->envelope.sender,
        .recipients = r->recipients,
        .recipient_count = count,
        .size_bytes = message_sent_bytes(m),
        .has_8bit = (m->envelope.flags & SPOOL_FLAG_8BIT) != 0,
        .needs_smtputf8 = (m->envelope.flags & SPOOL_FLAG_UTF8) != 0,
        .requires_tls = (m->envelope.flags & SPOOL_FLAG_REQUIRE_TLS) != 0,
    };
    return &r->transaction;
}

bool request_has_untried(const struct request *r)
{
    for (uint32_t i = 0; i < r->outcome.recipient_count; i++) {
        if (r->outcome.recipients[i].kind == OUTCOME_UNDECIDED && !r->is_tried[i]) {
            return true;
        }
    }
    return false;
}

/* Whether the server accepted a recipient of the transaction before `index`. Only recipients that
 * it did not accept get a verdict, and replies come in order. */
static bool has_accepted_before(const struct request *r, uint32_t index)
{
    return memchr(r->is_answered, false, index) != NULL;
}

void request_recipient(struct request *r, uint32_t index, const struct outcome_verdict *v,
                       bool is_wider)
{
    assert(index < r->transaction.recipient_count);
    r->is_answered[index] = true;
    if (v->code != 0 && v->stage != OUTCOME_STAGE_MAIL) {
        r->is_mail_taken = true;
        r->refused += v->stage == OUTCOME_STAGE_RCPT;
    }
    if (outcome_is_recipient_limit(v) && has_accepted_before(r, index)) {
        /* The server takes no more recipients in this transaction: this one goes into the next. As
         * each transaction carries at least one recipient, that comes to an end. */
        r->is_tried[r->positions[index]] = false;
        return;
    }
    if (is_wider) {
        r->is_held[r->positions[index]] = true;
        return;
    }
    (void)outcome_decide(&r->outcome, r->positions[index], v); /* soft ones may stay undecided */
}

void request_rest(struct request *r, const struct outcome_verdict *v, bool is_wider)
{
    for (uint32_t i = 0; i < r->transaction.recipient_count; i++) {
        if (!r->is_answered[i]) {
            request_recipient(r, i, v, is_wider);
        }
    }
}

static void end_attempt(struct request *r, bool is_complete)
{
    if (r->is_in_session) {
        r->is_in_session = false;
        outcome_session_end(&r->outcome, is_complete);
    }
}

void request_end_transaction(struct request *r, bool is_complete)
{
    r->was_in_vain = r->outcome.undecided == r->undecided;
    end_attempt(r, is_complete);
}

void request_count_taken(struct request *r)
{
    if (r->is_mail_taken || r->outcome.delivered > r->delivered) {
        r->delivery->taken_messages++;
        r->delivery->taken_recipients += r->transaction.recipient_count - r->refused;
    }
}

void request_doubt(struct request *r)
{
    r->is_doubtful = true;
}

void request_returned(struct request *r)
{
    end_attempt(r, false);
    if (!r->was_in_vain) {
        r->addresses -= r->addresses > 0;
        r->sessions -= r->sessions > 0;
    }
}

void request_site_failed(struct request *r, const struct outcome_verdict *v)
{
    (void)outcome_decide_rest(&r->outcome, v); /* how many does not matter here */
    end_attempt(r, false);
}

void request_hold_all(struct request *r)
{
    for (uint32_t i = 0; i < r->outcome.recipient_count; i++) {
        r->is_held[i] = r->outcome.recipients[i].kind == OUTCOME_UNDECIDED;
    }
}

uint32_t request_held_count(const struct request *r)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->outcome.recipient_count; i++) {
        count += r->is_held[i];
    }
    return count;
}

struct refusal *request_take_refusal(struct request *r)
{
    struct refusal *f = r->refusal;
    struct outcome_verdict v = f->verdict;
    if (f->falls_to != v.class) {
        v.class = f->falls_to;
        v.status = outcome_status_class(v.status, v.class == OUTCOME_HARD ? '5' : '4');
    }
    for (uint32_t i = 0; i < r->outcome.recipient_count; i++) {
        if (r->is_held[i]) {
            (void)outcome_decide(&r->outcome, i, &v); /* soft ones may stay undecided */
        }
    }
    request_end_transaction(r, f->is_complete);
    r->refusal = NULL;
    drop_refusal(r);
    return f;
}

struct refusal *request_park_held(struct request *r, usec_t until)
{
    r->park_until = until;
    memcpy(r->is_parked, r->is_held, r->outcome.recipient_count * sizeof(*r->is_parked));
    r->refusal->falls_to = OUTCOME_SOFT;
    outcome_session_is_final(&r->outcome);
    outcome_set_neutral(&r->outcome);
    return request_take_refusal(r);
}

void request_keep_refusal(struct request *r)
{
    end_attempt(r, false);
    r->addresses -= r->addresses > 0;
    r->sessions -= r->sessions > 0;
}

bool request_unreachable(struct request *r, const struct request_unreached *u)
{
    char text[600], address[IP_TEXT_MAX], source[EGRESS_TEXT_MAX];
    const struct dns_host *host = u->session->host;
    (void)snprintf(text, sizeof(text), "connect to " SLICE_FMT "[%s]:%u%s: %s",
                   SLICE_ARG(host->name), ip_text(&host->ip, address), (unsigned)host->port,
                   egress_describe(u->from, source), u->why);
    const struct outcome_verdict verdict = {
        .class = OUTCOME_SOFT,
        .scope = u->is_own ? OUTCOME_SCOPE_OWN : OUTCOME_SCOPE_SITE,
        .stage = OUTCOME_STAGE_CONNECT,
        .status = outcome_status_of("4.4.1"),
        .text = slice_of(text),
    };
    const struct reply_verdict meaning = {.class = REPLY_UNAVAILABLE, .rule = REPLY_NO_RULE};
    if (u->is_own && u->from->source != NULL) {
        r->refusal = refusal_new(&meaning, NULL, &verdict, u->session);
    }
    if (r->refusal != NULL) {
        r->refusal->is_own = true;
        request_hold_all(r);
        return true;
    }
    request_site_failed(r, &verdict);
    return false;
}

/* --- the end ---------------------------------------------------------------------------------- */

static enum result_kind result_kind_of(enum outcome_kind kind)
{
    if (kind == OUTCOME_DELIVERED) {
        return RESULT_DELIVERED;
    }
    return kind == OUTCOME_BOUNCED ? RESULT_FAILED : RESULT_DEFERRED;
}

static void describe_delivery(struct result *out, const struct delivery *d)
{
    out->done = clock_wall();
    out->destination = result_keep(out, d->destination);
    out->transport = d->transport;
    out->dispatched = d->dispatched;
    out->has_dispatch = true;
}

static void describe_session(struct result *out, const struct request *r,
                             const struct request_session *s)
{
    out->source = result_keep(out, s->source);
    out->host_name = result_keep(out, s->host->name);
    out->host_address = result_keep(out, slice_of(s->address));
    out->port = s->host->port;
    out->connection_use = r->use;
    if (s->tls.protocol != NULL) {
        out->tls_protocol = slice_of(s->tls.protocol);
        out->tls_cipher = slice_of(s->tls.cipher);
        out->tls_verdict = slice_of(s->tls.verdict);
        out->is_tls_resumed = s->tls.is_resumed;
    }
}

static enum sched_feedback_sign feedback_of(enum outcome_feedback feedback)
{
    if (feedback == OUTCOME_NEGATIVE) {
        return SCHED_NEGATIVE;
    }
    return feedback == OUTCOME_POSITIVE ? SCHED_POSITIVE : SCHED_NEUTRAL;
}

enum reply_stage request_stage_of(enum outcome_stage stage)
{
    static const enum reply_stage stages[OUTCOME_STAGE_COUNT] = {
        [OUTCOME_STAGE_RESOLVE] = REPLY_AT_NOTHING,   [OUTCOME_STAGE_CONNECT] = REPLY_AT_NOTHING,
        [OUTCOME_STAGE_GREETING] = REPLY_AT_GREETING, [OUTCOME_STAGE_EHLO] = REPLY_AT_EHLO,
        [OUTCOME_STAGE_HELO] = REPLY_AT_EHLO,         [OUTCOME_STAGE_STARTTLS] = REPLY_AT_STARTTLS,
        [OUTCOME_STAGE_TLS] = REPLY_AT_STARTTLS,      [OUTCOME_STAGE_AUTH] = REPLY_AT_AUTH,
        [OUTCOME_STAGE_MAIL] = REPLY_AT_MAIL,         [OUTCOME_STAGE_RCPT] = REPLY_AT_RCPT,
        [OUTCOME_STAGE_DATA] = REPLY_AT_DATA,         [OUTCOME_STAGE_BODY] = REPLY_AT_END,
        [OUTCOME_STAGE_DOT] = REPLY_AT_END,           [OUTCOME_STAGE_RSET] = REPLY_AT_NOTHING,
        [OUTCOME_STAGE_QUIT] = REPLY_AT_NOTHING,      [OUTCOME_STAGE_IDLE] = REPLY_AT_NOTHING,
        [OUTCOME_STAGE_LOCAL] = REPLY_AT_NOTHING,
    };
    return stages[stage];
}

/* What is known around a reply. */
static void set_context(const struct request *r, struct reply *ret)
{
    ret->provider = slice_of(r->provider);
    ret->is_later_mail = r->is_later;
    ret->has_others = r->delivery->has_others;
    ret->is_known_here = r->delivery->is_known_here || r->outcome.delivered > 0;
}

static void classify_one(const struct request *r, const struct outcome_recipient *to,
                         const struct request_rules *rules, struct reply_verdict *ret)
{
    struct reply reply;
    if (to->stage == OUTCOME_STAGE_LOCAL || to->stage == OUTCOME_STAGE_RESOLVE) {
        *ret = (struct reply_verdict){.rule = REPLY_NO_RULE}; /* no receiver said anything */
        return;
    }
    reply_read(slice_of(to->text), &reply);
    reply.stage = request_stage_of(to->stage);
    set_context(r, &reply);
    reply_set_classify(rules->set, rules->matcher, &reply, ret);
}

bool request_weigh(struct request *r, const struct outcome_verdict *v,
                   const struct request_session *session, const struct request_rules *rules)
{
    if (v->class == OUTCOME_SUCCESS || v->code == 0 || v->is_ambiguous || rules->matcher == NULL) {
        return false;
    }
    struct reply reply;
    struct reply_verdict meaning;
    reply_read(v->text, &reply);
    reply.stage = request_stage_of(v->stage);
    set_context(r, &reply);
    reply_set_classify(rules->set, rules->matcher, &reply, &meaning);
    if (session->figure != NULL) {
        limits_figure_refused(session->figure, meaning.class);
    }
    const struct reply_rule *rule =
        meaning.rule == REPLY_NO_RULE ? NULL : reply_set_rule(rules->set, meaning.rule);
    if (!refusal_is_wider(&meaning, rule == NULL ? 0 : rule->action_count)) {
        return false;
    }
    if (r->refusal != NULL) {
        return r->refusal->class == meaning.class && r->refusal->verdict.class == v->class;
    }
    r->refusal = refusal_new(&meaning, rule, v, session);
    return r->refusal != NULL;
}

/* What the refusals of the result mean. Neighbours that were told the same share the answer. */
static void classify_refusals(const struct request *r, const struct request_rules *rules,
                              struct result *out)
{
    const struct outcome_recipient *last = NULL;
    struct reply_verdict v = {.rule = REPLY_NO_RULE};
    out->rules = rules->serial;
    for (uint32_t i = 0; i < out->count; i++) {
        const struct outcome_recipient *to = &r->outcome.recipients[i];
        if (to->kind == OUTCOME_DELIVERED || to->text == NULL) {
            continue;
        }
        if (last == NULL || last->text != to->text || last->stage != to->stage) {
            classify_one(r, to, rules, &v);
            last = to;
        }
        out->recipients[i].class = (uint8_t)v.class;
        out->recipients[i].scope = (uint8_t)v.scope;
        out->recipients[i].rule = v.rule;
    }
}

/* NULL: out of memory */
static struct result *make_result(const struct request *r, const struct request_session *session,
                                  const struct request_rules *rules)
{
    const struct outcome *o = &r->outcome;
    struct result *out = result_new(r->delivery->message, o->recipient_count);
    if (out == NULL) {
        return NULL;
    }
    describe_delivery(out, r->delivery);
    out->connected = r->connected;
    out->is_ambiguous = o->ambiguous > 0 || r->is_doubtful;
    if (session != NULL) {
        describe_session(out, r, session);
    }
    out->park_until = r->park_until;
    out->is_paced = r->park_until != 0;
    out->defer_until = r->defer_until;
    out->blocked = r->blocked;
    for (uint32_t i = 0; i < o->recipient_count; i++) {
        const struct outcome_recipient *to = &o->recipients[i];
        enum result_kind kind = r->is_parked[i] ? RESULT_PARKED : result_kind_of(to->kind);
        kind = r->is_suppressed[i] ? RESULT_SUPPRESSED : kind;
        result_add(out, r->indexes[i], kind, to->code, to->status.text,
                   slice_of(to->text == NULL ? "" : to->text));
    }
    if (o->delivered < o->recipient_count && rules->matcher != NULL) {
        classify_refusals(r, rules, out);
    }
    return out;
}

static void tell_writer(struct outbox *to_writer, struct result *out, const struct delivery *d,
                        uint32_t count)
{
    result_send(to_writer, out, d->message, count, RESULT_WAS_LOADED | RESULT_WAS_DISPATCHED);
}

void request_finish(struct request *r, const struct request_session *session,
                    const struct request_rules *rules, struct outbox *to_writer)
{
    struct delivery *d = r->delivery;
    struct outcome *o = &r->outcome;
    struct outcome_reason reason;
    if (r->refusal != NULL) {
        free(request_take_refusal(r));
    }
    if (r->is_in_session) {
        end_attempt(r, false);
    }
    outcome_finish(o);
    enum outcome_feedback feedback = outcome_feedback(o, &reason);
    d->feedback = feedback_of(feedback);
    d->has_deferred = outcome_has_deferred(o);
    if (feedback == OUTCOME_NEGATIVE) {
        memcpy(d->reason.status, reason.status, sizeof(d->reason.status));
        memcpy(d->reason.text, reason.text, sizeof(d->reason.text));
    }
    tell_writer(to_writer, make_result(r, session, rules), d, o->recipient_count);
    d->again = false;
    d->request = NULL;
    request_free(r);
}

void request_refuse(struct delivery *d, const char *status, const char *text,
                    struct outbox *to_writer)
{
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(d->entry, &count);
    struct result *out = result_new(d->message, count);
    d->feedback = SCHED_NEUTRAL;
    d->has_deferred = true;
    d->again = false;
    if (out != NULL) {
        describe_delivery(out, d);
        for (uint32_t i = 0; i < count; i++) {
            result_add(out, indexes[i], RESULT_DEFERRED, 0, status, slice_of(text));
        }
    }
    tell_writer(to_writer, out, d, count);
}
