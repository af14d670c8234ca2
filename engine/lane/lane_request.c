/* Reads requests for orders on lanes. Called by lane_order.c. Must not know of clerks or limits. */
#include "engine/lane/lane_request.h"

#include "base/error.h"
#include "base/span.h"
#include "sched/limit/pace.h"
#include "sched/limit/rate_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SPAN_MOST (INT64_C(366) * 86400 * USEC_PER_SEC)

static int refuse_request(char *text, const char *fmt, ...) PRINTF_LIKE(2, 3);
static int refuse_request(char *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, LANE_REQUEST_TEXT_MAX, fmt, args);
    va_end(args);
    return ERR_SYNTAX;
}

static int check_names(const json_t *body, char *text)
{
    static const char *const known[] = {"order", "site", "source", "for", "rate", "reason"};
    const char *name;
    json_t *value;
    /* The macro iterates over an object that it does not change. */
    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
            is_known = is_known || strcmp(name, known[i]) == 0;
        }
        if (!is_known) {
            return refuse_request(text, "%.60s: there is no such member", name);
        }
    }
    return 0;
}

/* One line without control bytes. ret_is_there false: it is missing or null, and *ret unchanged */
static int take_text(const json_t *body, const char *name, size_t most, struct slice *ret,
                     bool *ret_is_there, char *text)
{
    const json_t *value = json_object_get(body, name);
    *ret_is_there = value != NULL && !json_is_null(value);
    if (!*ret_is_there) {
        return 0;
    }
    if (!json_is_string(value) || json_string_length(value) > most) {
        return refuse_request(text, "%s: a text of at most %zu bytes", name, most);
    }
    *ret = slice_make(json_string_value(value), json_string_length(value));
    for (size_t i = 0; i < ret->len; i++) {
        if ((unsigned char)ret->data[i] < ' ' || ret->data[i] == 0x7f) {
            return refuse_request(text, "%s: one line, without control characters", name);
        }
    }
    return 0;
}

static int take_names(const json_t *body, struct lane_request *ret, char *text)
{
    enum { SITE_MOST = 800 };
    bool has_site, has_reason;
    int err = take_text(body, "site", SITE_MOST, &ret->site, &has_site, text);
    if (err == 0) {
        err = take_text(body, "source", LIMITS_NAME_MAX, &ret->source, &ret->has_source, text);
    }
    bool may_lack_site = ret->kind == LIMIT_ORDER_OPEN && ret->has_source && !has_site;
    if (err == 0 && ret->site.len == 0 && !may_lack_site) {
        return refuse_request(text,
                              "site: as `sluice sites` names it, a provider or a destination");
    }
    if (err == 0) {
        err = take_text(body, "reason", LANE_REQUEST_REASON_MAX, &ret->reason, &has_reason, text);
    }
    return err;
}

/* Seconds, or "90s", "2h". */
static int take_span(const json_t *body, struct lane_request *ret, char *text)
{
    const json_t *value = json_object_get(body, "for");
    usec_t span = LANE_CLOSED_DEFAULT;
    if (value != NULL && !json_is_null(value) && ret->kind != LIMIT_ORDER_CLOSE) {
        return refuse_request(text, "for: only close has an end");
    }
    if (json_is_integer(value)) {
        json_int_t seconds = json_integer_value(value);
        span = seconds > 0 && seconds <= SPAN_MOST / USEC_PER_SEC ? seconds * USEC_PER_SEC : 0;
    } else if (json_is_string(value)) {
        span = span_parse(slice_of(json_string_value(value)), &span) ? span : 0;
    } else if (value != NULL && !json_is_null(value)) {
        span = 0;
    }
    if (span <= 0 || span > SPAN_MOST) {
        return refuse_request(text,
                              "for: a span such as 90s, 15m, 2h or 5d, longer than 0, at most 366 "
                              "days");
    }
    ret->span = span;
    return 0;
}

static int take_rate(const json_t *body, struct lane_request *ret, char *text)
{
    const json_t *value = json_object_get(body, "rate");
    char why[RATE_WHY_BYTES];
    struct rate_rule rule;
    if (ret->kind != LIMIT_ORDER_PACE) {
        return value == NULL || json_is_null(value)
                   ? 0
                   : refuse_request(text, "rate: only pace takes one");
    }
    if (!json_is_string(value)) {
        return refuse_request(text, "rate: messages in a time such as 20/s, 300/min or 1000/h; or "
                                    "none");
    }
    if (rate_parse(slice_of(json_string_value(value)), &rule, why) != 0) {
        return refuse_request(text, "rate: %s", why);
    }
    if (rule.count == 0) {
        ret->kind = LIMIT_ORDER_UNPACE;
        return 0;
    }
    ret->rate = (double)rule.count * (double)USEC_PER_SEC / (double)rule.span;
    if (rule.burst != 0) {
        return refuse_request(text, "rate: a pace has no burst; say the rate alone, such as 20/s");
    }
    if (ret->rate < PACE_LEAST || ret->rate > PACE_MOST) {
        return refuse_request(text, "rate: at least 1/h, at most 1000000/s");
    }
    return 0;
}

static int take_kind(const json_t *body, struct lane_request *ret, char *text)
{
    const char *word = json_string_value(json_object_get(body, "order"));
    for (enum limit_order_kind kind = LIMIT_ORDER_OPEN; kind <= LIMIT_ORDER_PACE; kind++) {
        if (word != NULL && strcmp(word, lane_request_word(kind)) == 0) {
            ret->kind = kind;
            return 0;
        }
    }
    return refuse_request(text, "order: one of open, close, pace");
}

int lane_request_read(const json_t *body, struct lane_request *ret,
                      char text[static LANE_REQUEST_TEXT_MAX])
{
    *ret = (struct lane_request){.site = SLICE(""), .source = SLICE(""), .reason = SLICE("")};
    if (body == NULL) {
        return refuse_request(text,
                              "a JSON object is wanted: {\"order\": .., \"site\": .., \"source\": "
                              "..}");
    }
    int err = check_names(body, text);
    err = err != 0 ? err : take_kind(body, ret, text);
    err = err != 0 ? err : take_names(body, ret, text);
    err = err != 0 ? err : take_span(body, ret, text);
    return err != 0 ? err : take_rate(body, ret, text);
}

const char *lane_request_word(enum limit_order_kind kind)
{
    static const char *const words[] = {[LIMIT_ORDER_OPEN] = "open",
                                        [LIMIT_ORDER_CLOSE] = "close",
                                        [LIMIT_ORDER_PACE] = "pace",
                                        [LIMIT_ORDER_UNPACE] = "pace"};
    return words[kind];
}
