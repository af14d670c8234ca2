/* What becomes of a delivery on a connection: results for the spool writer, and the report to its
 * scheduler, with what the connection and its server are now like. Called by outbound.c on the
 * worker's thread; says nothing to the server and frees no connection. */
#include "engine/limit/limits_figures.h"
#include "engine/outbound/outbound_private.h"
#include "engine/outbound/refusal.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "net/outcome.h"

void outbound_report(struct worker *w, struct delivery *d)
{
    struct outbox *to = &w->to_scheds[d->transport % w->engine->sched_count];
    if (d->again || d->is_refused) {
        letter_put_report(to, d); /* wakes at once: mail waits for a new connection, or should not
                                   * be sent any more */
    } else {
        letter_put_patient_report(to, d);
    }
}

bool outbound_may_be_reused(const struct outbound *c)
{
    return !c->is_leaving && !c->is_relaxed &&
           !atomic_load_explicit(&c->worker->is_draining, memory_order_relaxed) &&
           !egress_is_closed(c->worker->engine->orders, c->egress.source);
}

/* What the report says of the connection and its server. */
void outbound_describe(struct outbound *c, struct delivery *d, bool server_failed)
{
    d->connection_open = outbound_may_be_reused(c);
    d->connection_ends = c->is_leaving = c->is_awaited = !d->connection_open;
    d->depth = c->is_ready && c->has_core ? smtp_client_at_hand(&c->smtp) : 0;
    d->is_out_of_step = c->is_out_of_step || (c->has_core && c->smtp.is_out_of_step);
    /* An end by BDAT that could not be believed may have been taken all the same: by DATA, whose 354
     * stands between the replies to the envelope and to the end, it can be told. Otherwise the
     * message would come again and again. */
    if (c->has_core && c->smtp.is_out_of_step && c->smtp.features.has_chunking) {
        c->notes |= DELIVERY_NOTE_DATA;
    }
    d->server_notes = c->notes;
    d->server_failed = server_failed;
}

static struct request_rules rules_of(const struct worker *w)
{
    const struct settings *s = settings_of(w->engine);
    return (struct request_rules){s->replies, w->matcher, s->serial};
}

/* Ends a delivery: the spool writer gets the recipients' results, the scheduler the report. */
void outbound_finish_request(struct worker *w, struct request *r,
                             const struct request_session *session)
{
    struct delivery *d = r->delivery;
    const struct request_rules rules = rules_of(w);
    request_finish(r, session, &rules, w->to_writer);
    outbound_report(w, d);
}

struct request_session outbound_session(const struct outbound *c)
{
    return (struct request_session){
        .host = &c->hosts->list[c->host],
        .address = c->address,
        .tls = c->tls,
        .source = egress_source_name(&c->egress),
    };
}

void outbound_finish_here(struct outbound *c, struct request *r, bool server_failed)
{
    const struct request_session session = outbound_session(c);
    outbound_describe(c, r->delivery, server_failed);
    outbound_finish_request(c->worker, r, &session);
}

/* Gives the delivery back to the scheduler, which places it on another connection. If its last
 * transaction here decided no recipient, the next one at this server would not either: it then goes
 * to another server, or it could come back for ever.  tried: it must not come to this server again
 */
void outbound_send_again(struct outbound *c, struct request *r, bool tried, bool server_failed)
{
    struct delivery *d = r->delivery;
    list_remove(&r->link);
    outbound_describe(c, d, server_failed);
    d->again = true;
    d->server_tried = tried || r->was_in_vain;
    d->feedback = SCHED_NEUTRAL;
    d->has_deferred = false;
    outbound_report(c->worker, d);
}

/* Hands the delivery to the scheduler thread, which says what becomes of the recipients that are held.
 */
void outbound_send_refused(struct outbound *c, struct request *r, bool is_complete,
                           bool server_failed)
{
    struct delivery *d = r->delivery;
    list_remove(&r->link);
    outbound_describe(c, d, server_failed);
    r->refusal->is_complete = is_complete;
    d->is_refused = true;
    outbound_report(c->worker, d);
}

struct slice outbound_provider(const struct outbound *c)
{
    const struct config_receiver *provider = c->options->provider_section;
    return provider == NULL ? SLICE("") : slice_of(provider->options.name);
}

/* Whether the refusal is about more than the recipients that it was said of. */
bool outbound_is_wider(struct outbound *c, struct request *r, const struct outcome_verdict *v)
{
    if (v->class == OUTCOME_SUCCESS || v->code == 0) {
        return false;
    }
    struct request_session session = outbound_session(c);
    session.figure =
        limits_figure_of(c->worker->engine->limits, outbound_provider(c), session.source);
    const struct request_rules rules = rules_of(c->worker);
    bool was_refused = r->refusal != NULL;
    bool is_held = request_weigh(r, v, &session, &rules);
    if (is_held && !was_refused) {
        r->refusal->ours = egress_address(&c->egress, &c->hosts->list[c->host], &c->stream);
    }
    return is_held;
}

/* This server will decide no further recipient of the delivery: it ends, or goes to the next
 * server. */
void outbound_leave_server(struct outbound *c, struct request *r, bool server_failed)
{
    if (request_is_undecided(r) && !r->is_final) {
        outbound_send_again(c, r, true, server_failed);
    } else {
        outbound_finish_here(c, r, server_failed);
    }
}

/* Gives back every delivery that waits. The server has seen none of them, so they may be placed at
 * the same server again. */
void outbound_send_all_again(struct outbound *c)
{
    while (!list_is_empty(&c->waiting)) {
        struct request *r = list_first(&c->waiting, struct request, link);
        request_returned(r);
        outbound_send_again(c, r, false, false);
    }
}

bool outbound_has_unbegun(const struct outbound *c)
{
    /* What is at hand for a second transaction here stands in front. */
    return !list_is_empty(&c->waiting) &&
           list_last(&c->waiting, const struct request, link)->is_in_session;
}

/* What has had a transaction with this server stays: it comes here with the recipients that are left. */
void outbound_send_unbegun_again(struct outbound *c)
{
    list_foreach_safe(r, &c->waiting, struct request, link)
    {
        if (r->is_in_session) {
            request_returned(r);
            outbound_send_again(c, r, false, false);
        }
    }
}

/* The session did not come as far as MAIL. The failure counts for the first delivery, for which the
 * connection was opened; others that wait are given back. */
void outbound_site_failed(struct outbound *c, const struct outcome_verdict *v)
{
    c->is_leaving = true;
    outbound_trace_verdict(c, v);
    if (!list_is_empty(&c->waiting)) {
        struct request *r = list_first(&c->waiting, struct request, link);
        if (outbound_is_wider(c, r, v)) {
            request_hold_all(r);
            outbound_send_refused(c, r, false, true);
        } else {
            request_site_failed(r, v);
            outbound_leave_server(c, r, true);
        }
    }
    outbound_send_all_again(c);
}
