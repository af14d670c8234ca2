/* The time that a reply asks to wait. Pure; called for replies that throttle. */
#include "engine/limit/limits.h"

#define HINT_MOST (24 * 3600 * USEC_PER_SEC)

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '-';
}

static struct slice skip_spaces(struct slice s)
{
    while (s.len > 0 && is_space(s.data[0])) {
        s = slice_from(s, 1);
    }
    return s;
}

static struct slice word_of(struct slice s)
{
    size_t len = 0;
    while (len < s.len && ((s.data[len] >= 'a' && s.data[len] <= 'z') ||
                           (s.data[len] >= 'A' && s.data[len] <= 'Z'))) {
        len++;
    }
    return slice_to(s, len);
}

/* 0: it is none */
static usec_t unit_of(struct slice word)
{
    static const struct {
        const char *word;
        usec_t span;
    } units[] = {
        {"s", 1},    {"sec", 1},   {"secs", 1},   {"second", 1},  {"seconds", 1},
        {"m", 60},   {"min", 60},  {"mins", 60},  {"minute", 60}, {"minutes", 60},
        {"h", 3600}, {"hr", 3600}, {"hrs", 3600}, {"hour", 3600}, {"hours", 3600},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (slice_ieq(word, slice_of(units[i].word))) {
            return units[i].span * USEC_PER_SEC;
        }
    }
    return 0;
}

/* A number, and behind it a unit; 0: there is none. ret_len: of the digits */
static usec_t span_at(struct slice s, size_t *ret_len)
{
    usec_t value = 0;
    size_t len = 0;
    for (; len < s.len && s.data[len] >= '0' && s.data[len] <= '9'; len++) {
        value = value < HINT_MOST ? value * 10 + (s.data[len] - '0') : value;
    }
    *ret_len = len;
    usec_t unit = len == 0 || len > 6 ? 0 : unit_of(word_of(skip_spaces(slice_from(s, len))));
    return value * unit < HINT_MOST ? value * unit : HINT_MOST;
}

usec_t limit_hint(struct slice text)
{
    /* A rate names a span too: "100 messages per 60 minutes". Only "in", "for", "after" and "retry"
     * stand in front of a time to wait. */
    static const char *const before[] = {"in", "for", "after", "retry", "wait"};
    bool is_asked = false;
    while (text.len > 0) {
        struct slice word = word_of(text);
        if (word.len > 0) {
            is_asked = false;
            for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
                is_asked = is_asked || slice_ieq(word, slice_of(before[i]));
            }
            text = slice_from(text, word.len);
            continue;
        }
        size_t digits;
        usec_t span = span_at(text, &digits);
        if (span > 0 && is_asked) {
            return span;
        }
        is_asked = is_asked && digits == 0;
        text = slice_from(text, digits > 0 ? digits : 1);
    }
    return 0;
}
