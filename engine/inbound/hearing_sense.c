#include "engine/inbound/hearing_sense.h"

#include "engine/event/event.h"
#include "engine/heard/return_book.h"
#include "engine/heard/return_names.h"
#include "engine/heard/return_token.h"
#include "engine/post/message.h"
#include "engine/reply/reply_dsn.h"
#include "engine/reply/reply_set.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token that is ours. */
struct origin {
    bool is_known;
    bool is_returned; /* it stands in the message that the report returns */
    bool has_owner;   /* whose mail it was is known: a tenant's, or nobody's */
    struct return_token token;
    struct slice tenant, campaign; /* "": none, or not known any more */
};

struct sense {
    struct hearing *one;
    const struct heard *heard;
    const struct hearing_rules *rules;
    const struct return_keys *keys; /* NULL: there are none */
    struct origin origin;
};

/* --- whose it is ------------------------------------------------------------------------------ */

static bool try_token(struct sense *s, struct slice text, bool is_returned)
{
    struct origin *o = &s->origin;
    const int64_t now = s->one->received / USEC_PER_SEC;
    if (s->keys == NULL || return_token_read(text, s->keys, now, &o->token) != 0) {
        return false;
    }
    o->is_known = true;
    o->is_returned = is_returned;
    return true;
}

static bool try_tokens(struct sense *s, const char (*texts)[RETURN_TOKEN_LEN], size_t count,
                       bool is_returned)
{
    for (size_t i = 0; i < count; i++) {
        if (try_token(s, slice_make(texts[i], RETURN_TOKEN_LEN), is_returned)) {
            return true;
        }
    }
    return false;
}

/* The first good token: in the returned message, else whom the report was sent to, else anywhere. */
static void find_origin(struct sense *s)
{
    struct slice rest = slice_of(s->one->recipient), token, campaign = SLICE("");
    const struct heard *h = s->heard;
    struct origin *o = &s->origin;
    *o = (struct origin){.tenant = SLICE(""), .campaign = SLICE("")};
    bool is_found = try_tokens(s, h->returned_tokens, h->returned_token_count, true) ||
                    (return_token_find(&rest, &token) && try_token(s, token, false)) ||
                    try_tokens(s, h->tokens, h->token_count, false);
    const struct return_names *names = return_book_names(s->rules->book);
    struct slice of_campaign = SLICE("");
    if (!is_found) {
        return;
    }
    o->has_owner = o->token.tenant == 0;
    if (names == NULL) {
        return;
    }
    if (return_names_get(names, o->token.tenant, &o->tenant, &campaign)) {
        o->has_owner = true;
    } else {
        o->tenant = SLICE("");
    }
    if (!return_names_get(names, o->token.campaign, &of_campaign, &o->campaign) ||
        !slice_eq(of_campaign, o->tenant)) {
        o->campaign = SLICE("");
    }
}

static bool is_ours(const struct sense *s, struct slice address)
{
    return s->origin.is_known && address.len > 0 &&
           return_token_is_for(&s->origin.token, s->keys, address);
}

/* The recipient of the original, when some address of the report is that; else "". */
static struct slice recipient_among(const struct sense *s)
{
    for (size_t i = 0; i < s->heard->address_count; i++) {
        struct slice address = slice_of(s->heard->addresses[i]);
        if (is_ours(s, address)) {
            return address;
        }
    }
    return SLICE("");
}

/* --- what follows ----------------------------------------------------------------------------- */

static void add_cause(struct sense *s, enum spool_suppress_reason reason, struct slice address,
                      const char *by)
{
    struct hearing *one = s->one;
    /* What a tenant's mail met must not fill the list for all because its name is not known. */
    if (address.len == 0 || !s->origin.has_owner || one->cause_count == HEARD_RECIPIENT_MAX) {
        return;
    }
    struct hearing_cause *c = &one->causes[one->cause_count++];
    memset(c, 0, sizeof(*c));
    c->reason = reason;
    c->message_id = s->origin.token.message;
    label_set(&c->tenant, s->origin.tenant);
    memcpy(c->address, address.data, address.len); /* of a text of that size */
    (void)snprintf(c->source, sizeof(c->source), "%.60s", by);
}

/* Types of feedback that ask for no more mail; others are told and change nothing. */
static bool is_complaint(const struct heard *h)
{
    return h->feedback_type[0] == '\0' || strcmp(h->feedback_type, "abuse") == 0 ||
           strcmp(h->feedback_type, "fraud") == 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void set_text(json_t *object, const char *key, const char *value)
{
    if (value[0] != '\0') {
        json_t *text = json_string(value);
        /* Bytes that are no UTF-8 are told as Latin-1 would have them: nothing is lost. */
        if (text == NULL) {
            char safe[2 * 1024 + 1];
            size_t len = 0;
            for (const unsigned char *at = (const unsigned char *)value;
                 *at != '\0' && len + 2 < sizeof(safe); at++) {
                if (*at < 128) {
                    safe[len++] = (char)*at;
                } else {
                    safe[len++] = (char)(0xc0 | *at >> 6);
                    safe[len++] = (char)(0x80 | (*at & 0x3f));
                }
            }
            safe[len] = '\0';
            text = json_string(safe);
        }
        json_object_set_new(object, key,
                            text); /* NULL: out of memory, and the field is not there */
    }
}

static json_t *report_object(const struct sense *s, const struct heard_recipient *r)
{
    const struct heard *h = s->heard;
    json_t *report = json_object();
    set_text(report, "shape", h->shape);
    if (r != NULL) {
        set_text(report, "action", heard_action_text(r->action));
        set_text(report, "remote_mta", r->remote_mta);
        /* Said by the report, and believed only as "recipient". */
        set_text(report, "final_recipient", r->address);
        set_text(report, "original_recipient", r->original);
    }
    set_text(report, "reporting_mta", h->reporting_mta);
    set_text(report, "arrival_date", h->arrival_date);
    set_text(report, "from", h->from);
    set_text(report, "subject", h->subject);
    set_text(report, "original_message_id", h->original_message_id);
    set_text(report, "feedback_type", h->feedback_type);
    set_text(report, "user_agent", h->user_agent);
    set_text(report, "source_ip", h->source_ip);
    set_text(report, "original_mail_from", h->original_mail_from);
    set_text(report, "reported_domain", h->reported_domain);
    if (h->incidents > 0) {
        json_object_set_new(report, "incidents", json_integer(h->incidents));
    }
    if (h->is_cut) {
        json_object_set_new(report, "is_cut", json_true());
    }
    return report;
}

static unsigned number_after_dots(const char *status, unsigned dots)
{
    for (; dots > 0 && *status != '\0'; status++) {
        dots -= *status == '.';
    }
    return (unsigned)strtoul(status, NULL, 10);
}

/* What a line has of a bounce's recipient. */
struct sensed {
    struct slice recipient; /* ours; "": not known */
    const struct heard_recipient *said;
    struct reply reply;
    struct reply_verdict meaning;
};

static void write_line(struct sense *s, enum event_type type, const struct sensed *sensed)
{
    struct hearing *one = s->one;
    const struct heard_recipient *r = sensed->said;
    char id[MESSAGE_ID_TEXT] = "";
    json_t *report = report_object(s, r);
    char *text = json_dumps(report, JSON_COMPACT);
    struct buf members;
    buf_init(&members, 0);
    buf_append_str(&members, ",\"report\":");
    buf_append_str(&members, text == NULL ? "{}" : text);
    if (s->origin.is_known) {
        message_id_format(s->origin.token.message, id);
    }
    struct event event = {
        .type = type,
        .id = slice_of(id),
        .recipient = sensed->recipient,
        .size = one->content.len,
        .peer_address = slice_of(one->peer),
        .event_time = one->received,
        .tenant = s->origin.tenant,
        .campaign = s->origin.campaign,
        .members = buf_slice(&members),
        .bounce_classification = slice_of(reply_class_text(sensed->meaning.class)),
    };
    if (r != NULL) {
        event.response.code = sensed->reply.code;
        event.response.class_ = (uint16_t)number_after_dots(sensed->reply.status, 0);
        event.response.subject = (uint16_t)number_after_dots(sensed->reply.status, 1);
        event.response.detail = (uint16_t)number_after_dots(sensed->reply.status, 2);
        event.response.content = slice_of(r->diagnostic);
    }
    event_format(&one->lines, &event);
    one->lines.failed |= text == NULL || members.failed;
    buf_fini(&members);
    free(text);
    json_decref(report);
}

/* --- kinds ------------------------------------------------------------------------------------ */

static void classify_recipient(const struct sense *s, struct sensed *ret)
{
    ret->meaning = (struct reply_verdict){.rule = REPLY_NO_RULE};
    reply_read_dsn(slice_of(ret->said->status), slice_of(ret->said->diagnostic), &ret->reply);
    if (s->rules->matcher != NULL && s->rules->replies != NULL && ret->reply.code >= 400) {
        reply_set_classify(s->rules->replies, s->rules->matcher, &ret->reply, &ret->meaning);
    }
}

/* A failure for good says that the mailbox is not there; one that is full may be either. */
static void follow_bounce(struct sense *s, const struct sensed *sensed)
{
    char by[80];
    const struct heard *h = s->heard;
    (void)snprintf(by, sizeof(by), "bounce %.10s from %.40s", sensed->reply.status,
                   h->reporting_mta[0] != '\0' ? h->reporting_mta : h->from);
    if (sensed->said->action == HEARD_FAILED && sensed->meaning.class == REPLY_MAILBOX &&
        sensed->reply.code >= 500) {
        add_cause(s, SPOOL_SUPPRESS_HARD_BOUNCE, sensed->recipient, by);
    } else if (sensed->said->action == HEARD_FAILED && sensed->meaning.class == REPLY_FULL) {
        add_cause(s, SPOOL_SUPPRESS_MAILBOX_FULL, sensed->recipient, by);
    }
}

static void sense_bounce(struct sense *s)
{
    const struct heard *h = s->heard;
    static const struct heard_recipient nobody;
    struct slice among = recipient_among(s);
    for (size_t i = 0; i < h->recipient_count || i == 0; i++) {
        struct sensed sensed = {.said = i < h->recipient_count ? &h->recipients[i] : &nobody};
        if (is_ours(s, slice_of(sensed.said->address))) {
            sensed.recipient = slice_of(sensed.said->address);
        } else if (is_ours(s, slice_of(sensed.said->original))) {
            sensed.recipient = slice_of(sensed.said->original);
        } else if (h->recipient_count == 1) {
            sensed.recipient = among; /* our mail was forwarded, and bounced there */
        } else {
            sensed.recipient = SLICE("");
        }
        classify_recipient(s, &sensed);
        write_line(s, EVENT_OOB, &sensed);
        follow_bounce(s, &sensed);
    }
}

static void sense_feedback(struct sense *s)
{
    char by[80];
    const struct heard *h = s->heard;
    const struct sensed sensed = {.recipient = recipient_among(s),
                                  .meaning = {.rule = REPLY_NO_RULE}};
    bool is_mail = h->kind == HEARD_UNSUBSCRIBE && h->feedback_type[0] == '\0';
    write_line(s, EVENT_FEEDBACK, &sensed);
    (void)snprintf(by, sizeof(by), "%s by %.40s",
                   h->kind == HEARD_UNSUBSCRIBE ? "unsubscribe" : "complaint",
                   is_mail ? "mail" : h->from);
    if (h->kind == HEARD_UNSUBSCRIBE && (is_mail || s->origin.is_returned)) {
        add_cause(s, SPOOL_SUPPRESS_UNSUBSCRIBE, sensed.recipient, by);
    } else if (h->kind == HEARD_COMPLAINT && s->origin.is_returned && is_complaint(h)) {
        add_cause(s, SPOOL_SUPPRESS_COMPLAINT, sensed.recipient, by);
    }
}

void hearing_sense(struct hearing *one, const struct heard *heard,
                   const struct hearing_rules *rules)
{
    struct sense s = {
        .one = one, .heard = heard, .rules = rules, .keys = return_book_keys(rules->book)};
    find_origin(&s);
    if (heard->kind == HEARD_BOUNCE) {
        sense_bounce(&s);
    } else if (heard->kind == HEARD_AUTO_REPLY) {
        const struct sensed sensed = {.recipient = recipient_among(&s),
                                      .meaning = {.rule = REPLY_NO_RULE}};
        write_line(&s, EVENT_AUTO_REPLY, &sensed);
    } else {
        sense_feedback(&s);
    }
}
