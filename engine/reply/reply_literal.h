/* Bytes that a text must have for a regular expression to match it, so that most rules are passed
 * over without trying their expressions: of each text the groups of three bytes are marked once, and
 * a rule asks for those of its literals, of which the text must have one. Pure. */
#ifndef ENGINE_REPLY_LITERAL_H
#define ENGINE_REPLY_LITERAL_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define REPLY_LITERALS  64   /* of one expression: its branches */
#define REPLY_GRAM_BITS 8192 /* a text of 1,000 bytes marks an eighth of them at most */

struct reply_literal {
    uint16_t grams[REPLY_LITERALS][2]; /* the first and the last group of each */
    uint16_t count;                    /* 0: nothing is known, the expression must be tried */
};

struct reply_grams {
    uint64_t bits[REPLY_GRAM_BITS / 64];
};

/* Of an expression that does not tell ASCII letters' case apart. Conservative: what is not
 * understood leaves count 0. */
void reply_literal_find(struct slice pattern, struct reply_literal *ret);
void reply_grams_mark(struct reply_grams *g, struct slice text); /* all others are cleared */

static inline bool reply_grams_has(const struct reply_grams *g, uint16_t gram)
{
    return (g->bits[gram / 64] >> (gram % 64) & 1) != 0;
}

/* false: the text has none of the literals. */
static inline bool reply_grams_may_have(const struct reply_grams *g, const struct reply_literal *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (reply_grams_has(g, l->grams[i][0]) && reply_grams_has(g, l->grams[i][1])) {
            return true;
        }
    }
    return l->count == 0;
}

#endif
