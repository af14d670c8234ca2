/* A session is owned by its worker. While its reception is with the spool writer (or its password
 * with the auth thread) `is_away` is set: the session then does nothing but flush replies, and when
 * the connection is lost it stays allocated until the answer returns. */
#include "engine/inbound/inbound.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/inbound/inbound_private.h"
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

static void run_inbound(struct inbound *c);

/* --- end of a session ------------------------------------------------------------------------- */

static void free_session(struct inbound *c)
{
    inbound_drop_reception(c);
    reception_fini(&c->reception);
    buf_fini(&c->input);
    smtp_server_fini(&c->smtp);
    settings_put(c->settings);
    free(c);
}

static void end_inbound(struct inbound *c)
{
    struct worker *w = c->worker;
    poller_leave(&w->poller, &c->watch);
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
        inbound_take_event(c, event);
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
        inbound_answer_refused(c);
    } else if (in->error != 0) {
        inbound_answer_error(c, in->error, in->is_last);
        inbound_drop_reception(c);
    } else if (in->is_last) {
        inbound_answer_stored(c, in);
        inbound_drop_reception(c);
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
    inbound_drop_reception(c);
    if (err != 0) {
        inbound_answer_error(c, err, true);
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
    c->watch.is_first = true;
    c->ready.run = run_ready;
    list_init(&c->ready.link);
    list_init(&c->paused);
    list_init(&c->in_hearing);
    reception_init(&c->reception, rules->config);
    buf_init(&c->input, 0);
    stream_init(&c->stream, fd);
    smtp_server_init(&c->smtp, &rules->smtp, &who, w->now);
    c->smtp.refuses_recipient = inbound_refuses_recipient;
    c->smtp.refuses_ctx = c;
    const struct config_listener *lc = c->rules->config;
    c->smtp.hears_recipient = lc != NULL && lc->receives.count > 0 ? inbound_hears_recipient : NULL;
    c->smtp.hears_ctx = c;
    if (admission != LISTENER_ADMITTED) {
        smtp_server_refuse(&c->smtp, 421, "4.7.0",
                           admission == LISTENER_FULL ? "Too many connections"
                                                      : "Too many connections from your address");
        c->is_closing = true;
    }
    if (admission == LISTENER_ADMITTED && (engine_gate(w->engine) & ENGINE_GATE_DRAINING) != 0) {
        smtp_server_refuse(&c->smtp, 421, "4.3.2", inbound_drain_text);
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
