/* Owns the rows of every view, in the order and with the filter that the operator chose. Called by
 * cli_top.c and drawn by top_screen.c; must not know the terminal. */
#include "engine/cli/top_model.h"

#include "engine/cli/cli_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void top_model_init(struct top_model *m)
{
    *m = (struct top_model){.view = TOP_DESTINATIONS};
    for (int i = 0; i < TOP_VIEW_COUNT; i++) {
        m->tables[i].sort = TOP_SORT_DAEMON;
    }
}

void top_model_fini(struct top_model *m)
{
    for (int i = 0; i < TOP_VIEW_COUNT; i++) {
        json_decref(m->tables[i].rows);
        free(m->tables[i].shown);
    }
    json_decref(m->status);
}

const struct top_table *top_model_table(const struct top_model *m)
{
    return &m->tables[m->view];
}

struct top_scale top_model_scale(const struct top_model *m)
{
    struct top_scale scale = {.now = m->now};
    const json_t *row, *rows = top_model_table(m)->rows;
    for (size_t i = 0; (row = json_array_get(rows, i)) != NULL; i++) {
        double value = json_number_value(json_object_get(row, "recipients"));
        scale.most = value > scale.most ? value : scale.most;
    }
    return scale;
}

size_t top_model_columns(const struct top_model *m)
{
    return top_view_columns(m->view) + (m->is_of_nodes ? 1 : 0);
}

/* --- which rows, in which order --------------------------------------------------------------- */

static bool fits_filter(const struct top_model *m, enum top_view view, const json_t *row)
{
    const struct top_scale scale = {.now = m->now};
    char text[TOP_CELL_TEXT];
    bool is_found = m->filter[0] == '\0';
    if (view == TOP_DESTINATIONS) {
        return (!m->is_held_only || top_row_is_held(row)) &&
               strcasestr(cli_member_text(row, "destination"), m->filter) != NULL;
    }
    if (view == TOP_LANES) {
        return strcasestr(cli_member_text(row, "site"), m->filter) != NULL;
    }
    for (size_t i = 0; i < top_view_columns(view) && !is_found; i++) {
        const struct top_column *c = &top_view_row(view)->columns[i];
        is_found = (c->kind == TOP_TEXT || c->kind == TOP_NAME || c->kind == TOP_SELECTORS) &&
                   strcasestr(top_cell_text(c, row, &scale, text), m->filter) != NULL;
    }
    return is_found || view == TOP_AGES;
}

struct sorting {
    const json_t *rows;
    const struct top_column *column; /* NULL: as they came */
    bool is_down;
};

static int compare_shown_rows(const void *a, const void *b, void *ctx)
{
    const struct sorting *s = ctx;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int diff = s->column == NULL ? 0
                                 : top_cell_compare(s->column, json_array_get(s->rows, x),
                                                    json_array_get(s->rows, y));
    diff = s->is_down && s->column != NULL ? -diff : diff;
    if (diff == 0) {
        diff = x < y ? -1 : x > y;
        diff = s->column == NULL && s->is_down ? -diff : diff;
    }
    return diff;
}

/* The selected row again, wherever it is now; else the one that took its place. */
static void find_selected(enum top_view view, struct top_table *t)
{
    char key[TOP_KEY_TEXT];
    for (size_t i = 0; i < t->shown_count && t->key[0] != '\0'; i++) {
        if (strcmp(top_row_key(view, json_array_get(t->rows, t->shown[i]), key), t->key) == 0) {
            t->selected = i;
            return;
        }
    }
    if (t->selected >= t->shown_count) {
        t->selected = t->shown_count > 0 ? t->shown_count - 1 : 0;
    }
}

static void keep_key(enum top_view view, struct top_table *t)
{
    t->key[0] = '\0';
    if (t->selected < t->shown_count) {
        (void)top_row_key(view, json_array_get(t->rows, t->shown[t->selected]), t->key);
    }
}

static void arrange(struct top_model *m, enum top_view view)
{
    struct top_table *t = &m->tables[view];
    const struct top_column *columns = top_view_row(view)->columns;
    struct sorting s = {.rows = t->rows, .is_down = t->is_reversed};
    size_t count = json_array_size(t->rows);
    size_t *shown = reallocarray(NULL, count + 1, sizeof(*shown));
    free(t->shown);
    t->shown = shown;
    t->shown_count = 0;
    for (size_t i = 0; i < count && shown != NULL; i++) {
        if (fits_filter(m, view, json_array_get(t->rows, i))) {
            shown[t->shown_count++] = i;
        }
    }
    if (t->sort != TOP_SORT_DAEMON) {
        s.column = &columns[t->sort];
        s.is_down = t->is_reversed != top_column_is_number(s.column);
    }
    if (t->shown_count > 0) {
        qsort_r(shown, t->shown_count, sizeof(*shown), compare_shown_rows, &s);
    }
    find_selected(view, t);
}

static void arrange_all(struct top_model *m)
{
    for (int i = 0; i < TOP_VIEW_COUNT; i++) {
        arrange(m, (enum top_view)i);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

void top_model_status(struct top_model *m, json_t *status)
{
    json_decref(m->status);
    m->status = status;
    m->now = json_number_value(json_object_get(status, "now"));
}

/* Into the sums: whole numbers and rates are added, of the rest the latest clock, the longest life and
 * every gate are kept. */
static void add_status(json_t *sum, json_t *status)
{
    const char *name;
    json_t *value;
    json_object_foreach(status, name, value)
    {
        json_t *had = json_object_get(sum, name);
        double a = json_number_value(had), b = json_number_value(value);
        json_int_t whole = json_integer_value(had);
        if (had == NULL) {
            had = json_deep_copy(value);
        } else if (json_is_integer(value)) {
            bool is_good = !__builtin_add_overflow(whole, json_integer_value(value), &whole);
            had = json_integer(is_good ? whole : 0);
        } else if (json_is_real(value) && strcmp(name, "started") == 0) {
            had = json_real(a < b ? a : b);
        } else if (json_is_real(value) && strcmp(name, "now") == 0) {
            had = json_real(a > b ? a : b);
        } else if (json_is_real(value)) {
            had = json_real(a + b);
        } else if (json_is_array(had) && json_is_array(value)) {
            (void)json_array_extend(had, value); /* out of memory leaves it out */
            continue;
        } else {
            continue;
        }
        (void)json_object_set_new(sum, name, had); /* likewise */
    }
}

void top_model_status_of_nodes(struct top_model *m, json_t *rows, const json_t *end)
{
    const json_t *absent = json_object_get(end, "absent");
    json_t *sum = json_object(), *rates = json_object(), *row;
    size_t i;
    char text[200];
    json_array_foreach(rows, i, row)
    {
        json_t *own = json_object_get(row, "rates");
        add_status(rates, own);
        add_status(sum, row);
    }
    size_t len = (size_t)snprintf(text, sizeof(text), "%zu nodes", json_array_size(rows));
    for (i = 0; i < json_array_size(absent) && len < sizeof(text) - 40; i++) {
        const char *name = json_string_value(json_array_get(absent, i));
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %.32s",
                                i == 0 ? ", missing:" : "", name == NULL ? "" : name);
    }
    (void)json_object_set_new(sum, "hostname", json_string(text)); /* out of memory leaves it out */
    (void)json_object_set_new(sum, "rates", rates);                /* likewise */
    json_decref(rows);
    top_model_status(m, sum);
}

void top_model_rows(struct top_model *m, enum top_view view, json_t *rows, bool has_more)
{
    struct top_table *t = &m->tables[view];
    json_decref(t->rows);
    t->rows = rows;
    t->has_more = has_more;
    arrange(m, view);
}

void top_model_queue(struct top_model *m, json_t *rows, bool has_more)
{
    const char *by = m->is_by_tenant ? "tenant" : "destination";
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        json_t *name = json_object_get(row, by);
        /* Out of memory: a row without a name. */
        (void)json_object_set_new(row, "by", json_string(by));
        (void)json_object_set(row, "name", name);
    }
    top_model_rows(m, TOP_QUEUE, rows, has_more);
}

/* --- what the operator wants ------------------------------------------------------------------ */

void top_model_show(struct top_model *m, enum top_view view)
{
    m->view = view;
}

void top_model_group(struct top_model *m, bool is_by_tenant)
{
    struct top_table *t = &m->tables[TOP_QUEUE];
    m->is_by_tenant = is_by_tenant;
    json_decref(t->rows);
    t->rows = NULL;
    t->key[0] = '\0';
    t->selected = t->first = 0;
    arrange(m, TOP_QUEUE);
}

void top_model_filter(struct top_model *m, const char *filter)
{
    (void)snprintf(m->filter, sizeof(m->filter), "%s", filter);
    arrange_all(m);
}

void top_model_held_only(struct top_model *m, bool is_held_only)
{
    m->is_held_only = is_held_only;
    arrange(m, TOP_DESTINATIONS);
}

void top_model_sort_next(struct top_model *m)
{
    struct top_table *t = &m->tables[m->view];
    t->sort++;
    if ((size_t)t->sort == top_model_columns(m)) {
        t->sort = TOP_SORT_DAEMON;
    }
    t->is_reversed = false;
    arrange(m, m->view);
}

void top_model_reverse(struct top_model *m)
{
    struct top_table *t = &m->tables[m->view];
    t->is_reversed = !t->is_reversed;
    arrange(m, m->view);
}

const char *top_model_sort_name(const struct top_model *m)
{
    const struct top_view_row *row = top_view_row(m->view);
    int sort = top_model_table(m)->sort;
    return sort == TOP_SORT_DAEMON ? row->order : row->columns[sort].title;
}

const char *top_model_daemon_sort(const struct top_model *m)
{
    static const char *const words[] = {"delivered", "deferred"};
    const struct top_table *t = &m->tables[TOP_DESTINATIONS];
    const char *member =
        t->sort == TOP_SORT_DAEMON ? "" : top_view_row(TOP_DESTINATIONS)->columns[t->sort].member;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(member, words[i]) == 0) {
            return words[i];
        }
    }
    return strcmp(member, "destination") == 0 ? "name" : "load";
}

void top_model_move(struct top_model *m, long by)
{
    struct top_table *t = &m->tables[m->view];
    if (t->shown_count > 0) {
        size_t last = t->shown_count - 1;
        if (by < 0) {
            size_t up = (size_t)0 - (size_t)by;
            t->selected = up > t->selected ? 0 : t->selected - up;
        } else {
            t->selected = (size_t)by > last - t->selected ? last : t->selected + (size_t)by;
        }
        keep_key(m->view, t);
    }
}

void top_model_scroll(struct top_model *m, size_t lines)
{
    struct top_table *t = &m->tables[m->view];
    if (t->selected < t->first) {
        t->first = t->selected;
    } else if (lines > 0 && t->selected >= t->first + lines) {
        t->first = t->selected - lines + 1;
    }
    if (t->first + lines > t->shown_count) { /* no empty lines below rows that are out of sight */
        t->first = t->shown_count > lines ? t->shown_count - lines : 0;
    }
}

const json_t *top_model_row(const struct top_model *m, size_t n)
{
    const struct top_table *t = top_model_table(m);
    return json_array_get(t->rows, t->shown[n]);
}

const json_t *top_model_selected(const struct top_model *m)
{
    const struct top_table *t = top_model_table(m);
    return t->selected < t->shown_count ? top_model_row(m, t->selected) : NULL;
}
