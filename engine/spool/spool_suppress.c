/* The lists of suppressed recipients in their two tables. Called by the spool writer in its transaction
 * and by readers in a pass; knows no rules, no settings and no mail. */
#include "engine/spool/spool_suppress.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/spool/spool_suppress_kind.h"
#include "engine/spool/spool_table.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <idn2.h>
#include <string.h>

enum {
    /* There may be millions of records, so each byte counts: a checksum is half of what others have,
     * and version and reason share a byte. Records of before have the version in a byte of its own. */
    CHECKSUM_BYTES = 4,
    FIXED_BYTES = 1 + 4 + 4, /* version and reason, added, expires */
    VERSION_BITS = 0xa0,     /* above the reason's five bits */
    RECORD_MAX = FIXED_BYTES + SPOOL_SUPPRESS_SOURCE_MAX + CHECKSUM_BYTES,
    STRIKE_BYTES = 4 + 4, /* second, low half of the message's id */
};

static const char *const reason_texts[SPOOL_SUPPRESS_REASON_COUNT] = {
    [SPOOL_SUPPRESS_HARD_BOUNCE] = "hard_bounce",   [SPOOL_SUPPRESS_COMPLAINT] = "complaint",
    [SPOOL_SUPPRESS_UNSUBSCRIBE] = "unsubscribe",   [SPOOL_SUPPRESS_BY_HAND] = "by_hand",
    [SPOOL_SUPPRESS_MAILBOX_FULL] = "mailbox_full",
};

const char *spool_suppress_reason_text(enum spool_suppress_reason reason)
{
    return reason < SPOOL_SUPPRESS_REASON_COUNT ? reason_texts[reason] : "";
}

enum spool_suppress_reason spool_suppress_reason_find(struct slice word)
{
    int i = 0;
    while (i < SPOOL_SUPPRESS_REASON_COUNT && !slice_eq(word, slice_of(reason_texts[i]))) {
        i++;
    }
    return (enum spool_suppress_reason)i;
}

uint64_t spool_suppress_count(const struct spool_store *s)
{
    return atomic_load_explicit(&s->suppress.count, memory_order_relaxed);
}

uint64_t spool_suppress_changes(const struct spool_store *s)
{
    /* Pairs with the release in spool_suppress_committed: a pass that begins afterwards sees the entry. */
    return atomic_load_explicit(&s->suppress.changes, memory_order_acquire);
}

uint64_t spool_suppress_seen(const struct spool_reader *r)
{
    return r->suppress_seen;
}

/* --- keys and records ----------------------------------------------------------------------------- */

struct suppress_key {
    size_t len, list_len; /* list_len: tenant and NUL */
    char bytes[SPOOL_SUPPRESS_KEY_MAX];
};

/* As the table has it that far: for places in a list, and for entries of before addresses had one form. */
static bool key_as_written(struct suppress_key *k, struct slice tenant, struct slice address)
{
    if (tenant.len > SPOOL_SUPPRESS_TENANT_MAX || address.len > SPOOL_SUPPRESS_ADDRESS_MAX ||
        memchr(tenant.data, '\0', tenant.len) != NULL) {
        return false;
    }
    slice_lower(tenant, k->bytes);
    k->bytes[tenant.len] = '\0';
    k->list_len = tenant.len + 1;
    slice_lower(address, k->bytes + k->list_len);
    k->len = k->list_len + address.len;
    return true;
}

static bool has_utf8_domain(struct slice address)
{
    bool is_found = false;
    for (size_t i = address.len; !is_found && i > 0 && address.data[i - 1] != '@'; i--) {
        is_found = (unsigned char)address.data[i - 1] > 127;
    }
    return is_found;
}

/* The key of an address in its one form: the domain in A-labels. A domain that has no such form, as no
 * name server could know it, stays as it is. Allocates for domains beyond ASCII alone. */
static bool key_make(struct suppress_key *k, struct slice tenant, struct slice address)
{
    uint8_t domain[SPOOL_SUPPRESS_ADDRESS_MAX + 1];
    uint8_t *labels = NULL;
    if (!key_as_written(k, tenant, address)) {
        return false;
    }
    if (!has_utf8_domain(address)) {
        return true;
    }
    const char *at = memrchr(address.data, '@', address.len);
    size_t before = at == NULL ? 0 : (size_t)(at - address.data) + 1;
    memcpy(domain, address.data + before, address.len - before);
    domain[address.len - before] = '\0';
    if (idn2_lookup_u8(domain, &labels, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) == IDN2_OK) {
        size_t len = strlen((const char *)labels);
        if (before + len <= SPOOL_SUPPRESS_ADDRESS_MAX) {
            memcpy(k->bytes + k->list_len + before, labels, len);
            k->len = k->list_len + before + len;
        }
    }
    idn2_free(labels);
    return true;
}

static struct slice key_slice(const struct suppress_key *k)
{
    return slice_make(k->bytes, k->len);
}

static bool is_address(struct slice address)
{
    size_t at = slice_find(address, '@');
    return at + 1 < address.len && address.len <= SPOOL_SUPPRESS_ADDRESS_MAX &&
           memchr(address.data, '\0', address.len) == NULL;
}

static bool key_read(struct slice key, struct spool_suppression *ret)
{
    size_t at = slice_find(key, '\0');
    if (at >= key.len || at > SPOOL_SUPPRESS_TENANT_MAX || key.len > SPOOL_SUPPRESS_KEY_MAX) {
        return false;
    }
    ret->tenant = slice_to(key, at);
    ret->address = slice_from(key, at + 1);
    return is_address(ret->address);
}

bool spool_suppress_is_key(struct slice key)
{
    struct spool_suppression s;
    return key_read(key, &s);
}

static uint32_t second_of(usec_t time)
{
    int64_t second = time / USEC_PER_SEC;
    if (second < 0) {
        return 0;
    }
    return second > UINT32_MAX ? UINT32_MAX : (uint32_t)second;
}

static uint32_t checksum_of(const char *record, size_t len, struct slice key)
{
    return (uint32_t)(hash_checksum(record, len) ^ hash_checksum(key.data, key.len));
}

static void put_u32(char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof(value));
}

static uint32_t get_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return be32toh(value);
}

static size_t record_encode(const struct spool_suppression *s, struct slice key, char *out)
{
    size_t source =
        s->source.len < SPOOL_SUPPRESS_SOURCE_MAX ? s->source.len : SPOOL_SUPPRESS_SOURCE_MAX;
    size_t len = FIXED_BYTES + source;
    static_assert(SPOOL_SUPPRESS_REASON_COUNT <= 32, "reasons have five bits");
    out[0] = (char)(VERSION_BITS | (unsigned)s->reason);
    put_u32(out + 1, second_of(s->added));
    /* A time of less than a second is not "never". */
    put_u32(out + 5, s->expires == 0 ? 0 : second_of(s->expires + USEC_PER_SEC - 1));
    if (source > 0) {
        memcpy(out + FIXED_BYTES, s->source.data, source);
    }
    put_u32(out + len, checksum_of(out, len, key));
    return len + CHECKSUM_BYTES;
}

static bool record_decode(struct slice record, struct slice key, struct spool_suppression *ret)
{
    *ret = (struct spool_suppression){.is_damaged = true, .source = SLICE("")};
    ret->reason = SPOOL_SUPPRESS_BY_HAND;
    if (!key_read(key, ret) || record.len < FIXED_BYTES + CHECKSUM_BYTES) {
        return false;
    }
    size_t len = record.len - CHECKSUM_BYTES;
    struct slice rest = slice_to(record, len);
    const bool is_old = record.data[0] == SPOOL_RECORD_VERSION && len > FIXED_BYTES;
    rest = is_old ? slice_from(rest, 1) : rest;
    const unsigned reason =
        is_old ? (unsigned char)rest.data[0] : (unsigned char)rest.data[0] ^ VERSION_BITS;
    if (get_u32(record.data + len) != checksum_of(record.data, len, key) ||
        reason >= SPOOL_SUPPRESS_REASON_COUNT) {
        return false;
    }
    ret->reason = (enum spool_suppress_reason)reason;
    ret->added = (usec_t)get_u32(rest.data + 1) * USEC_PER_SEC;
    ret->expires = (usec_t)get_u32(rest.data + 5) * USEC_PER_SEC;
    ret->source = slice_from(rest, FIXED_BYTES);
    ret->is_damaged = false;
    return true;
}

static bool has_ended(const struct spool_suppression *s, usec_t now)
{
    return s->expires != 0 && now >= s->expires;
}

bool spool_suppress_is_good(struct slice key, struct slice record)
{
    struct spool_suppression s;
    return record_decode(record, key, &s);
}

/* --- writing -------------------------------------------------------------------------------------- */

/* What the commit makes visible. errors: storage */
static int note_change(struct spool_txn *t, bool is_added)
{
    struct spool_suppress_state *state = &t->store->suppress;
    state->is_changed = true;
    state->has_added = state->has_added || is_added;
    int r = spool_table_count(t, SPOOL_TABLE_SUPPRESSED, &state->pending);
    state->pending -= (uint64_t)t->store->phantoms[SPOOL_TABLE_SUPPRESSED];
    return r;
}

static int put_bytes(struct spool_txn *t, struct slice key, struct slice record)
{
    MDB_cursor *cursor = spool_table_cursor(t, SPOOL_TABLE_SUPPRESSED);
    if (cursor == NULL) {
        return t->error;
    }
    MDB_val k = {key.len, (void *)(uintptr_t)key.data};
    MDB_val v = {record.len, (void *)(uintptr_t)record.data};
    /* What comes in order fills its pages; the rest is put where it belongs. */
    int rc = mdb_cursor_put(cursor, &k, &v, MDB_APPEND);
    if (rc == MDB_KEYEXIST) {
        rc = mdb_cursor_put(cursor, &k, &v, 0);
    }
    t->store->suppress.pending_kinds |= spool_suppress_kind(key);
    return spool_table_result(t, rc);
}

/* The record under a key. errors: ERR_MISSING, storage */
static int get_bytes(struct spool_txn *t, struct slice key, struct slice *ret)
{
    MDB_val k = {key.len, (void *)(uintptr_t)key.data};
    MDB_val v;
    if (t->error != 0) {
        return t->error;
    }
    int rc = mdb_get(t->txn, t->store->dbi[SPOOL_TABLE_SUPPRESSED], &k, &v);
    if (rc == MDB_NOTFOUND) {
        return ERR_MISSING;
    }
    *ret = rc == 0 ? spool_slice(&v) : SLICE("");
    return spool_table_result(t, rc);
}

int spool_suppress_copy(struct spool_txn *t, struct slice key, struct slice record,
                        bool may_replace)
{
    struct slice there;
    int r = may_replace ? ERR_MISSING : get_bytes(t, key, &there);
    r = r == ERR_MISSING ? put_bytes(t, key, record) : r;
    return r == 0 ? note_change(t, true) : r;
}

int spool_suppress_get(struct spool_txn *t, struct slice tenant, struct slice address, usec_t now,
                       struct spool_suppression *ret)
{
    struct suppress_key key;
    struct slice record;
    if (!is_address(address) || !key_make(&key, tenant, address)) {
        return ERR_SYNTAX;
    }
    int r = get_bytes(t, key_slice(&key), &record);
    if (r == ERR_MISSING && has_utf8_domain(address) && key_as_written(&key, tenant, address)) {
        r = get_bytes(t, key_slice(&key), &record);
    }
    if (r != 0) {
        return r;
    }
    struct spool_suppression found;
    (void)record_decode(record, key_slice(&key), &found); /* a damaged one is in force */
    if (has_ended(&found, now)) {
        return ERR_MISSING;
    }
    found.tenant = found.address = SLICE(""); /* of the key on this stack */
    *ret = found;
    return 0;
}

/* errors: ERR_MISSING, storage */
static int del_bytes(struct spool_txn *t, const struct suppress_key *key)
{
    MDB_val k = {key->len, (void *)(uintptr_t)key->bytes};
    if (t->error != 0) {
        return t->error;
    }
    int rc = mdb_del(t->txn, t->store->dbi[SPOOL_TABLE_SUPPRESSED], &k, NULL);
    return rc == MDB_NOTFOUND ? ERR_MISSING : spool_table_result(t, rc);
}

/* The entry under an address as it is written, where that is not its form. errors: as above */
static int del_as_written(struct spool_txn *t, struct slice tenant, struct slice address)
{
    struct suppress_key key, normal;
    if (!has_utf8_domain(address) || !key_as_written(&key, tenant, address) ||
        !key_make(&normal, tenant, address) || slice_eq(key_slice(&key), key_slice(&normal))) {
        return ERR_MISSING;
    }
    return del_bytes(t, &key);
}

int spool_suppress_put(struct spool_txn *t, const struct spool_suppression *s, bool *ret_is_new)
{
    struct suppress_key key;
    struct spool_suppression found;
    char record[RECORD_MAX];
    if (!is_address(s->address) || s->reason >= SPOOL_SUPPRESS_REASON_COUNT ||
        !key_make(&key, s->tenant, s->address)) {
        return ERR_SYNTAX;
    }
    if (ret_is_new != NULL) {
        int r = spool_suppress_get(t, s->tenant, s->address, s->added, &found);
        if (r != 0 && r != ERR_MISSING) {
            return r;
        }
        *ret_is_new = r == ERR_MISSING;
    }
    size_t len = record_encode(s, key_slice(&key), record);
    int r = put_bytes(t, key_slice(&key), slice_make(record, len));
    if (r == 0 && has_utf8_domain(s->address)) {
        r = del_as_written(t, s->tenant, s->address);
        r = r == ERR_MISSING ? 0 : r;
    }
    return r == 0 ? note_change(t, true) : r;
}

int spool_suppress_remove(struct spool_txn *t, struct slice tenant, struct slice address)
{
    struct suppress_key key;
    if (!is_address(address) || !key_make(&key, tenant, address)) {
        return ERR_SYNTAX;
    }
    int r = del_bytes(t, &key);
    int old = r == 0 || r == ERR_MISSING ? del_as_written(t, tenant, address) : ERR_MISSING;
    r = old == ERR_MISSING ? r : old;
    return r == 0 ? note_change(t, false) : r;
}

/* --- strikes -------------------------------------------------------------------------------------- */

static struct spool_key strike_key(const struct spool_strike *s)
{
    struct suppress_key name;
    struct spool_key key = {.len = SPOOL_STRIKE_KEY_BYTES, .bytes = {s->kind}};
    /* What is too long for a key is no address that anything was sent to. */
    uint64_t hash = key_make(&name, s->tenant, s->address)
                        ? hash_checksum(name.bytes, name.len)
                        : hash_checksum(s->address.data, s->address.len);
    hash = htobe64(hash);
    memcpy(key.bytes + 1, &hash, sizeof(hash));
    return key;
}

struct strikes {
    uint32_t count;
    struct {
        uint32_t second, message;
    } each[SPOOL_STRIKES_EACH];
};

/* Those that count at `now`. */
static void strikes_read(struct slice bytes, usec_t now, usec_t span, struct strikes *ret)
{
    const uint32_t at = second_of(now), from = second_of(now - span);
    ret->count = 0;
    for (size_t i = 0; i + STRIKE_BYTES <= bytes.len && ret->count < SPOOL_STRIKES_EACH;
         i += STRIKE_BYTES) {
        uint32_t second = get_u32(bytes.data + i);
        second = second > at ? at : second;
        if (second >= from) {
            ret->each[ret->count].second = second;
            ret->each[ret->count++].message = get_u32(bytes.data + i + 4);
        }
    }
}

static void strikes_add(struct strikes *s, uint64_t message_id, usec_t now)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->each[i].message == (uint32_t)message_id) {
            return;
        }
    }
    if (s->count == SPOOL_STRIKES_EACH) {
        memmove(s->each, s->each + 1, (SPOOL_STRIKES_EACH - 1) * sizeof(s->each[0]));
        s->count--;
    }
    s->each[s->count].second = second_of(now);
    s->each[s->count++].message = (uint32_t)message_id;
}

static int strikes_write(struct spool_txn *t, const struct spool_key *key, const struct strikes *s)
{
    char bytes[SPOOL_STRIKES_EACH * STRIKE_BYTES];
    void *at;
    for (uint32_t i = 0; i < s->count; i++) {
        put_u32(bytes + (size_t)i * STRIKE_BYTES, s->each[i].second);
        put_u32(bytes + (size_t)i * STRIKE_BYTES + 4, s->each[i].message);
    }
    size_t len = s->count * STRIKE_BYTES;
    int r = spool_table_put(t, SPOOL_TABLE_STRIKES, key, spool_blob_bytes(len), &at);
    if (r == 0) {
        spool_blob_encode(slice_make(bytes, len), key, at);
    }
    return r;
}

/* Where there are too many, another one goes: strikes of a mailbox that others push out are counted
 * anew, which is no harm that a longer table would be worth. */
static int make_room(struct spool_txn *t)
{
    uint64_t count;
    struct slice key, record;
    int r = spool_table_count(t, SPOOL_TABLE_STRIKES, &count);
    if (r != 0 || count < SPOOL_STRIKES_MOST) {
        return r;
    }
    const struct spool_key from = t->store->suppress.strike_at;
    r = spool_table_seek(t, SPOOL_TABLE_STRIKES, &from, &key, &record);
    if (r == ERR_MISSING) {
        const struct spool_key first = {.len = 1};
        r = spool_table_seek(t, SPOOL_TABLE_STRIKES, &first, &key, &record);
    }
    return r == 0 ? spool_table_del_here(t, SPOOL_TABLE_STRIKES) : r;
}

int spool_suppress_strike(struct spool_txn *t, const struct spool_strike *s, uint32_t *ret_count)
{
    const struct spool_key key = strike_key(s);
    struct slice record, bytes = SLICE("");
    struct strikes strikes;
    int r = spool_table_get(t, SPOOL_TABLE_STRIKES, &key, &record);
    bool is_there = r == 0;
    if (is_there && spool_blob_decode(record, &key, true, &bytes) != 0) {
        bytes = SLICE(""); /* damaged: counted anew */
    }
    if (r != 0 && r != ERR_MISSING) {
        return r;
    }
    strikes_read(bytes, s->now, s->span, &strikes);
    strikes_add(&strikes, s->message_id, s->now);
    *ret_count = strikes.count;
    if (strikes.count >= s->most) {
        return is_there ? spool_table_del(t, SPOOL_TABLE_STRIKES, &key) : 0;
    }
    r = is_there ? 0 : make_room(t);
    return r == 0 ? strikes_write(t, &key, &strikes) : r;
}

/* --- the sweep ------------------------------------------------------------------------------------ */

static int sweep_strikes(struct spool_txn *t, usec_t now, usec_t span, unsigned limit)
{
    struct spool_key *at = &t->store->suppress.strike_at;
    struct slice key, record, bytes;
    if (at->len == 0) {
        *at = (struct spool_key){.len = 1};
    }
    int r = spool_table_seek(t, SPOOL_TABLE_STRIKES, at, &key, &record);
    for (unsigned i = 0; r == 0 && i < limit; i++) {
        struct spool_key here = {.len = key.len < sizeof(here.bytes) ? key.len : 0};
        struct strikes strikes = {0};
        memcpy(here.bytes, key.data, here.len);
        if (here.len > 0 && spool_blob_decode(record, &here, true, &bytes) == 0) {
            strikes_read(bytes, now, span, &strikes);
        }
        if (here.len == SPOOL_STRIKE_KEY_BYTES) {
            *at = here;
        }
        r = strikes.count == 0 ? spool_table_del_here(t, SPOOL_TABLE_STRIKES) : 0;
        /* A record takes the place of one that goes, or the cursor stands behind it. */
        r = r == 0 ? spool_table_next(t, SPOOL_TABLE_STRIKES, &key, &record) : r;
    }
    if (r == ERR_MISSING) {
        *at = (struct spool_key){.len = 1};
        return 0;
    }
    return r;
}

/* An entry of before addresses had one form is put under it, or goes where one stands there. The cursor
 * is at the entry; afterwards it stands behind it. errors: LMDB's, or 0 with t->error set */
static int sweep_old_form(struct spool_txn *t, MDB_cursor *cursor,
                          const struct spool_suppression *s)
{
    struct suppress_key written, normal;
    struct slice there;
    char source[SPOOL_SUPPRESS_SOURCE_MAX], record[RECORD_MAX];
    if (!key_as_written(&written, s->tenant, s->address) ||
        !key_make(&normal, s->tenant, s->address) ||
        slice_eq(key_slice(&written), key_slice(&normal))) {
        return 0;
    }
    struct spool_suppression copy = *s; /* its texts are of the page that changes */
    size_t len = s->source.len < sizeof(source) ? s->source.len : sizeof(source);
    memcpy(source, s->source.data, len);
    copy.source = slice_make(source, len);
    len = record_encode(&copy, key_slice(&normal), record);
    int r = del_bytes(t, &written);
    r = r == 0 ? get_bytes(t, key_slice(&normal), &there) : r;
    r = r == ERR_MISSING ? put_bytes(t, key_slice(&normal), slice_make(record, len)) : r;
    if (r == 0) {
        (void)note_change(t, true); /* t->error tells */
    }
    MDB_val k = {written.len, written.bytes}, v;
    return t->error == 0 ? mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE) : 0;
}

static int sweep_entries(struct spool_txn *t, usec_t now, unsigned limit, unsigned *ret_removed)
{
    struct spool_suppress_state *state = &t->store->suppress;
    MDB_cursor *cursor = spool_table_cursor(t, SPOOL_TABLE_SUPPRESSED);
    MDB_val k = {state->at_len, state->at};
    MDB_val v;
    if (cursor == NULL) {
        return t->error;
    }
    int rc = state->at_len == 0 ? mdb_cursor_get(cursor, &k, &v, MDB_FIRST)
                                : mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    for (unsigned i = 0; rc == 0 && i < limit; i++) {
        struct spool_suppression s;
        if (k.mv_size <= sizeof(state->at)) {
            memmove(state->at, k.mv_data, k.mv_size);
            state->at_len = k.mv_size;
        }
        if (!record_decode(spool_slice(&v), spool_slice(&k), &s)) {
            /* It stays in force. */
        } else if (has_ended(&s, now)) {
            rc = mdb_cursor_del(cursor, 0);
            ++*ret_removed;
        } else if (has_utf8_domain(s.address)) {
            rc = sweep_old_form(t, cursor, &s);
        }
        rc = rc == 0 ? mdb_cursor_get(cursor, &k, &v, MDB_NEXT) : rc;
    }
    if (rc == MDB_NOTFOUND) {
        state->at_len = 0;
        rc = 0;
    }
    int r = spool_table_result(t, rc);
    return r == 0 && *ret_removed > 0 ? note_change(t, false) : r;
}

int spool_suppress_sweep(struct spool_txn *t, usec_t now, usec_t strike_span, unsigned limit,
                         unsigned *ret_removed)
{
    *ret_removed = 0;
    int r = sweep_entries(t, now, limit, ret_removed);
    return r == 0 ? sweep_strikes(t, now, strike_span, limit) : r;
}

/* --- readers -------------------------------------------------------------------------------------- */

/* Whether an entry stands under this key. errors: ERR_MISSING, as readers */
static int find_key(struct spool_reader *r, struct slice key, usec_t now,
                    struct spool_suppression *ret)
{
    MDB_val k = {key.len, (void *)(uintptr_t)key.data};
    MDB_val v;
    int rc = mdb_get(r->txn, r->store->dbi[SPOOL_TABLE_SUPPRESSED], &k, &v);
    if (rc == MDB_NOTFOUND) {
        /* On a page that could not be read nothing is found; that is no answer. */
        return spool_reader_result(r, ERR_MISSING, NULL);
    }
    if (rc != 0) {
        return spool_reader_result(r, spool_error(rc), NULL);
    }
    (void)record_decode(spool_slice(&v), key, ret);
    return has_ended(ret, now) ? ERR_MISSING : spool_reader_result(r, 0, NULL);
}

typedef bool make_key(struct suppress_key *k, struct slice tenant, struct slice address);

/* The tenant's list before the one for all, the address before its domain. errors: as above */
static int find_form(struct spool_reader *r, struct slice tenant, struct slice address,
                     make_key *make, usec_t now, struct spool_suppression *ret)
{
    struct suppress_key keys[2]; /* of the address, of its domain */
    const char *at = memrchr(address.data, '@', address.len);
    if (at == NULL || !make(&keys[0], tenant, address) ||
        !make(&keys[1], tenant, slice_from(address, (size_t)(at - address.data)))) {
        return ERR_MISSING;
    }
    const unsigned kinds = atomic_load_explicit(&r->store->suppress.kinds, memory_order_relaxed);
    int rc = ERR_MISSING;
    for (int list = 0; rc == ERR_MISSING && list < (tenant.len > 0 ? 2 : 1); list++) {
        for (int i = 0; rc == ERR_MISSING && i < 2; i++) {
            /* The key of the list for all is what stands behind the tenant in that of the tenant's. */
            const struct slice key = slice_from(key_slice(&keys[i]), list == 0 ? 0 : tenant.len);
            if ((spool_suppress_kind(key) & kinds) == 0) {
                continue;
            }
            rc = find_key(r, key, now, ret);
            if (rc == 0) {
                ret->tenant = list == 0 ? tenant : SLICE("");
                ret->address = slice_from(address, i == 0 ? 0 : (size_t)(at - address.data));
            }
        }
    }
    return rc;
}

int spool_suppress_find(struct spool_reader *r, struct slice tenant, struct slice address,
                        usec_t now, struct spool_suppression *ret)
{
    assert(spool_reader_is_active(r));
    if (spool_suppress_count(r->store) == 0) {
        return ERR_MISSING;
    }
    int rc = find_form(r, tenant, address, key_make, now, ret);
    if (rc == ERR_MISSING && has_utf8_domain(address)) {
        rc = find_form(r, tenant, address, key_as_written, now, ret);
    }
    return rc;
}

/* The first record at or after the key; with is_after behind it. errors: ERR_MISSING, as readers */
static int seek(struct spool_reader *r, struct slice key, bool is_after, struct slice *ret_key,
                struct slice *ret_record)
{
    MDB_cursor *cursor;
    assert(spool_reader_is_active(r));
    int rc = mdb_cursor_open(r->txn, r->store->dbi[SPOOL_TABLE_SUPPRESSED], &cursor);
    if (rc != 0) {
        return spool_error(rc);
    }
    MDB_val k = {key.len, (void *)(uintptr_t)key.data};
    MDB_val v;
    rc = key.len == 0 ? mdb_cursor_get(cursor, &k, &v, MDB_FIRST)
                      : mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    if (rc == 0 && is_after && slice_eq(spool_slice(&k), key)) {
        rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    while (rc == 0 && !spool_suppress_is_key(spool_slice(&k))) {
        rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT); /* see spool_inspect.h */
    }
    mdb_cursor_close(cursor);
    if (rc == 0) {
        *ret_key = spool_slice(&k);
        *ret_record = spool_slice(&v);
    }
    return spool_reader_result(r, spool_error(rc), NULL);
}

int spool_suppress_next(struct spool_reader *r, struct slice tenant, struct slice from,
                        bool is_after, struct spool_suppression *ret)
{
    struct suppress_key key;
    struct slice found, record;
    if (!key_as_written(&key, tenant, from)) {
        return ERR_MISSING;
    }
    int rc = seek(r, key_slice(&key), is_after, &found, &record);
    if (rc != 0) {
        return rc;
    }
    if (found.len < key.list_len || memcmp(found.data, key.bytes, key.list_len) != 0) {
        return ERR_MISSING;
    }
    (void)record_decode(record, found, ret); /* what is damaged is shown as such */
    return 0;
}

int spool_suppress_next_list(struct spool_reader *r, struct slice after, struct slice *ret)
{
    struct suppress_key key = {.len = 0};
    struct slice found, record;
    if (after.data != NULL) {
        if (!key_as_written(&key, after, SLICE(""))) {
            return ERR_MISSING;
        }
        key.bytes[key.list_len - 1] = 1; /* behind all that has a NUL there */
        key.len = key.list_len;
    }
    int rc = seek(r, key_slice(&key), false, &found, &record);
    if (rc == 0) {
        *ret = slice_to(found, slice_find(found, '\0'));
    }
    return rc;
}

/* --- counts --------------------------------------------------------------------------------------- */

int spool_suppress_load(struct spool_txn *t)
{
    t->store->suppress.pending_kinds |= spool_suppress_kinds(t);
    return note_change(t, false);
}

void spool_suppress_committed(struct spool_store *s)
{
    struct spool_suppress_state *state = &s->suppress;
    if (!state->is_changed) {
        return;
    }
    state->is_changed = false;
    atomic_store_explicit(&state->kinds, state->pending_kinds, memory_order_relaxed);
    atomic_store_explicit(&state->count, state->pending, memory_order_relaxed);
    if (state->has_added) {
        state->has_added = false;
        atomic_fetch_add_explicit(&state->changes, 1, memory_order_release);
    }
}
