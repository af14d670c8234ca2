/* Owns requests that change suppressions, from their check to their answer. Called by the http thread's
 * routes and mailbox; nothing here blocks. A request has one batch, which is here or with the writer. */
#include "engine/suppression/suppress_request.h"

#include "base/error.h"
#include "engine/config/label.h"
#include "engine/http/clerk.h"
#include "engine/http/http.h"
#include "engine/post/letter.h"
#include "engine/post/suppress_batch.h"
#include "engine/state/engine.h"
#include "engine/suppression/suppress_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WRONG_SHOWN = 100, /* lines that the answer tells of */
    LINE_BYTES = 4096,
};

struct suppress_request {
    struct http *http;
    struct api_call *call;
    struct suppress_batch *batch;
    struct label owner; /* whoever asks is bound to: entries of no other; len 0: nobody is */
    char tenant[SPOOL_SUPPRESS_TENANT_MAX], source[SPOOL_SUPPRESS_SOURCE_MAX];
    struct suppress_defaults defaults; /* slices are of the above */
    bool is_removal, is_csv;
    bool is_single; /* an entry as JSON, or one address to remove */

    /* of a file */
    struct buf body;
    size_t at;     /* of body: read so far */
    uint64_t line; /* number of the next line */
    struct suppress_columns columns;
    uint64_t accepted, bad, added, replaced, removed, missing;
    json_t *wrong;
};

const char *const suppress_request_params[] = {"tenant", "reason", "source", "for",
                                               "remove", "line",   NULL};

static void request_end(struct suppress_request *s)
{
    suppress_batch_free(s->batch);
    json_decref(s->wrong);
    buf_fini(&s->body);
    free(s);
}

static void drop_batch(struct suppress_batch *b)
{
    request_end(b->owner);
}

/* --- what is asked for ---------------------------------------------------------------------------- */

/* What the query says of all entries. false: the call is answered */
static bool read_query(struct suppress_request *s, struct api_call *c)
{
    struct slice tenant = api_tenant(c), source = SLICE(""), reason, remove;
    usec_t span;
    label_set(&s->owner, tenant);
    s->defaults.reason = SPOOL_SUPPRESS_BY_HAND;
    if (api_param(c, "tenant", &tenant) && tenant.len > 0) {
        if (!api_may_name(c, tenant)) {
            return false;
        }
        if (!label_is_valid(tenant)) {
            api_error(c, 422, "wrong", "tenant is no tenant's name");
            return false;
        }
    }
    if (api_param(c, "reason", &reason)) {
        s->defaults.reason = spool_suppress_reason_find(reason);
    }
    if (s->defaults.reason == SPOOL_SUPPRESS_REASON_COUNT) {
        api_error(c, 422, "wrong",
                  "reason is none of hard_bounce, complaint, unsubscribe, by_hand, mailbox_full");
        return false;
    }
    if (!api_param(c, "source", &source)) {
        source = slice_of(api_who(c));
    }
    if (!api_param_span(c, "for", 0, &span) ||
        !api_param_number(c, "line", 1, UINT64_MAX / 2, 1, &s->line)) {
        return false;
    }
    s->defaults.expires = span > 0 ? clock_wall() + span : 0;
    s->is_removal = s->is_removal || (api_param(c, "remove", &remove) && remove.len > 0);
    source = source.len > sizeof(s->source) ? slice_to(source, sizeof(s->source)) : source;
    memcpy(s->tenant, tenant.data, tenant.len);
    memcpy(s->source, source.data, source.len);
    s->defaults.tenant = slice_make(s->tenant, tenant.len);
    s->defaults.source = slice_make(s->source, source.len);
    return true;
}

/* Those who are bound to a tenant change its list alone. */
static bool is_allowed(const struct suppress_request *s, const struct suppress_entry *e)
{
    return s->owner.len == 0 || slice_ieq(e->entry.tenant, label_slice(&s->owner));
}

/* --- answers -------------------------------------------------------------------------------------- */

static void answer_single(struct suppress_request *s)
{
    struct spool_suppression e;
    const bool was_there = s->batch->changes[0].was_there;
    suppress_batch_get(s->batch, 0, &e);
    json_t *o = json_object();
    if (s->is_removal && !was_there) {
        json_decref(o);
        api_error(s->call, 404, "missing", "%.*s is not on the list %s%.*s", SLICE_ARG(e.address),
                  e.tenant.len == 0 ? "for all" : "of tenant ", SLICE_ARG(e.tenant));
        return;
    }
    api_set_text(o, "tenant", e.tenant);
    api_set_text(o, "address", e.address);
    if (s->is_removal) {
        (void)json_object_set_new(o, "removed", json_true()); /* out of memory leaves it out */
    } else {
        api_set_text(o, "reason", slice_of(spool_suppress_reason_text(e.reason)));
        (void)json_object_set_new(o, "is_new", json_boolean(!was_there));
    }
    api_object(s->call, 200, o);
}

static void answer_file(struct suppress_request *s)
{
    json_t *o = json_object();
    api_set_number(o, "accepted", s->accepted);
    api_set_number(o, "added", s->added);
    api_set_number(o, "replaced", s->replaced);
    api_set_number(o, "removed", s->removed);
    api_set_number(o, "missing", s->missing);
    api_set_number(o, "bad", s->bad);
    api_set_number(o, "next_line", s->line);
    (void)json_object_set(o, "wrong", s->wrong); /* out of memory leaves it out */
    api_object(s->call, 200, o);
}

static void answer_error(struct suppress_request *s, int err)
{
    api_retry_after(s->call, 10);
    api_error(s->call, 503, "unavailable", "%s; what is before line %llu is in force", err_str(err),
              (unsigned long long)(s->line - s->batch->count));
}

/* --- batches -------------------------------------------------------------------------------------- */

static void note_wrong(struct suppress_request *s, const char *why)
{
    s->bad++;
    if (json_array_size(s->wrong) < WRONG_SHOWN) {
        json_t *o = json_object();
        api_set_number(o, "line", s->line);
        api_set_text(o, "error", slice_of(why));
        (void)json_array_append_new(s->wrong, o); /* out of memory: it is counted */
    }
}

static bool next_line(struct suppress_request *s, struct slice *ret)
{
    struct slice rest = slice_from(buf_slice(&s->body), s->at);
    if (rest.len == 0) {
        return false;
    }
    size_t len = slice_find(rest, '\n');
    s->at += len < rest.len ? len + 1 : len;
    *ret = slice_to(rest, len);
    if (ret->len > 0 && ret->data[ret->len - 1] == '\r') {
        ret->len--;
    }
    return true;
}

static bool read_entry(struct suppress_request *s, struct slice line, struct suppress_entry *e,
                       const char **why)
{
    json_error_t error;
    *why = "the line is too long";
    if (line.len > LINE_BYTES) {
        return false;
    }
    if (s->is_csv) {
        return suppress_line_csv(&s->columns, line, &s->defaults, e, why);
    }
    json_t *o = json_loadb(line.data, line.len, JSON_REJECT_DUPLICATES, &error);
    *why = "no JSON object";
    bool is_right = o != NULL && suppress_line_json(o, &s->defaults, e, why);
    json_decref(o);
    return is_right;
}

/* Reads lines until the batch is full or the body ends. */
static int fill_batch(struct suppress_request *s)
{
    struct slice line;
    struct suppress_entry e;
    const char *why;
    int err = 0;
    suppress_batch_clear(s->batch);
    while (err == 0 && s->batch->count < SUPPRESS_BATCH_MAX && next_line(s, &line)) {
        if (slice_trim(line).len > 0) {
            if (!read_entry(s, line, &e, &why)) {
                note_wrong(s, why);
            } else if (!is_allowed(s, &e)) {
                note_wrong(s, "the tenant is another one's");
            } else {
                err = suppress_batch_add(s->batch, &e.entry, s->is_removal);
            }
        }
        s->line++;
    }
    return err;
}

static void count_batch(struct suppress_request *s)
{
    const struct suppress_batch *b = s->batch;
    s->accepted += b->count;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct suppress_change *c = &b->changes[i];
        s->added += !c->is_removal && !c->was_there;
        s->replaced += !c->is_removal && c->was_there;
        s->removed += c->is_removal && c->was_there;
        s->missing += c->is_removal && !c->was_there;
    }
}

/* Sends the next batch, or answers. returns false when the call is answered */
static bool go_on(struct suppress_request *s)
{
    int err = s->is_single ? 0 : fill_batch(s);
    if (err != 0) {
        s->batch->error = err;
        answer_error(s, err);
        return false;
    }
    if (s->batch->count == 0) {
        answer_file(s);
        return false;
    }
    letter_put_suppress(http_to_writer(s->http), s->batch);
    return true;
}

/* LETTER_SUPPRESSED came back. */
static void take_batch_back(struct suppress_batch *b)
{
    struct suppress_request *s = b->owner;
    bool is_away = false;
    if (b->error != 0) {
        answer_error(s, b->error);
    } else if (s->is_single) {
        answer_single(s);
    } else {
        count_batch(s);
        is_away = go_on(s);
    }
    if (!is_away) {
        http_answer(s->http, s->call);
        request_end(s);
    }
}

void suppress_request_open(struct http *h)
{
    http_set_suppressor(h, &(const struct http_suppressor){take_batch_back, drop_batch});
}

/* --- the routes ----------------------------------------------------------------------------------- */

/* NULL: the call is answered */
static struct suppress_request *request_new_for(struct clerk *k, struct api_call *c,
                                                bool is_removal)
{
    struct suppress_request *s = calloc(1, sizeof(*s));
    if (s != NULL) {
        s->http = k->engine->http;
        s->call = c;
        s->is_removal = is_removal;
        s->batch = suppress_batch_new(s);
        s->wrong = json_array();
        buf_init(&s->body, 0);
    }
    if (s == NULL || s->batch == NULL || s->wrong == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
    } else if (engine_gate(k->engine) & (ENGINE_GATE_STOPPING | ENGINE_GATE_BROKEN)) {
        api_retry_after(c, 10);
        api_error(c, 503, "unavailable", "the spool does not work at the moment");
    } else if (read_query(s, c)) {
        return s;
    }
    if (s != NULL) {
        request_end(s);
    }
    return NULL;
}

static void begin_request(struct suppress_request *s, struct api_call *c)
{
    if (go_on(s)) {
        api_keep(c);
    } else {
        request_end(s);
    }
}

static bool take_single(struct suppress_request *s, struct api_call *c,
                        const struct suppress_entry *e)
{
    s->is_single = s->batch->is_told = true;
    if (e->entry.tenant.len > 0 && !is_allowed(s, e)) {
        return api_may_name(c, e->entry.tenant);
    }
    if (suppress_batch_add(s->batch, &e->entry, s->is_removal) != 0) {
        api_error(c, 503, "unavailable", "out of memory");
        return false;
    }
    return true;
}

static bool take_file(struct suppress_request *s, struct api_call *c)
{
    struct slice name;
    s->is_csv = strcmp(api_content_type(c), "text/csv") == 0;
    buf_append_slice(&s->body, api_bytes(c));
    if (s->body.failed) {
        api_error(c, 503, "unavailable", "out of memory");
        return false;
    }
    suppress_columns_default(&s->columns);
    if (s->is_csv && next_line(s, &name)) {
        bool has_names = suppress_columns_read(&s->columns, name);
        s->at = has_names ? s->at : 0;
        /* The line of names is said again in front of each part of a long file. */
        s->line += has_names && s->line == 1;
    }
    return true;
}

void suppress_request_post(struct clerk *k, struct api_call *c)
{
    struct suppress_entry e;
    const char *why;
    struct suppress_request *s = request_new_for(k, c, false);
    if (s == NULL) {
        return;
    }
    bool is_right;
    if (strcmp(api_content_type(c), "application/json") == 0) {
        is_right = suppress_line_json(api_body(c), &s->defaults, &e, &why);
        if (!is_right) {
            api_error(c, 422, "wrong", "%s", why);
        }
        is_right = is_right && take_single(s, c, &e);
    } else {
        is_right = take_file(s, c);
    }
    if (is_right) {
        begin_request(s, c);
    } else {
        request_end(s);
    }
}

void suppress_request_delete(struct clerk *k, struct api_call *c)
{
    struct suppress_entry e = {.entry = {.source = SLICE("")}};
    struct suppress_request *s = request_new_for(k, c, true);
    if (s == NULL) {
        return;
    }
    size_t len = suppress_line_address(api_argument(c), e.text);
    e.entry.address = slice_make(e.text, len);
    e.entry.tenant = s->defaults.tenant;
    e.entry.source = s->defaults.source;
    if (len == 0) {
        api_error(c, 422, "wrong", "no address, nor a domain with @ in front");
        request_end(s);
    } else if (take_single(s, c, &e)) {
        begin_request(s, c);
    } else {
        request_end(s);
    }
}
