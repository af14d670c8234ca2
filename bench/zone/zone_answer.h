/* One DNS question in, one answer out (RFC 1035). Pure. */
#ifndef BENCH_ZONE_ANSWER_H
#define BENCH_ZONE_ANSWER_H

#include "base/attr.h"
#include "base/slice.h"
#include "bench/zone/zone_rule.h"

#include <stddef.h>
#include <stdint.h>

#define ZONE_ANSWER_MAX 4096 /* bytes */

/* ret_delay  ms after which it is to be sent; NULL: it came over TCP, where TC and DELAY do not
 *            apply
 * returns    bytes written to ret; 0: no answer is due (DROP, or not a question) */
MUST_USE size_t zone_answer(const struct zone *zone, struct slice query, uint32_t ttl,
                            uint8_t ret[ZONE_ANSWER_MAX], uint32_t *ret_delay);

#endif
