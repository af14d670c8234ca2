/* Owns the encodings of content and the nesting of parts. Called by compose.c; checks no values,
 * which are fit for a header when they come here. */
#include "engine/compose/mime_body.h"

#include "base/error.h"
#include "engine/compose/mime_field.h"
#include "net/base64.h"
#include "net/smtp_text.h"

enum {
    LINE_MAX_7BIT = 990, /* bytes without CRLF; 998 is the limit (RFC 5322 2.1.1) */
    LINE_MAX_QP = 76,    /* with the "=" of a soft line break */
    BASE64_LINE = 76,
    BASE64_LINE_BYTES = BASE64_LINE / 4 * 3,
};

enum level { LEVEL_MIXED, LEVEL_ALTERNATIVE, LEVEL_RELATED };

/* --- text ------------------------------------------------------------------------------------- */

/* Bytes up to the end of the line, or of the text. */
static size_t line_len(struct slice text)
{
    bool is_8bit;
    size_t len = smtp_text_span(text, &is_8bit);
    while (len < text.len && text.data[len] == '\0') { /* which ends no line */
        len++;
        len += smtp_text_span(slice_from(text, len), &is_8bit);
    }
    return len;
}

/* Take the next line, without its line end. *ret_ends: the line has a line end. */
static struct slice next_line(struct slice *text, bool *ret_ends)
{
    size_t len = line_len(*text), end;
    struct slice line = slice_to(*text, len);
    *ret_ends = len < text->len;
    end = len + (*ret_ends ? 1 : 0);
    if (*ret_ends && text->data[len] == '\r' && end < text->len && text->data[end] == '\n') {
        end++;
    }
    *text = slice_from(*text, end);
    return line;
}

void mime_body_lines(struct buf *out, struct slice text)
{
    bool ends;
    while (text.len > 0) {
        buf_append_slice(out, next_line(&text, &ends));
        if (ends) {
            buf_append_str(out, "\r\n");
        }
    }
}

static bool begins(struct slice line, struct slice with)
{
    return line.len >= with.len && slice_eq(slice_to(line, with.len), with);
}

/* Whether a line has no bytes but printable ASCII and tabs. */
static bool is_plain(struct slice line)
{
    while (line.len > 0) {
        size_t len = smtp_text_printable(line);
        if (len < line.len && line.data[len] != '\t') {
            return false;
        }
        line = slice_from(line, len < line.len ? len + 1 : len);
    }
    return true;
}

/* Whether text can go as it is. A line in front of which mail programs put '>' cannot. */
static bool is_7bit(struct slice text)
{
    bool ends;
    while (text.len > 0) {
        struct slice line = next_line(&text, &ends);
        if (line.len > LINE_MAX_7BIT || begins(line, SLICE("--=_")) ||
            begins(line, SLICE("From ")) || !is_plain(line)) {
            return false;
        }
    }
    return true;
}

static bool is_body_white(char c)
{
    return c == ' ' || c == '\t';
}

/* What careless programs change at the start of a line. */
static bool is_fragile(struct slice line)
{
    return line.data[0] == '.' || begins(line, SLICE("From "));
}

/* RFC 2045 6.7 */
static void put_quoted_line(struct buf *out, struct slice line)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t column = 0;
    for (size_t i = 0; i < line.len; i++) {
        unsigned char c = (unsigned char)line.data[i];
        bool is_last = i + 1 == line.len;
        bool is_plain = (c > 32 && c < 127 && c != '=') || (is_body_white((char)c) && !is_last);
        if (column + (is_plain ? 1 : 3) > (is_last ? LINE_MAX_QP : LINE_MAX_QP - 1)) {
            buf_append_str(out, "=\r\n");
            column = 0;
        }
        is_plain = is_plain && (column > 0 || !is_fragile(slice_from(line, i)));
        size_t need = is_plain ? 1 : 3;
        const char coded[3] = {'=', digits[c >> 4], digits[c & 15]};
        buf_append(out, is_plain ? line.data + i : coded, need);
        column += need;
    }
}

static void put_quoted_printable(struct buf *out, struct slice text)
{
    bool ends;
    while (text.len > 0) {
        put_quoted_line(out, next_line(&text, &ends));
        if (ends) {
            buf_append_str(out, "\r\n");
        }
    }
}

static void put_text_part(struct buf *out, const char *subtype, struct slice text)
{
    bool is_plain = is_7bit(text);
    buf_printf(out,
               "Content-Type: text/%s; charset=utf-8\r\n"
               "Content-Transfer-Encoding: %s\r\n\r\n",
               subtype, is_plain ? "7bit" : "quoted-printable");
    if (is_plain) {
        mime_body_lines(out, text);
    } else {
        put_quoted_printable(out, text);
    }
}

/* --- attachments ------------------------------------------------------------------------------ */

static bool is_base64_space(char c)
{
    return is_body_white(c) || c == '\r' || c == '\n';
}

/* Base64 in lines of our own; each is decoded to see that it is what it says. */
static int put_base64(struct buf *out, struct slice content)
{
    char line[BASE64_LINE];
    unsigned char bytes[BASE64_LINE_BYTES];
    size_t len = 0, decoded;
    bool is_last = false; /* padding may stand in the last line only */
    for (size_t i = 0; i <= content.len; i++) {
        if (i < content.len) {
            if (is_base64_space(content.data[i])) {
                continue;
            }
            line[len++] = content.data[i];
        }
        if (len == BASE64_LINE || (i == content.len && len > 0)) {
            if (is_last ||
                base64_decode(slice_make(line, len), bytes, sizeof(bytes), &decoded) != 0) {
                return ERR_SYNTAX;
            }
            is_last = line[len - 1] == '=';
            buf_append(out, line, len);
            buf_append_str(out, "\r\n");
            len = 0;
        }
    }
    return 0;
}

static int put_mime_part(struct buf *out, const struct mime_part *part)
{
    struct mime_field f;
    mime_field_begin(&f, out, SLICE("Content-Type"));
    mime_field_words(&f, part->content_type);
    mime_field_end(&f);
    buf_append_str(out, "Content-Transfer-Encoding: base64\r\n");
    mime_field_begin(&f, out, SLICE("Content-Disposition"));
    mime_field_words(&f, part->is_inline ? SLICE("inline") : SLICE("attachment"));
    if (part->filename.len > 0) {
        mime_field_parameter(&f, "filename", part->filename);
    }
    mime_field_end(&f);
    if (part->content_id.len > 0) {
        buf_append_str(out, "Content-ID: <");
        buf_append_slice(out, part->content_id);
        buf_append_str(out, ">\r\n");
    }
    buf_append_str(out, "\r\n");
    return put_base64(out, part->content);
}

/* --- nesting ---------------------------------------------------------------------------------- */

static void begin_multipart(struct buf *out, const struct mime_body *b, enum level level)
{
    static const char *const names[] = {
        [LEVEL_MIXED] = "mixed",
        [LEVEL_ALTERNATIVE] = "alternative",
        [LEVEL_RELATED] = "related; type=\"text/html\"",
    };
    buf_printf(out, "Content-Type: multipart/%s;\r\n boundary=\"=_%016llx.%d\"\r\n", names[level],
               (unsigned long long)b->unique, (int)level);
}

/* The line between parts; the CRLF in front of it belongs to it. */
static void put_boundary(struct buf *out, const struct mime_body *b, enum level level, bool is_end)
{
    buf_printf(out, "\r\n--=_%016llx.%d%s\r\n", (unsigned long long)b->unique, (int)level,
               is_end ? "--" : "");
}

/* Whether html shows it: it stands beside html in multipart/related. */
static bool is_related(const struct mime_body *b, const struct mime_part *part)
{
    return b->has_html && part->content_id.len > 0;
}

static size_t count_related(const struct mime_body *b)
{
    size_t count = 0;
    for (size_t i = 0; i < b->part_count; i++) {
        count += is_related(b, &b->parts[i]);
    }
    return count;
}

static int put_parts(struct buf *out, const struct mime_body *b, enum level level,
                     size_t *ret_wrong)
{
    for (size_t i = 0; i < b->part_count; i++) {
        if (is_related(b, &b->parts[i]) != (level == LEVEL_RELATED)) {
            continue;
        }
        put_boundary(out, b, level, false);
        if (put_mime_part(out, &b->parts[i]) != 0) {
            *ret_wrong = i;
            return ERR_SYNTAX;
        }
    }
    put_boundary(out, b, level, true);
    return 0;
}

static int put_html(struct buf *out, const struct mime_body *b, size_t *ret_wrong)
{
    if (count_related(b) == 0) {
        put_text_part(out, "html", b->html);
        return 0;
    }
    begin_multipart(out, b, LEVEL_RELATED);
    put_boundary(out, b, LEVEL_RELATED, false);
    put_text_part(out, "html", b->html);
    return put_parts(out, b, LEVEL_RELATED, ret_wrong);
}

static int put_texts(struct buf *out, const struct mime_body *b, size_t *ret_wrong)
{
    if (!b->has_html) {
        put_text_part(out, "plain", b->text);
        return 0;
    }
    if (!b->has_text) {
        return put_html(out, b, ret_wrong);
    }
    begin_multipart(out, b, LEVEL_ALTERNATIVE);
    put_boundary(out, b, LEVEL_ALTERNATIVE, false);
    put_text_part(out, "plain", b->text);
    put_boundary(out, b, LEVEL_ALTERNATIVE, false);
    int err = put_html(out, b, ret_wrong);
    put_boundary(out, b, LEVEL_ALTERNATIVE, true);
    return err;
}

int mime_body_write(struct buf *out, const struct mime_body *b, size_t *ret_wrong)
{
    enum { FRAME = 1024 }; /* about what stands around the texts */
    bool has_texts = b->has_text || b->has_html;
    bool is_mixed = b->part_count > count_related(b);
    int err = 0;
    (void)buf_reserve(out, b->text.len + b->html.len + FRAME); /* out says whether it failed */
    buf_append_str(out, "MIME-Version: 1.0\r\n");
    if (is_mixed) {
        begin_multipart(out, b, LEVEL_MIXED);
        if (has_texts) {
            put_boundary(out, b, LEVEL_MIXED, false);
        }
    }
    if (has_texts) {
        err = put_texts(out, b, ret_wrong);
    }
    if (err == 0 && is_mixed) {
        err = put_parts(out, b, LEVEL_MIXED, ret_wrong);
    }
    if (out->len > 0 && out->data[out->len - 1] != '\n') {
        buf_append_str(out, "\r\n");
    }
    return err;
}
