/* Called by the writer when the spool is opened or opened anew; nobody uses the file meanwhile. */
#include "engine/spool/spool_inspect.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/spool/spool_meta.h"
#include "engine/spool/spool_salvage_check.h"
#include "engine/spool/spool_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVIDENCE_FOLDER "damaged"
enum { TEXT_BYTES = 256, TREES_MAX = 64, KEY_BYTES = 24, NAME_BYTES = 16 };

/* A page to be written in the place of a bad one. */
struct mended {
    struct list link;
    uint64_t page;
    char bytes[];
};

struct tree {
    char name[NAME_BYTES + 1];
    int table; /* enum spool_table; -1: not one of ours */
    struct spool_tree tree;
};

struct inspection {
    struct spool_store *store;
    struct spool_file file;
    struct spool_tree_walk walk;
    struct tree trees[TREES_MAX];
    unsigned tree_count;
    const struct tree *tree; /* being walked; NULL: the tree of tables, or that of free pages */
    bool is_free;
    uint64_t records; /* of the tree so far */
    uint8_t *seen;
    struct list mended;
    char *text;
};

static int give_up_page(struct inspection *in, uint64_t page, const char *what, int err)
{
    (void)snprintf(in->text, TEXT_BYTES,
                   "spool %.70s: page %llu of " SPOOL_DATA_FILE " (%.40s): %.40s; what hangs on it "
                   "needs: sluice repair --salvage",
                   in->store->path, (unsigned long long)page, what,
                   err == ERR_LIMIT ? "used twice, or not there" : err_str(err));
    return ERR_CORRUPT;
}

/* --- mending ---------------------------------------------------------------------------------- */

static int add_mended(struct inspection *in, uint64_t page, struct mended **ret)
{
    struct mended *m = calloc(1, sizeof(*m) + in->file.meta.page_bytes);
    if (m == NULL) {
        return -ENOMEM;
    }
    m->page = page;
    list_init(&m->link);
    list_push_back(&in->mended, &m->link);
    *ret = m;
    return 0;
}

/* What was there, for whoever wants to look into it. */
static void keep_evidence(const struct inspection *in, uint64_t page, const char *bytes)
{
    char name[64];
    (void)snprintf(name, sizeof(name), EVIDENCE_FOLDER "/page-%llu-of-%llu",
                   (unsigned long long)page, (unsigned long long)in->file.meta.txnid);
    (void)mkdirat(in->store->folder_fd, EVIDENCE_FOLDER, 0700); /* there, or the next call fails */
    int fd = openat(in->store->folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, in->file.meta.page_bytes) < 0) {
        log_warning("spool %s: %s cannot be written: %s", in->store->path, name, strerror(errno));
    }
    if (fd >= 0) {
        (void)close(fd); /* a courtesy */
    }
}

/* An id or a time, for most tables. */
static uint64_t first_number(struct slice key, uint64_t otherwise)
{
    uint64_t number = otherwise;
    return key.len >= sizeof(number) && spool_key_read_id(slice_to(key, sizeof(number)), &number)
               ? number
               : otherwise;
}

static uint32_t part_number(struct slice key, uint32_t otherwise)
{
    uint64_t id;
    uint32_t number;
    return spool_key_read_part(key, &id, &number) ? number : otherwise;
}

int spool_note_lost(struct spool_store *s, int table, struct slice lo, struct slice hi)
{
    const uint64_t from = first_number(lo, 0);
    const uint64_t to = first_number(hi, UINT64_MAX);
    struct spool_lost *grown = realloc(s->lost, (s->lost_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    s->lost = grown;
    s->lost[s->lost_count++] =
        (struct spool_lost){table, from, to, part_number(lo, 0), part_number(hi, UINT32_MAX)};
    return 0;
}

/* A leaf must have a record. A key of an odd length at the lower bound is one that no table has; in
 * the list of free pages it is a number, and no page is free by it. */
static bool add_tombstone(const struct inspection *in, const struct spool_place *place, char *page)
{
    static const char no_pages[8];
    char key[512] = "";
    uint64_t first = 1;
    size_t len = place->lo.len < sizeof(key) - 1 ? place->lo.len : sizeof(key) - 1;
    struct spool_node node = {.value = SLICE("")};
    if (len > 0) {
        memcpy(key, place->lo.data, len);
    }
    node.key = slice_make(key, len + 1);
    if (in->is_free) {
        node.key = len > 0 ? place->lo : slice_make((const char *)&first, sizeof(first));
        node.value = slice_make(no_pages, sizeof(no_pages));
    }
    return spool_leaf_add(page, in->file.meta.page_bytes, &node);
}

static bool record_fits(struct inspection *in, const struct spool_node *node)
{
    uint64_t pages = spool_large_pages(node->bytes, in->file.meta.page_bytes);
    return !node->is_tree &&
           (!node->is_large || spool_tree_mark(&in->file, NULL, node->page, pages));
}

/* false: what stands in for the records of an earlier mending, which LMDB does not count */
static bool is_counted(const struct inspection *in, const struct spool_node *node)
{
    uint64_t id;
    return in->tree == NULL || in->tree->table < 0 ||
           spool_salvage_key((enum spool_table)in->tree->table, node->key, &id);
}

static int mend_leaf(struct inspection *in, const struct spool_place *place, const char *bytes,
                     int why)
{
    const size_t page_bytes = in->file.meta.page_bytes;
    struct mended *m;
    unsigned kept = 0;
    uint64_t counted = 0;
    struct spool_leaf_walk leaf = {place, bytes, page_bytes, in->is_free, {NULL, 0}};
    int err =
        spool_note_lost(in->store, in->tree == NULL ? -1 : in->tree->table, place->lo, place->hi);
    if (err == 0) {
        err = add_mended(in, place->page, &m);
    }
    if (err != 0) {
        return err;
    }
    spool_leaf_init(m->bytes, page_bytes, place->page);
    unsigned count = bytes == NULL ? 0 : spool_page_nodes(bytes, page_bytes);
    for (unsigned i = 0; i < count; i++) {
        struct spool_node node;
        if (spool_tree_record(&leaf, i, &node) && record_fits(in, &node) &&
            spool_leaf_add(m->bytes, page_bytes, &node)) {
            kept++;
            counted += is_counted(in, &node);
        }
    }
    in->records += counted;
    if (kept == 0 && !add_tombstone(in, place, m->bytes)) {
        return give_up_page(in, place->page, "leaf", why);
    }
    if (bytes != NULL) {
        keep_evidence(in, place->page, bytes);
    }
    log_error("spool %s: page %llu of " SPOOL_DATA_FILE
              ", of table %s: %s; %u records of it are kept",
              in->store->path, (unsigned long long)place->page,
              in->tree == NULL ? "of free pages" : in->tree->name, err_str(why), kept);
    return 0;
}

/* Writing gives a bad sector a new place on most disks. */
static int write_mended(struct inspection *in)
{
    int err = 0;
    bool has_any = !list_is_empty(&in->mended);
    list_foreach(m, &in->mended, struct mended, link)
    {
        const size_t page_bytes = in->file.meta.page_bytes;
        errno = EIO; /* for a short write */
        if (err == 0 && pwrite(in->file.fd, m->bytes, page_bytes, (off_t)(m->page * page_bytes)) !=
                            (ssize_t)page_bytes) {
            err = give_up_page(in, m->page, "cannot be read, nor written anew", -errno);
        }
    }
    if (err == 0 && has_any && fdatasync(in->file.fd) != 0) {
        err = -errno;
    }
    return err;
}

/* --- looking ---------------------------------------------------------------------------------- */

/* The head of a large value is all that LMDB uses of it; it is looked at where a page has turned
 * out to be bad. */
static int look_at_head(struct inspection *in, const struct spool_node *node)
{
    const size_t page_bytes = in->file.meta.page_bytes;
    const uint64_t pages = spool_large_pages(node->bytes, page_bytes);
    struct mended *m;
    bool is_suspect = false;
    for (unsigned i = 0; i < in->store->suspect_count; i++) {
        is_suspect = is_suspect || in->store->suspects[i] == node->page;
    }
    if (!is_suspect) {
        return 0;
    }
    int err = add_mended(in, node->page, &m);
    if (err != 0) {
        return err;
    }
    int why = spool_file_read(&in->file, node->page, m->bytes, page_bytes);
    if (why == 0 && spool_large_is_sound(m->bytes, node->page, pages)) {
        list_remove(&m->link);
        free(m);
        return 0;
    }
    if (why != 0) {
        memset(m->bytes, 0, page_bytes);
    }
    spool_large_head(m->bytes, node->page, pages);
    log_error("spool %s: page %llu of " SPOOL_DATA_FILE ", of a large record of table %s: %s",
              in->store->path, (unsigned long long)node->page,
              in->tree == NULL ? "?" : in->tree->name, err_str(why == 0 ? ERR_CORRUPT : why));
    return 0;
}

/* Numbers of pages, the count in front, descending; each of them used by nothing else. */
static int look_at_free_pages(struct inspection *in, const struct spool_place *place,
                              const struct spool_node *node)
{
    uint64_t count;
    uint64_t last = UINT64_MAX;
    char *bytes = malloc(node->bytes + sizeof(count) + SPOOL_PAGE_HEAD);
    int err = bytes == NULL ? -ENOMEM : 0;
    char *list = bytes;
    if (err == 0 && node->is_large) {
        err = spool_file_read(&in->file, node->page, bytes, SPOOL_PAGE_HEAD + node->bytes);
        list = bytes + SPOOL_PAGE_HEAD;
        if (err == 0 &&
            !spool_large_is_sound(bytes, node->page,
                                  spool_large_pages(node->bytes, in->file.meta.page_bytes))) {
            err = ERR_CORRUPT;
        }
    } else if (err == 0) {
        memcpy(bytes, node->value.data, node->value.len);
    }
    bool is_list = err == 0 && node->bytes >= sizeof(count);
    if (is_list) {
        memcpy(&count, list, sizeof(count));
        is_list = count < node->bytes / sizeof(count);
    }
    for (uint64_t i = 1; is_list && i <= count; i++) {
        uint64_t page;
        memcpy(&page, list + i * sizeof(page), sizeof(page));
        is_list = page < last && spool_tree_mark(&in->file, in->seen, page, 1);
        last = page;
    }
    free(bytes);
    if (err == -ENOMEM || is_list) {
        return err;
    }
    return give_up_page(in, place->page, "list of free pages", err == 0 ? ERR_CORRUPT : err);
}

static int on_leaf(void *ctx, const struct spool_place *place, const char *bytes)
{
    struct inspection *in = ctx;
    const size_t page_bytes = in->file.meta.page_bytes;
    const unsigned count = spool_page_nodes(bytes, page_bytes);
    const uint64_t before = in->records;
    struct spool_leaf_walk leaf = {place, bytes, page_bytes, in->is_free, {NULL, 0}};
    int err = 0;
    for (unsigned i = 0; err == 0 && i < count; i++) {
        struct spool_node node;
        if (!spool_tree_record(&leaf, i, &node) || !record_fits(in, &node)) {
            in->records = before;
            return mend_leaf(in, place, bytes, ERR_CORRUPT);
        }
        in->records += is_counted(in, &node);
        if (node.is_large && !spool_tree_mark(&in->file, in->seen, node.page,
                                              spool_large_pages(node.bytes, page_bytes))) {
            return give_up_page(in, node.page, "large record", ERR_LIMIT);
        }
        err = node.is_large && !in->is_free ? look_at_head(in, &node) : 0;
        if (err == 0 && in->is_free) {
            err = look_at_free_pages(in, place, &node);
        }
    }
    return err;
}

static int on_bad(void *ctx, const struct spool_place *place, const char *bytes, int err)
{
    struct inspection *in = ctx;
    if (!place->is_leaf || err == ERR_LIMIT) {
        return give_up_page(in, place->page, place->is_leaf ? "leaf" : "branch", err);
    }
    return mend_leaf(in, place, bytes, err);
}

static int table_of(struct slice name)
{
    for (int i = 0; i < SPOOL_TABLE_COUNT; i++) {
        if (slice_eq(name, slice_of(spool_table_name((enum spool_table)i)))) {
            return i;
        }
    }
    return -1;
}

static int on_tables_leaf(void *ctx, const struct spool_place *place, const char *bytes)
{
    struct inspection *in = ctx;
    const size_t page_bytes = in->file.meta.page_bytes;
    struct spool_leaf_walk leaf = {place, bytes, page_bytes, false, {NULL, 0}};
    for (unsigned i = 0; i < spool_page_nodes(bytes, page_bytes); i++) {
        struct spool_node node;
        struct tree *t = &in->trees[in->tree_count];
        if (in->tree_count == TREES_MAX || !spool_tree_record(&leaf, i, &node) || !node.is_tree ||
            node.is_large || node.key.len > NAME_BYTES || !spool_tree_parse(node.value, &t->tree)) {
            return give_up_page(in, place->page, "list of tables", ERR_CORRUPT);
        }
        memcpy(t->name, node.key.data, node.key.len);
        t->table = table_of(node.key);
        in->tree_count++;
    }
    return 0;
}

static int on_tables_bad(void *ctx, const struct spool_place *place, const char *bytes, int err)
{
    (void)bytes; /* of no use without its tables' roots */
    return give_up_page(ctx, place->page, "list of tables", err);
}

/* LMDB goes on to count what a mended leaf has lost: its number is never right again. */
static void compare_counts(struct inspection *in)
{
    struct spool_store *s = in->store;
    const int64_t phantoms = (int64_t)(in->tree->tree.entries - in->records);
    s->counts_differ = s->counts_differ || phantoms != 0;
    if (in->tree->table >= 0) {
        s->phantoms[in->tree->table] = phantoms;
    }
}

static int walk_all(struct inspection *in, bool reads_leaves)
{
    in->walk = (struct spool_tree_walk){.file = &in->file,
                                        .on_leaf = on_tables_leaf,
                                        .on_bad = on_tables_bad,
                                        .ctx = in,
                                        .seen = in->seen};
    int err = spool_tree_walk(&in->walk, &in->file.meta.tables);
    in->walk.on_leaf = on_leaf;
    in->walk.on_bad = on_bad;
    in->walk.skips_leaves = !reads_leaves;
    for (unsigned i = 0; err == 0 && i < in->tree_count; i++) {
        in->tree = &in->trees[i];
        in->records = 0;
        err = spool_tree_walk(&in->walk, &in->tree->tree);
        if (err == 0 && reads_leaves) {
            compare_counts(in);
        }
    }
    in->tree = NULL;
    in->is_free = in->walk.has_free_keys = true;
    in->walk.skips_leaves = false;
    return err != 0 ? err : spool_tree_walk(&in->walk, &in->file.meta.free_pages);
}

static int inspect(struct inspection *in, bool reads_leaves)
{
    int err = spool_file_metas(&in->file, in->file.fd);
    if (err != 0 || in->file.is_meta_lost) {
        return give_up_page(in, 0, "head of the file", err != 0 ? err : in->file.meta_error);
    }
    in->seen = calloc(1, in->file.meta.last_page / 8 + 1);
    if (in->seen == NULL) {
        return -ENOMEM;
    }
    err = walk_all(in, reads_leaves);
    if (err == 0) {
        err = write_mended(in);
    }
    free(in->seen);
    return err;
}

int spool_inspect(struct spool_store *s, bool reads_leaves, char text[TEXT_BYTES])
{
    struct inspection *in = calloc(1, sizeof(*in));
    if (in == NULL) {
        return -ENOMEM;
    }
    in->store = s;
    in->text = text;
    list_init(&in->mended);
    in->file.fd = openat(s->folder_fd, SPOOL_DATA_FILE, O_RDWR | O_CLOEXEC);
    int err = in->file.fd >= 0 ? 0 : -errno;
    if (err == 0) {
        err = inspect(in, reads_leaves);
    }
    while (!list_is_empty(&in->mended)) {
        struct mended *m = list_first(&in->mended, struct mended, link);
        list_remove(&m->link);
        free(m);
    }
    if (in->file.fd >= 0) {
        (void)close(in->file.fd); /* synced where it was written */
    }
    free(in);
    return err;
}

/* --- telling whom it concerns ----------------------------------------------------------------- */

/* Recipients of these may have their mail, and nobody knows which. */
static void name_repeats(struct spool_store *s, MDB_txn *txn, const struct spool_lost *lost)
{
    MDB_cursor *cursor;
    const struct spool_key from = spool_key_id(lost->from);
    MDB_val k = spool_val(&from);
    MDB_val v;
    if (mdb_cursor_open(txn, s->dbi[SPOOL_TABLE_MESSAGE], &cursor) != 0) {
        return;
    }
    int rc = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    for (; rc == 0; rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
        struct spool_message m;
        uint64_t id;
        if (!spool_key_read_id(spool_slice(&k), &id)) {
            continue;
        }
        if (id > lost->to) {
            break;
        }
        if (spool_message_decode(spool_slice(&v), id, false, &m) == 0 &&
            m.envelope.recipient_count > 1) {
            log_error("spool %s: message %016llx: who of its recipients has it may be lost; "
                      "deliveries of it may repeat",
                      s->path, (unsigned long long)id);
        }
    }
    mdb_cursor_close(cursor);
}

void spool_name_lost(struct spool_store *s)
{
    MDB_txn *txn = NULL;
    for (unsigned i = 0; i < s->lost_count; i++) {
        const struct spool_lost *lost = &s->lost[i];
        bool is_queue = lost->table == SPOOL_TABLE_INCOMING ||
                        lost->table == SPOOL_TABLE_DEFERRED || lost->table == SPOOL_TABLE_HELD;
        if (lost->table == SPOOL_TABLE_STATE && txn == NULL &&
            mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn) != 0) {
            txn = NULL;
        }
        if (lost->table == SPOOL_TABLE_STATE && txn != NULL) {
            name_repeats(s, txn, lost);
        }
        if (lost->table == SPOOL_TABLE_REASON) {
            log_error("spool %s: of messages %016llx to %016llx it is lost why recipients failed; "
                      "senders are told that they did, some perhaps again",
                      s->path, (unsigned long long)lost->from, (unsigned long long)lost->to);
        }
        if (is_queue && s->is_whole) {
            log_error("spool %s: places in the queue are lost; the messages are whole and queued "
                      "again at the next start",
                      s->path);
        }
    }
    if (txn != NULL) {
        mdb_txn_abort(txn);
    }
    free(s->lost);
    s->lost = NULL;
    s->lost_count = 0;
}
