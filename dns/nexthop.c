/* Next hops: brackets, ports, IP literals and names outside ASCII.
 * Called by the resolver for each resolution and by the config check.
 * Must not look anything up. */
#include "dns/nexthop.h"

#include "base/error.h"

#include <idn2.h>
#include <string.h>

#define UTF8_NAME_MAX 1000 /* bytes of UTF-8 that can still become 253 of A-labels */

static int parse_port(struct slice text, uint16_t *ret)
{
    uint32_t port = 0;

    if (text.len == 0 || text.len > 5) {
        return ERR_SYNTAX;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return ERR_SYNTAX;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX) {
        return ERR_SYNTAX;
    }
    *ret = (uint16_t)port;
    return 0;
}

static bool is_ascii(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] >= 0x80) {
            return false;
        }
    }
    return true;
}

int nexthop_name(struct slice text, struct dns_name *ret)
{
    char utf8[UTF8_NAME_MAX + 1];
    char *ascii = NULL;

    if (is_ascii(text)) {
        return dns_name_from_text(text, ret);
    }
    if (text.len > UTF8_NAME_MAX || memchr(text.data, '\0', text.len) != NULL) {
        return ERR_MISSING;
    }
    memcpy(utf8, text.data, text.len);
    utf8[text.len] = '\0';
    if (idn2_to_ascii_8z(utf8, &ascii, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK) {
        return ERR_MISSING;
    }
    int err = dns_name_from_text(slice_of(ascii), ret);
    idn2_free(ascii);
    return err == 0 ? 0 : ERR_MISSING;
}

/* Split "[inside]:port" or "inside:port"; *port stays as it is where none is given. */
static int split(struct slice text, struct slice *ret_inside, bool *ret_brackets, uint16_t *port)
{
    size_t end;

    *ret_brackets = text.len > 0 && text.data[0] == '[';
    if (*ret_brackets) {
        text = slice_from(text, 1);
        end = slice_find(text, ']');
        if (end == text.len) {
            return ERR_SYNTAX;
        }
        *ret_inside = slice_to(text, end);
        text = slice_from(text, end + 1);
        end = 0;
        if (text.len > 0 && text.data[0] != ':') {
            return ERR_SYNTAX;
        }
    } else {
        end = slice_find(text, ':');
        *ret_inside = slice_to(text, end);
    }
    return end < text.len ? parse_port(slice_from(text, end + 1), port) : 0;
}

bool nexthop_wants_mx(struct slice text, uint16_t *port)
{
    struct slice inside;
    bool has_brackets;
    return split(text, &inside, &has_brackets, port) == 0 && !has_brackets;
}

int nexthop_parse(struct slice text, uint16_t default_port, struct nexthop *ret)
{
    struct nexthop hop = {.port = default_port};
    struct slice inside;
    bool has_brackets;

    int err = split(text, &inside, &has_brackets, &hop.port);
    if (err != 0) {
        return err;
    }
    hop.wants_mx = !has_brackets;
    if (has_brackets && ip_parse(inside, &hop.ip) == 0) {
        *ret = hop;
        return 0;
    }
    err = nexthop_name(inside, &hop.name);
    if (err == 0) {
        *ret = hop;
    }
    return err;
}
