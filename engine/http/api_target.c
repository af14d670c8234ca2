/* The request line of a call: its path and parameters, decoded, and the route they lead to. Called
 * by the http thread when a request begins. Pure; the call is answered when something is wrong. */
#include "engine/http/api_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place, with a NUL behind it; false: a bad escape, or a control character. */
static bool decode_percent(char *text, bool is_query, struct slice *ret)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        char c = *from;
        if (c == '%') {
            int high = hex_value(from[1]);
            int low = high < 0 ? -1 : hex_value(from[2]);
            if (low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            from += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f) {
            return false;
        }
        *to++ = c;
    }
    *to = '\0';
    *ret = slice_make(text, (size_t)(to - text));
    return true;
}

static void parse_query(struct api_call *c, char *query)
{
    for (char *rest = query, *pair; (pair = strsep(&rest, "&")) != NULL;) {
        struct slice name, value = SLICE("");
        char *equals = strchr(pair, '=');
        if (pair[0] == '\0') {
            continue;
        }
        if (equals != NULL) {
            *equals = '\0';
        }
        if (!decode_percent(pair, true, &name) ||
            (equals != NULL && !decode_percent(equals + 1, true, &value))) {
            api_error(c, 400, "usage", "a query parameter has a bad escape or control characters");
            return;
        }
        struct slice seen;
        if (api_param(c, pair, &seen)) {
            api_error(c, 400, "usage", "%.64s: given twice", pair);
            return;
        }
        if (c->pair_count == API_PARAMS_MAX) {
            api_error(c, 400, "usage", "too many query parameters");
            return;
        }
        c->pairs[c->pair_count++] = (struct api_pair){.name = pair, .value = value};
    }
}

struct api_call *api_call_new(const char *target)
{
    struct api_call *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    list_init(&c->link);
    c->peer = -1;
    buf_init(&c->in, 0);
    buf_init(&c->out, API_ANSWER_MAX_BYTES);
    c->path = c->argument = SLICE("");
    c->target = strdup(target);
    if (c->target == NULL) {
        api_call_free(c);
        return NULL;
    }
    char *rest = c->target;
    char *path = strsep(&rest, "?");
    if (!decode_percent(path, false, &c->path)) {
        api_error(c, 400, "usage", "the path has a bad escape or control characters");
    } else if (rest != NULL) {
        parse_query(c, rest);
    }
    return c;
}

/* --- other nodes ------------------------------------------------------------------------------ */

static bool is_about_nodes(const struct api_pair *p)
{
    return strcmp(p->name, "node") == 0 || strcmp(p->name, "nodes") == 0;
}

bool api_is_for_nodes(const struct api_call *c)
{
    bool is_found = false;
    for (size_t i = 0; i < c->pair_count; i++) {
        is_found = is_found || is_about_nodes(&c->pairs[i]);
    }
    return is_found && api_reach_of(c) != API_HERE;
}

enum api_reach api_reach_of(const struct api_call *c)
{
    return c->route == NULL ? API_HERE : c->route->reach;
}

static void append_percent(struct buf *b, struct slice text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '\0' && strchr(plain, text.data[i]) != NULL) {
            buf_append_char(b, text.data[i]);
        } else {
            buf_printf(b, "%%%02X", (unsigned char)text.data[i]);
        }
    }
}

void api_put_target(const struct api_call *c, struct buf *ret)
{
    char gap = '?';
    append_percent(ret, c->path);
    for (size_t i = 0; i < c->pair_count; i++) {
        if (!is_about_nodes(&c->pairs[i])) {
            buf_append_char(ret, gap);
            append_percent(ret, slice_of(c->pairs[i].name));
            buf_append_char(ret, '=');
            append_percent(ret, c->pairs[i].value);
            gap = '&';
        }
    }
}

/* --- routes ----------------------------------------------------------------------------------- */

static bool path_fits(const char *pattern, struct slice path, struct slice *ret_argument)
{
    struct slice want = slice_of(pattern);
    size_t fixed = slice_find(want, ':');
    *ret_argument = SLICE("");
    if (fixed == want.len) {
        return slice_eq(want, path);
    }
    if (path.len <= fixed || !slice_eq(slice_to(want, fixed), slice_to(path, fixed))) {
        return false;
    }
    *ret_argument = slice_from(path, fixed);
    return memchr(ret_argument->data, '/', ret_argument->len) == NULL;
}

/* The methods of a path as the Allow header writes them. */
static const char *const allow_texts[8] = {
    "OPTIONS",
    "OPTIONS, GET, HEAD",
    "OPTIONS, POST",
    "OPTIONS, GET, HEAD, POST",
    "OPTIONS, DELETE",
    "OPTIONS, GET, HEAD, DELETE",
    "OPTIONS, POST, DELETE",
    "OPTIONS, GET, HEAD, POST, DELETE",
};

static unsigned method_bit(const char *method)
{
    if (strcmp(method, "GET") == 0) {
        return 1;
    }
    return strcmp(method, "POST") == 0 ? 2 : 4;
}

static void check_params(struct api_call *c)
{
    for (size_t i = 0; i < c->pair_count; i++) {
        const char *const *known = c->route->params;
        while (known != NULL && *known != NULL && strcmp(*known, c->pairs[i].name) != 0) {
            known++;
        }
        if (known == NULL || *known == NULL) {
            api_error(c, 400, "usage", "%.64s: no such query parameter of %s", c->pairs[i].name,
                      c->route->path);
            return;
        }
    }
}

void api_call_route(struct api_call *c, const char *method, const struct api_route *routes,
                    size_t count)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    unsigned methods = 0;
    for (size_t i = 0; i < count && c->route == NULL; i++) {
        struct slice argument;
        if (path_fits(routes[i].path, c->path, &argument)) {
            methods |= method_bit(routes[i].method);
            if (strcmp(routes[i].method, wanted) == 0) {
                c->route = &routes[i];
                c->argument = argument;
            }
        }
    }
    if (c->route != NULL) {
        check_params(c);
    } else if (methods == 0 && !(strcmp(method, "OPTIONS") == 0 && slice_eq(c->path, SLICE("*")))) {
        api_error(c, 404, "missing", "there is no such path; GET /v1 lists all");
    } else if (strcmp(method, "OPTIONS") == 0) {
        c->allow = allow_texts[methods == 0 ? 7 : methods];
        api_raw(c, 204, NULL, SLICE(""));
    } else {
        c->allow = allow_texts[methods];
        api_error(c, 405, "method", "this path takes %s", c->allow);
    }
}
