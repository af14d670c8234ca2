/* The words of the memory file, for who writes it (limits_memory.c) and who reads it
 * (limits_memory_load.c). A line is a word and its fields, with one space between them; a name is
 * written with what is no printable character, and spaces and "%", as %XX, and "-" when it is empty. */
#ifndef ENGINE_LIMITS_MEMORY_PRIVATE_H
#define ENGINE_LIMITS_MEMORY_PRIVATE_H

#include "base/attr.h"

#define LIMITS_MEMORY_HEAD "sluice-limits 1\n"
#define LIMITS_MEMORY_END  "end "
#define LIMITS_RATE_SCALE  1e9 /* of a rate in whole numbers */

extern const char *const limits_unit_words[3]; /* by enum pace_unit */
extern const char *const limits_fact_words[];  /* by enum limits_fact_kind */
enum limits_ceiling_word { LIMITS_CEILING_CONNECTIONS, LIMITS_CEILING_SESSION };
extern const char *const limits_ceiling_words[2];

#endif
