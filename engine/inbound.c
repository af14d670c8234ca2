/* A session is owned by its worker. While its reception is with the spool writer (or its password
 * with the auth thread) `is_away` is set: the session then does nothing but flush replies, and when
 * the connection is lost it stays allocated until the answer returns. */
#include "engine/inbound.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "engine/config.h"
#include "engine/date.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/spool_writer.h"
#include "net/listen.h"
#include "net/smtp_server.h"
#include "net/stream.h"
#include "net/tls.h"

/* How long a listener rests when no descriptor is left. */
static const usec_t accept_rest = 500 * USEC_PER_MSEC;

enum {
    STEPS_PER_PASS = 256,        /* of one session, so that it cannot starve the others */
    READS_PER_PASS = 4,
    OUT_PENDING_MAX = 64 << 10,  /* replies the client does not read: stop serving it */
};

struct inbound {
    struct worker_ready ready;
    struct list all;
    struct list paused;
    struct worker *worker;
    struct listener *listener;
    struct poller_watch watch;
    struct timeout timer;
    struct stream stream;
    struct smtp_server smtp;
    struct sockaddr_storage peer;
    struct buf body;       /* decoded content not yet in the intake */
    struct buf input;      /* received and not yet consumed */
    struct buf spill;      /* recipients of the next batch while one is being staged */
    uint32_t spill_count;
    struct intake *intake; /* the reception, here or away */
    bool is_counted;       /* in the listener's limits */
    bool is_away;
    bool is_handshaking;
    bool is_closing;       /* replies flushed, then close */
    bool is_dead;          /* closed, waits for what is away */
};

static void run(struct inbound *c);

/* --- end of a session ----------------------------------------------------------------------------- */

static void drop_intake(struct inbound *c)
{
    if (c->intake == NULL) {
        return;
    }
    if (c->intake->is_staged) {
        outbox_put(&c->worker->to_writer, LETTER_DISCARD, NULL, c->intake->envelope.id);
    }
    intake_free(c->intake);
    c->intake = NULL;
    buf_clear(&c->spill);
    c->spill_count = 0;
}

static void free_session(struct inbound *c)
{
    drop_intake(c);
    buf_fini(&c->body);
    buf_fini(&c->input);
    buf_fini(&c->spill);
    smtp_server_fini(&c->smtp);
    free(c);
}

static void end_session(struct inbound *c)
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

/* --- events of the core ------------------------------------------------------------------------ */

static void accept_envelope(struct inbound *c)
{
    struct engine *e = c->worker->engine;
    uint32_t gate = engine_gate(e);
    usec_t now = c->worker->now;
    if ((gate & ENGINE_GATE_LOW_SPACE) != 0) {
        smtp_server_answer(&c->smtp, 452, "4.3.1", "Insufficient system storage", now);
        return;
    }
    if ((gate & ENGINE_GATE_BROKEN) != 0) {
        smtp_server_answer(&c->smtp, 452, "4.3.0", "Queue not available, try again later", now);
        return;
    }
    if (c->listener->config != NULL && c->listener->config->require_tls && !c->smtp.is_tls) {
        smtp_server_answer(&c->smtp, 530, "5.7.0", "Must issue a STARTTLS command first", now);
        return;
    }
    uint64_t id = engine_new_id(e);
    bool is_reserved = engine_id_is_reserved(e, id);
    if (!is_reserved) {
        /* Every MAIL takes an id, but only commits reserve more: the writer may have no other. */
        waker_kick(&spool_writer_box(e->writer)->waker);
    }
    c->intake = is_reserved ? intake_new() : NULL; /* NULL: refused below */
    if (c->intake == NULL) {
        smtp_server_answer(&c->smtp, 451, "4.3.0", "Out of resources, try again later", now);
        return;
    }
    c->intake->envelope.id = id;
    c->intake->worker = (uint16_t)c->worker->index;
    c->intake->connection = c;
    smtp_server_answer(&c->smtp, 250, "2.1.0", "Ok", now);
}

static void append_packed(struct buf *packed, struct slice address)
{
    unsigned char length[2] = {(unsigned char)(address.len >> 8), (unsigned char)address.len};
    buf_append(packed, length, sizeof(length));
    buf_append_slice(packed, address);
}

static void send_part(struct inbound *c, uint32_t kind)
{
    struct intake *in = c->intake;
    atomic_fetch_add_explicit(&c->worker->engine->intake_bytes, in->body.len + in->packed.len,
                              memory_order_relaxed);
    c->is_away = true;
    outbox_put(&c->worker->to_writer, kind, in, 0);
}

/* Takes the batch over; a full one goes to the spool at once, so that an envelope of any size needs
 * the memory of two batches. */
static void take_recipients(struct inbound *c)
{
    struct intake *in = c->intake;
    struct slice address;
    size_t at = 0;
    if (in->envelope.recipient_count == 0) {
        /* The first content of the message, whoever sends it. */
        char id[MESSAGE_ID_TEXT], date[DATE_BYTES];
        message_id_format(in->envelope.id, id);
        in->envelope.created = clock_wall();
        date_format(in->envelope.created, date);
        smtp_server_received_header(&c->smtp, slice_of(id), slice_of(date), &c->body);
    }
    while (smtp_server_recipient_next(&c->smtp, &at, &address)) {
        in->envelope.recipient_count++;
        if (in->packed_count < SPOOL_BATCH_RECIPIENTS) {
            append_packed(&in->packed, address);
            in->packed_count++;
        } else {
            append_packed(&c->spill, address);
            c->spill_count++;
        }
    }
    if (in->packed.failed || c->spill.failed) {
        smtp_server_fail(&c->smtp, 452, "4.3.1", "Out of memory");
        drop_intake(c);
        return;
    }
    if (c->spill_count > 0) {
        in->puts_recipients = true;
        send_part(c, LETTER_STAGE);
    }
}

/* The body buffer holds a full chunk. */
static void take_chunk(struct inbound *c)
{
    struct intake *in = c->intake;
    if (in == NULL) {
        buf_clear(&c->body); /* the transaction failed; its content is read and dropped */
        return;
    }
    struct buf swap = in->body;
    in->body = c->body;
    c->body = swap;
    buf_clear(&c->body);
    c->body.limit = SPOOL_CHUNK_BYTES;
    in->puts_body = true;
    send_part(c, LETTER_STAGE);
}

static struct slice keep_string(struct buf *strings, const char *data, size_t len)
{
    struct slice kept = {strings->data + strings->len, len};
    buf_append(strings, data, len);
    return kept;
}

static const char *protocol_name(const struct smtp_server *s)
{
    /* RFC 3848, RFC 6531 */
    static const char *const names[2][2][2] = {
        {{"ESMTP", "ESMTPA"}, {"ESMTPS", "ESMTPSA"}},
        {{"UTF8SMTP", "UTF8SMTPA"}, {"UTF8SMTPS", "UTF8SMTPSA"}}};
    return s->is_esmtp || s->is_smtputf8 ? names[s->is_smtputf8][s->is_tls][s->is_authenticated]
                                         : "SMTP";
}

static int fill_envelope(struct inbound *c)
{
    struct intake *in = c->intake;
    struct spool_envelope *e = &in->envelope;
    const struct smtp_body_facts *facts = &c->smtp.body.facts;
    struct slice user = c->smtp.is_authenticated ? c->smtp.auth_username : SLICE("");
    struct slice sender = slice_make(c->smtp.sender.text, c->smtp.sender.len);
    size_t helo = strlen(c->smtp.helo), peer = strlen(c->smtp.peer);
    const char *protocol = protocol_name(&c->smtp);
    usec_t warn_after = c->worker->engine->config->delay_warning_time;

    /* Reserved as a whole: the slices point into it. */
    if (buf_reserve(&in->strings, sender.len + helo + peer + strlen(protocol) + user.len + 1) ==
        NULL) {
        return -ENOMEM;
    }
    e->sender = keep_string(&in->strings, sender.data, sender.len);
    e->peer_name = keep_string(&in->strings, c->smtp.helo, helo);
    e->peer_address = keep_string(&in->strings, c->smtp.peer, peer);
    e->protocol = keep_string(&in->strings, protocol, strlen(protocol));
    e->auth_user = keep_string(&in->strings, user.data, user.len);
    e->flags = (facts->has_8bit ? SPOOL_FLAG_8BIT : 0) |
               (c->smtp.is_smtputf8 ? SPOOL_FLAG_UTF8 : 0) |
               (facts->has_leading_dot ? SPOOL_FLAG_LEADING_DOT : 0);
    e->warn_at = warn_after > 0 && sender.len > 0 ? e->created + warn_after : 0;
    e->size_bytes += in->body.len;
    return in->packed.failed || in->body.failed ? -ENOMEM : 0;
}

static void take_message(struct inbound *c)
{
    struct intake *in = c->intake;
    assert(in != NULL);
    struct buf swap = in->body;
    in->body = c->body;
    c->body = swap;
    buf_clear(&c->body);
    c->body.limit = SPOOL_CHUNK_BYTES;
    if (fill_envelope(c) != 0) {
        drop_intake(c);
        smtp_server_answer(&c->smtp, 452, "4.3.1", "Out of memory", c->worker->now);
        return;
    }
    in->message = intake_message(in);
    send_part(c, LETTER_STORE);
}

static void ask_password(struct inbound *c)
{
    struct auth_request *r = calloc(1, sizeof(*r));
    struct slice name = c->smtp.auth_username, password = c->smtp.auth_password;
    if (r == NULL || c->listener->users == NULL || name.len >= sizeof(r->name) ||
        password.len >= sizeof(r->password)) {
        free(r);
        smtp_server_auth_answer(&c->smtp, SMTP_SERVER_AUTH_TEMPFAIL, c->worker->now);
        return;
    }
    memcpy(r->name, name.data, name.len);
    memcpy(r->password, password.data, password.len);
    r->users = c->listener->users;
    r->worker = (uint16_t)c->worker->index;
    r->connection = c;
    c->is_away = true;
    outbox_put(&c->worker->to_auth, LETTER_AUTHENTICATED, r, 0);
}

static void take_event(struct inbound *c, enum smtp_server_event event)
{
    switch (event) {
    case SMTP_SERVER_ENVELOPE:
        accept_envelope(c);
        break;
    case SMTP_SERVER_RECIPIENTS:
        take_recipients(c);
        break;
    case SMTP_SERVER_BODY:
        take_chunk(c);
        break;
    case SMTP_SERVER_MESSAGE:
        take_message(c);
        break;
    case SMTP_SERVER_ABORTED:
        drop_intake(c);
        buf_clear(&c->body);
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

/* --- bytes ------------------------------------------------------------------------------------- */

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
            end_session(c);
            return false;
        }
        buf_consume(&c->smtp.out, (size_t)n);
    }
    if (c->is_closing && (c->smtp.out.len == 0 || c->smtp.out.len > OUT_PENDING_MAX)) {
        end_session(c);
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
        struct ssl_st *ssl = tls_server_connection(c->listener->tls);
        if (ssl == NULL || stream_start_tls(&c->stream, ssl) != 0) {
            end_session(c);
            return false;
        }
    }
    int err = stream_handshake(&c->stream);
    if (err == ERR_AGAIN) {
        return true;
    }
    if (err != 0) {
        end_session(c);
        return false;
    }
    struct tls_facts facts;
    stream_tls_facts(&c->stream, &facts);
    c->is_handshaking = false;
    smtp_server_tls_started(&c->smtp, facts.protocol, facts.cipher, c->worker->now);
    return true;
}

/* Lets the core eat `in`; what it leaves stays in c->input.
 * returns false when the session ended */
static bool feed(struct inbound *c, struct slice in, bool is_kept, int *steps)
{
    size_t had = in.len;
    while (*steps > 0 && !c->is_away && !c->is_handshaking && !c->is_closing) {
        enum smtp_server_event event =
            smtp_server_step(&c->smtp, &in, &c->body, c->worker->now);
        (*steps)--;
        take_event(c, event);
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
static bool read_more(struct inbound *c, int *steps, bool *ret_progress)
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
        end_session(c);
        return false;
    }
    *ret_progress = true;
    return feed(c, slice_make(c->worker->input, (size_t)n), false, steps);
}

static bool must_pause(struct inbound *c)
{
    const struct engine *e = c->worker->engine;
    return atomic_load_explicit(&e->intake_bytes, memory_order_relaxed) >= e->config->intake_memory;
}

static void set_timer(struct inbound *c)
{
    if (list_is_linked(&c->paused)) {
        timeout_set(&c->worker->timeouts, &c->timer, USEC_NEVER); /* it is us who let it wait */
        return;
    }
    usec_t deadline = smtp_server_deadline(&c->smtp);
    if (c->is_handshaking || c->is_closing || c->smtp.out.len > 0) {
        /* A peer that does not read or does not finish its handshake has the same patience. */
        usec_t latest = c->worker->now + c->smtp.config->command_timeout;
        deadline = deadline < latest ? deadline : latest;
        if (timeout_is_armed(&c->timer) && c->timer.deadline < deadline) {
            return; /* never prolonged by trickles */
        }
    }
    timeout_set(&c->worker->timeouts, &c->timer, deadline);
}

static void run(struct inbound *c)
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
        if (must_pause(c)) {
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
        } else if (!read_more(c, &steps, &progress)) {
            return;
        }
    }
    if (!flush_replies(c) || (c->is_handshaking && !handshake(c))) {
        return;
    }
    bool can_go_on = c->smtp.out.len == 0 && !c->is_away && !c->is_handshaking &&
                     !list_is_linked(&c->paused);
    if (can_go_on && (c->input.len > 0 || stream_can_read(&c->stream))) {
        worker_run_again(c->worker, &c->ready);
    }
    set_timer(c);
}

static void run_ready(struct worker_ready *self)
{
    run(container_of(self, struct inbound, ready));
}

static void on_event(struct poller_watch *watch, unsigned events)
{
    struct inbound *c = container_of(watch, struct inbound, watch);
    stream_ready(&c->stream, events);
    run(c);
}

static void on_timeout(struct timeout *t, usec_t now)
{
    struct inbound *c = container_of(t, struct inbound, timer);
    (void)now;
    if (c->is_handshaking || c->is_closing || c->smtp.out.len > OUT_PENDING_MAX) {
        end_session(c);
        return;
    }
    /* Until it wants input again: the end of a session that had a transaction is two events. */
    int steps = STEPS_PER_PASS;
    if (feed(c, SLICE(""), false, &steps) && flush_replies(c)) {
        set_timer(c);
    }
}

/* --- answers ----------------------------------------------------------------------------------- */

static void answer_error(struct inbound *c, int err, bool is_message)
{
    bool is_full = err == -ENOSPC || err == -EDQUOT;
    int code = is_full ? 452 : 451;
    const char *status = is_full ? "4.3.1" : "4.3.0";
    const char *text = is_full ? "Insufficient system storage" : "Queue file write error";
    if (is_message) {
        smtp_server_answer(&c->smtp, code, status, text, c->worker->now);
    } else {
        smtp_server_fail(&c->smtp, code, status, text);
    }
}

static void answer_staged(struct inbound *c, struct intake *in)
{
    if (in->puts_recipients) {
        in->batch++;
        struct buf swap = in->packed;
        in->packed = c->spill;
        in->packed_count = c->spill_count;
        c->spill = swap;
        c->spill_count = 0;
        buf_clear(&c->spill);
    }
    if (in->puts_body) {
        in->chunk++;
        in->envelope.size_bytes += in->body.len;
        buf_clear(&in->body);
    }
    in->puts_recipients = in->puts_body = false;
}

static void answer_stored(struct inbound *c, struct intake *in)
{
    char text[64], id[MESSAGE_ID_TEXT];
    message_id_format(in->envelope.id, id);
    (void)snprintf(text, sizeof(text), "Ok: queued as %s", id);
    smtp_server_answer(&c->smtp, 250, "2.0.0", text, c->worker->now);
}

void inbound_stored(struct worker *w, struct intake *in)
{
    struct inbound *c = in->connection;
    (void)w;
    c->is_away = false;
    if (in->error == 0) {
        /* A message now, which a lost connection does not change; or parts in the spool, which have
         * to be discarded with the session. */
        in->is_staged = !in->is_last;
    }
    if (c->is_dead) {
        free_session(c);
        return;
    }
    if (in->error != 0) {
        answer_error(c, in->error, in->is_last);
        drop_intake(c);
    } else if (in->is_last) {
        answer_stored(c, in);
        drop_intake(c);
    } else {
        answer_staged(c, in);
    }
    run(c);
}

void inbound_authenticated(struct worker *w, struct auth_request *request)
{
    struct inbound *c = request->connection;
    bool is_good = request->is_good;
    free(request);
    c->is_away = false;
    if (c->is_dead) {
        free_session(c);
        return;
    }
    smtp_server_auth_answer(&c->smtp, is_good ? SMTP_SERVER_AUTH_OK : SMTP_SERVER_AUTH_BAD, w->now);
    run(c);
}

/* --- beginning of a session --------------------------------------------------------------------- */

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

static void begin_session(struct worker *w, struct listener *l, int fd,
                          const struct sockaddr_storage *peer, bool is_trusted)
{
    const struct sockaddr *address = (const struct sockaddr *)peer;
    enum listener_admission admission = listener_admit(l, address);
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
    c->peer = *peer;
    c->ready.run = run_ready;
    list_init(&c->ready.link);
    list_init(&c->paused);
    buf_init(&c->body, SPOOL_CHUNK_BYTES);
    buf_init(&c->input, 0);
    buf_init(&c->spill, 0);
    stream_init(&c->stream, fd);
    smtp_server_init(&c->smtp, &l->smtp, &who, w->now);
    if (admission != LISTENER_ADMITTED) {
        smtp_server_refuse(&c->smtp, 421, "4.7.0", admission == LISTENER_FULL
                                                       ? "Too many connections"
                                                       : "Too many connections from your address");
        c->is_closing = true;
    }
    c->is_counted = admission == LISTENER_ADMITTED;
    list_push_back(&w->inbounds, &c->all);
    atomic_fetch_add_explicit(&w->inbound_count, 1, memory_order_relaxed);
    if (timeout_add(&w->timeouts, &c->timer, on_timeout) != 0 ||
        poller_add(&w->poller, &c->watch, fd, on_event) != 0) {
        end_session(c);
        return;
    }
    run(c);
}

static void on_listener(struct poller_watch *watch, unsigned events)
{
    enum { ACCEPTS_PER_PASS = 64 };
    struct listener_watch *lw = container_of(watch, struct listener_watch, watch);
    struct worker *w = lw->worker;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_PASS; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = listen_accept(watch->fd, &peer, &len);
        if (fd == ERR_AGAIN) {
            return;
        }
        if (fd < 0) {
            /* Out of descriptors. Level-triggered, it would call again at once: it rests. Who else
             * holds descriptors is not known, so that nothing but time can end the rest. */
            if (w->accept_at == USEC_NEVER) {
                log_warning("listener \"%s\": cannot accept: %s", lw->listener->config->name,
                            err_str(fd));
            }
            w->accept_at = w->now + accept_rest;
            if (poller_change(&w->poller, watch, 0) != 0) {
                log_debug("listener: cannot rest, tries again in the next pass");
            }
            return;
        }
        bool is_trusted =
            config_listener_trusts(lw->listener->config, (const struct sockaddr *)&peer);
        begin_session(w, lw->listener, fd, &peer, is_trusted);
    }
}

int inbound_listen(struct worker *w)
{
    const struct config *config = w->engine->config;
    w->listeners = calloc(config->listener_count + 1, sizeof(*w->listeners));
    if (w->listeners == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < config->listener_count; i++) {
        struct listener_watch *lw = &w->listeners[i];
        lw->worker = w;
        lw->listener = w->engine->listeners[i];
        int err = poller_watch(&w->poller, &lw->watch, lw->listener->fds[w->index], POLLER_READ,
                               on_listener);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

void inbound_drain(struct worker *w)
{
    for (size_t i = 0; i < w->engine->config->listener_count; i++) {
        poller_remove(&w->poller, &w->listeners[i].watch);
    }
    list_foreach_safe (c, &w->inbounds, struct inbound, all) {
        smtp_server_stop(&c->smtp);
        worker_run_again(w, &c->ready);
        /* The core says 421 when it is stepped. */
        timeout_set(&w->timeouts, &c->timer, w->now);
    }
}

void inbound_adopt(struct worker *w, int fd)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNIX};
    if (engine_gate(w->engine) & ENGINE_GATE_STOPPING) {
        (void)close(fd); /* nothing was said */
        return;
    }
    begin_session(w, w->engine->local_listener, fd, &peer, true);
}

void inbound_resume(struct worker *w)
{
    if (!list_is_empty(&w->paused) &&
        atomic_load_explicit(&w->engine->intake_bytes, memory_order_relaxed) <
            w->engine->config->intake_memory) {
        list_foreach_safe (c, &w->paused, struct inbound, paused) {
            list_remove(&c->paused);
            smtp_server_resume(&c->smtp, w->now);
            worker_run_again(w, &c->ready);
        }
    }
    if (w->now < w->accept_at) {
        return;
    }
    w->accept_at = USEC_NEVER;
    for (size_t i = 0; i < w->engine->config->listener_count; i++) {
        struct poller_watch *watch = &w->listeners[i].watch;
        if (poller_has(watch) && poller_change(&w->poller, watch, POLLER_READ) != 0) {
            w->accept_at = w->now + accept_rest;
        }
    }
}

void inbound_close_all(struct worker *w)
{
    list_foreach_safe (c, &w->inbounds, struct inbound, all) {
        if (c->is_away) {
            c->is_away = false;
            c->intake = NULL; /* whoever holds it frees it */
        }
        end_session(c);
    }
    for (size_t i = 0; w->listeners != NULL && i < w->engine->config->listener_count; i++) {
        poller_remove(&w->poller, &w->listeners[i].watch);
    }
}
