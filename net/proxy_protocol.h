/* The header with which a client tells a proxy, before anything else, from which address and to
 * which a connection is meant (PROXY protocol, version 2). Pure: bytes out, no state.
 *
 * Only what an outbound connection needs: the command PROXY, TCP over IPv4 or IPv6, no TLVs. */
#ifndef NET_PROXY_PROTOCOL_H
#define NET_PROXY_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#define PROXY_PROTOCOL_HEADER_MAX 52 /* bytes: 16, two IPv6 addresses, two ports */

/* Write the header.
 *
 * family   4 or 6, of both addresses; anything else is a bug and asserts
 * source, target   4 or 16 bytes, network order; ports in host order, source port 0: any
 * returns  length in bytes
 * source   proxy-protocol.txt section 2.2 */
size_t proxy_protocol_header(int family, const uint8_t *source, uint16_t source_port,
                             const uint8_t *target, uint16_t target_port,
                             uint8_t ret[static PROXY_PROTOCOL_HEADER_MAX]);

#endif
