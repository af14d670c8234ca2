/* A connection object lives as long as the scheduler's connection slot holds a socket, or a
 * delivery wants one. It is in one of these states:
 *   CONNECTING  connect() under way, for a delivery
 *   HANDSHAKE   TLS under way
 *   TALKING     the core is in a dialogue, for a delivery
 *   IDLE        between deliveries; the scheduler knows it as idle
 *   LEAVING     QUIT is being flushed; no delivery, and no longer in the worker's table
 * Everything is the worker's alone. */
#include "engine/outbound.h"

#include "base/error.h"
#include "base/log.h"
#include "dns/hosts.h"
#include "engine/body_stream.h"
#include "engine/config.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/message.h"
#include "engine/request.h"
#include "engine/result.h"
#include "engine/tls_policy.h"
#include "net/outcome.h"
#include "net/smtp_client.h"
#include "net/stream.h"
#include "net/tls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_PER_PASS = 8 };
static const usec_t leaving_time = 5 * USEC_PER_SEC; /* to flush QUIT and close */

enum state { CONNECTING, HANDSHAKE, TALKING, IDLE, LEAVING };

struct outbound {
    struct worker_ready ready;
    struct list all;
    struct worker *worker;
    uint16_t transport;
    uint32_t connection;
    enum state state;
    struct poller_watch watch;
    struct timeout timer;
    struct stream stream;
    struct smtp_client smtp;
    bool has_core; /* smtp is initialised */

    /* the server at the other end */
    struct dns_hosts *hosts; /* own reference: smtp keeps slices of it */
    uint32_t host;           /* index in hosts */
    char address[IP_TEXT_MAX];
    struct tls_policy policy; /* demanded of the TLS */
    struct tls_facts tls;     /* of the finished handshake */
    usec_t opened;            /* monotonic: start of the connect */
    uint32_t uses;            /* deliveries begun */

    /* the delivery under way; request.delivery is NULL while idle */
    struct request request;

    struct body_stream body; /* its body */
};

static void run(struct outbound *c);
static void try_next(struct outbound *c);

static const struct config_smtp *settings(const struct outbound *c)
{
    return &c->worker->engine->config->transports[c->transport].smtp;
}

/* --- sockets -----------------------------------------------------------------------------------
 */

static void close_socket(struct outbound *c)
{
    poller_remove(&c->worker->poller, &c->watch);
    timeout_set(&c->worker->timeouts, &c->timer, USEC_NEVER);
    if (stream_is_open(&c->stream)) {
        stream_close(&c->stream);
    }
    if (c->has_core) {
        smtp_client_fini(&c->smtp);
        c->has_core = false;
    }
    list_remove(&c->ready.link);
    body_stream_drop(&c->body);
}

static void leave_table(struct outbound *c)
{
    struct outbound **slot = &c->worker->connections[c->transport][c->connection];
    if (*slot == c) {
        *slot = NULL;
    }
}

static void free_connection(struct outbound *c)
{
    close_socket(c);
    leave_table(c);
    timeout_remove(&c->worker->timeouts, &c->timer);
    dns_hosts_put(c->hosts);
    body_stream_fini(&c->body);
    list_remove(&c->all);
    atomic_fetch_sub_explicit(&c->worker->outbound_count, 1, memory_order_relaxed);
    free(c);
}

/* Flush what is left (QUIT) for a moment, then close; nobody waits for it. */
static void begin_leaving(struct outbound *c)
{
    leave_table(c);
    c->state = LEAVING;
    worker_run_again(c->worker, &c->ready);
    timeout_set(&c->worker->timeouts, &c->timer, c->worker->now + leaving_time);
}

static void lose_idle(struct outbound *c)
{
    struct worker *w = c->worker;
    uint32_t sched = c->transport % w->engine->sched_count;
    outbox_put(&w->to_scheds[sched], LETTER_LOST, NULL,
               (uint64_t)c->transport << 48 | (uint64_t)w->index << 32 | c->connection);
    free_connection(c);
}

/* --- the end of a delivery ----------------------------------------------------------------------
 */

/* Everybody hears: the spool writer what became of the recipients, the scheduler what it teaches.
 */
static void finish_delivery(struct outbound *c, bool is_open)
{
    struct worker *w = c->worker;
    struct delivery *d = c->request.delivery;
    struct request_session session = {
        .host = c->hosts != NULL && c->hosts->count > 0 ? &c->hosts->list[c->host] : NULL,
        .address = c->address,
        .uses = c->uses,
        .tls = c->tls,
    };
    uint32_t count;
    (void)sched_entry_indexes(d->entry, &count);
    struct result *r = request_finish(&c->request, &session);
    d->connection_open = is_open;
    result_send(&w->to_writer, r, d->message, count, RESULT_WAS_LOADED | RESULT_WAS_DISPATCHED);
    outbox_put(&w->to_scheds[d->transport % w->engine->sched_count], LETTER_REPORT, d, 0);
}

static bool may_be_reused(const struct outbound *c)
{
    const struct config_smtp *s = settings(c);
    return c->worker->now - c->opened < s->smtp_connection_reuse_time_limit &&
           (s->smtp_connection_reuse_count_limit == 0 ||
            c->uses < (uint32_t)s->smtp_connection_reuse_count_limit) &&
           !atomic_load_explicit(&c->worker->is_draining, memory_order_relaxed);
}

/* No address is left, or nobody needs one. */
static void give_up(struct outbound *c)
{
    finish_delivery(c, false);
    free_connection(c);
}

/* --- connecting --------------------------------------------------------------------------------
 */

static void core_init(struct outbound *c)
{
    const struct dns_host *host = &c->hosts->list[c->host];
    const struct smtp_client_peer peer = {
        .host = host->name,
        .address = slice_of(c->address),
        .nexthop = c->request.delivery->destination,
        .port = host->port,
        .is_best_mx = host->preference == c->hosts->list[0].preference,
    };
    bool is_broken =
        c->request.without_tls || tls_broken_has(c->worker->broken_tls, host, c->worker->now);
    tls_policy_choose(c->worker->engine, c->transport, peer.nexthop, c->hosts, c->host, is_broken,
                      &c->policy);
    smtp_client_init(&c->smtp,
                     request_client_config(c->worker->engine, c->transport, c->policy.client),
                     &peer, c->worker->now);
    c->has_core = true;
    c->state = TALKING;
}

static void site_failed(struct outbound *c, enum outcome_stage stage, const char *status,
                        const char *text)
{
    const struct outcome_verdict verdict = {
        .class = OUTCOME_SOFT,
        .scope = OUTCOME_SCOPE_SITE,
        .stage = stage,
        .status = outcome_status_of(status),
        .text = slice_of(text),
    };
    request_site_failed(&c->request, &verdict);
}

static void connect_failed(struct outbound *c, int err)
{
    char text[300];
    const struct dns_host *host = &c->hosts->list[c->host];
    (void)snprintf(text, sizeof(text), "connect to " SLICE_FMT "[%s]:%u: %s", SLICE_ARG(host->name),
                   c->address, (unsigned)host->port,
                   err == -ETIMEDOUT ? "Connection timed out" : err_str(err));
    close_socket(c);
    site_failed(c, OUTCOME_STAGE_CONNECT, "4.4.1", text);
    try_next(c);
}

static void on_event(struct poller_watch *watch, unsigned events);

static int open_socket(struct outbound *c)
{
    struct sockaddr_storage address;
    const struct dns_host *host = &c->hosts->list[c->host];
    socklen_t len = ip_to_sockaddr(&host->ip, host->port, &address);
    (void)ip_text(&host->ip, c->address);
    memset(&c->tls, 0, sizeof(c->tls));
    c->opened = c->worker->now;
    c->uses = 0;
    int err = stream_connect(&c->stream, (const struct sockaddr *)&address, len, NULL, 0);
    if (err == 0) {
        err = poller_add(&c->worker->poller, &c->watch, c->stream.fd, on_event);
    }
    if (err == 0) {
        usec_t limit = settings(c)->smtp_connect_timeout;
        c->state = CONNECTING;
        timeout_set(&c->worker->timeouts, &c->timer,
                    limit == 0 ? USEC_NEVER : c->worker->now + limit);
    }
    return err;
}

/* The next address for the recipients that are still undecided. */
static void try_next(struct outbound *c)
{
    const struct config_smtp *s = settings(c);
    while (request_is_undecided(&c->request) &&
           request_next_host(&c->request, s, c->hosts, &c->host)) {
        int err = open_socket(c);
        if (err == 0) {
            return;
        }
        if (err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM) {
            outcome_set_neutral(&c->request.outcome); /* ours, it teaches nothing about the site */
        }
        char text[300];
        (void)snprintf(text, sizeof(text), "connect to " SLICE_FMT "[%s]:%u: %s",
                       SLICE_ARG(c->hosts->list[c->host].name), c->address,
                       (unsigned)c->hosts->list[c->host].port, err_str(err));
        close_socket(c);
        site_failed(c, OUTCOME_STAGE_CONNECT, "4.4.1", text);
    }
    give_up(c);
}

/* The same address again: after a lost idle connection, or without TLS. */
static void try_again(struct outbound *c)
{
    int err = open_socket(c);
    if (err != 0) {
        connect_failed(c, err);
    }
}

/* --- the dialogue ------------------------------------------------------------------------------
 */

/* returns false when it could not begin and its recipients have their verdict */
static bool start_transaction(struct outbound *c)
{
    const struct smtp_transaction *t = request_begin_transaction(&c->request, &c->smtp.features);
    c->uses++;
    int err = smtp_client_start(&c->smtp, t, c->worker->now);
    if (err == 0) {
        return true;
    }
    const struct outcome_verdict verdict = {
        .class = err == -ENOMEM ? OUTCOME_SOFT : OUTCOME_HARD,
        .scope = OUTCOME_SCOPE_MESSAGE,
        .stage = OUTCOME_STAGE_LOCAL,
        .status = outcome_status_of(err == -ENOMEM ? "4.3.0" : "5.1.3"),
        .text = err == -ENOMEM ? SLICE("out of memory") : SLICE("bad address syntax"),
    };
    request_rest(&c->request, &verdict);
    request_end_transaction(&c->request, true);
    return false;
}

/* The connection is good and no transaction is under way: the next one, with recipients that were
 * not in any yet, or the end of the delivery. */
static void go_on(struct outbound *c)
{
    while (request_has_untried(&c->request)) {
        if (start_transaction(c)) {
            return;
        }
    }
    if (request_is_undecided(&c->request)) {
        smtp_client_quit(&c->smtp, c->worker->now); /* the rest goes to the next server */
        return;
    }
    bool is_open = may_be_reused(c);
    finish_delivery(c, is_open);
    if (is_open) {
        c->state = IDLE;
    } else {
        smtp_client_quit(&c->smtp, c->worker->now);
        begin_leaving(c);
    }
}

static void ready_for_mail(struct outbound *c)
{
    if (c->request.delivery == NULL) {
        return;
    }
    if (!request_has_transaction(&c->request)) {
        request_greeted(&c->request, settings(c));
    }
    go_on(c);
}

/* The host's part of a handshake went wrong: the next delivery does not try. */
static void remember_broken(struct outbound *c)
{
    if (tls_policy_may_fall_back(&c->policy)) {
        tls_broken_add(c->worker->broken_tls, &c->hosts->list[c->host], c->worker->now);
    }
}

/* TLS did not come about, or proved too little. */
static void tls_failed(struct outbound *c, struct slice why)
{
    if (tls_policy_may_fall_back(&c->policy)) {
        c->request.wants_plain = c->request.without_tls = true;
    }
    smtp_client_tls_done(&c->smtp, false, why, c->worker->now);
}

static void begin_tls(struct outbound *c)
{
    struct ssl_st *ssl = tls_policy_connection(c->worker->engine, c->transport, &c->policy,
                                               c->request.delivery->destination, c->hosts, c->host,
                                               c->worker->sessions);
    if (ssl == NULL || stream_start_tls(&c->stream, ssl) != 0) {
        tls_failed(c, SLICE("cannot start TLS"));
        return;
    }
    c->state = HANDSHAKE;
}

static void closed(struct outbound *c, bool flush)
{
    if (flush && c->smtp.out.len > 0 && !request_is_undecided(&c->request) &&
        stream_is_open(&c->stream)) {
        if (c->request.delivery != NULL) {
            finish_delivery(c, false);
        }
        begin_leaving(c);
        return;
    }
    if (c->state == LEAVING) {
        free_connection(c);
        return;
    }
    if (c->request.delivery == NULL) {
        lose_idle(c);
        return;
    }
    if (flush && c->smtp.out.len > 0 && stream_can_write(&c->stream)) {
        /* A QUIT that does not fit is not worth waiting for. */
        ssize_t n = stream_write(&c->stream, c->smtp.out.data, c->smtp.out.len, false);
        (void)n;
    }
    bool again = c->request.wants_fresh || c->request.wants_plain;
    c->request.wants_fresh = c->request.wants_plain = false;
    close_socket(c);
    if (again) {
        try_again(c);
    } else {
        try_next(c);
    }
}

/* returns false when the loop over events must end: c may be gone */
static bool take_event(struct outbound *c, const struct smtp_client_event *e)
{
    switch (e->kind) {
    case SMTP_CLIENT_WANT_TLS:
        c->request.wants_tls = true; /* begins once out is flushed */
        return true;
    case SMTP_CLIENT_READY:
        ready_for_mail(c);
        return true;
    case SMTP_CLIENT_WANT_BODY:
        body_stream_begin(&c->body, &c->request.delivery->message->envelope);
        return true;
    case SMTP_CLIENT_STOP_BODY:
        body_stream_drop(&c->body);
        return true;
    case SMTP_CLIENT_RECIPIENT:
        request_recipient(&c->request, e->index, e->verdict);
        return true;
    case SMTP_CLIENT_REST:
        request_rest(&c->request, e->verdict);
        return true;
    case SMTP_CLIENT_DONE:
        request_end_transaction(&c->request, e->is_complete);
        return true;
    case SMTP_CLIENT_FAILED:
        request_failed(&c->request, e->verdict, e->retry_fresh);
        return true;
    case SMTP_CLIENT_CLOSED:
        closed(c, e->flush);
        return false;
    case SMTP_CLIENT_NONE:
    case SMTP_CLIENT_EVENT_COUNT:
    default:
        return true;
    }
}

/* returns false when c is gone or has a new socket */
static bool drain_events(struct outbound *c)
{
    struct smtp_client_event event;
    while (c->has_core && smtp_client_next_event(&c->smtp, &event)) {
        if (!take_event(c, &event)) {
            return false;
        }
    }
    return true;
}

/* --- moving bytes ------------------------------------------------------------------------------
 */

/* The socket failed, or (err 0) the peer closed it. returns false when c is gone or has a new one
 */
static bool take_loss(struct outbound *c, int err)
{
    if (c->state == LEAVING) {
        free_connection(c); /* the core has closed already and would say nothing */
        return false;
    }
    if (err == 0) {
        smtp_client_eof(&c->smtp, c->worker->now);
    } else {
        smtp_client_io_error(&c->smtp, err == ERR_TLS ? 0 : -err, c->worker->now);
    }
    return drain_events(c);
}

/* The server may have said why before it closed: a refusal in the middle of the body decides the
 * message, and none of that is lost with the connection. After a failure TLS reads no more.
 *
 * err      of the write, negative
 * returns  as drain_events */
static bool write_failed(struct outbound *c, ssize_t err)
{
    ssize_t n = stream_is_tls(&c->stream) || c->state == LEAVING
                    ? 0
                    : stream_read(&c->stream, c->worker->input, WORKER_READ_BYTES);
    struct slice in = slice_make(c->worker->input, n > 0 ? (size_t)n : 0);
    while (in.len > 0) {
        smtp_client_input(&c->smtp, &in, c->worker->now);
        if (!drain_events(c)) {
            return false;
        }
    }
    return take_loss(c, (int)err);
}

static bool write_commands(struct outbound *c)
{
    struct buf *out = &c->smtp.out;
    while (out->len > 0 && stream_can_write(&c->stream)) {
        struct slice first = body_stream_unsent(&c->body);
        if (first.len > 0 && c->body.is_streaming) {
            break; /* the body's bytes come first, and there are more of them */
        }
        struct iovec iov[2] = {{(void *)(uintptr_t)first.data, first.len}, {out->data, out->len}};
        int skip = first.len == 0;
        ssize_t n = stream_writev(&c->stream, iov + skip, 2 - skip, false);
        if (n == ERR_AGAIN) {
            break;
        }
        if (n < 0) {
            return write_failed(c, n);
        }
        size_t of_body = (size_t)n < first.len ? (size_t)n : first.len;
        body_stream_consume(&c->body, of_body);
        buf_consume(out, (size_t)n - of_body);
    }
    return true;
}

static bool write_body(struct outbound *c)
{
    bool has_unsent = body_stream_unsent(&c->body).len > 0;
    if (c->smtp.out.len > 0 ? !(has_unsent && c->body.is_streaming)
                            : !has_unsent && !c->body.is_streaming) {
        return true; /* commands first, or the last bytes together with the end of data */
    }
    bool was_streaming = c->body.is_streaming;
    struct body_progress progress;
    int err = body_stream_write(&c->body, &c->stream, c->worker, &progress);
    if (progress.written > 0) {
        smtp_client_body_progress(&c->smtp, progress.written, c->worker->now);
    }
    if (was_streaming && !c->body.is_streaming && (err == 0 || err == ERR_AGAIN)) {
        smtp_client_body_sent(&c->smtp, c->worker->now);
    }
    if (err == ERR_AGAIN) {
        if (progress.wants_pass) {
            worker_run_again(c->worker, &c->ready);
        }
    } else if (err != 0 && progress.is_local) {
        log_error("spool: cannot read a message body: %s", err_str(err));
        smtp_client_body_failed(&c->smtp, false, SLICE("message cannot be read"), c->worker->now);
    } else if (err != 0) {
        return write_failed(c, err);
    }
    return drain_events(c);
}

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
    struct slice in = slice_make(c->worker->input, (size_t)n);
    while (in.len > 0) {
        smtp_client_input(&c->smtp, &in, c->worker->now);
        if (!drain_events(c)) {
            return false;
        }
        if (!write_commands(c)) {
            return false;
        }
    }
    return true;
}

static bool step_handshake(struct outbound *c)
{
    int err = stream_handshake(&c->stream);
    if (err == ERR_AGAIN) {
        return true;
    }
    c->state = TALKING;
    const char *why = c->stream.error;
    if (err == 0) {
        stream_tls_facts(&c->stream, &c->tls);
        why = tls_policy_judge(&c->policy, &c->tls);
    } else {
        remember_broken(c);
    }
    if (err == 0 && why == NULL) {
        smtp_client_tls_done(&c->smtp, true, SLICE(""), c->worker->now);
    } else {
        tls_failed(c, slice_of(why));
    }
    return drain_events(c);
}

static bool step_connect(struct outbound *c)
{
    int err = stream_connect_result(&c->stream);
    if (err == ERR_AGAIN) {
        return false;
    }
    if (err != 0) {
        connect_failed(c, err);
        return false;
    }
    core_init(c);
    return true;
}

static void set_timer(struct outbound *c)
{
    if (c->state == TALKING || c->state == HANDSHAKE) {
        timeout_set(&c->worker->timeouts, &c->timer, smtp_client_deadline(&c->smtp));
    } else if (c->state == IDLE) {
        timeout_set(&c->worker->timeouts, &c->timer, USEC_NEVER);
    }
}

static void run(struct outbound *c)
{
    bool progress = true;
    if (c->state == CONNECTING && !step_connect(c)) {
        return;
    }
    for (int i = 0; progress && i < ROUNDS_PER_PASS; i++) {
        progress = false;
        if (c->state == HANDSHAKE && !step_handshake(c)) {
            return;
        }
        if (c->state == HANDSHAKE) {
            break;
        }
        if (!write_commands(c) || !write_body(c) || !write_commands(c)) {
            return;
        }
        if (c->request.wants_tls && c->smtp.out.len == 0) {
            c->request.wants_tls = false;
            begin_tls(c);
            if (!drain_events(c)) {
                return;
            }
            progress = true;
            continue;
        }
        if (c->state == LEAVING && c->smtp.out.len == 0) {
            free_connection(c);
            return;
        }
        if (!read_replies(c, &progress)) {
            return;
        }
    }
    if (progress) {
        worker_run_again(c->worker, &c->ready);
    }
    set_timer(c);
}

static void run_ready(struct worker_ready *self)
{
    run(container_of(self, struct outbound, ready));
}

static void on_event(struct poller_watch *watch, unsigned events)
{
    struct outbound *c = container_of(watch, struct outbound, watch);
    stream_ready(&c->stream, events);
    run(c);
}

static void on_timeout(struct timeout *t, usec_t now)
{
    struct outbound *c = container_of(t, struct outbound, timer);
    if (c->state == CONNECTING) {
        connect_failed(c, -ETIMEDOUT);
    } else if (c->state == LEAVING) {
        free_connection(c);
    } else {
        if (c->state == HANDSHAKE) {
            remember_broken(c);
        }
        smtp_client_timeout(&c->smtp, now > c->worker->now ? now : c->worker->now);
        if (drain_events(c)) {
            run(c);
        }
    }
}

/* --- from the scheduler --------------------------------------------------------------------------
 */

static struct outbound *new_connection(struct worker *w, const struct delivery *d)
{
    struct outbound *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->worker = w;
    c->transport = d->transport;
    c->connection = d->connection;
    c->ready.run = run_ready;
    c->stream.fd = -1;
    list_init(&c->ready.link);
    body_stream_init(&c->body);
    if (timeout_add(&w->timeouts, &c->timer, on_timeout) != 0) {
        free(c);
        return NULL;
    }
    list_push_back(&w->outbounds, &c->all);
    atomic_fetch_add_explicit(&w->outbound_count, 1, memory_order_relaxed);
    w->connections[c->transport][c->connection] = c;
    return c;
}

static void refuse_delivery(struct worker *w, struct delivery *d)
{
    uint32_t count;
    (void)sched_entry_indexes(d->entry, &count);
    struct result *r = request_refuse(d, "4.3.0", "out of resources");
    result_send(&w->to_writer, r, d->message, count, RESULT_WAS_LOADED | RESULT_WAS_DISPATCHED);
    outbox_put(&w->to_scheds[d->transport % w->engine->sched_count], LETTER_REPORT, d, 0);
}

void outbound_deliver(struct worker *w, struct delivery *d)
{
    struct outbound *c = w->connections[d->transport][d->connection];
    bool is_reused = c != NULL && c->state == IDLE && !d->connection_is_new;
    if (c != NULL && !is_reused) {
        /* The scheduler reuses the slot: it asked for this close, or knows of the loss. */
        free_connection(c);
        c = NULL;
    }
    if (c == NULL) {
        c = new_connection(w, d);
    }
    if (c == NULL || request_init(&c->request, d, w->now) != 0) {
        if (c != NULL) {
            free_connection(c);
        }
        refuse_delivery(w, d);
        return;
    }
    if (!is_reused) {
        c->hosts = dns_hosts_get(d->hosts);
        try_next(c);
        return;
    }
    request_reuse(&c->request, settings(c), c->hosts, c->host);
    c->state = TALKING;
    go_on(c);
    if (drain_events(c)) {
        run(c);
    }
}

void outbound_close(struct worker *w, uint32_t transport, uint32_t connection)
{
    struct outbound *c = w->connections[transport][connection];
    if (c == NULL || c->state != IDLE) {
        return;
    }
    smtp_client_quit(&c->smtp, w->now);
    begin_leaving(c);
    (void)drain_events(c); /* it is left to the ready list, or gone */
}

int outbound_start(struct worker *w)
{
    const struct config *config = w->engine->config;
    w->connections = calloc(config->transport_count, sizeof(*w->connections));
    if (w->connections == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < config->transport_count; i++) {
        int limit = config->transports[i].sched.process_limit;
        w->connections[i] = calloc((size_t)limit, sizeof(struct outbound *));
        if (w->connections[i] == NULL) {
            return -ENOMEM;
        }
    }
    return 0;
}

void outbound_return(struct worker *w, struct delivery *d)
{
    outbox_put(&w->to_scheds[d->transport % w->engine->sched_count], LETTER_REPORT, d, 0);
}

void outbound_close_all(struct worker *w)
{
    list_foreach_safe(c, &w->outbounds, struct outbound, all)
    {
        struct delivery *d = request_drop(&c->request);
        free_connection(c);
        if (d != NULL) {
            outbound_return(w, d);
        }
    }
    for (size_t i = 0; w->connections != NULL && i < w->engine->config->transport_count; i++) {
        free(w->connections[i]);
    }
    free(w->connections);
    w->connections = NULL;
}
