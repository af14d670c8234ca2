#include "engine/spool/spool_tree.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 32, KEY_MAX = 511, META_BYTES = 4096 };

int spool_tree_compare(struct slice a, struct slice b, bool is_number)
{
    uint64_t x;
    uint64_t y;
    if (is_number && a.len == sizeof(x) && b.len == sizeof(y)) {
        memcpy(&x, a.data, sizeof(x));
        memcpy(&y, b.data, sizeof(y));
        return (x > y) - (x < y);
    }
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.data, b.data, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

int spool_file_read(const struct spool_file *f, uint64_t page, char *ret, size_t bytes)
{
    uint64_t at = page * f->meta.page_bytes;
    while (bytes > 0) {
        ssize_t n = pread(f->fd, ret, bytes, (off_t)at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -errno : ERR_CORRUPT;
        }
        ret += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* errors: -errno, ERR_CORRUPT */
static int read_meta(int fd, uint64_t at, struct spool_meta *ret)
{
    char bytes[META_BYTES];
    ssize_t n;
    do {
        n = pread(fd, bytes, sizeof(bytes), (off_t)at);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return -errno;
    }
    return spool_meta_parse(bytes, (size_t)n, ret) ? 0 : ERR_CORRUPT;
}

int spool_file_metas(struct spool_file *f, int fd)
{
    struct spool_meta metas[2];
    int errors[2];
    *f = (struct spool_file){.fd = fd};
    errors[0] = read_meta(fd, 0, &metas[0]);
    size_t page_bytes = errors[0] == 0 ? metas[0].page_bytes : (size_t)sysconf(_SC_PAGESIZE);
    errors[1] = read_meta(fd, page_bytes, &metas[1]);
    if (errors[0] != 0 && errors[1] != 0) {
        return errors[0];
    }
    if (errors[0] != 0 || errors[1] != 0) {
        f->is_meta_lost = true;
        f->meta_error = errors[0] != 0 ? errors[0] : errors[1];
        f->meta = metas[errors[0] != 0];
        return 0;
    }
    unsigned newer = metas[1].txnid > metas[0].txnid; /* as LMDB chooses */
    f->meta = metas[newer];
    f->other = metas[1 - newer];
    return 0;
}

bool spool_tree_mark(const struct spool_file *f, uint8_t *seen, uint64_t page, uint64_t count)
{
    if (page < 2 || count > f->meta.last_page || page > f->meta.last_page + 1 - count) {
        return false;
    }
    bool is_new = true;
    for (uint64_t i = page; seen != NULL && i < page + count; i++) {
        uint8_t bit = (uint8_t)(1u << i % 8);
        is_new = is_new && (seen[i / 8] & bit) == 0;
        seen[i / 8] |= bit;
    }
    return is_new;
}

bool spool_tree_record(struct spool_leaf_walk *l, unsigned index, struct spool_node *ret)
{
    const struct spool_place *place = l->place;
    struct spool_node node;
    if (!spool_page_node(l->bytes, l->page_bytes, SPOOL_PAGE_LEAF, index, &node) ||
        (place->lo.len > 0 && spool_tree_compare(node.key, place->lo, l->is_number) < 0) ||
        (place->hi.len > 0 && spool_tree_compare(node.key, place->hi, l->is_number) >= 0) ||
        (l->last.data != NULL && spool_tree_compare(node.key, l->last, l->is_number) <= 0)) {
        return false;
    }
    l->last = node.key;
    *ret = node;
    return true;
}

struct level {
    char *bytes;
    unsigned next, count;  /* children */
    struct slice lo, hi;   /* of the page; in keys */
    char keys[2][KEY_MAX]; /* copies: a child outlives no page above it, but is read over another */
};

static struct slice keep_key(char *to, struct slice key)
{
    size_t len = key.len < KEY_MAX ? key.len : KEY_MAX;
    if (len > 0) {
        memcpy(to, key.data, len);
    }
    return slice_make(to, len);
}

/* Keys of a branch ascend and lie within its bounds; its first one says nothing. */
static bool is_sorted(const struct spool_tree_walk *w, const struct level *l)
{
    struct slice last = l->lo;
    for (unsigned i = 1; i < l->count; i++) {
        struct spool_node node;
        if (!spool_page_node(l->bytes, w->file->meta.page_bytes, SPOOL_PAGE_BRANCH, i, &node) ||
            ((i > 1 || last.len > 0) &&
             spool_tree_compare(node.key, last, w->has_free_keys) <= 0)) {
            return false;
        }
        last = node.key;
    }
    return l->hi.len == 0 || spool_tree_compare(last, l->hi, w->has_free_keys) < 0;
}

/* The children of a branch are wanted one after the other: let the disk have them all at once. */
static void ask_children(const struct spool_tree_walk *w, const struct level *l)
{
    size_t page_bytes = w->file->meta.page_bytes;
    for (unsigned i = 0; i < l->count; i++) {
        struct spool_node node;
        if (spool_page_node(l->bytes, page_bytes, SPOOL_PAGE_BRANCH, i, &node)) {
            (void)posix_fadvise(w->file->fd, (off_t)(node.page * page_bytes), (off_t)page_bytes,
                                POSIX_FADV_WILLNEED); /* only a wish */
        }
    }
}

/* Reads the page of a level. *ret_goes_down: it is a branch whose children come next. */
static int visit(struct spool_tree_walk *w, struct level *l, const struct spool_place *place,
                 bool are_leaves_next, bool *ret_goes_down)
{
    const size_t page_bytes = w->file->meta.page_bytes;
    *ret_goes_down = false;
    l->lo = place->lo;
    l->hi = place->hi;
    if (!spool_tree_mark(w->file, w->seen, place->page, 1)) {
        return w->on_bad(w->ctx, place, NULL, ERR_LIMIT);
    }
    if (place->is_leaf && w->skips_leaves) {
        return 0;
    }
    int err = spool_file_read(w->file, place->page, l->bytes, page_bytes);
    if (err != 0) {
        return w->on_bad(w->ctx, place, NULL, err);
    }
    enum spool_page_kind kind = place->is_leaf ? SPOOL_PAGE_LEAF : SPOOL_PAGE_BRANCH;
    bool is_sound = spool_page_is_sound(l->bytes, page_bytes, place->page, kind);
    if (place->is_leaf) {
        return is_sound ? w->on_leaf(w->ctx, place, l->bytes)
                        : w->on_bad(w->ctx, place, l->bytes, ERR_CORRUPT);
    }
    l->count = is_sound ? spool_page_nodes(l->bytes, page_bytes) : 0;
    l->next = 0;
    if (!is_sound || !is_sorted(w, l)) {
        return w->on_bad(w->ctx, place, l->bytes, ERR_CORRUPT);
    }
    *ret_goes_down = true;
    if (!are_leaves_next || !w->skips_leaves) {
        ask_children(w, l);
    }
    return 0;
}

/* The next child of a branch, with its bounds kept in the level below. */
static struct spool_place next_child(const struct spool_tree_walk *w, struct level *l,
                                     struct level *below, bool is_leaf)
{
    const size_t page_bytes = w->file->meta.page_bytes;
    struct spool_node node = {.page = 0};
    struct spool_node behind = {.page = 0};
    bool has_node = spool_page_node(l->bytes, page_bytes, SPOOL_PAGE_BRANCH, l->next, &node);
    bool has_behind =
        l->next + 1 < l->count &&
        spool_page_node(l->bytes, page_bytes, SPOOL_PAGE_BRANCH, l->next + 1, &behind);
    struct spool_place place = {.page = has_node ? node.page : 0, .is_leaf = is_leaf};
    place.lo = keep_key(below->keys[0], l->next == 0 ? l->lo : node.key);
    place.hi = keep_key(below->keys[1], has_behind ? behind.key : l->hi);
    l->next++;
    return place;
}

static int walk_levels(struct spool_tree_walk *w, const struct spool_tree *tree,
                       struct level *levels)
{
    const struct spool_place root = {
        .page = tree->root, .is_leaf = tree->depth == 1, .lo = SLICE(""), .hi = SLICE("")};
    bool goes_down;
    int at = 0;
    int err = visit(w, &levels[0], &root, tree->depth == 2, &goes_down);
    at = goes_down ? 0 : -1;
    while (err == 0 && at >= 0) {
        struct level *l = &levels[at];
        if (l->next == l->count) {
            at--;
            continue;
        }
        unsigned below = (unsigned)at + 1;
        struct spool_place place = next_child(w, l, &levels[below], below + 1 == tree->depth);
        err = visit(w, &levels[below], &place, below + 2 == tree->depth, &goes_down);
        at += goes_down;
    }
    return err;
}

int spool_tree_walk(struct spool_tree_walk *w, const struct spool_tree *tree)
{
    if (tree->root == SPOOL_PAGE_NONE) {
        return 0;
    }
    if (tree->depth < 1 || tree->depth > DEPTH_MAX) {
        return ERR_CORRUPT;
    }
    struct level *levels = calloc(tree->depth, sizeof(*levels));
    int err = levels == NULL ? -ENOMEM : 0;
    for (unsigned i = 0; err == 0 && i < tree->depth; i++) {
        levels[i].bytes = malloc(w->file->meta.page_bytes);
        err = levels[i].bytes == NULL ? -ENOMEM : 0;
    }
    if (err == 0) {
        err = walk_levels(w, tree, levels);
    }
    for (unsigned i = 0; levels != NULL && i < tree->depth; i++) {
        free(levels[i].bytes);
    }
    free(levels);
    return err;
}
