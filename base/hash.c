/* XXH3 behind two names: one keyed, for tables of names that strangers chose, and one unkeyed, for
 * checksums that other machines must be able to repeat. Whole records are summed with the widest
 * instructions of the processor, which changes the time and not the sum. */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>
#if defined(__x86_64__)
#define XXH_DISPATCH_DISABLE_REPLACE /* names are short, and the choice costs them more than it gives */
#include <immintrin.h>
#include <xxh_x86dispatch.h>

/* libxxhash (0.8.1) returns with the upper halves of the vector registers in use. In that state each
 * change between SSE code (all of ours) and AVX code (the C library's memcpy) takes more than a hundred
 * cycles on some processors of Intel (docs/benchmarks.md), and a new thread inherits it. */
__attribute__((target("avx"))) static void free_upper_halves(void)
{
    _mm256_zeroupper();
}

static uint64_t sum_widely(const void *data, size_t len)
{
    uint64_t sum = XXH3_64bits_dispatch(data, len);
    if (__builtin_cpu_supports("avx")) {
        free_upper_halves();
    }
    return sum;
}
#else
#define sum_widely XXH3_64bits
#endif

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hash_checksum(const void *data, size_t len)
{
    return sum_widely(data, len);
}

uint64_t hash_random_seed(void)
{
    uint64_t seed;
    ssize_t got;
    do {
        got = getrandom(&seed, sizeof(seed), 0);
    } while (got < 0 && errno == EINTR);
    /* Up to 256 bytes come whole once the kernel's pool is ready. */
    if (got != (ssize_t)sizeof(seed)) {
        abort();
    }
    return seed;
}
