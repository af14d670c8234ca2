/* The grammar of RFC 5321 paths and mailboxes, with the UTF-8 of RFC 6531. Called with bytes that
 * strangers sent; reads only inside the slice and writes only inside smtp_address.text. */
#include "net/smtp_address.h"

#include "base/error.h"

#include <stdint.h>

/* What is left to read; a copy of the caller's slice until the parse has succeeded. */
struct reader {
    struct slice in;
    unsigned flags;
    bool has_utf8;
};

static bool peek_is(const struct reader *r, char c)
{
    return r->in.len > 0 && r->in.data[0] == c;
}

static bool skip(struct reader *r, char c)
{
    if (!peek_is(r, c)) {
        return false;
    }
    r->in = slice_from(r->in, 1);
    return true;
}

static bool is_address_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(unsigned char c)
{
    return is_address_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool is_hex(unsigned char c)
{
    return is_address_digit(c) || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

static char lower_char(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c + ('a' - 'A'));
    }
    return c;
}

static bool is_atext(unsigned char c)
{
    return is_alnum(c) || (c != 0 && strchr("!#$%&'*+-/=?^_`{|}~", c) != NULL);
}

/* Bytes of the UTF-8 character at the start of s, 2..4; 0 when it is malformed (RFC 3629) or one
 * that can break lines in some reader: C1 controls (NEL is one), U+2028, U+2029. */
static size_t utf8_len(struct slice s)
{
    unsigned char first = (unsigned char)s.data[0];
    size_t len = 2U + (first >= 0xe0) + (first >= 0xf0);
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};

    if (first < 0xc2 || first > 0xf4 || s.len < len) {
        return 0;
    }
    uint32_t code = first & (0xffU >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        unsigned char next = (unsigned char)s.data[i];
        if ((next & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (next & 0x3fU);
    }
    if (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }
    return code < 0xa0 || code == 0x2028 || code == 0x2029 ? 0 : len;
}

/* Bytes of the character at the reader that `allowed` or UTF-8 permits; 0 for none. */
static size_t char_len(struct reader *r, bool (*allowed)(unsigned char))
{
    if (r->in.len == 0) {
        return 0;
    }
    unsigned char c = (unsigned char)r->in.data[0];
    if (c < 0x80) {
        return allowed(c) ? 1 : 0;
    }
    size_t len = (r->flags & SMTP_ADDRESS_UTF8) != 0 ? utf8_len(r->in) : 0;
    r->has_utf8 = r->has_utf8 || len > 0;
    return len;
}

/* Append to the result's text, which never grows beyond its array. */
static int put_address_bytes(struct smtp_address *ret, const char *data, size_t len)
{
    if (len > sizeof(ret->text) - ret->len) {
        return ERR_LIMIT;
    }
    memcpy(ret->text + ret->len, data, len);
    ret->len += len;
    return ERR_OK;
}

static int take_parsed_address(struct reader *r, size_t len, struct smtp_address *ret)
{
    int err = put_address_bytes(ret, r->in.data, len);
    r->in = slice_from(r->in, len);
    return err;
}

/* Dot-string: atoms with single dots between them. */
static int parse_dot_string(struct reader *r, struct smtp_address *ret)
{
    for (;;) {
        size_t len = char_len(r, is_atext);
        if (len == 0) {
            return ERR_SYNTAX;
        }
        while (len > 0) {
            int err = take_parsed_address(r, len, ret);
            if (err != ERR_OK) {
                return err;
            }
            len = char_len(r, is_atext);
        }
        if (!peek_is(r, '.')) {
            return ERR_OK;
        }
        int err = take_parsed_address(r, 1, ret);
        if (err != ERR_OK) {
            return err;
        }
    }
}

static bool is_quotable(unsigned char c)
{
    return c >= 32 && c <= 126;
}

/* The content of a quoted string without its escapes, up to and with the closing quote. */
static int read_quoted(struct reader *r, char *raw, size_t size, size_t *ret_len)
{
    size_t used = 0;

    while (!skip(r, '"')) {
        bool is_escaped = skip(r, '\\');
        size_t len = char_len(r, is_quotable);
        /* RFC 6531 adds UTF-8 to the plain text only, not to what a backslash may quote. */
        if (len == 0 || (is_escaped && len > 1)) {
            return ERR_SYNTAX;
        }
        if (len > size - used) {
            return ERR_LIMIT;
        }
        memcpy(raw + used, r->in.data, len);
        used += len;
        r->in = slice_from(r->in, len);
    }
    *ret_len = used;
    return ERR_OK;
}

/* Print content as a quoted string with the fewest escapes. */
static int put_quoted(struct smtp_address *ret, struct slice raw)
{
    int err = put_address_bytes(ret, "\"", 1);
    for (size_t i = 0; i < raw.len && err == ERR_OK; i++) {
        if (raw.data[i] == '"' || raw.data[i] == '\\') {
            err = put_address_bytes(ret, "\\", 1);
        }
        if (err == ERR_OK) {
            err = put_address_bytes(ret, raw.data + i, 1);
        }
    }
    return err == ERR_OK ? put_address_bytes(ret, "\"", 1) : err;
}

static int parse_quoted(struct reader *r, struct smtp_address *ret)
{
    char raw[SMTP_ADDRESS_LOCAL_MAX];
    size_t raw_len = 0;

    int err = read_quoted(r, raw, sizeof(raw), &raw_len);
    if (err != ERR_OK) {
        return err;
    }
    size_t start = ret->len;
    struct reader content = {.in = {raw, raw_len}, .flags = r->flags};
    if (parse_dot_string(&content, ret) == ERR_OK && content.in.len == 0) {
        return ERR_OK;
    }
    ret->len = start;
    return put_quoted(ret, slice_make(raw, raw_len));
}

static bool is_domain_char(unsigned char c)
{
    return is_alnum(c) || c == '-' || c == '_';
}

/* One label; ret_numeric: nothing but digits. */
static int parse_label(struct reader *r, struct smtp_address *ret, bool *ret_numeric)
{
    size_t start = ret->len;
    bool has_utf8 = false;
    bool is_numeric = true;
    size_t len;

    while ((len = char_len(r, is_domain_char)) > 0) {
        has_utf8 = has_utf8 || len > 1;
        is_numeric = is_numeric && is_address_digit((unsigned char)r->in.data[0]);
        char lower = lower_char(r->in.data[0]);
        int err = put_address_bytes(ret, r->in.data, len);
        if (err != ERR_OK) {
            return err;
        }
        ret->text[ret->len - len] = lower;
        r->in = slice_from(r->in, len);
    }
    len = ret->len - start;
    if (len == 0 || ret->text[start] == '-' || ret->text[ret->len - 1] == '-') {
        return ERR_SYNTAX;
    }
    *ret_numeric = is_numeric;
    return len > 63 && !has_utf8 ? ERR_LIMIT : ERR_OK;
}

/* Labels with dots between them; a last dot is dropped. */
static int parse_domain(struct reader *r, struct smtp_address *ret)
{
    for (;;) {
        bool is_numeric = false;
        int err = parse_label(r, ret, &is_numeric);
        if (err != ERR_OK) {
            return err;
        }
        bool has_dot = skip(r, '.');
        if (!has_dot || char_len(r, is_domain_char) == 0) {
            /* No top-level domain is a number: this would be an address without brackets. */
            return is_numeric ? ERR_SYNTAX : ERR_OK;
        }
        err = put_address_bytes(ret, ".", 1);
        if (err != ERR_OK) {
            return err;
        }
    }
}

/* Four decimal numbers up to 255 without leading zeros, being all of s. */
static bool is_ipv4(struct slice s)
{
    for (int part = 0; part < 4; part++) {
        unsigned value = 0;
        size_t len = 0;
        while (len < s.len && len < 4 && is_address_digit((unsigned char)s.data[len])) {
            value = value * 10 + (unsigned)(s.data[len++] - '0');
        }
        if (len == 0 || len > 3 || value > 255 || (len > 1 && s.data[0] == '0')) {
            return false;
        }
        s = slice_from(s, len);
        if (part < 3) {
            if (s.len == 0 || s.data[0] != '.') {
                return false;
            }
            s = slice_from(s, 1);
        }
    }
    return s.len == 0;
}

/* RFC 4291 2.2 text: eight groups, or fewer with one "::", the last two perhaps as IPv4. */
static bool is_ipv6(struct slice s)
{
    int groups = 0;
    bool has_gap = false;

    if (s.len >= 2 && s.data[0] == ':' && s.data[1] == ':') {
        has_gap = true;
        s = slice_from(s, 2);
    }
    while (s.len > 0) {
        size_t len = 0;
        while (len < s.len && is_hex((unsigned char)s.data[len])) {
            len++;
        }
        if (len < s.len && s.data[len] == '.') {
            groups += 2;
            return is_ipv4(s) && (has_gap ? groups < 8 : groups == 8);
        }
        if (len == 0 || len > 4) {
            return false;
        }
        groups++;
        s = slice_from(s, len);
        if (s.len == 0) {
            break;
        }
        if (s.data[0] != ':' || s.len == 1) {
            return false;
        }
        s = slice_from(s, 1);
        if (s.data[0] == ':') {
            if (has_gap) {
                return false;
            }
            has_gap = true;
            s = slice_from(s, 1);
        }
    }
    return has_gap ? groups < 8 : groups == 8;
}

/* "[192.0.2.1]" or "[IPv6:2001:db8::1]", from the opening bracket. */
static int parse_literal(struct reader *r, struct smtp_address *ret)
{
    size_t end = slice_find(r->in, ']');
    if (end == r->in.len) {
        return ERR_SYNTAX;
    }
    struct slice text = {r->in.data + 1, end - 1};
    struct slice tag = SLICE("IPv6:");
    bool is_valid = is_ipv4(text);
    if (text.len > tag.len && slice_ieq(slice_to(text, tag.len), tag)) {
        is_valid = is_ipv6(slice_from(text, tag.len));
    }
    if (!is_valid) {
        return ERR_SYNTAX;
    }
    size_t start = ret->len;
    int err = take_parsed_address(r, end + 1, ret);
    for (size_t i = start; i < ret->len; i++) {
        ret->text[i] = lower_char(ret->text[i]);
    }
    return err;
}

static int parse_mailbox(struct reader *r, struct smtp_address *ret)
{
    int err = skip(r, '"') ? parse_quoted(r, ret) : parse_dot_string(r, ret);
    if (err != ERR_OK) {
        return err;
    }
    size_t local_len = ret->len;
    if (local_len > SMTP_ADDRESS_LOCAL_MAX) {
        return ERR_LIMIT;
    }
    ret->local = slice_make(ret->text, local_len);
    if (!skip(r, '@')) {
        bool is_postmaster = slice_ieq(ret->local, SLICE("postmaster"));
        return is_postmaster && (r->flags & SMTP_ADDRESS_POSTMASTER) != 0 ? ERR_OK : ERR_SYNTAX;
    }
    err = put_address_bytes(ret, "@", 1);
    if (err == ERR_OK) {
        err = peek_is(r, '[') ? parse_literal(r, ret) : parse_domain(r, ret);
    }
    if (err != ERR_OK) {
        return err;
    }
    ret->domain = slice_make(ret->text + local_len + 1, ret->len - local_len - 1);
    return ret->domain.len > SMTP_ADDRESS_DOMAIN_MAX ? ERR_LIMIT : ERR_OK;
}

/* "@a,@b:" in front of a mailbox; checked, then forgotten (RFC 5321 4.1.1.3, appendix C). */
static int skip_route(struct reader *r, struct smtp_address *ret)
{
    if (!peek_is(r, '@')) {
        return ERR_OK;
    }
    do {
        if (!skip(r, '@')) {
            return ERR_SYNTAX;
        }
        int err = parse_domain(r, ret);
        ret->len = 0;
        if (err != ERR_OK) {
            return err;
        }
    } while (skip(r, ','));
    return skip(r, ':') ? ERR_OK : ERR_SYNTAX;
}

static void address_clear(struct smtp_address *ret)
{
    ret->local = slice_make(ret->text, 0);
    ret->domain = slice_make(ret->text, 0);
    ret->has_utf8 = false;
    ret->len = 0;
}

/* What the route said does not make the address one of UTF-8. */
static int parse_route_and_mailbox(struct reader *r, struct smtp_address *ret)
{
    int err = skip_route(r, ret);
    r->has_utf8 = false;
    return err == ERR_OK ? parse_mailbox(r, ret) : err;
}

int smtp_address_parse_path(struct slice *in, unsigned flags, struct smtp_address *ret)
{
    struct reader r = {.in = *in, .flags = flags};

    address_clear(ret);
    if (!skip(&r, '<')) {
        return ERR_SYNTAX;
    }
    if ((flags & SMTP_ADDRESS_NULL) == 0 || !peek_is(&r, '>')) {
        int err = parse_route_and_mailbox(&r, ret);
        if (err != ERR_OK) {
            return err;
        }
    }
    if (!skip(&r, '>')) {
        return ERR_SYNTAX;
    }
    ret->has_utf8 = r.has_utf8;
    *in = r.in;
    return ERR_OK;
}

int smtp_address_parse(struct slice in, unsigned flags, struct smtp_address *ret)
{
    struct reader r = {.in = in, .flags = flags};

    address_clear(ret);
    if (in.len == 0) {
        return (flags & SMTP_ADDRESS_NULL) != 0 ? ERR_OK : ERR_SYNTAX;
    }
    int err = parse_mailbox(&r, ret);
    if (err != ERR_OK) {
        return err;
    }
    ret->has_utf8 = r.has_utf8;
    return r.in.len == 0 ? ERR_OK : ERR_SYNTAX;
}

void smtp_address_copy(struct smtp_address *dst, const struct smtp_address *src)
{
    size_t local_len = src->local.len;
    size_t domain_len = src->domain.len;

    dst->has_utf8 = src->has_utf8;
    dst->len = src->len;
    memcpy(dst->text, src->text, src->len);
    dst->local = slice_make(dst->text, local_len);
    dst->domain = slice_make(dst->text + (src->len - domain_len), domain_len);
}
