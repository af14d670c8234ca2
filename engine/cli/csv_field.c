/* Takes rows of CSV apart. Called by cli_unknown.c; must not know what columns mean. */
#include "engine/cli/csv_field.h"

bool csv_field_is_open(struct slice text)
{
    bool is_open = false;
    for (size_t i = 0; i < text.len; i++) {
        is_open ^= text.data[i] == '"'; /* two quotes in a field open it again */
    }
    return is_open;
}

bool csv_field_next(struct slice *rest, struct buf *out)
{
    struct slice s = *rest;
    size_t at = 0;
    buf_clear(out);
    if (s.data == NULL) {
        return false;
    }
    if (s.len > 0 && s.data[0] == '"') {
        for (at = 1; at < s.len; at++) {
            bool is_quote = s.data[at] == '"';
            if (is_quote && (at + 1 == s.len || s.data[at + 1] != '"')) {
                break;
            }
            at += is_quote;
            buf_append_char(out, s.data[at]);
        }
        if (at == s.len || (at + 1 < s.len && s.data[at + 1] != ',')) {
            return false;
        }
        at++;
    } else {
        at = slice_find(s, ',');
        buf_append_slice(out, slice_to(s, at));
    }
    *rest = at < s.len ? slice_from(s, at + 1) : slice_make(NULL, 0);
    return true;
}
