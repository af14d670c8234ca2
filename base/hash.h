/* Hashing of bytes that strangers chose (keyed by a seed) and checksums of stored records. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);
/* 64-bit checksum (XXH3) of a stored record; stable across versions and machines. */
uint64_t hash_checksum(const void *data, size_t len);
/* A seed from the kernel; start-up only, aborts when there is none. */
uint64_t hash_random_seed(void);

#endif
