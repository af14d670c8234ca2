/* Bytes read as choices, by the drivers that the random simulation and the fuzz targets share.
 * Where the bytes end each choice is the first. */
#ifndef TESTS_SIM_CHOICES_H
#define TESTS_SIM_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct choices {
    const uint8_t *data;
    size_t size, at;
};

static inline bool choices_are_left(const struct choices *c)
{
    return c->at < c->size;
}

static inline unsigned choices_take(struct choices *c, unsigned below)
{
    return choices_are_left(c) ? c->data[c->at++] % below : 0;
}

#endif
