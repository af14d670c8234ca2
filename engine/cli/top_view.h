/* What `sluice top` can show, as tables over the API's objects: their columns and what stands in a
 * cell. Pure; used by top_model.c, the screen and the snapshot. */
#ifndef ENGINE_TOP_VIEW_H
#define ENGINE_TOP_VIEW_H

#include "base/attr.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum top_view {
    TOP_DESTINATIONS,
    TOP_QUEUE, /* by destination or by tenant */
    TOP_AGES,
    TOP_TENANTS,
    TOP_RESPONSES,
    TOP_ORDERS,
    TOP_LANES,
    TOP_VIEW_COUNT
};

enum top_kind {
    TOP_TEXT,
    TOP_NAME, /* a text that may be empty, or of the row of others */
    TOP_NUMBER,
    TOP_SINCE,  /* how long ago a point in time was */
    TOP_SPAN,   /* seconds */
    TOP_WHEN,   /* "in 3m20s", "45s ago" */
    TOP_WINDOW, /* "busy/window" */
    TOP_STATE,  /* with the time until it ends */
    TOP_REASON, /* order, why and last error of a destination */
    TOP_SELECTORS,
    TOP_SITE,  /* its name, cut in the middle when it is long */
    TOP_PACE,  /* of a lane, the slowest */
    TOP_CAUSE, /* what makes a lane's state, and since when */
    TOP_BAR    /* a bar, as long as the row's share of the largest row */
};

enum top_tone { TOP_PLAIN, TOP_WARNING, TOP_ALARM };

struct top_column {
    const char *title;
    const char *member; /* of the object */
    enum top_kind kind;
    unsigned char rank; /* the highest goes first where there is no room; 0 stays */
};

struct top_view_row {
    const char *name;
    const char *order;                /* how the daemon sorts it */
    const char *empty;                /* what is shown in place of the table when it has no rows */
    const struct top_column *columns; /* ends with a NULL title */
    const char *about;                /* what the first column names: "destination", "tenant", "" */
};

#define TOP_CELL_TEXT   600
#define TOP_KEY_TEXT    600
#define TOP_COLUMNS_MAX 13

const struct top_view_row *top_view_row(enum top_view view) NONNULL_RET;
/* Those that it has of one node; behind them stands one more, whose the row is. */
size_t top_view_columns(enum top_view view);
bool top_column_is_number(const struct top_column *c); /* stands to the right, sorts downwards */

/* What the cells of a table are measured against: ages by the clock, bars by the largest row. */
struct top_scale {
    double now;  /* the daemon's clock, seconds */
    double most; /* the largest `recipients` of the table */
};
/* The text of a cell, as the daemon sent it: not safe for a terminal.  returns ret */
const char *top_cell_text(const struct top_column *c, const json_t *row,
                          const struct top_scale *scale, char ret[TOP_CELL_TEXT]);
/* Upwards: negative when a's cell comes before b's. */
int top_cell_compare(const struct top_column *c, const json_t *a, const json_t *b);

enum top_tone top_row_tone(enum top_view view, const json_t *row);
/* Something keeps its mail: dead, suspended, resolving, an order, or waiting with a reason. */
bool top_row_is_held(const json_t *destination);
/* What tells rows apart from one answer to the next. returns ret */
const char *top_row_key(enum top_view view, const json_t *row, char ret[TOP_KEY_TEXT]);
/* Every group of ages, the youngest first, with 0 where the answer has none. NULL: out of memory */
json_t *top_ages(const json_t *rows);

#endif
