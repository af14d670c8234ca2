/* What a receiver refuses on purpose: the rejections that are drawn, and its hidden limits, in the
 * order in which they are asked. Called by the session and its commands at each stage; says
 * nothing itself. */
#include "bench/sink/sink_session.h"

/* A token of the receiver for one message: of the client, then of all clients together. */
static bool take_token(struct sink_session *s)
{
    usec_t now = clock_mono();
    return sink_clients_take(s->receiver, s->known, BUCKET_MESSAGES, &s->behaviour->rate_per_client,
                             now) &&
           sink_rule_take(&s->listener->rule, now);
}

/* The same of a domain. */
static bool take_domain_token(struct sink_session *s, struct sink_rule *domain)
{
    usec_t now = clock_mono();
    const struct rate_plan *plan = &domain->behaviour->rate_per_client;
    return (plan->count == 0 ||
            sink_clients_take(&domain->clients, sink_session_known_to(s, domain), BUCKET_MESSAGES,
                              plan, now)) &&
           sink_rule_take(domain, now);
}

static bool acts_at(const struct behaviour *b, enum behaviour_stage stage)
{
    return b->rate_stage == stage && (b->rate.count > 0 || b->rate_per_client.count > 0);
}

/* A domain is not known before RCPT. */
static bool domain_acts_at(const struct sink_rule *domain, enum behaviour_stage stage)
{
    bool is_at_dot = domain != NULL && domain->behaviour->rate_stage == STAGE_DOT;
    return domain != NULL && sink_rule_has_rate(domain) && is_at_dot == (stage == STAGE_DOT);
}

const char *sink_limit_connection(struct sink_session *s)
{
    const struct behaviour *b = s->behaviour;
    if (!sink_listener_enter(s->listener, b, s->client)) {
        return b->connection_reply;
    }
    if (!sink_clients_take(s->receiver, s->known, BUCKET_CONNECTIONS,
                           &b->connection_rate_per_client, clock_mono())) {
        sink_listener_leave(s->listener, s->client);
        return b->connection_reply;
    }
    return NULL;
}

const char *sink_limit_mail(struct sink_session *s)
{
    const struct behaviour *b = s->behaviour;
    const char *refusal = sink_session_rejection(s, b, STAGE_MAIL);
    if (refusal != NULL) {
        return refusal;
    }
    if (b->messages_per_connection > 0 && s->messages >= b->messages_per_connection) {
        return b->messages_reply;
    }
    return acts_at(b, STAGE_MAIL) && !take_token(s) ? b->rate_reply : NULL;
}

/* The rates of messages at RCPT: once a message, of a domain once for neighbours. */
static const char *limit_rate(struct sink_session *s, struct sink_rule *domain)
{
    if (acts_at(s->behaviour, STAGE_RCPT) && !s->has_token) {
        if (!take_token(s)) {
            return s->behaviour->rate_reply;
        }
        s->has_token = true;
    }
    if (domain_acts_at(domain, STAGE_RCPT) && domain != s->last_domain) {
        if (!take_domain_token(s, domain)) {
            return sink_session_behaviour(s, domain, BEHAVIOUR_RATE_REPLY)->rate_reply;
        }
        s->last_domain = domain;
    }
    return NULL;
}

const char *sink_limit_recipient(struct sink_session *s, struct sink_rule *domain,
                                 struct slice address)
{
    const struct behaviour *b = sink_session_behaviour(s, domain, BEHAVIOUR_REJECT);
    const char *refusal = b->rejection_count > 0 ? sink_session_rejection(s, b, STAGE_RCPT) : NULL;
    if (refusal != NULL) {
        return refusal;
    }
    b = sink_session_behaviour(s, domain, BEHAVIOUR_RECIPIENTS_PER_MESSAGE);
    if (b->recipients_per_message > 0 && s->recipient_count >= b->recipients_per_message) {
        return "452 4.5.3 too many recipients";
    }
    b = sink_session_behaviour(s, domain, BEHAVIOUR_GREYLIST);
    bool is_domain = domain != NULL && b == domain->behaviour;
    if (b->greylist > 0 &&
        !sink_rule_pass(is_domain ? domain : &s->listener->rule, s->client, buf_slice(&s->sender),
                        address, b->greylist, clock_mono())) {
        return sink_session_behaviour(s, domain, BEHAVIOUR_GREYLIST_REPLY)->greylist_reply;
    }
    refusal = limit_rate(s, domain);
    if (refusal != NULL) {
        return refusal;
    }
    return sink_clients_take(s->receiver, s->known, BUCKET_RECIPIENTS,
                             &s->behaviour->recipient_rate_per_client, clock_mono())
               ? NULL
               : s->behaviour->recipient_reply;
}

const char *sink_limit_dot(struct sink_session *s)
{
    const struct behaviour *b = sink_session_behaviour(s, s->domain, BEHAVIOUR_REJECT);
    const char *refusal = sink_session_rejection(s, b, STAGE_DOT);
    if (refusal != NULL) {
        return refusal;
    }
    if (acts_at(s->behaviour, STAGE_DOT) && !take_token(s)) {
        return s->behaviour->rate_reply;
    }
    if (domain_acts_at(s->domain, STAGE_DOT) && !take_domain_token(s, s->domain)) {
        return sink_session_behaviour(s, s->domain, BEHAVIOUR_RATE_REPLY)->rate_reply;
    }
    return NULL;
}
