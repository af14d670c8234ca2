/* What a client gives in a session: its envelope, content and password, and what it is answered.
 * Called by inbound.c on the worker's thread; reads and writes no byte of the connection, and ends
 * no session. */
#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/inbound/inbound_private.h"
#include "engine/inbound/listener_hearing.h"
#include "engine/inbound/tenant_refusal.h"
#include "engine/post/hearing.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Content that has come for no longer keeps its place. */
static const usec_t hearing_grace = 5 * USEC_PER_SEC;

void inbound_drop_reception(struct inbound *c)
{
    uint64_t staged = reception_drop(&c->reception);
    if (c->hearing != NULL) {
        list_remove(&c->in_hearing);
        c->worker->hearings--;
        hearing_free(c->hearing);
        c->hearing = NULL;
    }
    if (staged != 0) {
        letter_put_discard(c->worker->to_writer, staged);
    }
}

static void count_refusal(struct inbound *c)
{
    atomic_fetch_add_explicit(&c->worker->engine->refused, 1, memory_order_relaxed);
}

/* Clients go elsewhere, or come again: a transaction that has begun is finished. */
const char inbound_drain_text[] = "System is being drained, no mail is taken";

/* Where no header field can name another tenant, as in settle_tenant of reception.c, it is known at
 * MAIL already whose the mail is. */
static bool is_tenant_known(const struct inbound *c, struct label *ret)
{
    const struct config_listener *lc = c->rules->config;
    *ret = c->reception.bound;
    if (ret->len == 0 && lc != NULL && lc->tenant_header != NULL) {
        return false;
    }
    if (ret->len == 0 && lc != NULL && lc->tenant != NULL) {
        label_set(ret, slice_of(lc->tenant));
    }
    if (ret->len == 0 && c->smtp.is_authenticated) {
        label_set(ret, c->smtp.auth_username);
    }
    return true;
}

/* Recipients of a tenant that may give no mail are refused, before the client sends its content for
 * nothing. */
static void refuse_early(struct inbound *c)
{
    char text[TENANT_REFUSAL_TEXT];
    const char *status;
    int code;
    struct label tenant;
    if (!is_tenant_known(c, &tenant)) {
        return;
    }
    if (tenant_refusal(c->worker->engine, label_slice(&tenant), false, &code, &status, text)) {
        count_refusal(c);
        smtp_server_refuse_recipients(&c->smtp, code, status, text);
    }
}

bool inbound_refuses_recipient(void *ctx, struct slice address,
                               char ret[static SMTP_SERVER_REFUSAL_MAX])
{
    struct inbound *c = ctx;
    struct engine *e = c->worker->engine;
    struct label tenant = {.len = 0};
    if (spool_suppress_count(e->store) == 0) {
        return false;
    }
    (void)is_tenant_known(c, &tenant); /* where it is not, the list for all is asked */
    return tenant_suppresses(e, worker_reader(c->worker), label_slice(&tenant), address, ret);
}

enum smtp_server_hearing inbound_hears_recipient(void *ctx, struct slice address)
{
    const struct inbound *c = ctx;
    return listener_hears(c->worker->engine, c->rules->config, address);
}

static void accept_envelope(struct inbound *c)
{
    struct engine *e = c->worker->engine;
    uint32_t gate = engine_gate(e);
    usec_t now = c->worker->now;
    if ((gate & ENGINE_GATE_DRAINING) != 0) {
        smtp_server_answer(&c->smtp, 421, "4.3.2", inbound_drain_text, now);
        return;
    }
    if ((gate & ENGINE_GATE_LOW_SPACE) != 0) {
        count_refusal(c);
        smtp_server_answer(&c->smtp, 452, "4.3.1", "Insufficient system storage", now);
        return;
    }
    if ((gate & ENGINE_GATE_LOG_FULL) != 0) {
        count_refusal(c);
        smtp_server_answer(&c->smtp, 452, "4.3.1", "Insufficient room in the cluster's log", now);
        return;
    }
    if ((gate & ENGINE_GATE_LOG) != 0) {
        count_refusal(c);
        smtp_server_answer(&c->smtp, 451, "4.3.0", "Cluster not available, try again later", now);
        return;
    }
    if ((gate & ENGINE_GATE_BROKEN) != 0) {
        count_refusal(c);
        smtp_server_answer(&c->smtp, 452, "4.3.0", "Queue not available, try again later", now);
        return;
    }
    if (c->rules->config != NULL && c->rules->config->require_tls && !c->smtp.is_tls) {
        smtp_server_answer(&c->smtp, 530, "5.7.0", "Must issue a STARTTLS command first", now);
        return;
    }
    uint64_t id = engine_new_id(e);
    bool is_reserved = engine_id_is_reserved(e, id);
    if (!is_reserved) {
        /* Each MAIL takes an id, even if no message follows. Ids are reserved by commits, and the
         * writer may have nothing else to commit: it is woken to reserve more. */
        mailbox_wake(e->boxes.writer);
    }
    const bool is_hashed = settings_of(e)->keys != NULL;
    if (!is_reserved ||
        reception_open(&c->reception, id, (uint16_t)c->worker->index, c, is_hashed) != 0) {
        count_refusal(c);
        smtp_server_answer(&c->smtp, 451, "4.3.0", "Out of resources, try again later", now);
        return;
    }
    refuse_early(c);
    smtp_server_answer(&c->smtp, 250, "2.1.0", "Ok", now);
}

static void send_part(struct inbound *c, bool is_last)
{
    struct intake *in = c->reception.intake;
    atomic_fetch_add_explicit(&c->worker->engine->intake_bytes, in->body.len + in->packed.len,
                              memory_order_relaxed);
    c->is_away = true;
    if (is_last) {
        letter_put_store(c->worker->to_receptions, in);
    } else {
        letter_put_stage(c->worker->to_receptions, in);
    }
}

static const char many_reports[] = "Too many reports at once, try again later";

/* Anybody may give mail for us, and may take his time. When all places are taken, the one whose content has
 * been coming for longest gives up his to the newcomer: so whoever is quick is heard, however many are slow. */
static bool has_place(struct worker *w)
{
    uint32_t most = HEARINGS_MAX / w->engine->worker_count;
    if (w->hearings < (most > 0 ? most : 1)) {
        return true;
    }
    if (list_is_empty(&w->hearing)) {
        return false;
    }
    struct inbound *oldest = list_first(&w->hearing, struct inbound, in_hearing);
    if (w->now - oldest->hearing_since < hearing_grace) {
        return false;
    }
    count_refusal(oldest);
    smtp_server_fail(&oldest->smtp, 451, "4.3.2", many_reports);
    inbound_drop_reception(oldest);
    return true;
}

/* The message is for us: nothing of it goes to the spool. */
static void begin_hearing(struct inbound *c)
{
    struct worker *w = c->worker;
    const struct listener_hearing_of of = {c->reception.intake->envelope.id, (uint16_t)w->index, c};
    inbound_drop_reception(c);
    c->hearing = has_place(w) ? listener_hearing_begin(&c->smtp, &of) : NULL;
    if (c->hearing == NULL) {
        count_refusal(c);
        smtp_server_fail(&c->smtp, 451, "4.3.2", many_reports);
        return;
    }
    w->hearings++;
    c->hearing_since = w->now;
    list_push_back(&w->hearing, &c->in_hearing);
}

/* Takes the core's recipients. A full batch goes to the spool at once, so that an envelope of any
 * size takes the memory of two batches. */
static void take_session_recipients(struct inbound *c)
{
    bool is_full;
    if (c->smtp.is_heard) {
        begin_hearing(c);
        return;
    }
    if (reception_add_recipients(&c->reception, &c->smtp, &is_full) != 0) {
        count_refusal(c);
        smtp_server_fail(&c->smtp, 452, "4.3.1", "Out of memory");
        inbound_drop_reception(c);
    } else if (is_full) {
        send_part(c, false);
    }
}

static void take_chunk(struct inbound *c)
{
    if (c->hearing != NULL) {
        listener_hearing_take(c->hearing, &c->reception.body);
        return;
    }
    if (c->reception.intake == NULL) {
        buf_clear(&c->reception.body); /* the transaction failed; its content is dropped */
        return;
    }
    if (reception_cut(&c->reception, &c->smtp.body.facts, settings_of(c->worker->engine)->keys)) {
        send_part(c, false);
    }
}

/* The user may give no mail of the tenant that the header names. */
static void refuse_tenant(struct inbound *c)
{
    uint64_t silent;
    struct slice user = c->smtp.auth_username;
    if (denial_count(&c->worker->engine->denials, DENIAL_USER, c->worker->now, &silent)) {
        log_warning("listener: user " SLICE_FMT " from %s is bound to tenant " SLICE_FMT
                    " and named another: refused with 550%s",
                    SLICE_ARG(user), c->smtp.peer, SLICE_ARG(label_slice(&c->reception.bound)),
                    silent > 0 ? "; more of the kind were not logged" : "");
    }
    smtp_server_answer(&c->smtp, 550, "5.7.1", "The tenant in the header is not that of the user",
                       c->worker->now);
}

void inbound_answer_refused(struct inbound *c)
{
    char text[TENANT_REFUSAL_TEXT];
    const char *status = "4.3.1";
    int code = 452;
    if (!tenant_refusal(c->worker->engine, c->reception.intake->envelope.tenant, true, &code,
                        &status, text)) {
        (void)snprintf(text, sizeof(text), "Try again"); /* a reload took the limit away */
    }
    count_refusal(c);
    smtp_server_answer(&c->smtp, code, status, text, c->worker->now);
    inbound_drop_reception(c);
}

static void take_message(struct inbound *c)
{
    if (c->hearing != NULL) {
        listener_hearing_take(c->hearing, &c->reception.body);
        list_remove(&c->in_hearing);
        c->is_away = true;
        letter_put_hear(c->worker->to_hearer, c->hearing);
        return;
    }
    struct engine *e = c->worker->engine;
    const struct settings *settings = settings_of(e);
    int err = reception_complete(&c->reception, &c->smtp, settings->config, settings->keys);
    if (err == -EACCES) {
        inbound_drop_reception(c);
        refuse_tenant(c);
        return;
    }
    if (err != 0) {
        inbound_drop_reception(c);
        count_refusal(c);
        smtp_server_answer(&c->smtp, 452, "4.3.1", "Out of memory", c->worker->now);
        return;
    }
    if (c->reception.odd_labels > 0) {
        atomic_fetch_add_explicit(&e->odd_labels, c->reception.odd_labels, memory_order_relaxed);
    }
    const struct config_tenant *t =
        config_tenant_find(settings_of(e)->config, c->reception.intake->envelope.tenant);
    if (t != NULL && !t->inject) {
        inbound_answer_refused(c);
        return;
    }
    send_part(c, true);
}

static void ask_password(struct inbound *c)
{
    struct auth_request *r = calloc(1, sizeof(*r));
    struct slice name = c->smtp.auth_username, password = c->smtp.auth_password;
    if (r == NULL || c->rules->users == NULL || name.len >= sizeof(r->name) ||
        password.len >= sizeof(r->password)) {
        free(r); /* no password is in it yet, so nothing has to be wiped */
        smtp_server_auth_answer(&c->smtp, SMTP_SERVER_AUTH_TEMPFAIL, c->worker->now);
        return;
    }
    memcpy(r->name, name.data, name.len);
    memcpy(r->password, password.data, password.len);
    r->users = c->rules->users;
    r->settings = settings_get(c->settings);
    r->worker = (uint16_t)c->worker->index;
    r->connection = c;
    c->is_away = true;
    letter_put_password(c->worker->to_auth, r);
}

void inbound_take_event(struct inbound *c, enum smtp_server_event event)
{
    switch (event) {
    case SMTP_SERVER_ENVELOPE:
        accept_envelope(c);
        break;
    case SMTP_SERVER_RECIPIENTS:
        take_session_recipients(c);
        break;
    case SMTP_SERVER_BODY:
        take_chunk(c);
        break;
    case SMTP_SERVER_MESSAGE:
        take_message(c);
        break;
    case SMTP_SERVER_ABORTED:
        inbound_drop_reception(c);
        buf_clear(&c->reception.body);
        break;
    case SMTP_SERVER_AUTH:
        ask_password(c);
        break;
    case SMTP_SERVER_STARTTLS:
        c->is_handshaking = true; /* begins once the 220 is flushed */
        break;
    case SMTP_SERVER_CLOSE:
        c->is_closing = true;
        break;
    case SMTP_SERVER_INPUT:
    case SMTP_SERVER_FLUSH:
    case SMTP_SERVER_WAIT:
    case SMTP_SERVER_EVENT_COUNT:
    default:
        break;
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

void inbound_answer_error(struct inbound *c, int err, bool is_message)
{
    bool is_full = err == -ENOSPC || err == -EDQUOT;
    int code = is_full ? 452 : 451;
    const char *status = is_full ? "4.3.1" : "4.3.0";
    const char *text = is_full ? "Insufficient system storage" : "Queue file write error";
    count_refusal(c);
    if (is_message) {
        smtp_server_answer(&c->smtp, code, status, text, c->worker->now);
    } else {
        smtp_server_fail(&c->smtp, code, status, text);
    }
}

/* RFC 6710, X.3.6: the message was accepted, but not with the priority that its client asked for. */
static void answer_other_priority(struct inbound *c, const struct intake *in, enum mail_class class)
{
    char id[MESSAGE_ID_TEXT], text[80];
    message_id_format(in->envelope.id, id);
    (void)snprintf(text, sizeof(text), "%d is the new priority (%s): queued as %s", /* it fits */
                   mail_class_priority(class), mail_class_text(class), id);
    smtp_server_answer(&c->smtp, 250, "2.3.6", text, c->worker->now);
}

void inbound_answer_stored(struct inbound *c, struct intake *in)
{
    static const char queued[] = "Ok: queued as ";
    char text[sizeof(queued) - 1 + MESSAGE_ID_TEXT];
    enum mail_class class = spool_mail_class(in->envelope.flags);
    if (c->smtp.has_priority && class != mail_class_of_priority(c->smtp.priority)) {
        answer_other_priority(c, in, class);
        return;
    }
    memcpy(text, queued, sizeof(queued) - 1);
    message_id_format(in->envelope.id, text + sizeof(queued) - 1);
    smtp_server_answer(&c->smtp, 250, "2.0.0", text, c->worker->now);
}
