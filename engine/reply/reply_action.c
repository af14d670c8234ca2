/* Owns the grammar of a rule's actions. Called by the rules' reader and by whoever prints a rule. */
#include "engine/reply/reply_action.h"

#include "base/error.h"
#include "base/span.h"
#include "engine/config/config_near.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SPAN_MAX  (7 * 24 * 3600 * USEC_PER_SEC)
#define AFTER_MAX 1000000

enum span_need { SPAN_NEVER, SPAN_MAY, SPAN_MUST };

static const struct {
    const char *word;
    enum span_need span;
} kinds[REPLY_ACTION_KIND_COUNT] = {
    [REPLY_ACTION_NONE] = {"none", SPAN_NEVER},
    [REPLY_SLOW] = {"slow", SPAN_NEVER},
    [REPLY_PAUSE] = {"pause", SPAN_MUST},
    [REPLY_CLOSE] = {"close", SPAN_MUST},
    [REPLY_CLOSE_SITE] = {"close-site", SPAN_MUST},
    [REPLY_NEXT_HOST] = {"next-host", SPAN_NEVER},
    [REPLY_DEFER] = {"defer", SPAN_MAY},
    [REPLY_BOUNCE] = {"bounce", SPAN_NEVER},
    [REPLY_SUSPEND_TENANT] = {"suspend-tenant", SPAN_MUST},
    [REPLY_SUSPEND_CAMPAIGN] = {"suspend-campaign", SPAN_MUST},
};

/* The words of an action, one after the other. */
struct words {
    struct slice rest, word; /* word: "" at the end */
};

static void next(struct words *w)
{
    w->rest = slice_trim(w->rest);
    size_t end = slice_find(w->rest, ' ');
    w->word = slice_to(w->rest, end);
    w->rest = slice_from(w->rest, end);
}

static int refuse(char *ret_why, const char *what, struct slice word, const char *right)
{
    int shown = word.len < 40 ? (int)word.len : 40;
    (void)snprintf(ret_why, REPLY_ACTION_WHY_MAX, "\"%.*s\" %s; %s", shown, word.data, what, right);
    return ERR_SYNTAX;
}

int reply_action_span(struct slice text, usec_t *ret, char ret_why[static REPLY_ACTION_WHY_MAX])
{
    static const char right[] = "write a whole number and one of s, m, h, d, w: 90s, 15m, 2h";
    usec_t span;
    if (text.len == 0) {
        (void)snprintf(ret_why, REPLY_ACTION_WHY_MAX, "a time is missing; %s", right);
        return ERR_SYNTAX;
    }
    if (!span_parse(text, &span)) {
        unsigned units = 0;
        for (size_t i = 0; i < text.len; i++) {
            units += memchr("smhdw", text.data[i], 5) != NULL;
        }
        return refuse(ret_why, units > 1 ? "has two units" : "is not a time", text, right);
    }
    if (span == 0) {
        return refuse(ret_why, "is no time at all", text, "write at least 1s");
    }
    if (span > SPAN_MAX) {
        return refuse(ret_why, "is too long", text, "write at most 7d");
    }
    *ret = span;
    return 0;
}

/* "0.5": thousandths */
static int parse_factor(struct slice word, uint32_t *ret, char *why)
{
    static const char right[] = "write the part of the pace that is left, from 0.05 to 0.99";
    uint32_t value = 0, unit = 1000;
    bool has_point = false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.data[i] == '.' && !has_point) {
            has_point = true;
        } else if (word.data[i] < '0' || word.data[i] > '9' || value > 1000000) {
            return refuse(why, "is not a factor", word, right);
        } else if (!has_point) {
            value = value * 10 + 1000 * (uint32_t)(word.data[i] - '0');
        } else {
            unit /= 10;
            value += unit * (uint32_t)(word.data[i] - '0');
        }
    }
    if (value < 50 || value > 990) {
        return refuse(why, "is not a factor", word, right);
    }
    *ret = value;
    return 0;
}

/* "after N in PERIOD", whose first word was read. */
static int parse_after(struct words *w, struct reply_action *a, char *why)
{
    static const char right[] = "write after N in PERIOD, such as after 3 in 10m";
    next(w);
    uint64_t count = 0;
    bool is_number = w->word.len > 0 && w->word.len < 8;
    for (size_t i = 0; i < w->word.len && is_number; i++) {
        is_number = w->word.data[i] >= '0' && w->word.data[i] <= '9';
        count = count * 10 + (uint64_t)(w->word.data[i] - '0');
    }
    if (!is_number || count == 0 || count > AFTER_MAX) {
        return refuse(why, "is no number of replies", w->word, right);
    }
    a->after = (uint32_t)count;
    next(w);
    if (!slice_eq(w->word, SLICE("in"))) {
        return refuse(why, "stands where \"in\" is due", w->word, right);
    }
    next(w);
    int err = reply_action_span(w->word, &a->period, why);
    next(w);
    return err;
}

static int find_kind(struct slice word, enum reply_action_kind *ret, char *why)
{
    char text[CONFIG_NEAREST_BYTES + 1] = "", near[CONFIG_NEAR_TEXT];
    struct config_near n;
    (void)snprintf(text, sizeof(text), SLICE_FMT, SLICE_ARG(word)); /* cut by design */
    config_near_begin(&n, text);
    for (int i = 0; i < REPLY_ACTION_KIND_COUNT; i++) {
        if (slice_eq(word, slice_of(kinds[i].word))) {
            *ret = (enum reply_action_kind)i;
            return 0;
        }
        config_near_offer(&n, kinds[i].word);
    }
    const char *meant = config_near_text(&n, near);
    return refuse(why, "is no action", word,
                  meant[0] != '\0' ? meant + 2
                                   : "write slow, pause, close, close-site, next-host, defer, "
                                     "bounce, suspend-tenant, suspend-campaign or none");
}

int reply_action_parse(struct slice text, struct reply_action *ret,
                       char ret_why[static REPLY_ACTION_WHY_MAX])
{
    struct words w = {.rest = text};
    struct reply_action a = {.kind = REPLY_ACTION_NONE};
    next(&w);
    int err = find_kind(w.word, &a.kind, ret_why);
    if (err != 0) {
        return err;
    }
    next(&w);
    bool has_value = w.word.len > 0 && !slice_eq(w.word, SLICE("after"));
    if (a.kind == REPLY_SLOW && has_value) {
        err = parse_factor(w.word, &a.factor, ret_why);
        next(&w);
    } else if (kinds[a.kind].span == SPAN_MUST || (kinds[a.kind].span == SPAN_MAY && has_value)) {
        err = reply_action_span(has_value ? w.word : SLICE(""), &a.span, ret_why);
        next(&w);
    }
    if (err == 0 && slice_eq(w.word, SLICE("after"))) {
        err = parse_after(&w, &a, ret_why);
    }
    if (err == 0 && w.word.len > 0) {
        err =
            refuse(ret_why, "is too much here", w.word, "remove it, or write it as another action");
    }
    if (err == 0) {
        *ret = a;
    }
    return err;
}

/* "90s", "15m": the largest unit that says it exactly. Appends, returns the new length. */
static size_t put_span(char *text, size_t len, usec_t span)
{
    static const struct {
        usec_t seconds;
        char letter;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    usec_t seconds = span / USEC_PER_SEC;
    size_t i = 0;
    while (i < 3 && seconds % units[i].seconds != 0) {
        i++;
    }
    return len + (size_t)snprintf(text + len, REPLY_ACTION_TEXT_MAX - len, " %lld%c",
                                  (long long)(seconds / units[i].seconds), units[i].letter);
}

const char *reply_action_text(const struct reply_action *a, char ret[static REPLY_ACTION_TEXT_MAX])
{
    size_t len = (size_t)snprintf(ret, REPLY_ACTION_TEXT_MAX, "%s", kinds[a->kind].word);
    if (a->factor != 0) {
        len += (size_t)snprintf(ret + len, REPLY_ACTION_TEXT_MAX - len, " %g", a->factor / 1000.0);
    }
    if (a->span != 0) {
        len = put_span(ret, len, a->span);
    }
    if (a->after != 0) {
        len += (size_t)snprintf(ret + len, REPLY_ACTION_TEXT_MAX - len, " after %u in", a->after);
        (void)put_span(ret, len, a->period);
    }
    return ret;
}
