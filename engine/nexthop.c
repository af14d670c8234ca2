/* Owns the syntax of a nexthop. Pure; must not resolve anything. */
#include "engine/nexthop.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

/* Letters, digits, hyphen, underscore and bytes above 127 in labels of 1..63 bytes. */
static bool is_host_name(struct slice s)
{
    if (s.len > 0 && s.data[s.len - 1] == '.') {
        s.len--;
    }
    size_t label = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c >= 0x80;
        if (is_word) {
            label++;
        } else if (c == '.' && label > 0) {
            label = 0;
        } else {
            return false;
        }
        if (label > 63) {
            return false;
        }
    }
    return label > 0 && s.len <= 253;
}

static bool is_address(int family, struct slice s)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char address[16];
    if (s.len == 0 || s.len >= sizeof(text) || memchr(s.data, '\0', s.len) != NULL) {
        return false;
    }
    memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    return inet_pton(family, text, address) == 1;
}

static int parse_port(struct slice s, uint16_t *ret)
{
    uint32_t port = 0;
    if (s.len == 0 || s.len > 5) {
        return ERR_SYNTAX;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return ERR_SYNTAX;
        }
        port = port * 10 + (uint32_t)(s.data[i] - '0');
    }
    if (port == 0 || port > 65535) {
        return ERR_SYNTAX;
    }
    *ret = (uint16_t)port;
    return 0;
}

int nexthop_parse(struct slice text, struct nexthop *ret)
{
    struct nexthop n = {.has_mx = true};
    if (text.len == 0 || text.len > NEXTHOP_MAX_BYTES) {
        return ERR_SYNTAX;
    }
    size_t end;
    if (text.data[0] == '[') {
        end = slice_find(text, ']');
        if (end == text.len) {
            return ERR_SYNTAX;
        }
        n.has_mx = false;
        n.host = slice_make(text.data + 1, end - 1);
        end++;
        if (n.host.len > 5 && strncasecmp(n.host.data, "IPv6:", 5) == 0) {
            n.host = slice_from(n.host, 5);
            n.is_address = is_address(AF_INET6, n.host);
            if (!n.is_address) {
                return ERR_SYNTAX;
            }
        } else {
            n.is_address = is_address(AF_INET, n.host) || is_address(AF_INET6, n.host);
        }
    } else {
        end = slice_find(text, ':');
        n.host = slice_to(text, end);
        if (is_address(AF_INET, n.host)) {
            return ERR_SYNTAX; /* an address has no MX records: brackets are what is meant */
        }
    }
    if (!n.is_address && !is_host_name(n.host)) {
        return ERR_SYNTAX;
    }
    if (end < text.len) {
        int err = text.data[end] == ':' ? parse_port(slice_from(text, end + 1), &n.port)
                                        : ERR_SYNTAX;
        if (err < 0) {
            return err;
        }
    }
    *ret = n;
    return 0;
}
