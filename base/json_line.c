/* JSON text; see the header. Called for every event line, so plain bytes are copied eight at a
 * time.
 */
#include "base/json_line.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

/* Of eight bytes, those that stand for themselves: ' ' to '~' without the quote and the backslash.
 * The top bit of each byte of the sum tells of one that is not; a byte below another such one may
 * be told wrongly, never the lowest, and none when all are plain. */
static bool are_plain(uint64_t bytes)
{
    const uint64_t ones = 0x0101010101010101, tops = ones << 7;
    uint64_t quotes = bytes ^ (ones * '"'), backslashes = bytes ^ (ones * '\\');
    uint64_t controls = bytes - ones * ' ';
    uint64_t beyond = bytes + ones; /* DEL becomes 0x80 */
    uint64_t odd = bytes | controls | beyond | ((quotes - ones) & ~quotes) |
                   ((backslashes - ones) & ~backslashes);
    return (odd & tops) == 0;
}

static bool is_plain(unsigned char c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

static char *put_json_bytes(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *put_escaped(char *at, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    const char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    return put_json_bytes(at, text, sizeof(text));
}

/* What stands for a byte that is neither plain nor above ASCII. */
static char *put_special(char *at, unsigned char c)
{
    switch (c) {
    case '"':
        return put_json_bytes(at, "\\\"", 2);
    case '\\':
        return put_json_bytes(at, "\\\\", 2);
    case '\n':
        return put_json_bytes(at, "\\n", 2);
    case '\r':
        return put_json_bytes(at, "\\r", 2);
    case '\t':
        return put_json_bytes(at, "\\t", 2);
    default:
        return put_escaped(at, c);
    }
}

/* The sequence, or what is none, at the start of *text, which is advanced. */
static char *put_sequence(char *at, struct slice *text)
{
    size_t len = utf8_length(*text);
    const char *from = text->data;
    *text = slice_from(*text, len == 0 ? 1 : len);
    if (len == 0) {
        return put_json_bytes(at, "\xef\xbf\xbd", 3);
    }
    if ((unsigned char)from[0] == 0xc2 && (unsigned char)from[1] < 0xa0) {
        return put_escaped(at, (unsigned char)from[1]);
    }
    return put_json_bytes(at, from, len);
}

char *json_line_string(char *at, struct slice text)
{
    *at++ = '"';
    while (text.len > 0) {
        uint64_t eight;
        if (text.len >= sizeof(eight)) {
            memcpy(&eight, text.data, sizeof(eight));
            if (are_plain(eight)) {
                memcpy(at, &eight, sizeof(eight));
                at += sizeof(eight);
                text = slice_from(text, sizeof(eight));
                continue;
            }
        }
        unsigned char c = (unsigned char)text.data[0];
        if (c >= 0x80) {
            at = put_sequence(at, &text);
            continue;
        }
        if (is_plain(c)) {
            *at++ = (char)c;
        } else {
            at = put_special(at, c);
        }
        text = slice_from(text, 1);
    }
    *at++ = '"';
    return at;
}

char *json_line_unsigned(char *at, uint64_t value)
{
    char digits[JSON_LINE_NUMBER_MAX];
    size_t first = sizeof(digits);
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return put_json_bytes(at, digits + first, sizeof(digits) - first);
}

char *json_line_signed(char *at, int64_t value)
{
    if (value < 0) {
        *at++ = '-';
        return json_line_unsigned(at, ~(uint64_t)value + 1);
    }
    return json_line_unsigned(at, (uint64_t)value);
}
