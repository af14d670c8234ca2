/* Which TLSA records hold for a mail host: the questions to ask, one after the other, and what the
 * answers mean.
 *
 * Pure: answers in, questions out; no clock, I/O or allocation. Called by the resolver for each
 * host of a destination, once its addresses are known. The rules are those of RFC 7672 2.2: nothing
 * is asked about a host whose address was not validated, a failed lookup makes the host useless
 * rather than unprotected, and an alias counts under its end first and then under its own name. */
#ifndef DNS_DANE_H
#define DNS_DANE_H

#include "base/attr.h"
#include "base/slice.h"
#include "dns/dns_wire.h"
#include "dns/rrset.h"

#include <stdbool.h>
#include <stdint.h>

enum dns_dane {
    DNS_DANE_NONE,     /* not protected: deliver as if DANE did not exist */
    DNS_DANE_UNUSABLE, /* TLS is required, any certificate will do */
    DNS_DANE_RECORDS,  /* TLS is required and a record must match */
    DNS_DANE_FAILED,   /* must not be used at all: nobody knows */
    DNS_DANE_COUNT
};

struct dane {
    /* set by dane_begin; slices live as long as the rrsets it was given */
    struct slice bases[2]; /* names to try, the better first */
    uint8_t base_count;
    uint8_t at;          /* in bases */
    bool is_alias_asked; /* first of all: is the alias itself in a signed zone? */
    uint16_t port;
    enum dns_dane result; /* valid once dane_next said false */
};

/* name   the host, as MX or nexthop gave it
 * a, aaaa   what was found for it; NULL: not asked for */
void dane_begin(struct dane *d, struct slice name, uint16_t port, const struct dns_rrset *a,
                const struct dns_rrset *aaaa);
/* The next question, to be answered by dane_answer; false: d->result is final. */
MUST_USE bool dane_next(struct dane *d, struct dns_name *ret_name, enum dns_type *ret_type);
/* NULL: no memory for the answer. With DNS_DANE_RECORDS and DNS_DANE_UNUSABLE the caller keeps this
 * last answer. */
void dane_answer(struct dane *d, const struct dns_rrset *answer);
/* The name under which the records of a TLSA answer were asked for, without port and protocol. */
struct slice dane_base(const struct dns_rrset *tlsa);

#endif
