/* The hash of a message's body as DKIM signs it (RFC 6376 sections 3.4 and 3.7), made while the body
 * arrives in pieces of any size.
 *
 * Pure but for libcrypto's SHA-256; one owner, any thread. The body is what is behind the empty line
 * that ends the header, in the form that the receiver will see: lines end with CRLF, no dots are
 * stuffed. A CR or LF alone is a byte like any other. */
#ifndef NET_DKIM_BODY_H
#define NET_DKIM_BODY_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define DKIM_HASH_BYTES 32 /* SHA-256 */

/* How much of a message's form may change on its way without breaking the signature. */
enum dkim_canon {
    DKIM_SIMPLE,  /* nothing: sections 3.4.1 and 3.4.3 */
    DKIM_RELAXED, /* white space and the case of field names: sections 3.4.2 and 3.4.4 */
};

/* White space that the relaxed forms reduce (section 2.8, WSP). */
static inline bool dkim_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* How many bytes of a text stand for themselves in the relaxed forms, as no white space is in them but
 * single spaces between other bytes. The first is taken for such a byte, whatever it is; a space at the end of the text
 * is left out, as what follows it decides. */
size_t dkim_plain_len(struct slice text);

struct dkim_body {
    /* Set at creation. */
    enum dkim_canon canon;
    void *digest; /* EVP_MD_CTX */
    /* Where the body has come to. */
    uint64_t breaks; /* ends of lines that are not hashed yet: they count if anything follows */
    bool has_space;  /* white space, which counts if more of the line follows */
    bool has_cr;     /* a CR, which is part of a line's end or a byte of its own */
    bool is_begun;   /* something of the body was hashed */
    bool has_failed; /* libcrypto refused */
    uint16_t staged_len;
    char staged[512]; /* to be hashed; long runs are hashed where they are */
};

/* errors: -ENOMEM */
MUST_USE int dkim_body_init(struct dkim_body *b, enum dkim_canon canon);
void dkim_body_fini(struct dkim_body *b); /* accepts a zeroed one */
/* The next piece, of any size. */
void dkim_body_update(struct dkim_body *b, struct slice piece);
/* The body is at its end; only dkim_body_fini may follow.
 *
 * errors   -ENOMEM: libcrypto refused at some time */
MUST_USE int dkim_body_finish(struct dkim_body *b, uint8_t ret_hash[DKIM_HASH_BYTES]);

#endif
