/* Owns the text about one row. Called by cli_top.c and top_feed.c; must not know the terminal. */
#include "engine/cli/top_detail.h"

#include "engine/cli/cli_lane.h"
#include "engine/cli/cli_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] = "1 destinations   2 queue, again: by tenant   3 ages\n"
                                "4 tenants        5 responses                 6 orders\n"
                                "7 lanes          (what receivers see of each source)\n"
                                "Tab, Shift-Tab   the next view, the one before\n"
                                "\n"
                                "arrows, PgUp, PgDn, Home, End   select a row\n"
                                "Enter   look into it: what holds the destination or tenant\n"
                                "        back, the whole response or order, all that\n"
                                "        stands of the lane\n"
                                "t       what the last session with it said and heard\n"
                                "Esc     back; also clears the filter\n"
                                "\n"
                                "s       sort by the next column, at last as the daemon does\n"
                                "r       the other way round\n"
                                "/       show only what has the text that is typed; of\n"
                                "        destinations and lanes in the name\n"
                                "d       destinations: only those that are dead, suspended\n"
                                "        or held back\n"
                                "p       pause, and go on\n"
                                "+ -     ask less often, more often\n"
                                "h ?     this help\n"
                                "q       quit\n"
                                "\n"
                                "Red: dead or suspended, or closed; lanes that are asked\n"
                                "to slow down are yellow.\n"
                                "WINDOW: connections that carry mail / that may.\n"
                                "What is done is counted from the daemon's start; rates are\n"
                                "those of 10 seconds.\n";

void top_detail_init(struct top_detail *d)
{
    *d = (struct top_detail){.is_open = false};
}

void top_detail_fini(struct top_detail *d)
{
    free(d->path);
    free(d->text);
}

void top_detail_close(struct top_detail *d)
{
    unsigned serial = d->serial;
    top_detail_fini(d);
    *d = (struct top_detail){.serial = serial + 1};
}

static void open_with(struct top_detail *d, const char *kind, const char *name)
{
    top_detail_close(d);
    d->is_open = true;
    (void)snprintf(d->title, sizeof(d->title), "%s%s%s", kind, name[0] == '\0' ? "" : " ", name);
}

/* A question with one or two parameters, to the node of the row; when there is no memory for it nothing is asked. */
static void set_path(struct top_detail *d, const char *path, const char *word, const char *value,
                     const char *transport, const json_t *row)
{
    const char *node = cli_member_text(row, "node");
    struct buf url;
    size_t len;
    buf_init(&url, 0);
    api_client_url(&url, path, "");
    api_client_query(&url, word, value);
    api_client_query(&url, "transport", transport[0] == '\0' ? NULL : transport);
    api_client_query(&url, "node", node[0] == '\0' ? NULL : node);
    api_client_query(&url, "limit", d->is_trace ? "1" : NULL);
    buf_append_char(&url, '\0');
    d->path = buf_detach(&url, &len);
}

/* --- all that a row has ----------------------------------------------------------------------- */

static bool is_time(const char *name)
{
    static const char *const times[] = {"first", "last", "created", "until"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        is_one = is_one || strcmp(name, times[i]) == 0;
    }
    return is_one;
}

static void print_value(FILE *out, const char *name, const json_t *value, double now)
{
    char text[CLI_WHEN_TEXT];
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            const char *item = json_string_value(json_array_get(value, i));
            (void)fputs(i == 0 ? "" : ", ", out);
            cli_print_safe(out, item == NULL ? "" : item);
        }
    } else if (json_is_number(value) && is_time(name)) {
        (void)fputs(cli_when_text(value, now, text), out);
    } else if (json_is_number(value)) {
        (void)fprintf(out, "%.0f", json_number_value(value));
    } else if (json_is_boolean(value)) {
        (void)fputs(json_is_true(value) ? "yes" : "no", out);
    } else if (json_is_string(value)) {
        cli_print_safe(out, json_string_value(value));
    }
}

static void describe_row(struct top_detail *d, const json_t *row, double now)
{
    size_t len;
    const char *name;
    const json_t *value;
    FILE *out = open_memstream(&d->text, &len);
    if (out == NULL) {
        return;
    }
    void *iterator = json_object_iter((json_t *)(uintptr_t)row);
    for (; iterator != NULL; iterator = json_object_iter_next((json_t *)(uintptr_t)row, iterator)) {
        name = json_object_iter_key(iterator);
        value = json_object_iter_value(iterator);
        (void)fprintf(out, "%-14s", name);
        print_value(out, name, value, now);
        (void)fputc('\n', out);
    }
    (void)fclose(out); /* out of memory: the text is shorter */
}

/* --- a lane ----------------------------------------------------------------------------------- */

static void print_lane_line(void *ctx, const char *name, const char *text)
{
    (void)fprintf(ctx, "%-9s", name);
    cli_print_safe(ctx, text);
    (void)fputc('\n', ctx);
}

static void describe_lane(struct top_detail *d, const json_t *row, double now)
{
    size_t len;
    FILE *out = open_memstream(&d->text, &len);
    if (out == NULL) {
        return;
    }
    char when[CLI_WHEN_TEXT];
    const json_t *accepted = json_object_get(row, "last_accepted");
    print_lane_line(out, "state", cli_member_text(row, "state"));
    cli_lane_facts(row, now, print_lane_line, out);
    cli_lane_rates(row, print_lane_line, out);
    print_lane_line(out, "accepted",
                    accepted == NULL ? "nothing yet" : cli_when_text(accepted, now, when));
    (void)fputs("\nsluice lanes open, close and pace change it.\n", out);
    (void)fclose(out); /* out of memory: the text is shorter */
}

/* --- looking into ----------------------------------------------------------------------------- */

static const char *subject_of(const struct top_model *m)
{
    if (m->view == TOP_QUEUE) {
        return m->is_by_tenant ? "tenant" : "destination";
    }
    return top_view_row(m->view)->about;
}

const char *top_detail_why(struct top_detail *d, const struct top_model *m)
{
    const json_t *row = top_model_selected(m);
    const char *about = subject_of(m);
    if (m->view == TOP_AGES) {
        return "There is nothing to look into.";
    }
    if (row == NULL) {
        return "No row is selected.";
    }
    if (m->view == TOP_RESPONSES || m->view == TOP_ORDERS) {
        open_with(d, m->view == TOP_ORDERS ? "order" : "response",
                  m->view == TOP_ORDERS ? cli_member_text(row, "id") : "");
        describe_row(d, row, m->now);
        return NULL;
    }
    if (m->view == TOP_LANES) {
        const char *source = cli_member_text(row, "source");
        char title[200];
        (void)snprintf(title, sizeof(title), "%.100s from %.80s", cli_member_text(row, "site"),
                       source[0] == '\0' ? "the system's address" : source);
        open_with(d, "lane", title);
        describe_lane(d, row, m->now);
        return NULL;
    }
    const char *name = cli_member_text(row, m->view == TOP_QUEUE ? "name" : about);
    if (name[0] == '\0') {
        return "It has no name to ask for.";
    }
    open_with(d, m->view == TOP_TENANTS || m->is_by_tenant ? "why: tenant" : "why: destination",
              name);
    set_path(d, "/v1/why", about, name, "", row);
    return NULL;
}

const char *top_detail_trace(struct top_detail *d, const struct top_model *m)
{
    const json_t *row = top_model_selected(m);
    const char *name = "", *transport = "";
    if (row != NULL && m->view == TOP_DESTINATIONS) {
        name = cli_member_text(row, "destination");
        transport = cli_member_text(row, "transport");
    } else if (row != NULL && m->view == TOP_QUEUE && !m->is_by_tenant) {
        name = cli_member_text(row, "name");
    } else if (row != NULL && m->view == TOP_RESPONSES) {
        const char *first =
            json_string_value(json_array_get(json_object_get(row, "destinations"), 0));
        name = first == NULL ? "" : first;
    }
    if (name[0] == '\0') {
        return "Sessions are those of a destination: select one.";
    }
    open_with(d, "last session with", name);
    d->is_trace = true;
    set_path(d, "/v1/trace", "destination", name, transport, row);
    return NULL;
}

void top_detail_help(struct top_detail *d)
{
    open_with(d, "help", "");
    d->text = strdup(help_text);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void print_answer(const struct top_detail *d, FILE *out, struct api_answer *a)
{
    json_t *o = NULL;
    if (d->is_trace) {
        bool is_any = false;
        for (; (o = api_answer_next(a)) != NULL; json_decref(o)) {
            cli_trace_print(out, o);
            is_any = true;
        }
        (void)fputs(is_any ? "" : "no session with that destination is recorded\n", out);
        return;
    }
    o = api_answer_object(a);
    if (o == NULL) {
        (void)fputs("the answer is not understood\n", out);
        return;
    }
    cli_why_print(out, o);
    if (json_array_size(json_object_get(o, "chain")) == 0) {
        (void)fputs("nothing holds it back\n", out);
    }
    json_decref(o);
}

void top_detail_answer(struct top_detail *d, struct api_answer *a, int code)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return;
    }
    if (code != 0) {
        cli_print_safe(out, a->error);
        (void)fputc('\n', out);
    } else {
        print_answer(d, out, a);
    }
    if (fclose(out) == 0) {
        free(d->text);
        d->text = text;
    } else {
        free(text);
    }
}
