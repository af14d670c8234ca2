/* `sluice top`: what the daemon is doing, again and again, on a terminal; or once, as text. Main
 * thread. */
#include "base/span.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/cli/top_screen.h"
#include "engine/http/api.h"

#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum { KEYS_MAX = 64 }; /* between two pictures */

struct top {
    struct top_model model;
    struct top_detail detail;
    struct top_feed feed;
    char typed[TOP_FILTER_MAX + 1]; /* while is_typing */
    bool is_typing, is_over;
    const char *notice;
};

/* --- keys ------------------------------------------------------------------------------------- */

static void show(struct top *t, int view)
{
    bool is_again = view == (int)t->model.view && !t->detail.is_open;
    top_detail_close(&t->detail);
    if (is_again && view == TOP_QUEUE) {
        top_model_group(&t->model, !t->model.is_by_tenant);
        top_feed_forget_counts(&t->feed);
    }
    top_model_show(&t->model, (enum top_view)view);
    top_feed_want(&t->feed);
}

static void move(struct top *t, long by)
{
    if (!t->detail.is_open) {
        top_model_move(&t->model, by);
    } else if (by < 0) {
        size_t up = (size_t)0 - (size_t)by;
        t->detail.first = up > t->detail.first ? 0 : t->detail.first - up;
    } else {
        t->detail.first += (size_t)by; /* what is too much is cut when it is drawn */
    }
}

static void open_detail(struct top *t, bool is_trace)
{
    const char *obstacle =
        is_trace ? top_detail_trace(&t->detail, &t->model) : top_detail_why(&t->detail, &t->model);
    t->notice = obstacle == NULL ? "" : obstacle;
    top_feed_want(&t->feed);
}

static void set_filter(struct top *t, const char *filter)
{
    top_model_filter(&t->model, filter);
    top_feed_want(&t->feed);
}

static void go_back(struct top *t)
{
    if (t->detail.is_open) {
        top_detail_close(&t->detail);
    } else if (t->model.filter[0] != '\0') {
        set_filter(t, "");
    }
}

/* Add a character to the filter that is being typed; 0 takes the last one away. */
static void type(struct top *t, wchar_t c)
{
    size_t len = strlen(t->typed);
    char bytes[MB_LEN_MAX];
    mbstate_t state = {0};
    size_t more = c == 0 ? 0 : wcrtomb(bytes, c, &state);
    if (c == 0) {
        while (len > 0 && (t->typed[--len] & 0xc0) == 0x80) {
        }
        t->typed[len] = '\0';
    } else if (more != (size_t)-1 && len + more <= TOP_FILTER_MAX) {
        memcpy(t->typed + len, bytes, more);
        t->typed[len + more] = '\0';
    }
}

static void set_interval(struct top *t, usec_t interval)
{
    interval = interval < TOP_INTERVAL_MIN ? TOP_INTERVAL_MIN : interval;
    t->feed.interval = interval > TOP_INTERVAL_MAX ? TOP_INTERVAL_MAX : interval;
}

static void take_character(struct top *t, wchar_t c)
{
    switch (c) {
    case L'q':
        t->is_over = true;
        break;
    case L's':
        top_model_sort_next(&t->model);
        top_feed_want(&t->feed);
        break;
    case L'r':
        top_model_reverse(&t->model);
        break;
    case L'd':
        top_model_held_only(&t->model, !t->model.is_held_only);
        show(t, TOP_DESTINATIONS);
        break;
    case L'/':
        top_detail_close(&t->detail);
        t->typed[0] = '\0';
        t->is_typing = true;
        break;
    case L't':
        open_detail(t, true);
        break;
    case L'p':
        t->feed.is_paused = !t->feed.is_paused;
        break;
    case L'+':
        set_interval(t, t->feed.interval * 2);
        break;
    case L'-':
        set_interval(t, t->feed.interval / 2);
        break;
    case L'h':
    case L'?':
        top_detail_help(&t->detail);
        break;
    default:
        if (c >= L'1' && c < L'1' + TOP_VIEW_COUNT) {
            show(t, (int)(c - L'1'));
        }
        break;
    }
}

/* While the filter is typed. */
static void take_typed(struct top *t, enum top_key key, wchar_t c)
{
    if (key == TOP_KEY_CHARACTER) {
        type(t, c);
    } else if (key == TOP_KEY_BACKSPACE) {
        type(t, 0);
    } else if (key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE) {
        t->is_typing = false;
        if (key == TOP_KEY_ESCAPE) {
            t->typed[0] = '\0';
        }
        top_feed_want(&t->feed);
    }
    top_model_filter(&t->model, t->typed);
}

static void take_key(struct top *t, enum top_key key, wchar_t c)
{
    long page = (long)top_screen_lines();
    int view = (int)t->model.view;
    t->notice = "";
    if (t->is_typing && key != TOP_KEY_RESIZED) {
        take_typed(t, key, c);
        return;
    }
    switch (key) {
    case TOP_KEY_CHARACTER:
        take_character(t, c);
        break;
    case TOP_KEY_UP:
    case TOP_KEY_DOWN:
        move(t, key == TOP_KEY_UP ? -1 : 1);
        break;
    case TOP_KEY_PAGE_UP:
    case TOP_KEY_PAGE_DOWN:
        move(t, key == TOP_KEY_PAGE_UP ? -page : page);
        break;
    case TOP_KEY_HOME:
    case TOP_KEY_END:
        move(t, key == TOP_KEY_HOME ? -1000000L : 1000000L);
        break;
    case TOP_KEY_ENTER:
        if (!t->detail.is_open) {
            open_detail(t, false);
        }
        break;
    case TOP_KEY_ESCAPE:
        go_back(t);
        break;
    case TOP_KEY_TAB:
    case TOP_KEY_BACK_TAB:
        show(t, (view + (key == TOP_KEY_TAB ? 1 : TOP_VIEW_COUNT - 1)) % TOP_VIEW_COUNT);
        break;
    case TOP_KEY_BACKSPACE:
    case TOP_KEY_RESIZED: /* the next picture has the new size */
    case TOP_KEY_NONE:
    case TOP_KEY_OTHER:
        break;
    }
}

/* --- live ------------------------------------------------------------------------------------- */

static void run_screen(struct top *t)
{
    while (!t->is_over) {
        usec_t now = clock_mono();
        while (top_feed_run(&t->feed, &t->model, &t->detail, now)) {
            now = clock_mono();
        }
        const struct top_picture picture = {.model = &t->model,
                                            .detail = &t->detail,
                                            .feed = &t->feed,
                                            .typed = t->is_typing ? t->typed : NULL,
                                            .notice = t->notice};
        top_screen_draw(&picture);
        t->is_over = !api_asker_wait(t->feed.asker, STDIN_FILENO, top_feed_timeout(&t->feed, now));
        wchar_t c = 0;
        enum top_key key = TOP_KEY_NONE;
        for (int i = 0; i < KEYS_MAX && (key = top_screen_key(&c)) != TOP_KEY_NONE; i++) {
            take_key(t, key, c);
        }
    }
}

static int run_live(const struct cli *cli, usec_t interval)
{
    struct top t = {.notice = ""};
    struct config *config = NULL;
    int code = cli_config(cli, false, &config);
    if (code != 0) {
        return code;
    }
    top_model_init(&t.model);
    top_detail_init(&t.detail);
    (void)setlocale(LC_CTYPE, ""); /* an unknown one leaves ASCII */
    t.model.is_of_nodes = cli->is_all_nodes;
    if (top_feed_init(&t.feed, cli, config->control_path, interval) != 0) {
        code = EX_OSERR;
    } else if (!top_screen_open()) {
        (void)fprintf(cli->err, "sluice top: the terminal is not known ($TERM); use --once\n");
        code = EX_UNAVAILABLE;
    } else {
        run_screen(&t);
        top_screen_close();
    }
    top_feed_fini(&t.feed);
    top_detail_fini(&t.detail);
    top_model_fini(&t.model);
    config_free(config);
    return code;
}

/* --- once ------------------------------------------------------------------------------------- */

/* What a snapshot has, and its name in JSON. */
static const struct snapshot_part {
    const char *name, *title;
    enum top_view view;
    bool is_by_tenant;
} parts[] = {
    {"destinations", "destinations, the busiest first", TOP_DESTINATIONS, false},
    {"queue", "queue by destination, recipients", TOP_QUEUE, false},
    {"queue_by_tenant", "queue by tenant, recipients", TOP_QUEUE, true},
    {"ages", "queue by age, recipients", TOP_AGES, false},
    {"tenants", "tenants", TOP_TENANTS, false},
    {"responses", "responses", TOP_RESPONSES, false},
    {"orders", "standing orders", TOP_ORDERS, false},
    {"lanes", "lanes, the worst first", TOP_LANES, false},
};

/* GET a list as an array, with what stands behind it as complaint when that fails. */
static int get_list(const struct cli *cli, const char *path, json_t **ret)
{
    struct api_answer a;
    json_t *o = NULL, *rows = json_array();
    int code = path == NULL ? EX_OSERR : api_client_call(cli, "GET", path, NULL, &a);
    if (path == NULL) {
        json_decref(rows);
        return code;
    }
    while (code == 0 && (o = api_answer_next(&a)) != NULL) {
        (void)json_array_append_new(rows, o); /* out of memory: a row less */
    }
    code = code == 0 && !a.has_ended ? EX_PROTOCOL : code;
    (void)api_client_complain(cli, "top", &a, code);
    api_answer_fini(&a);
    if (code != 0) {
        json_decref(rows);
        return code;
    }
    *ret = rows;
    return 0;
}

static int get_status(const struct cli *cli, struct top_model *m)
{
    struct api_answer a;
    int code = api_client_call(cli, "GET", "/v1/status", NULL, &a);
    const char *wrong = code == 0 ? top_feed_take_status(m, &a) : NULL;
    if (wrong != NULL) {
        code = EX_PROTOCOL;
        (void)snprintf(a.error, sizeof(a.error), "%s", wrong);
    }
    (void)api_client_complain(cli, "top", &a, code);
    api_answer_fini(&a);
    return code;
}

static int get_part(const struct cli *cli, struct top_model *m, const struct snapshot_part *part)
{
    json_t *rows = NULL;
    m->is_by_tenant = part->is_by_tenant;
    m->view = part->view;
    char *path = top_feed_path(m, part->view, false);
    int code = get_list(cli, path, &rows);
    free(path);
    if (code != 0) {
        return code;
    }
    if (part->view == TOP_QUEUE) {
        top_model_queue(m, rows, false);
    } else if (part->view == TOP_AGES) {
        top_model_rows(m, part->view, top_ages(rows), false);
        json_decref(rows);
    } else {
        top_model_rows(m, part->view, rows, false);
    }
    return 0;
}

static void print_part(FILE *out, const struct top_model *m, const struct snapshot_part *part)
{
    const struct top_view_row *view = top_view_row(part->view);
    const struct top_scale scale = top_model_scale(m);
    struct cli_column columns[TOP_COLUMNS_MAX + 1] = {{NULL, false}};
    struct cli_table t;
    size_t count = top_model_columns(m);
    for (size_t c = 0; c < count; c++) {
        columns[c] =
            (struct cli_column){view->columns[c].title, top_column_is_number(&view->columns[c])};
    }
    cli_table_init(&t, columns);
    for (size_t i = 0; i < top_model_table(m)->shown_count; i++) {
        for (size_t c = 0; c < count; c++) {
            char text[TOP_CELL_TEXT];
            cli_table_text(&t, top_cell_text(&view->columns[c], top_model_row(m, i), &scale, text));
        }
    }
    (void)fprintf(out, "\n%s\n", part->title);
    cli_table_print(&t, out);
    if (top_model_table(m)->shown_count == 0) {
        (void)fprintf(out, "%s\n", view->empty);
    }
    cli_table_fini(&t);
}

/* One object with all parts, or text. Nothing is printed when a part is missing. */
static int run_once(const struct cli *cli)
{
    struct top_model m;
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    json_t *all = json_object();
    if (out == NULL || all == NULL) {
        return EX_OSERR;
    }
    top_model_init(&m);
    m.is_of_nodes = cli->is_all_nodes;
    int code = get_status(cli, &m);
    if (code == 0) {
        cli_status_print(out, m.status);
        (void)json_object_set(all, "status", m.status); /* out of memory leaves it out */
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && code == 0; i++) {
        code = get_part(cli, &m, &parts[i]);
        if (code == 0) {
            print_part(out, &m, &parts[i]);
            /* out of memory leaves it out */
            (void)json_object_set(all, parts[i].name, top_model_table(&m)->rows);
        }
    }
    (void)fclose(out); /* out of memory: it is shorter */
    if (code == 0 && cli->is_json) {
        (void)json_dumpf(all, cli->out, JSON_COMPACT | JSON_PRESERVE_ORDER); /* the flush tells */
        (void)fputc('\n', cli->out);
    } else if (code == 0) {
        (void)fwrite(text, 1, len, cli->out); /* cli_main tells of a failed write */
    }
    free(text);
    json_decref(all);
    top_model_fini(&m);
    return code;
}

int cli_top(const struct cli *cli, const struct cli_args *args)
{
    usec_t interval = 2 * USEC_PER_SEC;
    const char *text = cli_value(args, "interval");
    if (text != NULL &&
        (!span_parse(slice_of(text), &interval) || interval == 0 || interval > TOP_INTERVAL_MAX)) {
        (void)fprintf(cli->err, "sluice top: --interval: 1s to 10m\n");
        return EX_USAGE;
    }
    bool is_terminal = isatty(STDIN_FILENO) != 0 && isatty(fileno(cli->out)) != 0;
    return cli_has(args, "once") || cli->is_json || !is_terminal ? run_once(cli)
                                                                 : run_live(cli, interval);
}
