/* JSON text; see the header. Called for every event line, so runs of plain bytes are copied whole.
 */
#include "engine/json_line.h"

#include <string.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t json_utf8_length(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.data;
    if (s.len == 0) {
        return 0;
    }
    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        return s.len >= 2 && is_continuation(p[1]) ? 2 : 0;
    }
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        /* No overlong forms, no surrogates. */
        unsigned char low = p[0] == 0xe0 ? 0xa0 : 0x80;
        unsigned char high = p[0] == 0xed ? 0x9f : 0xbf;
        return s.len >= 3 && p[1] >= low && p[1] <= high && is_continuation(p[2]) ? 3 : 0;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        unsigned char low = p[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = p[0] == 0xf4 ? 0x8f : 0xbf;
        return s.len >= 4 && p[1] >= low && p[1] <= high && is_continuation(p[2]) &&
                       is_continuation(p[3])
                   ? 4
                   : 0;
    }
    return 0;
}

static bool is_plain(unsigned char c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

static void escape_control(struct buf *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    const char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    buf_append(out, text, sizeof(text));
}

/* The bytes at the start of s that are not plain. returns: how many were dealt with */
static size_t append_special(struct buf *out, struct slice s)
{
    unsigned char c = (unsigned char)s.data[0];
    switch (c) {
    case '"':
    case '\\':
        buf_append_char(out, '\\');
        buf_append_char(out, (char)c);
        return 1;
    case '\n':
        buf_append_str(out, "\\n");
        return 1;
    case '\r':
        buf_append_str(out, "\\r");
        return 1;
    case '\t':
        buf_append_str(out, "\\t");
        return 1;
    default:
        break;
    }
    if (c < 0x80) {
        escape_control(out, c);
        return 1;
    }
    size_t len = json_utf8_length(s);
    if (len == 0) {
        buf_append_str(out, "\xef\xbf\xbd");
        return 1;
    }
    if (c == 0xc2 && (unsigned char)s.data[1] < 0xa0) {
        escape_control(out, (unsigned char)s.data[1]);
    } else {
        buf_append(out, s.data, len);
    }
    return len;
}

void json_line_string(struct buf *out, struct slice text)
{
    size_t at = 0;
    buf_append_char(out, '"');
    while (at < text.len) {
        size_t run = at;
        while (run < text.len && is_plain((unsigned char)text.data[run])) {
            run++;
        }
        if (run > at) {
            buf_append(out, text.data + at, run - at);
            at = run;
        } else {
            at += append_special(out, slice_from(text, at));
        }
    }
    buf_append_char(out, '"');
}

void json_line_unsigned(struct buf *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buf_append(out, digits + at, sizeof(digits) - at);
}

void json_line_signed(struct buf *out, int64_t value)
{
    if (value < 0) {
        buf_append_char(out, '-');
        json_line_unsigned(out, ~(uint64_t)value + 1);
        return;
    }
    json_line_unsigned(out, (uint64_t)value);
}
