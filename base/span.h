/* A span of time as people write it in requests and on the command line; the configuration, which
 * takes more forms, has its own (config_value.h). Pure. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>

/* "90s", "15m", "2h", "5d", "1w", up to 1,000,000,000 seconds; a number alone means seconds. */
MUST_USE bool span_parse(struct slice text, usec_t *ret);

#endif
