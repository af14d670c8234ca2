/* The lists of suppressed recipients: put, remove, look-up, order, expiry, strikes, restart, damage, and
 * random operations against a model. */
#include "base/error.h"
#include "base/hash.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_suppress.h"
#include "tests/unit/spool_fixture.h"

#include <endian.h>
#include <string.h>

static const usec_t now = INT64_C(1800000000) * USEC_PER_SEC;
static const usec_t day = 86400 * USEC_PER_SEC;

static bool add(const char *tenant, const char *address, usec_t at, usec_t expires)
{
    struct spool_txn *t = begin();
    bool is_new = false;
    const struct spool_suppression s = {.tenant = slice_of(tenant),
                                        .address = slice_of(address),
                                        .reason = SPOOL_SUPPRESS_COMPLAINT,
                                        .added = at,
                                        .expires = expires,
                                        .source = SLICE("a test")};
    assert_int_equal(spool_suppress_put(t, &s, &is_new), 0);
    assert_int_equal(spool_commit(t), 0);
    return is_new;
}

static int take_away(const char *tenant, const char *address)
{
    struct spool_txn *t = begin();
    int r = spool_suppress_remove(t, slice_of(tenant), slice_of(address));
    assert_int_equal(spool_commit(t), 0);
    return r;
}

static int find(const char *tenant, const char *address, usec_t at)
{
    struct spool_suppression s;
    assert_int_equal(spool_reader_begin(reader), 0);
    int r = spool_suppress_find(reader, slice_of(tenant), slice_of(address), at, &s);
    if (r == 0) {
        assert_int_equal(s.reason, SPOOL_SUPPRESS_COMPLAINT);
        assert_true(slice_eq(s.source, SLICE("a test")));
        assert_false(s.is_damaged);
    }
    spool_reader_end(reader);
    return r;
}

static void lists_are_apart(void **state)
{
    assert_int_equal(spool_suppress_count(store), 0);
    assert_int_equal(find("shop", "joe@example.com", now), ERR_MISSING);
    uint64_t changes = spool_suppress_changes(store);
    assert_true(add("Shop", "Joe@Example.COM", now, 0));
    assert_true(spool_suppress_changes(store) != changes);
    assert_false(add("shop", "joe@example.com", now, 0));
    assert_int_equal(spool_suppress_count(store), 1);
    assert_int_equal(find("SHOP", "JOE@example.com", now), 0);
    assert_int_equal(find("shop", "joe@sub.example.com", now), ERR_MISSING);
    assert_int_equal(find("", "joe@example.com", now), ERR_MISSING);
    assert_int_equal(find("other", "joe@example.com", now), ERR_MISSING);
    assert_int_equal(find("sho", "joe@example.com", now), ERR_MISSING);
    assert_true(add("", "ann@example.com", now, 0));
    assert_int_equal(find("shop", "ann@example.com", now), 0);
    assert_int_equal(find("", "ann@example.com", now), 0);
    assert_true(add("shop", "@example.net", now, 0));
    assert_int_equal(find("shop", "anybody@EXAMPLE.net", now), 0);
    assert_int_equal(find("shop", "anybody@a.example.net", now), ERR_MISSING);
    assert_int_equal(find("", "anybody@example.net", now), ERR_MISSING);
    assert_int_equal(find("shop", "postmaster", now), ERR_MISSING);
    assert_int_equal(take_away("shop", "JOE@example.com"), 0);
    assert_int_equal(take_away("shop", "joe@example.com"), ERR_MISSING);
    assert_int_equal(find("shop", "joe@example.com", now), ERR_MISSING);
    assert_int_equal(spool_suppress_count(store), 2);
}

static void wrong_entries_are_refused(void **state)
{
    static const char *const wrong[] = {"", "joe", "joe@", "@"};
    struct spool_txn *t = begin();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct spool_suppression s = {.tenant = SLICE(""), .address = slice_of(wrong[i])};
        assert_int_equal(spool_suppress_put(t, &s, NULL), ERR_SYNTAX);
        assert_int_equal(spool_suppress_remove(t, SLICE(""), slice_of(wrong[i])), ERR_SYNTAX);
    }
    char longest[SPOOL_SUPPRESS_ADDRESS_MAX + 2];
    memset(longest, 'x', sizeof(longest));
    longest[1] = '@';
    struct spool_suppression s = {.tenant = SLICE("t"), .address = {longest, sizeof(longest) - 1}};
    assert_int_equal(spool_suppress_put(t, &s, NULL), ERR_SYNTAX);
    s.address.len--;
    s.tenant = slice_make(longest + 2, SPOOL_SUPPRESS_TENANT_MAX + 1);
    assert_int_equal(spool_suppress_put(t, &s, NULL), ERR_SYNTAX);
    s.tenant.len--;
    s.source = slice_make(longest, 200);
    assert_int_equal(spool_suppress_put(t, &s, NULL), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_suppress_find(reader, s.tenant, s.address, now, &s), 0);
    assert_int_equal(s.source.len, SPOOL_SUPPRESS_SOURCE_MAX);
    spool_reader_end(reader);
}

static void time_ends_an_entry(void **state)
{
    (void)add("shop", "joe@example.com", now, now + day);
    (void)add("shop", "ann@example.com", now, 0);
    assert_int_equal(find("shop", "joe@example.com", now + day - USEC_PER_SEC), 0);
    assert_int_equal(find("shop", "joe@example.com", now + day), ERR_MISSING);
    assert_int_equal(find("shop", "joe@example.com", now - day), 0); /* the clock was set back */
    assert_true(add("shop", "joe@example.com", now + 2 * day, now + 3 * day));
    unsigned removed = 0;
    struct spool_txn *t = begin();
    assert_int_equal(spool_suppress_sweep(t, now + 2 * day, day, 100, &removed), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(spool_suppress_sweep(t, now + 3 * day, day, 100, &removed), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_suppress_count(store), 1);
}

/* A sweep goes round in small steps and meets every entry. */
static void sweep_goes_round(void **state)
{
    enum { ENTRIES = 500, STEP = 7 };
    char address[64];
    for (int i = 0; i < ENTRIES; i++) {
        (void)snprintf(address, sizeof(address), "u%03d@example.com", i);
        (void)add(i % 3 == 0 ? "" : "shop", address, now, i % 2 == 0 ? now + day : 0);
    }
    unsigned all = 0;
    for (int i = 0; i < 2 * ENTRIES / (STEP - 1); i++) {
        unsigned removed = 0;
        struct spool_txn *t = begin();
        assert_int_equal(spool_suppress_sweep(t, now + 2 * day, day, STEP, &removed), 0);
        assert_int_equal(spool_commit(t), 0);
        all += removed;
    }
    assert_int_equal(all, ENTRIES / 2);
    assert_int_equal(spool_suppress_count(store), ENTRIES / 2);
}

static void what_is_aborted_is_not_there(void **state)
{
    struct spool_txn *t = begin();
    const struct spool_suppression s = {
        .tenant = SLICE(""), .address = SLICE("a@b.example"), .added = now};
    assert_int_equal(spool_suppress_put(t, &s, NULL), 0);
    uint64_t changes = spool_suppress_changes(store);
    spool_abort(t);
    assert_int_equal(find("", "a@b.example", now), ERR_MISSING);
    (void)put_one(7);
    assert_int_equal(spool_suppress_count(store), 0);
    assert_int_equal(spool_suppress_changes(store), changes);
}

static void entries_survive_a_restart(void **state)
{
    (void)add("shop", "joe@example.com", now, 0);
    down();
    up();
    assert_int_equal(spool_suppress_count(store), 1);
    assert_int_equal(find("shop", "joe@example.com", now), 0);
}

/* What a list begins and ends with does not matter, nor how many there are. */
static void each_kind_of_entry_is_found_after_a_restart(void **state)
{
    static const struct {
        const char *tenant, *entries[3], *address;
    } rows[] = {
        {"", {"joe@example.com"}, "joe@example.com"},
        {"", {"@example.com"}, "joe@example.com"},
        {"shop", {"joe@example.com"}, "joe@example.com"},
        {"shop", {"@example.com"}, "joe@example.com"},
        {"shop", {"1@example.com", "@example.com"}, "joe@example.com"},
        {"shop", {"1@example.com", "joe@example.com"}, "joe@example.com"},
        {"shop", {"@example.com", "joe@example.com"}, "joe@example.com"},
        {"shop", {"@a.example.com", "@example.com", "joe@example.net"}, "joe@example.net"},
        {"", {"@a.example.com", "@example.com", "joe@example.net"}, "joe@example.net"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int entry = 0; entry < 3 && rows[i].entries[entry] != NULL; entry++) {
            (void)add(rows[i].tenant, rows[i].entries[entry], now, 0);
        }
        assert_int_equal(find("shop", rows[i].address, now), 0);
        down();
        up();
        assert_int_equal(find("shop", rows[i].address, now), 0);
        assert_int_equal(find("shop", "ann@elsewhere.example", now), ERR_MISSING);
        for (int entry = 0; entry < 3 && rows[i].entries[entry] != NULL; entry++) {
            assert_int_equal(take_away(rows[i].tenant, rows[i].entries[entry]), 0);
        }
        down();
        up();
        assert_int_equal(spool_suppress_count(store), 0);
    }
    for (int i = 0; i < 100; i++) {
        char tenant[16];
        (void)snprintf(tenant, sizeof(tenant), "t%03d", i);
        (void)add(tenant, i == 99 ? "@example.com" : "joe@example.net", now, 0);
    }
    down();
    up();
    assert_int_equal(find("t099", "joe@example.com", now), 0);
}

/* As after a kill: the lock file has a process id, and all leaves are looked at. */
static void entries_are_counted_after_a_kill(void **state)
{
    (void)add("shop", "joe@example.com", now, 0);
    (void)add("", "@example.net", now, 0);
    down();
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/spool.lock", folder);
    FILE *lock = fopen(path, "w");
    assert_non_null(lock);
    assert_true(fputs("1\n", lock) >= 0);
    assert_int_equal(fclose(lock), 0);
    up();
    assert_int_equal(spool_suppress_count(store), 2);
    assert_int_equal(find("shop", "joe@example.com", now), 0);
}

/* --- strikes -------------------------------------------------------------------------------------- */

static uint32_t strike(const char *address, uint64_t message_id, usec_t at)
{
    struct spool_txn *t = begin();
    uint32_t count = 0;
    const struct spool_strike s = {.kind = 1,
                                   .tenant = SLICE("shop"),
                                   .address = slice_of(address),
                                   .message_id = message_id,
                                   .now = at,
                                   .span = 30 * day,
                                   .most = 5};
    assert_int_equal(spool_suppress_strike(t, &s, &count), 0);
    assert_int_equal(spool_commit(t), 0);
    return count;
}

static void strikes_count_messages_within_a_span(void **state)
{
    assert_int_equal(strike("joe@example.com", 1, now), 1);
    assert_int_equal(strike("joe@example.com", 1, now + day), 1); /* the same message again */
    assert_int_equal(strike("ann@example.com", 2, now), 1);
    assert_int_equal(strike("JOE@example.com", 2, now + 10 * day), 2);
    assert_int_equal(strike("joe@example.com", 3, now + 31 * day), 2); /* the first is too old */
    assert_int_equal(strike("joe@example.com", 4, now + 31 * day), 3);
    assert_int_equal(strike("joe@example.com", 5, now + 32 * day), 4);
    assert_int_equal(strike("joe@example.com", 6, now + 33 * day), 5);
    assert_int_equal(strike("joe@example.com", 7, now + 33 * day), 1); /* begun anew */
}

static void a_clock_set_back_counts_as_now(void **state)
{
    assert_int_equal(strike("joe@example.com", 1, now + 400 * day), 1);
    assert_int_equal(strike("joe@example.com", 2, now), 2);
    assert_int_equal(strike("joe@example.com", 3, now + 29 * day), 3);
    assert_int_equal(strike("joe@example.com", 4, now + 31 * day), 2);
}

static void old_strikes_are_swept(void **state)
{
    unsigned removed;
    uint64_t count;
    (void)strike("joe@example.com", 1, now);
    (void)strike("ann@example.com", 2, now + 20 * day);
    struct spool_txn *t = begin();
    assert_int_equal(spool_suppress_sweep(t, now + 31 * day, 30 * day, 100, &removed), 0);
    assert_int_equal(spool_commit(t), 0);
    MDB_stat stat;
    t = begin();
    assert_int_equal(mdb_stat(t->txn, store->dbi[SPOOL_TABLE_STRIKES], &stat), 0);
    count = stat.ms_entries;
    spool_abort(t);
    assert_int_equal(count, 1);
    assert_int_equal(strike("ann@example.com", 3, now + 31 * day), 2);
}

/* --- a model -------------------------------------------------------------------------------------- */

enum { TENANTS = 3, ADDRESSES = 60 };
static const char *const tenants[TENANTS] = {"", "a", "ab"};

static uint32_t random_state;

static uint32_t chance(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static void name(char *out, size_t size, int i)
{
    (void)snprintf(out, size, "%.*s@d%d.example", i % 6 == 0 ? 0 : 3 + i % 9, "ufrabcdefghijklm",
                   i / 6);
}

/* The list in order, as it is read page by page. */
static void check_list(int tenant, const bool there[ADDRESSES])
{
    char last[400] = "", address[64];
    int count = 0, expected = 0;
    struct spool_suppression s;
    struct slice from = SLICE("");
    assert_int_equal(spool_reader_begin(reader), 0);
    while (spool_suppress_next(reader, slice_of(tenants[tenant]), from, count > 0, &s) == 0) {
        assert_true(slice_eq(s.tenant, slice_of(tenants[tenant])));
        assert_true(count == 0 || strncmp(last, s.address.data, s.address.len) != 0);
        memcpy(last, s.address.data, s.address.len);
        last[s.address.len] = '\0';
        from = slice_of(last);
        count++;
    }
    spool_reader_end(reader);
    for (int i = 0; i < ADDRESSES; i++) {
        name(address, sizeof(address), i);
        expected += there[i];
    }
    assert_int_equal(count, expected);
}

static void random_changes_match_a_model(void **state)
{
    bool there[TENANTS][ADDRESSES] = {{false}};
    char address[64], domain[64];
    random_state = 20261123;
    for (int step = 0; step < 3000; step++) {
        int tenant = (int)chance(TENANTS), i = (int)chance(ADDRESSES);
        name(address, sizeof(address), i);
        if (chance(2) == 0) {
            assert_int_equal(add(tenants[tenant], address, now, 0), !there[tenant][i]);
            there[tenant][i] = true;
        } else {
            assert_int_equal(take_away(tenants[tenant], address),
                             there[tenant][i] ? 0 : ERR_MISSING);
            there[tenant][i] = false;
        }
        i = (int)chance(ADDRESSES);
        if (i % 6 == 0) {
            i++;
        }
        name(address, sizeof(address), i);
        name(domain, sizeof(domain), i / 6 * 6);
        bool is_there =
            there[tenant][i] || there[tenant][i / 6 * 6] || there[0][i] || there[0][i / 6 * 6];
        assert_int_equal(find(tenants[tenant], address, now), is_there ? 0 : ERR_MISSING);
        if (step % 500 == 0) {
            down();
            up();
            check_list(tenant, there[tenant]);
        }
    }
    for (int i = 0; i < TENANTS; i++) {
        check_list(i, there[i]);
    }
}

static void lists_are_found_in_order(void **state)
{
    struct slice list;
    (void)add("b", "x@example.com", now, 0);
    (void)add("", "x@example.com", now, 0);
    (void)add("a", "x@example.com", now, 0);
    (void)add("a", "y@example.com", now, 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(spool_suppress_next_list(reader, (struct slice){NULL, 0}, &list), 0);
    assert_int_equal(list.len, 0);
    assert_int_equal(spool_suppress_next_list(reader, SLICE(""), &list), 0);
    assert_true(slice_eq(list, SLICE("a")));
    assert_int_equal(spool_suppress_next_list(reader, SLICE("a"), &list), 0);
    assert_true(slice_eq(list, SLICE("b")));
    assert_int_equal(spool_suppress_next_list(reader, SLICE("b"), &list), ERR_MISSING);
    spool_reader_end(reader);
}

/* A record that was damaged stays in force, and is shown as such. */
static void damage_suppresses(void **state)
{
    struct spool_suppression s;
    (void)add("shop", "joe@example.com", now, now + day);
    MDB_val k = {sizeof("shop\0joe@example.com") - 1, (void *)(uintptr_t) "shop\0joe@example.com"};
    MDB_val v = {5, (void *)(uintptr_t) "\1abcd"};
    struct spool_txn *t = begin();
    assert_int_equal(mdb_put(t->txn, store->dbi[SPOOL_TABLE_SUPPRESSED], &k, &v, 0), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_reader_begin(reader), 0);
    assert_int_equal(
        spool_suppress_find(reader, SLICE("shop"), SLICE("joe@example.com"), now + 2 * day, &s), 0);
    assert_true(s.is_damaged);
    spool_reader_end(reader);
    assert_int_equal(take_away("shop", "joe@example.com"), 0);
}

/* As they were before version and reason shared a byte. */
static void old_records_are_read(void **state)
{
    static const char name[] = "shop\0joe@example.com";
    MDB_val k = {sizeof(name) - 1, (void *)(uintptr_t)name};
    char record[] = "\1\1\x6b\x49\xd2\x00\x6b\x4b\x23\x80"
                    "a test"
                    "sum:";
    MDB_val v = {sizeof(record) - 1, record};
    uint32_t sum = htobe32(
        (uint32_t)(hash_checksum(record, v.mv_size - 4) ^ hash_checksum(k.mv_data, k.mv_size)));
    memcpy(record + v.mv_size - 4, &sum, sizeof(sum));
    struct spool_txn *t = begin();
    assert_int_equal(mdb_put(t->txn, store->dbi[SPOOL_TABLE_SUPPRESSED], &k, &v, 0), 0);
    assert_int_equal(spool_suppress_load(t), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(find("shop", "joe@example.com", now), 0);
    assert_int_equal(find("shop", "joe@example.com", now + day), ERR_MISSING);
}

/* One entry, whichever way its domain is written. */
static void domains_have_one_form(void **state)
{
    static const char *const names[] = {"joe@b\xc3\xbc"
                                        "cher.example",
                                        "joe@B\xc3\x9c"
                                        "CHER.example",
                                        "JOE@XN--bcher-kva.Example", "joe@xn--bcher-kva.example"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_true(add("shop", names[i], now, 0));
        assert_int_equal(spool_suppress_count(store), 1);
        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
            assert_int_equal(find("shop", names[j], now), 0);
        }
        assert_int_equal(take_away("shop", names[(i + 1) % 4]), 0);
        assert_int_equal(spool_suppress_count(store), 0);
    }
    assert_true(add("",
                    "@b\xc3\xbc"
                    "cher.example",
                    now, 0));
    assert_int_equal(find("shop", "ann@xn--bcher-kva.example", now), 0);
}

/* Entries of before: under the name as it was written. */
static void put_as_written(const char *name, size_t len)
{
    (void)add("shop", "joe@xn--bcher-kva.example", now, 0);
    struct spool_txn *t = begin();
    MDB_val from = {30, (void *)(uintptr_t) "shop\0joe@xn--bcher-kva.example"}, v;
    MDB_val k = {len, (void *)(uintptr_t)name};
    char record[100];
    assert_int_equal(mdb_get(t->txn, store->dbi[SPOOL_TABLE_SUPPRESSED], &from, &v), 0);
    memcpy(record, v.mv_data, v.mv_size);
    uint64_t sum = hash_checksum(from.mv_data, from.mv_size) ^ hash_checksum(name, len);
    uint32_t end;
    memcpy(&end, record + v.mv_size - 4, sizeof(end));
    end ^= htobe32((uint32_t)sum);
    memcpy(record + v.mv_size - 4, &end, sizeof(end));
    MDB_val copy = {v.mv_size, record};
    assert_int_equal(mdb_put(t->txn, store->dbi[SPOOL_TABLE_SUPPRESSED], &k, &copy, 0), 0);
    assert_int_equal(mdb_del(t->txn, store->dbi[SPOOL_TABLE_SUPPRESSED], &from, NULL), 0);
    assert_int_equal(spool_suppress_load(t), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(spool_suppress_count(store), 1);
}

static void old_forms_get_their_own(void **state)
{
    static const char old[] = "shop\0joe@b\xc3\xbc"
                              "cher.example";
    static const char name[] = "joe@b\xc3\xbc"
                               "cher.example";
    put_as_written(old, sizeof(old) - 1);
    assert_int_equal(find("shop", name, now), 0);
    assert_int_equal(find("shop", "joe@xn--bcher-kva.example", now), ERR_MISSING);
    assert_int_equal(take_away("shop", name), 0);
    put_as_written(old, sizeof(old) - 1);
    assert_false(add("shop", name, now, 0)); /* takes its place */
    assert_int_equal(spool_suppress_count(store), 1);
    assert_int_equal(take_away("shop", name), 0);
    put_as_written(old, sizeof(old) - 1);
    unsigned removed;
    struct spool_txn *t = begin();
    assert_int_equal(spool_suppress_sweep(t, now, day, 100, &removed), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(spool_suppress_count(store), 1);
    assert_int_equal(find("shop", "joe@xn--bcher-kva.example", now), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_entries_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(time_ends_an_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(sweep_goes_round, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_aborted_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(entries_survive_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(each_kind_of_entry_is_found_after_a_restart, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(entries_are_counted_after_a_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(strikes_count_messages_within_a_span, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clock_set_back_counts_as_now, setup, teardown),
        cmocka_unit_test_setup_teardown(old_strikes_are_swept, setup, teardown),
        cmocka_unit_test_setup_teardown(random_changes_match_a_model, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_are_found_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_suppresses, setup, teardown),
        cmocka_unit_test_setup_teardown(old_records_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(domains_have_one_form, setup, teardown),
        cmocka_unit_test_setup_teardown(old_forms_get_their_own, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
