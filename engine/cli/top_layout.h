/* How text and tables fit into the columns of a terminal. Pure but for the locale, which says how
 * wide a character is. */
#ifndef ENGINE_TOP_LAYOUT_H
#define ENGINE_TOP_LAYOUT_H

#include "base/attr.h"
#include "engine/cli/top_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

#define TOP_WIDTH_MAX 500 /* columns that are used of a terminal */

/* Take characters from the start of a text as long as they fit: nothing that a terminal obeys or
 * that takes no room of its own, '?' for what it cannot show.
 *
 * text      in/out, UTF-8; afterwards what did not fit
 * width     at most TOP_WIDTH_MAX
 * has_lines lines are made: ends at a line feed, which is taken, or behind the last space that is
 *           not too far from the end; else a line feed is a character as others
 * ret       [TOP_WIDTH_MAX + 1], ends with a 0
 * returns   columns that it takes */
int top_layout_take(const char **text, int width, bool has_lines, wchar_t *ret);
/* Columns that all of the text takes, at most TOP_WIDTH_MAX. */
int top_layout_width(const char *text);

/* How wide each column is to be: 0 where there is no room for it. Two spaces stand between two.
 *
 * count    columns that the view has, or one more
 * natural  [count] what their cells would like
 * ret      [count] sums up to at most `width` with the spaces, unless one column alone is wider
 */
void top_layout_columns(enum top_view view, size_t count, const int *natural, int width, int *ret);

#endif
