/* What is kept of signatures, as long as their message. */
#include "base/error.h"
#include "engine/spool/spool_env.h"
#include "engine/spool/spool_signing.h"
#include "engine/spool/spool_table.h"
#include "tests/unit/spool_fixture.h"

#include <string.h>

static void put_record(uint64_t id, const struct spool_signing *s, int wanted)
{
    struct spool_txn *t = begin();
    assert_int_equal(spool_put_signing(t, id, s), wanted);
    assert_int_equal(spool_commit(t), 0);
}

static int read_record(uint64_t id, struct spool_signing *ret)
{
    assert_int_equal(spool_reader_begin(reader), 0);
    int err = spool_read_signing(reader, id, ret);
    spool_reader_end(reader);
    return err;
}

static void it_comes_back_as_it_was(void **state)
{
    for (uint8_t forms = 0; forms < 4; forms++) {
        struct spool_signing s = {.forms = forms,
                                  .mark = UINT64_MAX - 7,
                                  .signed_at = 1700000000000001,
                                  .expires = 1800000000000002,
                                  .wanted = SLICE("s1._domainkey.a.test,s2._domainkey.a.test"),
                                  .fields = SLICE("DKIM-Signature: v=1;\r\n b=x\r\n")};
        struct spool_signing found;
        memset(s.hashes[0], 17, sizeof(s.hashes[0]));
        memset(s.hashes[1], 18, sizeof(s.hashes[1]));
        put_record(7, &s, 0); /* in place of the one before */
        assert_int_equal(spool_reader_begin(reader), 0);
        assert_int_equal(spool_read_signing(reader, 7, &found), 0);
        assert_int_equal(found.forms, forms);
        for (unsigned form = 0; form < 2; form++) {
            if ((forms >> form & 1) != 0) {
                assert_memory_equal(found.hashes[form], s.hashes[form], sizeof(s.hashes[form]));
            }
        }
        assert_true(found.mark == s.mark && found.signed_at == s.signed_at &&
                    found.expires == s.expires);
        assert_true(slice_eq(found.wanted, s.wanted));
        assert_true(slice_eq(found.fields, s.fields));
        spool_reader_end(reader);
    }
    struct spool_signing found;
    assert_int_equal(read_record(8, &found), ERR_MISSING);
}

static void lengths_are_bounded(void **state)
{
    static char text[SPOOL_SIGNING_FIELDS_MAX + 1];
    memset(text, 'x', sizeof(text));
    struct spool_signing found, s = {
                                    .wanted = slice_make(text, SPOOL_SIGNING_WANTED_MAX),
                                    .fields = slice_make(text, SPOOL_SIGNING_FIELDS_MAX),
                                };
    put_record(1, &s, 0);
    assert_int_equal(read_record(1, &found), 0);
    assert_int_equal(found.wanted.len, SPOOL_SIGNING_WANTED_MAX);
    assert_int_equal(found.fields.len, SPOOL_SIGNING_FIELDS_MAX);
    s.wanted.len++;
    put_record(2, &s, ERR_LIMIT);
    s.wanted.len = 0;
    s.fields.len++;
    put_record(2, &s, ERR_LIMIT);
    assert_int_equal(read_record(2, &found), ERR_MISSING);
}

static void it_goes_with_its_message(void **state)
{
    struct spool_signing found;
    const struct spool_signing s = {.forms = 1, .wanted = SLICE(""), .fields = SLICE("F: x\r\n")};
    struct spool_position removed = put_one(1), kept = put_one(2), damaged = put_one(3);
    put_record(1, &s, 0);
    put_record(2, &s, 0);
    put_record(3, &s, 0);
    struct spool_txn *t = begin();
    assert_int_equal(spool_remove(t, &removed), 0);
    assert_int_equal(spool_quarantine(t, &damaged), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(read_record(1, &found), ERR_MISSING);
    assert_int_equal(read_record(2, &found), 0);
    assert_int_equal(read_record(3, &found), ERR_MISSING);
    t = begin();
    assert_int_equal(spool_remove(t, &kept), 0);
    assert_int_equal(spool_commit(t), 0);
    assert_int_equal(read_record(2, &found), ERR_MISSING);
}

static void damage_is_noticed(void **state)
{
    struct spool_signing s = {.forms = 3, .wanted = SLICE("k"), .fields = SLICE("F: x\r\n")}, found;
    const struct spool_key key = spool_key_id(5);
    put_record(5, &s, 0);
    struct slice record;
    struct spool_txn *t = begin();
    assert_int_equal(spool_table_get(t, SPOOL_TABLE_SIGNING, &key, &record), 0);
    char good[200], bad[200];
    assert_true(record.len < sizeof(good));
    memcpy(good, record.data, record.len);
    size_t len = record.len;
    spool_abort(t);
    assert_true(spool_signing_is_good(slice_make(good, len), &key));
    for (size_t i = 0; i < len; i++) {
        memcpy(bad, good, len);
        bad[i] ^= 4;
        assert_false(spool_signing_is_good(slice_make(bad, len), &key));
        assert_false(spool_signing_is_good(slice_make(good, i), &key));
    }
    /* Whole by its checksum, but not by its lengths. */
    for (size_t cut = 0; cut < 91 + 2; cut++) {
        void *at;
        t = begin();
        assert_int_equal(spool_table_put(t, SPOOL_TABLE_SIGNING, &key, spool_blob_bytes(cut), &at),
                         0);
        memset(bad, 3, sizeof(bad));
        spool_blob_encode(slice_make(bad, cut), &key, at);
        assert_int_equal(spool_commit(t), 0);
        int err = read_record(5, &found);
        assert_int_equal(err, ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_comes_back_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(lengths_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(it_goes_with_its_message, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_noticed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
