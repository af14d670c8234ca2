/* From libconfuse's tree of one reading to struct config. Between config_load.c and the table;
 * nobody else includes this. */
#ifndef ENGINE_CONFIG_FILL_H
#define ENGINE_CONFIG_FILL_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "engine/config/config_load.h"

#include <confuse.h>
#include <stddef.h>

/* An option that each section has; its default is parsed when the section begins, which is how the
 * line of the title becomes known. No file can name it by accident. */
#define CONFIG_START_OPTION "\001start"

/* All options into *c: the section's value, else for transports the top level's, else the default.
 *
 * errors   -ENOMEM; config_free(c) is right after that too */
MUST_USE int config_fill(cfg_t *root, struct config *c);

/* As config_place_of. */
struct config_place config_fill_place(cfg_t *root, enum config_section section, size_t index,
                                      const char *name);

#endif
