/* Keys that sign, and those that are refused with the reason. */
#include "base/error.h"
#include "net/dkim/dkim_key.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/unit.h"

#include <openssl/ec.h>
#include <openssl/rsa.h>
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
    } rows[] = {{512, DKIM_KEY_SHORT}, {1023, DKIM_KEY_SHORT}, {1024, DKIM_KEY_FINE}};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_key_has_its_record),
        cmocka_unit_test(lengths_of_rsa_keys_are_bounded),
        cmocka_unit_test(what_is_no_key_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
