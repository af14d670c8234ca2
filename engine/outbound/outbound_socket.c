/* The bytes of an outbound connection: connecting, TLS, writing in the order of the dialogue,
 * reading, deadlines. */
#include "base/error.h"
#include "base/log.h"
#include "engine/outbound/outbound_private.h"
#include "engine/outbound/outbound_tls.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"

#include <errno.h>
#include <string.h>

enum { ROUNDS_PER_PASS = 8 };

/* --- the socket ------------------------------------------------------------------------------- */

void outbound_close_socket(struct outbound *c)
{
    poller_leave(&c->worker->poller, &c->watch);
    timeout_set(&c->worker->timeouts, &c->timer, USEC_NEVER);
    if (stream_is_open(&c->stream)) {
        stream_close(&c->stream);
    }
    if (c->has_core) {
        smtp_client_fini(&c->smtp);
        c->has_core = false;
    }
    proxy_dialogue_end(&c->proxy);
    list_remove(&c->ready.link);
    outflow_drop(&c->flow);
}

static void on_outbound_event(struct poller_watch *watch, unsigned events)
{
    struct outbound *c = container_of(watch, struct outbound, watch);
    stream_ready(&c->stream, events);
    outbound_run(c);
}

/* Begins a phase before the greeting: each of them may take smtp_connect_timeout. */
static void begin_phase(struct outbound *c, enum outbound_state state)
{
    usec_t limit = outbound_settings(c)->smtp_connect_timeout;
    c->state = state;
    timeout_set(&c->worker->timeouts, &c->timer, limit == 0 ? USEC_NEVER : c->worker->now + limit);
}

int outbound_open(struct outbound *c)
{
    const struct dns_host *host = &c->hosts->list[c->host];
    memset(&c->tls, 0, sizeof(c->tls));
    c->is_ready = false;
    outbound_trace_connect(c);
    int err = egress_connect(&c->egress, host, &c->stream);
    if (err == 0) {
        err = poller_add(&c->worker->poller, &c->watch, c->stream.fd, on_outbound_event);
    }
    if (err != 0) {
        outbound_close_socket(c);
        return err;
    }
    begin_phase(c, OUTBOUND_CONNECTING);
    return 0;
}

/* --- loss ------------------------------------------------------------------------------------- */

/* The socket failed, or (err 0) the peer closed it. returns false when c is gone or has a new
 * socket */
static bool take_loss(struct outbound *c, int err)
{
    if (c->state == OUTBOUND_LEAVING) {
        outbound_free(c); /* the core has closed already and would say nothing */
        return false;
    }
    outbound_trace_lost(c, err);
    if (err == 0) {
        smtp_client_eof(&c->smtp, c->worker->now);
    } else {
        smtp_client_io_error(&c->smtp, err == ERR_TLS ? 0 : -err, c->worker->now);
    }
    return outbound_drain(c);
}

/* returns as outbound_drain */
static bool take_input(struct outbound *c, size_t len)
{
    struct slice in = slice_make(c->worker->input, len);
    outbound_trace_heard(c, in);
    while (in.len > 0) {
        smtp_client_input(&c->smtp, &in, c->worker->now);
        if (!outbound_drain(c)) {
            return false;
        }
    }
    return true;
}

/* A write failed, as the server closed. It may have said why before: replies that arrived are read
 * first, as a refusal in the middle of the body decides the message. Over TLS nothing can be read
 * after a failed write.
 *
 * err      of the write, negative
 * returns  as outbound_drain */
static bool write_failed(struct outbound *c, int err)
{
    ssize_t n = stream_is_tls(&c->stream) || c->state == OUTBOUND_LEAVING
                    ? 0
                    : stream_read(&c->stream, c->worker->input, WORKER_READ_BYTES);
    return take_input(c, n > 0 ? (size_t)n : 0) && take_loss(c, err);
}

/* --- writing ---------------------------------------------------------------------------------- */

enum written { WRITTEN_ALL, WRITTEN_BLOCKED, WRITTEN_LOST /* c is gone or has a new socket */ };

static enum written flush_socket(struct outbound *c)
{
    struct outflow_taken taken;
    if (c->flow.staged.len == 0) {
        return WRITTEN_ALL;
    }
    if (!stream_can_write(&c->stream)) {
        return WRITTEN_BLOCKED;
    }
    int err = outflow_write(&c->flow, &c->stream, &taken);
    smtp_client_consume(&c->smtp, taken.commands);
    smtp_client_body_progress(&c->smtp, taken.body, c->worker->now);
    if (err == 0) {
        return WRITTEN_ALL;
    }
    if (err == ERR_AGAIN) {
        return WRITTEN_BLOCKED;
    }
    return write_failed(c, err) ? WRITTEN_BLOCKED : WRITTEN_LOST;
}

/* The body cannot be read on this side. */
static enum written body_failed(struct outbound *c, int err)
{
    log_error("spool: cannot read a message body: %s", err_str(err));
    body_stream_drop(&c->flow.body);
    smtp_client_body_failed(&c->smtp, false, SLICE("message cannot be read"), c->worker->now);
    /* The caller goes on writing: commands of other messages are gathered in front of this body,
     * and no event of the socket would cause them to be written. */
    return outbound_drain(c) ? WRITTEN_ALL : WRITTEN_LOST;
}

static enum written body_is_over(struct outbound *c)
{
    smtp_client_body_sent(&c->smtp, c->worker->now);
    return outbound_drain(c) ? WRITTEN_ALL : WRITTEN_LOST;
}

static enum written write_large_body(struct outbound *c)
{
    struct body_progress progress;
    int err = outflow_write_body(&c->flow, &c->stream, c->worker, &progress);
    smtp_client_body_progress(&c->smtp, progress.written, c->worker->now);
    if (!c->flow.body.is_streaming && (err == 0 || err == ERR_AGAIN)) {
        return body_is_over(c);
    }
    if (err == ERR_AGAIN) {
        if (progress.wants_pass) {
            worker_run_again(c->worker, &c->ready);
        }
        return WRITTEN_BLOCKED;
    }
    if (progress.is_local) {
        return body_failed(c, err);
    }
    return write_failed(c, err) ? WRITTEN_BLOCKED : WRITTEN_LOST;
}

/* Writes the body that the core wants next: a small one is gathered, a large one is streamed behind
 * the bytes that are gathered. */
static enum written write_body(struct outbound *c)
{
    int err = outflow_add_body(&c->flow, c->worker);
    if (err == 1) {
        return body_is_over(c);
    }
    if (err == ERR_AGAIN) {
        worker_run_again(c->worker, &c->ready);
        enum written written = flush_socket(c);
        return written == WRITTEN_LOST ? WRITTEN_LOST : WRITTEN_BLOCKED;
    }
    if (err != 0) {
        return body_failed(c, err);
    }
    enum written written = flush_socket(c);
    if (written == WRITTEN_ALL && stream_can_write(&c->stream)) {
        return write_large_body(c);
    }
    return written == WRITTEN_ALL ? WRITTEN_BLOCKED : written;
}

/* Commands and bodies, in the order in which the core wants them. */
static enum written write_out(struct outbound *c)
{
    for (;;) {
        bool has_commands = c->smtp.out.len > c->flow.of_commands;
        if (outflow_is_full(&c->flow) || (!has_commands && !c->flow.body.is_streaming)) {
            enum written written = flush_socket(c);
            if (written != WRITTEN_ALL || (!has_commands && !c->flow.body.is_streaming)) {
                return written;
            }
        }
        if (has_commands) {
            outbound_trace_commands(c);
            if (outflow_add_commands(&c->flow, &c->smtp.out) != 0) {
                return take_loss(c, -ENOMEM) ? WRITTEN_BLOCKED : WRITTEN_LOST;
            }
        } else {
            enum written written = write_body(c);
            if (written != WRITTEN_ALL) {
                return written;
            }
        }
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

/* returns false when c is gone; *ret_progress: something was read */
static bool read_replies(struct outbound *c, bool *ret_progress)
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
        return take_loss(c, (int)n);
    }
    *ret_progress = true;
    return take_input(c, (size_t)n);
}

/* --- TLS -------------------------------------------------------------------------------------- */

/* The handshake failed. Where the level allows it, the note lets other connections to this server
 * do without TLS for a while. */
static void note_tls(struct outbound *c)
{
    if (tls_policy_may_fall_back(&c->policy)) {
        c->notes |= DELIVERY_NOTE_BROKEN_TLS;
    }
}

/* TLS could not begin, or did not prove what the level demands. Where the level allows it, the same
 * server is tried at once without TLS. */
static void tls_failed(struct outbound *c, const char *why)
{
    c->wants_plain = c->is_tls_broken = tls_policy_may_fall_back(&c->policy);
    outbound_trace_tls(c, why);
    smtp_client_tls_done(&c->smtp, false, slice_of(why), c->worker->now);
}

/* The server agreed to TLS and gets a ClientHello; the core may hear of a failure. */
static void begin_tls(struct outbound *c)
{
    const struct request *first = list_first(&c->waiting, const struct request, link);
    const struct tls_policy_peer peer = {c->options, first->delivery->nexthop, c->hosts, c->host};
    struct ssl_st *ssl = tls_policy_connection(c->settings, &peer, &c->policy, c->worker->sessions);
    if (ssl == NULL || stream_start_tls(&c->stream, ssl) != 0) {
        tls_failed(c, "cannot start TLS");
        return;
    }
    c->state = OUTBOUND_HANDSHAKE;
}

/* The handshake ended. err: as stream_handshake */
static void tls_done(struct outbound *c, int err)
{
    if (err != 0) {
        note_tls(c);
        outbound_tls_count_failure(c, c->stream.error);
        tls_failed(c, c->stream.error);
        return;
    }
    stream_tls_facts(&c->stream, &c->tls);
    const char *why = tls_policy_judge(&c->policy, &c->tls);
    outbound_tls_count_handshake(c, why);
    if (why != NULL) {
        tls_failed(c, why);
    } else {
        outbound_trace_tls(c, NULL);
        smtp_client_tls_done(&c->smtp, true, SLICE(""), c->worker->now);
    }
}

/* --- a pass ----------------------------------------------------------------------------------- */

/* returns false when there is nothing more to do now */
static bool step_connect(struct outbound *c)
{
    int err = stream_connect_result(&c->stream);
    if (err == ERR_AGAIN) {
        return false;
    }
    if (err != 0) {
        outbound_connect_failed(c, err);
        return false;
    }
    outbound_trace_connected(c);
    if (egress_proxy(&c->egress) == NULL) {
        outbound_connected(c);
        return true;
    }
    c->proxy = proxy_dialogue_new(c->settings, &c->egress, &c->hosts->list[c->host]);
    if (c->proxy == NULL) {
        outbound_connect_failed(c, -ENOMEM);
        return false;
    }
    begin_phase(c, OUTBOUND_PROXYING);
    return true;
}

/* returns false when the server does not speak yet, or c is gone */
static bool step_proxy(struct outbound *c)
{
    enum proxy_progress progress = proxy_dialogue_run(c->proxy, &c->stream);
    if (progress == PROXY_FAILED) {
        outbound_unreachable(c, proxy_dialogue_error(c->proxy),
                             !proxy_dialogue_blames_target(c->proxy));
    } else if (progress == PROXY_DONE) {
        proxy_dialogue_end(&c->proxy);
        outbound_trace_note(c, "the proxy connected to the server", "");
        outbound_connected(c);
    }
    return progress == PROXY_DONE;
}

/* returns false when c is gone or has a new socket */
static bool step_handshake(struct outbound *c)
{
    int err = stream_handshake(&c->stream);
    if (err == ERR_AGAIN) {
        return true;
    }
    c->state = OUTBOUND_TALKING;
    tls_done(c, err);
    return outbound_drain(c);
}

static void set_timer(struct outbound *c)
{
    if (c->state == OUTBOUND_TALKING || c->state == OUTBOUND_HANDSHAKE) {
        usec_t deadline = smtp_client_deadline(&c->smtp);
        usec_t stalls_at = outbound_has_unbegun(c) ? smtp_client_stalls_at(&c->smtp) : USEC_NEVER;
        timeout_set(&c->worker->timeouts, &c->timer, stalls_at < deadline ? stalls_at : deadline);
    } else if (c->state == OUTBOUND_IDLE) {
        timeout_set(&c->worker->timeouts, &c->timer, USEC_NEVER);
    }
}

/* One round of writing and reading. returns false when c is gone or has a new socket */
static bool round_trip(struct outbound *c, bool *ret_progress)
{
    *ret_progress = false;
    if (write_out(c) == WRITTEN_LOST) {
        return false;
    }
    if (c->wants_tls && c->smtp.out.len == 0) {
        c->wants_tls = false;
        begin_tls(c);
        *ret_progress = true;
        return outbound_drain(c);
    }
    if (c->state == OUTBOUND_LEAVING && c->smtp.out.len == 0 && !c->is_awaited) {
        outbound_free(c);
        return false;
    }
    return read_replies(c, ret_progress);
}

/* What waits behind a message that takes this server long goes to other connections. A pass may have been
 * so long that it is the worker who is late: then the reply is there to be read, whether the poller has
 * said so or not. returns as round_trip */
static bool make_way(struct outbound *c, bool *ret_progress)
{
    if (c->state != OUTBOUND_TALKING || !outbound_has_unbegun(c) ||
        smtp_client_stalls_at(&c->smtp) > c->worker->now) {
        return true;
    }
    stream_ready(&c->stream, POLLER_READ);
    if (!read_replies(c, ret_progress)) {
        return false;
    }
    if (*ret_progress) {
        return true;
    }
    outbound_trace_note(c, "no reply for long: what waits behind this goes elsewhere", "");
    smtp_client_stall(&c->smtp);
    outbound_send_unbegun_again(c);
    return outbound_drain(c);
}

void outbound_run(struct outbound *c)
{
    bool progress = true;
    if ((c->state == OUTBOUND_CONNECTING && !step_connect(c)) ||
        (c->state == OUTBOUND_PROXYING && !step_proxy(c))) {
        return;
    }
    if (c->state != OUTBOUND_HANDSHAKE && !outbound_drain(c)) {
        return;
    }
    for (int i = 0; progress && i < ROUNDS_PER_PASS; i++) {
        if (c->state == OUTBOUND_HANDSHAKE && !step_handshake(c)) {
            return;
        }
        if (c->state == OUTBOUND_HANDSHAKE) {
            progress = false;
        } else if (!round_trip(c, &progress)) {
            return;
        }
    }
    if (!progress && !make_way(c, &progress)) {
        return;
    }
    if (progress) {
        worker_run_again(c->worker, &c->ready);
    }
    set_timer(c);
}

void outbound_run_ready(struct worker_ready *self)
{
    outbound_run(container_of(self, struct outbound, ready));
}

void outbound_on_timeout(struct timeout *t, usec_t now)
{
    struct outbound *c = container_of(t, struct outbound, timer);
    if (c->state == OUTBOUND_CONNECTING || c->state == OUTBOUND_PROXYING) {
        outbound_connect_failed(c, -ETIMEDOUT);
    } else if (c->state == OUTBOUND_LEAVING) {
        outbound_free(c);
    } else if (now < smtp_client_deadline(&c->smtp)) {
        outbound_run(c); /* others wait behind a message that takes the server long */
    } else {
        if (c->state == OUTBOUND_HANDSHAKE) {
            outbound_tls_count_failure(c, "the TLS handshake timed out");
            note_tls(c);
        }
        outbound_trace_note(c, "timed out", "");
        smtp_client_timeout(&c->smtp, now > c->worker->now ? now : c->worker->now);
        if (outbound_drain(c)) {
            outbound_run(c);
        }
    }
}
