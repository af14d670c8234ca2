/* What the store, its transactions and its readers share: the LMDB environment, its tables, and
 * the word that takes it away from the readers. Inside the spool files only.
 *
 * Who touches what
 *   env, dbi   the writer changes them while it has `suspended` and has seen every reader idle;
 *              readers use them inside a pass, the writer always
 *   reader     its own thread inside a pass; the writer as above
 *   readers    under readers_lock (readers come and go at start and stop of threads only)
 *
 * Taking the environment away is Dekker's protocol: a reader stores ACTIVE, then loads `suspended`;
 * the writer stores `suspended`, then loads every reader's state. All four are sequentially
 * consistent, so in their single order at least one side sees the other: either the reader finds
 * `suspended` and goes back to IDLE without having touched LMDB, or the writer finds it ACTIVE and
 * tries again later. The reader's release of IDLE and the writer's acquire of it order the pass
 * before the writer's work; the writer's release of suspended = 0 and the reader's acquire of it
 * order that work before the next pass. */
#ifndef ENGINE_SPOOL_ENV_H
#define ENGINE_SPOOL_ENV_H

#include "base/buf.h"
#include "base/list.h"
#include "engine/spool/spool_change.h"
#include "engine/spool/spool_flow.h"
#include "engine/spool/spool_guard.h"
#include "engine/spool/spool_page.h"
#include "engine/spool/spool_record.h"
#include "engine/spool/spool_store.h"
#include "engine/spool/spool_suppress.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

/* Numbers are stored in quarantine keys: append only. */
enum spool_table {
    SPOOL_TABLE_MESSAGE,
    SPOOL_TABLE_BODY,
    SPOOL_TABLE_RECIPIENTS,
    SPOOL_TABLE_STATE,
    SPOOL_TABLE_REASON,
    SPOOL_TABLE_INCOMING,
    SPOOL_TABLE_DEFERRED,
    SPOOL_TABLE_STAGING,
    SPOOL_TABLE_QUARANTINE,
    SPOOL_TABLE_META,
    SPOOL_TABLE_HELD,
    SPOOL_TABLE_TWIN,       /* numbers of the meta table that must not be lost with its page */
    SPOOL_TABLE_FLOW,       /* see spool_flow.h */
    SPOOL_TABLE_SUPPRESSED, /* see spool_suppress.h; has longer keys than the others */
    SPOOL_TABLE_STRIKES,    /* likewise */
    SPOOL_TABLE_SIGNING,    /* see spool_signing.h */
    SPOOL_TABLE_COUNT,
};

/* The table of a class of the queue. */
static inline enum spool_table spool_queue_table(uint8_t class)
{
    if (class == SPOOL_INCOMING) {
        return SPOOL_TABLE_INCOMING;
    }
    return class == SPOOL_DEFERRED ? SPOOL_TABLE_DEFERRED : SPOOL_TABLE_HELD;
}

/* Names in the meta table. */
#define SPOOL_META_VERSION     "version"
#define SPOOL_META_IDS         "ids"
#define SPOOL_META_NODE        "node" /* in the twin table as well; see spool_store_node */
#define SPOOL_META_BOUND       "duplicates"
#define SPOOL_META_CLOCK       "clock" /* latest wall time of a deferral */
#define SPOOL_META_QUARANTINED "quarantined"
#define SPOOL_META_TAKEOVER    "takeover" /* there: places may be without a flow, see spool_flow.h */
#define SPOOL_META_JOURNAL     "journal" /* the generation that counts; in the twin table as well */

struct spool_txn {
    struct spool_store *store;
    MDB_txn *txn;                           /* NULL between transactions */
    MDB_cursor *cursors[SPOOL_TABLE_COUNT]; /* opened at first use; end with the transaction */
    int error;                              /* first error of the storage; makes commit an abort */
    uint64_t generation; /* of the journal that begins with this commit; 0: the old one goes on */
    uint64_t faults;     /* of the map when it began */
};

/* Keys of a table of which records are lost; table -1: not one of ours. */
struct spool_lost {
    int table;
    uint64_t from, to;           /* the numbers that they begin with, ids for most tables; both may
                                  * be */
    uint32_t from_part, to_part; /* of the first id and of the last one, which itself is not */
};

/* Writer only; see spool_journal.h. */
struct spool_journal {
    int fd;              /* -1: none */
    uint64_t bytes;      /* size of the file */
    uint64_t at;         /* where the next batch goes */
    uint64_t generation; /* the generation that the tables name */
    struct buf batch;    /* frames not yet written */
    bool is_spoiled;     /* a batch failed; it may be in the file nevertheless */
};

struct spool_suppress_state {
    /* writer only */
    bool is_changed, has_added; /* by the transaction under way */
    uint64_t pending;           /* entries, with is_changed */
    unsigned pending_kinds;     /* of entries that are there, or were: none is taken away */
    size_t at_len;              /* where the sweep stands; 0: at the beginning */
    char at[SPOOL_SUPPRESS_KEY_MAX];
    struct spool_key strike_at;

    /* stored by the writer, read by any thread */
    _Atomic uint64_t count, changes;
    _Atomic unsigned kinds;
};

struct spool_store {
    /* set at creation */
    char *path;
    struct spool_options options; /* options.path belongs to the caller: use `path` above */
    int folder_fd;
    int lock_fd; /* flock held for the store's life */

    /* see the head of the file */
    MDB_env *env; /* NULL while closed by a reopen that failed */
    MDB_dbi dbi[SPOOL_TABLE_COUNT];

    /* writer only */
    struct spool_txn txn; /* LMDB has one at a time */
    struct spool_journal journal;
    MDB_txn *stat_txn;        /* for figures, reset between uses */
    bool must_reopen;         /* a commit failed: nothing is written before a reopen */
    uint64_t committed_txnid; /* of the last commit that succeeded */
    size_t page_bytes;
    struct spool_flows flows;
    uint64_t next_sequence; /* of INCOMING entries: above those of all flows */
    uint64_t first_id;
    uint16_t node;            /* as found at open; 0: none */
    uint64_t duplicate_bound; /* as found at open */
    uint64_t clock;           /* as found at open */
    uint64_t latest;          /* of the clock and what was noted since */
    bool is_new;              /* there was none */

    /* writer only: damage, see spool_inspect.h */
    int64_t phantoms[SPOOL_TABLE_COUNT]; /* records that a table counts and does not have; changes
                                          * while nobody reads */
    spool_listener *listener;            /* NULL: nobody keeps a copy; see spool_change.h */
    void *listener_ctx;
    bool was_killed;         /* the last stop was no orderly one */
    bool is_whole;           /* opened, contents and all */
    bool counts_differ;      /* a table has fewer records than it says */
    bool must_look;          /* LMDB has met a page that it could not use */
    bool has_mended;         /* the next start is to look at everything */
    struct spool_lost *lost; /* heap, lost_count */
    unsigned lost_count;
    uint64_t suspects[SPOOL_GUARD_PAGES]; /* pages that turned out to be bad */
    unsigned suspect_count;

    struct spool_suppress_state suppress;

    /* see spool_guard.h */
    struct spool_guard guard;
    _Atomic(uint64_t) faults_settled; /* faults that the writer has dealt with; readers look */
    void (*on_damage)(void *ctx);     /* set before there are readers; NULL: nobody */
    void *on_damage_ctx;

    /* any thread */
    _Atomic int suspended;
    pthread_mutex_t readers_lock;
    struct list readers; /* under readers_lock */
};

#define SPOOL_VERIFIED_SLOTS 64 /* power of two */

enum spool_reader_state { SPOOL_READER_IDLE, SPOOL_READER_ACTIVE };

/* See spool_walk.c. */
enum spool_walk_cursor {
    SPOOL_WALK_MESSAGES,
    SPOOL_WALK_STATES,
    SPOOL_WALK_AHEAD,
    SPOOL_WALK_CURSOR_COUNT,
};

struct spool_reader {
    struct list link; /* under readers_lock */
    struct spool_store *store;
    _Atomic int state;      /* enum spool_reader_state; stored by the reader's thread only */
    MDB_txn *txn;           /* reset while idle; NULL before the first pass and after a reopen */
    uint64_t suppress_seen; /* spool_suppress_changes when the pass began */
    MDB_cursor *scan[SPOOL_CLASS_COUNT];
    bool scan_is_renewed[SPOOL_CLASS_COUNT];
    /* Of messages that were to be read ahead: how many in a row were in memory, and how often since then
     * nobody looked whether one was. */
    uint8_t resident, unasked;
    MDB_cursor *walk[SPOOL_WALK_CURSOR_COUNT]; /* NULL until used; renewed by each walk */
    /* Message records and chunks that passed their checksum: they never change, and a slow peer
     * has its chunk looked up in many passes. part: chunk + 1; 0 = the message record. */
    struct {
        uint64_t id; /* 0 = free */
        uint64_t part;
    } verified[SPOOL_VERIFIED_SLOTS];
};

/* Say what the writer changes to whoever keeps a copy. */
static inline void spool_tell(struct spool_store *s, enum spool_change_kind kind, uint64_t id,
                              uint32_t number, struct slice bytes)
{
    if (s->listener != NULL) {
        const struct spool_change change = {kind, id, number, bytes};
        s->listener(s->listener_ctx, &change);
    }
}

/* Remember the newest commit as good. */
void spool_note_commit(struct spool_store *s);

/* The name of a table in the environment. */
const char *spool_table_name(enum spool_table table);

/* Whether a page has turned out to be bad that the writer does not know of. */
static inline bool spool_is_in_doubt(struct spool_store *s)
{
    return spool_guard_faults(&s->guard) !=
           atomic_load_explicit(&s->faults_settled, memory_order_relaxed);
}

/* Whether a value has pages of its own in the map (see spool_page.h). */
static inline bool spool_is_large(const struct spool_store *s, const void *value)
{
    uintptr_t at = (uintptr_t)value - (uintptr_t)s->guard.base;
    return s->guard.base != NULL && at < s->guard.map_bytes &&
           at % s->guard.page_bytes == SPOOL_PAGE_HEAD;
}

/* LMDB's result as ours. */
int spool_error(int mdb_result);

static inline MDB_val spool_val(const struct spool_key *key)
{
    /* LMDB takes a writable pointer and does not write. */
    return (MDB_val){key->len, (void *)(uintptr_t)key->bytes};
}

static inline struct slice spool_slice(const MDB_val *val)
{
    return slice_make(val->mv_data, val->mv_size);
}

#define SPOOL_RECORD_BYTES_MAX (4u << 20) /* more than any record has */

/* What the reader tells of a result while the writer does not know of a bad page: a large record on
 * it is damaged for good, anything else is asked for again when the writer has looked at the page.
 * record: what rc is about; NULL: a place in the tables */
MUST_USE int spool_reader_result(const struct spool_reader *r, int rc, const struct slice *record);

/* Forget what the reader holds of the environment. Its thread, or the writer while suspended. */
void spool_reader_detach(struct spool_reader *r);

/* Bytes that can still be written: free pages inside the file, and what it can grow by. Any thread
 * that may use the environment. */
uint64_t spool_bytes_left(const struct spool_store *s, const MDB_envinfo *info,
                          const MDB_stat *stat, uint64_t used_pages, bool *ret_is_by_disk);

/* Pages in use by tables, of the newest commit. Writer. errors: as spool_error */
MUST_USE int spool_tables_pages(const struct spool_store *s, MDB_txn *txn, uint64_t *ret_pages);

#endif
