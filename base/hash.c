/* XXH3 behind two names: one keyed, for tables of names that strangers chose, and one unkeyed, for
 * checksums that other machines must be able to repeat. */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hash_checksum(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
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
