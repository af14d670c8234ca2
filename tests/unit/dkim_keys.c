/* Keys made by libcrypto. */
#include "tests/unit/dkim_keys.h"

#include "net/base64.h"
#include "tests/unit/unit.h"

#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

void dkim_keys_put(EVP_PKEY *pkey, const char *passphrase, struct buf *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    assert_non_null(pkey);
    assert_non_null(bio);
    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(
                         bio, pkey, passphrase == NULL ? NULL : EVP_aes_256_cbc(), passphrase,
                         passphrase == NULL ? 0 : (int)strlen(passphrase), NULL, NULL),
                     1);
    char *text;
    long len = BIO_get_mem_data(bio, &text);
    buf_append(out, text, (size_t)len);
    assert_false(out->failed);
    BIO_free(bio);
}

void dkim_keys_put_rsa(unsigned bits, struct buf *out)
{
    EVP_PKEY *pkey = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    /* Primes of 2,048 bits would take seconds to find: a long key has four. */
    assert_int_equal(EVP_PKEY_keygen_init(ctx), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, (int)bits), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_keygen_primes(ctx, bits < 4096 ? 2 : 4), 1);
    assert_int_equal(EVP_PKEY_generate(ctx, &pkey), 1);
    dkim_keys_put(pkey, NULL, out);
    EVP_PKEY_free(pkey);
    EVP_PKEY_CTX_free(ctx);
}

static BIGNUM *number_of(EVP_PKEY *pkey, const char *name)
{
    BIGNUM *number = NULL;
    assert_int_equal(EVP_PKEY_get_bn_param(pkey, name, &number), 1);
    return number;
}

void dkim_keys_put_mismatched(struct buf *out)
{
    static const char *const names[] = {
        OSSL_PKEY_PARAM_RSA_N,         OSSL_PKEY_PARAM_RSA_E,
        OSSL_PKEY_PARAM_RSA_D,         OSSL_PKEY_PARAM_RSA_FACTOR1,
        OSSL_PKEY_PARAM_RSA_FACTOR2,   OSSL_PKEY_PARAM_RSA_EXPONENT1,
        OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    EVP_PKEY *public = EVP_RSA_gen(1024), *private = EVP_RSA_gen(1024), *mixed = NULL;
    BIGNUM *numbers[COUNT];
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = number_of(i == 0 ? public : private, names[i]);
        assert_int_equal(OSSL_PARAM_BLD_push_BN(build, names[i], numbers[i]), 1);
    }
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    assert_int_equal(EVP_PKEY_fromdata_init(ctx), 1);
    assert_int_equal(EVP_PKEY_fromdata(ctx, &mixed, EVP_PKEY_KEYPAIR, params), 1);
    dkim_keys_put(mixed, NULL, out);
    for (size_t i = 0; i < COUNT; i++) {
        BN_clear_free(numbers[i]);
    }
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_free(mixed);
    EVP_PKEY_free(public);
    EVP_PKEY_free(private);
}

void dkim_keys_put_published(struct buf *out)
{
    unsigned char raw[33];
    size_t len;
    assert_int_equal(base64_decode(SLICE("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="), raw,
                                   sizeof(raw), &len),
                     0);
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, raw, len);
    dkim_keys_put(pkey, NULL, out);
    EVP_PKEY_free(pkey);
}
