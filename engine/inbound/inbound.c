/* A session is owned by its worker. While its reception is with the spool writer (or its password
 * with the auth thread) `is_away` is set: the session then does nothing but flush replies, and when
 * the connection is lost it stays allocated until the answer returns. */
#include "engine/inbound/inbound.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/inbound/listener_hearing.h"
#include "engine/inbound/reception.h"
#include "engine/inbound/tenant_refusal.h"
#include "engine/post/hearing.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/queue_count.h"
#include "engine/tally/tally.h"
#include "net/smtp_server.h"
#include "net/stream.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STEPS_PER_PASS = 256, /* of one session, so that it cannot starve the others */
    READS_PER_PASS = 4,
    OUT_PENDING_MAX = 64 << 10, /* replies the client does not read: stop serving it */
};

struct inbound {
    struct worker_ready ready;
    struct list all;
    struct list paused;
    struct worker *worker;
    struct listener *listener;
    struct settings *settings; /* own reference: rules are of them */
    const struct listener_rules *rules;
    struct poller_watch watch;
    struct timeout timer;
    struct stream stream;
    struct smtp_server smtp;
    struct sockaddr_storage peer;
    struct reception reception;
    struct hearing *hearing; /* in place of a reception; NULL: it is mail to be relayed */
    struct buf input;        /* received and not yet consumed */
    bool is_counted;         /* in the listener's limits */
    bool is_away;
    bool is_handshaking;
    bool is_closing; /* replies flushed, then close */
    bool is_dead;    /* closed, and freed when the answer that is away has come */
};

static void run_inbound(struct inbound *c);

/* --- end of a session ------------------------------------------------------------------------- */

static void drop_reception(struct inbound *c)
{
    uint64_t staged = reception_drop(&c->reception);
    listener_hearing_end(c->worker->engine, c->hearing);
    c->hearing = NULL;
    if (staged != 0) {
        letter_put_discard(c->worker->to_writer, staged);
    }
}

static void free_session(struct inbound *c)
{
    drop_reception(c);
    reception_fini(&c->reception);
    buf_fini(&c->input);
    smtp_server_fini(&c->smtp);
    settings_put(c->settings);
    free(c);
}

static void end_inbound(struct inbound *c)
{
    struct worker *w = c->worker;
    poller_remove(&w->poller, &c->watch);
    timeout_remove(&w->timeouts, &c->timer);
    stream_close(&c->stream);
    list_remove(&c->ready.link);
    list_remove(&c->paused);
    list_remove(&c->all);
    if (c->is_counted) {
        listener_release(c->listener, (const struct sockaddr *)&c->peer);
    }
    atomic_fetch_sub_explicit(&w->inbound_count, 1, memory_order_relaxed);
    if (c->is_away) {
        c->is_dead = true;
        return;
    }
    free_session(c);
}

/* --- events of the core ----------------------------------------------------------------------- */

static void count_refusal(struct inbound *c)
{
    atomic_fetch_add_explicit(&c->worker->engine->refused, 1, memory_order_relaxed);
}

/* Clients go elsewhere, or come again: a transaction that has begun is finished. */
static const char drain_text[] = "System is being drained, no mail is taken";

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

/* Whether the recipient is on a list of suppressed ones, and is to be refused for that. By its tenant's
 * list only where the tenant is known by now; before an attempt it is asked again. */
static bool refuses_recipient(void *ctx, struct slice address,
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

static enum smtp_server_hearing hears_recipient(void *ctx, struct slice address)
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
        smtp_server_answer(&c->smtp, 421, "4.3.2", drain_text, now);
        return;
    }
    if ((gate & ENGINE_GATE_LOW_SPACE) != 0) {
        count_refusal(c);
        smtp_server_answer(&c->smtp, 452, "4.3.1", "Insufficient system storage", now);
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
        letter_put_store(c->worker->to_writer, in);
    } else {
        letter_put_stage(c->worker->to_writer, in);
    }
}

/* The message is for us: nothing of it goes to the spool. */
static void begin_hearing(struct inbound *c)
{
    const struct listener_hearing_of of = {c->reception.intake->envelope.id,
                                           (uint16_t)c->worker->index, c};
    drop_reception(c);
    c->hearing = listener_hearing_begin(c->worker->engine, &c->smtp, &of);
    if (c->hearing == NULL) {
        count_refusal(c);
        smtp_server_fail(&c->smtp, 451, "4.3.2", "Too many reports at once, try again later");
    }
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
        drop_reception(c);
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

/* The message is complete, and its tenant may not have it queued. */
static void answer_refused(struct inbound *c)
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
    drop_reception(c);
}

static void take_message(struct inbound *c)
{
    if (c->hearing != NULL) {
        listener_hearing_take(c->hearing, &c->reception.body);
        c->is_away = true;
        letter_put_hear(c->worker->to_hearer, c->hearing);
        return;
    }
    struct engine *e = c->worker->engine;
    const struct settings *settings = settings_of(e);
    int err = reception_complete(&c->reception, &c->smtp, settings->config, settings->keys);
    if (err == -EACCES) {
        drop_reception(c);
        refuse_tenant(c);
        return;
    }
    if (err != 0) {
        drop_reception(c);
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
        answer_refused(c);
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

static void take_server_event(struct inbound *c, enum smtp_server_event event)
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
        drop_reception(c);
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

/* --- bytes ------------------------------------------------------------------------------------ */

/* returns false when the session ended */
static bool flush_replies(struct inbound *c)
{
    while (c->smtp.out.len > 0) {
        if (!stream_can_write(&c->stream)) {
            break;
        }
        ssize_t n = stream_write(&c->stream, c->smtp.out.data, c->smtp.out.len, false);
        if (n == ERR_AGAIN) {
            break;
        }
        if (n < 0) {
            end_inbound(c);
            return false;
        }
        buf_consume(&c->smtp.out, (size_t)n);
    }
    if (c->is_closing && (c->smtp.out.len == 0 || c->smtp.out.len > OUT_PENDING_MAX)) {
        end_inbound(c);
        return false;
    }
    return true;
}

static bool handshake(struct inbound *c)
{
    if (c->smtp.out.len > 0) {
        return true; /* the 220 first */
    }
    if (!stream_is_tls(&c->stream) && c->stream.ssl == NULL) {
        buf_clear(&c->input); /* nothing said in clear survives (RFC 3207 4.2) */
        struct ssl_st *ssl = tls_server_connection(c->rules->tls);
        if (ssl == NULL || stream_start_tls(&c->stream, ssl) != 0) {
            end_inbound(c);
            return false;
        }
    }
    int err = stream_handshake(&c->stream);
    if (err == ERR_AGAIN) {
        return true;
    }
    if (err != 0) {
        end_inbound(c);
        return false;
    }
    struct tls_facts facts;
    stream_tls_facts(&c->stream, &facts);
    c->is_handshaking = false;
    smtp_server_tls_started(&c->smtp, facts.protocol, facts.cipher, c->worker->now);
    return true;
}

/* Gives `in` to the core; bytes that the core does not consume stay in c->input.
 * returns false when the session ended */
static bool feed(struct inbound *c, struct slice in, bool is_kept, int *steps)
{
    size_t had = in.len;
    while (*steps > 0 && !c->is_away && !c->is_handshaking && !c->is_closing) {
        enum smtp_server_event event =
            smtp_server_step(&c->smtp, &in, &c->reception.body, c->worker->now);
        (*steps)--;
        take_server_event(c, event);
        if (event == SMTP_SERVER_INPUT || event == SMTP_SERVER_WAIT) {
            break;
        }
        if (event == SMTP_SERVER_FLUSH) {
            if (!flush_replies(c)) {
                return false;
            }
            if (c->smtp.out.len > 0) {
                break;
            }
        }
    }
    if (is_kept) {
        buf_consume(&c->input, had - in.len);
    } else if (in.len > 0) {
        buf_append_slice(&c->input, in);
    }
    return true;
}

/* returns false when the session ended; *ret_progress: more may be there */
static bool read_socket(struct inbound *c, int *steps, bool *ret_progress)
{
    *ret_progress = false;
    if (!stream_can_read(&c->stream)) {
        return true;
    }
    ssize_t n = stream_read(&c->stream, c->worker->input, WORKER_READ_BYTES);
    if (n == ERR_AGAIN) {
        return true;
    }
    if (n <= 0) {
        end_inbound(c);
        return false;
    }
    *ret_progress = true;
    return feed(c, slice_make(c->worker->input, (size_t)n), false, steps);
}

/* Whether sessions must stop reading, as receptions use up all of intake_memory. */
static bool must_pause(const struct engine *e)
{
    return atomic_load_explicit(&e->intake_bytes, memory_order_relaxed) >=
           settings_of(e)->config->intake_memory;
}

static void set_timer(struct inbound *c)
{
    if (list_is_linked(&c->paused)) {
        /* The session waits for intake_memory: the client is not to blame. */
        timeout_set(&c->worker->timeouts, &c->timer, USEC_NEVER);
        return;
    }
    usec_t deadline = smtp_server_deadline(&c->smtp);
    if (c->is_handshaking || c->is_closing || c->smtp.out.len > 0) {
        /* A peer that does not read our replies, or does not finish its handshake, has as much time
         * as for a command. */
        usec_t latest = c->worker->now + c->smtp.config->command_timeout;
        deadline = deadline < latest ? deadline : latest;
        if (timeout_is_armed(&c->timer) && c->timer.deadline < deadline) {
            return; /* a peer that sends or reads a byte now and then gets no more time */
        }
    }
    timeout_set(&c->worker->timeouts, &c->timer, deadline);
}

static void run_inbound(struct inbound *c)
{
    int steps = STEPS_PER_PASS;
    bool progress = true;
    for (int reads = 0; progress && reads < READS_PER_PASS && steps > 0; reads++) {
        if (c->is_handshaking && !handshake(c)) {
            return;
        }
        if (c->is_away || c->is_handshaking || c->is_closing) {
            break;
        }
        if (must_pause(c->worker->engine)) {
            if (!list_is_linked(&c->paused)) {
                list_push_back(&c->worker->paused, &c->paused);
            }
            break;
        }
        if (c->input.len > 0) {
            if (!feed(c, buf_slice(&c->input), true, &steps)) {
                return;
            }
            progress = c->input.len == 0;
        } else if (!read_socket(c, &steps, &progress)) {
            return;
        }
    }
    if (!flush_replies(c) || (c->is_handshaking && !handshake(c))) {
        return;
    }
    bool can_go_on =
        c->smtp.out.len == 0 && !c->is_away && !c->is_handshaking && !list_is_linked(&c->paused);
    if (can_go_on && (c->input.len > 0 || stream_can_read(&c->stream))) {
        worker_run_again(c->worker, &c->ready);
    }
    set_timer(c);
}

static void run_ready(struct worker_ready *self)
{
    run_inbound(container_of(self, struct inbound, ready));
}

static void on_inbound_event(struct poller_watch *watch, unsigned events)
{
    struct inbound *c = container_of(watch, struct inbound, watch);
    stream_ready(&c->stream, events);
    run_inbound(c);
}

static void on_timeout(struct timeout *t, usec_t now)
{
    struct inbound *c = container_of(t, struct inbound, timer);
    (void)now;
    if (c->is_handshaking || c->is_closing || c->smtp.out.len > OUT_PENDING_MAX) {
        end_inbound(c);
        return;
    }
    /* The core is stepped until it wants input: ending a session that had a transaction makes two
     * events. */
    int steps = STEPS_PER_PASS;
    if (feed(c, SLICE(""), false, &steps) && flush_replies(c)) {
        set_timer(c);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

static void answer_error(struct inbound *c, int err, bool is_message)
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

static void answer_stored(struct inbound *c, struct intake *in)
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

void inbound_stored(struct worker *w, struct intake *in)
{
    struct inbound *c = in->connection;
    (void)w;
    c->is_away = false;
    if (in->error == 0) {
        /* After LETTER_STORE the spool has the whole message, even if the connection is lost now.
         * After LETTER_STAGE it has parts, which must be discarded if the session ends. */
        in->is_staged = !in->is_last;
    }
    if (c->is_dead) {
        free_session(c);
        return;
    }
    if (in->error == ERR_QUOTA) {
        answer_refused(c);
    } else if (in->error != 0) {
        answer_error(c, in->error, in->is_last);
        drop_reception(c);
    } else if (in->is_last) {
        answer_stored(c, in);
        drop_reception(c);
    } else {
        reception_staged(&c->reception);
    }
    run_inbound(c);
}

void inbound_heard(struct worker *w, struct hearing *hearing)
{
    struct inbound *c = hearing->connection;
    int err = hearing->error;
    c->is_away = false;
    if (c->is_dead) {
        free_session(c);
        return;
    }
    drop_reception(c);
    if (err != 0) {
        answer_error(c, err, true);
    } else {
        smtp_server_answer(&c->smtp, 250, "2.0.0", "Ok: heard", w->now);
    }
    run_inbound(c);
}

void inbound_authenticated(struct worker *w, struct auth_request *request)
{
    struct inbound *c = request->connection;
    bool is_good = request->is_good;
    const struct label tenant = request->tenant;
    auth_request_free(request);
    c->is_away = false;
    if (c->is_dead) {
        free_session(c);
        return;
    }
    if (is_good) {
        c->reception.bound = tenant;
    }
    smtp_server_auth_answer(&c->smtp, is_good ? SMTP_SERVER_AUTH_OK : SMTP_SERVER_AUTH_BAD, w->now);
    run_inbound(c);
}

/* --- beginning of a session ------------------------------------------------------------------- */

static void peer_text(const struct sockaddr_storage *peer, char ret[SMTP_SERVER_PEER_MAX])
{
    const void *address = NULL;
    (void)snprintf(ret, SMTP_SERVER_PEER_MAX, "127.0.0.1"); /* a local socket */
    if (peer->ss_family == AF_INET) {
        address = &((const struct sockaddr_in *)peer)->sin_addr;
    } else if (peer->ss_family == AF_INET6) {
        address = &((const struct sockaddr_in6 *)peer)->sin6_addr;
    }
    if (address != NULL) {
        (void)inet_ntop(peer->ss_family, address, ret, SMTP_SERVER_PEER_MAX); /* it fits */
    }
}

void inbound_begin(struct worker *w, struct listener *l, int fd,
                   const struct sockaddr_storage *peer, bool is_trusted)
{
    const struct sockaddr *address = (const struct sockaddr *)peer;
    struct settings *settings = settings_of(w->engine);
    const struct listener_rules *rules = settings_listener(settings, l->index);
    enum listener_admission admission = listener_admit(l, rules, address);
    struct inbound *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        if (admission == LISTENER_ADMITTED) {
            listener_release(l, address);
        }
        (void)close(fd); /* nothing was said */
        return;
    }
    char text[SMTP_SERVER_PEER_MAX];
    peer_text(peer, text);
    const struct smtp_server_peer who = {.address = text, .is_trusted = is_trusted};
    c->worker = w;
    c->listener = l;
    c->settings = settings_get(settings);
    c->rules = rules;
    c->peer = *peer;
    c->ready.run = run_ready;
    list_init(&c->ready.link);
    list_init(&c->paused);
    reception_init(&c->reception, rules->config);
    buf_init(&c->input, 0);
    stream_init(&c->stream, fd);
    smtp_server_init(&c->smtp, &rules->smtp, &who, w->now);
    c->smtp.refuses_recipient = refuses_recipient;
    c->smtp.refuses_ctx = c;
    const struct config_listener *lc = c->rules->config;
    c->smtp.hears_recipient = lc != NULL && lc->receives.count > 0 ? hears_recipient : NULL;
    c->smtp.hears_ctx = c;
    if (admission != LISTENER_ADMITTED) {
        smtp_server_refuse(&c->smtp, 421, "4.7.0",
                           admission == LISTENER_FULL ? "Too many connections"
                                                      : "Too many connections from your address");
        c->is_closing = true;
    }
    if (admission == LISTENER_ADMITTED && (engine_gate(w->engine) & ENGINE_GATE_DRAINING) != 0) {
        smtp_server_refuse(&c->smtp, 421, "4.3.2", drain_text);
        c->is_closing = true;
    }
    c->is_counted = admission == LISTENER_ADMITTED;
    list_push_back(&w->inbounds, &c->all);
    atomic_fetch_add_explicit(&w->inbound_count, 1, memory_order_relaxed);
    if (timeout_add(&w->timeouts, &c->timer, on_timeout) != 0 ||
        poller_add(&w->poller, &c->watch, fd, on_inbound_event) != 0) {
        end_inbound(c);
        return;
    }
    run_inbound(c);
}

void inbound_drain(struct worker *w)
{
    list_foreach_safe(c, &w->inbounds, struct inbound, all)
    {
        smtp_server_stop(&c->smtp);
        worker_run_again(w, &c->ready);
        /* The core says 421 when it is stepped. */
        timeout_set(&w->timeouts, &c->timer, w->now);
    }
}

void inbound_resume(struct worker *w)
{
    if (list_is_empty(&w->paused) || must_pause(w->engine)) {
        return;
    }
    list_foreach_safe(c, &w->paused, struct inbound, paused)
    {
        list_remove(&c->paused);
        smtp_server_resume(&c->smtp, w->now);
        worker_run_again(w, &c->ready);
    }
}

void inbound_close_all(struct worker *w)
{
    list_foreach_safe(c, &w->inbounds, struct inbound, all)
    {
        if (c->is_away) {
            c->is_away = false;
            c->reception.intake = NULL; /* whoever holds it frees it */
            c->hearing = NULL;
        }
        end_inbound(c);
    }
}
