/* Which kinds of entries the lists of suppressed recipients have, so that a look-up does not search for
 * others: most have no domains, and either tenants' lists or the one for all. Private to
 * spool_suppress.c; the spool writer in its transaction, but for spool_suppress_kind, which is pure. */
#ifndef ENGINE_SPOOL_SUPPRESS_KIND_H
#define ENGINE_SPOOL_SUPPRESS_KIND_H

#include "base/slice.h"

struct spool_txn;

#define SPOOL_SUPPRESS_KINDS_ALL 15U

/* The bit of the kind of an entry with this key: whose list it is in, and whether it is a domain's. */
unsigned spool_suppress_kind(struct slice key);
/* Bits of all kinds that are there. Three searches a list; where there are many lists, or the table is not
 * in order, all of them. */
unsigned spool_suppress_kinds(struct spool_txn *t);

#endif
