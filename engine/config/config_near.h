/* Which of the known names somebody may have meant: the nearest one by edits, when it is near
 * enough to be a slip of the pen. Pure. Used by the configuration, and by the receiver's behaviour
 * files. */
#ifndef ENGINE_CONFIG_NEAR_H
#define ENGINE_CONFIG_NEAR_H

#include <stddef.h>

#define CONFIG_NEAREST_BYTES 63

struct config_near {
    const char *name;
    size_t best;       /* edits; what is found has fewer */
    const char *found; /* the nearest so far, or NULL */
};

void config_near_begin(struct config_near *n, const char *name);
/* known: lives as long as n->found is used */
void config_near_offer(struct config_near *n, const char *known);

/* Levenshtein's distance of two names; both at most CONFIG_NEAREST_BYTES. */
size_t config_option_distance(const char *a, const char *b);

/* "; did you mean \"NAME\"?", or "" when none is near. */
#define CONFIG_NEAR_TEXT 96
const char *config_near_text(const struct config_near *n, char ret[static CONFIG_NEAR_TEXT]);

#endif
