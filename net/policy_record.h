/* Text records in which a domain says what it wants of those who send it mail, written
 * "v=NAME; key=value; ...": MTA-STS (RFC 8461 section 3.1) and TLS-RPT (RFC 8460 section 3).
 * Pure functions on bytes; what they return points into the record. */
#ifndef NET_POLICY_RECORD_H
#define NET_POLICY_RECORD_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* The record of a version ("v=STSv1") among a name's texts; the others are not looked at.
 * ret     its fields, that is, what stands behind the version
 * errors  ERR_MISSING: there is none, or there are several, which counts as none */
MUST_USE int policy_record_find(const struct slice *texts, uint32_t count, struct slice version,
                                struct slice *ret);
/* Take the first field, without blanks around it.
 * returns  1; 0: none is left; ERR_SYNTAX: it has no key of letters, digits and, behind the first, "_-." */
MUST_USE int policy_record_take(struct slice *fields, struct slice *ret_key,
                                struct slice *ret_value);

bool policy_record_is_key(struct slice key);
/* Whether a value may be that of a key that nobody here knows: printable, without '=', ';' and blanks. */
bool policy_record_is_value(struct slice value);
/* Without spaces and tabs around it. */
struct slice policy_record_trim(struct slice text);

#endif
