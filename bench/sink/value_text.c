/* Digits and refusals. Called by behaviour.c and rate_plan.c. */
#include "bench/sink/value_text.h"

#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

int value_refuse(char why[VALUE_WHY_BYTES], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, VALUE_WHY_BYTES, fmt, ap); /* cut where it is too long */
    va_end(ap);
    return ERR_SYNTAX;
}

const char *value_digits(const char *text, int64_t *ret)
{
    int64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value)) {
            value = INT64_MAX;
        }
    }
    *ret = value;
    return at == text ? NULL : at;
}
