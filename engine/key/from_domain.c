/* Owns the reading of From for the choice of keys. Pure; its input is chosen by strangers. */
#include "engine/key/from_domain.h"

#include "base/error.h"
#include "dns/nexthop.h"
#include "engine/compose/address_list.h"
#include "net/dkim/dkim_header.h"

#include <stdbool.h>
#include <string.h>

/* Where the domain of an address begins; its length when there is none, or more than one @ outside of
 * a quoted string. */
static size_t find_domain(struct slice address)
{
    bool is_quoted = false;
    size_t found = address.len;
    for (size_t i = 0; i < address.len; i++) {
        char c = address.data[i];
        if (is_quoted && c == '\\') {
            i++;
        } else if (c == '"') {
            is_quoted = !is_quoted;
        } else if (c == '@' && !is_quoted) {
            if (found < address.len) {
                return address.len;
            }
            found = i + 1;
        }
    }
    return found;
}

/* Labels of letters, digits, - and _, or of an international name in UTF-8. */
static bool is_name(struct slice s)
{
    size_t label = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        bool is_word =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c >= 0x80;
        if (c == '.' ? label == 0 : !is_word) {
            return false;
        }
        label = c == '.' ? 0 : label + 1;
    }
    return label > 0;
}

static bool is_international(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.data[i] >= 0x80) {
            return true;
        }
    }
    return false;
}

static int keep_domain(void *ctx, struct slice address)
{
    struct from_domains *f = ctx;
    size_t at = find_domain(address);
    struct slice domain = slice_from(address, at);
    if (domain.len == 0 || at < 2 || domain.len > FROM_DOMAIN_BYTES) {
        return ERR_SYNTAX;
    }
    char *copy = f->text + f->used; /* there is room for FROM_DOMAINS_MAX of them */
    if (f->count == FROM_DOMAINS_MAX) {
        return ERR_LIMIT;
    }
    slice_lower(domain, copy);
    domain.data = copy;
    struct dns_name labels;
    if (!is_name(domain) || (is_international(domain) && nexthop_name(domain, &labels) != 0)) {
        return ERR_SYNTAX;
    }
    if (is_international(domain)) {
        domain.len = labels.len;
        memcpy(copy, labels.text, labels.len);
    }
    for (size_t i = 0; i < f->count; i++) {
        if (slice_eq(f->names[i], domain)) {
            return 0;
        }
    }
    f->names[f->count++] = domain;
    f->used += domain.len;
    return 0;
}

int from_domains_read(const struct dkim_header *header, struct from_domains *ret)
{
    const struct slice from = SLICE("From");
    int err = 0;
    ret->count = ret->used = 0;
    for (size_t at = header->count; err == 0;) {
        at = dkim_header_find_above(header, from, at);
        if (at == DKIM_NO_FIELD) {
            break;
        }
        struct slice text = header->fields[at].text;
        struct slice value = slice_from(text, slice_find(text, ':') + 1); /* every field has one */
        err = memchr(value.data, '\0', value.len) != NULL
                  ? ERR_SYNTAX
                  : address_list_parse(value, keep_domain, ret);
    }
    if (err == 0 && ret->count == 0) {
        err = ERR_MISSING;
    }
    return err;
}
