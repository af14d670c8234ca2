/* How sessions with receivers went under TLS, counted as RFC 8460 wants to hear of it: by the
 * domain that mail goes to, by the policy that held, and what failed by why and where.
 *
 * A table is one thread's and goes to another one as a whole. It is bounded: a domain beyond the
 * limit is counted in `left_out` alone, and a failure beyond the number that a policy has room for
 * is counted by its type alone, without addresses, so that sums stay right. No I/O and no clock. */
#ifndef ENGINE_TLS_TALLY_H
#define ENGINE_TLS_TALLY_H

#include "base/attr.h"
#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TLS_TALLY_DOMAINS = 20000, /* of a day */
    TLS_TALLY_POLICIES = 16,   /* of a domain: one for each mail host under DANE */
    TLS_TALLY_DETAILS = 64,    /* of a policy: failures that differ in why or where */
    TLS_TALLY_TEXT_MAX = 512,  /* bytes of each text but a policy's; what is longer is cut */
    TLS_TALLY_POLICY_MAX = 4096
};

/* RFC 8460 section 4.4, policy-type */
enum tls_basis { TLS_BASIS_NONE, TLS_BASIS_STS, TLS_BASIS_TLSA, TLS_BASIS_COUNT };

/* RFC 8460 section 4.3, result-type */
enum tls_failure {
    TLS_FAILURE_NONE,
    TLS_FAILURE_STARTTLS_NOT_SUPPORTED,
    TLS_FAILURE_HOST_MISMATCH,
    TLS_FAILURE_EXPIRED,
    TLS_FAILURE_NOT_TRUSTED,
    TLS_FAILURE_VALIDATION,
    TLS_FAILURE_TLSA_INVALID,
    TLS_FAILURE_DNSSEC_INVALID,
    TLS_FAILURE_DANE_REQUIRED,
    TLS_FAILURE_STS_FETCH,
    TLS_FAILURE_STS_INVALID,
    TLS_FAILURE_STS_WEBPKI,
    TLS_FAILURE_COUNT
};

/* "no-policy-found", "sts", "tlsa"; "certificate-expired", ...: as reports name them. */
const char *tls_basis_name(enum tls_basis basis);
const char *tls_failure_name(enum tls_failure failure); /* "" for TLS_FAILURE_NONE */
/* The other way; _COUNT: there is none of this name. */
enum tls_basis tls_basis_find(const char *name);
enum tls_failure tls_failure_find(const char *name);

/* One session, that is one connection as far as TLS, or the lack of it. */
struct tls_session {
    struct slice domain; /* whose reports: that of the recipients, or a smarthost's; lower case */
    enum tls_basis basis;
    struct slice policy_domain; /* lower case; under DANE where the TLSA records are */
    struct slice policy;        /* MTA-STS: its id. DANE: the records, a line each. Else empty */
    enum tls_failure failure;
    struct slice sending_ip, mx_host, receiving_ip, reason; /* of a failure; any may be empty */
};

struct tls_detail {
    struct list link;
    enum tls_failure failure;
    uint64_t count;
    const char *sending_ip, *mx_host, *receiving_ip, *reason; /* memory of the detail */
};

struct tls_policy_tally {
    struct list link;
    enum tls_basis basis;
    const char *domain, *id; /* memory of the object; id as tls_session.policy */
    char *text;              /* MTA-STS: the policy's lines, once somebody gave them; or NULL */
    uint64_t successes, failures;
    struct list details; /* struct tls_detail */
    uint32_t detail_count;
};

struct tls_domain_tally {
    struct list link;
    struct tls_domain_tally *next_in_bucket;
    struct list policies; /* struct tls_policy_tally */
    uint32_t policy_count;
    uint32_t ways_done; /* the user's: bits of what it has done with it */
    char name[];        /* the domain */
};

struct tls_tally; /* opaque but for the functions below */

/* day: in UTC, since 1970; of no meaning here. errors: NULL when out of memory */
struct tls_tally *tls_tally_new(int64_t day);
int64_t tls_tally_day(const struct tls_tally *t);
void tls_tally_free(struct tls_tally *t); /* accepts NULL */

/* Count `count` sessions that went alike. */
void tls_tally_add(struct tls_tally *t, const struct tls_session *session, uint64_t count);
/* Add all that `from` has counted. */
void tls_tally_merge(struct tls_tally *t, const struct tls_tally *from);
/* The policy's text, if it has none: cut to TLS_TALLY_POLICY_MAX. No memory: it stays without. */
void tls_tally_set_text(struct tls_policy_tally *p, struct slice text);
/* The same of the policy of a session that was counted before; does nothing when it is not there. */
void tls_tally_give_text(struct tls_tally *t, const struct tls_session *s, struct slice text);
void tls_tally_drop(struct tls_tally *t, struct tls_domain_tally *d);

/* All domains: a list of struct tls_domain_tally, in the order in which they came. */
struct list *tls_tally_domains(struct tls_tally *t);
size_t tls_tally_count(const struct tls_tally *t);
/* Sessions of domains, or under policies, for which there was no room or memory. */
uint64_t tls_tally_left_out(const struct tls_tally *t);
void tls_tally_leave_out(struct tls_tally *t, uint64_t count);

#endif
