/* Text of notices; see the header. */
#include "engine/writer/bounce_text.h"

#include "base/utf8.h"

#include <string.h>

#define FOLD_COLUMN 76 /* RFC 5322 section 2.1.1: 78 with the line end */
#define FOLD_LATEST (BOUNCE_TEXT_LINE_MAX - 4)
#define HEADER_MAX  131072 /* bytes of an original's header that are looked at */
#define REPLACEMENT '?'

bool bounce_text_is_ascii(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] > 127) {
            return false;
        }
    }
    return true;
}

/* The next character of a value, made harmless: 1 to 4 bytes in ret. returns: bytes of s it took */
static size_t next_character(struct slice s, bool allow_utf8, char ret[4], size_t *ret_len)
{
    unsigned char c = (unsigned char)s.data[0];
    size_t len = utf8_length(s);
    *ret_len = 1;
    if (c < ' ' || c == 0x7f) {
        ret[0] = ' ';
        return 1;
    }
    if (c < 0x80) {
        ret[0] = (char)c;
        return 1;
    }
    /* U+0080 to U+009F are controls, too. */
    if (len == 0 || !allow_utf8 || (c == 0xc2 && (unsigned char)s.data[1] < 0xa0)) {
        ret[0] = REPLACEMENT;
        return len == 0 ? 1 : len;
    }
    memcpy(ret, s.data, len);
    *ret_len = len;
    return len;
}

size_t bounce_text_clean(char *ret, size_t max, struct slice value, bool allow_utf8)
{
    size_t written = 0;
    bool has_gap = false;
    while (value.len > 0) {
        char text[4];
        size_t len;
        value = slice_from(value, next_character(value, allow_utf8, text, &len));
        if (text[0] == ' ') {
            has_gap = written > 0;
            continue;
        }
        if (written + len + has_gap > max) {
            break;
        }
        if (has_gap) {
            ret[written++] = ' ';
            has_gap = false;
        }
        memcpy(ret + written, text, len);
        written += len;
    }
    return written;
}

void bounce_text_value(struct buf *out, struct slice value, size_t max, bool allow_utf8)
{
    char clean[BOUNCE_TEXT_REPLY_MAX];
    size_t most = max < sizeof(clean) ? max : sizeof(clean);
    buf_append(out, clean, bounce_text_clean(clean, most, value, allow_utf8));
}

/* Length of the first word of s, which does not begin with a space; at most `max`, and never in
 * the middle of a character. */
static size_t word_length(struct slice s, size_t max)
{
    size_t len = 0;
    while (len < s.len && s.data[len] != ' ') {
        size_t step = utf8_length(slice_from(s, len));
        step = step == 0 ? 1 : step;
        if (len + step > max) {
            return len;
        }
        len += step;
    }
    return len;
}

void bounce_text_folded(struct buf *out, struct slice value, size_t column, const char *indent,
                        bool allow_utf8)
{
    char clean[BOUNCE_TEXT_REPLY_MAX];
    struct slice rest = {clean, bounce_text_clean(clean, sizeof(clean), value, allow_utf8)};
    size_t indent_len = strlen(indent);
    bool is_first = true;
    while (rest.len > 0) {
        size_t len = word_length(rest, BOUNCE_TEXT_VALUE_MAX);
        if (!is_first && column + 1 + len > FOLD_COLUMN) {
            buf_append_str(out, "\r\n");
            buf_append(out, indent, indent_len);
            column = indent_len;
        } else if (!is_first) {
            buf_append_char(out, ' ');
            column++;
        }
        buf_append(out, rest.data, len);
        column += len;
        rest = slice_from(rest, len);
        if (rest.len > 0 && rest.data[0] == ' ') {
            rest = slice_from(rest, 1);
        }
        is_first = false;
    }
}

/* --- copying a message ------------------------------------------------------------------------ */

struct copier {
    struct buf *out;
    size_t column;
    bool has_cr; /* a CR was seen whose LF may follow */
};

static void end_folded_line(struct copier *c)
{
    buf_append_str(c->out, "\r\n");
    c->column = 0;
}

/* Bytes of one line, without line ends and NUL. */
static void copy_run(struct copier *c, struct slice run)
{
    while (run.len > 0) {
        size_t room = c->column < FOLD_LATEST ? FOLD_LATEST - c->column : 0;
        size_t len = run.len < room ? run.len : room;
        /* Where a character would be cut, its last bytes, at most three, still fit. */
        while (len < run.len && ((unsigned char)run.data[len] & 0xc0) == 0x80 &&
               c->column + len < BOUNCE_TEXT_LINE_MAX) {
            len++;
        }
        buf_append(c->out, run.data, len);
        c->column += len;
        run = slice_from(run, len);
        if (run.len > 0) {
            end_folded_line(c);
            buf_append_char(c->out, ' ');
            c->column = 1;
        }
    }
}

static bool is_special(char c)
{
    return c == '\r' || c == '\n' || c == '\0';
}

static void copy_part(struct copier *c, struct slice part)
{
    while (part.len > 0) {
        char first = part.data[0];
        if (c->has_cr) {
            c->has_cr = false;
            end_folded_line(c);
            if (first == '\n') {
                part = slice_from(part, 1);
                continue;
            }
        }
        size_t run = 0;
        while (run < part.len && !is_special(part.data[run])) {
            run++;
        }
        if (run > 0) {
            copy_run(c, slice_to(part, run));
            part = slice_from(part, run);
            continue;
        }
        if (first == '\r') {
            c->has_cr = true;
        } else if (first == '\n') {
            end_folded_line(c);
        } else {
            copy_run(c, SLICE("?"));
        }
        part = slice_from(part, 1);
    }
}

void bounce_text_copy(struct buf *out, const struct slice *parts, size_t count, size_t limit)
{
    struct copier c = {.out = out};
    for (size_t i = 0; i < count && limit > 0; i++) {
        size_t len = parts[i].len < limit ? parts[i].len : limit;
        copy_part(&c, slice_to(parts[i], len));
        limit -= len;
    }
    if (c.has_cr || c.column > 0) {
        end_folded_line(&c);
    }
}

void bounce_text_measure(const struct slice *parts, size_t count, size_t limit,
                         struct bounce_text_facts *ret)
{
    size_t at = 0, line = 0, line_start = 0;
    bool is_header = true;
    *ret = (struct bounce_text_facts){0};
    for (size_t i = 0; i < count; i++) {
        ret->total += parts[i].len;
    }
    size_t wanted = ret->total <= limit ? ret->total : 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < parts[i].len; k++, at++) {
            unsigned char c = (unsigned char)parts[i].data[k];
            if (is_header && at >= HEADER_MAX) {
                is_header = false;
                ret->header = line_start; /* cut at the end of a line */
            }
            if (!is_header && at >= wanted) {
                return;
            }
            ret->has_8bit_anywhere |= c > 127;
            if (!is_header) {
                continue;
            }
            ret->has_8bit_header |= c > 127;
            if (c == '\n') {
                is_header = line > 0;
                ret->header = is_header ? at + 1 : line_start;
                line = 0;
                line_start = at + 1;
            } else {
                line += c != '\r';
            }
        }
    }
    if (is_header) {
        ret->header = ret->total;
    }
}
