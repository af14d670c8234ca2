/* Reads messages from the spool through a clerk's reader, a page at a time; changes nothing. Called
 * on a clerk's thread, online for RCU. */
#include "engine/report/message_report.h"

#include "base/error.h"
#include "base/packed.h"
#include "engine/census/clerk_walk.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/event/reply_line.h"
#include "engine/http/clerk.h"
#include "engine/post/message.h"
#include "engine/report/why_past.h"
#include "engine/spool/spool_signing.h"
#include "engine/spool/spool_store.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "net/dkim/dkim_signature.h"

#include <stdio.h>
#include <string.h>

struct recipient_count {
    uint32_t pending;
    uint32_t newest; /* index of a recipient with a reason */
    bool has_reason;
};

static void count_recipients(struct clerk *k, const struct spool_envelope *e,
                             struct recipient_count *ret)
{
    uint32_t batches = (e->recipient_count + SPOOL_BATCH_RECIPIENTS - 1) / SPOOL_BATCH_RECIPIENTS;
    *ret = (struct recipient_count){.pending = e->recipient_count};
    for (uint32_t b = 0; b < batches; b++) {
        struct slice states;
        if (spool_read_states(k->reader, e->id, b, &states) != 0) {
            continue; /* none stored: all pending */
        }
        for (size_t i = 0; i < states.len; i++) {
            if (states.data[i] == SPOOL_RECIPIENT_DELIVERED ||
                states.data[i] == SPOOL_RECIPIENT_FAILED) {
                ret->pending--;
            } else if (states.data[i] == SPOOL_RECIPIENT_DEFERRED) {
                ret->has_reason = true;
                ret->newest = b * SPOOL_BATCH_RECIPIENTS + (uint32_t)i;
            }
        }
    }
}

/* What is overdue waits for a scan of deferred mail. */
static void set_next_scan(const struct clerk *k, json_t *o, enum queue_state state, usec_t due)
{
    usec_t ahead = atomic_load_explicit(&k->engine->next_scan, memory_order_relaxed) - clock_mono();
    if (state == QUEUE_DEFERRED && due <= clock_wall() && ahead > 0) {
        api_set_time(o, "next_scan", clock_wall() + ahead);
    }
}

static json_t *message_object(struct clerk *k, const struct spool_envelope *e,
                              enum queue_state state)
{
    char id[MESSAGE_ID_TEXT];
    struct spool_retry retry = {0};
    struct recipient_count count;
    json_t *o = json_object();
    if (o == NULL) {
        return NULL;
    }
    message_id_format(e->id, id);
    if (spool_read_retry(k->reader, e->id, &retry) != 0) {
        retry = (struct spool_retry){0}; /* damaged: shown as never tried */
    }
    count_recipients(k, e, &count);
    api_set_text(o, "id", slice_of(id));
    api_set_time(o, "created", e->created);
    api_set_text(o, "sender", e->sender);
    if (e->tenant.len > 0) {
        api_set_text(o, "tenant", e->tenant);
    }
    if (e->campaign.len > 0) {
        api_set_text(o, "campaign", e->campaign);
    }
    api_set_text(o, "mail_class", slice_of(mail_class_text(spool_mail_class(e->flags))));
    api_set_number(o, "size", e->size_bytes);
    api_set_number(o, "recipients", e->recipient_count);
    api_set_number(o, "pending", count.pending);
    api_set_text(o, "state", slice_of(queue_state_text(state)));
    if (state == QUEUE_SCHEDULED && e->not_before > retry.due) {
        api_set_time(o, "due", e->not_before);
    } else if (retry.attempts > 0 || retry.is_paced) {
        api_set_time(o, "due", retry.due);
        set_next_scan(k, o, state, retry.due);
    }
    api_set_number(o, "attempts", retry.attempts);
    if (retry.is_paced) {
        (void)json_object_set_new(o, "paced", json_true()); /* out of memory leaves it out */
    }
    struct spool_reason reason;
    if (count.has_reason && spool_read_reason(k->reader, e->id, count.newest, &reason) == 0) {
        char text[REPLY_LINE_MAX];
        api_set_text(o, "last_reply",
                     slice_of(reply_line(reason.code, reason.status, reason.text, text)));
    }
    return o;
}

/* An id of 1 to 16 hex digits. */
static bool parse_id(struct slice text, uint64_t *ret)
{
    char digits[MESSAGE_ID_TEXT] = "0000000000000000";
    if (text.len == 0 || text.len > 16) {
        return false;
    }
    slice_lower(text, digits + 16 - text.len);
    return message_id_parse(slice_make(digits, 16), ret);
}

/* The messages that fit, until there are enough. errors: as queue_walk */
static int put_messages(struct clerk *k, struct api_call *c, const struct queue_filter *filter,
                        uint64_t after, uint64_t limit)
{
    struct queue_source from;
    struct queue_walk w;
    bool is_at_end = false;
    int err = 0;
    clerk_source(k, &from);
    queue_walk_begin(&w, &from, filter, after, false);
    while (err == 0 && api_count(c) < limit && !api_is_long(c)) {
        if (!queue_walk_next(&w)) {
            is_at_end = true;
            err = w.error;
            break;
        }
        if (queue_walk_fits(&w)) {
            api_put(c, message_object(k, &w.message.envelope, w.state));
        }
    }
    queue_walk_end(&w);
    if (err == 0) {
        api_end(c, !is_at_end);
    }
    return err;
}

void message_report_list(struct clerk *k, struct api_call *c)
{
    struct queue_filter filter = {0};
    struct slice text;
    uint64_t limit, after = 0;
    if (api_param(c, "after", &text) && !parse_id(text, &after)) {
        api_error(c, 400, "usage", "after: not the id of a message");
    } else if (api_param_limit(c, &limit) && clerk_filter(c, &filter)) {
        int err = put_messages(k, c, &filter, after, limit);
        if (err != 0) {
            clerk_walk_error(k, c, err);
        }
    }
    queue_filter_fini(&filter);
}

/* The state of the message, as a list of messages would show it. No view of the spool is open. */
static enum queue_state message_state(struct clerk *k, uint64_t id)
{
    static const struct queue_filter any;
    struct queue_source from;
    struct queue_walk w;
    clerk_source(k, &from);
    enum queue_state state = QUEUE_INCOMING;
    queue_walk_begin(&w, &from, &any, id - 1, false);
    if (queue_walk_next(&w) && w.message.envelope.id == id && queue_walk_fits(&w)) {
        state = w.state;
    }
    queue_walk_end(&w);
    return state;
}

/* --- one message ------------------------------------------------------------------------------ */

static json_t *recipient_object(struct clerk *k, const struct spool_envelope *e,
                                struct slice address, uint32_t index, int state)
{
    static const char *const states[] = {"pending", "deferred", "delivered", "failed"};
    struct route_result route;
    struct spool_reason reason;
    json_t *o = json_object();
    if (o == NULL) {
        return NULL;
    }
    api_set_text(o, "recipient", address);
    api_set_number(o, "index", index);
    api_set_text(o, "state", slice_of(state >= 0 && state < 4 ? states[state] : "pending"));
    if (router_route(settings_of(k->engine)->router, router_domain(address), e->tenant, &route)) {
        api_set_text(o, "transport",
                     slice_of(settings_of(k->engine)->config->transports[route.transport].name));
        api_set_text(o, "destination", route.nexthop);
    }
    if (spool_read_reason(k->reader, e->id, index, &reason) == 0) {
        api_set_time(o, "time", reason.time);
        if (reason.code != 0) {
            api_set_number(o, "code", reason.code);
        }
        api_set_text(o, "status", reason.status);
        api_set_text(o, "reply", reason.text);
        if (reason.remote_mta.len > 0) {
            api_set_text(o, "remote_mta", reason.remote_mta);
        }
    }
    return o;
}

/* What it goes out with, once it was signed and waits for another attempt; NULL: nothing is known. */
static json_t *signature_list(struct clerk *k, uint64_t id)
{
    struct spool_signing record;
    struct dkim_signer s;
    if (spool_read_signing(k->reader, id, &record) != 0) {
        return NULL; /* it is made again when it is damaged */
    }
    json_t *list = json_array();
    while (list != NULL && dkim_signature_next(&record.fields, &s)) {
        json_t *o = json_object();
        if (o != NULL) {
            api_set_text(o, "domain", s.domain);
            api_set_text(o, "selector", s.selector);
            api_set_text(o, "algorithm", s.algorithm);
            api_set_time(o, "signed", record.signed_at);
        }
        (void)json_array_append_new(list, o); /* out of memory leaves it out */
    }
    return list;
}

/* Recipients of index first and beyond, so many. Message and reader are open. */
static json_t *recipient_list(struct clerk *k, const struct spool_envelope *e, uint32_t first,
                              uint64_t limit)
{
    json_t *list = json_array();
    for (uint32_t b = first / SPOOL_BATCH_RECIPIENTS;
         (uint64_t)b * SPOOL_BATCH_RECIPIENTS < e->recipient_count && json_array_size(list) < limit;
         b++) {
        struct slice packed, states, address;
        if (spool_read_recipients(k->reader, e->id, b, &packed) != 0) {
            break;
        }
        if (spool_read_states(k->reader, e->id, b, &states) != 0) {
            states = SLICE("");
        }
        for (uint32_t i = 0; packed_next(&packed, &address); i++) {
            uint32_t index = b * SPOOL_BATCH_RECIPIENTS + i;
            int state = i < states.len ? states.data[i] : SPOOL_RECIPIENT_PENDING;
            if (index >= first && json_array_size(list) < limit) {
                (void)json_array_append_new(list, /* out of memory leaves it out */
                                            recipient_object(k, e, address, index, state));
            }
        }
    }
    return list;
}

/* It left the queue: what the event log has of it. On the slow clerk, as that may be far back. */
static void show_past(struct clerk *k, struct api_call *c)
{
    enum { EVENTS = 200 };
    char text[MESSAGE_ID_TEXT], member[WHY_PAST_MEMBER_MAX], searched[WHY_PAST_SEARCHED_MAX];
    uint64_t id;
    json_t *events;
    if (!parse_id(api_argument(c), &id)) {
        api_error(c, 400, "usage", "not the id of a message: 16 hex digits");
        return;
    }
    message_id_format(id, text);
    int err = why_past_events(k, why_past_member("id", slice_of(text), member), 0, EVENTS, &events,
                              searched);
    if (err != 0) {
        clerk_walk_error(k, c, err);
    } else if (json_array_size(events) == 0) {
        json_decref(events);
        api_error(c, 404, "missing", "no such message in the queue, nor an event of it (%s)",
                  searched);
    } else {
        api_object(c, 200,
                   json_pack("{s:s, s:s, s:o, s:s}", "id", text, "state", "gone", "events", events,
                             "searched", searched));
    }
}

void message_report_show(struct clerk *k, struct api_call *c)
{
    struct spool_envelope e;
    struct slice body, text;
    uint64_t id, limit, after = 0;
    if (!parse_id(api_argument(c), &id)) {
        api_error(c, 400, "usage", "not the id of a message: 16 hex digits");
        return;
    }
    if (!api_param_limit(c, &limit) ||
        !api_param_number(c, "after", 0, UINT32_MAX - 1, 0, &after)) {
        return;
    }
    enum queue_state state = message_state(k, id);
    if (!clerk_begin(k, c)) {
        return;
    }
    int err = spool_read_message(k->reader, id, &e, &body);
    if (err == 0 && api_tenant(c).len > 0 && !slice_eq(api_tenant(c), e.tenant)) {
        err = ERR_MISSING; /* answered like an id that nobody has */
    }
    json_t *o = err == 0 ? message_object(k, &e, state) : NULL;
    if (o != NULL) {
        const struct message m = {.envelope = e};
        uint32_t first = api_param(c, "after", &text) ? (uint32_t)after + 1 : 0;
        json_t *list = recipient_list(k, &e, first, limit);
        api_set_time(o, "expires", message_expires(&m, settings_of(k->engine)->config));
        api_set_text(o, "peer_name", e.peer_name);
        api_set_text(o, "peer_address", e.peer_address);
        api_set_text(o, "protocol", e.protocol);
        api_set_text(o, "auth_user", e.auth_user);
        /* out of memory leaves it out */
        (void)json_object_set_new(o, "signatures", signature_list(k, id));
        bool has_more = first + json_array_size(list) < e.recipient_count;
        (void)json_object_set_new(o, "list", list); /* out of memory leaves it out */
        /* out of memory leaves it out */
        (void)json_object_set_new(o, "more", json_boolean(has_more));
    }
    clerk_end(k);
    if (err == 0) {
        api_object(c, 200, o);
    } else if (err == ERR_MISSING) {
        clerk_pass_on(k, c, show_past, NULL);
    } else {
        api_error(c, 503, "unavailable", "%s", err_str(err));
    }
}
