/* Mail addresses as SMTP envelopes write them: RFC 5321 paths, with UTF-8 by RFC 6531.
 * Pure; called by the SMTP cores, by intake and by routing. Turning a domain into A-labels is
 * somebody else's task. */
#ifndef NET_SMTP_ADDRESS_H
#define NET_SMTP_ADDRESS_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define SMTP_ADDRESS_MAX        320 /* bytes of local@domain (64 + 1 + 255, RFC 5321 4.5.3.1) */
#define SMTP_ADDRESS_LOCAL_MAX  256 /* bytes; the standard says 64, real VERP senders need more */
#define SMTP_ADDRESS_DOMAIN_MAX 255 /* bytes */

enum smtp_address_flags {
    SMTP_ADDRESS_UTF8 = 1,       /* bytes above 127 are allowed when they are valid UTF-8 */
    SMTP_ADDRESS_NULL = 2,       /* "<>" is allowed: the null sender */
    SMTP_ADDRESS_POSTMASTER = 4, /* "<Postmaster>" without a domain is allowed, in any case */
};

/* A parsed address. The slices point into `text` below; copying the struct needs
 * smtp_address_copy. The domain is in lower case (ASCII letters only) and has no trailing dot; an
 * address literal keeps its brackets. A quoted local part that needs no quotes has lost them, so
 * that equal addresses print equal. */
struct smtp_address {
    struct slice local;          /* empty only for the null sender */
    struct slice domain;         /* empty for the null sender and for a bare Postmaster */
    bool has_utf8;               /* some byte is above 127 */
    size_t len;                  /* bytes of text: local@domain, or local alone, or 0 */
    char text[SMTP_ADDRESS_MAX]; /* what smtp_address_print writes; not NUL-terminated */
};

/* Parse a path "<...>" at the start of in: source routes are checked and dropped.
 *
 * in       in/out; moved past the closing '>' on success, unchanged on error
 * errors   ERR_SYNTAX; ERR_LIMIT (longer than the limits above); *ret is unspecified then
 * source   RFC 5321 4.1.2, 4.1.3; only IPv4 and IPv6 literals. CR, LF, NUL, other control
 *          characters and unquoted '<' '>' are never accepted. */
MUST_USE int smtp_address_parse_path(struct slice *in, unsigned flags, struct smtp_address *ret);

/* The same for an address without angle brackets and routes; the whole of in must be one. */
MUST_USE int smtp_address_parse(struct slice in, unsigned flags, struct smtp_address *ret);

/* The address without angle brackets; parsing it gives an equal address. */
static inline struct slice smtp_address_slice(const struct smtp_address *address)
{
    return (struct slice){address->text, address->len};
}

/* Same local part byte for byte, same domain. */
static inline bool smtp_address_eq(const struct smtp_address *a, const struct smtp_address *b)
{
    return slice_eq(smtp_address_slice(a), smtp_address_slice(b));
}

void smtp_address_copy(struct smtp_address *dst, const struct smtp_address *src);

#endif
