/* Keys of libcrypto. A context that is ready to sign is made with the key, as libcrypto looks up what it
 * needs by names for that, which takes as long as a tenth of an Ed25519 signature. Each signature is
 * made by a copy of it, so that threads share nothing but the key and that context, which libcrypto
 * only reads.
 * Called by who reads the configuration, and by dkim_signature.c. */
#include "net/dkim/dkim_key.h"

#include "base/error.h"
#include "net/base64.h"

#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdlib.h>

struct dkim_key {
    EVP_PKEY *pkey;
    enum dkim_algorithm algorithm;
    EVP_PKEY_CTX *rsa;   /* ready to sign, never used itself; NULL: of the other algorithm */
    EVP_MD_CTX *ed25519; /* the same */
    EVP_MD *sha256;      /* looked up once, as the contexts are */
    char *text;          /* of the public key, base64 */
    size_t text_len;
};

const char *dkim_key_problem_text(enum dkim_key_problem problem)
{
    static const char *const texts[DKIM_KEY_PROBLEM_COUNT] = {
        [DKIM_KEY_FINE] = "it is a key that can sign",
        [DKIM_KEY_NOT_PEM] = "no private key in PEM is in it; \"openssl genpkey -algorithm RSA "
                             "-pkeyopt rsa_keygen_bits:2048\" makes one",
        [DKIM_KEY_ENCRYPTED] = "the key has a passphrase, which nobody could enter; write it "
                               "without one by \"openssl pkey\", readable by the daemon alone",
        [DKIM_KEY_TYPE] = "it is neither an RSA nor an Ed25519 key",
        [DKIM_KEY_SHORT] = "an RSA key of less than 1024 bits is refused by receivers (RFC 8301); "
                           "2048 bits are right",
        [DKIM_KEY_LONG] = "an RSA key of more than 4096 bits need not be verified by receivers "
                          "(RFC 8301); 2048 bits are right",
        [DKIM_KEY_MISMATCH] = "its private and its public half do not belong together, so nobody "
                              "could verify what it signs; write the key as it was made",
    };
    return texts[problem];
}

/* Called when a key has a passphrase: there is none to be had. */
static int refuse_passphrase(char *text, int size, int is_writing, void *asked)
{
    (void)text;
    (void)size;
    (void)is_writing;
    *(bool *)asked = true;
    return -1;
}

static enum dkim_key_problem judge(EVP_PKEY *pkey, enum dkim_algorithm *ret)
{
    int type = EVP_PKEY_get_base_id(pkey);
    if (type == EVP_PKEY_ED25519) {
        *ret = DKIM_ED25519_SHA256;
        return DKIM_KEY_FINE;
    }
    if (type != EVP_PKEY_RSA) {
        return DKIM_KEY_TYPE;
    }
    *ret = DKIM_RSA_SHA256;
    unsigned bits = (unsigned)EVP_PKEY_get_bits(pkey);
    if (bits < DKIM_RSA_BITS_MIN) {
        return DKIM_KEY_SHORT;
    }
    return bits > DKIM_RSA_BITS_MAX ? DKIM_KEY_LONG : DKIM_KEY_FINE;
}

static EVP_PKEY *read_pem(struct slice pem, enum dkim_key_problem *ret_problem)
{
    bool asked = false;
    BIO *bio = BIO_new_mem_buf(pem.data, pem.len > INT32_MAX ? INT32_MAX : (int)pem.len);
    EVP_PKEY *pkey =
        bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, refuse_passphrase, &asked);
    BIO_free(bio);
    ERR_clear_error();
    if (pkey == NULL) {
        *ret_problem = asked ? DKIM_KEY_ENCRYPTED : DKIM_KEY_NOT_PEM;
    }
    return pkey;
}

/* RFC 8463 section 4.2: of Ed25519 the bare 32 bytes; RFC 6376 section 3.6.1: of RSA the
 * SubjectPublicKeyInfo, which is what everybody publishes. */
static int export_public(struct dkim_key *k)
{
    unsigned char raw[32], *der = NULL;
    size_t raw_len = sizeof(raw);
    struct slice bytes = {NULL, 0};
    if (k->algorithm == DKIM_ED25519_SHA256) {
        if (EVP_PKEY_get_raw_public_key(k->pkey, raw, &raw_len) == 1) {
            bytes = slice_make((const char *)raw, raw_len);
        }
    } else {
        int len = i2d_PUBKEY(k->pkey, &der);
        bytes = slice_make((const char *)der, len > 0 ? (size_t)len : 0);
    }
    k->text = bytes.len == 0 ? NULL : malloc(BASE64_ENCODED_LEN(bytes.len));
    if (k->text != NULL) {
        k->text_len = base64_encode(bytes, k->text);
    }
    OPENSSL_free(der);
    return k->text == NULL ? -ENOMEM : 0;
}

/* --- signatures ------------------------------------------------------------------------------- */

static int make_ready(struct dkim_key *k)
{
    bool is_ready = false;
    k->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (k->algorithm == DKIM_RSA_SHA256) {
        k->rsa = EVP_PKEY_CTX_new(k->pkey, NULL);
        is_ready = k->rsa != NULL && EVP_PKEY_sign_init(k->rsa) == 1 &&
                   EVP_PKEY_CTX_set_rsa_padding(k->rsa, RSA_PKCS1_PADDING) == 1 &&
                   EVP_PKEY_CTX_set_signature_md(k->rsa, EVP_sha256()) == 1;
    } else {
        k->ed25519 = EVP_MD_CTX_new();
        is_ready =
            k->ed25519 != NULL && EVP_DigestSignInit(k->ed25519, NULL, NULL, NULL, k->pkey) == 1;
    }
    return is_ready && k->sha256 != NULL ? 0 : -ENOMEM;
}

int dkim_key_hash(const struct dkim_key *k, struct slice text, uint8_t ret[DKIM_HASH_BYTES])
{
    return EVP_Digest(text.data, text.len, ret, NULL, k->sha256, NULL) == 1 ? 0 : -ENOMEM;
}

static bool sign_rsa(const struct dkim_key *k, const uint8_t *hash, uint8_t *ret, size_t *ret_len)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_dup(k->rsa);
    bool is_signed = ctx != NULL && EVP_PKEY_sign(ctx, ret, ret_len, hash, DKIM_HASH_BYTES) == 1;
    EVP_PKEY_CTX_free(ctx);
    return is_signed;
}

/* RFC 8463 section 3: what Ed25519 signs is the hash, not what was hashed. */
static bool sign_ed25519(const struct dkim_key *k, const uint8_t *hash, uint8_t *ret,
                         size_t *ret_len)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool is_signed = ctx != NULL && EVP_MD_CTX_copy_ex(ctx, k->ed25519) == 1 &&
                     EVP_DigestSign(ctx, ret, ret_len, hash, DKIM_HASH_BYTES) == 1;
    EVP_MD_CTX_free(ctx);
    return is_signed;
}

int dkim_key_sign(const struct dkim_key *k, const uint8_t hash[DKIM_HASH_BYTES], uint8_t *ret,
                  size_t *ret_len)
{
    *ret_len = DKIM_SIGNATURE_MAX;
    bool is_signed = k->algorithm == DKIM_RSA_SHA256 ? sign_rsa(k, hash, ret, ret_len)
                                                     : sign_ed25519(k, hash, ret, ret_len);
    if (!is_signed) {
        ERR_clear_error();
        return -ENOMEM;
    }
    assert(*ret_len <= DKIM_SIGNATURE_MAX);
    return 0;
}

/* Whether both halves belong together: a signature is made, and verified by the public half. */
static bool is_one_key(const struct dkim_key *k)
{
    static const uint8_t hash[DKIM_HASH_BYTES] = {1};
    uint8_t signature[DKIM_SIGNATURE_MAX];
    size_t len = 0;
    bool fits = false;
    if (dkim_key_sign(k, hash, signature, &len) != 0) {
        return false;
    }
    if (k->algorithm == DKIM_ED25519_SHA256) {
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        fits = ctx != NULL && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
               EVP_DigestVerify(ctx, signature, len, hash, sizeof(hash)) == 1;
        EVP_MD_CTX_free(ctx);
    } else {
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(k->pkey, NULL);
        fits = ctx != NULL && EVP_PKEY_verify_init(ctx) == 1 &&
               EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1 &&
               EVP_PKEY_CTX_set_signature_md(ctx, EVP_sha256()) == 1 &&
               EVP_PKEY_verify(ctx, signature, len, hash, sizeof(hash)) == 1;
        EVP_PKEY_CTX_free(ctx);
    }
    ERR_clear_error();
    return fits;
}

/* --- life ------------------------------------------------------------------------------------- */

int dkim_key_read(struct slice pem, struct dkim_key **ret, enum dkim_key_problem *ret_problem)
{
    struct dkim_key *k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return -ENOMEM;
    }
    enum dkim_key_problem problem = DKIM_KEY_FINE;
    k->pkey = read_pem(pem, &problem);
    if (k->pkey != NULL) {
        problem = judge(k->pkey, &k->algorithm);
    }
    int err = problem == DKIM_KEY_FINE ? make_ready(k) : ERR_SYNTAX;
    if (err == 0 && !is_one_key(k)) {
        problem = DKIM_KEY_MISMATCH;
        err = ERR_SYNTAX;
    }
    err = err == 0 ? export_public(k) : err;
    if (err != 0) {
        *ret_problem = problem;
        dkim_key_free(k);
        return err;
    }
    *ret = k;
    return 0;
}

void dkim_key_free(struct dkim_key *k)
{
    if (k != NULL) {
        EVP_PKEY_CTX_free(k->rsa);
        EVP_MD_CTX_free(k->ed25519);
        EVP_MD_free(k->sha256);
        EVP_PKEY_free(k->pkey);
        free(k->text);
        free(k);
    }
}

enum dkim_algorithm dkim_key_algorithm(const struct dkim_key *k)
{
    return k->algorithm;
}

unsigned dkim_key_bits(const struct dkim_key *k)
{
    return (unsigned)EVP_PKEY_get_bits(k->pkey);
}

const char *dkim_algorithm_text(enum dkim_algorithm algorithm)
{
    return algorithm == DKIM_RSA_SHA256 ? "rsa-sha256" : "ed25519-sha256";
}

const char *dkim_algorithm_key_type(enum dkim_algorithm algorithm)
{
    return algorithm == DKIM_RSA_SHA256 ? "rsa" : "ed25519";
}

struct slice dkim_key_public(const struct dkim_key *k)
{
    return slice_make(k->text, k->text_len);
}

void dkim_key_put_record(const struct dkim_key *k, struct buf *out)
{
    buf_append_str(out, "v=DKIM1; k=");
    buf_append_str(out, dkim_algorithm_key_type(k->algorithm));
    buf_append_str(out, "; p=");
    buf_append_slice(out, dkim_key_public(k));
}
