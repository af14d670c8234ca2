/* Finds an option by its name, or the one that a wrong name was meant to be. Called by the parser and
 * the checks; changes nothing of the table. */
#include "engine/config/config_near.h"
#include "engine/config/config_option.h"

#include <string.h>

unsigned config_option_receiver_bit(const struct config_option *o)
{
    unsigned bit = 0;
    for (const struct config_option *p = config_options; p < o; p++) {
        bit += p->is_receivers;
    }
    return bit;
}

const struct config_option *config_option_find(enum config_section section, const char *name)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        bool is_here = config_option_is_in(o, section) ||
                       (section == CONFIG_SECTION_GLOBAL && o->section == CONFIG_SECTION_TRANSPORT);
        if (is_here && strcmp(o->name, name) == 0) {
            return o;
        }
    }
    return NULL;
}

/* Postfix's prefix of a global default is not an edit but a habit. */
static const char *without_prefix(const char *name)
{
    static const char *const prefixes[] = {"default_", "qmgr_", "my", NULL};
    for (size_t i = 0; prefixes[i] != NULL; i++) {
        size_t len = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], len) == 0) {
            return name + len;
        }
    }
    return name;
}

const char *config_option_nearest(enum config_section section, const char *name)
{
    struct config_near near;
    config_near_begin(&near, without_prefix(name));
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (config_option_is_in(o, section) ||
            (section == CONFIG_SECTION_GLOBAL && o->section == CONFIG_SECTION_TRANSPORT)) {
            config_near_offer(&near, o->name);
        }
    }
    for (int s = 1; s < CONFIG_SECTION_COUNT && section == CONFIG_SECTION_GLOBAL; s++) {
        config_near_offer(&near, config_sections[s].name);
    }
    return near.found;
}
