/* What `sluice top` knows and how the operator wants to see it: the last answers, sorting, filter,
 * selection. Pure: no terminal, no daemon, no clock. One thread. */
#ifndef ENGINE_TOP_MODEL_H
#define ENGINE_TOP_MODEL_H

#include "base/attr.h"
#include "engine/cli/top_view.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define TOP_FILTER_MAX  80
#define TOP_SORT_DAEMON (-1)

struct top_table {
    json_t *rows;  /* array of objects; NULL: no answer yet */
    size_t *shown; /* [shown_count], indices of rows: what fits the filter, sorted */
    size_t shown_count;
    int sort; /* a column, or TOP_SORT_DAEMON: as they came */
    bool is_reversed;
    bool has_more;          /* the daemon has more rows */
    size_t selected;        /* in shown; 0 when there is none */
    size_t first;           /* the first in sight */
    char key[TOP_KEY_TEXT]; /* of the selected row; "" none */
};

struct top_model {
    enum top_view view;
    struct top_table tables[TOP_VIEW_COUNT];
    char filter[TOP_FILTER_MAX +
                1];    /* part of a cell, in either case; of destinations and lanes of the name */
    bool is_held_only; /* destinations: top_row_is_held */
    bool is_by_tenant; /* the queue, else by destination */
    bool is_of_nodes;  /* rows are of several nodes; constant */
    json_t *status;    /* the last; NULL before */
    double now;        /* the daemon's clock when it came */
};

void top_model_init(struct top_model *m);
void top_model_fini(struct top_model *m);

/* An answer: takes the reference. Rows that are told apart by their keys stay selected. */
void top_model_status(struct top_model *m, json_t *status);
/* The same of several nodes: an array of their objects, and what stood behind it. */
void top_model_status_of_nodes(struct top_model *m, json_t *rows, const json_t *end);
void top_model_rows(struct top_model *m, enum top_view view, json_t *rows, bool has_more);
/* Of the queue: also sets the members `by` and `name` of each row. */
void top_model_queue(struct top_model *m, json_t *rows, bool has_more);

void top_model_show(struct top_model *m, enum top_view view);
void top_model_group(struct top_model *m, bool is_by_tenant); /* forgets the rows of the queue */
void top_model_filter(struct top_model *m, const char *filter);
void top_model_held_only(struct top_model *m, bool is_held_only);
void top_model_sort_next(struct top_model *m);
void top_model_reverse(struct top_model *m);
/* "load", "WAITING" */
const char *top_model_sort_name(const struct top_model *m) NONNULL_RET;
/* What the daemon should choose destinations by, so that the rows it leaves out do not matter. */
const char *top_model_daemon_sort(const struct top_model *m) NONNULL_RET;

/* Move the selection by rows, to the first (-SIZE), the last; then what is in sight, of so many
 * lines. */
void top_model_move(struct top_model *m, long by);
void top_model_scroll(struct top_model *m, size_t lines);
/* Of the current view; NULL: there is none. */
const json_t *top_model_selected(const struct top_model *m);
/* The n-th that is shown, n < shown_count */
const json_t *top_model_row(const struct top_model *m, size_t n);
/* Of the current view. */
size_t top_model_columns(const struct top_model *m);
const struct top_table *top_model_table(const struct top_model *m) NONNULL_RET;
struct top_scale top_model_scale(const struct top_model *m);

#endif
