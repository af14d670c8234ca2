/* What the readers of values in a behaviour file share: digits, and words about what is wrong.
 * Pure. */
#ifndef BENCH_VALUE_TEXT_H
#define BENCH_VALUE_TEXT_H

#include "base/attr.h"

#include <stdint.h>

#define VALUE_WHY_BYTES 256

/* Say "what is wrong; what would be right", cut where it is too long. returns: ERR_SYNTAX */
int value_refuse(char why[VALUE_WHY_BYTES], const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Digits, saturating. returns: where they end, NULL when there are none */
const char *value_digits(const char *text, int64_t *ret);

#endif
