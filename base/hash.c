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
#include <xxh_x86dispatch.h>
#else
#define XXH3_64bits_dispatch XXH3_64bits
#endif

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hash_checksum(const void *data, size_t len)
{
    return XXH3_64bits_dispatch(data, len);
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
