/* Where each option of a snapshot was set. Part of the snapshot: filled while it is loaded, owned
 * and freed by it, immutable afterwards. */
#ifndef ENGINE_CONFIG_ORIGIN_H
#define ENGINE_CONFIG_ORIGIN_H

#include "base/attr.h"
#include "engine/config/config_option.h"

#include <stdbool.h>
#include <stddef.h>

struct config;
struct config_origins;

struct config_place {
    size_t source; /* index of the file */
    unsigned line; /* 0: the file as a whole */
};

#define CONFIG_ORIGIN_BYTES 4200 /* a path and a line; a longer path is cut */

/* Where the index-th section of this kind (0 where it stands once) sets the option.
 *
 * option   NULL: the section itself
 * returns  true with "FILE:LINE", inside a transport the top level's line when only that sets it;
 *          false with "default" when nothing does, or there is no such section or option
 * thread   any */
bool config_origin(const struct config *c, enum config_section section, size_t index,
                   const char *option, char ret[static CONFIG_ORIGIN_BYTES]);

/* --- while loading ---------------------------------------------------------------------------- */

/* errors: NULL when out of memory */
MUST_USE struct config_origins *config_origins_new(void);
void config_origins_free(struct config_origins *o); /* accepts NULL */
/* Room for so many sections of the kind; once for each kind. errors: -ENOMEM */
MUST_USE int config_origins_reserve(struct config_origins *o, enum config_section section,
                                    size_t count);
/* option: a row of the table, or NULL for the section itself; the room is there */
void config_origins_set(struct config_origins *o, enum config_section section, size_t index,
                        const struct config_option *option, struct config_place place);
/* The rows of a kind of section change places: there are `count` from now on, and row i is what row
 * order[i] was, or of a section that stands nowhere where that is SIZE_MAX. errors: -ENOMEM, nothing
 * changed */
MUST_USE int config_origins_order(struct config_origins *o, enum config_section section,
                                  const size_t *order, size_t count);
/* The next file, in the order of config_place.source. errors: -ENOMEM */
MUST_USE int config_origins_add_file(struct config_origins *o, const char *name);

#endif
