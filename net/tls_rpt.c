/* Fields of a record of TLS-RPT. Called by the thread that sends reports. Must not allocate or
 * believe a length. */
#include "net/tls_rpt.h"

#include "base/error.h"
#include "net/smtp_address.h"

#include <string.h>

enum { KEY_MAX = 32 };

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Without spaces and tabs around it. */
static struct slice trim_blanks(struct slice s)
{
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s = slice_from(s, 1);
    }
    while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

/* What stands before the first `end`, which goes with it. */
static struct slice take_field(struct slice *text, char end)
{
    size_t at = slice_find(*text, end);
    struct slice field = trim_blanks(slice_to(*text, at));
    *text = slice_from(*text, at < text->len ? at + 1 : at);
    return field;
}

/* RFC 8460 section 3: records that do not begin so are not looked at. */
static bool is_record(struct slice text)
{
    struct slice version = SLICE("v=TLSRPTv1");
    if (text.len < version.len || !slice_eq(slice_to(text, version.len), version)) {
        return false;
    }
    text = trim_blanks(slice_from(text, version.len));
    return text.len > 0 && text.data[0] == ';';
}

/* tlsrpt-ext-name */
static bool is_key(struct slice key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.data[i];
        if (!is_key_char(c) && (i == 0 || (c != '_' && c != '-' && c != '.'))) {
            return false;
        }
    }
    return key.len > 0 && key.len <= KEY_MAX;
}

/* Printable, without ';' and space; `but` is another byte that must not be in it, 0: none. */
static bool is_printable(struct slice value, char but)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        if (c <= ' ' || c > '~' || c == ';' || (but != '\0' && c == but)) {
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
        if (!(is_key_char(c) && is_first) && (i == 0 || (c != '+' && c != '-' && c != '.'))) {
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
        has_more = slice_find(value, ',') < value.len;
        struct slice uri = take_field(&value, ',');
        if (!is_printable(uri, '\0') || !has_scheme(uri)) {
            return ERR_SYNTAX;
        }
        add_rua(r, uri);
    }
    return 0;
}

static int parse_record(struct slice text, struct tls_rpt_record *r)
{
    bool has_rua = false;
    (void)take_field(&text, ';'); /* the version */
    while (trim_blanks(text).len > 0) {
        struct slice field = take_field(&text, ';');
        size_t equals = slice_find(field, '=');
        struct slice key = slice_to(field, equals);
        struct slice value = slice_from(field, equals < field.len ? equals + 1 : equals);
        if (!is_key(key)) {
            return ERR_SYNTAX;
        }
        if (!slice_eq(key, SLICE("rua"))) {
            if (!is_printable(value, '=')) {
                return ERR_SYNTAX;
            }
        } else if (has_rua || parse_rua(value, r) != 0) {
            return ERR_SYNTAX;
        } else {
            has_rua = true;
        }
    }
    return has_rua ? 0 : ERR_SYNTAX;
}

int tls_rpt_record(const struct slice *texts, uint32_t count, struct tls_rpt_record *ret)
{
    const struct slice *found = NULL;
    struct tls_rpt_record record = {.count = 0};
    for (uint32_t i = 0; i < count; i++) {
        if (!is_record(texts[i])) {
            continue;
        }
        if (found != NULL) {
            return ERR_MISSING;
        }
        found = &texts[i];
    }
    int err = found == NULL ? ERR_MISSING : parse_record(*found, &record);
    if (err == 0) {
        *ret = record;
    }
    return err;
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
