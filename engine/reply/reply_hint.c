#include "engine/reply/reply_hint.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct word {
    const char *at;
    size_t len;
};

static bool is_one_of(struct word w, const char *const *list)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        if (strlen(list[i]) == w.len && strncasecmp(list[i], w.at, w.len) == 0) {
            return true;
        }
    }
    return false;
}

/* 0: no unit of time. Lone letters stand behind their number without a space: "60s". */
static usec_t unit_of(struct word w, bool is_attached)
{
    static const char *const seconds[] = {"second", "seconds", "sec", "secs", NULL};
    static const char *const minutes[] = {"minute", "minutes", "min", "mins", NULL};
    static const char *const hours[] = {"hour", "hours", "hr", "hrs", NULL};
    static const char *const lone[] = {"s", "m", "h", NULL};
    if (is_attached && is_one_of(w, lone)) {
        char c = (char)tolower((unsigned char)*w.at);
        usec_t span = c == 'h' ? 3600 : 60;
        return (c == 's' ? 1 : span) * USEC_PER_SEC;
    }
    if (is_one_of(w, seconds)) {
        return USEC_PER_SEC;
    }
    if (is_one_of(w, minutes)) {
        return 60 * USEC_PER_SEC;
    }
    return is_one_of(w, hours) ? 3600 * USEC_PER_SEC : 0;
}

static bool is_request(struct word w)
{
    static const char *const words[] = {"try",   "retry", "again",   "wait",   "after",
                                        "later", "back",  "retried", "resend", NULL};
    return is_one_of(w, words);
}

/* The next run of letters or of digits; false: there is none. */
static bool next_word(struct slice *text, struct word *ret)
{
    while (text->len > 0 && !isalnum((unsigned char)text->data[0])) {
        *text = slice_make(text->data + 1, text->len - 1);
    }
    if (text->len == 0) {
        return false;
    }
    bool is_number = isdigit((unsigned char)text->data[0]) != 0;
    size_t len = 1;
    while (len < text->len && isalnum((unsigned char)text->data[len]) &&
           (isdigit((unsigned char)text->data[len]) != 0) == is_number) {
        len++;
    }
    *ret = (struct word){text->data, len};
    *text = slice_make(text->data + len, text->len - len);
    return true;
}

static uint64_t number_of(struct word w)
{
    uint64_t value = 0;
    for (size_t i = 0; i < w.len && value <= 1000000; i++) {
        value = value * 10 + (uint64_t)(w.at[i] - '0');
    }
    return value;
}

usec_t reply_hint(struct slice text)
{
    enum { WORDS_BETWEEN = 6 }; /* "try again after at least another 5 minutes" */
    struct word w;
    int since_request = WORDS_BETWEEN + 1;
    while (next_word(&text, &w)) {
        if (isdigit((unsigned char)*w.at) == 0) {
            since_request = is_request(w) ? 0 : since_request + 1;
            continue;
        }
        struct slice rest = text;
        struct word unit, after;
        bool is_attached = text.len > 0 && isalpha((unsigned char)text.data[0]);
        usec_t span = next_word(&rest, &unit) ? unit_of(unit, is_attached) : 0;
        bool is_asked =
            since_request <= WORDS_BETWEEN || (next_word(&rest, &after) && is_request(after));
        if (span > 0 && is_asked) {
            uint64_t value = number_of(w);
            usec_t most = REPLY_HINT_MOST / span;
            return (usec_t)value > most ? REPLY_HINT_MOST : (usec_t)value * span;
        }
        since_request++;
    }
    return 0;
}
