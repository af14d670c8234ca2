/* Selectors: which mail an order or a question is about. Used by the API's handlers and the
 * commands. Pure: knows no message; whoever asks brings the facts as text. */
#ifndef ENGINE_SELECTOR_H
#define ENGINE_SELECTOR_H

#include "base/attr.h"
#include "base/slice.h"

#include <jansson.h>
#include <stdbool.h>

enum selector_word {
    SELECTOR_TENANT,
    SELECTOR_CAMPAIGN,
    SELECTOR_DOMAIN,      /* of the recipient */
    SELECTOR_DESTINATION, /* the scheduler's name: the nexthop */
    SELECTOR_TRANSPORT,
    SELECTOR_SOURCE, /* the fact is a list, "a,b"; one of them has to match */
    SELECTOR_COUNT
};

#define SELECTOR_VALUE_MAX 255 /* bytes */

/* Values are globs: '*' stands for any run of bytes; letters match in either case (ASCII). */
struct selector {
    char *value[SELECTOR_COUNT]; /* owned; NULL: anything */
};

/* The word as it is written in options, query parameters and JSON members. */
const char *selector_word_text(enum selector_word word) NONNULL_RET;
/* SELECTOR_COUNT: none of them. */
enum selector_word selector_word_find(struct slice name);

void selector_init(struct selector *s);
void selector_fini(struct selector *s); /* accepts a zeroed one; leaves it empty */
/* ret becomes a copy; empty when that fails.  errors: -ENOMEM */
MUST_USE int selector_copy(struct selector *ret, const struct selector *s);
/* A second value for the same word replaces the first.
 *
 * errors   ERR_MISSING no such word, ERR_LIMIT longer than SELECTOR_VALUE_MAX, ERR_SYNTAX empty, a
 *          control byte in it or not UTF-8, -ENOMEM; nothing set */
MUST_USE int selector_set(struct selector *s, struct slice word, struct slice value);
bool selector_is_empty(const struct selector *s);
bool selector_eq(const struct selector *a, const struct selector *b);

/* Every value that is set matches its fact; an empty selector matches all. Takes at most
 * SELECTOR_VALUE_MAX steps for each byte of a fact. */
bool selector_matches(const struct selector *s, const struct slice facts[static SELECTOR_COUNT]);
/* The glob of one word alone. A word without a value matches. */
bool selector_matches_word(const struct selector *s, enum selector_word word, struct slice fact);

/* A glob as in a value, for texts that are no selector's fact. */
bool selector_glob_matches(const char *glob, struct slice text);

/* Sets the words that are set as members of an object.  errors: -ENOMEM */
MUST_USE int selector_to_json(const struct selector *s, json_t *object);
/* Takes the members that are selector words; others are left to others, null ones ignored.
 *
 * ret          initialised; on error what was set so far stays in it
 * ret_word     on error: the word that is wrong
 * errors       as selector_set; ERR_SYNTAX also when a value is no string */
MUST_USE int selector_from_json(struct selector *ret, const json_t *object, const char **ret_word);

#endif
