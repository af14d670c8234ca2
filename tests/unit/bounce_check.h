/* What every notice must hold, whatever strangers put into it; for unit tests and the fuzzer. */
#ifndef TESTS_UNIT_BOUNCE_CHECK_H
#define TESTS_UNIT_BOUNCE_CHECK_H

#include "base/slice.h"

/* returns: NULL when text is a well-formed notice, else what is wrong with it (static) */
const char *bounce_check(struct slice text);

#endif
