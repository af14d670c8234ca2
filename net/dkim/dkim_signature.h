/* The field DKIM-Signature (RFC 6376 section 3.5) that one key makes for a message.
 *
 * Pure but for libcrypto: header, hash of the body, key, terms and time in; one field out. Any thread. */
#ifndef NET_DKIM_SIGNATURE_H
#define NET_DKIM_SIGNATURE_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "net/dkim/dkim_body.h"
#include "net/dkim/dkim_header.h"
#include "net/dkim/dkim_key.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DKIM_NAMES_MAX     128U  /* names of fields in each list of the terms */
#define DKIM_INSTANCES_MAX 1000U /* names in a signature's h= */

struct dkim_terms {
    struct slice domain, selector; /* d= and s=, as they stand in the DNS: A-labels */
    enum dkim_canon header, body;  /* body: the form that the hash was made of */
    /* Names of fields that are signed as often as they are there, and of those that are signed once
     * more than they are there, so that nobody can add one (section 8.15). A name in both lists is
     * of the latter. Names have no space, colon or semicolon. */
    const struct slice *names, *oversigned;
    size_t name_count, oversigned_count; /* at most DKIM_NAMES_MAX each */
    uint64_t signed_at;                  /* Unix time, t=; 0: not said */
    uint64_t expires_at;                 /* Unix time, x=; 0: never */
};

/* What is signed when nothing else is configured: RFC 6376 section 5.4.1, RFC 8058 section 4, and
 * what lists and feedback loops read. */
extern const struct slice dkim_default_names[];
extern const size_t dkim_default_name_count;
extern const struct slice dkim_default_oversigned[];
extern const size_t dkim_default_oversigned_count;

/* Append the field up to the value of b=, which is what the key makes of the hash (dkim_key_sign). Nothing
 * is appended on error. So drafts of several messages can be signed one after the other.
 *
 * ret_hash  what the key signs: of the signed fields and this one
 * errors    ERR_MISSING: the header has no From, which must be signed (section 5.4); ERR_LIMIT: more
 *           than DKIM_INSTANCES_MAX fields would be signed; -ENOMEM */
MUST_USE int dkim_draft(const struct dkim_key *key, const struct dkim_terms *terms,
                        const struct dkim_header *header, const uint8_t body_hash[DKIM_HASH_BYTES],
                        struct buf *out, uint8_t ret_hash[DKIM_HASH_BYTES]);
/* Append what the key made, at most DKIM_SIGNATURE_MAX bytes, to the draft that `out` ends with, and the CRLF. */
void dkim_put_signature(struct slice signature, struct buf *out);

/* What a signature says of the key that made it; empty where it does not say. */
struct dkim_signer {
    struct slice domain, selector, algorithm; /* d=, s=, a= */
};

/* The next signature among whole fields with their line ends; others are passed over.
 *
 * rest     in/out: the fields that were not looked at yet
 * ret      views of the fields
 * returns  false: there is none any more */
MUST_USE bool dkim_signature_next(struct slice *rest, struct dkim_signer *ret);

#endif
