/* A spool whose mail another node has: it is set aside, and an empty one takes its place. */
#ifndef ENGINE_SPOOL_ASIDE_H
#define ENGINE_SPOOL_ASIDE_H

#include "base/attr.h"

#include <stdint.h>

/* Rename the tables and the journal to `taken-NUMBER.mdb` and `taken-NUMBER.journal` in the spool's
 * folder, and make new tables with the lists of suppressed recipients. Nobody has the spool open. It can be
 * interrupted, and done again.
 *
 * text    what was done, or is wrong
 * errors  of spool_store_open; -errno; storage: the spool is as it was */
MUST_USE int spool_set_aside(const char *path, uint64_t map_size, uint16_t number, char text[256]);

#endif
