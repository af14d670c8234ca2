/* What a model requires of the core it is held against; ends the run where it is not so. */
#ifndef TESTS_SIM_REQUIRE_H
#define TESTS_SIM_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
