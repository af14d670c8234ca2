/* The spool's folder and environment: opening, the lock, reopening after a failed commit, free
 * space, the ballast file. Used by the spool writer; its transactions are in spool_txn.c, reading
 * is in spool_view.c. Nothing here retries or waits. */
#include "engine/spool/spool_store.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_inspect.h"
#include "engine/spool/spool_journal.h"
#include "engine/spool/spool_meta.h"
#include "engine/spool/spool_repair.h"
#include "engine/spool/spool_table.h"
#include "engine/spool/spool_takeover.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sysexits.h>
#include <unistd.h>

#define FORMAT_VERSION 5
#define FORMAT_OLDEST                                                                              \
    1 /* has no journal; 2 has no held messages, and neither has metadata; 3 has no twin table; 4 has \
         no flows */
#define MAX_READERS  512
#define TEXT_BYTES   256
#define LOCK_FILE    "spool.lock"
#define BALLAST_FILE "ballast"
#define CLEAR_LIMIT  4096 /* records a transaction at start: bounds its dirty pages */

static const char *const table_names[SPOOL_TABLE_COUNT] = {
    [SPOOL_TABLE_MESSAGE] = "message",
    [SPOOL_TABLE_BODY] = "body",
    [SPOOL_TABLE_RECIPIENTS] = "recipients",
    [SPOOL_TABLE_STATE] = "state",
    [SPOOL_TABLE_REASON] = "reason",
    [SPOOL_TABLE_INCOMING] = "incoming",
    [SPOOL_TABLE_DEFERRED] = "deferred",
    [SPOOL_TABLE_STAGING] = "staging",
    [SPOOL_TABLE_QUARANTINE] = "quarantine",
    [SPOOL_TABLE_META] = "meta",
    [SPOOL_TABLE_HELD] = "held",
    [SPOOL_TABLE_TWIN] = "twin",
    [SPOOL_TABLE_FLOW] = "flow",
    [SPOOL_TABLE_SUPPRESSED] = "suppressed",
    [SPOOL_TABLE_STRIKES] = "strikes",
    [SPOOL_TABLE_SIGNING] = "signing",
};

const char *spool_table_name(enum spool_table table)
{
    return table_names[table];
}

int spool_error(int mdb_result)
{
    switch (mdb_result) {
    case MDB_SUCCESS:
        return 0;
    case MDB_NOTFOUND:
        return ERR_MISSING;
    case MDB_KEYEXIST:
        return -EEXIST;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
        return -ENOSPC;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
        return -EUCLEAN; /* LMDB's own pages; ERR_CORRUPT is about one record */
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
        return ERR_CORRUPT;
    case MDB_READERS_FULL:
        return -EAGAIN;
    default:
        /* MDB_PANIC, MDB_BAD_TXN and the rest mean that the environment is of no use any more. */
        return mdb_result > 0 ? -mdb_result : -EIO;
    }
}

static int sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int r = fsync(fd) != 0 ? -errno : 0;
    (void)close(fd); /* nothing was written through it */
    return r;
}

static int sync_parent(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL) {
        return -ENOMEM;
    }
    int r = sync_folder(dirname(copy));
    free(copy);
    return r;
}

static int folder_open(struct spool_store *s, char *text)
{
    if (mkdir(s->path, 0700) == 0) {
        int r = sync_parent(s->path);
        if (r != 0) {
            (void)snprintf(text, TEXT_BYTES, "spool %s: syncing its parent folder: %s", s->path,
                           err_str(r));
            return r;
        }
    } else if (errno != EEXIST) {
        int r = -errno;
        (void)snprintf(text, TEXT_BYTES, "cannot create spool %s: %s", s->path, err_str(r));
        return r;
    }
    s->folder_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->folder_fd < 0) {
        int r = -errno;
        (void)snprintf(text, TEXT_BYTES, "cannot open spool %s: %s", s->path, err_str(r));
        return r;
    }
    return 0;
}

/* The process id is for people; the lock is the flock, which ends with the process. */
static int lock_take(struct spool_store *s, char *text)
{
    s->lock_fd = openat(s->folder_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0) {
        int r = -errno;
        (void)snprintf(text, TEXT_BYTES, "cannot open %s/" LOCK_FILE ": %s", s->path, err_str(r));
        return r;
    }
    char pid[32];
    ssize_t was = 0;
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        int r = -errno;
        if (r != -EWOULDBLOCK) {
            (void)snprintf(text, TEXT_BYTES, "cannot lock %s/" LOCK_FILE ": %s", s->path,
                           err_str(r));
            return r;
        }
        ssize_t n = pread(s->lock_fd, pid, sizeof(pid) - 1, 0);
        pid[n > 0 ? n : 0] = '\0';
        pid[strspn(pid, "0123456789")] = '\0';
        (void)snprintf(text, TEXT_BYTES, "spool %s is in use by %s%s", s->path,
                       pid[0] == '\0' ? "another process" : "process ", pid);
        return ERR_LOCKED;
    }
    was = pread(s->lock_fd, pid, sizeof(pid), 0);
    s->was_killed = was != 0;
    int len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    /* A full disk must not keep the spool from opening: without the number the next start looks at
     * less. */
    if (ftruncate(s->lock_fd, 0) == 0) {
        (void)!pwrite(s->lock_fd, pid, (size_t)len, 0);
        (void)fdatasync(s->lock_fd);
    }
    return 0;
}

static int tables_open(struct spool_store *s)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (rc != 0) {
        return rc;
    }
    for (int i = 0; i < SPOOL_TABLE_COUNT; i++) {
        rc = mdb_dbi_open(txn, table_names[i], MDB_CREATE, &s->dbi[i]);
        if (rc != 0) {
            mdb_txn_abort(txn);
            return rc;
        }
    }
    return mdb_txn_commit(txn); /* writes nothing when all tables were there */
}

void spool_note_commit(struct spool_store *s)
{
    MDB_envinfo info;
    MDB_stat stat;
    /* Both fail for a NULL argument only. */
    if (mdb_env_info(s->env, &info) == 0 && mdb_env_stat(s->env, &stat) == 0) {
        s->committed_txnid = info.me_last_txnid;
        s->page_bytes = stat.ms_psize;
    }
}

/* LMDB is about to end the process over a page that it cannot believe. */
static void on_assertion(MDB_env *env, const char *text)
{
    const struct spool_store *s = mdb_env_get_userctx(env);
    log_error("spool %s: a page of " SPOOL_DATA_FILE
              " is damaged (%s); the next start looks at all "
              "of it",
              s->path, text);
    _exit(EX_DATAERR);
}

/* Find out where LMDB's map begins: any page of the map knows its own number. errors: LMDB's */
static int map_base(struct spool_store *s, char **ret)
{
    MDB_txn *txn;
    MDB_dbi tables;
    MDB_cursor *cursor = NULL;
    MDB_val k;
    MDB_val v;
    int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_dbi_open(txn, NULL, 0, &tables);
    if (rc == 0) {
        rc = mdb_cursor_open(txn, tables, &cursor);
    }
    if (rc == 0) {
        rc = mdb_cursor_get(cursor, &k, &v, MDB_FIRST);
        mdb_cursor_close(cursor);
    }
    if (rc == 0) {
        uint64_t number;
        char *page = (char *)((uintptr_t)k.mv_data & ~(uintptr_t)(s->page_bytes - 1));
        memcpy(&number, page, sizeof(number));
        *ret = page - number * s->page_bytes;
    }
    mdb_txn_abort(txn);
    return rc;
}

/* returns LMDB's result */
static int guard_open(struct spool_store *s)
{
    MDB_envinfo info;
    char *base = NULL;
    int fd;
    int rc = map_base(s, &base);
    if (rc != 0 || (rc = mdb_env_info(s->env, &info)) != 0 ||
        (rc = mdb_env_get_fd(s->env, &fd)) != 0) {
        return rc;
    }
    (void)snprintf(s->guard.last_words, sizeof(s->guard.last_words),
                   "spool %s: a page of " SPOOL_DATA_FILE
                   " that everything hangs on cannot be read; "
                   "the next start says what to do\n",
                   s->path);
    int err = spool_guard_open(&s->guard, base, info.me_mapsize, s->page_bytes, fd);
    if (err != 0) {
        log_warning("spool %s: pages that cannot be read will end the process: %s", s->path,
                    err_str(err));
    }
    atomic_store_explicit(&s->faults_settled, spool_guard_faults(&s->guard), memory_order_relaxed);
    return 0;
}

static int env_open(struct spool_store *s)
{
    int rc = mdb_env_create(&s->env);
    if (rc != 0) {
        s->env = NULL;
        return spool_error(rc);
    }
    int dead;
    if ((rc = mdb_env_set_maxdbs(s->env, SPOOL_TABLE_COUNT)) != 0 ||
        (rc = mdb_env_set_maxreaders(s->env, MAX_READERS)) != 0 ||
        (rc = mdb_env_set_userctx(s->env, s)) != 0 ||
        (rc = mdb_env_set_assert(s->env, on_assertion)) != 0 ||
        (rc = mdb_env_set_mapsize(s->env, s->options.map_size)) != 0 ||
        /* No readahead: bodies are read once, in the order of the queue, not of the file. */
        (rc = mdb_env_open(s->env, s->path, MDB_NOTLS | MDB_NORDAHEAD, 0600)) != 0 ||
        (rc = mdb_reader_check(s->env, &dead)) != 0 || (rc = tables_open(s)) != 0) {
        mdb_env_close(s->env);
        s->env = NULL;
        return spool_error(rc);
    }
    spool_note_commit(s);
    rc = guard_open(s);
    if (rc != 0) {
        mdb_env_close(s->env);
        s->env = NULL;
    }
    return spool_error(rc);
}

static int run_txn(struct spool_store *s, int (*run)(struct spool_txn *, void *), void *arg)
{
    struct spool_txn *t;
    int r = spool_begin(s, &t);
    if (r != 0) {
        return r;
    }
    r = run(t, arg);
    if (r != 0) {
        spool_abort(t);
        return r;
    }
    return spool_commit(t);
}

static int clear_some(struct spool_txn *t, void *arg)
{
    return spool_clear_staging(t, CLEAR_LIMIT, arg);
}

static bool has_phantoms(const struct spool_store *s)
{
    bool has_any = false;
    for (int i = 0; i < SPOOL_TABLE_COUNT; i++) {
        has_any = has_any || s->phantoms[i] != 0;
    }
    return has_any;
}

/* From now on an older program must not open it again, and takes part in no takeover. */
static int put_version(struct spool_txn *t, bool may_have_old, uint64_t *version)
{
    *version = FORMAT_VERSION;
    int r = spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_VERSION, FORMAT_VERSION);
    return r == 0 && may_have_old ? spool_put_number(t, SPOOL_TABLE_META, SPOOL_META_TAKEOVER, 1)
                                  : r;
}

static int read_version(struct spool_txn *t, void *arg)
{
    uint64_t *version = arg;
    uint64_t messages;
    int r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_VERSION, version);
    if (r == ERR_MISSING || r == ERR_CORRUPT) {
        /* New, or one damaged record: every record tells its own version as well. */
        r = spool_table_count(t, SPOOL_TABLE_MESSAGE, &messages);
        r = r == 0 ? put_version(t, messages > 0, version) : r;
    } else if (r == 0 && *version >= FORMAT_OLDEST && *version < FORMAT_VERSION) {
        r = put_version(t, true, version);
    }
    return r;
}

static int load_flows(struct spool_txn *t, void *arg)
{
    struct spool_store *s = arg;
    bool is_doubted = s->flows.is_doubted || s->was_killed || s->counts_differ ||
                      s->lost_count > 0 || has_phantoms(s);
    spool_flows_fini(&s->flows);
    s->flows.is_doubted = is_doubted;
    return spool_flows_load(t);
}

/* Each message takes an id and a place once, so no sequence reached the ids that may be used now,
 * except after a repair. */
static int read_sequence(struct spool_txn *t)
{
    struct spool_store *s = t->store;
    uint64_t next = 0;
    int r = s->flows.is_doubted ? spool_flows_next_sequence(t, &next) : 0;
    s->next_sequence = next > s->first_id ? next : s->first_id;
    return r;
}

static int read_start(struct spool_txn *t, void *arg)
{
    struct spool_store *s = arg;
    int r = spool_read_node(t, &s->node);
    r = r != 0 ? r : spool_read_first_id(t, &s->first_id);
    if (r != 0) {
        return r;
    }
    r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_BOUND, &s->duplicate_bound);
    s->is_new = r == ERR_MISSING;
    if (r == ERR_MISSING || r == ERR_CORRUPT) {
        s->duplicate_bound = r == ERR_MISSING ? 0 : SPOOL_BOUND_UNKNOWN;
    } else if (r != 0) {
        return r;
    }
    r = spool_get_number(t, SPOOL_TABLE_META, SPOOL_META_CLOCK, &s->clock);
    if (r == ERR_MISSING || r == ERR_CORRUPT) {
        s->clock = 0;
    } else if (r != 0) {
        return r;
    }
    s->latest = s->clock;
    r = read_sequence(t);
    uint64_t requeued;
    r = r == 0 ? spool_requeue_lost(t, &requeued) : r;
    if (r == 0 && s->next_sequence > s->first_id) {
        s->first_id = s->next_sequence;
        r = spool_reserve_sequence(t);
    }
    r = r == 0 ? spool_suppress_load(t) : r;
    return r == 0 ? spool_restore_reasons(t) : r;
}

static int contents_read(struct spool_store *s, char *text)
{
    uint64_t version = 0;
    int r = run_txn(s, read_version, &version);
    if (r == 0 && version != FORMAT_VERSION) {
        (void)snprintf(text, TEXT_BYTES,
                       "spool %s has format %llu, this program knows %d: drain it with the version "
                       "that wrote it",
                       s->path, (unsigned long long)version, FORMAT_VERSION);
        return ERR_CORRUPT;
    }
    bool is_clear = false;
    while (r == 0 && !is_clear) {
        r = run_txn(s, clear_some, &is_clear);
    }
    if (r == 0) {
        r = run_txn(s, load_flows, s);
    }
    if (r == 0) {
        r = spool_take_over(s);
    }
    if (r == 0) {
        r = spool_journal_open(s);
    }
    if (r == 0) {
        r = run_txn(s, read_start, s);
    }
    if (r == 0) {
        r = fsync(s->folder_fd) != 0 ? -errno : 0;
    }
    if (r != 0) {
        (void)snprintf(text, TEXT_BYTES, "spool %.100s: %.40s%s", s->path, err_str(r),
                       r == -EIO ? "; if that stays so: sluice repair --salvage" : "");
    }
    return r;
}

/* Reads the contents at start. Pages that cannot be read are mended on the way, as they are while
 * the spool is in use. */
static int contents_open(struct spool_store *s, char *text)
{
    enum { ATTEMPTS = 8 };
    int r = contents_read(s, text);
    for (int i = 0; i < ATTEMPTS && r != 0 && (spool_is_in_doubt(s) || s->must_reopen); i++) {
        r = spool_store_reopen(s, NULL, NULL);
        if (r == 0) {
            r = contents_read(s, text);
        }
    }
    if (r == 0) {
        spool_name_lost(s);
    }
    return r;
}

static int data_open(struct spool_store *s, char *text)
{
    bool is_there = faccessat(s->folder_fd, SPOOL_DATA_FILE, F_OK, 0) == 0;
    int r = is_there && !spool_meta_is_blank(s) ? spool_inspect(s, s->was_killed, text) : 0;
    if (r == ERR_CORRUPT) {
        return r;
    }
    r = r == 0 ? env_open(s) : r;
    if (r == ERR_CORRUPT && spool_meta_is_blank(s) &&
        unlinkat(s->folder_fd, SPOOL_DATA_FILE, 0) == 0) {
        r = env_open(s);
    }
    if (r == -EIO) {
        (void)snprintf(text, TEXT_BYTES,
                       "cannot open %.100s/" SPOOL_DATA_FILE ": %.40s; if that stays so: sluice "
                       "repair --salvage",
                       s->path, err_str(r));
    } else if (r != 0) {
        (void)snprintf(text, TEXT_BYTES, "cannot open %s/" SPOOL_DATA_FILE ": %s%s", s->path,
                       err_str(r),
                       r == ERR_CORRUPT ? " (not a spool, or one that is damaged)" : "");
    }
    return r;
}

int spool_store_open(const struct spool_options *options, struct spool_store **ret,
                     char ret_text[TEXT_BYTES])
{
    struct spool_store *s = calloc(1, sizeof(*s));
    if (s == NULL || (s->path = strdup(options->path)) == NULL) {
        free(s);
        (void)snprintf(ret_text, TEXT_BYTES, "out of memory");
        return -ENOMEM;
    }
    s->options = *options;
    s->options.path = NULL;
    s->folder_fd = -1;
    s->lock_fd = -1;
    s->journal.fd = -1;
    s->txn.store = s;
    list_init(&s->readers);
    spool_flows_init(&s->flows);
    int r = -pthread_mutex_init(&s->readers_lock, NULL);
    if (r != 0) {
        free(s->path);
        free(s);
        (void)snprintf(ret_text, TEXT_BYTES, "%s", err_str(r));
        return r;
    }
    if ((r = folder_open(s, ret_text)) != 0 || (r = lock_take(s, ret_text)) != 0 ||
        (r = data_open(s, ret_text)) != 0 || (r = contents_open(s, ret_text)) != 0) {
        spool_store_close(s);
        return r;
    }
    s->is_whole = true;
    spool_store_restore_ballast(s);
    *ret = s;
    return 0;
}

static void env_close(struct spool_store *s)
{
    assert(s->txn.txn == NULL);
    if (s->stat_txn != NULL) {
        mdb_txn_abort(s->stat_txn);
        s->stat_txn = NULL;
    }
    spool_guard_close(&s->guard);
    if (s->env != NULL) {
        mdb_env_close(s->env);
        s->env = NULL;
    }
}

/* What the next start goes by: all that is known to be bad has been mended by it. Where a table
 * counts what it has lost each start counts anew. */
static void say_stopped(struct spool_store *s)
{
    if (s->is_whole && !has_phantoms(s) && !s->has_mended && !spool_is_in_doubt(s) &&
        !s->must_reopen) {
        /* when that fails, the next start takes this stop for a crash and looks at all leaves */
        (void)!ftruncate(s->lock_fd, 0);
    }
}

void spool_store_close(struct spool_store *s)
{
    if (s == NULL) {
        return;
    }
    assert(list_is_empty(&s->readers));
    if (s->lock_fd >= 0) {
        say_stopped(s);
    }
    env_close(s);
    spool_journal_close(s);
    if (s->lock_fd >= 0) {
        (void)close(s->lock_fd); /* releases the lock; holds no data */
    }
    if (s->folder_fd >= 0) {
        (void)close(s->folder_fd); /* read only */
    }
    (void)pthread_mutex_destroy(&s->readers_lock); /* cannot fail: no thread holds the lock */
    spool_flows_fini(&s->flows);
    free(s->lost);
    free(s->path);
    free(s);
}

void spool_store_on_damage(struct spool_store *s, void (*wake)(void *ctx), void *ctx)
{
    s->on_damage = wake;
    s->on_damage_ctx = ctx;
}

bool spool_store_is_damaged(struct spool_store *s)
{
    return spool_is_in_doubt(s);
}

uint64_t spool_faults_seen(void)
{
    return spool_guard_thread_faults();
}

static bool readers_are_idle(struct spool_store *s)
{
    list_foreach(r, &s->readers, struct spool_reader, link)
    {
        if (atomic_load_explicit(&r->state, memory_order_seq_cst) != SPOOL_READER_IDLE) {
            return false;
        }
    }
    return true;
}

/* Takes the pages that could not be read, before the map is closed. returns whether the file must
 * be inspected */
static bool take_suspects(struct spool_store *s)
{
    s->must_look = s->must_look || s->suspect_count > 0 || spool_is_in_doubt(s);
    for (int i = 0; i < SPOOL_GUARD_PAGES && s->suspect_count < SPOOL_GUARD_PAGES; i++) {
        uint64_t page = atomic_load_explicit(&s->guard.pages[i], memory_order_seq_cst);
        if (page != 0) {
            s->suspects[s->suspect_count++] = page & ~SPOOL_GUARD_DATA;
        }
    }
    return s->must_look;
}

/* Inspects the file again: pages that were readable at the start may have become bad. */
static int inspect_anew(struct spool_store *s)
{
    char text[TEXT_BYTES];
    s->has_mended = true;
    int r = spool_inspect(s, true, text);
    if (r == ERR_CORRUPT) {
        log_error("%s", text);
    }
    return r;
}

static int restore_reasons(struct spool_txn *t, void *arg)
{
    (void)arg;
    return spool_restore_reasons(t);
}

/* Nobody reads yet. */
static void settle_lost(struct spool_store *s)
{
    int r = s->lost_count == 0 ? 0 : run_txn(s, restore_reasons, NULL);
    if (r != 0) {
        log_error("spool %s: what is lost cannot be made up for: %s", s->path, err_str(r));
    }
    spool_name_lost(s);
}

int spool_store_reopen(struct spool_store *s, void (*wake)(void *ctx), void *ctx)
{
    /* Stays set until an open succeeds: see spool_env.h. */
    atomic_store_explicit(&s->suspended, 1, memory_order_seq_cst);
    pthread_mutex_lock(&s->readers_lock);
    if (!readers_are_idle(s)) {
        pthread_mutex_unlock(&s->readers_lock);
        if (wake != NULL) {
            wake(ctx);
        }
        return ERR_AGAIN;
    }
    list_foreach(r, &s->readers, struct spool_reader, link)
    {
        spool_reader_detach(r);
    }
    bool must_look = take_suspects(s);
    env_close(s);
    int r = spool_meta_settle(s);
    if (r == 0 && must_look) {
        spool_flows_doubt(&s->flows);
        r = inspect_anew(s);
    }
    if (r == 0) {
        r = env_open(s);
    }
    pthread_mutex_unlock(&s->readers_lock);
    if (r == 0) {
        s->must_reopen = s->must_look = false;
        s->suspect_count = 0;
        if (s->is_whole) {
            settle_lost(s);
        }
        atomic_store_explicit(&s->suspended, 0, memory_order_seq_cst);
    }
    return r;
}

bool spool_store_must_reopen(const struct spool_store *s)
{
    return s->must_reopen || s->env == NULL;
}

int spool_tables_pages(const struct spool_store *s, MDB_txn *txn, uint64_t *ret_pages)
{
    uint64_t pages = 2; /* meta pages */
    /* Handles 0 and 1 are LMDB's own: the list of free pages and the table of tables. */
    for (int i = -2; i < SPOOL_TABLE_COUNT; i++) {
        MDB_stat stat;
        int rc = mdb_stat(txn, i < 0 ? (MDB_dbi)(i + 2) : s->dbi[i], &stat);
        if (rc != 0) {
            return spool_error(rc);
        }
        pages += stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
    }
    *ret_pages = pages;
    return 0;
}

static int stat_begin(struct spool_store *s)
{
    if (s->env == NULL) {
        return -EIO;
    }
    if (s->stat_txn != NULL) {
        return spool_error(mdb_txn_renew(s->stat_txn));
    }
    int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &s->stat_txn);
    if (rc != 0) {
        s->stat_txn = NULL;
    }
    return spool_error(rc);
}

uint64_t spool_bytes_left(const struct spool_store *s, const MDB_envinfo *info,
                          const MDB_stat *stat, uint64_t used_pages, bool *ret_is_by_disk)
{
    struct statvfs disk;
    *ret_is_by_disk = true;
    if (fstatvfs(s->folder_fd, &disk) != 0) {
        return 0;
    }
    uint64_t pages = info->me_last_pgno + 1;
    uint64_t extent = pages * stat->ms_psize;
    uint64_t map_left = info->me_mapsize > extent ? info->me_mapsize - extent : 0;
    uint64_t disk_left = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t inside = pages > used_pages ? (pages - used_pages) * stat->ms_psize : 0;
    *ret_is_by_disk = disk_left < map_left;
    return inside + (disk_left < map_left ? disk_left : map_left);
}

uint64_t spool_store_free_bytes(struct spool_store *s)
{
    uint64_t used_pages = 0;
    if (stat_begin(s) != 0) {
        return 0;
    }
    MDB_envinfo info;
    MDB_stat stat;
    int r = spool_tables_pages(s, s->stat_txn, &used_pages);
    if (r == 0) {
        r = spool_error(mdb_env_info(s->env, &info));
    }
    if (r == 0) {
        r = spool_error(mdb_env_stat(s->env, &stat));
    }
    mdb_txn_reset(s->stat_txn);
    bool is_by_disk;
    return r == 0 ? spool_bytes_left(s, &info, &stat, used_pages, &is_by_disk) : 0;
}

void spool_store_drop_ballast(struct spool_store *s)
{
    (void)unlinkat(s->folder_fd, BALLAST_FILE, 0); /* gone already is as good */
}

void spool_store_restore_ballast(struct spool_store *s)
{
    uint64_t bytes = s->options.ballast;
    if (bytes == 0) {
        spool_store_drop_ballast(s);
        return;
    }
    int fd = openat(s->folder_fd, BALLAST_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return;
    }
    struct stat st;
    struct statvfs disk;
    bool has_ballast = fstat(fd, &st) == 0 && (uint64_t)st.st_size >= bytes;
    if (!has_ballast && fstatvfs(fd, &disk) == 0) {
        uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
        has_ballast = left > bytes && left - bytes > s->options.reserve &&
                      posix_fallocate(fd, 0, (off_t)bytes) == 0;
    }
    (void)close(fd); /* holds no data */
    if (!has_ballast) {
        spool_store_drop_ballast(s);
    }
}

uint64_t spool_store_first_id(const struct spool_store *s)
{
    return s->first_id;
}

uint16_t spool_store_node(const struct spool_store *s)
{
    return s->node;
}

usec_t spool_store_clock(const struct spool_store *s)
{
    return (usec_t)s->clock;
}

uint64_t spool_store_duplicate_bound(const struct spool_store *s)
{
    return s->duplicate_bound;
}

bool spool_store_is_new(const struct spool_store *s)
{
    return s->is_new;
}
