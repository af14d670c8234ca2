/* Test certificates through the library's own API; see the header. */
#include "tests/unit/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct certificate {
    X509 *x509;
    EVP_PKEY *key;
};

static void require(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "certificate: %s\n", what);
        abort();
    }
}

static void add_extension(X509 *x509, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    require(extension != NULL, value);
    require(X509_add_ext(x509, extension, -1) == 1, value);
    X509_EXTENSION_free(extension);
}

static struct certificate *make(const char *common_name, const char *names,
                                const struct certificate *issuer, EVP_PKEY *key)
{
    static long serial = 1;
    struct certificate *c = calloc(1, sizeof(*c));
    require(c != NULL && key != NULL, "memory");
    c->key = key;
    c->x509 = X509_new();
    require(X509_set_version(c->x509, 2), "version");
    require(ASN1_INTEGER_set(X509_get_serialNumber(c->x509), serial++), "serial");
    require(X509_gmtime_adj(X509_getm_notBefore(c->x509), -3600) != NULL, "not before");
    require(X509_gmtime_adj(X509_getm_notAfter(c->x509), 86400) != NULL, "not after");
    require(X509_set_pubkey(c->x509, key), "key");
    X509_NAME *name = X509_get_subject_name(c->x509);
    require(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common_name,
                                       -1, -1, 0),
            "name");
    const X509_NAME *by = issuer == NULL ? name : X509_get_subject_name(issuer->x509);
    require(X509_set_issuer_name(c->x509, by), "issuer");
    add_extension(c->x509, NID_basic_constraints, issuer == NULL ? "critical,CA:TRUE" : "CA:FALSE");
    if (names != NULL) {
        add_extension(c->x509, NID_subject_alt_name, names);
    }
    EVP_PKEY *signer = issuer == NULL ? key : issuer->key;
    require(X509_sign(c->x509, signer, EVP_sha256()) > 0, "signature");
    return c;
}

struct certificate *certificate_new(const char *common_name, const char *names,
                                    const struct certificate *issuer)
{
    return make(common_name, names, issuer, EVP_EC_gen("P-256"));
}

struct certificate *certificate_new_rsa(const char *common_name, const char *names,
                                        const struct certificate *issuer, unsigned bits)
{
    return make(common_name, names, issuer, EVP_RSA_gen(bits));
}

void certificate_free(struct certificate *c)
{
    X509_free(c->x509);
    EVP_PKEY_free(c->key);
    free(c);
}

void certificate_end(struct certificate *c, const struct certificate *issuer, int days)
{
    require(X509_gmtime_adj(X509_getm_notBefore(c->x509), -10L * 86400) != NULL, "not before");
    require(X509_gmtime_adj(X509_getm_notAfter(c->x509), days * 86400L) != NULL, "not after");
    require(X509_sign(c->x509, issuer->key, EVP_sha256()) > 0, "signature");
}

size_t certificate_tlsa(const struct certificate *c, int selector, int matching,
                        unsigned char ret[static 2048])
{
    unsigned char *der = NULL;
    unsigned digest_len = 0;
    int len = selector == 0 ? i2d_X509(c->x509, &der) : i2d_PUBKEY(c->key, &der);
    require(len > 0 && len <= 2048, "DER");
    if (matching == 0) {
        memcpy(ret, der, (size_t)len);
    } else {
        require(EVP_Digest(der, (size_t)len, ret, &digest_len, EVP_sha256(), NULL), "digest");
        len = (int)digest_len;
    }
    OPENSSL_free(der);
    return (size_t)len;
}

void certificate_save(const struct certificate *c, const char *path)
{
    FILE *f = fopen(path, "w");
    require(f != NULL, path);
    require(PEM_write_X509(f, c->x509), path);
    require(fclose(f) == 0, path);
}

void certificate_save_key(const struct certificate *c, const char *path, const char *passphrase)
{
    FILE *f = fopen(path, "w");
    require(f != NULL, path);
    const EVP_CIPHER *cipher = passphrase == NULL ? NULL : EVP_aes_128_cbc();
    int len = passphrase == NULL ? 0 : (int)strlen(passphrase);
    require(PEM_write_PKCS8PrivateKey(f, c->key, cipher, passphrase, len, NULL, NULL), path);
    require(fclose(f) == 0, path);
}
