/* Patterns of host and domain names. Pure.
 *
 * A pattern is a name, before which stand any number of "*.", each for exactly one label:
 * "*.google.com" is mx1.google.com and neither google.com nor a.mx1.google.com. Letters match in
 * either case; a dot at the end of a name means nothing. */
#ifndef ENGINE_NAME_PATTERN_H
#define ENGINE_NAME_PATTERN_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>

struct name_pattern {
    unsigned stars;
    struct slice rest; /* behind the stars */
};

/* Whether the text is a pattern. */
MUST_USE bool name_pattern_is_valid(struct slice text);
/* Whether the name is one that the pattern stands for. */
MUST_USE bool name_pattern_matches(struct slice pattern, struct slice name);
/* Whether some name is one that both patterns stand for. */
MUST_USE bool name_pattern_meets(struct slice a, struct slice b);

/* The parts of a pattern, a view. */
struct name_pattern name_pattern_of(struct slice text);
/* An order of patterns by their stars and what follows them; 0: they stand for the same names. */
int name_pattern_compare(const struct name_pattern *a, const struct name_pattern *b);
/* Without a dot at its end. */
struct slice name_pattern_without_root(struct slice name);
/* Remove the first label and its dot. returns false when there is no other label behind it */
MUST_USE bool name_pattern_skip_label(struct slice *name);

#endif
