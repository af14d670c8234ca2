/* Owns the search for kinds of entries at the start. Called by spool_suppress.c; must not say that there
 * is none of a kind where it cannot know: mail would go to those who want none. */
#include "engine/spool/spool_suppress_kind.h"

#include "base/error.h"
#include "engine/spool/spool_suppress.h"
#include "engine/spool/spool_table.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LISTS_MAX = 64 }; /* that are looked at: a start must not wait for many pages of a disk */

struct place {
    size_t len;
    char bytes[SPOOL_SUPPRESS_KEY_MAX];
};

unsigned spool_suppress_kind(struct slice key)
{
    const size_t list_len = slice_find(key, '\0');
    const bool is_domain = list_len + 1 < key.len && key.data[list_len + 1] == '@';
    return 1U << ((list_len > 0 ? 2 : 0) + (is_domain ? 1 : 0));
}

/* The first key at or after `key`. errors: ERR_MISSING, storage */
static int key_from(struct spool_txn *t, struct slice key, struct slice *ret)
{
    MDB_cursor *cursor = spool_table_cursor(t, SPOOL_TABLE_SUPPRESSED);
    MDB_val k = {key.len, (void *)(uintptr_t)key.data};
    MDB_val v;
    if (cursor == NULL) {
        return t->error;
    }
    int rc = mdb_cursor_get(cursor, &k, &v, key.len == 0 ? MDB_FIRST : MDB_SET_RANGE);
    if (rc == MDB_NOTFOUND) {
        return ERR_MISSING;
    }
    *ret = rc == 0 ? spool_slice(&k) : SLICE("");
    return spool_table_result(t, rc);
}

/* The kinds of the list that the key is in, which is the list's first; next: where a later one begins. */
static unsigned kinds_of_list(struct spool_txn *t, struct slice first, struct place *next)
{
    /* Domains stand together in it, between addresses. */
    static const char behind[] = {'@', '@' + 1};
    const size_t list_len = slice_find(first, '\0');
    unsigned kinds = spool_suppress_kind(first);
    memcpy(next->bytes, first.data, list_len);
    next->bytes[list_len] = '\0';
    next->len = list_len + 2;
    for (size_t i = 0; i < sizeof(behind); i++) {
        struct slice found;
        next->bytes[list_len + 1] = behind[i];
        int r = key_from(t, slice_make(next->bytes, next->len), &found);
        if (r != 0 && r != ERR_MISSING) {
            return SPOOL_SUPPRESS_KINDS_ALL; /* what cannot be read may be of any kind */
        }
        if (r == 0 && found.len > list_len && memcmp(found.data, next->bytes, list_len + 1) == 0) {
            kinds |= spool_suppress_kind(found);
        }
    }
    next->bytes[list_len] = 1; /* behind all that has a NUL there */
    next->len = list_len + 1;
    return kinds;
}

unsigned spool_suppress_kinds(struct spool_txn *t)
{
    struct place at = {.len = 0};
    unsigned kinds = t->store->phantoms[SPOOL_TABLE_SUPPRESSED] == 0 ? 0 : SPOOL_SUPPRESS_KINDS_ALL;
    for (int i = 0; kinds != SPOOL_SUPPRESS_KINDS_ALL; i++) {
        struct slice key;
        int r = key_from(t, slice_make(at.bytes, at.len), &key);
        if (r == ERR_MISSING) {
            break;
        }
        kinds = r == 0 && i < LISTS_MAX && spool_suppress_is_key(key)
                    ? kinds | kinds_of_list(t, key, &at)
                    : SPOOL_SUPPRESS_KINDS_ALL;
    }
    return kinds;
}
