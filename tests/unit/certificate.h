/* Certificates made on the spot for tests of TLS: a root, and leaves that it signs. */
#ifndef TESTS_UNIT_CERTIFICATE_H
#define TESTS_UNIT_CERTIFICATE_H

struct certificate;

/* names: subjectAltName as "DNS:a.example,IP:127.0.0.1", or NULL for none; issuer NULL:
 * self-signed, a root. Aborts when the library fails. */
struct certificate *certificate_new(const char *common_name, const char *names,
                                    const struct certificate *issuer);
/* As above with an RSA key of this many bits instead of P-256. */
struct certificate *certificate_new_rsa(const char *common_name, const char *names,
                                        const struct certificate *issuer, unsigned bits);
void certificate_free(struct certificate *c);
/* PEM files; passphrase NULL: not encrypted. */
void certificate_save(const struct certificate *c, const char *path);
void certificate_save_key(const struct certificate *c, const char *path, const char *passphrase);

#endif
