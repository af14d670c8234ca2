/* Rates and quotas as operators write them. Pure. */
#ifndef SCHED_LIMIT_RATE_TEXT_H
#define SCHED_LIMIT_RATE_TEXT_H

#include "base/attr.h"
#include "base/slice.h"
#include "sched/limit/rate.h"

#define RATE_WHY_BYTES  192
#define RATE_TEXT_BYTES 48

/* Read "100/s", "5000/h", "1,000/hr", "50 per day", "600/min, burst 10", "none". Units are s, sec,
 * second, m, min, minute, h, hr, hour, d, day and their plurals, in any case. Thousands may be set
 * off by commas.
 *
 * ret      "none": a count of 0
 * errors   ERR_SYNTAX: ret_why says what is wrong and what would be right */
MUST_USE int rate_parse(struct slice text, struct rate_rule *ret, char ret_why[RATE_WHY_BYTES]);

/* The same for a quota, which has no burst and no unit below an hour: "5000/d", "200/h", "none". */
MUST_USE int rate_parse_quota(struct slice text, struct rate_rule *ret,
                              char ret_why[RATE_WHY_BYTES]);

/* As rate_parse reads it back. */
void rate_print(const struct rate_rule *rule, char ret[RATE_TEXT_BYTES]);

#endif
