/* Vose's alias method: count columns of the same width, each shared by at most two. Called where
 * the load tools draw at random; has no random source itself. */
#include "bench/tool/choice.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* `heights` has the mean 1. `order`: room for count indices, those below the mean from the front,
 * the others from the back. */
static void fill_columns(struct choice *c, double *heights, uint32_t *order)
{
    uint32_t low = 0;
    uint32_t high = c->count;
    for (uint32_t i = 0; i < c->count; i++) {
        if (heights[i] < 1) {
            order[low++] = i;
        } else {
            order[--high] = i;
        }
    }
    while (low > 0 && high < c->count) {
        uint32_t small = order[--low];
        uint32_t large = order[high];
        c->columns[small] = (struct choice_column){(uint32_t)(heights[small] * 0x1p32), large};
        heights[large] -= 1 - heights[small];
        if (heights[large] < 1) {
            high++;
            order[low++] = large;
        }
    }
    /* What is left has the height 1 but for rounding. */
    while (low > 0) {
        uint32_t i = order[--low];
        c->columns[i] = (struct choice_column){UINT32_MAX, i};
    }
    for (; high < c->count; high++) {
        uint32_t i = order[high];
        c->columns[i] = (struct choice_column){UINT32_MAX, i};
    }
}

int choice_init(struct choice *c, const double *weights, uint32_t count)
{
    double sum = 0;
    assert(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        assert(isfinite(weights[i]) && weights[i] >= 0);
        sum += weights[i];
    }
    assert(sum > 0);
    *c = (struct choice){.count = count};
    c->columns = calloc(count, sizeof(*c->columns));
    double *heights = calloc(count, sizeof(*heights));
    uint32_t *order = calloc(count, sizeof(*order));
    int err = -ENOMEM;
    if (c->columns != NULL && heights != NULL && order != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            heights[i] = weights[i] / sum * count;
        }
        fill_columns(c, heights, order);
        err = 0;
    } else {
        choice_fini(c);
    }
    free(heights);
    free(order);
    return err;
}

int choice_init_zipf(struct choice *c, uint32_t count, double exponent)
{
    double *weights = calloc(count, sizeof(*weights));
    *c = (struct choice){0};
    if (weights == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        weights[i] = pow(i + 1, -exponent);
    }
    int err = choice_init(c, weights, count);
    free(weights);
    return err;
}

void choice_fini(struct choice *c)
{
    free(c->columns);
    *c = (struct choice){0};
}

uint32_t choice_pick(const struct choice *c, uint64_t random)
{
    uint32_t i = (uint32_t)((random >> 32) * c->count >> 32);
    const struct choice_column *column = &c->columns[i];
    return (uint32_t)random < column->own ? i : column->other;
}
