/* Reading of message content: however the input is cut, the same bytes come out. */
#include "bench/sink/sink_content.h"
#include "tests/unit/unit.h"

#include <string.h>

static const char raw[] =
    "Received: x\r\nX-Sluice-Stamp: 1700000000000001\r\n"
    "x-sluice-id:  abc \r\n\r\n..one\r\n.two\r\n.\rx\r\na.\r\n\n.\n\r\n.\r\nREST";
static const char plain[] = "Received: x\r\nX-Sluice-Stamp: 1700000000000001\r\n"
                            "x-sluice-id:  abc \r\n\r\n.one\r\ntwo\r\n\rx\r\na.\r\n\n.\n\r\n";

/* Feed `input` in pieces: the first `first` bytes, then `step` at a time; returns bytes used. */
static size_t feed(struct sink_content *c, struct slice input, size_t first, size_t step)
{
    size_t used = 0;
    size_t shown = first;
    bool is_done = false;
    sink_content_begin(c);
    while (!is_done) {
        assert_true(shown <= input.len);
        used += sink_content_feed(c, slice_make(input.data + used, shown - used), &is_done);
        if (shown == input.len && !is_done) {
            break;
        }
        shown = shown + step < input.len ? shown + step : input.len;
    }
    return used;
}

static void test_every_cut(void **state)
{
    struct sink_content c;
    char hash[SINK_HASH_TEXT_BYTES];
    char first_hash[SINK_HASH_TEXT_BYTES] = "";
    const struct slice input = slice_make(raw, sizeof(raw) - 1);
    (void)state;
    assert_int_equal(sink_content_init(&c, true, true, 0), 0);
    for (size_t cut = 0; cut <= input.len - 4; cut++) {
        for (size_t step = 1; step <= input.len; step += input.len - 1) {
            assert_int_equal(feed(&c, input, cut, step), input.len - 4);
            sink_content_end(&c, hash);
            assert_int_equal(c.size_bytes, sizeof(plain) - 1);
            assert_true(slice_eq(buf_slice(&c.head), slice_make(plain, sizeof(plain) - 1)));
            assert_true(slice_eq(sink_content_id(&c), SLICE("abc")));
            assert_int_equal(c.stamp, 1700000000000001LL);
            if (first_hash[0] == '\0') {
                memcpy(first_hash, hash, sizeof(hash));
            }
            assert_string_equal(hash, first_hash);
        }
    }
    assert_int_equal(strlen(first_hash), 64);
    sink_content_fini(&c);
}

static void test_empty_and_unmarked(void **state)
{
    struct sink_content c;
    char hash[SINK_HASH_TEXT_BYTES];
    (void)state;
    assert_int_equal(sink_content_init(&c, true, false, 0), 0);
    assert_int_equal(feed(&c, SLICE(".\r\n"), 1, 1), 3);
    sink_content_end(&c, hash);
    assert_int_equal(c.size_bytes, 0);
    assert_int_equal(c.stamp, 0);
    assert_int_equal(sink_content_id(&c).len, 0);
    /* SHA-256 of nothing, FIPS 180-4 */
    assert_string_equal(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sink_content_fini(&c);
}

static void test_fields_of_the_body_do_not_count(void **state)
{
    struct sink_content c;
    char hash[SINK_HASH_TEXT_BYTES];
    (void)state;
    assert_int_equal(sink_content_init(&c, false, false, 0), 0);
    (void)feed(&c, SLICE("Subject: x\r\n\r\nX-Sluice-Id: no\r\nX-Sluice-Stamp: 5\r\n.\r\n"), 40, 1);
    sink_content_end(&c, hash);
    assert_int_equal(sink_content_id(&c).len, 0);
    assert_int_equal(c.stamp, 0);
    (void)feed(&c, SLICE("X-Sluice-Stamp: 12x\r\n\r\n.\r\n"), 10, 1);
    sink_content_end(&c, hash);
    assert_int_equal(c.stamp, 0);
    assert_string_equal(hash, "");
    sink_content_fini(&c);
}

static void test_limit(void **state)
{
    struct sink_content c;
    char hash[SINK_HASH_TEXT_BYTES];
    (void)state;
    assert_int_equal(sink_content_init(&c, true, true, 10), 0);
    (void)feed(&c, SLICE("12345678\r\n.\r\n"), 4, 1);
    sink_content_end(&c, hash);
    assert_false(c.is_too_large);
    (void)feed(&c, SLICE("123456789\r\n.\r\n"), 4, 1);
    sink_content_end(&c, hash);
    assert_true(c.is_too_large);
    sink_content_fini(&c);
}

/* Beyond the head the bytes go to the hash at once; the hash is the same. */
static void test_long_content(void **state)
{
    struct sink_content whole;
    struct sink_content hashed;
    char hash[2][SINK_HASH_TEXT_BYTES];
    struct buf text;
    (void)state;
    buf_init(&text, 0);
    buf_append_str(&text, "X-Sluice-Id: long\r\n\r\n");
    for (int i = 0; i < 20000; i++) {
        buf_printf(&text, "..line %d\r\n", i);
    }
    size_t raw_len = text.len;
    buf_append_str(&text, ".\r\n");
    assert_int_equal(sink_content_init(&whole, true, true, 0), 0);
    assert_int_equal(sink_content_init(&hashed, true, false, 0), 0);
    assert_int_equal(feed(&whole, buf_slice(&text), 100, 1000), text.len);
    assert_int_equal(feed(&hashed, buf_slice(&text), 70000, 777), text.len);
    sink_content_end(&whole, hash[0]);
    sink_content_end(&hashed, hash[1]);
    assert_string_equal(hash[0], hash[1]);
    assert_int_equal(whole.size_bytes, raw_len - 20000);
    assert_int_equal(hashed.size_bytes, whole.size_bytes);
    assert_true(hashed.head.len < whole.head.len);
    assert_true(slice_eq(sink_content_id(&hashed), SLICE("long")));
    buf_fini(&text);
    sink_content_fini(&whole);
    sink_content_fini(&hashed);
}

/* Chunks are the content itself: dots mean nothing, and the hash is the same however it is cut. */
static void test_chunks(void **state)
{
    struct sink_content c;
    char hash[SINK_HASH_TEXT_BYTES];
    char first_hash[SINK_HASH_TEXT_BYTES] = "";
    const struct slice input = slice_make(raw, sizeof(raw) - 1);
    (void)state;
    assert_int_equal(sink_content_init(&c, true, true, 0), 0);
    for (size_t cut = 0; cut <= input.len; cut++) {
        sink_content_begin(&c);
        sink_content_feed_chunk(&c, slice_to(input, cut));
        sink_content_feed_chunk(&c, slice_from(input, cut));
        sink_content_end(&c, hash);
        assert_int_equal(c.size_bytes, input.len);
        assert_true(slice_eq(buf_slice(&c.head), input));
        assert_true(slice_eq(sink_content_id(&c), SLICE("abc")));
        if (first_hash[0] == '\0') {
            memcpy(first_hash, hash, sizeof(hash));
        }
        assert_string_equal(hash, first_hash);
    }
    assert_int_equal(strlen(first_hash), 64);
    sink_content_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_empty_and_unmarked),
        cmocka_unit_test(test_fields_of_the_body_do_not_count),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_long_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
