/* Reads requests for orders. Called by order_report.c. Must not know of clerks or books. */
#include "engine/report/order_request.h"

#include "base/error.h"
#include "base/span.h"
#include "engine/http/api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int refuse_request(char text[ORDER_REQUEST_TEXT_MAX], const char *what)
{
    (void)snprintf(text, ORDER_REQUEST_TEXT_MAX, "%s", what);
    return ERR_SYNTAX;
}

static bool is_known_member(const char *name, const char *const *known)
{
    for (; *known != NULL; known++) {
        if (strcmp(name, *known) == 0) {
            return true;
        }
    }
    return selector_word_find(slice_of(name)) != SELECTOR_COUNT;
}

/* errors: ERR_SYNTAX */
static int check_names(const json_t *body, const char *const *known,
                       char text[ORDER_REQUEST_TEXT_MAX])
{
    const char *name;
    json_t *value;
    /* The macro iterates over an object that it does not change. */
    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        if (!is_known_member(name, known)) {
            (void)snprintf(text, ORDER_REQUEST_TEXT_MAX, "%.60s: there is no such member", name);
            return ERR_SYNTAX;
        }
    }
    return 0;
}

static int take_flag(const json_t *body, const char *name, bool *ret,
                     char text[ORDER_REQUEST_TEXT_MAX])
{
    const json_t *value = json_object_get(body, name);
    if (value != NULL && !json_is_null(value) && !json_is_boolean(value)) {
        (void)snprintf(text, ORDER_REQUEST_TEXT_MAX, "%s: true or false", name);
        return ERR_SYNTAX;
    }
    *ret = json_is_true(value);
    return 0;
}

static int take_selector(const json_t *body, struct selector *ret,
                         char text[ORDER_REQUEST_TEXT_MAX])
{
    const char *word = "";
    int err = selector_from_json(ret, body, &word);
    if (err == ERR_LIMIT) {
        (void)snprintf(text, ORDER_REQUEST_TEXT_MAX, "%s: at most %d bytes", word,
                       SELECTOR_VALUE_MAX);
    } else if (err == ERR_SYNTAX) {
        (void)snprintf(
            text, ORDER_REQUEST_TEXT_MAX,
            "%s: a text, not empty and without control characters; * stands for anything", word);
    }
    return err;
}

/* Seconds, or "90s", "2h".  ret unchanged when it is not there */
static int take_span(const json_t *body, usec_t *ret, char text[ORDER_REQUEST_TEXT_MAX])
{
    const json_t *value = json_object_get(body, "for");
    usec_t span = 0;
    if (value == NULL || json_is_null(value)) {
        return 0;
    }
    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        json_integer_value(value) <= ORDER_FOR_MAX / USEC_PER_SEC) {
        span = json_integer_value(value) * USEC_PER_SEC;
    } else if (!json_is_string(value) || !span_parse(slice_of(json_string_value(value)), &span) ||
               span > ORDER_FOR_MAX) {
        return refuse_request(text, "for: a span such as 90s, 15m, 2h or 5d, at most 366 days");
    }
    *ret = span;
    return 0;
}

/* An order is for a time, or for what is queued now. */
static int take_end(const json_t *body, struct order *o, char text[ORDER_REQUEST_TEXT_MAX])
{
    usec_t span = o->kind == ORDER_SUSPEND ? ORDER_FOR_DEFAULT : -1;
    int err = take_span(body, &span, text);
    if (err != 0) {
        return err;
    }
    if (span < 0) {
        return refuse_request(
            text, "for: how long, such as 2h; 0 is for what is queued now and no longer");
    }
    if (span == 0 && o->kind == ORDER_SUSPEND) {
        return refuse_request(text, "for: longer than 0");
    }
    o->is_once = span == 0;
    o->until = o->created + (o->is_once ? ORDER_ONCE_SPAN : span);
    return 0;
}

static int take_reason(const json_t *body, struct order *o, char text[ORDER_REQUEST_TEXT_MAX])
{
    const json_t *reason = json_object_get(body, "reason");
    int err =
        !json_is_string(reason)
            ? ERR_SYNTAX
            : order_set_text(&o->reason,
                             slice_make(json_string_value(reason), json_string_length(reason)),
                             ORDER_REASON_MAX);
    if (err == ERR_SYNTAX || err == ERR_LIMIT) {
        (void)snprintf(text, ORDER_REQUEST_TEXT_MAX,
                       "reason: why, in one line of at most %d bytes; it cannot be left out",
                       ORDER_REASON_MAX);
    }
    return err;
}

static int take_kind(const json_t *body, struct order *o, char text[ORDER_REQUEST_TEXT_MAX])
{
    const char *kind = json_string_value(json_object_get(body, "order"));
    bool is_all;
    o->kind = kind == NULL ? ORDER_NONE : order_kind_find(slice_of(kind));
    if (o->kind == ORDER_NONE) {
        return refuse_request(text, "order: one of suspend, bounce, drop");
    }
    int err = take_flag(body, "all", &is_all, text);
    if (err == 0 && o->kind != ORDER_SUSPEND && selector_is_empty(&o->selector) && !is_all) {
        return refuse_request(text, "this would end all mail; say which: tenant, campaign, domain, "
                                    "destination, transport, source; or \"all\": true");
    }
    return err;
}

int order_request_read(const json_t *body, const char *by, usec_t now_wall,
                       struct order_request *ret, char text[static ORDER_REQUEST_TEXT_MAX])
{
    static const char *const known[] = {"order", "for", "reason", "all", "dry_run", "here", NULL};
    struct order *o = &ret->order;
    *ret = (struct order_request){.order.created = now_wall};
    (void)snprintf(text, ORDER_REQUEST_TEXT_MAX, "out of memory");
    if (body == NULL) {
        return refuse_request(text, "a JSON object is wanted: {\"order\": .., \"reason\": .., ..}");
    }
    int err = check_names(body, known, text);
    if (err == 0) {
        err = take_selector(body, &o->selector, text);
    }
    if (err == 0) {
        err = take_kind(body, o, text);
    }
    if (err == 0) {
        err = take_end(body, o, text);
    }
    if (err == 0) {
        err = take_flag(body, "dry_run", &ret->is_dry_run, text);
    }
    if (err == 0) {
        err = take_flag(body, "here", &ret->is_here, text);
    }
    if (err == 0) {
        err = take_reason(body, o, text);
    }
    return err != 0 ? err : order_set_text(&o->by, slice_of(by), ORDER_BY_MAX);
}

int order_request_read_flush(const json_t *body, struct selector *ret, bool *ret_is_dry_run,
                             char text[static ORDER_REQUEST_TEXT_MAX])
{
    static const char *const known[] = {"dry_run", NULL};
    selector_init(ret);
    *ret_is_dry_run = false;
    if (body == NULL) {
        return 0;
    }
    (void)snprintf(text, ORDER_REQUEST_TEXT_MAX, "out of memory");
    int err = check_names(body, known, text);
    if (err == 0) {
        err = take_selector(body, ret, text);
    }
    return err != 0 ? err : take_flag(body, "dry_run", ret_is_dry_run, text);
}

void order_describe(const struct order *o, char *text, size_t size)
{
    int len = snprintf(text, size, "%s", order_kind_text(o->kind));
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        if (o->selector.value[word] != NULL && len >= 0 && (size_t)len < size) {
            int more = snprintf(text + len, size - (size_t)len, " %s=%s", selector_word_text(word),
                                o->selector.value[word]);
            len = more < 0 ? more : len + more;
        }
    }
    if (o->site != NULL && len >= 0 && (size_t)len < size) {
        (void)snprintf(text + len, size - (size_t)len, " site=%s", o->site);
    } else if (selector_is_empty(&o->selector) && len >= 0 && (size_t)len < size) {
        (void)snprintf(text + len, size - (size_t)len, " all mail");
    }
}
