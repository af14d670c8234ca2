/* What a test around a bare scheduler core brings: numbers at random, and memory. */
#ifndef TESTS_SIM_CORE_SHELL_H
#define TESTS_SIM_CORE_SHELL_H

#include "tests/chance.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Below `below`, by the state of an xorshift generator, which is never 0. */
static inline uint32_t core_shell_draw(uint64_t *random, uint32_t below)
{
    return (uint32_t)(chance_next(random) >> 33) % below;
}

/* The core's hooks for memory; ctx is not looked at. */
static inline void *core_shell_allocate(void *ctx, size_t size)
{
    return malloc(size);
}

static inline void core_shell_release(void *ctx, void *obj)
{
    free(obj);
}

static inline void core_shell_release_hosts(void *ctx, void *hosts)
{
}

#endif
