/* Finds fields and writes them in canonical form.
 * Called by dkim_signature.c. Must not change or keep what it is given. */
#include "net/dkim/dkim_header.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The next line without its CRLF; *text is moved behind it. A line may also end with the text. */
static struct slice take_line(struct slice *text)
{
    size_t len = 0;
    while (len < text->len) {
        len += slice_find(slice_from(*text, len), '\n');
        if (len == text->len || (len > 0 && text->data[len - 1] == '\r')) {
            break;
        }
        len++; /* a LF alone is a byte of the line */
    }
    bool has_end = len < text->len;
    struct slice line = slice_to(*text, has_end ? len - 1 : len);
    *text = slice_from(*text, has_end ? len + 1 : len);
    return line;
}

/* RFC 5322 section 2.2: a name is of printable ASCII. 0: the line begins no field. */
static size_t name_len(struct slice line)
{
    size_t colon = slice_find(line, ':');
    if (colon == line.len) {
        return 0;
    }
    while (colon > 0 && dkim_is_blank(line.data[colon - 1])) {
        colon--;
    }
    for (size_t i = 0; i < colon; i++) {
        if (line.data[i] <= ' ' || line.data[i] > '~') {
            return 0;
        }
    }
    return colon;
}

static int add_field(struct dkim_header *h, size_t *capacity, struct slice line, size_t len)
{
    if (h->count == DKIM_FIELDS_MAX) {
        return ERR_LIMIT;
    }
    if (h->count == *capacity) {
        size_t more = *capacity == 0 ? 32 : *capacity * 2;
        struct dkim_field *grown = reallocarray(h->fields, more, sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        h->fields = grown;
        *capacity = more;
    }
    h->fields[h->count++] = (struct dkim_field){line, len};
    h->kinds |= dkim_name_kind(slice_to(line, len));
    return 0;
}

int dkim_header_parse(struct slice text, struct dkim_header *ret)
{
    struct dkim_header h = {0};
    size_t capacity = 0;
    bool continues = false; /* the line before belongs to a field, which this one may go on */
    int err = 0;
    while (text.len > 0 && err == 0) {
        struct slice line = take_line(&text);
        if (line.len == 0) {
            break; /* the body follows */
        }
        if (dkim_is_blank(line.data[0])) {
            h.has_stray |= !continues;
            if (continues) {
                struct slice *whole = &h.fields[h.count - 1].text;
                whole->len = (size_t)(line.data + line.len - whole->data);
            }
            continue;
        }
        size_t len = name_len(line);
        continues = len > 0;
        h.has_stray |= !continues;
        if (continues) {
            err = add_field(&h, &capacity, line, len);
        }
    }
    if (err != 0) {
        dkim_header_fini(&h);
        return err;
    }
    *ret = h;
    return 0;
}

void dkim_header_fini(struct dkim_header *h)
{
    free(h->fields);
    *h = (struct dkim_header){.fields = NULL};
}

static bool is_called(const struct dkim_field *field, struct slice name)
{
    return dkim_is_same_name(slice_to(field->text, field->name_len), name);
}

size_t dkim_header_count(const struct dkim_header *h, struct slice name)
{
    size_t count = 0;
    for (size_t i = 0; i < h->count && dkim_header_may_have(h, name); i++) {
        count += is_called(&h->fields[i], name);
    }
    return count;
}

size_t dkim_header_find_above(const struct dkim_header *h, struct slice name, size_t below)
{
    for (size_t i = below; i > 0 && dkim_header_may_have(h, name); i--) {
        if (is_called(&h->fields[i - 1], name)) {
            return i - 1;
        }
    }
    return DKIM_NO_FIELD;
}

/* Section 3.4.2: folds are taken away, white space becomes one space, and none is left at both ends
 * of the value. The CRLF of a fold is always before white space. */
static void put_relaxed_value(struct slice value, struct buf *out)
{
    char *to = buf_reserve(out, value.len); /* it becomes no longer */
    bool has_space = false;
    size_t len = 0;
    for (size_t i = 0; to != NULL && i < value.len; i++) {
        char c = value.data[i];
        if (dkim_is_blank(c)) {
            has_space = len > 0;
        } else if (c == '\r' && i + 1 < value.len && value.data[i + 1] == '\n') {
            i++;
        } else {
            if (has_space) {
                to[len++] = ' ';
                has_space = false;
            }
            size_t run = dkim_plain_len(slice_from(value, i));
            memcpy(to + len, value.data + i, run);
            len += run;
            i += run - 1;
        }
    }
    out->len += len;
}

void dkim_field_put(const struct dkim_field *field, enum dkim_canon canon, struct buf *out)
{
    if (canon == DKIM_SIMPLE) {
        buf_append_slice(out, field->text);
        return;
    }
    char *name = buf_reserve(out, field->name_len);
    if (name == NULL) {
        return;
    }
    slice_lower(slice_to(field->text, field->name_len), name);
    out->len += field->name_len;
    buf_append_char(out, ':');
    struct slice rest = slice_from(field->text, field->name_len);
    put_relaxed_value(slice_from(rest, slice_find(rest, ':') + 1), out);
}
