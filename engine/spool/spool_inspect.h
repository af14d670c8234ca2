/* A look at the data file's trees before LMDB uses it, and the mending of single leaves. Inside the
 * spool files only.
 *
 * LMDB believes every page: one that cannot be read, or is damaged, would stop or crash the process
 * whenever something comes across it. Each start reads the pages that everything else hangs on: the
 * metas, all branches, the tree of tables, the list of free pages. The leaves, which are a hundred
 * times as many, are read when the last stop was no orderly one, and when a page has turned out to
 * be bad since.
 *
 * A leaf that is bad is written anew in its place, with the records of it that can be read and that
 * are in order, and a key of an odd length where none is left, which everybody passes over. What
 * was readable of it is kept in a file beside. Nothing is ever taken from an older root. */
#ifndef ENGINE_SPOOL_INSPECT_H
#define ENGINE_SPOOL_INSPECT_H

#include "engine/spool/spool_env.h"

/* While the environment is closed. text: why it cannot be used (256 bytes), set with ERR_CORRUPT.
 *
 * s->lost gets the ranges of keys that are lost; s->counts_differ whether a table has fewer records
 * than it says.
 *
 * errors: ERR_CORRUPT: a page that others hang on is bad, only a salvage helps; -errno */
MUST_USE int spool_inspect(struct spool_store *s, bool reads_leaves, char text[256]);

/* Records of a table are lost: those from the key lo (empty: the first) up to hi (empty: the last).
 * errors: -ENOMEM */
MUST_USE int spool_note_lost(struct spool_store *s, int table, struct slice lo, struct slice hi);

/* Due once the environment is open: log the messages that the lost records may have belonged to. */
void spool_name_lost(struct spool_store *s);

#endif
