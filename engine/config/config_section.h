/* The sections of a snapshot seen by their kind, for who walks through all options: how many there
 * are, the struct that the rows of the table fill, and the title. Pure. */
#ifndef ENGINE_CONFIG_SECTION_H
#define ENGINE_CONFIG_SECTION_H

#include "base/slice.h"
#include "engine/config/config.h"
#include "engine/config/config_option.h"

#include <stdbool.h>
#include <stddef.h>

/* With a title, and a reload may bring others and take some away. */
bool config_section_is_live(enum config_section section);
/* How many sections of this kind there are; 1 for a kind that stands once. */
size_t config_section_count(const struct config *c, enum config_section section);
/* What config_option.offset counts from. index: below the count */
void *config_section_at(const struct config *c, enum config_section section, size_t index);
/* NULL for kinds without one. */
const char *config_section_title(const struct config *c, enum config_section section, size_t index);
/* As much of a title as anybody may see: of a webhook its scheme, host and port, as path and query
 * are at times all that a sender is known by. "" for NULL */
struct slice config_section_shown(enum config_section section, const char *title);
/* The section with that title, or the count. */
size_t config_section_find_title(const struct config *c, enum config_section section,
                                 const char *title);
/* The value of a row in the index-th section of its kind. */
static inline void *config_section_value(const struct config *c, enum config_section section,
                                         const struct config_option *o, size_t index)
{
    return (char *)config_section_at(c, section, index) + o->offset;
}
/* The section sets the option itself; in a transport the top level's line counts. */
MUST_USE bool config_section_sets(const struct config *c, enum config_section section, size_t index,
                                  const struct config_option *o);

/* Give a snapshot without sections of this kind so many, zeroed. errors: -ENOMEM */
MUST_USE int config_section_make(struct config *c, enum config_section section, size_t count);
/* The title is the section's from now on. */
void config_section_set_title(struct config *c, enum config_section section, size_t index,
                              char *title);

#endif
