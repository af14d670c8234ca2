/* Owns how a header field is laid out in lines. Called by compose.c and mime_body.c; knows nothing
 * of messages, and never writes a line end that is not followed by white space but the last. */
#include "engine/compose/mime_field.h"

#include "net/base64.h"

#include <stdint.h>

enum {
    LINE_BEST = 76,     /* RFC 2047 2, RFC 5322 2.1.1 */
    ENCODED_MAX = 75,   /* an encoded word with its frame */
    ENCODED_FRAME = 12, /* "=?utf-8?Q?" and "?=" */
    ENCODED_LEAST = 12, /* bytes of an encoded word for one character of four bytes in Q */
    PIECE_MAX = 60,     /* of a parameter's value */
};

bool mime_is_ascii(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] > 127) {
            return false;
        }
    }
    return true;
}

bool mime_is_field_value(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((c < 32 && c != '\t') || c == 127) {
            return false;
        }
    }
    return true;
}

static bool is_field_white(char c)
{
    return c == ' ' || c == '\t';
}

bool mime_has_long_word(struct slice text)
{
    size_t run = 0;
    for (size_t i = 0; i < text.len && run <= MIME_FIELD_WORD_MAX; i++) {
        run = is_field_white(text.data[i]) ? 0 : run + 1;
    }
    return run > MIME_FIELD_WORD_MAX;
}

bool mime_is_field_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] <= 32 || name.data[i] >= 127 || name.data[i] == ':') {
            return false;
        }
    }
    return name.len > 0 && name.len <= MIME_FIELD_NAME_MAX;
}

/* --- lines ------------------------------------------------------------------------------------ */

void mime_field_begin(struct mime_field *f, struct buf *out, struct slice name)
{
    *f = (struct mime_field){.out = out, .column = name.len + 1};
    buf_append_slice(out, name);
    buf_append_char(out, ':');
}

void mime_field_end(struct mime_field *f)
{
    buf_append_str(f->out, "\r\n");
}

static void put_field_text(struct mime_field *f, struct slice text)
{
    buf_append_slice(f->out, text);
    f->column += text.len;
}

static void fold(struct mime_field *f)
{
    buf_append_str(f->out, "\r\n");
    f->column = 0;
}

/* A word behind its white space, which a fold keeps. */
static void put_word(struct mime_field *f, struct slice gap, struct slice word, bool may_fold)
{
    bool is_crowded = f->column + gap.len + word.len > LINE_BEST;
    if (gap.len > MIME_FIELD_WORD_MAX / 16) {
        gap = SLICE(" "); /* white space alone must not make a line too long */
    }
    if (is_crowded && may_fold && f->column > 0) {
        fold(f);
    }
    put_field_text(f, gap);
    put_field_text(f, word);
}

void mime_field_words(struct mime_field *f, struct slice text)
{
    bool is_first = true;
    text = slice_trim(text);
    while (text.len > 0) {
        size_t gap = 0, word;
        while (gap < text.len && is_field_white(text.data[gap])) {
            gap++;
        }
        for (word = gap; word < text.len && !is_field_white(text.data[word]);) {
            word++;
        }
        struct slice part = slice_make(text.data + gap, word - gap);
        /* The first word stays beside the name: some readers take an empty first line badly. */
        put_word(f, is_first ? SLICE(" ") : slice_to(text, gap), part, !is_first);
        text = slice_from(text, word);
        is_first = false;
    }
}

/* --- encoded words ---------------------------------------------------------------------------- */

/* RFC 2047 5 (3): what a phrase may have, which is safe everywhere. */
static bool is_plain_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '!' ||
           c == '*' || c == '+' || c == '-' || c == '/';
}

/* Bytes of the UTF-8 character at the start. */
static size_t character(struct slice text)
{
    size_t len = 1;
    while (len < text.len && len < 4 && ((unsigned char)text.data[len] & 0xc0) == 0x80) {
        len++;
    }
    return (unsigned char)text.data[0] < 0x80 ? 1 : len;
}

static size_t cost_by_q(struct slice text)
{
    size_t cost = 0;
    for (size_t i = 0; i < text.len; i++) {
        cost += is_plain_char(text.data[i]) || text.data[i] == ' ' ? 1 : 3;
    }
    return cost;
}

static void put_by_q(struct buf *out, struct slice text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == ' ') {
            buf_append_char(out, '_');
        } else if (is_plain_char((char)c)) {
            buf_append_char(out, (char)c);
        } else {
            const char hex[3] = {'=', digits[c >> 4], digits[c & 15]};
            buf_append(out, hex, sizeof(hex));
        }
    }
}

/* Take as many whole characters as fit into an encoded word of `room` bytes, at least one. */
static struct slice take_characters(struct slice text, size_t room, bool is_by_q)
{
    size_t len = 0, used = 0;
    while (len < text.len) {
        size_t more = character(slice_from(text, len));
        used = is_by_q ? used + cost_by_q(slice_make(text.data + len, more))
                       : BASE64_ENCODED_LEN(len + more);
        if (used > room && len > 0) {
            break;
        }
        len += more;
    }
    return slice_to(text, len);
}

static void put_encoded(struct mime_field *f, struct slice text)
{
    char base64[BASE64_ENCODED_LEN(ENCODED_MAX)];
    /* Q can be read as it is: it may cost something. */
    bool is_by_q = cost_by_q(text) <= BASE64_ENCODED_LEN(text.len) * 3 / 2;
    while (text.len > 0) {
        size_t taken = f->column + 1 + ENCODED_FRAME;
        if (taken + ENCODED_LEAST > LINE_BEST) {
            fold(f);
            taken = 1 + ENCODED_FRAME;
        }
        struct slice piece = take_characters(text, LINE_BEST - taken, is_by_q);
        size_t before = f->out->len;
        buf_append_str(f->out, is_by_q ? " =?utf-8?Q?" : " =?utf-8?B?");
        if (is_by_q) {
            put_by_q(f->out, piece);
        } else {
            buf_append(f->out, base64, base64_encode(piece, base64));
        }
        buf_append_str(f->out, "?=");
        f->column += f->out->len - before;
        text = slice_from(text, piece.len);
        if (text.len > 0) {
            fold(f); /* white space between two encoded words is none */
        }
    }
}

void mime_field_text(struct mime_field *f, struct slice text)
{
    text = slice_trim(text);
    if (mime_is_ascii(text)) {
        mime_field_words(f, text);
    } else {
        put_encoded(f, text);
    }
}

/* --- mailboxes -------------------------------------------------------------------------------- */

static bool is_phrase(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        bool is_atom = is_plain_char(c) || (c != '\0' && strchr("#$%&'=?^_`{|}~", c) != NULL);
        if (!is_atom && c != ' ') {
            return false;
        }
    }
    return true;
}

static void put_quoted(struct buf *out, struct slice text)
{
    buf_append_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\') {
            buf_append_char(out, '\\');
        }
        buf_append_char(out, text.data[i]);
    }
    buf_append_char(out, '"');
}

static void put_name(struct mime_field *f, struct slice name)
{
    if (!mime_is_ascii(name)) {
        put_encoded(f, name);
        return;
    }
    /* An encoded word of the caller's stays one. */
    bool is_bare = is_phrase(name);
    struct buf quoted;
    buf_init(&quoted, 0);
    if (!is_bare) {
        put_quoted(&quoted, name);
        name = buf_slice(&quoted);
    }
    if (quoted.failed) {
        f->out->failed = true;
    } else {
        /* The second of several begins a line, or has its gap. */
        mime_field_words(f, name);
    }
    buf_fini(&quoted);
}

void mime_field_mailbox(struct mime_field *f, struct slice name, struct slice address)
{
    name = slice_trim(name);
    size_t least = name.len < LINE_BEST / 2 ? name.len : LINE_BEST / 2;
    if (f->column + least + address.len > LINE_BEST && f->out->len > 0 &&
        f->out->data[f->out->len - 1] == ',') {
        fold(f);
    }
    if (name.len == 0) {
        put_word(f, SLICE(" "), address, false);
        return;
    }
    put_name(f, name);
    if (f->column + address.len + 3 > LINE_BEST) {
        fold(f);
    }
    put_field_text(f, SLICE(" <"));
    put_field_text(f, address);
    put_field_text(f, SLICE(">"));
}

/* --- parameters ------------------------------------------------------------------------------- */

static bool is_attribute_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
}

static void put_percent(struct buf *out, struct slice text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        const char hex[3] = {'%', digits[c >> 4], digits[c & 15]};
        buf_append(out, is_attribute_char(c) ? text.data + i : hex, is_attribute_char(c) ? 1 : 3);
    }
}

/* As much of the value as a line takes, whole characters. */
static struct slice take_percent(struct slice value)
{
    size_t len = 0, used = 0;
    while (len < value.len) {
        size_t more = character(slice_from(value, len));
        for (size_t i = len; i < len + more; i++) {
            used += is_attribute_char((unsigned char)value.data[i]) ? 1 : 3;
        }
        if (used > PIECE_MAX - 10) {
            break;
        }
        len += more;
    }
    return slice_to(value, len);
}

void mime_field_parameter(struct mime_field *f, const char *name, struct slice value)
{
    if (mime_is_ascii(value) && value.len <= PIECE_MAX) {
        buf_printf(f->out, ";\r\n %s=", name);
        put_quoted(f->out, value);
        return;
    }
    bool is_whole = take_percent(value).len == value.len;
    for (unsigned i = 0; value.len > 0; i++) {
        struct slice piece = take_percent(value);
        if (is_whole) {
            buf_printf(f->out, ";\r\n %s*=utf-8''", name);
        } else {
            buf_printf(f->out, ";\r\n %s*%u*=%s", name, i, i == 0 ? "utf-8''" : "");
        }
        put_percent(f->out, piece);
        value = slice_from(value, piece.len);
    }
}
