/* Raw DNS answers into records: a bounds-checked cursor with a sticky error.
 *
 * Pure: bytes in, values out; no allocation, clock or I/O. Called by the lookup layer with whatever
 * a name server sent, so nothing here asserts on content. Records of the additional section are
 * never looked at (they may be forged); a host's addresses are always asked for. */
#ifndef DNS_DNS_WIRE_H
#define DNS_DNS_WIRE_H

#include "base/attr.h"
#include "base/slice.h"
#include "dns/ip.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_NAME_MAX                                                                               \
    253 /* bytes of text without the last dot (RFC 1035 2.3.4: 255 on the wire)                    \
         */
#define DNS_LABEL_MAX     63  /* RFC 1035 2.3.4 */
#define DNS_RECORDS_MAX   100 /* records kept of one answer, as Postfix does */
#define DNS_ADDRESSES_MAX 50  /* likewise of addresses: no delivery tries more (MX_TARGETS_MAX) */
#define DNS_CNAME_MAX     10  /* steps followed, as Postfix does */

enum dns_type {
    DNS_TYPE_A = 1,
    DNS_TYPE_CNAME = 5,
    DNS_TYPE_SOA = 6,
    DNS_TYPE_MX = 15,
    DNS_TYPE_TXT = 16,
    DNS_TYPE_AAAA = 28,
    DNS_TYPE_TLSA = 52,
};

enum dns_rcode {
    DNS_RCODE_NOERROR = 0,
    DNS_RCODE_FORMERR = 1,
    DNS_RCODE_SERVFAIL = 2,
    DNS_RCODE_NXDOMAIN = 3,
    DNS_RCODE_NOTIMP = 4,
    DNS_RCODE_REFUSED = 5,
};

/* A name in lower case without the last dot; the root is the empty text. A name with bytes other
 * than letters, digits, '-' and '_' (or too long to be a host name) is kept as `is_valid` = false
 * and empty text: no such host can be asked for. */
struct dns_name {
    uint8_t len;
    bool is_valid;
    char text[DNS_NAME_MAX + 1]; /* NUL-terminated */
};

struct dns_record {
    uint32_t ttl;             /* seconds; a value with the top bit set is 0 (RFC 2181 8) */
    uint16_t preference;      /* MX */
    struct ip ip;             /* A, AAAA */
    struct slice data;        /* TLSA, TXT: well-formed RDATA; memory of the packet */
    struct dns_name exchange; /* MX; CNAME: its target */
};

struct dns_answer {
    uint16_t id;
    uint8_t rcode;         /* enum dns_rcode or any other of 0..15 */
    bool is_truncated;     /* TC: records are missing, do not use */
    bool is_authentic;     /* AD as sent; worth only as much as the path to the server */
    bool is_alias_loop;    /* the CNAMEs run in a circle or are more than DNS_CNAME_MAX */
    bool has_soa;          /* negative_ttl is valid */
    uint8_t alias_count;   /* CNAMEs followed */
    uint32_t alias_ttl;    /* least TTL of these; UINT32_MAX when none */
    uint32_t negative_ttl; /* min(TTL of the SOA, its minimum field) (RFC 2308 5) */
    struct dns_name name;  /* the question's name after alias_count CNAMEs */
    uint32_t skipped;      /* records of the wanted type beyond DNS_RECORDS_MAX */
    uint32_t record_count; /* of the wanted type, owned by `name` */
    struct dns_record records[DNS_RECORDS_MAX];
};

/* Parse the answer to the question (name, type).
 *
 * name     as dns_name_from_text made it
 * type     MX, A, AAAA, TLSA, TXT, or CNAME (which is then not followed)
 * errors   ERR_SYNTAX: not a well-formed response to that question; *ret is unspecified
 * Of more than DNS_RECORDS_MAX MX records those of least preference are kept, of addresses the
 * first DNS_ADDRESSES_MAX. */
MUST_USE int dns_wire_parse(const uint8_t *data, size_t len, const struct dns_name *name,
                            enum dns_type type, struct dns_answer *ret);

/* ASCII text to a name: lower case, one trailing dot dropped.
 * errors   ERR_SYNTAX: empty label, label or name too long, or a byte no host name has */
MUST_USE int dns_name_from_text(struct slice text, struct dns_name *ret);

/* "MX", "A", ... for messages. */
const char *dns_type_text(enum dns_type type);

static inline struct slice dns_name_slice(const struct dns_name *name)
{
    return (struct slice){name->text, name->len};
}

#endif
