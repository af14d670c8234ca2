#include "engine/request.h"

#include "dns/hosts.h"
#include "engine/config.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/result.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TLS_LEVELS = SMTP_CLIENT_TLS_ENCRYPT + 1 }; /* settings a transport */

static void request_free(struct request *r)
{
    outcome_fini(&r->outcome);
    free(r->is_tried);
    free(r->recipients);
    free(r->positions);
    free(r->is_answered);
    memset(r, 0, sizeof(*r));
}

int request_init(struct request *r, struct delivery *d, usec_t now)
{
    uint32_t count;
    (void)now;
    memset(r, 0, sizeof(*r));
    r->indexes = sched_entry_indexes(d->entry, &count);
    if (outcome_init(&r->outcome, count) != 0) {
        return -ENOMEM;
    }
    r->is_tried = calloc(count, sizeof(*r->is_tried));
    r->recipients = calloc(count, sizeof(*r->recipients));
    r->positions = calloc(count, sizeof(*r->positions));
    r->is_answered = calloc(count, sizeof(*r->is_answered));
    if (r->is_tried == NULL || r->recipients == NULL || r->positions == NULL ||
        r->is_answered == NULL) {
        request_free(r);
        return -ENOMEM;
    }
    r->delivery = d;
    r->skip_host = UINT32_MAX;
    return 0;
}

struct delivery *request_drop(struct request *r)
{
    struct delivery *d = r->delivery;
    request_free(r);
    if (d != NULL) {
        d->feedback = SCHED_NEUTRAL;
        d->has_deferred = true;
        d->connection_open = false;
    }
    return d;
}

/* --- servers -----------------------------------------------------------------------------------
 */

static bool is_limited(uint32_t used, int limit)
{
    return limit > 0 && used >= (uint32_t)limit;
}

static bool has_host_after(const struct request *r, const struct dns_hosts *hosts)
{
    for (uint32_t i = r->next_host; i < hosts->count; i++) {
        if (i != r->skip_host) {
            return true;
        }
    }
    return false;
}

static void begin_server(struct request *r, bool is_final)
{
    r->is_final = is_final;
    r->has_transaction = false;
    r->is_in_session = true;
    memset(r->is_tried, 0, r->outcome.recipient_count * sizeof(*r->is_tried));
    outcome_session_begin(&r->outcome, is_final);
}

bool request_next_host(struct request *r, const struct config_smtp *s,
                       const struct dns_hosts *hosts, uint32_t *ret_host)
{
    if (is_limited(r->addresses, s->smtp_mx_address_limit) ||
        is_limited(r->sessions, s->smtp_mx_session_limit) || !has_host_after(r, hosts)) {
        return false;
    }
    if (r->next_host == r->skip_host) {
        r->next_host++;
    }
    *ret_host = r->next_host++;
    r->addresses++;
    r->without_tls = false;
    begin_server(r,
                 is_limited(r->addresses, s->smtp_mx_address_limit) || !has_host_after(r, hosts));
    return true;
}

void request_reuse(struct request *r, const struct config_smtp *s, const struct dns_hosts *hosts,
                   uint32_t host)
{
    r->skip_host = host;
    r->addresses = r->sessions = 1;
    r->connected = clock_wall();
    begin_server(r, is_limited(1, s->smtp_mx_address_limit) ||
                        is_limited(1, s->smtp_mx_session_limit) || !has_host_after(r, hosts));
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

/* --- transactions -------------------------------------------------------------------------------
 */

const struct smtp_transaction *request_begin_transaction(struct request *r,
                                                         const struct smtp_client_features *f)
{
    const struct message *m = r->delivery->message;
    uint32_t count = 0;
    if (!r->is_in_session) {
        r->is_in_session = true;
        outcome_session_begin(&r->outcome, r->is_final);
    }
    for (uint32_t i = 0; i < r->outcome.recipient_count; i++) {
        if (r->outcome.recipients[i].kind != OUTCOME_UNDECIDED || r->is_tried[i] ||
            (f->rcpt_max > 0 && count == f->rcpt_max)) {
            continue;
        }
        r->is_tried[i] = true;
        r->recipients[count] = message_address(m, r->indexes[i]);
        r->positions[count] = i;
        r->is_answered[count] = false;
        count++;
    }
    r->has_transaction = true;
    r->transaction = (struct smtp_transaction){
        .sender = m->envelope.sender,
        .recipients = r->recipients,
        .recipient_count = count,
        .size_bytes = m->envelope.size_bytes,
        .has_8bit = (m->envelope.flags & SPOOL_FLAG_8BIT) != 0,
        .needs_smtputf8 = (m->envelope.flags & SPOOL_FLAG_UTF8) != 0,
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

void request_recipient(struct request *r, uint32_t index, const struct outcome_verdict *v)
{
    assert(index < r->transaction.recipient_count);
    r->is_answered[index] = true;
    (void)outcome_decide(&r->outcome, r->positions[index], v); /* kept ones stay undecided */
}

void request_rest(struct request *r, const struct outcome_verdict *v)
{
    for (uint32_t i = 0; i < r->transaction.recipient_count; i++) {
        if (!r->is_answered[i]) {
            request_recipient(r, i, v);
        }
    }
}

static void end_session(struct request *r, bool is_complete)
{
    if (r->is_in_session) {
        r->is_in_session = false;
        outcome_session_end(&r->outcome, is_complete);
    }
}

void request_end_transaction(struct request *r, bool is_complete)
{
    end_session(r, is_complete);
}

void request_failed(struct request *r, const struct outcome_verdict *v, bool retry_fresh)
{
    if (retry_fresh && !r->has_been_fresh) {
        /* The server took nothing: the same recipients again on a new connection to it. */
        r->has_been_fresh = r->wants_fresh = true;
        r->has_transaction = false;
        memset(r->is_tried, 0, r->outcome.recipient_count * sizeof(*r->is_tried));
        return;
    }
    if (!r->wants_plain && v != NULL) {
        request_site_failed(r, v);
    }
}

void request_site_failed(struct request *r, const struct outcome_verdict *v)
{
    (void)outcome_decide_rest(&r->outcome, v); /* how many does not matter here */
    end_session(r, false);
}

/* --- the end -----------------------------------------------------------------------------------
 */

static enum result_kind kind_of(enum outcome_kind kind)
{
    return kind == OUTCOME_DELIVERED ? RESULT_DELIVERED
           : kind == OUTCOME_BOUNCED ? RESULT_FAILED
                                     : RESULT_DEFERRED;
}

static void describe_session(struct result *out, const struct request *r,
                             const struct request_session *s)
{
    const struct delivery *d = r->delivery;
    out->destination = result_keep(out, d->destination);
    out->dispatched = d->dispatched;
    out->connected = r->connected;
    out->has_dispatch = true;
    out->is_ambiguous = r->outcome.ambiguous > 0;
    if (s->host != NULL) {
        out->host_name = result_keep(out, s->host->name);
        out->host_address = result_keep(out, slice_of(s->address));
        out->port = s->host->port;
        out->connection_use = s->uses;
    }
    if (s->tls.protocol != NULL) {
        out->tls_protocol = slice_of(s->tls.protocol);
        out->tls_cipher = slice_of(s->tls.cipher);
        out->tls_verdict = slice_of(s->tls.verdict);
        out->is_tls_resumed = s->tls.is_resumed;
    }
}

struct result *request_finish(struct request *r, const struct request_session *session)
{
    struct delivery *d = r->delivery;
    struct outcome *o = &r->outcome;
    struct outcome_reason reason;
    if (r->is_in_session) {
        end_session(r, false);
    }
    outcome_finish(o);
    enum outcome_feedback feedback = outcome_feedback(o, &reason);
    d->feedback = feedback == OUTCOME_NEGATIVE   ? SCHED_NEGATIVE
                  : feedback == OUTCOME_POSITIVE ? SCHED_POSITIVE
                                                 : SCHED_NEUTRAL;
    d->has_deferred = outcome_has_deferred(o);
    if (feedback == OUTCOME_NEGATIVE) {
        memcpy(d->reason.status, reason.status, sizeof(d->reason.status));
        memcpy(d->reason.text, reason.text, sizeof(d->reason.text));
    }
    struct result *out = result_new(d->message, o->recipient_count);
    if (out != NULL) {
        out->done = clock_wall();
        describe_session(out, r, session);
        for (uint32_t i = 0; i < o->recipient_count; i++) {
            const struct outcome_recipient *to = &o->recipients[i];
            result_add(out, r->indexes[i], kind_of(to->kind), to->code, to->status.text,
                       slice_of(to->text == NULL ? "" : to->text));
        }
    }
    request_free(r);
    return out;
}

struct result *request_refuse(struct delivery *d, const char *status, const char *text)
{
    uint32_t count;
    const uint32_t *indexes = sched_entry_indexes(d->entry, &count);
    struct result *out = result_new(d->message, count);
    d->feedback = SCHED_NEUTRAL;
    d->has_deferred = true;
    if (out != NULL) {
        out->done = clock_wall();
        out->has_dispatch = true;
        out->dispatched = d->dispatched;
        out->destination = result_keep(out, d->destination);
        for (uint32_t i = 0; i < count; i++) {
            result_add(out, indexes[i], RESULT_DEFERRED, 0, status, slice_of(text));
        }
    }
    return out;
}

/* --- settings of the core ------------------------------------------------------------------------
 */

static void client_config(const struct config_smtp *s, enum smtp_client_tls tls,
                          struct smtp_client_config *ret)
{
    smtp_client_config_defaults(ret);
    ret->ehlo_name = slice_of(s->smtp_helo_name);
    ret->tls = tls;
    ret->always_send_ehlo = s->smtp_always_send_ehlo;
    ret->skip_5xx_greeting = s->smtp_skip_5xx_greeting;
    ret->helo_timeout = s->smtp_helo_timeout;
    ret->starttls_timeout = s->smtp_starttls_timeout;
    ret->mail_timeout = s->smtp_mail_timeout;
    ret->rcpt_timeout = s->smtp_rcpt_timeout;
    ret->data_init_timeout = s->smtp_data_init_timeout;
    ret->data_xfer_timeout = s->smtp_data_xfer_timeout;
    ret->data_done_timeout = s->smtp_data_done_timeout;
    ret->rset_timeout = s->smtp_rset_timeout;
    ret->quit_timeout = s->smtp_quit_timeout;
}

int request_configs_init(struct engine *e)
{
    size_t count = e->config->transport_count;
    e->client_configs = calloc(count * TLS_LEVELS, sizeof(*e->client_configs));
    if (e->client_configs == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count * TLS_LEVELS; i++) {
        client_config(&e->config->transports[i / TLS_LEVELS].smtp,
                      (enum smtp_client_tls)(i % TLS_LEVELS), &e->client_configs[i]);
    }
    return 0;
}

void request_configs_fini(struct engine *e)
{
    free(e->client_configs);
    e->client_configs = NULL;
}

const struct smtp_client_config *request_client_config(const struct engine *e, uint32_t transport,
                                                       enum smtp_client_tls tls)
{
    return &e->client_configs[(size_t)transport * TLS_LEVELS + tls];
}
