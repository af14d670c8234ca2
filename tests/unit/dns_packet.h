/* Builds DNS messages byte by byte for the tests of dns/. Names are written uncompressed, except
 * "@", which is a pointer to the question's name. */
#ifndef TESTS_UNIT_DNS_PACKET_H
#define TESTS_UNIT_DNS_PACKET_H

#include <arpa/inet.h>
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PACKET_ANSWER = 6, PACKET_AUTHORITY = 8, PACKET_ADDITIONAL = 10 }; /* header offsets */

struct packet {
    uint8_t data[65535];
    size_t len;
};

static inline void packet_put(struct packet *p, const void *data, size_t len)
{
    assert(p->len + len <= sizeof(p->data));
    memcpy(p->data + p->len, data, len);
    p->len += len;
}

static inline void packet_put16(struct packet *p, unsigned value)
{
    const uint8_t bytes[2] = {(uint8_t)(value >> 8), (uint8_t)value};
    packet_put(p, bytes, 2);
}

static inline void packet_put32(struct packet *p, uint32_t value)
{
    packet_put16(p, value >> 16);
    packet_put16(p, value & 0xffff);
}

static inline void packet_put_name(struct packet *p, const char *name)
{
    if (strcmp(name, "@") == 0) {
        packet_put16(p, 0xc00c);
        return;
    }
    while (*name != '\0') {
        size_t len = strcspn(name, ".");
        const uint8_t head = (uint8_t)len;
        packet_put(p, &head, 1);
        packet_put(p, name, len);
        name += len + (name[len] == '.');
    }
    packet_put(p, "", 1);
}

static inline void packet_start(struct packet *p, unsigned id, unsigned flags, const char *name,
                                unsigned type)
{
    p->len = 0;
    packet_put16(p, id);
    packet_put16(p, flags);
    packet_put16(p, 1);
    packet_put16(p, 0);
    packet_put32(p, 0);
    packet_put_name(p, name);
    packet_put16(p, type);
    packet_put16(p, 1);
}

/* The header of a record; its data follows and packet_end closes it. */
static inline size_t packet_begin(struct packet *p, int section, const char *owner, unsigned type,
                                  uint32_t ttl)
{
    unsigned count = (unsigned)p->data[section] << 8 | p->data[section + 1];
    count++;
    p->data[section] = (uint8_t)(count >> 8);
    p->data[section + 1] = (uint8_t)count;
    packet_put_name(p, owner);
    packet_put16(p, type);
    packet_put16(p, 1);
    packet_put32(p, ttl);
    packet_put16(p, 0);
    return p->len;
}

static inline void packet_end(struct packet *p, size_t begin)
{
    size_t len = p->len - begin;
    p->data[begin - 2] = (uint8_t)(len >> 8);
    p->data[begin - 1] = (uint8_t)len;
}

static inline void packet_address(struct packet *p, int section, const char *owner, uint32_t ttl,
                                  const char *text)
{
    uint8_t bytes[16];
    int is_v4 = inet_pton(AF_INET, text, bytes) == 1;
    int is_v6 = !is_v4 && inet_pton(AF_INET6, text, bytes) == 1;
    assert(is_v4 || is_v6);
    size_t at = packet_begin(p, section, owner, is_v4 ? 1 : 28, ttl);
    packet_put(p, bytes, is_v4 ? 4 : 16);
    packet_end(p, at);
}

static inline void packet_mx(struct packet *p, const char *owner, uint32_t ttl, unsigned preference,
                             const char *exchange)
{
    size_t at = packet_begin(p, PACKET_ANSWER, owner, 15, ttl);
    packet_put16(p, preference);
    packet_put_name(p, exchange);
    packet_end(p, at);
}

static inline void packet_cname(struct packet *p, const char *owner, uint32_t ttl,
                                const char *target)
{
    size_t at = packet_begin(p, PACKET_ANSWER, owner, 5, ttl);
    packet_put_name(p, target);
    packet_end(p, at);
}

static inline void packet_soa(struct packet *p, const char *owner, uint32_t ttl, uint32_t minimum)
{
    size_t at = packet_begin(p, PACKET_AUTHORITY, owner, 6, ttl);
    packet_put_name(p, "ns.test");
    packet_put_name(p, "root.test");
    for (int i = 0; i < 4; i++) {
        packet_put32(p, 1);
    }
    packet_put32(p, minimum);
    packet_end(p, at);
}

#endif
