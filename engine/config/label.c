/* Owns what a tenant's or campaign's name may be, and how it is found in a header. Called by the
 * reception, by compose.c and by the check of the configuration; reads nothing outside its slice.
 */
#include "engine/config/label.h"

bool label_is_valid(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= 32 || text.data[i] > 126) {
            return false;
        }
    }
    return text.len > 0 && text.len <= LABEL_MAX;
}

void label_set(struct label *label, struct slice text)
{
    label->len = 0;
    if (label_is_valid(text)) {
        memcpy(label->text, text.data, text.len);
        label->len = text.len;
    }
}

bool label_is_field_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] <= 32 || name.data[i] > 126 || name.data[i] == ':') {
            return false;
        }
    }
    return name.len > 0 && name.len <= LABEL_FIELD_MAX;
}

static bool is_label_white(char c)
{
    return c == ' ' || c == '\t';
}

/* Bytes of the first line with its LF; 0 when the content ends before. */
static size_t line_len(struct slice content)
{
    size_t at = slice_find(content, '\n');
    return at == content.len ? 0 : at + 1;
}

/* Whether the line is of this field, as far as header_filter takes it out; *ret_value: where its
 * value begins. */
static bool is_field(struct slice line, struct slice name, size_t *ret_value)
{
    if (line.len <= name.len || !slice_ieq(slice_to(line, name.len), name)) {
        return false;
    }
    size_t at = name.len;
    while (at < line.len && is_label_white(line.data[at])) {
        at++;
    }
    *ret_value = at + 1;
    return at <= name.len + LABEL_WHITE_MAX && at < line.len && line.data[at] == ':';
}

/* Bytes of the field at the start of the content, its folded lines included; 0: it is cut off. */
static size_t field_len(struct slice content)
{
    size_t len = line_len(content);
    while (len > 0 && len < content.len && is_label_white(content.data[len])) {
        size_t more = line_len(slice_from(content, len));
        len = more == 0 ? 0 : len + more;
    }
    return len;
}

bool label_find(struct slice content, struct slice name, struct label *ret)
{
    ret->len = 0;
    for (;;) {
        size_t value, len = line_len(content);
        if (len == 0 || content.data[0] == '\r') {
            return true; /* the header ended */
        }
        if (is_field(slice_to(content, len), name, &value)) {
            len = field_len(content);
            if (len > 0) {
                /* What is folded within the value has white space there, which no label has. */
                label_set(ret, slice_trim(slice_make(content.data + value, len - value)));
            }
            return len == 0 || ret->len > 0;
        }
        content = slice_from(content, len);
    }
}

bool label_says(struct slice content, struct slice name, struct slice word)
{
    struct label label = {.len = 0};
    return label_find(content, name, &label) && slice_ieq(label_slice(&label), word);
}

bool label_is_unsubscribe(struct slice local)
{
    static const struct slice words[] = {SLICE("unsubscribe"), SLICE("unsub"), SLICE("optout"),
                                         SLICE("opt-out"), SLICE("leave")};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t len = words[i].len;
        if (local.len >= len && slice_ieq(slice_to(local, len), words[i]) &&
            (local.len == len || memchr("+-=", local.data[len], 3) != NULL)) {
            return true;
        }
    }
    return false;
}
