/* Numbered messages: their size, recipients and hash. */
#include "bench/sink_content.h"
#include "bench/source_message.h"
#include "tests/unit/unit.h"

#include <string.h>

static char first[] = "d1.test";
static char second[] = "d2.test";
static char *domains[] = {first, second};

static struct source_options options_of(size_t size)
{
    return (struct source_options){.size_bytes = size,
                                   .recipients = 3,
                                   .domains = domains,
                                   .domain_count = 2,
                                   .sender = "s@source.test",
                                   .id_prefix = "run"};
}

static void test_recipients_go_round(void **state)
{
    struct source_options o = options_of(100);
    struct source_template t;
    struct buf out;
    (void)state;
    assert_int_equal(source_template_init(&t, &o), 0);
    buf_init(&out, 0);
    for (uint32_t i = 0; i < 6; i++) {
        source_message_recipient(&t, i / 3, i % 3, &out);
        buf_append_char(&out, ' ');
    }
    assert_true(
        slice_eq(buf_slice(&out), SLICE("u0@d1.test u1@d2.test u2@d1.test u3@d2.test u4@d1.test "
                                        "u5@d2.test ")));
    buf_fini(&out);
    source_template_fini(&t);
}

/* What the sink makes of a message is what the source says of it, at every size. */
static void test_size_and_hash(void **state)
{
    struct sink_content c;
    struct buf out;
    char sent[SOURCE_HASH_BYTES];
    char received[SINK_HASH_TEXT_BYTES];
    (void)state;
    assert_int_equal(sink_content_init(&c, true, true, 0), 0);
    buf_init(&out, 0);
    for (size_t size = 300; size < 700; size++) {
        struct source_options o = options_of(size);
        struct source_template t;
        bool is_done = false;
        assert_int_equal(source_template_init(&t, &o), 0);
        buf_clear(&out);
        source_message_content(&t, 12, 1700000000000000, &out);
        assert_int_equal(out.len, size);
        assert_memory_equal(out.data + size - 2, "\r\n", 2);
        assert_null(memmem(out.data, out.len, "\r\r", 2));
        assert_null(memmem(out.data, out.len, "\n.", 2));
        buf_append_str(&out, ".\r\n");
        sink_content_begin(&c);
        assert_int_equal(sink_content_feed(&c, buf_slice(&out), &is_done), out.len);
        assert_true(is_done);
        sink_content_end(&c, received);
        source_message_hash(&t, 12, sent);
        assert_string_equal(sent, received);
        assert_int_equal(c.stamp, 1700000000000000);
        assert_true(slice_eq(sink_content_id(&c), SLICE("run-12")));
        source_template_fini(&t);
    }
    buf_fini(&out);
    sink_content_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipients_go_round),
        cmocka_unit_test(test_size_and_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
