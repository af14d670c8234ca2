/* A report of RFC 8460: the JSON of one domain's day, gzip of it, and the mail that carries it.
 *
 * Values in, text out; no clock, no I/O. Called by the thread that sends reports. */
#ifndef ENGINE_TLS_REPORT_H
#define ENGINE_TLS_REPORT_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/tls_report/tls_tally.h"

#include <jansson.h>

/* Who reports, and about when. */
struct tls_report_head {
    const char *organization, *contact;
    const char *from;     /* an address: the mail's sender; its domain is the submitter */
    const char *hostname; /* for Message-ID */
    usec_t begin;         /* wall: 0:00 UTC of the day */
};

#define TLS_REPORT_ID_MAX   400
#define TLS_REPORT_NAME_MAX 700

/* The domain of head->from. */
struct slice tls_report_submitter(const struct tls_report_head *head);
/* One text for a domain and a day: whoever gets a report twice can tell. */
void tls_report_id(const struct tls_report_head *head, const char *domain,
                   char ret[static TLS_REPORT_ID_MAX]);

/* The member `policies` of a report (section 4.4). NULL when out of memory.
 *
 * is_kept   for the function below: with what no report has, a policy's id */
json_t *tls_report_policies(const struct tls_domain_tally *d, bool is_kept);
/* Count what such a member says, as written by the function above, for a domain.
 * errors   ERR_SYNTAX: some of it makes no sense; the rest is counted */
MUST_USE int tls_report_read_policies(struct tls_tally *t, const char *domain,
                                      const json_t *policies);

/* The report, compressed by gzip. errors: -ENOMEM; ret is the caller's */
MUST_USE int tls_report_gzip(const struct tls_report_head *head, const struct tls_domain_tally *d,
                             struct buf *ret);
/* The mail with it (section 5.3), lines with CRLF.
 *
 * to    address
 * now   wall, for Date
 * errors   -ENOMEM */
MUST_USE int tls_report_mail(const struct tls_report_head *head, const char *domain, const char *to,
                             struct slice gzip, usec_t now, struct buf *ret);

#endif
