/* The addresses of an active message: loaded and unloaded one by one, or all at once. */
#include "engine/post/message.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static const uint32_t totals[] = {1, 2, 999, 1000, 1001, 2500};

static struct slice address_of(uint32_t index, char text[32])
{
    int len = snprintf(text, 32, "r%u@example.com", index);
    return slice_make(text, (size_t)len);
}

static void expect_address(const struct message *m, uint32_t index)
{
    char text[32];
    assert_true(slice_eq(message_address(m, index), address_of(index, text)));
}

/* The sanitizers see to it that no page is too small. */
static void addresses_come_and_go(void **state)
{
    for (size_t t = 0; t < sizeof(totals) / sizeof(totals[0]); t++) {
        const struct spool_envelope e = {
            .id = 7, .recipient_count = totals[t], .sender = SLICE("a@example.com")};
        struct message *m = message_new(&e);
        char text[32];
        assert_non_null(m);
        for (uint32_t i = 0; i < totals[t]; i++) {
            assert_int_equal(message_load(m, i, address_of(i, text)), 0);
        }
        for (uint32_t i = 0; i < totals[t]; i += 3) {
            message_unload(m, i);
            assert_int_equal(message_load(m, i, address_of(i, text)), 0);
        }
        for (uint32_t i = 0; i < totals[t]; i++) {
            expect_address(m, i);
            if (i % 2 == 0) {
                message_unload(m, i);
            }
        }
        assert_true(message_is_last(m));
        message_put(m);
    }
}

static uint32_t count_pages(const struct message *m)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < (m->envelope.recipient_count + 63) / 64; i++) {
        count += m->pages[i] != NULL;
    }
    return count;
}

static void what_is_done_takes_no_memory(void **state)
{
    const struct spool_envelope e = {
        .id = 7, .recipient_count = 1000000, .sender = SLICE("a@example.com")};
    struct message *m = message_new(&e);
    char text[32];
    assert_non_null(m);
    for (uint32_t i = 0; i < e.recipient_count; i++) {
        assert_int_equal(message_load(m, i, address_of(i, text)), 0);
        if (i >= 200) {
            message_unload(m, i - 200);
        }
    }
    assert_in_range(count_pages(m), 1, 5);
    expect_address(m, 999999);
    message_put(m);
}

static void a_whole_message_keeps_its_addresses(void **state)
{
    const struct spool_envelope e = {.id = 7, .recipient_count = 2, .sender = SLICE("")};
    struct message *m =
        message_new_whole(&e, slice_make("\0\016r0@example.com\0\016r1@example.com", 32));
    assert_non_null(m);
    message_unload(m, 1);
    expect_address(m, 0);
    expect_address(m, 1);
    message_put(m);
}

static void an_id_is_written_in_hexadecimal(void **state)
{
    uint64_t id = 1;
    for (int i = 0; i < 1000; i++, id = id * 6364136223846793005U + 1442695040888963407U) {
        char text[MESSAGE_ID_TEXT], want[MESSAGE_ID_TEXT];
        uint64_t again;
        uint64_t tried =
            i < 16 ? (uint64_t)i * (~(uint64_t)0 / 15) : id; /* each digit in each place */
        message_id_format(tried, text);
        (void)snprintf(want, sizeof(want), "%016llx", (unsigned long long)tried);
        assert_string_equal(text, want);
        assert_true(message_id_parse(slice_of(text), &again) && again == tried);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_come_and_go),
        cmocka_unit_test(what_is_done_takes_no_memory),
        cmocka_unit_test(a_whole_message_keeps_its_addresses),
        cmocka_unit_test(an_id_is_written_in_hexadecimal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
