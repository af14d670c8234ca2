/* The spool's records: both ways, every truncation, every flipped byte, wrong keys. */
#include "base/error.h"
#include "base/packed.h"
#include "engine/spool/spool_record.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* A copy of exactly len bytes on the heap, so that a sanitizer sees every over-read. */
static struct slice exact(const void *data, size_t len)
{
    char *copy = malloc(len == 0 ? 1 : len);
    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    return slice_make(copy, len);
}

static void release(struct slice s)
{
    free((void *)(uintptr_t)s.data);
}

static void assert_slice(struct slice got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.data, want, got.len);
}

static struct spool_message sample(void)
{
    return (struct spool_message){
        .envelope = {.id = 0x0102030405060708,
                     .created = 1700000000123456,
                     .size_bytes = 5,
                     .recipient_count = 1,
                     .flags = SPOOL_FLAG_8BIT | SPOOL_FLAG_BODY_INLINE,
                     .warn_at = 1700000014400000,
                     .sender = SLICE("a@example.com"),
                     .peer_name = SLICE("client.example.com"),
                     .peer_address = SLICE("2001:db8::1"),
                     .protocol = SLICE("ESMTPSA"),
                     .auth_user = SLICE("user"),
                     .tenant = SLICE("acme"),
                     .campaign = SLICE("spring-7"),
                     .not_before = 1700000500000000,
                     .expires = 1700090000000000},
        .packed = slice_make("\0\1b", 3),
        .body = SLICE("Hi.\r\n"),
    };
}

static struct slice sample_record(void)
{
    struct spool_message m = sample();
    char record[1024];
    size_t bytes = 0;
    assert_int_equal(spool_message_bytes(&m, &bytes), 0);
    assert_true(bytes < sizeof(record));
    spool_message_encode(&m, record, bytes);
    return exact(record, bytes);
}

static void message_both_ways(void **state)
{
    struct slice record = sample_record();
    struct spool_message m;
    struct spool_message want = sample();
    assert_int_equal(spool_message_decode(record, want.envelope.id, true, &m), 0);
    assert_int_equal(m.envelope.id, want.envelope.id);
    assert_int_equal(m.envelope.created, want.envelope.created);
    assert_int_equal(m.envelope.size_bytes, 5);
    assert_int_equal(m.envelope.recipient_count, 1);
    assert_int_equal(m.envelope.chunk_count, 0);
    assert_int_equal(m.envelope.flags, want.envelope.flags);
    assert_int_equal(m.envelope.warn_at, want.envelope.warn_at);
    assert_slice(m.envelope.sender, "a@example.com");
    assert_slice(m.envelope.peer_name, "client.example.com");
    assert_slice(m.envelope.peer_address, "2001:db8::1");
    assert_slice(m.envelope.protocol, "ESMTPSA");
    assert_slice(m.envelope.auth_user, "user");
    assert_slice(m.envelope.tenant, "acme");
    assert_slice(m.envelope.campaign, "spring-7");
    assert_int_equal(m.envelope.not_before, want.envelope.not_before);
    assert_int_equal(m.envelope.expires, want.envelope.expires);
    assert_slice(m.body, "Hi.\r\n");
    struct slice address;
    assert_true(packed_next(&m.packed, &address));
    assert_slice(address, "b");
    assert_false(packed_next(&m.packed, &address));
    release(record);
}

/* A record as the first version wrote it: without the two times and the two texts. */
static void message_of_the_first_version(void **state)
{
    struct spool_message m = sample();
    m.envelope.tenant = m.envelope.campaign = SLICE("");
    m.envelope.not_before = m.envelope.expires = 0;
    char record[1024], old[1024];
    size_t bytes = 0;
    assert_int_equal(spool_message_bytes(&m, &bytes), 0);
    spool_message_encode(&m, record, bytes);
    /* version, flags, counts, size, created and warn_at; then the times, five lengths, two more */
    const size_t head = 1 + 2 + 12 + 8 + 16, lengths = 5 * 2;
    memcpy(old, record, head);
    old[0] = 1;
    memcpy(old + head, record + head + 16, lengths);
    memcpy(old + head + lengths, record + head + 16 + lengths + 4, bytes - head - 16 - lengths - 4);
    struct slice first = exact(old, bytes - 20);
    uint32_t chunks = 7, batches = 7;
    assert_true(spool_message_peek(first, &chunks, &batches));
    assert_int_equal(chunks, 0);
    assert_int_equal(spool_message_decode(first, m.envelope.id, false, &m), 0);
    assert_slice(m.envelope.auth_user, "user");
    assert_slice(m.envelope.tenant, "");
    assert_slice(m.body, "Hi.\r\n");
    assert_int_equal(m.envelope.not_before, 0);
    release(first);
}

static void message_of_another_key_is_corrupt(void **state)
{
    struct slice record = sample_record();
    struct spool_message m;
    assert_int_equal(spool_message_decode(record, 7, true, &m), ERR_CORRUPT);
    release(record);
}

static void every_flipped_bit_is_corrupt(void **state)
{
    struct slice record = sample_record();
    char *bytes = (char *)(uintptr_t)record.data;
    struct spool_message m;
    for (size_t bit = 0; bit < record.len * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << (bit % 8)));
        assert_int_equal(spool_message_decode(record, 0x0102030405060708, true, &m), ERR_CORRUPT);
        /* Without the checksum it may pass, but stays inside the record. */
        if (spool_message_decode(record, 0x0102030405060708, false, &m) == 0) {
            assert_true(m.body.len <= record.len && m.envelope.sender.len <= record.len);
        }
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
    release(record);
}

static void every_truncation_is_corrupt(void **state)
{
    struct slice record = sample_record();
    for (size_t len = 0; len < record.len; len++) {
        struct slice cut = exact(record.data, len);
        struct spool_message m;
        uint32_t chunks;
        uint32_t batches;
        assert_int_equal(spool_message_decode(cut, 0x0102030405060708, true, &m), ERR_CORRUPT);
        assert_int_equal(spool_message_decode(cut, 0x0102030405060708, false, &m), ERR_CORRUPT);
        bool is_told = spool_message_peek(cut, &chunks, &batches);
        assert_true(!is_told || len >= 15);
        release(cut);
    }
    release(record);
}

static void message_limits(void **state)
{
    static char big[70000];
    struct spool_message m = sample();
    size_t bytes;
    m.envelope.sender = slice_make(big, 65535);
    assert_int_equal(spool_message_bytes(&m, &bytes), 0);
    m.envelope.sender = slice_make(big, 65536);
    assert_int_equal(spool_message_bytes(&m, &bytes), ERR_LIMIT);
    m = sample();
    m.body = slice_make(big, SPOOL_INLINE_BODY_BYTES);
    assert_int_equal(spool_message_bytes(&m, &bytes), 0);
    m.body = slice_make(big, SPOOL_INLINE_BODY_BYTES + 1);
    assert_int_equal(spool_message_bytes(&m, &bytes), ERR_LIMIT);
    m = sample();
    m.packed = slice_make(big, SPOOL_INLINE_RECIPIENT_BYTES + 1);
    assert_int_equal(spool_message_bytes(&m, &bytes), ERR_LIMIT);
}

static void peek_tells_the_counts(void **state)
{
    struct spool_message m = sample();
    char record[1024];
    size_t bytes;
    uint32_t chunks;
    uint32_t batches;
    m.envelope.chunk_count = 9;
    m.batch_count = 3;
    assert_int_equal(spool_message_bytes(&m, &bytes), 0);
    spool_message_encode(&m, record, bytes);
    assert_true(spool_message_peek(slice_make(record, bytes), &chunks, &batches));
    assert_int_equal(chunks, 9);
    assert_int_equal(batches, 3);
    record[0]++;
    assert_false(spool_message_peek(slice_make(record, bytes), &chunks, &batches));
}

static void chunk_fills_whole_pages(void **state)
{
    /* 16 bytes are LMDB's page header. */
    assert_true(spool_blob_bytes(SPOOL_CHUNK_BYTES) <= 16 * 4096 - 16);
}

static void blob_both_ways(void **state)
{
    const struct spool_key key = spool_key_part(5, 6);
    const struct spool_key other = spool_key_part(5, 7);
    char record[SPOOL_RECORD_OVERHEAD + 3];
    struct slice got;
    spool_blob_encode(SLICE("abc"), &key, record);
    struct slice whole = exact(record, sizeof(record));
    assert_int_equal(spool_blob_decode(whole, &key, true, &got), 0);
    assert_slice(got, "abc");
    assert_int_equal(spool_blob_decode(whole, &other, true, &got), ERR_CORRUPT);
    assert_int_equal(spool_blob_decode(whole, &other, false, &got), 0);
    release(whole);
    spool_blob_encode(SLICE(""), &key, record);
    whole = exact(record, SPOOL_RECORD_OVERHEAD);
    assert_int_equal(spool_blob_decode(whole, &key, true, &got), 0);
    assert_int_equal(got.len, 0);
    release(whole);
}

static void numbers_and_retries(void **state)
{
    const struct spool_key key = spool_key_name("ids");
    char record[SPOOL_NUMBER_BYTES];
    uint64_t number;
    spool_number_encode(UINT64_MAX - 3, &key, record);
    assert_int_equal(spool_number_decode(slice_make(record, sizeof(record)), &key, &number), 0);
    assert_true(number == UINT64_MAX - 3);
    assert_int_equal(spool_number_decode(slice_make(record, sizeof(record) - 1), &key, &number),
                     ERR_CORRUPT);

    char retry_record[SPOOL_RETRY_BYTES];
    struct spool_retry retry = {
        .attempts = 77, .warned = true, .due = 9, .deferred = 8, .source = 0xfffe};
    struct spool_retry got;
    spool_retry_encode(&retry, 9, retry_record);
    struct slice whole = slice_make(retry_record, sizeof(retry_record));
    assert_int_equal(spool_retry_decode(whole, 9, &got), 0);
    assert_int_equal(got.attempts, 77);
    assert_true(got.warned);
    assert_int_equal(got.due, 9);
    assert_int_equal(got.deferred, 8);
    assert_int_equal(got.source, 0xfffe);
    assert_int_equal(spool_retry_decode(whole, 10, &got), ERR_CORRUPT);
    assert_int_equal(got.blocked, 0);
    for (usec_t hours = 0; hours < 200; hours += 7) {
        const usec_t now = (usec_t)1800000000 * USEC_PER_SEC;
        retry.due = now + 1234567;
        retry.blocked = now - hours * 3600 * USEC_PER_SEC;
        spool_retry_encode(&retry, 9, retry_record);
        assert_int_equal(spool_retry_decode(whole, 9, &got), 0);
        assert_int_equal(got.due, retry.due);
        usec_t most = hours < 136 ? 61 * USEC_PER_SEC : (hours - 135) * 3600 * USEC_PER_SEC;
        assert_in_range(got.blocked - retry.blocked + most, 0, 2 * most);
    }
    retry.blocked = 0;
    retry.due = USEC_NEVER;
    spool_retry_encode(&retry, 9, retry_record);
    assert_int_equal(spool_retry_decode(whole, 9, &got), 0);
    assert_int_equal(got.blocked, 0);
    retry.attempts = 70000;
    spool_retry_encode(&retry, 9, retry_record);
    assert_int_equal(spool_retry_decode(whole, 9, &got), 0);
    assert_int_equal(got.attempts, 0x7fff);
    assert_int_equal(got.source, 0xfffe);
    assert_false(got.is_paced);
    retry.attempts = 3;
    retry.is_paced = true;
    spool_retry_encode(&retry, 9, retry_record);
    assert_int_equal(spool_retry_decode(whole, 9, &got), 0);
    assert_true(got.is_paced);
    assert_int_equal(got.attempts, 3);
    assert_int_equal(got.source, 0xfffe);
}

/* As it was before there were marks: the same bytes, and none in them. */
static void a_retry_without_a_source(void **state)
{
    const struct spool_key key = spool_key_part(9, SPOOL_RETRY_BATCH);
    const char fields[] = "\0\0\0\115\1\0\0\0\0\0\0\0\11\0\0\0\0\0\0\0\10";
    const struct spool_retry retry = {.attempts = 77, .warned = true, .due = 9, .deferred = 8};
    char record[SPOOL_RETRY_BYTES], fresh[SPOOL_RETRY_BYTES];
    struct spool_retry got;
    spool_blob_encode(slice_make(fields, 21), &key, record);
    assert_int_equal(spool_retry_decode(slice_make(record, sizeof(record)), 9, &got), 0);
    assert_int_equal(got.attempts, 77);
    assert_int_equal(got.source, 0);
    spool_retry_encode(&retry, 9, fresh);
    assert_memory_equal(fresh, record, sizeof(record));
}

/* As formats before 4 have it: without the time of the deferral. Read back from the bytes of one.
 */
static void a_retry_of_an_older_format(void **state)
{
    const struct spool_key key = spool_key_part(9, SPOOL_RETRY_BATCH);
    const char fields[] = "\0\0\0\115\1\0\0\0\0\0\0\0\11";
    char record[SPOOL_RETRY_BYTES - 8];
    struct spool_retry got;
    spool_blob_encode(slice_make(fields, 13), &key, record);
    assert_int_equal(spool_retry_decode(slice_make(record, sizeof(record)), 9, &got), 0);
    assert_int_equal(got.attempts, 77);
    assert_true(got.warned);
    assert_int_equal(got.due, 9);
    assert_int_equal(got.deferred, 0);
    char torn[SPOOL_RETRY_BYTES - 4];
    spool_blob_encode(slice_make("\0\0\0\115\1\0\0\0\0\0\0\0\11\0\0\0\0", 17), &key, torn);
    assert_int_equal(spool_retry_decode(slice_make(torn, sizeof(torn)), 9, &got), ERR_CORRUPT);
}

static void reasons(void **state)
{
    static char big[5000];
    const struct spool_key key = spool_key_part(5, 6);
    char record[SPOOL_REASON_BYTES_MAX];
    struct spool_reason reason = {.time = 42,
                                  .state = SPOOL_RECIPIENT_FAILED,
                                  .code = 550,
                                  .status = SLICE("5.1.1"),
                                  .text = SLICE("no such user"),
                                  .remote_mta = SLICE("mx.example.com")};
    struct spool_reason got;
    size_t bytes = spool_reason_encode(&reason, &key, record);
    struct slice whole = exact(record, bytes);
    assert_int_equal(spool_reason_decode(whole, &key, &got), 0);
    assert_int_equal(got.time, 42);
    assert_int_equal(got.code, 550);
    assert_int_equal(got.state, SPOOL_RECIPIENT_FAILED);
    assert_slice(got.status, "5.1.1");
    assert_slice(got.text, "no such user");
    assert_slice(got.remote_mta, "mx.example.com");
    release(whole);

    memset(big, 'x', sizeof(big));
    reason.status = reason.text = reason.remote_mta = slice_make(big, sizeof(big));
    bytes = spool_reason_encode(&reason, &key, record);
    assert_int_equal(bytes, SPOOL_REASON_BYTES_MAX);
    assert_int_equal(spool_reason_decode(slice_make(record, bytes), &key, &got), 0);
    assert_int_equal(got.status.len, SPOOL_STATUS_MAX);
    assert_int_equal(got.text.len, SPOOL_REASON_TEXT_MAX);
    assert_int_equal(got.remote_mta.len, SPOOL_REMOTE_MTA_MAX);
}

static void keys_sort_and_read_back(void **state)
{
    uint64_t id;
    uint64_t time;
    uint32_t number;
    struct spool_key a = spool_key_part(1, UINT32_MAX);
    struct spool_key b = spool_key_part(2, 0);
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    assert_true(spool_key_read_part(slice_make((char *)a.bytes, a.len), &id, &number));
    assert_int_equal(id, 1);
    assert_true(number == UINT32_MAX);
    assert_false(spool_key_read_part(slice_make((char *)a.bytes, a.len - 1), &id, &number));
    struct spool_position place;
    a = spool_key_queue(3, 255, 9);
    b = spool_key_queue(3, 256, 1);
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    b = spool_key_queue(4, 1, 1);
    assert_true(memcmp(a.bytes, b.bytes, a.len) < 0);
    assert_true(spool_key_read_queue(slice_make((char *)a.bytes, a.len), &place));
    assert_int_equal(place.flow, 3);
    assert_int_equal(place.time, 255);
    assert_int_equal(place.id, 9);
    assert_false(spool_key_read_queue(slice_make((char *)a.bytes, 8), &place));
    assert_false(spool_key_read_old_queue(slice_make((char *)a.bytes, a.len), &time, &id));
    a = spool_key_old_queue(255, 9);
    assert_false(spool_key_read_queue(slice_make((char *)a.bytes, a.len), &place));
    assert_true(spool_key_read_old_queue(slice_make((char *)a.bytes, a.len), &time, &id));
    assert_int_equal(time, 255);
    assert_int_equal(id, 9);
    a = spool_key_id(77);
    assert_true(spool_key_read_id(slice_make((char *)a.bytes, a.len), &id));
    assert_int_equal(id, 77);
    assert_int_equal(spool_key_quarantine(1, 2, 3).len, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_both_ways),
        cmocka_unit_test(message_of_the_first_version),
        cmocka_unit_test(message_of_the_first_version),
        cmocka_unit_test(message_of_another_key_is_corrupt),
        cmocka_unit_test(every_flipped_bit_is_corrupt),
        cmocka_unit_test(every_truncation_is_corrupt),
        cmocka_unit_test(message_limits),
        cmocka_unit_test(peek_tells_the_counts),
        cmocka_unit_test(chunk_fills_whole_pages),
        cmocka_unit_test(blob_both_ways),
        cmocka_unit_test(numbers_and_retries),
        cmocka_unit_test(a_retry_of_an_older_format),
        cmocka_unit_test(a_retry_without_a_source),
        cmocka_unit_test(reasons),
        cmocka_unit_test(keys_sort_and_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
