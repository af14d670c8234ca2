/* How large, or how many: a whole number that is always the same, one of a list by its share, or
 * lognormal. Immutable once parsed. */
#ifndef BENCH_AMOUNT_H
#define BENCH_AMOUNT_H

#include "base/attr.h"
#include "bench/tool/choice.h"

#include <stdbool.h>
#include <stdint.h>

struct amount {
    uint64_t least, most; /* of what amount_draw returns */
    uint64_t *values;     /* a list: heap, as many as choice has; else NULL */
    struct choice choice; /* a list: of its values */
    double median, sigma; /* lognormal: exp(sigma * N(0, 1)) * median; median 0: not lognormal */
};

/* Always the same; nothing to free. */
static inline struct amount amount_constant(uint64_t value)
{
    return (struct amount){.least = value, .most = value};
}

static inline bool amount_is_constant(const struct amount *a)
{
    return a->least == a->most;
}

/* "4096", "4096:0.9,102400:0.1" (value:share; shares in any unit) or "lognormal:MEDIAN:SIGMA:MAX"
 * (what is drawn above MAX is MAX).
 *
 * limit    the largest value that is allowed; the smallest is 1
 * ret_why  after an error: what is wrong and what would be right; static
 * errors   ERR_SYNTAX, -ENOMEM
 */
MUST_USE int amount_parse(struct amount *a, const char *text, uint64_t limit, const char **ret_why);
void amount_fini(struct amount *a);
/* random: 64 uniform bits. returns: least to most */
uint64_t amount_draw(const struct amount *a, uint64_t random);

/* "5,1,0.5": numbers >= 0, not all 0. ret: heap. Errors as amount_parse. */
MUST_USE int amount_parse_weights(const char *text, double **ret, uint32_t *ret_count,
                                  const char **ret_why);

#endif
