/* Called by the command; one thread. Reads the old file by spool_tree.h and by its own scan, writes
 * the new one by the store's transactions. */
#include "engine/spool/spool_salvage.h"

#include "base/error.h"
#include "engine/spool/spool_inspect.h"
#include "engine/spool/spool_journal.h"
#include "engine/spool/spool_meta.h"
#include "engine/spool/spool_repair.h"
#include "engine/spool/spool_salvage_check.h"
#include "engine/spool/spool_table.h"
#include "engine/spool/spool_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW_FOLDER "salvage"
enum { TEXT_BYTES = 256, COMMIT_BYTES = 32 << 20, COMMIT_RECORDS = 20000, TREES_MAX = 64 };

struct salvage {
    struct spool_salvage *report;
    int folder;
    struct spool_file file;
    bool has_trees; /* file.meta is the old file's */
    uint8_t *seen;
    struct spool_tree trees[SPOOL_TABLE_COUNT];
    bool has_tree[SPOOL_TABLE_COUNT];
    bool has_hole;             /* a part of a tree is missing */
    bool is_unsure;            /* what is found outside of the trees may be old */
    bool is_orphan;            /* the leaf at hand is outside of the trees */
    int table;                 /* being copied */
    struct spool_store *store; /* the new one */
    struct spool_txn *txn;
    uint64_t txn_bytes, txn_records;
    struct spool_findings findings;
    char *record; /* of a large value */
    size_t record_room;
    uint64_t greatest_id;
    bool has_ids, has_generation;
};

/* --- copying records -------------------------------------------------------------------------- */

static int next_txn(struct salvage *v, bool is_last)
{
    int err = 0;
    if (v->txn != NULL &&
        (is_last || v->txn_bytes > COMMIT_BYTES || v->txn_records > COMMIT_RECORDS)) {
        struct spool_txn *t = v->txn;
        v->txn = NULL;
        v->txn_bytes = v->txn_records = 0;
        err = spool_commit(t);
    }
    if (err == 0 && v->txn == NULL && !is_last) {
        err = spool_begin(v->store, &v->txn);
    }
    return err;
}

/* The bytes of a node's value, wherever they are. errors: -ENOMEM; ERR_CORRUPT, -errno: unreadable
 */
static int value_of(struct salvage *v, const struct spool_node *node, struct slice *ret)
{
    const size_t page_bytes = v->file.meta.page_bytes;
    *ret = node->value;
    if (!node->is_large) {
        return 0;
    }
    uint64_t pages = spool_large_pages(node->bytes, page_bytes);
    if (node->bytes > SPOOL_RECORD_BYTES_MAX ||
        !spool_tree_mark(&v->file, NULL, node->page, pages)) {
        return ERR_CORRUPT;
    }
    (void)spool_tree_mark(&v->file, v->seen, node->page,
                          pages); /* seen twice: its checksum tells */
    size_t bytes = SPOOL_PAGE_HEAD + node->bytes;
    if (v->record_room < bytes) {
        char *grown = realloc(v->record, bytes);
        if (grown == NULL) {
            return -ENOMEM;
        }
        v->record = grown;
        v->record_room = bytes;
    }
    int err = spool_file_read(&v->file, node->page, v->record, bytes);
    *ret = slice_make(v->record + SPOOL_PAGE_HEAD, node->bytes);
    return err;
}

static struct spool_key key_of(struct slice key)
{
    struct spool_key copy = {.len = key.len};
    memcpy(copy.bytes, key.data, key.len);
    return copy;
}

static int put_record(struct salvage *v, enum spool_table table, const struct spool_key *key,
                      struct slice value)
{
    struct slice there;
    void *at;
    int err = spool_table_get(v->txn, table, key, &there);
    if (err == 0 && v->is_orphan) {
        return 0; /* what the trees say goes first */
    }
    if (err != 0 && err != ERR_MISSING) {
        return err;
    }
    err = spool_table_put(v->txn, table, key, value.len, &at);
    if (err == 0 && value.len > 0) {
        memcpy(at, value.data, value.len);
    }
    v->txn_bytes += value.len;
    v->txn_records++;
    return err;
}

/* Numbers that go on to hold. The format is the new file's own. */
static int copy_number(struct salvage *v, const struct spool_key *key, struct slice value)
{
    const struct slice name = slice_make((const char *)key->bytes, key->len);
    uint64_t number;
    if (slice_eq(name, SLICE(SPOOL_META_VERSION)) ||
        spool_number_decode(value, key, &number) != 0) {
        return 0;
    }
    v->has_ids = v->has_ids || slice_eq(name, SLICE(SPOOL_META_IDS));
    if (!slice_eq(name, SLICE(SPOOL_META_JOURNAL))) {
        return put_record(v, SPOOL_TABLE_META, key, value);
    }
    if (v->is_orphan && v->is_unsure) {
        return 0; /* an old generation would not count what the journal holds */
    }
    v->has_generation = true;
    int err = put_record(v, SPOOL_TABLE_META, key, value);
    return err != 0 ? err : put_record(v, SPOOL_TABLE_TWIN, key, value);
}

/* What a record that cannot be used means for its message. */
static int note_bad(struct salvage *v, enum spool_table table, struct slice key, uint64_t id)
{
    uint32_t number;
    if (table == SPOOL_TABLE_REASON) {
        const struct spool_key next =
            spool_key_part(id, spool_key_read_part(key, &id, &number) ? number + 1 : 0);
        return spool_note_lost(v->store, table, key,
                               slice_make((const char *)next.bytes, next.len));
    }
    return spool_ids_add(table == SPOOL_TABLE_STATE ? &v->findings.repeat : &v->findings.bad, id);
}

static bool is_queue(enum spool_table table)
{
    return table == SPOOL_TABLE_INCOMING || table == SPOOL_TABLE_DEFERRED ||
           table == SPOOL_TABLE_HELD;
}

/* What cannot be used is left out: one who is not suppressed any more will be again. */
static int copy_suppression(struct salvage *v, const struct spool_node *node)
{
    if (node->is_large || !spool_suppress_is_good(node->key, node->value)) {
        return 0;
    }
    int err = spool_suppress_copy(v->txn, node->key, node->value, !v->is_orphan);
    v->txn_bytes += node->key.len + node->value.len;
    v->txn_records++;
    return err != 0 ? err : next_txn(v, false);
}

static int copy_record(struct salvage *v, enum spool_table table, const struct spool_node *node)
{
    struct slice value;
    uint64_t id;
    if (table == SPOOL_TABLE_SUPPRESSED) {
        return copy_suppression(v, node);
    }
    if (node->key.len > sizeof(((struct spool_key *)0)->bytes) ||
        !spool_salvage_key(table, node->key, &id)) {
        return 0; /* nothing of ours: a tombstone */
    }
    const struct spool_key key = key_of(node->key);
    int err = value_of(v, node, &value);
    if (err == -ENOMEM) {
        return err;
    }
    if (table == SPOOL_TABLE_META || table == SPOOL_TABLE_TWIN) {
        return err != 0 ? 0 : copy_number(v, &key, value);
    }
    if (is_queue(table) && node->key.len == SPOOL_OLD_QUEUE_KEY_BYTES) {
        v->report->is_queue_guess =
            true; /* a place of a format before 5: the message is queued anew */
        return 0;
    }
    v->greatest_id = id > v->greatest_id ? id : v->greatest_id;
    if (table == SPOOL_TABLE_STAGING) {
        return spool_ids_add(&v->findings.staged, id);
    }
    if (err != 0 || !spool_salvage_is_good(table, &key, value)) {
        if (table == SPOOL_TABLE_STRIKES || table == SPOOL_TABLE_SIGNING) {
            return 0; /* they are counted anew, or made again */
        }
        if (table == SPOOL_TABLE_FLOW) {
            return 0; /* its names are in the messages as well: spool_flows_load */
        }
        return note_bad(v, table, node->key, id);
    }
    err = put_record(v, table, &key, value);
    if (err == 0 && v->is_orphan && v->is_unsure) {
        err = spool_ids_add(&v->findings.repeat, id);
    }
    return err != 0 ? err : next_txn(v, false);
}

/* Copy the good records of a leaf. Nodes that are out of order may be good: their checksums
 * tell. */
static int copy_leaf(struct salvage *v, enum spool_table table, const char *bytes)
{
    const size_t page_bytes = v->file.meta.page_bytes;
    const unsigned count = spool_page_nodes(bytes, page_bytes);
    int err = 0;
    for (unsigned i = 0; err == 0 && i < count; i++) {
        struct spool_node node;
        if (spool_page_node(bytes, page_bytes, SPOOL_PAGE_LEAF, i, &node) && !node.is_tree) {
            err = copy_record(v, table, &node);
        } else {
            v->has_hole = true;
        }
    }
    return err;
}

/* --- the trees -------------------------------------------------------------------------------- */

static int on_leaf(void *ctx, const struct spool_place *place, const char *bytes)
{
    struct salvage *v = ctx;
    (void)place; /* every leaf alike */
    return copy_leaf(v, (enum spool_table)v->table, bytes);
}

static uint64_t first_id(struct slice key, uint64_t otherwise)
{
    uint64_t id;
    return key.len >= sizeof(id) && spool_key_read_id(slice_to(key, sizeof(id)), &id) ? id
                                                                                      : otherwise;
}

static int on_bad(void *ctx, const struct spool_place *place, const char *bytes, int err)
{
    struct salvage *v = ctx;
    (void)err; /* whatever it is */
    v->report->bad_pages++;
    v->has_hole = v->has_hole || !place->is_leaf;
    v->report->is_queue_guess = v->report->is_queue_guess || is_queue((enum spool_table)v->table);
    int r = 0;
    if (v->table == SPOOL_TABLE_STATE) {
        r = spool_findings_add_range(&v->findings, first_id(place->lo, 0),
                                     first_id(place->hi, UINT64_MAX));
    } else if (v->table == SPOOL_TABLE_REASON) {
        r = spool_note_lost(v->store, v->table, place->lo, place->hi);
    }
    return r == 0 && place->is_leaf && bytes != NULL
               ? copy_leaf(v, (enum spool_table)v->table, bytes)
               : r;
}

static int on_tables(void *ctx, const struct spool_place *place, const char *bytes)
{
    struct salvage *v = ctx;
    const size_t page_bytes = v->file.meta.page_bytes;
    (void)place; /* there is only one leaf of tables */
    for (unsigned i = 0; i < spool_page_nodes(bytes, page_bytes); i++) {
        struct spool_node node;
        struct spool_tree tree;
        if (!spool_page_node(bytes, page_bytes, SPOOL_PAGE_LEAF, i, &node) || !node.is_tree ||
            !spool_tree_parse(node.value, &tree)) {
            v->has_hole = true;
            continue;
        }
        for (int table = 0; table < SPOOL_TABLE_COUNT; table++) {
            if (slice_eq(node.key, slice_of(spool_table_name((enum spool_table)table)))) {
                v->trees[table] = tree;
                v->has_tree[table] = true;
            }
        }
    }
    return 0;
}

static int on_tables_bad(void *ctx, const struct spool_place *place, const char *bytes, int err)
{
    struct salvage *v = ctx;
    (void)place, (void)bytes, (void)err; /* every table is looked for then */
    v->report->bad_pages++;
    v->has_hole = true;
    return 0;
}

static int copy_trees(struct salvage *v)
{
    struct spool_tree_walk walk = {
        .file = &v->file, .on_leaf = on_tables, .on_bad = on_tables_bad, .ctx = v, .seen = v->seen};
    int err = spool_tree_walk(&walk, &v->file.meta.tables);
    walk.on_leaf = on_leaf;
    walk.on_bad = on_bad;
    for (v->table = 0; (err == 0 || err == ERR_CORRUPT) && v->table < SPOOL_TABLE_COUNT;
         v->table++) {
        v->has_hole = v->has_hole || (!v->has_tree[v->table] && v->table < SPOOL_TABLE_TWIN);
        err = v->has_tree[v->table] ? spool_tree_walk(&walk, &v->trees[v->table]) : 0;
    }
    return err == ERR_CORRUPT ? 0 : err;
}

/* --- what hangs on pages that are lost -------------------------------------------------------- */

static int on_free_leaf(void *ctx, const struct spool_place *place, const char *bytes)
{
    struct salvage *v = ctx;
    const size_t page_bytes = v->file.meta.page_bytes;
    int err = 0;
    (void)place; /* every leaf alike */
    for (unsigned i = 0; err == 0 && i < spool_page_nodes(bytes, page_bytes); i++) {
        struct spool_node node;
        struct slice list;
        uint64_t count = 0;
        if (!spool_page_node(bytes, page_bytes, SPOOL_PAGE_LEAF, i, &node) ||
            (err = value_of(v, &node, &list)) != 0 || list.len < sizeof(count)) {
            v->is_unsure = true;
            err = err == -ENOMEM ? err : 0;
            continue;
        }
        memcpy(&count, list.data, sizeof(count));
        count = count < list.len / sizeof(count) ? count : list.len / sizeof(count) - 1;
        for (uint64_t k = 1; k <= count; k++) {
            uint64_t page;
            memcpy(&page, list.data + k * sizeof(page), sizeof(page));
            (void)spool_tree_mark(&v->file, v->seen, page, 1); /* odd ones do no harm */
        }
    }
    return err;
}

static int on_free_bad(void *ctx, const struct spool_place *place, const char *bytes, int err)
{
    struct salvage *v = ctx;
    (void)place, (void)bytes, (void)err; /* whatever it is */
    v->report->bad_pages++;
    v->is_unsure = true;
    return 0;
}

static bool is_seen(const struct salvage *v, uint64_t page)
{
    return (v->seen[page / 8] >> page % 8 & 1) != 0;
}

/* Large values are passed over as a whole: a message's content could look like a page. */
static int scan_pages(struct salvage *v)
{
    const size_t page_bytes = v->file.meta.page_bytes;
    char *bytes = malloc(page_bytes);
    int err = bytes == NULL ? -ENOMEM : 0;
    v->is_orphan = true;
    for (uint64_t page = 2; err == 0 && page <= v->file.meta.last_page; page++) {
        if (is_seen(v, page) || spool_file_read(&v->file, page, bytes, page_bytes) != 0) {
            continue;
        }
        uint64_t pages = spool_large_length(bytes, page);
        if (pages > 0) {
            page += pages - 1;
            continue;
        }
        if (spool_page_is_sound(bytes, page_bytes, page, SPOOL_PAGE_LEAF)) {
            int table = spool_salvage_table(&v->file, bytes);
            err = table < 0 ? 0 : copy_leaf(v, (enum spool_table)table, bytes);
        }
    }
    free(bytes);
    return err;
}

static int copy_all(struct salvage *v)
{
    int err = next_txn(v, false);
    if (err == 0 && v->has_trees) {
        err = copy_trees(v);
    }
    if (err == 0 && !v->has_tree[SPOOL_TABLE_REASON]) {
        err = spool_note_lost(v->store, SPOOL_TABLE_REASON, SLICE(""), SLICE(""));
    }
    if (err == 0 && (v->has_hole || !v->has_trees || v->file.is_meta_lost)) {
        struct spool_tree_walk walk = {.file = &v->file,
                                       .on_leaf = on_free_leaf,
                                       .on_bad = on_free_bad,
                                       .ctx = v,
                                       .seen = v->seen,
                                       .has_free_keys = true};
        v->is_unsure = !v->has_trees || v->file.is_meta_lost;
        if (!v->is_unsure && spool_tree_walk(&walk, &v->file.meta.free_pages) != 0) {
            v->is_unsure = true;
        }
        v->report->is_queue_guess = true;
        err = scan_pages(v);
    }
    return err;
}

/* --- files ------------------------------------------------------------------------------------ */

static int file_open(struct salvage *v, char *text)
{
    struct stat st;
    int fd = openat(v->folder, SPOOL_DATA_FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int err = -errno;
        (void)snprintf(text, TEXT_BYTES, SPOOL_DATA_FILE ": %s", err_str(err));
        v->file.fd = fd;
        return err;
    }
    v->has_trees = spool_file_metas(&v->file, fd) == 0;
    if (!v->has_trees) {
        v->file.meta.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    }
    v->report->is_root_unsure = !v->has_trees || v->file.is_meta_lost;
    uint64_t pages = (uint64_t)st.st_size / v->file.meta.page_bytes;
    if (v->report->is_root_unsure && pages > v->file.meta.last_page + 1) {
        v->file.meta.last_page = pages - 1; /* a newer root may have had more */
    }
    v->seen = calloc(1, v->file.meta.last_page / 8 + 1);
    return v->seen == NULL ? -ENOMEM : 0;
}

static void remove_new(int folder)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "spool.lock", "ballast", "journal"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), NEW_FOLDER "/%s", names[i]);
        (void)unlinkat(folder, path, 0); /* the file need not be there */
    }
    (void)unlinkat(folder, NEW_FOLDER, AT_REMOVEDIR); /* the folder need not be there */
}

/* The old file keeps a name of its own before the new one takes its place: at no moment is there
 * none. */
static int replace(struct salvage *v)
{
    struct stat st;
    int fd = openat(v->folder, NEW_FOLDER "/data.mdb", O_RDWR | O_CLOEXEC);
    int err = fd < 0 || fstat(v->file.fd, &st) != 0 ? -errno : 0;
    if (err == 0 && (fchown(fd, st.st_uid, st.st_gid) != 0 || fchmod(fd, st.st_mode & 0777) != 0 ||
                     fsync(fd) != 0)) {
        err = -errno;
    }
    for (unsigned i = 1; err == 0; i++) {
        (void)snprintf(v->report->old_name, sizeof(v->report->old_name),
                       SPOOL_DATA_FILE ".damaged-%u", i);
        err =
            linkat(v->folder, SPOOL_DATA_FILE, v->folder, v->report->old_name, 0) != 0 ? -errno : 0;
        if (err != -EEXIST) {
            break;
        }
        err = 0;
    }
    if (err == 0 && (renameat(v->folder, NEW_FOLDER "/data.mdb", v->folder, SPOOL_DATA_FILE) != 0 ||
                     fsync(v->folder) != 0)) {
        err = -errno;
    }
    if (err == 0) {
        (void)unlinkat(v->folder, "lock.mdb", 0); /* of the old file; made again */
    }
    if (fd >= 0) {
        (void)close(fd); /* the file was synced: close has nothing to tell */
    }
    return err;
}

/* errors: ERR_LOCKED, -errno */
static int lock(int folder)
{
    int fd = openat(folder, "spool.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        return fd;
    }
    int err = errno == EWOULDBLOCK ? ERR_LOCKED : -errno;
    if (fd >= 0) {
        (void)close(fd); /* nothing was written to it */
    }
    return err;
}

static int finish_numbers(struct salvage *v)
{
    enum { ID_GAP_BITS = 40 }; /* more than any run hands out */
    const struct spool_key journal = spool_key_name(SPOOL_META_JOURNAL);
    int err = 0;
    if (!v->has_ids) {
        err = spool_reserve_ids(v->txn, v->greatest_id + (1ULL << ID_GAP_BITS));
    }
    /* An older root knows an older journal: what came since would not count. */
    bool is_old = v->report->is_root_unsure && spool_journal_has_name(v->folder);
    if (err == 0 && (!v->has_generation || is_old)) {
        /* The next start asks the journal itself, and names what it takes from it. */
        err = spool_table_del(v->txn, SPOOL_TABLE_META, &journal);
        err = err != 0 ? err : spool_table_del(v->txn, SPOOL_TABLE_TWIN, &journal);
    }
    return err;
}

static int build(struct salvage *v, const struct spool_options *options, char *text)
{
    char path[4096];
    struct spool_options new_options = {.path = path, .map_size = options->map_size};
    (void)snprintf(path, sizeof(path), "%.4000s/" NEW_FOLDER, options->path);
    remove_new(v->folder);
    int err = spool_store_open(&new_options, &v->store, text);
    if (err != 0) {
        return err;
    }
    err = copy_all(v);
    if (err == 0) {
        err = finish_numbers(v);
    }
    if (err == 0) {
        err = next_txn(v, true);
    } else if (v->txn != NULL) {
        spool_abort(v->txn);
    }
    if (err == 0) {
        err = spool_salvage_settle(v->store, &v->findings, v->report);
    }
    spool_store_close(v->store);
    if (err == 0) {
        err = replace(v);
    }
    if (err != 0) {
        (void)snprintf(text, TEXT_BYTES, "building the new spool: %s", err_str(err));
    }
    remove_new(v->folder);
    return err;
}

int spool_salvage(const struct spool_options *options, struct spool_salvage *report,
                  char text[TEXT_BYTES])
{
    struct salvage *v = calloc(1, sizeof(*v));
    int locked = -1;
    if (v == NULL) {
        (void)snprintf(text, TEXT_BYTES, "out of memory");
        return -ENOMEM;
    }
    v->report = report;
    v->file.fd = -1;
    v->folder = open(options->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = v->folder < 0 ? -errno : 0;
    if (err == 0) {
        locked = lock(v->folder);
        err = locked < 0 ? locked : 0;
    }
    if (err != 0) {
        (void)snprintf(text, TEXT_BYTES, "spool %.100s: %s", options->path,
                       err == ERR_LOCKED ? "in use; stop the daemon first" : err_str(err));
    } else {
        err = file_open(v, text);
        if (err == 0) {
            err = build(v, options, text);
        }
    }
    if (v->file.fd >= 0) {
        (void)close(v->file.fd); /* read only */
    }
    if (locked >= 0) {
        (void)close(locked); /* holds nothing */
    }
    if (v->folder >= 0) {
        (void)close(v->folder); /* read only */
    }
    spool_findings_fini(&v->findings);
    free(v->seen);
    free(v->record);
    free(v);
    return err;
}
