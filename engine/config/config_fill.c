/* Owns the way from libconfuse's tree to struct config: each option of the table into its field.
 * Called by config_load.c; says nothing about mistakes, which were complained about before.
 *
 * The `def` members of an option belong to us (there are no defaults in libconfuse's sense): number
 * holds the line that set the option, fpnumber the index of the file. */
#include "engine/config/config_fill.h"

#include "engine/config/config_origin.h"
#include "engine/config/config_section.h"
#include "engine/config/config_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static cfg_t *section_at(cfg_t *root, enum config_section section, size_t index)
{
    if (section == CONFIG_SECTION_GLOBAL) {
        return root;
    }
    return cfg_getnsec(root, config_sections[section].name, (unsigned)index);
}

static cfg_opt_t *set_option(cfg_t *cfg, const char *name)
{
    cfg_opt_t *opt = cfg == NULL ? NULL : cfg_getopt(cfg, name);
    return opt != NULL && opt->def.number != 0 ? opt : NULL;
}

static struct config_place place_of(const cfg_opt_t *opt)
{
    return (struct config_place){(size_t)opt->def.fpnumber, (unsigned)opt->def.number};
}

struct config_place config_fill_place(cfg_t *root, enum config_section section, size_t index,
                                      const char *name)
{
    cfg_t *cfg = section_at(root, section, index);
    cfg_opt_t *opt = name == NULL ? NULL : set_option(cfg, name);
    if (opt == NULL && name != NULL && section == CONFIG_SECTION_TRANSPORT) {
        opt = set_option(root, name);
    }
    if (opt == NULL && config_sections[section].title != NULL) {
        opt = set_option(cfg, CONFIG_START_OPTION);
    }
    if (opt == NULL) {
        return (struct config_place){0, 0};
    }
    return place_of(opt);
}

/* Store the values of one option; what config_value_check refused has been complained about. */
static int fill_option(const struct config_option *o, cfg_opt_t *opt, void *field)
{
    char why[CONFIG_WHY_BYTES];
    unsigned count = cfg_opt_size(opt);
    if (count == 0) {
        return config_option_is_list(o) ? config_value_set(o, NULL, 0, field) : 0;
    }
    const char **items = calloc(count, sizeof(*items));
    size_t good = 0;
    if (items == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        const char *text = cfg_opt_getnstr(opt, i);
        if (text != NULL && config_value_check(o, text, why) == 0) {
            items[good++] = text;
        }
    }
    int err = good == 0 ? 0 : config_value_set(o, items, good, field);
    free(items);
    return err;
}

/* All options of one section into its struct: the section's value, else the top level's, else the
 * default. Those of a transport in a receiver's section: only what it sets. */
static int fill_section(cfg_t *root, enum config_section section, size_t index, void *base,
                        struct config_origins *origins)
{
    cfg_t *cfg = section_at(root, section, index);
    int err = 0;
    for (size_t i = 0; i < config_option_count && err == 0; i++) {
        const struct config_option *o = &config_options[i];
        if (!config_option_is_in(o, section)) {
            continue;
        }
        bool is_own = o->section == section;
        char *field = (char *)base + o->offset;
        cfg_opt_t *opt = set_option(cfg, o->name);
        if (opt == NULL && section == CONFIG_SECTION_TRANSPORT) {
            opt = set_option(root, o->name);
        }
        if (o->initial != NULL && is_own) {
            err = config_value_set(o, &o->initial, 1, field);
        }
        if (err == 0 && opt != NULL) {
            config_origins_set(origins, section, index, o, place_of(opt));
            err = fill_option(o, opt, field);
        }
        if (opt != NULL && !is_own) {
            ((struct config_receiver *)base)->set |= 1ULL << config_option_receiver_bit(o);
        }
    }
    if (config_sections[section].title != NULL) {
        config_origins_set(origins, section, index, NULL,
                           config_fill_place(root, section, index, NULL));
    }
    return err;
}

/* A kind that may stand several times; config_free finds what is half filled. */
static int fill_array(cfg_t *root, enum config_section section, struct config *c)
{
    size_t count = cfg_size(root, config_sections[section].name);
    int err = config_section_make(c, section, count);
    err = err < 0 ? err : config_origins_reserve(c->origins, section, count);
    for (size_t i = 0; i < count && err == 0; i++) {
        char *title = strdup(cfg_title(section_at(root, section, i)));
        config_section_set_title(c, section, i, title);
        err = title == NULL
                  ? -ENOMEM
                  : fill_section(root, section, i, config_section_at(c, section, i), c->origins);
    }
    return err;
}

static int fill_single(cfg_t *root, enum config_section section, void *base,
                       struct config_origins *origins)
{
    int err = config_origins_reserve(origins, section, 1);
    return err < 0 ? err : fill_section(root, section, 0, base, origins);
}

int config_fill(cfg_t *root, struct config *c)
{
    c->origins = config_origins_new();
    int err = c->origins == NULL ? -ENOMEM : 0;
    for (int i = 0; i < CONFIG_SECTION_COUNT && err == 0; i++) {
        enum config_section section = (enum config_section)i;
        err = config_sections[i].title != NULL
                  ? fill_array(root, section, c)
                  : fill_single(root, section, config_section_at(c, section, 0), c->origins);
    }
    return err;
}
