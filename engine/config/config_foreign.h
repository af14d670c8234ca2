/* What other mail servers call the things that our options are about. Pure. */
#ifndef ENGINE_CONFIG_FOREIGN_H
#define ENGINE_CONFIG_FOREIGN_H

#include <stddef.h>

struct config_foreign {
    const char *name;   /* theirs; '-' and '_' are the same, and so are both cases */
    const char *server; /* whose */
    const char *ours;   /* what to write instead: an option, a section, or a sentence's end */
};

extern const struct config_foreign config_foreign_names[];
extern const size_t config_foreign_count;

/* NULL: no server known to us has such an option. */
const struct config_foreign *config_foreign_find(const char *name);

#endif
