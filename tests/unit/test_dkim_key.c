/* Keys that sign, and those that are refused with the reason. */
#include "base/error.h"
#include "net/dkim/dkim_key.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/unit.h"

#include <openssl/ec.h>
#include <openssl/rsa.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static struct dkim_key *read_key(const struct buf *pem)
{
    struct dkim_key *k = NULL;
    enum dkim_key_problem problem = DKIM_KEY_FINE;
    assert_int_equal(dkim_key_read(buf_slice(pem), &k, &problem), 0);
    return k;
}

static void expect_problem(struct slice pem, enum dkim_key_problem wanted)
{
    struct dkim_key *k = NULL;
    enum dkim_key_problem problem = DKIM_KEY_FINE;
    assert_int_equal(dkim_key_read(pem, &k, &problem), ERR_SYNTAX);
    assert_int_equal(problem, wanted);
    assert_true(strlen(dkim_key_problem_text(problem)) > 10);
}

/* RFC 8463 appendix A.2. */
static void the_published_key_has_its_record(void **state)
{
    struct buf pem, record;
    buf_init(&pem, 0);
    buf_init(&record, 0);
    dkim_keys_put_published(&pem);
    struct dkim_key *k = read_key(&pem);
    assert_int_equal(dkim_key_algorithm(k), DKIM_ED25519_SHA256);
    dkim_key_put_record(k, &record);
    assert_true(
        slice_eq(buf_slice(&record), SLICE("v=DKIM1; k=ed25519; "
                                           "p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")));
    dkim_key_free(k);
    buf_fini(&record);
    buf_fini(&pem);
}

static void lengths_of_rsa_keys_are_bounded(void **state)
{
    static const struct {
        unsigned bits;
        enum dkim_key_problem problem;
    } rows[] = {{512, DKIM_KEY_SHORT},
                {1023, DKIM_KEY_SHORT},
                {1024, DKIM_KEY_FINE},
                {4096, DKIM_KEY_FINE},
                {4097, DKIM_KEY_LONG}};
    struct buf pem;
    buf_init(&pem, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&pem);
        dkim_keys_put_rsa(rows[i].bits, &pem);
        if (rows[i].problem == DKIM_KEY_FINE) {
            struct dkim_key *k = read_key(&pem);
            assert_int_equal(dkim_key_bits(k), rows[i].bits);
            assert_string_equal(dkim_algorithm_text(dkim_key_algorithm(k)), "rsa-sha256");
            dkim_key_free(k);
        } else {
            expect_problem(buf_slice(&pem), rows[i].problem);
        }
    }
    buf_fini(&pem);
}

static void what_is_no_key_is_named(void **state)
{
    struct buf pem;
    buf_init(&pem, 0);
    expect_problem(SLICE(""), DKIM_KEY_NOT_PEM);
    expect_problem(SLICE("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
                   DKIM_KEY_NOT_PEM);
    EVP_PKEY *pkey = EVP_RSA_gen(1024);
    dkim_keys_put(pkey, "secret", &pem);
    expect_problem(buf_slice(&pem), DKIM_KEY_ENCRYPTED);
    EVP_PKEY_free(pkey);
    buf_clear(&pem);
    pkey = EVP_EC_gen("P-256");
    dkim_keys_put(pkey, NULL, &pem);
    expect_problem(buf_slice(&pem), DKIM_KEY_TYPE);
    EVP_PKEY_free(pkey);
    buf_clear(&pem);
    dkim_keys_put_mismatched(&pem);
    expect_problem(buf_slice(&pem), DKIM_KEY_MISMATCH);
    buf_fini(&pem);
}

/* More threads than processors. */
enum { SIGNERS = 20, ROUNDS = 40 };

struct company {
    struct dkim_key *keys[2];
    uint8_t hashes[ROUNDS][DKIM_HASH_BYTES];
    uint8_t wanted[2][ROUNDS][DKIM_SIGNATURE_MAX]; /* by one thread alone */
    size_t lens[2][ROUNDS];
    _Atomic unsigned different;
};

static void *sign_in_company(void *arg)
{
    struct company *c = arg;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t k = 0; k < 2; k++) {
            uint8_t signature[DKIM_SIGNATURE_MAX];
            size_t len = 0;
            bool is_same = dkim_key_sign(c->keys[k], c->hashes[round], signature, &len) == 0 &&
                           len == c->lens[k][round] &&
                           memcmp(signature, c->wanted[k][round], len) == 0;
            atomic_fetch_add(&c->different, !is_same);
        }
    }
    return NULL;
}

/* Signatures of both algorithms are the same whenever they are made. */
static void many_threads_sign_by_the_same_keys(void **state)
{
    struct buf pem[2];
    struct company c = {.different = 0};
    pthread_t threads[SIGNERS];
    for (size_t k = 0; k < 2; k++) {
        buf_init(&pem[k], 0);
    }
    dkim_keys_put_rsa(1024, &pem[0]);
    dkim_keys_put_published(&pem[1]);
    for (size_t k = 0; k < 2; k++) {
        c.keys[k] = read_key(&pem[k]);
        for (size_t round = 0; round < ROUNDS; round++) {
            memset(c.hashes[round], (int)round, DKIM_HASH_BYTES);
            assert_int_equal(
                dkim_key_sign(c.keys[k], c.hashes[round], c.wanted[k][round], &c.lens[k][round]),
                0);
        }
    }
    for (size_t i = 0; i < SIGNERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sign_in_company, &c), 0);
    }
    for (size_t i = 0; i < SIGNERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(c.different, 0);
    for (size_t k = 0; k < 2; k++) {
        dkim_key_free(c.keys[k]);
        buf_fini(&pem[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_key_has_its_record),
        cmocka_unit_test(lengths_of_rsa_keys_are_bounded),
        cmocka_unit_test(what_is_no_key_is_named),
        cmocka_unit_test(many_threads_sign_by_the_same_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
