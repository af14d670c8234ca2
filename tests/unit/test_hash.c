#include "base/hash.h"
#include "tests/unit/unit.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Stored records depend on these numbers: they are those of XXH3's specification. */
static void checksums_are_stable(void **state)
{
    assert_true(hash_checksum("", 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(hash_checksum(NULL, 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(hash_checksum("abc", 3) == UINT64_C(0x78af5f94892f3950));
    char record[4301]; /* longer ones are summed in another way */
    for (size_t i = 0; i < sizeof(record); i++) {
        record[i] = (char)(i * 31 >> 3);
    }
    assert_true(hash_checksum(record, sizeof(record)) == UINT64_C(0x06745cc30e6830ac));
    assert_true(hash_checksum(record, 241) == UINT64_C(0xc041ab15d642052f));
}

static void a_checksum_sees_every_bit(void **state)
{
    unsigned char record[300];
    for (size_t i = 0; i < sizeof(record); i++) {
        record[i] = (unsigned char)(i * 7);
    }
    uint64_t whole = hash_checksum(record, sizeof(record));
    for (size_t bit = 0; bit < sizeof(record) * 8; bit++) {
        record[bit / 8] ^= (unsigned char)(1U << bit % 8);
        assert_true(hash_checksum(record, sizeof(record)) != whole);
        record[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
    assert_true(hash_checksum(record, sizeof(record) - 1) != whole);
    assert_true(hash_checksum(record, sizeof(record)) == whole);
}

/* With the upper halves of vector registers in use, all code behind it would be slow (base/hash.c). */
static void no_vector_register_stays_in_use(void **state)
{
#if defined(__x86_64__)
    const unsigned upper_halves = 1U << 2 | 1U << 6; /* of registers 0 to 15: AVX, AVX-512 */
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid_count(13, 1, &eax, &ebx, &ecx, &edx) || (eax & 1U << 2) == 0) {
        skip(); /* this processor does not tell what is in use */
    }
    static const char record[4301];
    for (size_t len = 0; len <= sizeof(record); len += 43) {
        (void)hash_checksum(record, len);
        unsigned in_use, high;
        __asm__ volatile("xgetbv" : "=a"(in_use), "=d"(high) : "c"(1));
        assert_int_equal(in_use & upper_halves, 0);
    }
#else
    skip();
#endif
}

static void the_seed_is_a_key(void **state)
{
    assert_true(hash_bytes("example.com", 11, 1) == hash_bytes("example.com", 11, 1));
    assert_true(hash_bytes("example.com", 11, 1) != hash_bytes("example.com", 11, 2));
    assert_true(hash_bytes("example.com", 11, 1) != hash_bytes("example.net", 11, 1));
    assert_true(hash_bytes("", 0, 1) != hash_bytes("", 0, 2));
}

static void seeds_differ(void **state)
{
    assert_true(hash_random_seed() != hash_random_seed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_stable),
        cmocka_unit_test(a_checksum_sees_every_bit),
        cmocka_unit_test(no_vector_register_stays_in_use),
        cmocka_unit_test(the_seed_is_a_key),
        cmocka_unit_test(seeds_differ),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
