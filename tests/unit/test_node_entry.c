/* What nodes say of themselves: it is read as it was written, and nothing else is taken for it. */
#include "base/error.h"
#include "engine/nodes/node_entry.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static const struct node_entry whole = {
    .name = "a-1",
    .address = "mx1.example.com",
    .version = "0.1.0",
    .start = 0xfedcba9876543210,
    .beats = 77,
    .started = 1760000000000000,
};

static int read_text(const char *text, struct node_entry *ret)
{
    return node_entry_read(slice_of(text), ret);
}

static void test_round(void **state)
{
    char text[NODE_ENTRY_BYTES];
    struct node_entry is;
    for (int64_t i = 0; i < 2; i++) {
        struct node_entry e = whole;
        e.is_leaving = i == 1;
        e.number = i == 1 ? 65535 : 0;
        e.orders = i == 1 ? INT64_MAX : 0;
        e.has_counts = i == 1;
        e.counts = (struct node_counts){i * 1, i * 2, i * 3, i * 4, i * 5, i * INT64_MAX};
        size_t len = node_entry_write(&e, text);
        assert_true(len > 0);
        assert_int_equal(node_entry_read(slice_make(text, len), &is), 0);
        assert_string_equal(is.name, e.name);
        assert_string_equal(is.address, e.address);
        assert_string_equal(is.version, e.version);
        assert_true(is.start == e.start && is.beats == e.beats && is.started == e.started);
        assert_int_equal(is.is_leaving, e.is_leaving);
        assert_int_equal(is.number, e.number);
        assert_true(is.orders == e.orders);
        assert_int_equal(is.has_counts, e.has_counts);
        assert_memory_equal(&is.counts, &e.counts, sizeof(e.counts));
        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(node_entry_read(slice_make(text, cut), &is), ERR_SYNTAX);
        }
    }
}

static void test_longest(void **state)
{
    char text[NODE_ENTRY_BYTES];
    struct node_entry e = whole, is;
    memset(e.name, 'n', sizeof(e.name) - 1);
    memset(e.address, '\x01', sizeof(e.address) - 1); /* six bytes each in JSON: it cannot fit */
    assert_int_equal(node_entry_write(&e, text), 0);
    memset(e.address, 'a', sizeof(e.address) - 1);
    memset(e.version, 'v', sizeof(e.version) - 1);
    e.has_counts = true;
    e.counts =
        (struct node_counts){INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    e.number = UINT16_MAX;
    e.orders = INT64_MAX;
    e.beats = (uint64_t)INT64_MAX;
    size_t len = node_entry_write(&e, text);
    assert_true(len > 0);
    assert_int_equal(node_entry_read(slice_make(text, len), &is), 0);
    assert_string_equal(is.address, e.address);
}

#define REST                                                                                       \
    "\"address\":\"x\",\"version\":\"1\",\"start\":\"00000000000000ff\",\"beats\":1,\"started\":2"

#define UP   "{\"format\":1,\"node\":\"a\",\"state\":\"up\","
#define FIVE "\"messages\":1,\"received\":1,\"delivered\":1,\"deferrals\":1,\"failed\":1"

static void test_hostile(void **state)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "null",
        "{\"format\":1}",
        "{\"format\":2,\"node\":\"a\",\"state\":\"up\"," REST "}",
        "{\"format\":\"1\",\"node\":\"a\",\"state\":\"up\"," REST "}",
        "{\"format\":1,\"node\":\"\",\"state\":\"up\"," REST "}",
        "{\"format\":1,\"node\":7,\"state\":\"up\"," REST "}",
        "{\"format\":1,\"node\":\"a\\u0000b\",\"state\":\"up\"," REST "}",
        "{\"format\":1,\"node\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"state\":\"up\"," REST "}",
        "{\"format\":1,\"node\":\"a\",\"state\":\"up\",\"address\":\"x\",\"version\":\"1\","
        "\"start\":\"ff\",\"beats\":1,\"started\":2}",
        "{\"format\":1,\"node\":\"a\",\"state\":\"up\",\"address\":\"x\",\"version\":\"1\","
        "\"start\":\"00000000000000ff\",\"beats\":-1,\"started\":2}",
        UP "\"number\":65536," REST "}",
        UP "\"number\":-1," REST "}",
        UP "\"orders\":-1," REST "}",
        UP "\"number\":\"1\"," REST "}",
        UP "\"counts\":[]," REST "}",
        UP "\"counts\":{}," REST "}",
        UP "\"counts\":{" FIVE "}," REST "}",
        UP "\"counts\":{" FIVE ",\"expired\":-1}," REST "}",
    };
    struct node_entry is;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(read_text(wrong[i], &is), ERR_SYNTAX);
    }
    /* What a later version says besides is left aside. */
    assert_int_equal(
        read_text("{\"format\":1,\"node\":\"a\",\"state\":\"up\",\"more\":[1]," REST "}", &is), 0);
    assert_true(is.start == 255);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
