/* Random bits that follow from a seed, a purpose and a number, so that a message looks the same
 * each time it is asked for, in whatever order. Pure. */
#ifndef BENCH_DRAW_H
#define BENCH_DRAW_H

#include <stdint.h>

enum draw_purpose {
    DRAW_ARRIVAL,
    DRAW_DOMAIN,
    DRAW_SIZE,
    DRAW_RECIPIENTS,
    DRAW_TENANT,
};

static inline uint64_t draw_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Element `number` of one of the streams of `seed`.
 * source: SplitMix64 (Steele, Lea, Flood 2014), whose element k is mix(start + k * gamma) */
static inline uint64_t draw_bits(uint64_t seed, enum draw_purpose purpose, uint64_t number)
{
    const uint64_t gamma = 0x9e3779b97f4a7c15ULL;
    uint64_t start = draw_mix(seed * 16 + (uint64_t)purpose + 1);
    return draw_mix(start + number * gamma);
}

/* The upper 32 bits as a number in (0, 1), never an end. */
static inline double draw_uniform(uint64_t bits)
{
    return ((double)(bits >> 32) + 0.5) * 0x1p-32;
}

#endif
