/* The record that publishes a key, TXT of SELECTOR._domainkey.DOMAIN (RFC 6376 section 3.6.1), beside
 * the key that is to sign: would a receiver verify its signatures?
 *
 * Pure: texts in, values out; views of the texts. */
#ifndef NET_DKIM_RECORD_H
#define NET_DKIM_RECORD_H

#include "base/attr.h"
#include "base/slice.h"
#include "net/dkim/dkim_key.h"

#include <stdbool.h>
#include <stdint.h>

enum dkim_record_verdict {
    DKIM_RECORD_FITS,
    DKIM_RECORD_MISSING,  /* no TXT is a record of DKIM */
    DKIM_RECORD_SEVERAL,  /* receivers may take any of them (section 3.6.2.2) */
    DKIM_RECORD_SYNTAX,   /* receivers ignore it */
    DKIM_RECORD_REVOKED,  /* p= is empty */
    DKIM_RECORD_KEY_TYPE, /* k= is another */
    DKIM_RECORD_KEY,      /* p= is another key */
    DKIM_RECORD_HASH,     /* h= does not allow sha256 */
    DKIM_RECORD_SERVICE,  /* s= does not allow mail */
    DKIM_RECORD_VERDICT_COUNT
};
/* What is wrong, for people; static. */
const char *dkim_record_verdict_text(enum dkim_record_verdict verdict) NONNULL_RET;

struct dkim_record {
    struct slice key_type, key, hashes, services; /* k=, p=, h=, s=; "" where it is not there */
    bool is_testing;                              /* t=y: receivers may ignore the signature */
};

/* errors   ERR_MISSING: the text is no record of DKIM, ERR_SYNTAX: one that receivers ignore */
MUST_USE int dkim_record_parse(struct slice text, struct dkim_record *ret);

/* Judge what is published at the key's name.
 *
 * texts    each TXT record with its strings joined
 * ret      the record that was judged; unset with MISSING, SEVERAL and SYNTAX */
enum dkim_record_verdict dkim_record_judge(const struct slice *texts, uint32_t count,
                                           const struct dkim_key *key, struct dkim_record *ret);

#endif
