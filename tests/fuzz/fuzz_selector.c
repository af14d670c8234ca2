/* Selectors out of arbitrary bytes: a glob matches what a plain matcher says it does, and its JSON
 * is read back as the same. The first byte is the word, the second the length of the glob, which
 * follows; the rest is the fact. */
#include "base/error.h"
#include "engine/order/selector.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* By a table of what of the glob matches what of the text. */
static bool plainly_matches(struct slice glob, struct slice text)
{
    bool *row = calloc(text.len + 1, sizeof(*row)), result;
    require(row != NULL);
    row[0] = true;
    for (size_t i = 0; i < glob.len; i++) {
        bool diagonal = row[0];
        bool is_star = glob.data[i] == '*';
        row[0] = row[0] && is_star;
        for (size_t k = 1; k <= text.len; k++) {
            bool above = row[k];
            row[k] = is_star ? above || row[k - 1]
                             : diagonal && lower(glob.data[i]) == lower(text.data[k - 1]);
            diagonal = above;
        }
    }
    result = row[text.len];
    free(row);
    return result;
}

static void check_json(const struct selector *s)
{
    struct selector again;
    const char *word = NULL;
    json_t *object = json_object();
    selector_init(&again);
    require(object != NULL && selector_to_json(s, object) == 0);
    require(selector_from_json(&again, object, &word) == 0 && selector_eq(s, &again));
    json_decref(object);
    selector_fini(&again);
}

static void check_facts(const struct selector *s, enum selector_word word, struct slice fact)
{
    struct slice facts[SELECTOR_COUNT];
    for (enum selector_word w = 0; w < SELECTOR_COUNT; w++) {
        facts[w] = SLICE("");
    }
    facts[word] = fact;
    require(selector_matches(s, facts) == selector_matches_word(s, word, fact));
    if (word != SELECTOR_SOURCE) { /* whose fact is a list */
        require(selector_matches_word(s, word, fact) ==
                plainly_matches(slice_of(s->value[word]), fact));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct selector s;
    if (size < 2 || (size_t)data[1] + 2 > size) {
        return 0;
    }
    enum selector_word word = data[0] % SELECTOR_COUNT;
    struct slice all = slice_make((const char *)data + 2, size - 2);
    struct slice glob = slice_to(all, data[1]), fact = slice_from(all, data[1]);
    selector_init(&s);
    int err = selector_set(&s, slice_of(selector_word_text(word)), glob);
    if (err != 0) {
        require(selector_is_empty(&s));
    } else {
        require(strlen(s.value[word]) == glob.len);
        check_json(&s);
        check_facts(&s, word, fact);
        check_facts(&s, word, glob);
    }
    selector_fini(&s);
    return 0;
}
