/* Owns the bytes of a PROXY header. Called once by the shell of a connection through a proxy. */
#include "net/proxy_protocol.h"

#include <assert.h>
#include <string.h>

enum {
    VERSION_2_PROXY = 0x21, /* LOCAL (0x20) would make the proxy ignore the addresses */
    TCP_OVER_IPV4 = 0x11,
    TCP_OVER_IPV6 = 0x21,
};

static uint8_t *put_header_bytes(uint8_t *at, const uint8_t *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

static uint8_t *put_16(uint8_t *at, size_t value)
{
    *at++ = (uint8_t)(value >> 8);
    *at++ = (uint8_t)value;
    return at;
}

size_t proxy_protocol_header(int family, const uint8_t *source, uint16_t source_port,
                             const uint8_t *target, uint16_t target_port,
                             uint8_t ret[static PROXY_PROTOCOL_HEADER_MAX])
{
    static const uint8_t signature[12] = {'\r', '\n', '\r', '\n', 0,   '\r',
                                          '\n', 'Q',  'U',  'I',  'T', '\n'};
    assert(family == 4 || family == 6);
    size_t address_bytes = family == 4 ? 4 : 16;
    uint8_t *at = put_header_bytes(ret, signature, sizeof(signature));
    *at++ = VERSION_2_PROXY;
    *at++ = family == 4 ? TCP_OVER_IPV4 : TCP_OVER_IPV6;
    at = put_16(at, 2 * address_bytes + 4);
    at = put_header_bytes(at, source, address_bytes);
    at = put_header_bytes(at, target, address_bytes);
    at = put_16(at, source_port);
    at = put_16(at, target_port);
    return (size_t)(at - ret);
}
