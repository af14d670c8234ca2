/* The reply reader: one line at a time, straight out of the caller's bytes where a line is whole in
 * them. Pure; every buffer is bounded. */
#include "net/smtp_reply.h"

#include "base/error.h"
#include "net/smtp_text.h"

#include <string.h>

void smtp_reply_init(struct smtp_reply *r)
{
    *r = (struct smtp_reply){.code = 0};
    buf_init(&r->text, 0);
    buf_init(&r->partial, 0);
}

void smtp_reply_fini(struct smtp_reply *r)
{
    buf_fini(&r->text);
    buf_fini(&r->partial);
}

void smtp_reply_next(struct smtp_reply *r)
{
    struct buf text = r->text;
    struct buf partial = r->partial;
    buf_clear(&text);
    buf_clear(&partial);
    *r = (struct smtp_reply){.text = text, .partial = partial};
}

bool smtp_reply_is_partial(const struct smtp_reply *r)
{
    return r->bytes > 0 && !r->is_done;
}

struct slice smtp_reply_text(const struct smtp_reply *r)
{
    return buf_slice(&r->text);
}

static enum smtp_reply_result bad(struct smtp_reply *r, const char *problem)
{
    r->problem = problem;
    r->line = SLICE("");
    return SMTP_REPLY_BAD;
}

/* Bytes of the UTF-8 character at the start of s that may be shown, or 0. */
static size_t utf8_len(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.data;
    if (p[0] < 0x80) {
        return p[0] >= 0x20 && p[0] != 0x7f ? 1 : 0;
    }
    size_t len = 0;
    unsigned low = 0x80;
    unsigned high = 0xbf;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        len = 2;
        low = p[0] == 0xc2 ? 0xa0 : low; /* U+0080..U+009F are controls */
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        len = 3;
        low = p[0] == 0xe0 ? 0xa0 : low;
        high = p[0] == 0xed ? 0x9f : high; /* surrogates */
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        len = 4;
        low = p[0] == 0xf0 ? 0x90 : low;
        high = p[0] == 0xf4 ? 0x8f : high;
    }
    if (len == 0 || s.len < len || p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) {
            return 0;
        }
    }
    return len;
}

void smtp_reply_sanitise(struct buf *out, struct slice raw, size_t max)
{
    while (raw.len > 0 && out->len < max) {
        size_t room = max - out->len;
        size_t len = smtp_text_printable(slice_to(raw, raw.len < room ? raw.len : room));
        len = len > 0 ? len : utf8_len(raw);
        if (len > room) {
            return;
        }
        if (len > 0) {
            buf_append(out, raw.data, len);
        } else {
            buf_append_char(out, raw.data[0] == '\t' ? ' ' : '?');
        }
        raw = slice_from(raw, len > 0 ? len : 1);
    }
}

static bool is_reply_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Take one to three digits at *at, which moves behind them. */
static bool take_number(struct slice s, size_t *at)
{
    size_t start = *at;
    while (*at < s.len && *at - start < 3 && is_reply_digit(s.data[*at])) {
        (*at)++;
    }
    return *at > start;
}

int smtp_reply_parse_status(struct slice text, struct outcome_status *ret)
{
    if (text.len < 5 || (text.data[0] != '2' && text.data[0] != '4' && text.data[0] != '5') ||
        text.data[1] != '.') {
        return ERR_SYNTAX;
    }
    size_t at = 2;
    if (!take_number(text, &at) || at >= text.len || text.data[at] != '.') {
        return ERR_SYNTAX;
    }
    at++;
    if (!take_number(text, &at) || (at < text.len && text.data[at] != ' ')) {
        return ERR_SYNTAX;
    }
    struct outcome_status status = {{0}};
    memcpy(status.text, text.data, at);
    *ret = status;
    return 0;
}

/* Printable ASCII and tabs. */
static bool is_clean(struct slice s)
{
    size_t at = smtp_text_printable(s);
    while (at < s.len && s.data[at] == '\t') {
        at++;
        at += smtp_text_printable(slice_from(s, at));
    }
    return at == s.len;
}

/* Code, text and status of one more line into the reply. */
static void add_line(struct smtp_reply *r, uint16_t code, struct slice digits)
{
    if (r->line_count == 0) {
        r->first_code = code;
        r->code = code;
        smtp_reply_sanitise(&r->text, digits, SMTP_REPLY_TEXT_MAX);
    } else {
        r->is_mixed = r->is_mixed || code / 100 != r->first_code / 100;
        r->code = r->code == 421 ? 421 : code;
    }
    r->line_count++;
    struct outcome_status status;
    if (!r->has_status && smtp_reply_parse_status(r->line, &status) == 0 &&
        status.text[0] == '0' + code / 100) {
        r->status = status;
        r->has_status = true;
    }
    if (r->line.len > 0) {
        smtp_reply_sanitise(&r->text, SLICE(" "), SMTP_REPLY_TEXT_MAX);
        smtp_reply_sanitise(&r->text, r->line, SMTP_REPLY_TEXT_MAX);
    }
    r->is_line_unclean = !is_clean(r->line);
    r->is_unclean = r->is_unclean || r->is_line_unclean;
}

/* A whole line without its end. */
static enum smtp_reply_result read_reply_line(struct smtp_reply *r, struct slice line)
{
    if (line.len < 3 || line.data[0] < '2' || line.data[0] > '5' || !is_reply_digit(line.data[1]) ||
        !is_reply_digit(line.data[2]) ||
        (line.len > 3 && line.data[3] != ' ' && line.data[3] != '-')) {
        return bad(r, "not an SMTP reply");
    }
    if (r->line_count == SMTP_REPLY_LINES_MAX) {
        return bad(r, "a reply of too many lines");
    }
    unsigned code = (unsigned)(line.data[0] - '0') * 100 + (unsigned)(line.data[1] - '0') * 10 +
                    (unsigned)(line.data[2] - '0');
    r->line = line.len > 4 ? slice_from(line, 4) : SLICE("");
    add_line(r, (uint16_t)code, slice_to(line, 3));
    if (r->text.failed) {
        return bad(r, "out of memory");
    }
    if (line.len > 3 && line.data[3] == '-') {
        return SMTP_REPLY_LINE;
    }
    r->is_done = true;
    if (!r->has_status || r->status.text[0] != '0' + r->code / 100) {
        r->status = (struct outcome_status){{(char)('0' + r->code / 100), '.', '0', '.', '0'}};
    }
    return SMTP_REPLY_DONE;
}

/* Note bytes of a line that goes on beyond them. Keeps one byte more than a line may have, so that
 * a CR behind the longest line is seen as its end. */
static void keep_partial(struct smtp_reply *r, struct slice part)
{
    size_t room = SMTP_REPLY_LINE_MAX + 1 - r->partial.len;
    buf_append_slice(&r->partial, slice_to(part, part.len < room ? part.len : room));
    if (part.len > 0) {
        r->ends_cr = part.data[part.len - 1] == '\r';
    }
    r->line_bytes += part.len;
}

enum smtp_reply_result smtp_reply_feed(struct smtp_reply *r, struct slice *in)
{
    if (r->problem != NULL) {
        return SMTP_REPLY_BAD;
    }
    if (r->is_line_given) {
        buf_clear(&r->partial);
        r->line_bytes = 0;
        r->ends_cr = false;
        r->is_line_given = false;
    }
    size_t lf = slice_find(*in, '\n');
    bool is_whole = lf < in->len;
    struct slice part = slice_to(*in, lf);
    r->bytes += lf + (is_whole ? 1 : 0);
    *in = slice_from(*in, lf + (is_whole ? 1 : 0));
    if (r->bytes > SMTP_REPLY_BYTES_MAX) {
        return bad(r, "a reply of too many bytes");
    }
    struct slice line = part;
    if (!is_whole || r->line_bytes > 0) {
        keep_partial(r, part);
        line = buf_slice(&r->partial);
    } else {
        r->line_bytes = part.len;
        r->ends_cr = part.len > 0 && part.data[part.len - 1] == '\r';
    }
    if (r->partial.failed) {
        return bad(r, "out of memory");
    }
    if (!is_whole) {
        return SMTP_REPLY_MORE;
    }
    size_t len = r->line_bytes - (r->ends_cr ? 1 : 0);
    line.len = len < SMTP_REPLY_LINE_MAX ? len : SMTP_REPLY_LINE_MAX;
    r->has_bare_lf = r->has_bare_lf || !r->ends_cr;
    r->is_line_given = true;
    return read_reply_line(r, line);
}
