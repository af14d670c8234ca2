/* Owns requests to inject mail, from their check to their answer. Called by the http thread's
 * routes and mailbox. What a message is made of is compose.c's; nothing here blocks.
 *
 * Concurrency: everything is the http thread's, except engine.intake_bytes and engine.injections,
 * which are atomic counters, and intakes, which belong to the spool writer while they are away. One
 * part of a message is away at a time. */
#include "engine/http/inject.h"

#include "base/date.h"
#include "base/error.h"
#include "base/list.h"
#include "base/mailbox.h"
#include "base/packed.h"
#include "engine/compose/compose.h"
#include "engine/compose/header_filter.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/http/clerk.h"
#include "engine/http/http.h"
#include "engine/http/inject_request.h"
#include "engine/key/body_tap.h"
#include "engine/key/key_choice.h"
#include "engine/post/intake.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"
#include "engine/spool/spool_suppress.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/queue_count.h"
#include "engine/tally/tally.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNNING_MAX = 256,              /* requests whose commits are awaited */
    RECIPIENTS_MAX = 100000,        /* of one message */
    TOTAL_LEAST = 64 * 1024 * 1024, /* bytes that a batch may always come to */
    RETRY_BUSY = 1,                 /* seconds that a client is asked to wait */
    RETRY_CLOSED = 10,
};

/* One message of a request. */
struct injected {
    struct injection *injection;
    uint64_t id;
    struct composition composition;
    struct intake *intake; /* here or with the writer */
    size_t content_taken;  /* bytes of its content handed over */
    size_t packed_taken;   /* likewise of its recipients */
    bool is_staged;
    int error;
    json_t *suppressed; /* recipients that it does not go to; NULL: none */
};

struct injection {
    struct list link;
    struct injector *injector;
    struct api_call *call;
    struct injected *messages;
    size_t count;
    size_t waiting;    /* messages without a result */
    bool is_beginning; /* its handler has not returned: the call is not suspended */
    uint64_t bytes;
};

struct injector {
    /* set at creation */
    struct engine *engine;
    struct http *http;

    /* http thread only */
    struct spool_reader *reader; /* for suppressions: one page at most that is not in memory */
    struct list running;         /* struct injection */
    uint32_t running_count;
    uint64_t held; /* bytes of all that run */
};

const char *const inject_params[] = {"from",  "to",          "tenant",  "campaign",
                                     "class", "not_before",  "expires", "expires_in",
                                     "dkim",  "require_tls", NULL};

/* --- life ------------------------------------------------------------------------------------- */

static void injection_free(struct injection *n)
{
    if (n == NULL) {
        return;
    }
    for (size_t i = 0; i < n->count; i++) {
        composition_fini(&n->messages[i].composition);
        json_decref(n->messages[i].suppressed);
    }
    free(n->messages);
    free(n);
}

static struct injection *injection_new(struct injector *j, struct api_call *call, size_t count)
{
    struct injection *n = calloc(1, sizeof(*n));
    if (n == NULL) {
        return NULL;
    }
    n->messages = calloc(count, sizeof(*n->messages));
    if (n->messages == NULL) {
        free(n);
        return NULL;
    }
    n->injector = j;
    n->call = call;
    n->count = n->waiting = count;
    list_init(&n->link);
    for (size_t i = 0; i < count; i++) {
        n->messages[i].injection = n;
        composition_init(&n->messages[i].composition);
    }
    return n;
}

void injector_free(struct injector *j)
{
    if (j == NULL) {
        return;
    }
    while (!list_is_empty(&j->running)) {
        struct injection *n = list_first(&j->running, struct injection, link);
        list_remove(&n->link);
        injection_free(n); /* its intakes are where the writer put them */
    }
    spool_reader_free(j->reader);
    free(j);
}

/* --- composing -------------------------------------------------------------------------------- */

static bool has_route(const void *routes, struct slice domain)
{
    struct route_result route;
    return router_route(routes, domain, SLICE(""), &route);
}

/* Writes the Received field of this hop. It does not say who injected the message, as receivers see
 * it. */
static void write_received(struct buf *out, const struct config *config, uint64_t id, usec_t now)
{
    char text[MESSAGE_ID_TEXT], date[DATE_BYTES];
    message_id_format(id, text);
    date_format(now, date);
    buf_printf(out, "Received: by %s (sluice)\r\n\twith HTTP id %s;\r\n\t%s\r\n", config->hostname,
               text, date);
}

/* Removes the header fields that any listener is configured to take for control headers: unless it
 * keeps them, they do not leave this machine, whichever way the message came in. */
static void remove_control_headers(const struct config *config, struct buf *content, size_t at)
{
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *l = &config->listeners[i];
        const char *names[] = {l->tenant_header, l->campaign_header, l->class_header};
        struct header_filter filter;
        if (!l->keep_control_headers) {
            header_filter_init(&filter, names, sizeof(names) / sizeof(names[0]), at);
            (void)header_filter_run(&filter, content); /* complete: all of it is decided */
        }
    }
}

/* Whether there are the keys that a message names, for its tenant. */
static void check_keys(const struct settings *settings, const struct inject_request *request,
                       size_t index, const struct composition *m, struct compose_mistakes *mistakes)
{
    struct slice about;
    struct slice wanted = buf_slice(&m->dkim);
    if (wanted.len == 0) {
        return;
    }
    enum key_verdict verdict =
        settings->keys == NULL
            ? KEY_UNKNOWN
            : key_choice_allows(settings->keys, label_slice(&m->tenant), wanted, &about);
    const char *what = verdict == KEY_FOREIGN ? "names a key that signs for other tenants"
                                              : "names a key that is not configured";
    if (verdict != KEY_CHOSEN && request->list != NULL) {
        compose_mistake(mistakes, what, "messages[%zu].dkim", index);
    } else if (verdict != KEY_CHOSEN) {
        compose_mistake(mistakes, what, "dkim");
    }
}

/* Composes all messages of the request. When one cannot be composed, answers and returns false. */
static bool compose_all(struct injection *n, const struct inject_request *request, usec_t now)
{
    struct engine *e = n->injector->engine;
    const struct settings *settings = settings_of(e);
    const struct compose_options options = {
        .hostname = slice_of(settings->config->hostname),
        .now = now,
        .size_limit = settings->config->inject_size_limit,
        .recipient_limit = RECIPIENTS_MAX,
        .hop_limit = (uint32_t)settings->config->hopcount_limit,
        .has_route = has_route,
        .routes = settings->router,
    };
    uint64_t most = options.size_limit > TOTAL_LEAST ? options.size_limit : TOTAL_LEAST;
    struct compose_mistakes mistakes = {.count = 0};
    for (size_t i = 0; i < n->count && mistakes.count < COMPOSE_MISTAKES_MAX; i++) {
        struct injected *m = &n->messages[i];
        m->id = engine_new_id(e);
        write_received(&m->composition.content, settings->config, m->id, now);
        size_t at = m->composition.content.len;
        int err = inject_request_compose(request, i, &options, m->id, &mistakes, &m->composition);
        if (err != 0) {
            api_error(n->call, 503, "unavailable", "%s", err_str(err));
            return false;
        }
        if (m->composition.tenant.len > 0 &&
            !api_may_name(n->call, label_slice(&m->composition.tenant))) {
            return false;
        }
        check_keys(settings, request, i, &m->composition, &mistakes);
        remove_control_headers(settings->config, &m->composition.content, at);
        n->bytes += m->composition.content.len + m->composition.packed.len;
        if (n->bytes > most) {
            api_error(n->call, 413, "large",
                      "the messages are more than %llu bytes together; send them in several "
                      "requests",
                      (unsigned long long)most);
            return false;
        }
    }
    if (mistakes.count > 0) {
        inject_request_refuse(n->call, &mistakes);
        return false;
    }
    return true;
}

/* --- handing over to the spool ---------------------------------------------------------------- */

static struct slice keep_string(struct buf *strings, struct slice text)
{
    struct slice kept = {strings->data + strings->len, text.len};
    buf_append_slice(strings, text);
    return kept;
}

/* RFC 8689 section 4.1: what the request says goes before what the header says. */
static uint32_t tls_flags(const struct composition *c)
{
    if (c->requires_tls) {
        return SPOOL_FLAG_REQUIRE_TLS;
    }
    return c->is_tls_optional ? SPOOL_FLAG_TLS_OPTIONAL : 0;
}

/* The envelope, into an intake that is filled part by part. errors: -ENOMEM */
static int open_intake(struct injected *m, usec_t now)
{
    struct injector *j = m->injection->injector;
    struct slice who = slice_of(api_who(m->injection->call));
    struct slice peer = slice_of(api_address(m->injection->call));
    const struct config *config = settings_of(j->engine)->config;
    const struct composition *c = &m->composition;
    struct slice sender = smtp_address_slice(&c->sender), protocol = SLICE("HTTP");
    struct slice tenant = label_slice(&c->tenant), campaign = label_slice(&c->campaign);
    usec_t begin = c->not_before != 0 ? c->not_before : now;
    usec_t lifetime = config_queue_lifetime(config, tenant, sender.len == 0);
    bool is_lowered;
    enum mail_class class =
        config_mail_class(config, tenant, c->class, MAIL_CLASS_COUNT, &is_lowered);
    struct intake *in = m->intake = intake_new();
    if (in == NULL || buf_reserve(&in->strings, sender.len + who.len + peer.len + protocol.len +
                                                    tenant.len + campaign.len + 1) == NULL) {
        return -ENOMEM;
    }
    in->worker = (uint16_t)j->engine->worker_count; /* the answer comes to the http thread */
    in->connection = m;
    in->is_class_lowered = is_lowered;
    in->envelope = (struct spool_envelope){
        .id = m->id,
        .created = now,
        .size_bytes = c->content.len,
        .recipient_count = c->recipient_count,
        .flags = (c->has_8bit ? SPOOL_FLAG_8BIT : 0) | (c->needs_utf8 ? SPOOL_FLAG_UTF8 : 0) |
                 (c->has_leading_dot ? SPOOL_FLAG_LEADING_DOT : 0) | tls_flags(c) |
                 spool_class_flags(class),
        .warn_at = config->delay_warning_time > 0 && sender.len > 0
                       ? begin + config->delay_warning_time
                       : 0,
        .sender = keep_string(&in->strings, sender),
        .peer_name = keep_string(&in->strings, who),
        .peer_address = keep_string(&in->strings, peer),
        .protocol = keep_string(&in->strings, protocol),
        .auth_user = SLICE(""),
        .tenant = keep_string(&in->strings, tenant),
        .campaign = keep_string(&in->strings, campaign),
        .not_before = c->not_before,
        /* The lifetime of scheduled mail counts from when it may go. */
        .expires = c->expires != 0 || c->not_before == 0 ? c->expires : begin + lifetime,
    };
    return 0;
}

/* What its signer needs of the message, when there are keys: the hashes of its body, and the keys that it
 * names. errors: -ENOMEM */
static int prepare_signing(struct injected *m)
{
    const struct key_ring *keys = settings_of(m->injection->injector->engine)->keys;
    const struct composition *c = &m->composition;
    if (keys == NULL) {
        return 0;
    }
    struct signing *s = m->intake->signing = signing_new();
    struct body_tap *tap = s == NULL ? NULL : body_tap_new();
    if (tap == NULL) {
        return -ENOMEM;
    }
    body_tap_feed(tap, keys, buf_slice(&c->content));
    s->forms = (uint8_t)body_tap_finish(tap, s->hashes);
    body_tap_free(tap);
    s->wanted = c->dkim.len == 0 ? NULL : slice_dup(buf_slice(&c->dkim));
    return c->dkim.len > 0 && s->wanted == NULL ? -ENOMEM : 0;
}

static void take_injected_recipients(struct injected *m)
{
    struct intake *in = m->intake;
    struct slice rest = slice_from(buf_slice(&m->composition.packed), m->packed_taken);
    struct slice batch = packed_first(rest, SPOOL_BATCH_RECIPIENTS, &in->packed_count);
    buf_clear(&in->packed);
    buf_append_slice(&in->packed, batch);
    m->packed_taken += batch.len;
}

/* Puts the next part of the content into the intake; a small message is moved as a whole, without a
 * copy. */
static void take_content(struct injected *m)
{
    struct intake *in = m->intake;
    struct buf *content = &m->composition.content;
    size_t left = content->len - m->content_taken;
    size_t len = left < SPOOL_CHUNK_BYTES ? left : SPOOL_CHUNK_BYTES;
    if (m->content_taken == 0 && len == content->len) {
        struct buf swap = in->body;
        in->body = *content;
        *content = swap;
    } else {
        buf_clear(&in->body);
        buf_append(&in->body, content->data + m->content_taken, len);
    }
    m->content_taken += len;
}

/* Recipients first, then content; the last of both go with the envelope.
 *
 * ret_is_last  no part is left
 * returns      false: out of memory */
static bool fill_part(struct injected *m, bool *ret_is_last)
{
    struct intake *in = m->intake;
    const struct composition *c = &m->composition;
    in->puts_recipients = in->puts_body = false;
    if (in->packed.len == 0) {
        take_injected_recipients(m);
    }
    in->puts_recipients = m->packed_taken < c->packed.len;
    if (!in->puts_recipients) {
        take_content(m);
        in->puts_body = m->content_taken < in->envelope.size_bytes;
    }
    *ret_is_last = !in->puts_recipients && !in->puts_body;
    if (in->packed.failed || in->body.failed) {
        return false;
    }
    if (*ret_is_last) {
        in->message = intake_message(in); /* NULL: read back from the spool */
    }
    return true;
}

static void send_part(struct injected *m, bool is_last)
{
    struct injector *j = m->injection->injector;
    struct intake *in = m->intake;
    atomic_fetch_add_explicit(&j->engine->intake_bytes, in->body.len + in->packed.len,
                              memory_order_relaxed);
    if (is_last) {
        letter_put_store(http_to_receptions(j->http), in);
    } else {
        letter_put_stage(http_to_receptions(j->http), in);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Answers that the tenant has no room; returns false. */
static bool refuse_full(struct api_call *c, struct slice tenant, uint64_t limit)
{
    tenant = tenant.len > 0 ? tenant : SLICE("-");
    api_retry_after(c, RETRY_CLOSED);
    api_error(c, 429, "full",
              "tenant %.*s has as many messages queued as it may: queue_limit = %llu",
              (int)tenant.len, tenant.data, (unsigned long long)limit);
    return false;
}

/* Of each message what became of it. */
static json_t *tell_results(const struct injection *n)
{
    json_t *results = json_array();
    for (size_t i = 0; i < n->count; i++) {
        const struct injected *m = &n->messages[i];
        json_t *result = json_object();
        char id[MESSAGE_ID_TEXT];
        if (m->error == 0) {
            message_id_format(m->id, id);
            api_set_text(result, "id", slice_make(id, MESSAGE_ID_TEXT - 1));
        } else if (m->composition.recipient_count == 0) {
            api_set_text(result, "error", SLICE("all of its recipients are suppressed"));
        } else {
            api_set_text(result, "error", slice_of(inject_request_error(m->error)));
        }
        if (m->suppressed != NULL) { /* out of memory leaves them out */
            (void)json_object_set(result, "suppressed", m->suppressed);
        }
        (void)json_array_append_new(results, result);
    }
    return results;
}

static void finish_injection(struct injection *n)
{
    struct injector *j = n->injector;
    size_t stored = 0;
    json_t *ids = json_array();
    const char *why = "";
    const struct injected *full = NULL;
    bool is_all = true;
    for (size_t i = 0; i < n->count; i++) {
        struct injected *m = &n->messages[i];
        char id[MESSAGE_ID_TEXT];
        if (m->error == 0) {
            stored++;
            message_id_format(m->id, id);
            (void)json_array_append_new(ids, json_string(id)); /* out of memory: seen below */
        } else if (m->composition.recipient_count > 0) {
            why = inject_request_error(m->error);
            full = m->error == ERR_QUOTA ? m : full;
        }
        is_all = is_all && m->error == 0 && m->suppressed == NULL;
    }
    if (stored == 0 && full != NULL) {
        struct slice tenant = label_slice(&full->composition.tenant);
        (void)refuse_full(n->call, tenant,
                          queue_count_limit(settings_of(j->engine)->config, tenant));
    } else if (stored == 0) {
        api_retry_after(n->call, RETRY_CLOSED);
        api_error(n->call, 503, "unavailable", "%s", why);
    } else {
        inject_request_accept(n->call, json_incref(ids), is_all ? NULL : tell_results(n));
    }
    json_decref(ids);
    list_remove(&n->link);
    j->running_count--;
    j->held -= n->bytes;
    atomic_fetch_sub_explicit(&j->engine->injections, 1, memory_order_relaxed);
    if (!n->is_beginning) {
        http_answer(j->http, n->call);
    }
    injection_free(n);
}

/* A message has its result. */
static void settle_injected(struct injected *m, int error)
{
    struct injection *n = m->injection;
    m->error = error;
    if (error != 0 && m->is_staged) {
        letter_put_discard(http_to_writer(n->injector->http), m->id);
    }
    intake_free(m->intake);
    m->intake = NULL;
    buf_fini(&m->composition.content);
    buf_fini(&m->composition.packed);
    if (--n->waiting == 0) {
        finish_injection(n);
    }
}

static void go_on(struct injected *m)
{
    bool is_last;
    if (!fill_part(m, &is_last)) {
        settle_injected(m, -ENOMEM);
        return;
    }
    send_part(m, is_last);
}

/* LETTER_STAGED and LETTER_STORED came back. */
static void take_stored(void *ctx, struct intake *in)
{
    struct injector *j = ctx;
    struct injected *m = in->connection;
    (void)j; /* the message knows it */
    assert(m->intake == in);
    if (in->error != 0 || in->is_last) {
        settle_injected(m, in->error);
        return;
    }
    in->is_staged = m->is_staged = true;
    if (in->puts_recipients) {
        in->batch++;
        buf_clear(&in->packed);
    }
    if (in->puts_body) {
        in->chunk++;
    }
    go_on(m);
}

int injector_new(struct engine *engine, struct http *http, struct injector **ret)
{
    struct injector *j = calloc(1, sizeof(*j));
    if (j == NULL) {
        return -ENOMEM;
    }
    j->engine = engine;
    j->http = http;
    list_init(&j->running);
    int err = spool_reader_new(engine->store, &j->reader);
    if (err != 0) {
        free(j);
        return err;
    }
    http_set_injector(http, &(const struct http_injector){take_stored, j});
    *ret = j;
    return 0;
}

/* --- the route -------------------------------------------------------------------------------- */

static const char *why_closed(uint32_t gate)
{
    if ((gate & ENGINE_GATE_STOPPING) != 0) {
        return "the daemon is stopping";
    }
    if ((gate & ENGINE_GATE_DRAINING) != 0) {
        return "the daemon is draining: no mail is taken";
    }
    if ((gate & ENGINE_GATE_LOG) != 0) {
        return "the cluster's servers do not store mail at the moment";
    }
    if ((gate & ENGINE_GATE_LOG_FULL) != 0) {
        return "insufficient room in the cluster's log";
    }
    return (gate & ENGINE_GATE_BROKEN) != 0 ? "the spool does not work at the moment"
                                            : "insufficient system storage";
}

/* Answers and returns false while no mail is taken. */
static bool is_open(struct injector *j, struct api_call *c)
{
    struct engine *e = j->engine;
    uint32_t gate = engine_gate(e);
    uint64_t bytes = atomic_load_explicit(&e->intake_bytes, memory_order_relaxed) + j->held;
    bool is_full =
        j->running_count >= RUNNING_MAX || bytes >= settings_of(e)->config->intake_memory;
    if (gate != ENGINE_GATE_OPEN || is_full) {
        atomic_fetch_add_explicit(&e->refused, 1, memory_order_relaxed);
    }
    if (gate != ENGINE_GATE_OPEN) {
        api_retry_after(c, RETRY_CLOSED);
        api_error(c, 503, "unavailable", "%s", why_closed(gate));
        return false;
    }
    if (is_full) {
        api_retry_after(c, RETRY_BUSY);
        api_error(c, 429, "busy", "%s",
                  j->running_count >= RUNNING_MAX ? "too many injections are under way"
                                                  : "intake_memory is reached");
        return false;
    }
    return true;
}

/* Whether all ids of the request are reserved on the disk: a client must not be told an id that may
 * be used again after a crash. If not, answers and returns false. */
static bool has_ids(struct injector *j, const struct injection *n)
{
    if (engine_id_is_reserved(j->engine, n->messages[n->count - 1].id)) {
        return true;
    }
    /* Ids are reserved by commits, and the writer may have nothing else to commit: it is woken. */
    mailbox_wake(j->engine->boxes.writer);
    api_retry_after(n->call, RETRY_BUSY);
    api_error(n->call, 503, "unavailable", "out of message ids, try again");
    return false;
}

static bool open_intakes(struct injection *n, usec_t now)
{
    for (size_t i = 0; i < n->count; i++) {
        if (n->messages[i].composition.recipient_count == 0) {
            continue; /* suppressed: it has no intake */
        }
        if (open_intake(&n->messages[i], now) != 0 || prepare_signing(&n->messages[i]) != 0) {
            for (size_t k = 0; k <= i; k++) {
                intake_free(n->messages[k].intake);
                n->messages[k].intake = NULL;
            }
            api_error(n->call, 503, "unavailable", "out of memory");
            return false;
        }
    }
    return true;
}

/* How many messages of the request are of this tenant. */
static uint64_t count_of_tenant(const struct injection *n, struct slice tenant)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n->count; i++) {
        count += slice_ieq(label_slice(&n->messages[i].composition.tenant), tenant);
    }
    return count;
}

/* Whether the tenants of the messages may have them queued. If not, answers and returns false: of a
 * batch all is refused. The spool writer has the last word, as it counts what comes meanwhile. */
static bool may_send(struct injection *n)
{
    struct engine *e = n->injector->engine;
    const struct config *config = settings_of(e)->config;
    if (config->tenant_count == 0) {
        return true;
    }
    struct slice before = {NULL, 0};
    for (size_t i = 0; i < n->count; i++) {
        struct slice tenant = label_slice(&n->messages[i].composition.tenant);
        const struct config_tenant *t = config_tenant_find(config, tenant);
        uint64_t limit = queue_count_limit(config, tenant);
        if (t != NULL && !t->inject) {
            api_error(n->call, 403, "suspended", "tenant %.*s is suspended: inject = no",
                      (int)tenant.len, tenant.data);
            return false;
        }
        bool is_known = before.data != NULL && slice_ieq(before, tenant);
        if (limit > 0 && !is_known &&
            queue_count_of(e->tally->queued, tenant) + count_of_tenant(n, tenant) > limit) {
            atomic_fetch_add_explicit(&e->refused, 1, memory_order_relaxed);
            return refuse_full(n->call, tenant, limit);
        }
        before = tenant;
    }
    return true;
}

/* What names the suppressed recipients where nobody is left, as many as it has room for. */
struct suppressed_names {
    uint64_t count, kept;
    size_t len;
    char text[600];
};

/* The recipient is left out of the message and named. */
static void leave_out(struct injected *m, struct slice address,
                      const struct spool_suppression *found, struct suppressed_names *names)
{
    const char *reason = spool_suppress_reason_text(found->reason);
    size_t room = sizeof(names->text) - names->len;
    int len = snprintf(names->text + names->len, room, "%s%.*s (%s)", names->count == 0 ? "" : ", ",
                       SLICE_ARG(address), reason);
    names->len += len > 0 && (size_t)len < room ? (size_t)len : 0;
    names->text[names->len] = '\0';
    names->count++;
    json_t *o = json_object();
    api_set_text(o, "address", address);
    api_set_text(o, "reason", slice_of(reason));
    if (m->suppressed == NULL) {
        m->suppressed = json_array();
    }
    (void)json_array_append_new(m->suppressed, o); /* out of memory leaves it out */
    m->composition.recipient_count--;
}

/* Recipients who are on a list leave the message where its tenant wants them refused. */
static void leave_out_suppressed(struct injected *m, struct suppressed_names *names)
{
    struct injector *j = m->injection->injector;
    struct buf *packed = &m->composition.packed;
    struct slice tenant = label_slice(&m->composition.tenant);
    struct slice rest = buf_slice(packed), address;
    if (config_suppression_find(settings_of(j->engine)->config, tenant)->at_intake !=
        CONFIG_SUPPRESSED_REFUSE) {
        names->kept++;
        return;
    }
    size_t kept = 0;
    for (size_t at = 0, next; packed_next(&rest, &address); at = next) {
        struct spool_suppression found;
        next = packed->len - rest.len;
        if (spool_suppress_find(j->reader, tenant, address, clock_wall(), &found) == 0) {
            leave_out(m, address, &found, names);
            continue;
        }
        /* What is not known now is asked again before the attempt. */
        memmove(packed->data + kept, packed->data + at, next - at);
        kept += next - at;
    }
    packed->len = kept;
    names->kept += m->composition.recipient_count;
}

/* Takes suppressed recipients out of the messages. When nobody is left, answers and returns false. */
static bool may_reach(struct injection *n)
{
    struct injector *j = n->injector;
    struct suppressed_names names = {.count = 0};
    if (spool_suppress_count(j->engine->store) == 0 || spool_reader_begin(j->reader) != 0) {
        return true; /* asked before the attempt as well */
    }
    for (size_t i = 0; i < n->count; i++) {
        leave_out_suppressed(&n->messages[i], &names);
    }
    spool_reader_end(j->reader);
    atomic_fetch_add_explicit(&j->engine->suppressed_refused, names.count, memory_order_relaxed);
    if (names.kept == 0) {
        api_error(n->call, 422, "suppressed", "%llu recipients are suppressed: %s",
                  (unsigned long long)names.count, names.text);
    }
    return names.kept > 0;
}

static void begin_injection(struct injection *n)
{
    struct injector *j = n->injector;
    api_keep(n->call);
    list_push_back(&j->running, &n->link);
    j->running_count++;
    j->held += n->bytes;
    atomic_fetch_add_explicit(&j->engine->injections, 1, memory_order_relaxed);
    n->is_beginning = true;
    n->waiting++; /* keeps n from ending before all of its messages are sent */
    for (size_t i = 0; i < n->count; i++) {
        if (n->messages[i].intake == NULL) {
            settle_injected(&n->messages[i], ERR_MISSING);
        } else {
            go_on(&n->messages[i]);
        }
    }
    if (--n->waiting == 0) {
        finish_injection(n);
        return;
    }
    n->is_beginning = false;
}

void inject_post(struct clerk *k, struct api_call *c)
{
    struct injector *j = k->engine->injector;
    struct inject_request request;
    usec_t now = clock_wall();
    if (!is_open(j, c) || !inject_request_init(&request, c, INJECT_MESSAGES_MAX)) {
        return;
    }
    struct injection *n = injection_new(j, c, request.count);
    if (n == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
    } else if (compose_all(n, &request, now) && has_ids(j, n) && may_send(n) && may_reach(n) &&
               open_intakes(n, now)) {
        begin_injection(n);
        n = NULL;
    }
    injection_free(n);
    inject_request_fini(&request);
}
