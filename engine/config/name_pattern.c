/* Owns the syntax of patterns of names and what they stand for. Called by the values of options and by
 * the table of providers; must not know either. */
#include "engine/config/name_pattern.h"

#include <stddef.h>

enum { LABEL_BYTES_MAX = 63, NAME_BYTES_MAX = 253 }; /* RFC 1035 section 2.3.4, without the root */

struct slice name_pattern_without_root(struct slice name)
{
    return name.len > 0 && name.data[name.len - 1] == '.' ? slice_to(name, name.len - 1) : name;
}

struct name_pattern name_pattern_of(struct slice text)
{
    struct name_pattern p = {.rest = name_pattern_without_root(text)};
    while (p.rest.len >= 2 && p.rest.data[0] == '*' && p.rest.data[1] == '.') {
        p.stars++;
        p.rest = slice_from(p.rest, 2);
    }
    return p;
}

/* Remove the first label and its dot. returns false when there is no other label behind it */
bool name_pattern_skip_label(struct slice *name)
{
    size_t dot = slice_find(*name, '.');
    if (dot == 0 || dot + 1 >= name->len) {
        return false;
    }
    *name = slice_from(*name, dot + 1);
    return true;
}

static bool is_label_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool name_pattern_is_valid(struct slice text)
{
    struct slice rest = name_pattern_of(text).rest;
    size_t label = 0;
    for (size_t i = 0; i < rest.len; i++) {
        if (rest.data[i] == '.' ? label == 0 : !is_label_byte(rest.data[i])) {
            return false;
        }
        label = rest.data[i] == '.' ? 0 : label + 1;
        if (label > LABEL_BYTES_MAX) {
            return false;
        }
    }
    return label > 0 && text.len <= NAME_BYTES_MAX;
}

bool name_pattern_matches(struct slice pattern, struct slice name)
{
    struct name_pattern p = name_pattern_of(pattern);
    name = name_pattern_without_root(name);
    for (unsigned i = 0; i < p.stars; i++) {
        if (!name_pattern_skip_label(&name)) {
            return false;
        }
    }
    return slice_ieq(p.rest, name);
}

bool name_pattern_meets(struct slice a, struct slice b)
{
    struct name_pattern x = name_pattern_of(a);
    struct name_pattern y = name_pattern_of(b);
    /* A star of one stands for a star or a label of the other, as both count labels alike. */
    unsigned x_stars = x.stars;
    unsigned y_stars = y.stars;
    while (x_stars < y_stars && name_pattern_skip_label(&x.rest)) {
        x_stars++;
    }
    while (y_stars < x_stars && name_pattern_skip_label(&y.rest)) {
        y_stars++;
    }
    return x_stars == y_stars && slice_ieq(x.rest, y.rest);
}

int name_pattern_compare(const struct name_pattern *a, const struct name_pattern *b)
{
    if (a->stars != b->stars) {
        return a->stars < b->stars ? -1 : 1;
    }
    if (a->rest.len != b->rest.len) {
        return a->rest.len < b->rest.len ? -1 : 1;
    }
    for (size_t i = 0; i < a->rest.len; i++) {
        char x, y;
        slice_lower(slice_make(a->rest.data + i, 1), &x);
        slice_lower(slice_make(b->rest.data + i, 1), &y);
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return 0;
}
