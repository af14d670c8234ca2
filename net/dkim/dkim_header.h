/* The header of a message as DKIM sees it: fields in their order, found by name from the last to the
 * first (RFC 6376 section 5.4.2), in one of the two canonical forms (sections 3.4.1 and 3.4.2).
 *
 * Pure: bytes in, views and bytes out; one owner, any thread. */
#ifndef NET_DKIM_HEADER_H
#define NET_DKIM_HEADER_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "net/dkim/dkim_body.h"

#include <stddef.h>
#include <stdint.h>

struct dkim_field {
    struct slice text; /* the whole field with its folds, without the CRLF at its end */
    size_t name_len;   /* without the white space that may stand before the colon */
};

struct dkim_header {
    struct dkim_field *fields; /* in the order of the message */
    size_t count;
    bool has_stray; /* a line was left out */
    uint64_t kinds; /* bits of dkim_name_kind: of the names that are there */
};

/* The fields of a header. Lines that belong to no field, as no colon is in them or white space in the
 * name, are left out: they cannot be signed.
 *
 * text     up to the empty line or with it; fields are views of it
 * errors   -ENOMEM; ERR_LIMIT: more than DKIM_FIELDS_MAX fields */
#define DKIM_FIELDS_MAX 10000U
MUST_USE int dkim_header_parse(struct slice text, struct dkim_header *ret);
void dkim_header_fini(struct dkim_header *h); /* accepts a zeroed one */

/* Whether two names are the same, in any case. Most that are compared are not: that shows in the length
 * or in the first letter. An empty one is no name. */
static inline bool dkim_is_same_name(struct slice a, struct slice b)
{
    return a.len == b.len && a.len > 0 && ((a.data[0] ^ b.data[0]) & ~0x20) == 0 && slice_ieq(a, b);
}

/* A bit for names of a length and a first letter, in any case: most names that are looked for are not there,
 * and that is all that is looked at then. 0: an empty one, which is no name. */
static inline uint64_t dkim_name_kind(struct slice name)
{
    return name.len == 0 ? 0 : 1ULL << ((name.len * 7 + (size_t)(name.data[0] | 0x20)) & 63);
}

/* Whether fields of that name can be there. */
static inline bool dkim_header_may_have(const struct dkim_header *h, struct slice name)
{
    return (h->kinds & dkim_name_kind(name)) != 0;
}

/* How many fields have that name, in any case. */
size_t dkim_header_count(const struct dkim_header *h, struct slice name);
/* The place of the next field of that name above place `below`, which is the header's count for the
 * first from the bottom; DKIM_NO_FIELD: there is none. */
#define DKIM_NO_FIELD SIZE_MAX
size_t dkim_header_find_above(const struct dkim_header *h, struct slice name, size_t below);

/* Append the canonical form of a field, without an end of line. */
void dkim_field_put(const struct dkim_field *field, enum dkim_canon canon, struct buf *out);

#endif
