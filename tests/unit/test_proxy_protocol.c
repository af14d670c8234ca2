/* PROXY headers against bytes written out by hand from the specification. */
#include "net/proxy_protocol.h"
#include "tests/unit/unit.h"

#include <string.h>

static const char signature[] = "\r\n\r\n\0\r\nQUIT\n";

static void ipv4(void **state)
{
    (void)state;
    uint8_t header[PROXY_PROTOCOL_HEADER_MAX];
    static const uint8_t source[] = {192, 0, 2, 1}, target[] = {198, 51, 100, 7};
    size_t len = proxy_protocol_header(4, source, 0, target, 25, header);
    assert_int_equal(len, 28);
    assert_memory_equal(header, signature, 12);
    assert_memory_equal(header + 12, "\x21\x11\x00\x0c", 4);
    assert_memory_equal(header + 16, "\xc0\x00\x02\x01\xc6\x33\x64\x07\x00\x00\x00\x19", 12);
}

static void ipv6(void **state)
{
    (void)state;
    uint8_t header[PROXY_PROTOCOL_HEADER_MAX];
    uint8_t source[16] = {0x20, 0x01, 0x0d, 0xb8}, target[16] = {0x20, 0x01, 0x0d, 0xb8};
    source[15] = 1;
    target[15] = 2;
    size_t len = proxy_protocol_header(6, source, 4660, target, 2525, header);
    assert_int_equal(len, PROXY_PROTOCOL_HEADER_MAX);
    assert_memory_equal(header, signature, 12);
    assert_memory_equal(header + 12, "\x21\x21\x00\x24", 4);
    assert_memory_equal(header + 16, source, 16);
    assert_memory_equal(header + 32, target, 16);
    assert_memory_equal(header + 48, "\x12\x34\x09\xdd", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4),
        cmocka_unit_test(ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
