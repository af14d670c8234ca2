/* Cuts text and shares out the width of a terminal. Called by top_screen.c and top_detail.c; prints
 * nothing. */
#include "engine/cli/top_layout.h"

#include "base/utf8.h"
#include "engine/cli/cli_table.h"

#include <assert.h>
#include <string.h>

enum {
    GAP = 2,
    NAME_MIN = 16,   /* columns that a name keeps while other columns are shown */
    REASON_MIN = 14, /* columns that an explaining text keeps meanwhile */
    CAUSE_MIN = 26,  /* columns that a reply keeps */
};

/* --- text ------------------------------------------------------------------------------------- */

/* The next character as it may be shown. returns its bytes */
static size_t next(const unsigned char *p, wchar_t *ret, int *ret_width)
{
    const char *text = (const char *)p;
    size_t len = cli_danger_length(p);
    uint32_t c = L'?';
    if (len == 0) {
        len = utf8_decode(slice_make(text, strnlen(text, UTF8_LENGTH_MAX)), &c);
        len = len == 0 ? 1 : len;
    }
    *ret = (wchar_t)c;
    *ret_width = wcwidth(*ret);
    if (*ret_width < 0) { /* no such character, or none of this locale */
        *ret = L'?';
        *ret_width = 1;
    }
    return len;
}

int top_layout_take(const char **text, int width, bool has_lines, wchar_t *ret)
{
    const unsigned char *p = (const unsigned char *)*text;
    struct {
        const unsigned char *p;
        int used;
        size_t count;
    } word = {NULL, 0, 0}; /* where the last whole word begins */
    int used = 0;
    size_t count = 0;
    assert(width <= TOP_WIDTH_MAX);
    while (*p != '\0') {
        wchar_t c;
        int columns;
        if (has_lines && *p == '\n') {
            p++;
            break;
        }
        size_t len = next(p, &c, &columns);
        if (used + columns > width) {
            if (has_lines && word.p != NULL && word.used * 2 > width) {
                p = word.p;
                used = word.used;
                count = word.count;
            }
            break;
        }
        if (columns > 0) { /* what has no width could be stacked without end */
            ret[count++] = c;
        }
        used += columns;
        p += len;
        if (c == L' ') {
            word.p = p;
            word.used = used;
            word.count = count;
        }
    }
    ret[count] = L'\0';
    *text = (const char *)p;
    return used;
}

int top_layout_width(const char *text)
{
    wchar_t ignored[TOP_WIDTH_MAX + 1];
    return top_layout_take(&text, TOP_WIDTH_MAX, false, ignored);
}

/* --- columns ---------------------------------------------------------------------------------- */

static int total(const int *widths, size_t count)
{
    int sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += widths[i] == 0 ? 0 : widths[i] + GAP;
    }
    return sum - GAP;
}

/* How narrow a column may become before others have to go; 0: it keeps its width. */
static int least_width(const struct top_column *c)
{
    if (c->kind == TOP_NAME || c->kind == TOP_SELECTORS || c->kind == TOP_SITE) {
        return NAME_MIN;
    }
    if (c->kind == TOP_CAUSE) {
        return CAUSE_MIN;
    }
    return c->kind == TOP_REASON || c->kind == TOP_BAR ? REASON_MIN : 0;
}

/* Take what is too much from those that may shrink, the last first. */
static void shrink(const struct top_column *columns, size_t count, int width, int *widths)
{
    for (size_t i = count; i-- > 0;) {
        int excess = total(widths, count) - width, room = widths[i] - least_width(&columns[i]);
        if (least_width(&columns[i]) > 0 && room > 0 && excess > 0) {
            widths[i] -= excess < room ? excess : room;
        }
    }
}

void top_layout_columns(enum top_view view, size_t count, const int *natural, int width, int *ret)
{
    const struct top_column *columns = top_view_row(view)->columns;
    bool is_there[TOP_COLUMNS_MAX];
    for (size_t i = 0; i < count; i++) {
        is_there[i] = true;
    }
    for (;;) {
        size_t worst = count;
        for (size_t i = 0; i < count; i++) {
            ret[i] = is_there[i] ? natural[i] : 0;
            if (is_there[i] && columns[i].rank > 0 &&
                (worst == count || columns[i].rank > columns[worst].rank)) {
                worst = i;
            }
        }
        shrink(columns, count, width, ret);
        if (total(ret, count) <= width || worst == count) {
            break;
        }
        is_there[worst] = false;
    }
    for (size_t i = 0; i < count; i++) { /* a name alone */
        if (ret[i] > width) {
            ret[i] = width > 0 ? width : 0;
        }
    }
}
