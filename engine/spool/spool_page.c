/* The only place beside spool_meta.c that knows LMDB's format. Called by the walk over trees, by
 * the guard and by the salvage; reads and writes nothing but the bytes it is given. */
#include "engine/spool/spool_page.h"

#include <string.h>

/* Of a page's head. */
enum { NUMBER_AT = 0, FLAGS_AT = 10, LOWER_AT = 12, UPPER_AT = 14, PAGES_AT = 12 };
/* Of a node: 32 bits of size or page, flags (16 more bits of a branch's page), size of the key. */
enum { NODE_FLAGS_AT = 4, NODE_KEY_BYTES_AT = 6, NODE_HEAD = 8 };
enum { NODE_LARGE = 1, NODE_TREE = 2 };
/* Of a meta page. */
enum {
    META_MAGIC_AT = 16,
    META_VERSION_AT = 20,
    META_FREE_AT = 40,
    META_TABLES_AT = 88,
    META_LAST_PAGE_AT = 136,
    META_TXNID_AT = 144,
    META_BYTES = 152,
    META_FLAG = 8,
};
enum { TREE_DEPTH_AT = 6, TREE_ENTRIES_AT = 32, TREE_ROOT_AT = 40, TREE_BYTES = 48 };
enum { VERSION = 1, DEPTH_MAX = 32, KEY_MAX = 511, FLAGS_OF_MEMORY = 0xC010 };

static const uint32_t magic = 0xBEEFC0DE;

static uint16_t u16_at(const char *bytes, size_t at)
{
    uint16_t value;
    memcpy(&value, bytes + at, sizeof(value));
    return value;
}

static uint32_t u32_at(const char *bytes, size_t at)
{
    uint32_t value;
    memcpy(&value, bytes + at, sizeof(value));
    return value;
}

static uint64_t u64_at(const char *bytes, size_t at)
{
    uint64_t value;
    memcpy(&value, bytes + at, sizeof(value));
    return value;
}

static void put_u16(char *bytes, size_t at, size_t value)
{
    const uint16_t narrow = (uint16_t)value;
    memcpy(bytes + at, &narrow, sizeof(narrow));
}

static void put_u32(char *bytes, size_t at, uint64_t value)
{
    const uint32_t narrow = (uint32_t)value;
    memcpy(bytes + at, &narrow, sizeof(narrow));
}

bool spool_tree_parse(struct slice value, struct spool_tree *ret)
{
    if (value.len != TREE_BYTES) {
        return false;
    }
    *ret = (struct spool_tree){.root = u64_at(value.data, TREE_ROOT_AT),
                               .entries = u64_at(value.data, TREE_ENTRIES_AT),
                               .depth = u16_at(value.data, TREE_DEPTH_AT)};
    return ret->root == SPOOL_PAGE_NONE || (ret->depth >= 1 && ret->depth <= DEPTH_MAX);
}

bool spool_meta_parse(const char *page, size_t bytes, struct spool_meta *ret)
{
    if (bytes < META_BYTES || u32_at(page, META_MAGIC_AT) != magic ||
        u32_at(page, META_VERSION_AT) != VERSION || (u16_at(page, FLAGS_AT) & META_FLAG) == 0) {
        return false;
    }
    ret->txnid = u64_at(page, META_TXNID_AT);
    ret->last_page = u64_at(page, META_LAST_PAGE_AT);
    ret->page_bytes = u32_at(page, META_FREE_AT); /* kept where that tree needs nothing */
    bool is_size = ret->page_bytes >= 512 && ret->page_bytes <= SPOOL_PAGE_MAX &&
                   (ret->page_bytes & (ret->page_bytes - 1)) == 0;
    return is_size && ret->last_page >= 1 && ret->last_page < UINT64_MAX / SPOOL_PAGE_MAX &&
           spool_tree_parse(slice_make(page + META_FREE_AT, TREE_BYTES), &ret->free_pages) &&
           spool_tree_parse(slice_make(page + META_TABLES_AT, TREE_BYTES), &ret->tables);
}

unsigned spool_page_nodes(const char *page, size_t page_bytes)
{
    size_t lower = u16_at(page, LOWER_AT);
    return lower < SPOOL_PAGE_HEAD || lower > page_bytes ? 0
                                                         : (unsigned)(lower - SPOOL_PAGE_HEAD) / 2;
}

bool spool_page_node(const char *page, size_t page_bytes, enum spool_page_kind kind, unsigned index,
                     struct spool_node *ret)
{
    size_t at = u16_at(page, SPOOL_PAGE_HEAD + 2 * (size_t)index);
    if (at < u16_at(page, LOWER_AT) || at % 2 != 0 || at + NODE_HEAD > page_bytes) {
        return false;
    }
    const char *node = page + at;
    size_t left = page_bytes - at - NODE_HEAD;
    size_t key_bytes = u16_at(node, NODE_KEY_BYTES_AT);
    uint16_t flags = u16_at(node, NODE_FLAGS_AT);
    if (key_bytes > left || key_bytes > KEY_MAX) {
        return false;
    }
    *ret = (struct spool_node){.key = slice_make(node + NODE_HEAD, key_bytes)};
    if (kind == SPOOL_PAGE_BRANCH) {
        ret->page = u32_at(node, 0) | (uint64_t)flags << 32;
        return ret->page > 1;
    }
    ret->bytes = u32_at(node, 0);
    ret->is_large = (flags & NODE_LARGE) != 0;
    ret->is_tree = (flags & NODE_TREE) != 0;
    uint64_t inside = ret->is_large ? sizeof(uint64_t) : ret->bytes;
    if ((flags & ~(NODE_LARGE | NODE_TREE)) != 0 || inside > left - key_bytes) {
        return false;
    }
    const char *value = node + NODE_HEAD + key_bytes;
    ret->value = ret->is_large ? SLICE("") : slice_make(value, inside);
    ret->page = ret->is_large ? u64_at(value, 0) : 0;
    return !ret->is_large || ret->page > 1;
}

bool spool_page_is_sound(const char *page, size_t page_bytes, uint64_t number,
                         enum spool_page_kind kind)
{
    size_t lower = u16_at(page, LOWER_AT);
    size_t upper = u16_at(page, UPPER_AT);
    if (u64_at(page, NUMBER_AT) != number || u16_at(page, FLAGS_AT) != kind ||
        lower < SPOOL_PAGE_HEAD || lower % 2 != 0 || lower > upper || upper > page_bytes) {
        return false;
    }
    unsigned count = spool_page_nodes(page, page_bytes);
    if (count < (kind == SPOOL_PAGE_BRANCH ? 2u : 1u)) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        struct spool_node node;
        if (u16_at(page, SPOOL_PAGE_HEAD + 2 * (size_t)i) < upper ||
            !spool_page_node(page, page_bytes, kind, i, &node)) {
            return false;
        }
    }
    return true;
}

bool spool_large_is_sound(const char *page, uint64_t number, uint64_t pages)
{
    return u64_at(page, NUMBER_AT) == number &&
           (u16_at(page, FLAGS_AT) & ~FLAGS_OF_MEMORY) == SPOOL_PAGE_OVERFLOW &&
           u32_at(page, PAGES_AT) == pages;
}

uint64_t spool_large_length(const char *page, uint64_t number)
{
    uint64_t pages = u32_at(page, PAGES_AT);
    return spool_large_is_sound(page, number, pages) ? pages : 0;
}

void spool_large_head(char *page, uint64_t number, uint64_t pages)
{
    memset(page, 0, SPOOL_PAGE_HEAD);
    memcpy(page + NUMBER_AT, &number, sizeof(number));
    put_u16(page, FLAGS_AT, SPOOL_PAGE_OVERFLOW);
    put_u32(page, PAGES_AT, pages);
}

void spool_leaf_init(char *page, size_t page_bytes, uint64_t number)
{
    memset(page, 0, page_bytes);
    memcpy(page + NUMBER_AT, &number, sizeof(number));
    put_u16(page, FLAGS_AT, SPOOL_PAGE_LEAF);
    put_u16(page, LOWER_AT, SPOOL_PAGE_HEAD);
    put_u16(page, UPPER_AT, page_bytes);
}

bool spool_leaf_add(char *page, size_t page_bytes, const struct spool_node *node)
{
    size_t lower = u16_at(page, LOWER_AT);
    size_t upper = u16_at(page, UPPER_AT);
    upper = upper == 0 ? page_bytes : upper; /* 64 KB has no number of 16 bits */
    size_t inside = node->is_large ? sizeof(node->page) : node->value.len;
    size_t bytes = (NODE_HEAD + node->key.len + inside + 1) & ~(size_t)1;
    if (lower + 2 + bytes > upper) {
        return false;
    }
    upper -= bytes;
    char *at = page + upper;
    put_u32(at, 0, node->is_large ? node->bytes : node->value.len);
    put_u16(at, NODE_FLAGS_AT, node->is_large ? NODE_LARGE : 0);
    put_u16(at, NODE_KEY_BYTES_AT, node->key.len);
    if (node->key.len > 0) {
        memcpy(at + NODE_HEAD, node->key.data, node->key.len);
    }
    if (node->is_large) {
        memcpy(at + NODE_HEAD + node->key.len, &node->page, sizeof(node->page));
    } else if (inside > 0) {
        memcpy(at + NODE_HEAD + node->key.len, node->value.data, inside);
    }
    put_u16(page, lower, upper);
    put_u16(page, LOWER_AT, lower + 2);
    put_u16(page, UPPER_AT, upper);
    return true;
}
