/* Selectors: their words, globs and JSON form. Called by whoever reads a request or judges mail.
 * Must not know what a message is. */
#include "engine/order/selector.h"

#include "base/error.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[SELECTOR_COUNT] = {
    [SELECTOR_TENANT] = "tenant",       [SELECTOR_CAMPAIGN] = "campaign",
    [SELECTOR_DOMAIN] = "domain",       [SELECTOR_DESTINATION] = "destination",
    [SELECTOR_TRANSPORT] = "transport", [SELECTOR_SOURCE] = "source",
};

const char *selector_word_text(enum selector_word word)
{
    return words[word];
}

enum selector_word selector_word_find(struct slice name)
{
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        if (slice_eq(name, slice_of(words[word]))) {
            return word;
        }
    }
    return SELECTOR_COUNT;
}

void selector_init(struct selector *s)
{
    *s = (struct selector){{NULL}};
}

void selector_fini(struct selector *s)
{
    for (size_t i = 0; i < SELECTOR_COUNT; i++) {
        free(s->value[i]);
    }
    selector_init(s);
}

int selector_copy(struct selector *ret, const struct selector *s)
{
    selector_init(ret);
    for (size_t i = 0; i < SELECTOR_COUNT; i++) {
        if (s->value[i] == NULL) {
            continue;
        }
        ret->value[i] = strdup(s->value[i]);
        if (ret->value[i] == NULL) {
            selector_fini(ret);
            return -ENOMEM;
        }
    }
    return 0;
}

/* Values stand in answers, logs and on terminals: text, and nothing that moves a cursor. */
static int check_value(struct slice value)
{
    if (value.len > SELECTOR_VALUE_MAX) {
        return ERR_LIMIT;
    }
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = (uint8_t)value.data[i];
        if (c < ' ' || c == 0x7f) {
            return ERR_SYNTAX;
        }
    }
    json_t *text = value.len == 0 ? NULL : json_stringn(value.data, value.len);
    if (text == NULL) {
        return ERR_SYNTAX;
    }
    json_decref(text);
    return 0;
}

int selector_set(struct selector *s, struct slice word, struct slice value)
{
    enum selector_word which = selector_word_find(word);
    if (which == SELECTOR_COUNT) {
        return ERR_MISSING;
    }
    int err = check_value(value);
    if (err != 0) {
        return err;
    }
    char *copy = slice_dup(value);
    if (copy == NULL) {
        return -ENOMEM;
    }
    free(s->value[which]);
    s->value[which] = copy;
    return 0;
}

bool selector_is_empty(const struct selector *s)
{
    for (size_t i = 0; i < SELECTOR_COUNT; i++) {
        if (s->value[i] != NULL) {
            return false;
        }
    }
    return true;
}

bool selector_eq(const struct selector *a, const struct selector *b)
{
    for (size_t i = 0; i < SELECTOR_COUNT; i++) {
        const char *x = a->value[i], *y = b->value[i];
        if ((x == NULL) != (y == NULL) || (x != NULL && !slice_ieq(slice_of(x), slice_of(y)))) {
            return false;
        }
    }
    return true;
}

static char lower_selector_char(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* After a mismatch only the last '*' takes one byte more. The earlier ones took as few bytes as
 * possible, and taking more there could not help. */
bool selector_glob_matches(const char *glob, struct slice text)
{
    const char *star = NULL; /* behind the last one seen */
    size_t at = 0, star_at = 0;
    while (at < text.len) {
        if (*glob == '*') {
            glob++;
            star = glob;
            star_at = at;
        } else if (*glob != '\0' &&
                   lower_selector_char(*glob) == lower_selector_char(text.data[at])) {
            glob++;
            at++;
        } else if (star != NULL) {
            glob = star;
            star_at++;
            at = star_at;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}

static bool glob_matches_one(const char *glob, struct slice list)
{
    for (;;) {
        size_t end = slice_find(list, ',');
        if (selector_glob_matches(glob, slice_to(list, end))) {
            return true;
        }
        if (end == list.len) {
            return false;
        }
        list = slice_from(list, end + 1);
    }
}

bool selector_matches_word(const struct selector *s, enum selector_word word, struct slice fact)
{
    const char *glob = s->value[word];
    if (glob == NULL) {
        return true;
    }
    return word == SELECTOR_SOURCE ? glob_matches_one(glob, fact)
                                   : selector_glob_matches(glob, fact);
}

bool selector_matches(const struct selector *s, const struct slice facts[static SELECTOR_COUNT])
{
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        if (!selector_matches_word(s, word, facts[word])) {
            return false;
        }
    }
    return true;
}

int selector_to_json(const struct selector *s, json_t *object)
{
    for (size_t i = 0; i < SELECTOR_COUNT; i++) {
        if (s->value[i] != NULL &&
            json_object_set_new(object, words[i], json_string(s->value[i])) != 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

int selector_from_json(struct selector *ret, const json_t *object, const char **ret_word)
{
    for (size_t i = 0; i < SELECTOR_COUNT; i++) {
        const json_t *value = json_object_get(object, words[i]);
        if (value == NULL || json_is_null(value)) {
            continue;
        }
        int err = ERR_SYNTAX;
        if (json_is_string(value)) {
            struct slice text = slice_make(json_string_value(value), json_string_length(value));
            err = selector_set(ret, slice_of(words[i]), text);
        }
        if (err != 0) {
            *ret_word = words[i];
            return err;
        }
    }
    return 0;
}
