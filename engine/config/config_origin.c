/* Owns the places of options: file and line for each option of each section. Filled by
 * config_fill.c and config_load.c, asked by everybody who explains a value; must not know what an
 * option means. */
#include "engine/config/config_origin.h"

#include "engine/config/config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of one kind of section: rows of `width` places, the section's own first, then its options in the
 * order of the table. Line 0: not set. */
struct grid {
    struct config_place *places;
    size_t count, width;
};

struct config_origins {
    struct grid grids[CONFIG_SECTION_COUNT];
    char **files;
    size_t file_count;
};

/* The position of an option among those of a section, from 1. */
static size_t column_of(enum config_section section, const struct config_option *o)
{
    size_t column = 1;
    for (const struct config_option *p = config_options; p < o; p++) {
        column += config_option_is_in(p, section);
    }
    return column;
}

struct config_origins *config_origins_new(void)
{
    return calloc(1, sizeof(struct config_origins));
}

void config_origins_free(struct config_origins *o)
{
    if (o == NULL) {
        return;
    }
    for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
        free(o->grids[s].places);
    }
    for (size_t i = 0; i < o->file_count; i++) {
        free(o->files[i]);
    }
    free(o->files);
    free(o);
}

int config_origins_reserve(struct config_origins *o, enum config_section section, size_t count)
{
    struct grid *g = &o->grids[section];
    assert(g->places == NULL);
    g->width = 1;
    for (size_t i = 0; i < config_option_count; i++) {
        g->width += config_option_is_in(&config_options[i], section);
    }
    g->places = calloc(count * g->width + 1, sizeof(*g->places));
    g->count = g->places == NULL ? 0 : count;
    return g->places == NULL ? -ENOMEM : 0;
}

void config_origins_set(struct config_origins *o, enum config_section section, size_t index,
                        const struct config_option *option, struct config_place place)
{
    struct grid *g = &o->grids[section];
    assert(index < g->count && (option == NULL || config_option_is_in(option, section)));
    g->places[index * g->width + (option == NULL ? 0 : column_of(section, option))] = place;
}

int config_origins_order(struct config_origins *o, enum config_section section, const size_t *order,
                         size_t count)
{
    struct grid *g = &o->grids[section];
    struct config_place *places = calloc(count * g->width + 1, sizeof(*places));
    if (places == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (order[i] != SIZE_MAX) {
            memcpy(&places[i * g->width], &g->places[order[i] * g->width],
                   g->width * sizeof(*places));
        }
    }
    free(g->places);
    g->places = places;
    g->count = count;
    return 0;
}

int config_origins_add_file(struct config_origins *o, const char *name)
{
    char **files = realloc(o->files, (o->file_count + 1) * sizeof(*files));
    if (files == NULL) {
        return -ENOMEM;
    }
    o->files = files;
    o->files[o->file_count] = strdup(name);
    if (o->files[o->file_count] == NULL) {
        return -ENOMEM;
    }
    o->file_count++;
    return 0;
}

bool config_origin(const struct config *c, enum config_section section, size_t index,
                   const char *option, char ret[static CONFIG_ORIGIN_BYTES])
{
    const struct config_origins *o = c->origins;
    const struct grid *g = o == NULL ? NULL : &o->grids[section];
    const struct config_option *row = option == NULL ? NULL : config_option_find(section, option);
    bool is_known = option == NULL || (row != NULL && config_option_is_in(row, section));
    if (g != NULL && index < g->count && is_known) {
        const struct config_place *p =
            &g->places[index * g->width + (row == NULL ? 0 : column_of(section, row))];
        if (p->line > 0 && p->source < o->file_count) {
            (void)snprintf(ret, CONFIG_ORIGIN_BYTES, "%.4096s:%u", o->files[p->source], p->line);
            return true;
        }
    }
    (void)snprintf(ret, CONFIG_ORIGIN_BYTES, "default");
    return false;
}
