/* Owns the terminal while `sluice top` runs. Called by cli_top.c; must not ask the daemon, and
 * prints nothing of its answers but through top_layout.h. */
#define NCURSES_WIDECHAR 1

#include "engine/cli/top_screen.h"

#include "engine/cli/cli_table.h"
#include "engine/cli/top_layout.h"

#include <curses.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    LINES_MIN = 9,
    WIDTH_MIN = 30,
    HEAD_LINES = 6, /* name, rates, queue, complaints, views, titles */
    FOOT_LINES = 1,
    TEXT_MAX = 1200,
};
enum { COLOR_OF_ALARM = 1, COLOR_OF_WARNING, COLOR_OF_GOOD };

static SCREEN *screen;

bool top_screen_open(void)
{
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        return false;
    }
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(50); /* milliseconds for what follows an Esc of a key's own */
    (void)curs_set(0);      /* where the cursor can be hidden */
    if (has_colors()) {
        (void)start_color();
        (void)use_default_colors();
        (void)init_pair(COLOR_OF_ALARM, COLOR_RED, -1);
        (void)init_pair(COLOR_OF_WARNING, COLOR_YELLOW, -1);
        (void)init_pair(COLOR_OF_GOOD, COLOR_GREEN, -1);
    }
    return true;
}

void top_screen_close(void)
{
    (void)endwin();
    delscreen(screen);
    screen = NULL;
}

/* --- keys ------------------------------------------------------------------------------------- */

static enum top_key special_key(wint_t key)
{
    static const struct {
        int code;
        enum top_key key;
    } keys[] = {
        {KEY_UP, TOP_KEY_UP},
        {KEY_DOWN, TOP_KEY_DOWN},
        {KEY_PPAGE, TOP_KEY_PAGE_UP},
        {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
        {KEY_HOME, TOP_KEY_HOME},
        {KEY_END, TOP_KEY_END},
        {KEY_ENTER, TOP_KEY_ENTER},
        {KEY_BTAB, TOP_KEY_BACK_TAB},
        {KEY_BACKSPACE, TOP_KEY_BACKSPACE},
        {KEY_RESIZE, TOP_KEY_RESIZED},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if ((wint_t)keys[i].code == key) {
            return keys[i].key;
        }
    }
    return TOP_KEY_OTHER;
}

enum top_key top_screen_key(wchar_t *ret)
{
    wint_t key = 0;
    int kind = get_wch(&key);
    if (kind == ERR) {
        return TOP_KEY_NONE;
    }
    if (kind == KEY_CODE_YES) {
        return special_key(key);
    }
    switch (key) {
    case L'\r':
    case L'\n':
        return TOP_KEY_ENTER;
    case 0x1b:
        return TOP_KEY_ESCAPE;
    case L'\t':
        return TOP_KEY_TAB;
    case 0x08:
    case 0x7f:
        return TOP_KEY_BACKSPACE;
    default:
        *ret = (wchar_t)key;
        return key < 0x20 ? TOP_KEY_OTHER : TOP_KEY_CHARACTER;
    }
}

/* --- pieces ----------------------------------------------------------------------------------- */

static attr_t tone_of(enum top_tone tone)
{
    switch (tone) {
    case TOP_ALARM:
        return A_BOLD | (attr_t)COLOR_PAIR(COLOR_OF_ALARM);
    case TOP_WARNING:
        return (attr_t)COLOR_PAIR(COLOR_OF_WARNING);
    case TOP_PLAIN:
        break;
    }
    return A_NORMAL;
}

static int columns(void)
{
    return COLS < TOP_WIDTH_MAX ? COLS : TOP_WIDTH_MAX;
}

/* Print as much of a text as fits there. returns the column behind it */
static int put_screen_text(int line, int column, attr_t look, const char *text)
{
    wchar_t wide[TOP_WIDTH_MAX + 1];
    if (column >= columns() || line >= LINES) {
        return column;
    }
    int used = top_layout_take(&text, columns() - column, false, wide);
    (void)attrset((int)look);
    (void)mvaddwstr(line, column, wide); /* the last cell of the screen cannot be written */
    (void)attrset(A_NORMAL);
    return column + used;
}

static int put_form(int line, int column, attr_t look, const char *fmt, ...) PRINTF_LIKE(4, 5);
static int put_form(int line, int column, attr_t look, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return put_screen_text(line, column, look, text);
}

/* At the right edge, unless that is taken. */
static void put_right(int line, int from, attr_t look, const char *text)
{
    int at = columns() - top_layout_width(text);
    if (at > from) {
        (void)put_screen_text(line, at, look, text);
    }
}

static double real_of(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name)); /* 0 when it is absent */
}

/* --- the head --------------------------------------------------------------------------------- */

static void draw_name(const struct top_picture *p)
{
    const struct top_feed *f = p->feed;
    const json_t *s = p->model->status;
    char span[CLI_SPAN_TEXT], text[100];
    int at = put_screen_text(0, 0, A_BOLD, "sluice");
    if (s != NULL) {
        at = put_form(0, at, A_NORMAL, " %s at %s, up %s", cli_member_text(s, "version"),
                      cli_member_text(s, "hostname"),
                      cli_span_text(p->model->now - real_of(s, "started"), span));
    }
    double waited = (double)(clock_mono() - f->asked) / USEC_PER_SEC;
    if (f->is_lost) {
        put_right(0, at, tone_of(TOP_ALARM), "no daemon");
    } else if (f->is_paused) {
        put_right(0, at, tone_of(TOP_WARNING), "paused");
    } else if (api_asker_is_busy(f->asker) && waited > 2) {
        (void)snprintf(text, sizeof(text), "waiting %.0fs", waited);
        put_right(0, at, tone_of(TOP_WARNING), text);
    } else {
        (void)snprintf(text, sizeof(text), "%s every %.3gs", s == NULL ? "asking" : "live",
                       (double)f->interval / USEC_PER_SEC);
        put_right(0, at, (attr_t)COLOR_PAIR(COLOR_OF_GOOD), text);
    }
}

static void draw_rates(const json_t *s)
{
    static const char *const names[] = {"received", "delivered", "deferred", "failed"};
    static const enum top_tone tones[] = {TOP_PLAIN, TOP_PLAIN, TOP_WARNING, TOP_ALARM};
    const json_t *rates = json_object_get(s, "rates");
    bool is_wide = columns() >= 76;
    int at = put_screen_text(1, 0, A_NORMAL, is_wide ? "a second:" : "per s");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rates != NULL; i++) {
        double rate = real_of(rates, names[i]);
        at = put_form(1, at, A_NORMAL, "%s%s ", is_wide ? "  " : " ", names[i]);
        at = put_form(1, at, rate > 0 ? tone_of(tones[i]) | A_BOLD : A_NORMAL,
                      rate < 1000 ? "%.1f" : "%.0f", rate);
    }
}

static void draw_queue(const json_t *s)
{
    static const struct {
        const char *title, *member;
        enum top_tone tone;
    } figures[] = {
        {"queue", "messages", TOP_PLAIN},
        {"incoming", "incoming", TOP_PLAIN},
        {"active", "active", TOP_PLAIN},
        {"deferred", "deferred", TOP_PLAIN},
        {"scheduled", "scheduled", TOP_PLAIN},
        {"suspended", "suspended", TOP_WARNING},
        {"dead", "dead", TOP_ALARM},
        {"orders", "orders", TOP_WARNING},
        {"connections", "connections", TOP_PLAIN},
        {"destinations", "destinations", TOP_PLAIN},
        {"quarantined", "quarantined", TOP_ALARM},
    };
    const char *gap = columns() >= 76 ? "  " : " ";
    bool has_room = columns() >= 140;
    int at = 0;
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]) && s != NULL; i++) {
        long long n = cli_member_number(s, figures[i].member);
        if (i > 0 && n == 0 && !has_room) {
            continue; /* a figure of 0 is left out; the others still add up */
        }
        at = put_form(2, at, A_NORMAL, "%s%s ", i == 0 ? "" : gap, figures[i].title);
        at = put_form(2, at, n > 0 ? tone_of(figures[i].tone) | A_BOLD : A_NORMAL, "%lld", n);
    }
}

/* What is wrong: no answer, no mail is taken; else what was answered to a key. */
static void draw_complaint(const struct top_picture *p)
{
    const json_t *gates = json_object_get(p->model->status, "gates");
    if (p->feed->error[0] != '\0') {
        (void)put_form(3, 0, tone_of(TOP_ALARM), "%s; trying again", p->feed->error);
    } else if (json_array_size(gates) > 0) {
        int at = put_screen_text(3, 0, tone_of(TOP_ALARM), "no mail is taken:");
        for (size_t i = 0; i < json_array_size(gates); i++) {
            const char *gate = json_string_value(json_array_get(gates, i));
            at = put_form(3, at, tone_of(TOP_ALARM), " %s", gate == NULL ? "" : gate);
        }
    } else {
        (void)put_screen_text(3, 0, A_NORMAL, p->notice);
    }
}

static void draw_views(const struct top_model *m)
{
    int at = 0;
    for (int i = 0; i < TOP_VIEW_COUNT; i++) {
        bool is_current = i == (int)m->view;
        at = put_form(4, at, is_current ? A_BOLD | A_UNDERLINE : A_NORMAL, "%d %s", i + 1,
                      top_view_row((enum top_view)i)->name);
        at += 1;
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

size_t top_screen_lines(void)
{
    return LINES > HEAD_LINES + FOOT_LINES ? (size_t)(LINES - HEAD_LINES - FOOT_LINES) : 1;
}

/* The title of a column; the queue's first tells how it is grouped. */
static const char *title_of(const struct top_model *m, size_t column)
{
    if (m->view == TOP_QUEUE && column == 0) {
        return m->is_by_tenant ? "TENANT" : "DESTINATION";
    }
    return top_view_row(m->view)->columns[column].title;
}

/* Widths from what is in sight. */
static void measure_columns(const struct top_model *m, const struct top_scale *scale, size_t lines,
                            int *ret)
{
    const struct top_table *t = top_model_table(m);
    int natural[TOP_COLUMNS_MAX];
    size_t count = top_model_columns(m);
    char text[TOP_CELL_TEXT];
    for (size_t c = 0; c < count; c++) {
        natural[c] = top_layout_width(title_of(m, c));
        for (size_t i = t->first; i < t->shown_count && i < t->first + lines; i++) {
            int width = top_layout_width(top_cell_text(&top_view_row(m->view)->columns[c],
                                                       top_model_row(m, i), scale, text));
            natural[c] = width > natural[c] ? width : natural[c];
        }
    }
    top_layout_columns(m->view, count, natural, columns(), ret);
}

/* Draw one cell, cut to its width. */
static void put_cell(int line, int column, int width, bool is_right, const char *text)
{
    wchar_t wide[TOP_WIDTH_MAX + 1];
    int used = top_layout_take(&text, width, false, wide);
    (void)mvaddwstr(line, column + (is_right ? width - used : 0), wide);
}

/* A line of the table; row NULL: the titles. */
static void draw_line(const struct top_model *m, const struct top_scale *scale, const int *widths,
                      int line, const json_t *row, attr_t look)
{
    const struct top_column *c = top_view_row(m->view)->columns;
    int at = 0;
    (void)attrset((int)look);
    (void)mvhline(line, 0, ' ', columns());
    for (size_t i = 0; i < top_model_columns(m); i++) {
        char text[TOP_CELL_TEXT];
        if (widths[i] > 0) {
            put_cell(line, at, widths[i], top_column_is_number(&c[i]),
                     row == NULL ? title_of(m, i) : top_cell_text(&c[i], row, scale, text));
            at += widths[i] + 2;
        }
    }
    (void)attrset(A_NORMAL);
}

static void draw_table(struct top_model *m)
{
    int widths[TOP_COLUMNS_MAX];
    size_t lines = top_screen_lines();
    top_model_scroll(m, lines);
    const struct top_table *t = top_model_table(m);
    const struct top_scale scale = top_model_scale(m);
    measure_columns(m, &scale, lines, widths);
    draw_line(m, &scale, widths, HEAD_LINES - 1, NULL, A_REVERSE);
    for (size_t i = t->first; i < t->shown_count && i < t->first + lines; i++) {
        const json_t *row = top_model_row(m, i);
        attr_t look = tone_of(top_row_tone(m->view, row)) | (i == t->selected ? A_REVERSE : 0);
        draw_line(m, &scale, widths, HEAD_LINES + (int)(i - t->first), row, look);
    }
    if (t->shown_count == 0 && t->rows != NULL) {
        (void)put_screen_text(HEAD_LINES, 0, A_NORMAL,
                              json_array_size(t->rows) > 0 || m->filter[0] != '\0' ||
                                      m->is_held_only
                                  ? "nothing fits the filter"
                                  : top_view_row(m->view)->empty);
    }
}

/* --- the rest --------------------------------------------------------------------------------- */

/* The text of a detail, wrapped; returns how many lines it takes. */
static size_t draw_text(const struct top_detail *d, size_t lines)
{
    wchar_t wide[TOP_WIDTH_MAX + 1];
    const char *text = d->text == NULL ? "asking the daemon" : d->text;
    size_t n = 0;
    for (; *text != '\0'; n++) {
        const char *before = text;
        (void)top_layout_take(&text, columns(), true, wide);
        if (text == before) {
            break; /* a character that is wider than the terminal */
        }
        if (*text == '\n' && text[-1] != '\n' && wide[0] != L'\0') {
            text++; /* the text before the line feed filled its line exactly */
        }
        if (n >= d->first && n < d->first + lines) {
            (void)mvaddwstr(HEAD_LINES + (int)(n - d->first), 0, wide);
        }
    }
    return n;
}

static void draw_detail(struct top_detail *d)
{
    size_t lines = top_screen_lines(), total = draw_text(d, 0);
    size_t last = total > lines ? total - lines : 0;
    d->first = d->first > last ? last : d->first;
    (void)attrset(A_REVERSE);
    (void)mvhline(HEAD_LINES - 1, 0, ' ', columns());
    (void)attrset(A_NORMAL);
    (void)put_screen_text(HEAD_LINES - 1, 0, A_REVERSE, d->title);
    (void)draw_text(d, lines);
}

static void draw_foot(const struct top_picture *p)
{
    const struct top_model *m = p->model;
    const struct top_table *t = top_model_table(m);
    int at = 0;
    if (p->typed != NULL) {
        (void)put_form(LINES - 1, 0, A_BOLD, "filter: %s_", p->typed);
        return;
    }
    if (p->detail->is_open) {
        (void)put_screen_text(LINES - 1, 0, A_NORMAL, "Esc back  arrows scroll  q quit");
        return;
    }
    at = put_form(LINES - 1, at, A_NORMAL, "%zu of %zu%s, by %s%s", t->shown_count,
                  json_array_size(t->rows), t->has_more ? " and more" : "", top_model_sort_name(m),
                  t->is_reversed ? ", reversed" : "");
    if (m->filter[0] != '\0') {
        at = put_form(LINES - 1, at, A_BOLD, ", with \"%s\"", m->filter);
    }
    if (m->is_held_only && m->view == TOP_DESTINATIONS) {
        at = put_screen_text(LINES - 1, at, A_BOLD, ", held back only");
    }
    put_right(LINES - 1, at + 1, A_NORMAL, "Enter why  t trace  h help  q quit");
    put_right(LINES - 1, at + 1, A_NORMAL, "h help  q quit");
}

void top_screen_draw(const struct top_picture *p)
{
    (void)erase();
    if (LINES < LINES_MIN || COLS < WIDTH_MIN) {
        (void)put_screen_text(0, 0, A_NORMAL, "too small");
        (void)refresh();
        return;
    }
    draw_name(p);
    draw_rates(p->model->status);
    draw_queue(p->model->status);
    draw_complaint(p);
    draw_views(p->model);
    if (p->detail->is_open) {
        draw_detail(p->detail);
    } else {
        draw_table(p->model);
    }
    draw_foot(p);
    (void)refresh();
}
