/* Private keys for tests; the first two are made anew for each program, the last is RFC 8463's. */
#ifndef TESTS_UNIT_DKIM_KEYS_H
#define TESTS_UNIT_DKIM_KEYS_H

#include "base/buf.h"

#include <openssl/evp.h>

/* Append a key as PEM; fails the test when there is none. passphrase: NULL for none */
void dkim_keys_put(EVP_PKEY *pkey, const char *passphrase, struct buf *out);
/* An RSA key of so many bits. */
void dkim_keys_put_rsa(unsigned bits, struct buf *out);
/* An RSA key whose public half is that of another key. */
void dkim_keys_put_mismatched(struct buf *out);
/* The Ed25519 key of RFC 8463 appendix A.2; its public key is
 * 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= */
void dkim_keys_put_published(struct buf *out);

#endif
