/* Fuzz target: any bytes as a path and as an address; what parses must print and parse alike, and
 * never hold what could break a line or a path. */
#include "base/error.h"
#include "net/smtp_address.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check(const struct smtp_address *address, unsigned flags)
{
    struct smtp_address again;
    struct slice text = smtp_address_slice(address);

    require(text.len <= SMTP_ADDRESS_MAX && address->local.len <= SMTP_ADDRESS_LOCAL_MAX);
    require(address->domain.len <= SMTP_ADDRESS_DOMAIN_MAX);
    require(slice_find(address->domain, '@') == address->domain.len);
    bool is_quoted = text.len > 0 && text.data[0] == '"';
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        require(c >= 32 && c != 127);
        require(is_quoted || (c != '<' && c != '>' && c != ' '));
        require(c < 128 || (address->has_utf8 && (flags & SMTP_ADDRESS_UTF8) != 0));
    }
    require(smtp_address_parse(text, flags, &again) == ERR_OK);
    require(smtp_address_eq(address, &again));
    require(slice_eq(address->domain, again.domain) && address->has_utf8 == again.has_utf8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct smtp_address address;

    if (size == 0) {
        return 0;
    }
    unsigned flags = data[0] & 7;
    struct slice in = {(const char *)data + 1, size - 1};
    if (smtp_address_parse_path(&in, flags, &address) == ERR_OK) {
        check(&address, flags);
    }
    in = slice_make((const char *)data + 1, size - 1);
    if (smtp_address_parse(in, flags, &address) == ERR_OK) {
        check(&address, flags);
    }
    return 0;
}
