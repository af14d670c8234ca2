/* cmocka with the headers it wants in front, in the order that it wants. Every unit test includes
 * this and not cmocka.h. Assertions of cmocka work on the main thread only. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

/* Rounds of a stress test: fewer where a sanitizer slows every access down. */
#ifdef SLUICE_SANITIZED
#define STRESS_ROUNDS(n) ((n) / 8)
#else
#define STRESS_ROUNDS(n) (n)
#endif

#endif
