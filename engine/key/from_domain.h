/* The domains that a message says it is from: those of all addresses in its From fields (RFC 5322
 * section 3.6.2). What cannot be read without doubt is refused: whoever signs it would vouch for a
 * sender that a reader sees otherwise. Pure. */
#ifndef ENGINE_FROM_DOMAIN_H
#define ENGINE_FROM_DOMAIN_H

#include "base/attr.h"
#include "base/slice.h"

#include <stddef.h>

struct dkim_header;

#define FROM_DOMAIN_BYTES 253 /* of a name in the DNS */
#define FROM_DOMAINS_MAX  16  /* different ones in a message that is signed */

struct from_domains {
    struct slice names[FROM_DOMAINS_MAX]; /* lower case, A-labels, each once; views of `text` */
    size_t count;
    size_t used; /* bytes of text */
    char text[FROM_DOMAINS_MAX * FROM_DOMAIN_BYTES];
};

/* errors   ERR_MISSING: it has no From, or none with an address; ERR_SYNTAX: there is doubt about an
 *          address, or it has no domain name; ERR_LIMIT: too many domains. *ret is unset then */
MUST_USE int from_domains_read(const struct dkim_header *header, struct from_domains *ret);

#endif
