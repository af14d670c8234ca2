/* Numbers at random that a seed decides, the same on every machine: an xorshift generator. For all tests that
 * draw in C; none of it is for secrets. One owner at a time. */
#ifndef TESTS_CHANCE_H
#define TESTS_CHANCE_H

#include <stdint.h>

/* The next number; state: the seed at first, never 0. */
static inline uint64_t chance_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
