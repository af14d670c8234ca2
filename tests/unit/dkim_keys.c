/* Keys made by libcrypto. */
#include "tests/unit/dkim_keys.h"

#include "net/base64.h"
#include "tests/unit/unit.h"

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
    EVP_PKEY *pkey = EVP_RSA_gen(bits);
    dkim_keys_put(pkey, NULL, out);
    EVP_PKEY_free(pkey);
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
