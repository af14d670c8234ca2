/* Fields of a record of TLS-RPT. Called by the thread that sends reports. Must not allocate or
 * believe a length. */
#include "net/tls_rpt.h"

#include "base/error.h"
#include "net/policy_record.h"
#include "net/smtp_address.h"

#include <string.h>

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Printable, without ';' and space. */
static bool is_printable(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] <= ' ' || value.data[i] > '~' || value.data[i] == ';') {
            return false;
        }
    }
    return value.len > 0;
}

static bool begins_with(struct slice text, struct slice start)
{
    return text.len > start.len && slice_ieq(slice_to(text, start.len), start);
}

/* RFC 3986 section 3.1: a letter, then letters, digits, '+', '-' and '.', up to a colon. */
static bool has_scheme(struct slice uri)
{
    size_t colon = slice_find(uri, ':');
    for (size_t i = 0; i < colon; i++) {
        char c = uri.data[i];
        bool is_first = i > 0 || !(c >= '0' && c <= '9');
        if (!(is_letter_or_digit(c) && is_first) &&
            (i == 0 || (c != '+' && c != '-' && c != '.'))) {
            return false;
        }
    }
    return colon > 0 && colon + 1 < uri.len;
}

static void add_rua(struct tls_rpt_record *r, struct slice uri)
{
    bool is_mail = begins_with(uri, SLICE("mailto:"));
    if ((!is_mail && !begins_with(uri, SLICE("https://"))) || r->count == TLS_RPT_RUA_MAX) {
        r->skipped++;
        return;
    }
    r->rua[r->count++] = (struct tls_rpt_rua){is_mail ? TLS_RPT_MAIL : TLS_RPT_HTTPS, uri};
}

static int parse_rua(struct slice value, struct tls_rpt_record *r)
{
    bool has_more = true;
    while (has_more) {
        size_t comma = slice_find(value, ',');
        struct slice uri = policy_record_trim(slice_to(value, comma));
        has_more = comma < value.len;
        value = slice_from(value, has_more ? comma + 1 : comma);
        if (!is_printable(uri) || !has_scheme(uri)) {
            return ERR_SYNTAX;
        }
        add_rua(r, uri);
    }
    return 0;
}

int tls_rpt_record(const struct slice *texts, uint32_t count, struct tls_rpt_record *ret)
{
    struct slice fields, key, value;
    struct tls_rpt_record record = {.count = 0};
    bool has_rua = false;
    int err = policy_record_find(texts, count, SLICE("v=TLSRPTv1"), &fields);
    if (err != 0) {
        return err;
    }
    while ((err = policy_record_take(&fields, &key, &value)) > 0) {
        bool is_rua = slice_eq(key, SLICE("rua"));
        bool is_good =
            is_rua ? !has_rua && parse_rua(value, &record) == 0 : policy_record_is_value(value);
        if (!is_good) {
            return ERR_SYNTAX;
        }
        has_rua |= is_rua;
    }
    if (err != 0 || !has_rua) {
        return ERR_SYNTAX;
    }
    *ret = record;
    return 0;
}

/* --- mailto ----------------------------------------------------------------------------------- */

/* The value of a hexadecimal digit, or -1. */
static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    char lower = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    const char *at = lower == '\0' ? NULL : strchr(digits, lower);
    return at == NULL ? -1 : (int)(at - digits);
}

/* The next byte of the text, which moves behind it; -1: an escape that is none. */
static int take_byte(struct slice *text)
{
    char c = text->data[0];
    if (c != '%') {
        *text = slice_from(*text, 1);
        return (unsigned char)c;
    }
    int high = text->len < 3 ? -1 : hex_digit(text->data[1]);
    int low = text->len < 3 ? -1 : hex_digit(text->data[2]);
    *text = slice_from(*text, text->len < 3 ? text->len : 3);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

int tls_rpt_mailbox(struct slice uri, char ret[static TLS_RPT_MAILBOX_MAX + 1])
{
    char text[TLS_RPT_MAILBOX_MAX + 1];
    struct smtp_address address;
    size_t len = 0;
    uri = slice_from(uri, slice_find(uri, ':') < uri.len ? slice_find(uri, ':') + 1 : uri.len);
    uri = slice_to(uri, slice_find(uri, '?'));
    while (uri.len > 0) {
        bool is_comma = uri.data[0] == ','; /* between addresses; within one it is escaped */
        int byte = take_byte(&uri);
        if (is_comma || byte <= ' ' || byte > '~' || byte == '<' || byte == '>' ||
            len == TLS_RPT_MAILBOX_MAX) {
            return ERR_SYNTAX;
        }
        text[len++] = (char)byte;
    }
    text[len] = '\0';
    /* A literal would let whoever writes the record choose any host for a connection of ours, and a quoted
     * local part is one that somebody tries out. */
    if (smtp_address_parse(slice_make(text, len), 0, &address) != 0 || text[0] == '"' ||
        address.domain.len == 0 || address.domain.data[0] == '[') {
        return ERR_SYNTAX;
    }
    memcpy(ret, text, len + 1);
    return 0;
}
