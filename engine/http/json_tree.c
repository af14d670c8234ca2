/* The reader of JSON bodies: one pass, a stack of the containers that are open. Called by api_body.c.
 * Must refuse whatever it is not sure of. */
#include "engine/http/json_tree.h"

#include "base/buf.h"

#include <string.h>

enum {
    DEPTH_MAX = 16,
    /* Of an object. A million of them take most of a second, and what is wrong behind them would
     * take libjansson another. */
    MEMBERS_MAX = 1000,
};

struct json_reader {
    struct slice text;
    size_t at;
    json_t *root;            /* owns all that was read */
    json_t *open[DEPTH_MAX]; /* containers whose end has not come, outermost first; not owned */
    size_t depth;
    struct slice name;    /* of the member whose value comes next; of the text */
    struct buf unescaped; /* a string that has escapes */
};

static void skip_space(struct json_reader *r)
{
    while (r->at < r->text.len && (r->text.data[r->at] == ' ' || r->text.data[r->at] == '\n' ||
                                   r->text.data[r->at] == '\t' || r->text.data[r->at] == '\r')) {
        r->at++;
    }
}

/* Behind white space. '\0': the text ends, or has a NUL, which is wrong everywhere. */
static char next_char(struct json_reader *r)
{
    skip_space(r);
    return r->at < r->text.len ? r->text.data[r->at] : '\0';
}

/* --- strings ---------------------------------------------------------------------------------- */

#define EACH(byte) (~(uint64_t)0 / 255 * (unsigned char)(byte))

/* Some flag, when a byte of the word is below n (at most 128). */
static uint64_t has_below(uint64_t word, char n)
{
    return (word - EACH(n)) & ~word & EACH(0x80);
}

/* Bytes at the start that stand for themselves in a string. Adds those above 127 to *seen. */
static size_t plain_span(struct slice s, uint64_t *seen)
{
    size_t at = 0;
    for (uint64_t word; s.len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, s.data + at, sizeof(word));
        if ((has_below(word, ' ') | has_below(word ^ EACH('"'), 1) |
             has_below(word ^ EACH('\\'), 1)) != 0) {
            break; /* in one of these bytes */
        }
        *seen |= word;
    }
    for (; at < s.len; at++) {
        unsigned char c = (unsigned char)s.data[at];
        if (c < ' ' || c == '"' || c == '\\') {
            break;
        }
        *seen |= c;
    }
    return at;
}

/* returns: false when these are not four hexadecimal digits */
static bool take_hex(struct slice s, unsigned *ret)
{
    unsigned value = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = i < s.len ? s.data[i] : '\0';
        char lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9') {
            value = value * 16 + (unsigned)(c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = value * 16 + (unsigned)(lower - 'a') + 10;
        } else {
            return false;
        }
    }
    *ret = value;
    return true;
}

static void put_utf8(struct buf *out, unsigned point)
{
    char bytes[4];
    size_t len = 0;
    if (point < 0x80) {
        bytes[len++] = (char)point;
    } else if (point < 0x800) {
        bytes[len++] = (char)(0xc0 | point >> 6);
    } else if (point < 0x10000) {
        bytes[len++] = (char)(0xe0 | point >> 12);
        bytes[len++] = (char)(0x80 | (point >> 6 & 0x3f));
    } else {
        bytes[len++] = (char)(0xf0 | point >> 18);
        bytes[len++] = (char)(0x80 | (point >> 12 & 0x3f));
        bytes[len++] = (char)(0x80 | (point >> 6 & 0x3f));
    }
    if (point >= 0x80) {
        bytes[len++] = (char)(0x80 | (point & 0x3f));
    }
    buf_append(out, bytes, len);
}

/* What stands behind "\u", of two escapes where the first is one half of a pair. NUL is refused, as
 * libjansson does. */
static bool take_unicode(struct json_reader *r)
{
    unsigned point, low;
    if (!take_hex(slice_from(r->text, r->at), &point) || point == 0) {
        return false;
    }
    r->at += 4;
    if (point >= 0xd800 && point <= 0xdfff) {
        struct slice rest = slice_from(r->text, r->at);
        if (point >= 0xdc00 || rest.len < 6 || rest.data[0] != '\\' || rest.data[1] != 'u' ||
            !take_hex(slice_from(rest, 2), &low) || low < 0xdc00 || low > 0xdfff) {
            return false;
        }
        r->at += 6;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    put_utf8(&r->unescaped, point);
    return true;
}

/* At a backslash. */
static bool take_escape(struct json_reader *r)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = r->at + 1 < r->text.len ? r->text.data[r->at + 1] : '\0';
    const char *known = c == '\0' ? NULL : strchr(names, c);
    r->at += 2;
    if (known != NULL) {
        buf_append_char(&r->unescaped, meanings[known - names]);
        return true;
    }
    return c == 'u' && take_unicode(r);
}

/* Behind the opening quote. NULL: it is no string, or memory is short. */
static json_t *take_string(struct json_reader *r)
{
    uint64_t seen = 0;
    struct slice part;
    buf_clear(&r->unescaped);
    for (;;) {
        part = slice_from(r->text, r->at);
        part.len = plain_span(part, &seen);
        r->at += part.len;
        if (r->at == r->text.len || (unsigned char)r->text.data[r->at] < ' ') {
            return NULL;
        }
        if (r->text.data[r->at] == '"') {
            break;
        }
        buf_append_slice(&r->unescaped, part);
        if (!take_escape(r)) {
            return NULL;
        }
    }
    r->at++;
    if (r->unescaped.len > 0 || r->unescaped.failed) {
        buf_append_slice(&r->unescaped, part);
        part = buf_slice(&r->unescaped);
    }
    if (r->unescaped.failed) {
        return NULL;
    }
    /* Escapes make valid UTF-8, beside anything that is valid. */
    return (seen & EACH(0x80)) == 0 ? json_stringn_nocheck(part.data, part.len)
                                    : json_stringn(part.data, part.len);
}

/* --- values ----------------------------------------------------------------------------------- */

/* A number, or a word, as libjansson takes it. NULL: neither. */
static json_t *take_word(struct json_reader *r)
{
    size_t begin = r->at;
    while (r->at < r->text.len && strchr("+-.0123456789Eaeflnrstu", r->text.data[r->at]) != NULL &&
           r->text.data[r->at] != '\0') {
        r->at++;
    }
    return json_loadb(r->text.data + begin, r->at - begin, JSON_DECODE_ANY, NULL);
}

/* Puts the value where it belongs; takes the reference. */
static bool attach(struct json_reader *r, json_t *value)
{
    json_t *to = r->depth > 0 ? r->open[r->depth - 1] : NULL;
    if (to == NULL) {
        r->root = value;
        return value != NULL;
    }
    if (json_is_array(to)) {
        return json_array_append_new(to, value) == 0;
    }
    if (json_object_size(to) == MEMBERS_MAX ||
        json_object_getn(to, r->name.data, r->name.len) != NULL) {
        json_decref(value);
        return false; /* too many, or the second of this name */
    }
    return json_object_setn_new_nocheck(to, r->name.data, r->name.len, value) == 0;
}

/* At the name of a member: up to its value. */
static bool take_name(struct json_reader *r)
{
    uint64_t seen = 0;
    if (next_char(r) != '"') {
        return false;
    }
    r->name = slice_from(r->text, ++r->at);
    r->name.len = plain_span(r->name, &seen);
    r->at += r->name.len;
    if (r->at == r->text.len || r->text.data[r->at] != '"' || (seen & EACH(0x80)) != 0) {
        return false;
    }
    r->at++;
    if (next_char(r) != ':') {
        return false;
    }
    r->at++;
    return true;
}

/* At the opening bracket. */
static bool open_container(struct json_reader *r, bool is_object)
{
    json_t *made = NULL;
    if (r->depth < DEPTH_MAX) {
        made = is_object ? json_object() : json_array();
    }
    if (made == NULL || !attach(r, made)) {
        return false;
    }
    r->open[r->depth++] = made;
    r->at++;
    return true;
}

/* Behind a value: ends the containers that end here, and goes to the next value. */
static bool go_to_next(struct json_reader *r)
{
    while (r->depth > 0) {
        bool is_object = json_is_object(r->open[r->depth - 1]);
        char c = next_char(r);
        r->at++;
        if (c == ',') {
            return !is_object || take_name(r);
        }
        if (c != (is_object ? '}' : ']')) {
            return false;
        }
        r->depth--;
    }
    return true;
}

/* One value, with whatever it opens and ends. */
static bool take_value(struct json_reader *r)
{
    char c = next_char(r);
    if (c == '{' || c == '[') {
        bool is_object = c == '{';
        if (!open_container(r, is_object)) {
            return false;
        }
        if (next_char(r) != (is_object ? '}' : ']')) {
            return !is_object || take_name(r);
        }
        return go_to_next(r);
    }
    if (c == '"') {
        r->at++;
        return attach(r, take_string(r)) && go_to_next(r);
    }
    return attach(r, take_word(r)) && go_to_next(r);
}

json_t *json_tree_read(struct slice text)
{
    struct json_reader r = {.text = text};
    buf_init(&r.unescaped, 0);
    bool is_right = next_char(&r) == '{';
    while (is_right && (r.root == NULL || r.depth > 0)) {
        is_right = take_value(&r);
    }
    skip_space(&r);
    buf_fini(&r.unescaped);
    if (!is_right || r.at != text.len) {
        json_decref(r.root);
        return NULL;
    }
    return r.root;
}
