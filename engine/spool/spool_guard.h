/* A page of the map that the disk cannot give raises SIGBUS in whoever touches it, which would end
 * the process. Here it becomes an error: the page is covered with a leaf that says nothing, and
 * remembered; whoever was reading finds no record there, or one whose checksum fails. Inside the
 * spool files only; body_stream.c and the like ask spool_guard_thread_faults().
 *
 * Covers are for readers. What the writer does with one must never be committed, and a covered page
 * must be uncovered before its number is used again:
 *   - A fault counts first, then looks whether a commit is under way, and if so waits for its end;
 *     a commit first says that it is under way, then compares the count with the one of the
 *     transaction's begin. All of these are sequentially consistent: either the commit sees the
 *     fault and does not happen, or the cover comes when the commit is over.
 *   - A page that a reader's snapshot uses is not written to. So while no fault has happened since
 *     the begin, and none before it is left covered, no page of the transaction is covered.
 *
 * A fault of the writer inside of a commit, and one of a meta page, end the process with a message;
 * a commit that did not end did not happen, and the next start looks at the file.
 *
 * Threads: any thread faults; spool_guard_open, _close, _uncover, _begin_commit: the writer. */
#ifndef ENGINE_SPOOL_GUARD_H
#define ENGINE_SPOOL_GUARD_H

#include "base/attr.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPOOL_GUARD_PAGES = 256 };

struct spool_guard {
    /* set while nobody reads */
    char *base; /* NULL: guards nothing */
    size_t map_bytes, page_bytes;
    int fd;
    char last_words[512]; /* said when the process has to end */

    /* any thread */
    _Atomic(uint64_t) faults;                   /* all there have been */
    _Atomic(uint64_t) pages[SPOOL_GUARD_PAGES]; /* covered: number, SPOOL_GUARD_DATA; 0: free */
    _Atomic(bool) is_full;                      /* more than fit */
    _Atomic(bool) is_committing;
};

#define SPOOL_GUARD_DATA (1ULL << 63) /* it is a part of a large value: no tree hangs on it */

/* Begins to guard a map. last_words must be set.
 * errors: -errno, ERR_LIMIT when too many are open in this process */
MUST_USE int spool_guard_open(struct spool_guard *g, void *base, size_t map_bytes,
                              size_t page_bytes, int fd);
/* Due before the map is unmapped. Accepts a guard that was not opened. */
void spool_guard_close(struct spool_guard *g);

static inline uint64_t spool_guard_faults(struct spool_guard *g)
{
    return atomic_load_explicit(&g->faults, memory_order_seq_cst);
}

/* Whether a covered page is among these bytes of the map; if so, all such pages are marked as data.
 * For the bytes of a large value only. */
bool spool_guard_covers(struct spool_guard *g, const void *bytes, size_t len);
/* Whether a page that is not known to be data is covered. */
bool spool_guard_has_tree_page(struct spool_guard *g);
/* Map all covered pages from the file again: whoever touches a bad one faults again. */
void spool_guard_uncover(struct spool_guard *g);

void spool_guard_begin_commit(struct spool_guard *g);
void spool_guard_end_commit(struct spool_guard *g);

/* Faults of the calling thread. Bytes of the map that were checked and then used are what they were
 * only if this has not changed in between. */
uint64_t spool_guard_thread_faults(void);

#endif
