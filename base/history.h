/* The newest records of one writer, which any thread may read while it writes on: a ring of
 * fixed-size records that are overwritten when their turn comes.
 *
 * Concurrency: each slot has a sequence, odd while its record is being written, and else telling
 * which record is in it. The writer stores the odd sequence, then the record's words with release,
 * then the even one with release; a reader loads the sequence and the words with acquire, then the
 * sequence again. A word of a newer record makes the odd sequence in front of it visible, so the
 * second look notices. Nobody waits, no stand-alone fence is needed, and a reader that was
 * overtaken only hears that the record is gone. */
#ifndef BASE_HISTORY_H
#define BASE_HISTORY_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct history;

/* NULL when out of memory. capacity: records; record_bytes: a multiple of 8 */
MUST_USE struct history *history_new(uint32_t capacity, size_t record_bytes);
void history_free(struct history *h); /* accepts NULL; nobody reads any more */

/* One more record, copied. Thread: the writer. */
void history_put(struct history *h, const void *record);
/* How many were put so far: the next one's number. Any thread. */
uint64_t history_end(const struct history *h);
/* The number of the oldest that is likely to be there still. Any thread. */
uint64_t history_begin(const struct history *h);
/* A copy of a record by its number; false: it is gone, or not there yet. Any thread. */
MUST_USE bool history_get(const struct history *h, uint64_t number, void *ret);

#endif
