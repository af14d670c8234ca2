/* Stands in for sched_feedback_parse until sched/feedback.c is there; then this file goes. */
#include "base/error.h"
#include "sched/sched.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

__attribute__((weak)) int sched_feedback_parse(const char *text, enum sched_feedback_rule rule,
                                               struct sched_feedback *ret)
{
    char *end;
    double base = strtod(text, &end);
    enum sched_feedback_kind kind = SCHED_FEEDBACK_CONSTANT;
    if (end == text || !(base >= 0)) {
        return ERR_SYNTAX;
    }
    end += strspn(end, " \t");
    if (*end == '/') {
        end += 1 + strspn(end + 1, " \t");
        if (strcasecmp(end, "concurrency") == 0) {
            kind = SCHED_FEEDBACK_LINEAR;
        } else if (strcasecmp(end, "sqrt_concurrency") == 0 && rule == SCHED_RULE_README) {
            kind = SCHED_FEEDBACK_SQRT;
        } else {
            char *start = end;
            double divisor = strtod(start, &end);
            if (end == start || *end != '\0' || !(divisor >= 1.0 / INT_MAX && divisor <= INT_MAX)) {
                return ERR_SYNTAX;
            }
            base /= divisor;
        }
    }
    if (!(base >= 0 && base <= 1)) {
        return ERR_SYNTAX;
    }
    *ret = (struct sched_feedback){kind, base};
    return 0;
}
