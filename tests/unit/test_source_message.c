/* Numbered messages: their size, recipients and hash. */
#include "bench/sink/sink_content.h"
#include "bench/source/source_message.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static char first[] = "d1.test";
static char second[] = "d2.test";
static char *domains[] = {first, second};

static struct source_options options_of(size_t size)
{
    return (struct source_options){.size = amount_constant(size),
                                   .recipients = amount_constant(3),
                                   .domains = domains,
                                   .domain_count = 2,
                                   .sender = "s@source.test",
                                   .tenant_prefix = "t",
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

/* Everything that is drawn: unique recipients, popular domains, tenants, sizes, and the hash of it.
 */
static void test_drawn_messages(void **state)
{
    static const uint64_t sizes[] = {400, 900};
    static const double weights[] = {0, 1};
    struct source_options o = options_of(1);
    struct source_template t;
    struct sink_content c;
    struct buf out;
    const char *why;
    uint64_t larger = 0;
    uint64_t many = 0;
    uint64_t tenants[3] = {0};
    (void)state;
    assert_int_equal(amount_parse(&o.size, "400:0.5,900:0.5", 1000, &why), 0);
    assert_int_equal(amount_parse(&o.recipients, "1:0.5,4:0.5", 10, &why), 0);
    assert_int_equal(choice_init(&o.popularity, weights, 2), 0);
    o.tenants = 3;
    assert_int_equal(choice_init_zipf(&o.tenant_popularity, 3, 1), 0);
    assert_int_equal(source_template_init(&t, &o), 0);
    assert_int_equal(sink_content_init(&c, true, true, 0), 0);
    buf_init(&out, 0);
    for (uint64_t number = 0; number < 2000; number++) {
        char sent[SOURCE_HASH_BYTES];
        char received[SINK_HASH_TEXT_BYTES];
        char field[40];
        char wanted[80];
        bool is_done = false;
        uint32_t tenant = source_message_tenant(&t, number);
        uint32_t count = source_message_recipients(&t, number);
        assert_true(tenant < 3 && (count == 1 || count == 4));
        tenants[tenant]++;
        many += count == 4 ? 1 : 0;
        for (uint32_t i = 0; i < count; i++) { /* the only domain with a weight, each name once */
            buf_clear(&out);
            source_message_recipient(&t, number, i, &out);
            (void)snprintf(wanted, sizeof(wanted), "u%llu@d2.test",
                           (unsigned long long)number * 4 + i);
            assert_true(slice_eq(buf_slice(&out), slice_of(wanted)));
        }
        buf_clear(&out);
        source_message_sender(&t, number, &out);
        (void)snprintf(wanted, sizeof(wanted), "s+t%u@source.test", tenant + 1);
        assert_true(slice_eq(buf_slice(&out), slice_of(wanted)));
        buf_clear(&out);
        source_message_content(&t, number, 1700000000000000, &out);
        assert_true(out.len == sizes[0] || out.len == sizes[1]);
        larger += out.len == sizes[1] ? 1 : 0;
        int len = snprintf(field, sizeof(field), "\r\nX-Tenant: t%u\r\n", tenant + 1);
        assert_non_null(memmem(out.data, out.len, field, (size_t)len));
        buf_append_str(&out, ".\r\n");
        sink_content_begin(&c);
        assert_int_equal(sink_content_feed(&c, buf_slice(&out), &is_done), out.len);
        sink_content_end(&c, received);
        source_message_hash(&t, number, sent);
        assert_string_equal(sent, received);
    }
    /* Six standard deviations of 2000 draws: 6 * sqrt(2000 / 4) = 134 at a half, and of the shares
     * 6/11, 3/11 and 2/11 of Zipf's law not more. */
    assert_in_range(larger, 1000 - 134, 1000 + 134);
    assert_in_range(many, 1000 - 134, 1000 + 134);
    assert_in_range(tenants[0], 1091 - 134, 1091 + 134);
    assert_in_range(tenants[1], 545 - 134, 545 + 134);
    sink_content_fini(&c);
    buf_fini(&out);
    source_template_fini(&t);
    amount_fini(&o.size);
    amount_fini(&o.recipients);
    choice_fini(&o.popularity);
    choice_fini(&o.tenant_popularity);
}

/* Without weights every domain gets as much, whatever the numbers of recipients are. */
static void test_drawn_recipients_go_round(void **state)
{
    struct source_options o = options_of(1);
    struct source_template t;
    struct buf out;
    const char *why;
    int seconds = 0;
    int all = 0;
    (void)state;
    assert_int_equal(amount_parse(&o.recipients, "1:0.5,4:0.5", 10, &why), 0);
    assert_int_equal(source_template_init(&t, &o), 0);
    buf_init(&out, 0);
    for (uint64_t number = 0; number < 2000; number++) {
        for (uint32_t i = 0; i < source_message_recipients(&t, number); i++) {
            buf_clear(&out);
            source_message_recipient(&t, number, i, &out);
            seconds += out.data[out.len - sizeof("2.test") + 1] == '2' ? 1 : 0;
            all++;
        }
    }
    /* Those of four go both ways as often; the singles, by the parity of their random numbers. */
    assert_in_range(seconds, all / 2 - 134, all / 2 + 134);
    buf_fini(&out);
    source_template_fini(&t);
    amount_fini(&o.recipients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipients_go_round),
        cmocka_unit_test(test_size_and_hash),
        cmocka_unit_test(test_drawn_messages),
        cmocka_unit_test(test_drawn_recipients_go_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
