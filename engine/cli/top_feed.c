/* Owns the round of questions that is under way. Called by cli_top.c; must not draw, and must not
 * ask faster than the daemon answers. */
#include "engine/cli/top_feed.h"

#include "engine/cli/cli_table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum step {
    STEP_STATUS = 1,
    STEP_HELD = 2, /* the destinations that are dead or suspended, whatever their load */
    STEP_ROWS = 4,
    STEP_DETAIL = 8,
    STEP_END = 16
};

/* a walk through the spool may take one tenth of the time */
enum { IDLE_MS = 1000, COUNTS_SHARE = 10 };

int top_feed_init(struct top_feed *f, const struct cli *cli, const char *socket_path,
                  usec_t interval)
{
    *f = (struct top_feed){.cli = cli, .interval = interval, .is_wanted = true};
    return api_asker_new(socket_path, &f->asker);
}

void top_feed_fini(struct top_feed *f)
{
    api_asker_free(f->asker);
    json_decref(f->held);
}

void top_feed_want(struct top_feed *f)
{
    f->is_wanted = true;
}

void top_feed_forget_counts(struct top_feed *f)
{
    memset(f->counts_due, 0, sizeof(f->counts_due));
    f->is_wanted = true;
}

char *top_feed_path(const struct top_model *m, enum top_view view, bool is_held)
{
    static const char *const paths[TOP_VIEW_COUNT] = {
        [TOP_DESTINATIONS] = "/v1/destinations?limit=100",
        [TOP_QUEUE] = "/v1/counts?limit=200",
        [TOP_AGES] = "/v1/counts?by=age",
        [TOP_TENANTS] = "/v1/tenants",
        [TOP_RESPONSES] = "/v1/responses?limit=100",
        [TOP_ORDERS] = "/v1/orders",
        [TOP_LANES] = "/v1/lanes?sort=worst&limit=100&destinations=0",
    };
    struct buf url;
    size_t len;
    buf_init(&url, 0);
    api_client_url(&url, paths[view], "");
    if (view == TOP_DESTINATIONS) {
        api_client_query(&url, "sort", top_model_daemon_sort(m));
        api_client_query(&url, "match", m->filter[0] == '\0' ? NULL : m->filter);
        api_client_query(&url, "state", is_held ? "dead,suspended" : NULL);
    } else if (view == TOP_LANES) {
        api_client_query(&url, "match", m->filter[0] == '\0' ? NULL : m->filter);
    } else if (view == TOP_QUEUE) {
        api_client_query(&url, "by", m->is_by_tenant ? "tenant" : "destination");
    }
    buf_append_char(&url, '\0');
    return buf_detach(&url, &len);
}

/* --- asking ----------------------------------------------------------------------------------- */

static void end_round(struct top_feed *f)
{
    usec_t now = clock_mono(), took = now - f->begun;
    f->steps = f->step = 0;
    f->due = f->begun + f->interval > now + took ? f->begun + f->interval : now + took;
}

static void fail_feed(struct top_feed *f, const char *text, bool is_lost)
{
    (void)snprintf(f->error, sizeof(f->error), "%s", text);
    f->is_lost = is_lost;
    end_round(f);
}

static char *step_path(unsigned step, const struct top_feed *f, const struct top_model *m,
                       const struct top_detail *d)
{
    struct buf url;
    size_t len;
    if (step == STEP_DETAIL) {
        return strdup(d->path);
    }
    char *path =
        step == STEP_STATUS ? strdup("/v1/status") : top_feed_path(m, f->view, step == STEP_HELD);
    buf_init(&url, 0);
    api_client_url(&url, path == NULL ? "" : path, "");
    api_client_nodes(f->cli, &url);
    buf_append_char(&url, '\0');
    free(path);
    return buf_detach(&url, &len);
}

static void ask_next(struct top_feed *f, const struct top_model *m, const struct top_detail *d)
{
    unsigned step = STEP_STATUS;
    while (step < STEP_END && (f->steps & step) == 0) {
        step <<= 1;
    }
    bool is_gone = step == STEP_DETAIL && (d->path == NULL || d->serial != f->serial);
    if (step == STEP_END || is_gone) {
        f->is_wanted = f->is_wanted || (is_gone && d->path != NULL);
        f->error[0] = '\0';
        f->is_lost = false;
        end_round(f);
        return;
    }
    f->steps &= ~step;
    f->step = step;
    f->asked = clock_mono();
    char *path = step_path(step, f, m, d);
    if (path == NULL || api_asker_ask(f->asker, path) != 0) {
        fail_feed(f, "out of memory", false);
    }
    free(path);
}

static bool is_count(enum top_view view)
{
    return view == TOP_QUEUE || view == TOP_AGES;
}

static void begin_request(struct top_feed *f, const struct top_model *m, const struct top_detail *d,
                          usec_t now)
{
    bool has_rows = top_model_table(m)->rows != NULL;
    f->is_wanted = false;
    f->begun = now;
    f->view = m->view;
    f->is_by_tenant = m->is_by_tenant;
    f->serial = d->serial;
    f->has_more = false;
    json_decref(f->held);
    f->held = NULL;
    f->steps = f->is_paused ? 0 : STEP_STATUS;
    if (!has_rows || (!f->is_paused && (!is_count(m->view) || now >= f->counts_due[m->view]))) {
        f->steps |= STEP_ROWS;
        f->steps |= m->view == TOP_DESTINATIONS && m->is_held_only ? STEP_HELD : 0;
    }
    f->steps |=
        d->is_open && d->path != NULL && (!f->is_paused || d->text == NULL) ? STEP_DETAIL : 0;
    ask_next(f, m, d);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* A list as an array; NULL: it was cut. */
static json_t *take_list(struct api_answer *a)
{
    json_t *rows = json_array(), *o = NULL;
    while ((o = api_answer_next(a)) != NULL) {
        (void)json_array_append_new(rows, o); /* out of memory: a row less */
    }
    if (!a->has_ended) {
        json_decref(rows);
        rows = NULL;
    }
    return rows;
}

const char *top_feed_take_status(struct top_model *m, struct api_answer *a)
{
    json_t *status = m->is_of_nodes ? take_list(a) : api_answer_object(a);
    if (status == NULL) {
        return "the answer is not understood";
    }
    if (m->is_of_nodes) {
        top_model_status_of_nodes(m, status, a->end);
    } else {
        top_model_status(m, status);
    }
    return NULL;
}

/* Append to the destinations that are held those of `rows` that are not among them. */
static json_t *join_rows(json_t *held, json_t *rows)
{
    char a[TOP_KEY_TEXT], b[TOP_KEY_TEXT];
    size_t i, k, count = json_array_size(held);
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        bool is_there = false;
        (void)top_row_key(TOP_DESTINATIONS, row, a);
        for (k = 0; k < count && !is_there; k++) {
            is_there = strcmp(a, top_row_key(TOP_DESTINATIONS, json_array_get(held, k), b)) == 0;
        }
        if (!is_there) {
            (void)json_array_append(held, row); /* out of memory leaves it out */
        }
    }
    json_decref(rows);
    return held;
}

static void take_rows(struct top_feed *f, struct top_model *m, struct api_answer *a, json_t *rows)
{
    bool has_more = a->has_more || f->has_more;
    if (is_count(f->view)) {
        usec_t now = clock_mono(), pause = (now - f->asked) * COUNTS_SHARE;
        f->counts_due[f->view] = now + (pause > f->interval ? pause : f->interval);
    }
    if (f->view == TOP_QUEUE && f->is_by_tenant != m->is_by_tenant) {
        json_decref(rows); /* the queue was grouped in another way meanwhile */
        f->counts_due[f->view] = 0;
    } else if (f->view == TOP_QUEUE) {
        top_model_queue(m, rows, has_more);
    } else if (f->view == TOP_AGES) {
        top_model_rows(m, TOP_AGES, top_ages(rows), false);
        json_decref(rows);
    } else {
        rows = f->held != NULL ? join_rows(f->held, rows) : rows;
        f->held = NULL;
        top_model_rows(m, f->view, rows, has_more);
    }
}

/* returns what is wrong with the answer; NULL: nothing */
static const char *take_list_answer(struct top_feed *f, struct top_model *m, struct api_answer *a)
{
    json_t *rows = take_list(a);
    if (rows == NULL) {
        return a->error;
    }
    if (f->step == STEP_HELD) {
        f->held = rows;
        f->has_more = a->has_more;
    } else {
        take_rows(f, m, a, rows);
    }
    return NULL;
}

static void take_feed_answer(struct top_feed *f, struct top_model *m, struct top_detail *d,
                             struct api_answer *a, int code)
{
    const char *wrong = NULL;
    bool is_lost = code != 0 && a->status == 0;
    if (f->step == STEP_DETAIL && !is_lost) {
        if (d->serial == f->serial) {
            top_detail_answer(d, a, code);
        }
    } else if (code != 0) {
        wrong = a->error;
    } else if (f->step == STEP_STATUS) {
        wrong = top_feed_take_status(m, a);
    } else {
        wrong = take_list_answer(f, m, a);
    }
    if (wrong != NULL) {
        fail_feed(f, wrong, is_lost);
    } else {
        ask_next(f, m, d);
    }
}

bool top_feed_run(struct top_feed *f, struct top_model *m, struct top_detail *d, usec_t now)
{
    struct api_answer a;
    bool is_new = false;
    int code;
    while (api_asker_take(f->asker, &a, &code)) {
        take_feed_answer(f, m, d, &a, code);
        api_answer_fini(&a);
        is_new = true;
    }
    if (!api_asker_is_busy(f->asker) && f->steps == 0 &&
        (f->is_wanted || (!f->is_paused && now >= f->due))) {
        begin_request(f, m, d, now);
    }
    return is_new;
}

int top_feed_timeout(const struct top_feed *f, usec_t now)
{
    if (f->is_wanted && !api_asker_is_busy(f->asker)) {
        return 0;
    }
    if (f->is_paused || api_asker_is_busy(f->asker) || f->due > now + (usec_t)IDLE_MS * 1000) {
        return IDLE_MS;
    }
    return f->due > now ? (int)((f->due - now) / 1000) + 1 : 0;
}
