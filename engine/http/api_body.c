/* The body of a call: how much of it is read, and the JSON object that it is. Called by the http
 * thread, which serves nobody else meanwhile, so that what a body unfolds to is bounded here. Pure;
 * the call is answered when something is wrong. */
#include "engine/http/api_private.h"
#include "engine/http/json_tree.h"

#include <string.h>

/* Bounds on the JSON tree of a body: a value of two bytes in the body takes up to three hundred in
 * the tree. An injection with as many recipients as allowed is far below these bounds. */
enum {
    VALUES_MAX = 1000000,
    CONTAINERS_MAX = 250000,      /* objects and arrays */
    SMALL_BODY_BYTES = 64 * 1024, /* of requests that bring no mail */
};

uint64_t api_call_body_max(const struct api_call *c, uint64_t most)
{
    bool is_small = c->route == NULL || !(c->route->takes_message || c->route->takes_lines);
    return is_small && most > SMALL_BODY_BYTES ? SMALL_BODY_BYTES : most;
}

/* The place behind the end of the string whose opening quote is before `at`, or the text's end. */
static size_t skip_string(struct slice text, size_t at)
{
    const size_t begin = at;
    for (const char *quote; at < text.len; at = (size_t)(quote - text.data) + 1) {
        quote = memchr(text.data + at, '"', text.len - at);
        if (quote == NULL) {
            break;
        }
        const char *before = quote; /* the first of the backslashes in front of it */
        while (before > text.data + begin && before[-1] == '\\') {
            before--;
        }
        if ((quote - before) % 2 == 0) {
            return (size_t)(quote - text.data) + 1;
        }
    }
    return text.len;
}

/* Whether the JSON tree of the text stays within the bounds above. The text need not be JSON: the
 * parser finds that out. */
static bool is_moderate(struct slice text)
{
    size_t values = 0, containers = 0;
    for (size_t at = 0; at < text.len;) {
        char c = text.data[at++];
        if (c == '"') {
            at = skip_string(text, at);
        } else if (c == ',') {
            values++;
        } else if (c == '{' || c == '[') {
            containers++;
        }
    }
    return values <= VALUES_MAX && containers <= CONTAINERS_MAX;
}

void api_call_take_body(struct api_call *c)
{
    json_error_t error;
    if (strcmp(c->route->method, "POST") != 0 || c->in.len == 0 ||
        (c->route->takes_message && strcmp(c->type, "message/rfc822") == 0) ||
        (c->route->takes_lines && strcmp(c->type, "application/json") != 0)) {
        return;
    }
    if (!is_moderate(buf_slice(&c->in))) {
        api_error(c, 413, "large", "the body has more than %d values, or %d objects and arrays",
                  VALUES_MAX, CONTAINERS_MAX);
        return;
    }
    c->body = json_tree_read(buf_slice(&c->in));
    if (c->body == NULL) {
        c->body = json_loadb(c->in.data, c->in.len, JSON_REJECT_DUPLICATES, &error);
    }
    if (c->body == NULL) {
        api_error(c, 400, "usage", "the body is no JSON: %s (line %d, column %d)", error.text,
                  error.line, error.column);
    } else if (!json_is_object(c->body)) {
        api_error(c, 400, "usage", "the body is no JSON object");
    }
}

void api_call_forget_body(struct api_call *c)
{
    json_decref(c->body);
    c->body = NULL;
    buf_fini(&c->in);
}
