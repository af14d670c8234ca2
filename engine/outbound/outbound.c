/* The deliveries of an outbound connection and its dialogue: what the scheduler sends is queued as
 * requests; each is a transaction of the core, several at once where the server allows; what the
 * core says becomes verdicts, results and reports. */
#include "engine/outbound/outbound.h"

#include "base/error.h"
#include "engine/outbound/outbound_private.h"
#include "engine/outbound/outbound_tls.h"
#include "engine/outbound/refusal.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/state/client_settings.h"
#include "net/outcome.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Time for a connection that ends: to flush QUIT, and for the server to close where the scheduler
 * awaits that. */
static const usec_t leaving_time = 5 * USEC_PER_SEC;

/* --- the connection as an object -------------------------------------------------------------- */

static bool has_requests(const struct outbound *c)
{
    return !list_is_empty(&c->started) || !list_is_empty(&c->waiting);
}

static void tell_lost(struct worker *w, uint32_t transport, uint32_t connection)
{
    const struct letter_lost lost = {
        .transport = (uint16_t)transport, .worker = (uint16_t)w->index, .connection = connection};
    letter_put_lost(&w->to_scheds[transport % w->engine->sched_count], &lost);
}

void outbound_free(struct outbound *c)
{
    assert(!has_requests(c));
    outbound_trace_end(c);
    outbound_close_socket(c);
    if (c->is_awaited) {
        tell_lost(c->worker, c->transport, c->connection);
    }
    outbound_leave_table(c);
    timeout_remove(&c->worker->timeouts, &c->timer);
    dns_hosts_put(c->hosts);
    free(c->own_client);
    settings_put(c->settings);
    outflow_fini(&c->flow);
    list_remove(&c->all);
    atomic_fetch_sub_explicit(&c->worker->outbound_count, 1, memory_order_relaxed);
    free(c);
}

/* Flushes QUIT for a moment, then closes. When the scheduler awaits the end, the connection stays
 * until the server has closed it too: a server that limits connections counts this one until then,
 * and sends 221 before. */
static void begin_leaving(struct outbound *c)
{
    outbound_leave_table(c);
    c->state = OUTBOUND_LEAVING;
    worker_run_again(c->worker, &c->ready);
    timeout_set(&c->worker->timeouts, &c->timer, c->worker->now + leaving_time);
}

static void lose_idle(struct outbound *c)
{
    c->is_awaited = true;
    outbound_free(c);
}

/* What the destination's provider and domain say about its connections. false: out of memory */
static bool set_options(struct outbound *c, const struct delivery *d, struct settings *settings)
{
    c->options = policy_of(settings->policies, d->transport, d->nexthop, d->hosts->facts.names);
    if (c->options != NULL && c->options->has_client_options) {
        c->own_client = malloc(sizeof(*c->own_client));
    }
    return c->options != NULL && (c->own_client != NULL || !c->options->has_client_options);
}

static struct outbound *new_connection(struct worker *w, const struct delivery *d,
                                       struct settings *settings)
{
    struct outbound *c = outbound_make_room(&w->connections[d->transport], d->connection)
                             ? calloc(1, sizeof(*c))
                             : NULL;
    if (c == NULL) {
        return NULL;
    }
    c->worker = w;
    c->transport = d->transport;
    c->connection = d->connection;
    c->ready.run = outbound_run_ready;
    c->stream.fd = -1;
    list_init(&c->ready.link);
    list_init(&c->started);
    list_init(&c->waiting);
    outflow_init(&c->flow);
    if (!set_options(c, d, settings) ||
        timeout_add(&w->timeouts, &c->timer, outbound_on_timeout) != 0) {
        free(c->own_client);
        free(c);
        return NULL;
    }
    c->settings = settings_get(settings);
    c->hosts = dns_hosts_get(d->hosts);
    c->host = d->server;
    (void)ip_text(&c->hosts->list[c->host].ip, c->address);
    list_push_back(&w->outbounds, &c->all);
    atomic_fetch_add_explicit(&w->outbound_count, 1, memory_order_relaxed);
    w->connections[c->transport].slots[c->connection] = c;
    return c;
}

/* --- connecting ------------------------------------------------------------------------------- */

void outbound_connected(struct outbound *c)
{
    const struct dns_host *host = &c->hosts->list[c->host];
    const struct request *first = list_first(&c->waiting, const struct request, link);
    const struct smtp_client_peer peer = {
        .host = host->name,
        .address = slice_of(c->address),
        .nexthop = first->delivery->nexthop,
        .port = host->port,
        .is_best_mx = host->preference == c->hosts->list[0].preference,
    };
    const struct tls_policy_peer tls = {c->options, peer.nexthop, c->hosts, c->host};
    c->is_relaxed = tls_policy_choose(c->settings, &tls, outbound_tls_is_optional(c),
                                      c->is_tls_broken, &c->policy);
    const struct smtp_client_config *config = client_settings_by(
        c->settings->client_configs, c->options, c->egress.place, c->policy.client, c->own_client);
    smtp_client_init(&c->smtp, config, &peer, c->worker->now);
    if (c->avoids_chunking) {
        smtp_client_avoid_chunking(&c->smtp);
    }
    c->has_core = true;
    c->traced = 0;
    c->state = OUTBOUND_TALKING;
}

void outbound_unreachable(struct outbound *c, const char *why, bool is_own)
{
    struct request *first = list_first(&c->waiting, struct request, link);
    c->is_leaving = true;
    outbound_trace_unreachable(c, why);
    const struct request_session session = outbound_session(c);
    const struct request_unreached unreached = {&session, &c->egress, why, is_own};
    if (request_unreachable(first, &unreached)) {
        outbound_send_refused(c, first, false, false);
    } else {
        outbound_leave_server(c, first, !is_own);
    }
    outbound_send_all_again(c);
    outbound_free(c);
}

void outbound_connect_failed(struct outbound *c, int err)
{
    outbound_unreachable(c, egress_error_text(err), egress_is_own_failure(&c->egress, err));
}

/* --- the dialogue ----------------------------------------------------------------------------- */

/* The request whose transaction has this number. Events come in the order of transactions, so the
 * search begins at the head of the list, except when the core asks for a body (at_tail). */
static struct request *request_of(struct outbound *c, uint32_t number, bool at_tail)
{
    if (at_tail && !list_is_empty(&c->started)) {
        struct request *last = list_last(&c->started, struct request, link);
        if (last->number == number) {
            return last;
        }
    }
    list_foreach(r, &c->started, struct request, link)
    {
        if (r->number == number) {
            return r;
        }
    }
    assert(false && "an event for no transaction");
    return NULL;
}

/* The core did not take the request's recipients into a transaction: they get a verdict here. */
static void refuse_unsent(struct outbound *c, struct request *r, int err)
{
    const struct outcome_verdict verdict = {
        .class = err == -ENOMEM ? OUTCOME_SOFT : OUTCOME_HARD,
        .scope = OUTCOME_SCOPE_MESSAGE,
        .stage = OUTCOME_STAGE_LOCAL,
        .status = outcome_status_of(err == -ENOMEM ? "4.3.0" : "5.1.3"),
        .text = err == -ENOMEM ? SLICE("out of memory") : SLICE("bad address syntax"),
    };
    request_rest(r, &verdict, false);
    request_end_transaction(r, true);
    if (!request_has_untried(r)) {
        outbound_leave_server(c, r, false);
    }
}

/* Begins a transaction for the first request that waits. */
static void start_one(struct outbound *c)
{
    struct request *r = list_first(&c->waiting, struct request, link);
    outbound_trace_carry(c, r->delivery);
    const struct smtp_transaction *t = request_begin_transaction(r, &c->smtp.features, c->worker);
    outbound_tls_prove(c, r);
    int err = smtp_client_start(&c->smtp, t, c->worker->now);
    if (err != 0) {
        refuse_unsent(c, r, err);
        return;
    }
    r->number = c->smtp.transactions - 1;
    r->use = c->smtp.transactions;
    list_remove(&r->link);
    list_push_back(&c->started, &r->link);
}

static void transaction_done(struct outbound *c, const struct smtp_client_event *e)
{
    struct request *r = request_of(c, e->transaction, false);
    c->has_accepted = c->has_accepted || r->outcome.delivered > 0;
    if (e->is_doubtful) {
        request_doubt(r);
    }
    c->is_leaving = c->is_leaving || !e->can_reuse;
    request_count_taken(r);
    if (r->refusal != NULL) {
        outbound_send_refused(c, r, e->is_complete, false);
        return;
    }
    request_end_transaction(r, e->is_complete);
    list_remove(&r->link);
    if (!request_is_undecided(r)) {
        outbound_finish_here(c, r, false);
    } else if (!request_has_untried(r)) {
        outbound_leave_server(c, r, false);
    } else if (c->is_leaving) {
        outbound_send_again(c, r, false, false);
    } else {
        list_push_front(&c->waiting, &r->link); /* more recipients than one transaction takes */
    }
}

/* The connection is lost, and the server has taken nothing of this message. If it said why to the MAIL
 * of this one, it may have told us to slow down. */
static void transaction_returned(struct outbound *c, const struct smtp_client_event *e)
{
    struct request *r = request_of(c, e->transaction, false);
    c->is_leaving = true;
    r->is_later = c->has_accepted;
    if (outbound_is_wider(c, r, e->verdict)) {
        request_hold_all(r);
        r->refusal->is_returned = true;
        outbound_send_refused(c, r, false, false);
        return;
    }
    request_returned(r);
    outbound_send_again(c, r, false, false);
}

static void ready_for_mail(struct outbound *c)
{
    if (!c->is_ready) {
        c->is_ready = true;
        outbound_tls_count_plain(c);
        list_foreach(r, &c->waiting, struct request, link)
        {
            request_greeted(r, outbound_settings(c));
        }
    }
}

static void decide(struct outbound *c, const struct smtp_client_event *e)
{
    struct request *r = request_of(c, e->transaction, false);
    const struct outcome_verdict *v = e->verdict;
    r->is_later = c->has_accepted;
    outbound_trace_verdict(c, v);
    /* When a connection is lost with several transactions in flight, the server may not bear our
     * pipelining: it gets one transaction at a time from now on. */
    bool is_lost = v->scope == OUTCOME_SCOPE_SITE && v->code == 0;
    c->is_out_of_step = c->is_out_of_step || (is_lost && r->link.next != &c->started);
    if (e->is_neutral) {
        outcome_set_neutral(&r->outcome);
    }
    bool wider = outbound_is_wider(c, r, v);
    if (e->kind == SMTP_CLIENT_RECIPIENT) {
        request_recipient(r, e->index, v, wider);
    } else {
        request_rest(r, v, wider);
    }
}

/* The core has ended the session. returns as outbound_drain */
static bool closed(struct outbound *c, bool flush)
{
    assert(list_is_empty(&c->started));
    if (c->state == OUTBOUND_LEAVING) {
        if (flush) {
            return true;
        }
        outbound_free(c);
        return false;
    }
    if (c->wants_plain && !list_is_empty(&c->waiting)) {
        c->wants_plain = false;
        outbound_close_socket(c);
        int err = outbound_open(c);
        if (err != 0) {
            outbound_connect_failed(c, err);
        }
        return false;
    }
    bool was_idle = !c->is_leaving;
    c->is_leaving = true;
    bool had_waiting = !list_is_empty(&c->waiting);
    outbound_send_all_again(c);
    if (flush && c->smtp.out.len > 0 && stream_is_open(&c->stream)) {
        begin_leaving(c);
        return true;
    }
    if (was_idle && !had_waiting) {
        lose_idle(c);
    } else {
        outbound_free(c);
    }
    return false;
}

static void begin_body(struct outbound *c, const struct smtp_client_event *e)
{
    const struct message *m = request_of(c, e->transaction, true)->delivery->message;
    body_stream_begin(&c->flow.body, m, e->is_chunk);
    outbound_trace_body(c, m);
}

/* returns false when the loop over events must end: c is gone, or has a new socket */
static bool take_client_event(struct outbound *c, const struct smtp_client_event *e)
{
    switch (e->kind) {
    case SMTP_CLIENT_WANT_TLS:
        c->wants_tls = true; /* begins once out is flushed */
        return true;
    case SMTP_CLIENT_READY:
        ready_for_mail(c);
        return true;
    case SMTP_CLIENT_WANT_BODY:
        begin_body(c, e);
        return true;
    case SMTP_CLIENT_STOP_BODY:
        body_stream_drop(&c->flow.body);
        return true;
    case SMTP_CLIENT_RECIPIENT:
    case SMTP_CLIENT_REST:
        decide(c, e);
        return true;
    case SMTP_CLIENT_DONE:
        transaction_done(c, e);
        return true;
    case SMTP_CLIENT_RETURNED:
        transaction_returned(c, e);
        return true;
    case SMTP_CLIENT_FAILED:
        outbound_tls_count_refusal(c, e->verdict);
        if (!c->wants_plain) {
            outbound_site_failed(c, e->verdict);
        }
        return true;
    case SMTP_CLIENT_CLOSED:
        return closed(c, e->flush);
    case SMTP_CLIENT_NONE:
    case SMTP_CLIENT_EVENT_COUNT:
    default:
        return true;
    }
}

static bool take_events(struct outbound *c)
{
    struct smtp_client_event event;
    while (smtp_client_next_event(&c->smtp, &event)) {
        if (!take_client_event(c, &event)) {
            return false;
        }
    }
    return true;
}

/* When no request is left, the connection becomes idle, or says QUIT if it is leaving. returns as
 * outbound_drain */
static bool rest(struct outbound *c)
{
    if (c->state != OUTBOUND_TALKING || !c->is_ready || has_requests(c)) {
        return true;
    }
    if (!c->is_leaving) {
        c->state = OUTBOUND_IDLE;
        outbound_trace_rest(c);
        return true;
    }
    smtp_client_quit(&c->smtp, c->worker->now);
    return take_events(c);
}

bool outbound_drain(struct outbound *c)
{
    if (!take_events(c)) {
        return false;
    }
    if (!list_is_empty(&c->waiting) && engine_lease_is_over(c->worker->engine)) {
        c->is_leaving = true; /* others may deliver this mail: no MAIL */
    }
    while (!list_is_empty(&c->waiting) && c->is_ready && !c->is_leaving &&
           smtp_client_can_start(&c->smtp) && smtp_client_stalls_at(&c->smtp) > c->worker->now) {
        start_one(c);
        if (!take_events(c)) {
            return false;
        }
    }
    /* The core takes no transaction although none is under way: it will not take one later. */
    bool is_stuck = c->is_ready && list_is_empty(&c->started);
    c->is_leaving = c->is_leaving || (is_stuck && !list_is_empty(&c->waiting));
    if (c->is_leaving && c->state != OUTBOUND_LEAVING) {
        outbound_send_all_again(c);
    }
    return rest(c);
}

/* --- from the scheduler ----------------------------------------------------------------------- */

static void refuse_delivery(struct worker *w, struct delivery *d)
{
    static const struct outcome_verdict verdict = {
        .class = OUTCOME_SOFT,
        .scope = OUTCOME_SCOPE_MESSAGE,
        .stage = OUTCOME_STAGE_LOCAL,
        .status = {"4.3.0"},
        .text = {"out of resources", sizeof("out of resources") - 1},
    };
    d->connection_open = d->connection_ends = d->again = d->server_failed = false;
    if (d->request != NULL) { /* some recipients may be decided already */
        request_site_failed(d->request, &verdict);
        outbound_finish_request(w, d->request, NULL);
        return;
    }
    request_refuse(d, "4.3.0", "out of resources", w->to_writer);
    outbound_report(w, d);
}

/* Gives back a delivery whose connection has gone, or whose hosts are out of date; or whose source
 * cannot be used: then it goes by another one. */
static void return_unbegun(struct worker *w, struct delivery *d, bool source_tried)
{
    d->again = true;
    d->source_tried = source_tried;
    d->server_tried = d->server_failed = d->connection_open = d->connection_ends = false;
    d->feedback = SCHED_NEUTRAL;
    d->has_deferred = false;
    d->depth = 0;
    outbound_report(w, d);
}

/* Opens the new connection of a delivery. settings: of the generation that its hosts were found by
 */
static void open_for(struct worker *w, struct delivery *d, struct settings *settings)
{
    struct egress egress;
    if (!egress_find(settings, d->transport, d->source, d->hosts->list[d->server].ip.family,
                     &egress) ||
        egress_is_closed(w->engine->orders, egress.source)) {
        /* A reload or an order of which the scheduler is about to hear. */
        return_unbegun(w, d, true);
        return;
    }
    struct outbound *stale = outbound_find(w, d->transport, d->connection);
    if (stale != NULL) {
        outbound_free(stale); /* the scheduler asked for this close, or knows of the loss */
    }
    struct outbound *c = new_connection(w, d, settings);
    if (c == NULL) {
        refuse_delivery(w, d);
        return;
    }
    c->egress = egress;
    c->is_tls_broken = (d->server_notes & DELIVERY_NOTE_BROKEN_TLS) != 0;
    c->avoids_chunking = (d->server_notes & DELIVERY_NOTE_DATA) != 0;
    request_begin_server(d->request, outbound_settings(c), d->is_last_server, false);
    request_set_provider(d->request, outbound_provider(c));
    list_push_back(&c->waiting, &d->request->link);
    int err = outbound_open(c);
    if (err != 0) {
        outbound_connect_failed(c, err);
    }
}

/* Recipients that were put on a list of suppressed ones since the message became active end here.
 *
 * returns  true: all of the delivery have ended, and it is reported */
static bool ends_suppressed(struct worker *w, struct delivery *d) ON_ROLE(w->post)
{
    struct spool_reader *reader;
    if (spool_suppress_changes(w->engine->store) == d->message->suppress_seen ||
        (reader = worker_reader(w)) == NULL) {
        return false;
    }
    request_suppress(d->request, reader, clock_wall());
    if (request_is_undecided(d->request)) {
        return false;
    }
    struct outbound *c =
        d->connection_is_new ? NULL : outbound_find(w, d->transport, d->connection);
    d->again = d->server_tried = false;
    if (c != NULL && outbound_may_be_reused(c)) {
        outbound_describe(c, d, false);
    } else {
        outbound_close(w, d->transport, d->connection, false); /* as below */
        d->connection_open = d->connection_ends = d->server_failed = false;
        d->depth = 0;
    }
    outbound_finish_request(w, d->request, NULL);
    return true;
}

void outbound_deliver(struct worker *w, struct delivery *d)
{
    post_assert_owner(&w->post);
    if (d->request == NULL) {
        d->request = request_new(d);
    }
    if (d->request == NULL) {
        refuse_delivery(w, d);
        return;
    }
    if (ends_suppressed(w, d)) {
        return;
    }
    struct settings *settings = settings_of(w->engine);
    if (d->connection_is_new && d->generation < settings->generations[d->transport]) {
        return_unbegun(w, d,
                       false); /* a reload changed the sources or TLS levels that hosts depend on */
        return;
    }
    if (d->connection_is_new) {
        open_for(w, d, settings_for(settings, d->transport));
        return;
    }
    struct outbound *c = outbound_find(w, d->transport, d->connection);
    if (c == NULL || !outbound_may_be_reused(c)) {
        /* A connection that may not be reused can still be open and idle. The scheduler takes it
         * for gone from now on and will not ask for its close, so it is closed here. */
        outbound_close(w, d->transport, d->connection, false);
        return_unbegun(w, d, false);
        return;
    }
    request_begin_server(d->request, outbound_settings(c), d->is_last_server, c->is_ready);
    request_set_provider(d->request, outbound_provider(c));
    list_push_back(&c->waiting, &d->request->link);
    if (c->state == OUTBOUND_IDLE) {
        c->state = OUTBOUND_TALKING;
        outbound_trace_resume(c);
    }
    worker_run_again(w, &c->ready); /* later in this pass, with other deliveries that arrive */
}

void outbound_close(struct worker *w, uint32_t transport, uint32_t connection, bool is_awaited)
{
    struct outbound *c = outbound_find(w, transport, connection);
    if (c == NULL) {
        if (is_awaited) {
            tell_lost(w, transport,
                      connection); /* perhaps a second time; the scheduler then ignores it */
        }
        return;
    }
    c->is_awaited = c->is_awaited || is_awaited;
    if (c->state != OUTBOUND_IDLE) {
        return;
    }
    c->is_leaving = true;
    smtp_client_quit(&c->smtp, w->now);
    (void)take_events(c); /* c is in the ready list now, or gone */
}

int outbound_start(struct worker *w)
{
    const struct config *config = w->engine->config;
    w->connections = calloc(config_transport_room(config), sizeof(*w->connections));
    if (w->connections == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < config->transport_count; i++) {
        uint32_t limit = (uint32_t)config->transports[i].sched.process_limit;
        if (!outbound_make_room(&w->connections[i], limit - 1)) {
            return -ENOMEM;
        }
    }
    return 0;
}

void outbound_return(struct worker *w, struct delivery *d)
{
    request_free(d->request);
    d->request = NULL;
    d->feedback = SCHED_NEUTRAL;
    d->has_deferred = true;
    d->again = d->is_refused = d->connection_open = d->connection_ends = false;
    outbound_report(w, d);
}

static void return_all(struct worker *w, struct list *requests) ON_ROLE(w->post)
{
    while (!list_is_empty(requests)) {
        outbound_return(w, list_first(requests, struct request, link)->delivery);
    }
}

void outbound_close_all(struct worker *w)
{
    list_foreach_safe(c, &w->outbounds, struct outbound, all)
    {
        return_all(w, &c->started);
        return_all(w, &c->waiting);
        outbound_free(c);
    }
    size_t room = config_transport_room(w->engine->config);
    for (size_t i = 0; w->connections != NULL && i < room; i++) {
        free(w->connections[i].slots);
    }
    free(w->connections);
    w->connections = NULL;
}
