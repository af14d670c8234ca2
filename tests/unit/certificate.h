/* Certificates made on the spot for tests of TLS: a root, and leaves that it signs. */
#ifndef TESTS_UNIT_CERTIFICATE_H
#define TESTS_UNIT_CERTIFICATE_H

#include <stddef.h>

struct certificate;

/* names: subjectAltName as "DNS:a.example,IP:127.0.0.1", or NULL for none; issuer NULL:
 * self-signed, a root. Aborts when the library fails. */
struct certificate *certificate_new(const char *common_name, const char *names,
                                    const struct certificate *issuer);
/* As above with an RSA key of this many bits instead of P-256. */
struct certificate *certificate_new_rsa(const char *common_name, const char *names,
                                        const struct certificate *issuer, unsigned bits);
void certificate_free(struct certificate *c);
/* Its validity ends `days` from now. */
void certificate_end(struct certificate *c, const struct certificate *issuer, int days);
/* RDATA of TLSA without its head: selector 0 or 1, matching type 0 or 1. returns: bytes */
size_t certificate_tlsa(const struct certificate *c, int selector, int matching,
                        unsigned char ret[static 2048]);
/* PEM files; passphrase NULL: not encrypted. */
void certificate_save(const struct certificate *c, const char *path);
void certificate_save_key(const struct certificate *c, const char *path, const char *passphrase);

#endif
