/* Owns the outer shape of POST /v1/inject: one message, a batch with defaults, or finished text
 * with its envelope in the query. Called by inject.c. Values are compose.c's to judge. */
#include "engine/http/inject_request.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- the query -------------------------------------------------------------------------------- */

/* errors: -ENOMEM, ERR_SYNTAX (the value is no UTF-8) */
static int set_text(json_t *o, const char *key, struct slice value)
{
    json_t *text = json_stringn(value.data, value.len);
    if (text == NULL) {
        return ERR_SYNTAX;
    }
    return json_object_set_new(o, key, text) == 0 ? 0 : -ENOMEM;
}

/* Members that may be said of all messages of a request. errors: of set_text */
static int take_overrides(const struct api_call *c, json_t *overrides)
{
    static const char *const keys[] = {"tenant",  "campaign",   "class", "not_before",
                                       "expires", "expires_in", "dkim"};
    struct slice flag;
    int err = 0;
    if (api_param(c, "require_tls", &flag)) {
        bool is_yes = slice_eq(flag, SLICE("yes")), is_no = slice_eq(flag, SLICE("no"));
        if (!is_yes && !is_no) {
            err = set_text(overrides, "require_tls", flag); /* compose.c says what is wrong */
        } else if (json_object_set_new(overrides, "require_tls", json_boolean(is_yes)) != 0) {
            err = -ENOMEM;
        }
    }
    for (size_t i = 0; err == 0 && i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct slice value;
        if (api_param(c, keys[i], &value)) {
            err = set_text(overrides, keys[i], value);
        }
    }
    return err;
}

/* Up to a comma that is not inside quotes. */
static struct slice next_address(struct slice *list)
{
    bool is_quoted = false;
    size_t at = 0;
    for (; at < list->len && (is_quoted || list->data[at] != ','); at++) {
        if (list->data[at] == '"') {
            is_quoted = !is_quoted;
        } else if (list->data[at] == '\\' && at + 1 < list->len) {
            at++;
        }
    }
    struct slice address = slice_trim(slice_to(*list, at));
    *list = slice_from(*list, at < list->len ? at + 1 : at);
    return address;
}

/* The envelope of finished text. errors: of set_text */
static int take_envelope(const struct api_call *c, json_t *envelope)
{
    struct slice from, to = SLICE("");
    json_t *recipients = json_array();
    int err = recipients == NULL ? -ENOMEM : 0;
    if (err == 0 && api_param(c, "from", &from)) {
        err = set_text(envelope, "from", from);
    }
    (void)api_param(c, "to", &to); /* without: compose.c says what is missing */
    while (err == 0 && to.len > 0) {
        struct slice address = next_address(&to);
        json_t *text = json_stringn(address.data, address.len);
        if (text == NULL) {
            err = ERR_SYNTAX;
        } else if (json_array_append_new(recipients, text) != 0) {
            err = -ENOMEM;
        }
    }
    if (err == 0) {
        return json_object_set_new(envelope, "recipients", recipients) == 0 ? 0 : -ENOMEM;
    }
    json_decref(recipients);
    return err;
}

/* --- the body --------------------------------------------------------------------------------- */

static bool take_list(struct inject_request *r, struct api_call *c, const json_t *body, size_t most)
{
    static const char *const known[] = {"messages", "defaults"};
    const char *key;
    json_t *ignored;
    struct compose_mistakes wrong = {.count = 0};
    r->list = json_object_get(body, "messages");
    r->defaults = json_object_get(body, "defaults");
    r->defaults = json_is_null(r->defaults) ? NULL : r->defaults;
    r->count = json_array_size(r->list);
    if (r->count == 0 || r->count > most) {
        compose_mistake(&wrong,
                        r->count == 0 ? "is no array of at least one message"
                                      : "has more messages than one request may have (1000)",
                        "messages");
    }
    if (r->defaults != NULL && !json_is_object(r->defaults)) {
        compose_mistake(&wrong, "is no object", "defaults");
    }
    json_object_foreach((json_t *)(uintptr_t)body, key, ignored)
    {
        if (strcmp(key, known[0]) != 0 && strcmp(key, known[1]) != 0) {
            compose_mistake(&wrong, "stands beside \"messages\"; \"defaults\" is for all of them",
                            "%.48s", key);
        }
    }
    if (wrong.count > 0) {
        inject_request_refuse(c, &wrong);
    }
    return wrong.count == 0;
}

static bool take_json(struct inject_request *r, struct api_call *c, size_t most)
{
    struct slice ignored;
    const json_t *body = api_body(c);
    if (api_param(c, "from", &ignored) || api_param(c, "to", &ignored)) {
        api_error(c, 400, "usage", "from and to belong to a body of type message/rfc822");
        return false;
    }
    if (body == NULL) {
        api_error(c, 400, "usage", "the body is empty; it must be a JSON object");
        return false;
    }
    if (json_object_get(body, "messages") != NULL) {
        return take_list(r, c, body, most);
    }
    r->single = body;
    return true;
}

bool inject_request_init(struct inject_request *r, struct api_call *c, size_t messages_max)
{
    const char *who = api_who(c);
    bool is_text = strcmp(api_content_type(c), "message/rfc822") == 0;
    *r = (struct inject_request){.count = 1, .tenant = SLICE("")};
    r->overrides = json_object();
    int err = r->overrides == NULL ? -ENOMEM : take_overrides(c, r->overrides);
    if (err == 0 && is_text) {
        r->raw = api_bytes(c);
        r->single = r->overrides;
        err = take_envelope(c, r->overrides);
    }
    if (err != 0) {
        api_error(c, err == ERR_SYNTAX ? 400 : 503, err == ERR_SYNTAX ? "usage" : "unavailable",
                  err == ERR_SYNTAX ? "a query parameter is no UTF-8" : "out of memory");
    }
    if (api_tenant(c).len > 0) {
        r->tenant = api_tenant(c);
    } else if (strcmp(who, "local") != 0 && strcmp(who, "loopback") != 0) {
        r->tenant = slice_of(who);
    }
    bool is_right = err == 0 && (is_text || take_json(r, c, messages_max));
    if (!is_right) {
        inject_request_fini(r);
    }
    return is_right;
}

void inject_request_fini(struct inject_request *r)
{
    json_decref(r->overrides);
    r->overrides = NULL;
}

/* A new reference to the message with everything that is said of it elsewhere; NULL: no memory. */
static json_t *whole_message(const struct inject_request *r, const json_t *message)
{
    json_t *merged = r->defaults != NULL && json_is_object(message)
                         ? compose_merge(r->defaults, message)
                         : json_incref((json_t *)(uintptr_t)message);
    if (merged == NULL || json_object_size(r->overrides) == 0 || !json_is_object(merged) ||
        message == r->overrides) {
        return merged;
    }
    json_t *whole = compose_merge(merged, r->overrides);
    json_decref(merged);
    return whole;
}

int inject_request_compose(const struct inject_request *r, size_t index,
                           const struct compose_options *options, uint64_t id,
                           struct compose_mistakes *mistakes, struct composition *ret)
{
    char prefix[sizeof("messages[].") + 20] = "";
    const json_t *message = r->single;
    if (r->list != NULL) {
        message = json_array_get(r->list, index);
        (void)snprintf(prefix, sizeof(prefix), "messages[%zu].", index); /* it fits */
    }
    json_t *whole = whole_message(r, message);
    if (whole == NULL) {
        return -ENOMEM;
    }
    const struct compose_input input = {whole, r->raw, prefix, id};
    int err = compose_message(options, &input, mistakes, ret);
    json_decref(whole);
    if (err == 0 && ret->tenant.len == 0) {
        label_set(&ret->tenant, r->tenant);
    }
    return err;
}

/* --- answers ---------------------------------------------------------------------------------- */

void inject_request_refuse(struct api_call *c, const struct compose_mistakes *mistakes)
{
    char text[2 * COMPOSE_WHERE_BYTES + 12];
    json_t *list = json_array();
    uint32_t kept = mistakes->count < COMPOSE_MISTAKES_MAX ? mistakes->count : COMPOSE_MISTAKES_MAX;
    for (uint32_t i = 0; i < kept; i++) {
        const struct compose_mistake *m = &mistakes->list[i];
        (void)json_array_append_new(/* out of memory leaves it out */
                                    list,
                                    json_pack("{s:s, s:s}", "where", m->where, "error", m->what));
    }
    const struct compose_mistake *first = &mistakes->list[0];
    (void)snprintf(text, sizeof(text), "%s%s%s", first->where, /* it fits */
                   first->where[0] != '\0' ? ": " : "the message ", first->what);
    api_object(c, 422,
               json_pack("{s:s, s:s, s:s, s:o, s:I}", "error", text, "code", "wrong", "where",
                         first->where, "mistakes", list, "mistake_count",
                         (json_int_t)mistakes->count));
}

void inject_request_accept(struct api_call *c, json_t *ids, json_t *results)
{
    json_t *o = json_pack("{s:I, s:o}", "accepted", (json_int_t)json_array_size(ids), "ids", ids);
    if (results == NULL) {
        api_object(c, 202, o);
        return;
    }
    if (o == NULL || json_object_set_new(o, "results", results) != 0) {
        json_decref(o);
        o = NULL; /* the answer says so */
    }
    api_object(c, 207, o);
}

const char *inject_request_error(int error)
{
    if (error == -ENOSPC || error == -EDQUOT) {
        return "insufficient system storage";
    }
    if (error == ERR_QUOTA) {
        return "its tenant has as many messages queued as it may";
    }
    return error == -ENOMEM ? "out of memory" : "the spool could not store it";
}
