/* A private key that signs for one name in the DNS, SELECTOR._domainkey.DOMAIN (RFC 6376, RFC 8301,
 * RFC 8463).
 *
 * Immutable once made: any number of threads may sign with it at once. Shell around libcrypto's keys;
 * nothing here reads files or the DNS. */
#ifndef NET_DKIM_KEY_H
#define NET_DKIM_KEY_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "net/dkim/dkim_body.h"

#include <stddef.h>
#include <stdint.h>

/* Bits of an RSA key: what receivers must be able to verify (RFC 8301 section 3.2). */
#define DKIM_RSA_BITS_MIN     1024U
#define DKIM_RSA_BITS_ADVISED 2048U
#define DKIM_RSA_BITS_MAX     4096U
#define DKIM_SIGNATURE_MAX    (DKIM_RSA_BITS_MAX / 8) /* bytes */

enum dkim_algorithm { DKIM_RSA_SHA256, DKIM_ED25519_SHA256 };

enum dkim_key_problem {
    DKIM_KEY_FINE,
    DKIM_KEY_NOT_PEM,   /* no private key in PEM is in it */
    DKIM_KEY_ENCRYPTED, /* by a passphrase */
    DKIM_KEY_TYPE,      /* neither RSA nor Ed25519 */
    DKIM_KEY_SHORT,     /* less than DKIM_RSA_BITS_MIN */
    DKIM_KEY_LONG,      /* more than DKIM_RSA_BITS_MAX */
    DKIM_KEY_MISMATCH,  /* its public half is that of another key */
    DKIM_KEY_PROBLEM_COUNT
};
/* What is wrong and what would be right, for people; static. */
const char *dkim_key_problem_text(enum dkim_key_problem problem) NONNULL_RET;

struct dkim_key;

/* The key in a PEM text (PKCS #8, or PKCS #1 of RSA).
 *
 * ret_problem   set whenever ERR_SYNTAX is returned
 * errors        ERR_SYNTAX: the text is no such key; -ENOMEM */
MUST_USE int dkim_key_read(struct slice pem, struct dkim_key **ret,
                           enum dkim_key_problem *ret_problem);
void dkim_key_free(struct dkim_key *k); /* accepts NULL */

enum dkim_algorithm dkim_key_algorithm(const struct dkim_key *k);
unsigned dkim_key_bits(const struct dkim_key *k);
/* As in the tag a= of a signature; static. */
const char *dkim_algorithm_text(enum dkim_algorithm algorithm) NONNULL_RET;
/* As in the tag k= of a record; static. */
const char *dkim_algorithm_key_type(enum dkim_algorithm algorithm) NONNULL_RET;

/* The public key as the tag p= of a record has it, in base64; a view of the key. */
struct slice dkim_key_public(const struct dkim_key *k);
/* The text to be published: "v=DKIM1; k=...; p=...". A DNS server takes it in strings of 255 bytes. */
void dkim_key_put_record(const struct dkim_key *k, struct buf *out);

/* SHA-256, which all algorithms here sign. errors: -ENOMEM */
MUST_USE int dkim_key_hash(const struct dkim_key *k, struct slice text,
                           uint8_t ret[DKIM_HASH_BYTES]);

/* Sign the hash of a header.
 *
 * ret_len  bytes written to ret, which has room for DKIM_SIGNATURE_MAX
 * errors   -ENOMEM: libcrypto refused, for which there is no other reason with a key that was read */
MUST_USE int dkim_key_sign(const struct dkim_key *k, const uint8_t hash[DKIM_HASH_BYTES],
                           uint8_t *ret, size_t *ret_len);

#endif
