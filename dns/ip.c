/* Addresses as values: parsing, printing, classification.
 * Called from any thread; touches nothing but its arguments. */
#include "dns/ip.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

bool ip_eq(const struct ip *a, const struct ip *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* source   IANA IPv4 Special-Purpose Address Registry */
static enum ip_scope scope_of_v4(const uint8_t *b)
{
    if (b[0] == 0) {
        return IP_UNSPECIFIED;
    }
    if (b[0] == 127) {
        return IP_LOOPBACK;
    }
    if (b[0] == 169 && b[1] == 254) {
        return IP_LINK_LOCAL;
    }
    if (b[0] >= 224) {
        return IP_UNUSABLE;
    }
    if (b[0] == 10 || (b[0] == 172 && (b[1] & 0xf0) == 16) || (b[0] == 192 && b[1] == 168) ||
        (b[0] == 100 && (b[1] & 0xc0) == 64)) {
        return IP_PRIVATE;
    }
    return IP_PUBLIC;
}

/* The IPv4 address that an IPv6 address stands for, or NULL. */
static const uint8_t *embedded_v4(const uint8_t *b)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};
    static const uint8_t compatible[12] = {0};

    if (memcmp(b, mapped, sizeof(mapped)) == 0 || memcmp(b, nat64, sizeof(nat64)) == 0 ||
        memcmp(b, compatible, sizeof(compatible)) == 0) {
        return b + 12;
    }
    return NULL;
}

/* source   IANA IPv6 Special-Purpose Address Registry */
static enum ip_scope scope_of_v6(const uint8_t *b)
{
    static const uint8_t unspecified[16] = {0};
    static const uint8_t loopback[16] = {[15] = 1};

    if (memcmp(b, unspecified, sizeof(unspecified)) == 0) {
        return IP_UNSPECIFIED;
    }
    if (memcmp(b, loopback, sizeof(loopback)) == 0) {
        return IP_LOOPBACK;
    }
    const uint8_t *inner = embedded_v4(b);
    if (inner != NULL) {
        return scope_of_v4(inner);
    }
    if (b[0] == 0xff) {
        return IP_UNUSABLE;
    }
    if (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) {
        return IP_LINK_LOCAL;
    }
    if ((b[0] & 0xfe) == 0xfc) {
        return IP_PRIVATE;
    }
    return IP_PUBLIC;
}

enum ip_scope ip_scope(const struct ip *ip)
{
    switch (ip->family) {
    case 4:
        return scope_of_v4(ip->bytes);
    case 6:
        return scope_of_v6(ip->bytes);
    default:
        return IP_UNUSABLE;
    }
}

int ip_parse(struct slice text, struct ip *ret)
{
    char copy[IP_TEXT_MAX];
    struct ip ip = {0};

    if (text.len > 5 && slice_ieq(slice_to(text, 5), SLICE("IPv6:"))) {
        text = slice_from(text, 5);
    }
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.data, '\0', text.len) != NULL) {
        return ERR_SYNTAX;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (inet_pton(AF_INET, copy, ip.bytes) == 1) {
        ip.family = 4;
    } else if (inet_pton(AF_INET6, copy, ip.bytes) == 1) {
        ip.family = 6;
    } else {
        return ERR_SYNTAX;
    }
    *ret = ip;
    return 0;
}

const char *ip_text(const struct ip *ip, char text[static IP_TEXT_MAX])
{
    if (inet_ntop(ip->family == 6 ? AF_INET6 : AF_INET, ip->bytes, text, IP_TEXT_MAX) == NULL) {
        text[0] = '\0';
    }
    return text;
}

unsigned ip_to_sockaddr(const struct ip *ip, uint16_t port, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (ip->family == 6) {
        struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&sa.sin6_addr, ip->bytes, 16);
        memcpy(ret, &sa, sizeof(sa));
        return sizeof(sa);
    }
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
    memcpy(&sa.sin_addr, ip->bytes, 4);
    memcpy(ret, &sa, sizeof(sa));
    return sizeof(sa);
}

int ip_from_sockaddr(const struct sockaddr_storage *sa, struct ip *ret, uint16_t *ret_port)
{
    struct ip ip = {0};

    if (sa->ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof(in));
        ip.family = 4;
        memcpy(ip.bytes, &in.sin_addr, 4);
        *ret_port = ntohs(in.sin_port);
    } else if (sa->ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof(in6));
        if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
            ip.family = 4;
            memcpy(ip.bytes, in6.sin6_addr.s6_addr + 12, 4);
        } else {
            ip.family = 6;
            memcpy(ip.bytes, &in6.sin6_addr, 16);
        }
        *ret_port = ntohs(in6.sin6_port);
    } else {
        return ERR_SYNTAX;
    }
    *ret = ip;
    return 0;
}
