/* LMDB's two meta pages, touched while the environment is closed. Inside the spool files only. */
#ifndef ENGINE_SPOOL_META_H
#define ENGINE_SPOOL_META_H

#include "engine/spool/spool_env.h"

#define SPOOL_DATA_FILE "data.mdb" /* LMDB's name */

/* True for what a crash or a power cut leaves of a spool that was being created: its first commit
 * never ended, so it holds nothing that anybody was promised. */
bool spool_meta_is_blank(const struct spool_store *s);

/* Roll a failed commit back if LMDB could not, write both pages anew, and sync.
 *
 * After a failed commit the disk may differ from the page cache; were the disk's pages newer, the
 * next transaction would overwrite pages that they still refer to before it replaces them, and a
 * power cut in between would leave damage.
 * errors: -errno; nothing may use the data file then */
MUST_USE int spool_meta_settle(const struct spool_store *s);

#endif
