/* TLS-RPT (RFC 8460): the TXT record that says where a domain wants its reports to go.
 *
 * Pure: text in, values out; no allocation, clock or I/O. Called with what strangers publish. A
 * parsed record is a view of its text. */
#ifndef NET_TLS_RPT_H
#define NET_TLS_RPT_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define TLS_RPT_LABEL       "_smtp._tls" /* in front of a domain: the TXT record; section 3 */
#define TLS_RPT_RUA_MAX     8            /* addresses that count; what is behind them is ignored */
#define TLS_RPT_MAILBOX_MAX 320 /* bytes of an address: RFC 5321 section 4.5.3.1, 64 + 1 + 255 */

enum tls_rpt_way { TLS_RPT_MAIL, TLS_RPT_HTTPS };

struct tls_rpt_rua {
    enum tls_rpt_way way;
    struct slice uri; /* as it is written, without space around it */
};

struct tls_rpt_record {
    struct tls_rpt_rua rua[TLS_RPT_RUA_MAX]; /* of other schemes none is kept */
    uint32_t count;                          /* may be 0 */
    uint32_t skipped;                        /* of other schemes, or beyond TLS_RPT_RUA_MAX */
};

/* The one record among the TXT records of a domain.
 *
 * errors   ERR_MISSING: no record is one of TLS-RPT, or several are (which counts as none);
 *          ERR_SYNTAX: the one there is makes no sense */
MUST_USE int tls_rpt_record(const struct slice *texts, uint32_t count, struct tls_rpt_record *ret);

/* The mailbox of a mailto URI, with %XX decoded and without what stands behind '?'. Only its
 * characters and its one '@' are looked at; whether it is an address, who sends to it finds out.
 *
 * errors   ERR_SYNTAX: several addresses, none, or bytes that no address has */
MUST_USE int tls_rpt_mailbox(struct slice uri, char ret[static TLS_RPT_MAILBOX_MAX + 1]);

#endif
