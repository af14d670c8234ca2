/* Bytes that a text must have for a regular expression to match it, so that most rules are passed
 * over without trying their expressions: of each text the groups of four bytes are marked once, and
 * a rule asks for the groups of its longest literal. Pure. */
#ifndef ENGINE_REPLY_LITERAL_H
#define ENGINE_REPLY_LITERAL_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define REPLY_LITERAL_GRAMS 8    /* of one expression */
#define REPLY_GRAM_BITS     4096 /* a text of 1,000 bytes marks a quarter of them at most */

struct reply_literal {
    uint16_t grams[REPLY_LITERAL_GRAMS];
    uint16_t count; /* 0: nothing is known, the expression must be tried */
};

struct reply_grams {
    uint64_t bits[REPLY_GRAM_BITS / 64];
};

/* Of an expression that does not tell ASCII letters' case apart. Conservative: what is not
 * understood leaves count 0. */
void reply_literal_find(struct slice pattern, struct reply_literal *ret);
void reply_grams_mark(struct reply_grams *g, struct slice text); /* all others are cleared */

/* false: the text has no such literal. */
static inline bool reply_grams_may_have(const struct reply_grams *g, const struct reply_literal *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if ((g->bits[l->grams[i] / 64] >> (l->grams[i] % 64) & 1) == 0) {
            return false;
        }
    }
    return true;
}

#endif
