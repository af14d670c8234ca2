/* Owns a call: its parameters, its body, its answer. Called by the handlers and by whoever carries
 * calls, each while it has the call. Must not know where requests come from. */
#include "engine/http/api.h"

#include "base/span.h"
#include "engine/http/api_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define JSON_DUMP  (JSON_COMPACT | JSON_REAL_PRECISION(16)) /* microseconds of this century */
#define TYPE_JSON  "application/json"
#define TYPE_LINES "application/x-ndjson"

enum { LONG_BYTES = 16 * 1024 * 1024, ERROR_TEXT = 512 };

void api_call_free(struct api_call *c)
{
    if (c != NULL) {
        list_remove(&c->link);
        json_decref(c->body);
        json_decref(c->kept);
        buf_fini(&c->in);
        buf_fini(&c->out);
        free(c->target);
        free(c);
    }
}

/* --- rights ----------------------------------------------------------------------------------- */

unsigned api_route_right(const struct api_route *r)
{
    if (r->is_open) {
        return 0;
    }
    if (r->injects) {
        return TOKEN_INJECT;
    }
    return strcmp(r->method, "GET") == 0 ? TOKEN_LOOK : TOKEN_CHANGE;
}

const char *api_right_text(unsigned right)
{
    switch (right) {
    case TOKEN_LOOK:
        return "look";
    case TOKEN_INJECT:
        return "inject";
    case TOKEN_CHANGE:
        return "change";
    default:
        return "none";
    }
}

/* --- the request ------------------------------------------------------------------------------ */

struct slice api_argument(const struct api_call *c)
{
    return c->argument;
}

bool api_param(const struct api_call *c, const char *name, struct slice *ret)
{
    for (size_t i = 0; i < c->pair_count; i++) {
        if (strcmp(c->pairs[i].name, name) == 0) {
            *ret = c->pairs[i].value;
            return true;
        }
    }
    return false;
}

bool api_is_deserted(const struct api_call *c)
{
    char next;
    ssize_t got = c->peer < 0 ? 1 : recv(c->peer, &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

static bool parse_param_number(struct slice s, uint64_t *ret)
{
    uint64_t n = 0;
    if (s.len == 0 || s.len > 19) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return false;
        }
        n = n * 10 + (uint64_t)(s.data[i] - '0');
    }
    *ret = n;
    return true;
}

bool api_param_number(struct api_call *c, const char *name, uint64_t min, uint64_t max,
                      uint64_t initial, uint64_t *ret)
{
    struct slice text;
    uint64_t n = initial;
    if (api_param(c, name, &text) && (!parse_param_number(text, &n) || n < min || n > max)) {
        api_error(c, 400, "usage", "%s: not a number from %llu to %llu", name,
                  (unsigned long long)min, (unsigned long long)max);
        return false;
    }
    *ret = n;
    return true;
}

bool api_param_limit(struct api_call *c, uint64_t *ret)
{
    return api_param_number(c, "limit", 1, API_LIST_MAX, API_LIST_DEFAULT, ret);
}

bool api_param_span(struct api_call *c, const char *name, usec_t initial, usec_t *ret)
{
    struct slice text;
    usec_t span = initial;
    if (api_param(c, name, &text) && !span_parse(text, &span)) {
        api_error(c, 400, "usage", "%s: not a span such as 90s, 15m, 2h or 5d", name);
        return false;
    }
    *ret = span;
    return true;
}

const json_t *api_body(const struct api_call *c)
{
    return c->body;
}

struct slice api_bytes(const struct api_call *c)
{
    return c->in.len == 0 ? SLICE("") : buf_slice(&c->in);
}

const char *api_content_type(const struct api_call *c)
{
    return c->type;
}

const char *api_who(const struct api_call *c)
{
    return c->who;
}

struct slice api_tenant(const struct api_call *c)
{
    return label_slice(&c->tenant);
}

const char *api_address(const struct api_call *c)
{
    return c->address;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void append_object(struct api_call *c, json_t *object)
{
    char *text = object == NULL ? NULL : json_dumps(object, JSON_DUMP);
    json_decref(object);
    if (text == NULL) {
        c->out.failed = true;
        return;
    }
    buf_append_str(&c->out, text);
    buf_append_char(&c->out, '\n');
    free(text);
}

static void finish_answer(struct api_call *c, int status, const char *content_type)
{
    if (c->out.failed) {
        buf_clear(&c->out);
        status = 503;
        content_type = TYPE_JSON;
        buf_append_str(&c->out, "{\"error\":\"out of memory, or the answer is too large\","
                                "\"code\":\"unavailable\"}\n");
    }
    c->status = status;
    c->content_type = content_type;
}

void api_put(struct api_call *c, json_t *object)
{
    append_object(c, object);
    c->count++;
}

void api_put_text(struct api_call *c, struct slice object)
{
    buf_append_slice(&c->out, object);
    buf_append_char(&c->out, '\n');
    c->count++;
}

void api_end(struct api_call *c, bool has_more)
{
    api_end_with(c, has_more, NULL);
}

void api_end_with(struct api_call *c, bool has_more, json_t *members)
{
    json_t *o = json_pack("{s:b, s:I, s:b}", "end", 1, "count", (json_int_t)c->count, "more",
                          (int)has_more);
    if (o != NULL && members != NULL) {
        (void)json_object_update(o, members); /* out of memory leaves them out */
    }
    json_decref(members);
    append_object(c, o);
    finish_answer(c, 200, TYPE_LINES);
}

void api_object(struct api_call *c, int status, json_t *object)
{
    buf_clear(&c->out);
    append_object(c, object);
    finish_answer(c, status, TYPE_JSON);
}

void api_error(struct api_call *c, int status, const char *code, const char *fmt, ...)
{
    char text[ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct slice shown = slice_of_printed(text, sizeof(text), len);
    for (size_t i = 0; i < shown.len; i++) { /* it may quote a request; it goes to terminals */
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            text[i] = '?';
        }
    }
    json_t *said = api_text(shown);
    api_object(c, status, json_pack("{s:o, s:s}", "error", said, "code", code));
}

void api_deny(struct api_call *c, enum denial kind, const char *fmt, ...)
{
    char text[ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args); /* cut where it is too long */
    va_end(args);
    bool is_unknown = kind == DENIAL_TOKEN;
    c->denial = kind;
    api_error(c, is_unknown ? 401 : 403, is_unknown ? "token" : "forbidden", "%s", text);
}

bool api_may_name(struct api_call *c, struct slice tenant)
{
    struct slice own = label_slice(&c->tenant);
    bool may = own.len == 0 || slice_eq(own, tenant);
    if (!may) {
        api_deny(c, DENIAL_TENANT,
                 "tenant: the token is bound to " SLICE_FMT ", and may name no other",
                 SLICE_ARG(own));
    }
    return may;
}

void api_raw(struct api_call *c, int status, const char *content_type, struct slice bytes)
{
    buf_clear(&c->out);
    buf_append_slice(&c->out, bytes);
    finish_answer(c, status, content_type);
}

void api_retry_after(struct api_call *c, unsigned seconds)
{
    c->retry_after = seconds;
}

bool api_is_answered(const struct api_call *c)
{
    return c->status != 0;
}

uint64_t api_count(const struct api_call *c)
{
    return c->count;
}

bool api_is_long(const struct api_call *c)
{
    return c->out.failed || c->out.len > LONG_BYTES;
}

void api_keep(struct api_call *c)
{
    c->is_kept = true;
}

/* --- members of objects ----------------------------------------------------------------------- */

json_t *api_text(struct slice s)
{
    if (s.len == 0) {
        return json_string("");
    }
    json_t *j = json_stringn(s.data, s.len);
    if (j != NULL) {
        return j;
    }
    char *copy = malloc(s.len + 1);
    if (copy == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < s.len; i++) {
        char byte = s.data[i];
        copy[i] = '?';
        if ((unsigned char)byte < 128) {
            copy[i] = byte;
        }
    }
    j = json_stringn(copy, s.len);
    free(copy);
    return j;
}

json_t *api_time(usec_t t)
{
    return json_real((double)t / (double)USEC_PER_SEC);
}

void api_set_text(json_t *o, const char *key, struct slice s)
{
    (void)json_object_set_new(o, key, api_text(s)); /* out of memory leaves it out */
}

void api_set_number(json_t *o, const char *key, uint64_t n)
{
    (void)json_object_set_new(o, key, json_integer((json_int_t)n)); /* likewise */
}

void api_set_time(json_t *o, const char *key, usec_t t)
{
    (void)json_object_set_new(o, key, api_time(t)); /* likewise */
}
