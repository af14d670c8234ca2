/* What was counted of a day, as a file: a line of JSON that says which day, and one for each
 * domain. Replaced as a whole, so that a reader finds the old one or the new one.
 *
 * Called by the thread that reports on TLS; blocks on the disk. */
#ifndef ENGINE_TLS_DAY_H
#define ENGINE_TLS_DAY_H

#include "base/attr.h"
#include "engine/tls_report/tls_tally.h"

#include <stddef.h>
#include <stdint.h>

/* folder: descriptor, here and below. errors: -ENOMEM, -errno */
MUST_USE int tls_day_save(int folder, struct tls_tally *t);
/* errors: -errno; ERR_SYNTAX: it is no such file, or some of it makes no sense and is left out:
 * then *ret is what could be read, or NULL */
MUST_USE int tls_day_load(int folder, int64_t day, struct tls_tally **ret);
void tls_day_remove(int folder, int64_t day);
/* The days of which there are files, the oldest first, at most `most`. */
size_t tls_day_list(int folder, int64_t *ret_days, size_t most);

#endif
