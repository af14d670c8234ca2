/* The journal: what is durable before the tables know of it. Inside the spool files; its users see
 * it through spool_store.h.
 *
 * One file of fixed size that is written from its start on, batch behind batch, and again from the
 * start once the tables hold all of it (a generation). A batch is one write and one sync, without
 * any change of the file's metadata; it begins on a page, so that no write touches a page that
 * holds something acknowledged. A frame counts only with a checksum that is keyed by the
 * generation, a number nobody outside can know: neither what an earlier generation left nor the
 * content of a message passes for one.
 *
 * Which generation holds is in the tables (SPOOL_META_JOURNAL), so the commit that takes the
 * journal's contents over is the one that ends it: there is no moment at which both count.
 *
 * Thread: the writer. */
#ifndef ENGINE_SPOOL_JOURNAL_H
#define ENGINE_SPOOL_JOURNAL_H

#include "engine/spool/spool_env.h"

/* Put what a crash left in the journal into the tables and begin a generation; then make the file
 * as large as the options say. A spool without a journal works, only slower: a file that cannot be
 * made is none.
 * errors: of the tables, or -errno of a journal that cannot be read */
MUST_USE int spool_journal_open(struct spool_store *s);
void spool_journal_close(struct spool_store *s);
/* Whether the file in this folder begins with the generation of what follows. */
MUST_USE bool spool_journal_has_name(int folder_fd);
/* The transaction that ended the generation is durable. */
void spool_journal_restart(struct spool_store *s, uint64_t generation);

#endif
