/* The tables of `sluice top` and the text of their cells. Called by top_model.c, top_screen.c and
 * cli_top.c; asks nobody and prints nothing. */
#include "engine/cli/top_view.h"

#include "engine/cli/cli_lane.h"
#include "engine/cli/cli_table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define text_of   cli_member_text
#define number_of cli_member_number

enum { BAR_MAX = 30 };

static const char nothing_holds[] = "nothing holds it back"; /* sched_why_text */
static const char *const ages[] = {"<1m",   "1m-5m", "5m-15m", "15m-1h",
                                   "1h-4h", "4h-1d", "1d-3d",  ">3d"};
static const char *const selectors[] = {"tenant",      "campaign",  "domain",
                                        "destination", "transport", "source"};

/* The last of each view. */
#define NODE_COLUMN                                                                                \
    {                                                                                              \
        "NODE", "node", TOP_TEXT, 1                                                                \
    }

static const struct top_view_row views[TOP_VIEW_COUNT] = {
    [TOP_DESTINATIONS] = {"destinations", "load", "no destination is known",
                          (const struct top_column[]){
                              {"DESTINATION", "destination", TOP_NAME, 0},
                              {"STATE", "state", TOP_STATE, 1},
                              {"WINDOW", "window", TOP_WINDOW, 2},
                              {"FLIGHT", "in_flight", TOP_NUMBER, 4},
                              {"WAITING", "todo", TOP_NUMBER, 3},
                              {"CONNS", "connections", TOP_NUMBER, 8},
                              {"DELIVERED", "delivered", TOP_NUMBER, 5},
                              {"DEFERRED", "deferred", TOP_NUMBER, 6},
                              {"TRANSPORT", "transport", TOP_TEXT, 9},
                              {"HELD BACK BY", "why", TOP_REASON, 7},
                              NODE_COLUMN,
                              {NULL, NULL, TOP_TEXT, 0},
                          },
                          "destination"},
    [TOP_QUEUE] = {"queue", "size", "the queue is empty",
                   (const struct top_column[]){
                       {"GROUP", "name", TOP_NAME, 0},
                       {"RECIPIENTS", "recipients", TOP_NUMBER, 1},
                       {"MESSAGES", "messages", TOP_NUMBER, 3},
                       {"OLDEST", "oldest", TOP_SINCE, 2},
                       {"SHARE", "recipients", TOP_BAR, 4},
                       NODE_COLUMN,
                       {NULL, NULL, TOP_TEXT, 0},
                   },
                   ""}, /* the title of the first column follows the grouping */
    [TOP_AGES] = {"ages", "age", "the queue is empty",
                  (const struct top_column[]){
                      {"AGE", "age", TOP_TEXT, 0},
                      {"RECIPIENTS", "recipients", TOP_NUMBER, 1},
                      {"MESSAGES", "messages", TOP_NUMBER, 3},
                      {"SHARE", "recipients", TOP_BAR, 2},
                      NODE_COLUMN,
                      {NULL, NULL, TOP_TEXT, 0},
                  },
                  ""},
    [TOP_TENANTS] = {"tenants", "messages", "no mail came in since the start",
                     (const struct top_column[]){
                         {"TENANT", "tenant", TOP_NAME, 0},
                         {"WEIGHT", "weight", TOP_NUMBER, 8},
                         {"WAITING", "waiting", TOP_NUMBER, 3},
                         {"CONNS", "connections", TOP_NUMBER, 6},
                         {"LONGEST", "longest_wait", TOP_SPAN, 5},
                         {"MESSAGES", "received", TOP_NUMBER, 9},
                         {"RECIPIENTS", "recipients", TOP_NUMBER, 1},
                         {"DELIVERED", "delivered", TOP_NUMBER, 2},
                         {"DEFERRED", "deferred", TOP_NUMBER, 4},
                         {"FAILED", "failed", TOP_NUMBER, 7},
                         {"EXPIRED", "expired", TOP_NUMBER, 10},
                         {"DROPPED", "dropped", TOP_NUMBER, 11},
                         NODE_COLUMN,
                         {NULL, NULL, TOP_TEXT, 0},
                     },
                     "tenant"},
    [TOP_RESPONSES] = {"responses", "count", "nothing was deferred or refused since the start",
                       (const struct top_column[]){
                           {"COUNT", "count", TOP_NUMBER, 1},
                           {"KIND", "kind", TOP_TEXT, 3},
                           {"CODE", "code", TOP_NUMBER, 5},
                           {"STATUS", "status", TOP_TEXT, 4},
                           {"LAST", "last", TOP_SINCE, 2},
                           {"TEXT", "text", TOP_NAME, 0},
                           NODE_COLUMN,
                           {NULL, NULL, TOP_TEXT, 0},
                       },
                       ""},
    [TOP_ORDERS] = {"orders", "id", "no order stands",
                    (const struct top_column[]){
                        {"ID", "id", TOP_TEXT, 1},
                        {"ORDER", "order", TOP_TEXT, 1},
                        {"OF", "", TOP_SELECTORS, 0},
                        {"ENDS", "until", TOP_WHEN, 2},
                        {"MATCHED", "matched", TOP_NUMBER, 3},
                        {"BY", "by", TOP_TEXT, 5},
                        {"REASON", "reason", TOP_NAME, 4},
                        NODE_COLUMN,
                        {NULL, NULL, TOP_TEXT, 0},
                    },
                    ""},
    [TOP_LANES] = {"lanes", "worst", "no lane is known",
                   (const struct top_column[]){
                       {"SITE", "site", TOP_SITE, 0},
                       {"SOURCE", "source", TOP_TEXT, 2},
                       {"STATE", "state", TOP_STATE, 1},
                       {"PACE", "paces", TOP_PACE, 4},
                       {"WINDOW", "window", TOP_WINDOW, 6},
                       {"FLIGHT", "in_flight", TOP_NUMBER, 5},
                       {"CONNS", "open_connections", TOP_NUMBER, 7},
                       {"TRANSPORT", "transport", TOP_TEXT, 8},
                       {"CAUSE", "", TOP_CAUSE, 3},
                       NODE_COLUMN,
                       {NULL, NULL, TOP_TEXT, 0},
                   },
                   ""},
};

const struct top_view_row *top_view_row(enum top_view view)
{
    assert(view < TOP_VIEW_COUNT);
    return &views[view];
}

size_t top_view_columns(enum top_view view)
{
    size_t count = 0;
    while (top_view_row(view)->columns[count].title != NULL) {
        count++;
    }
    assert(count <= TOP_COLUMNS_MAX);
    return count - 1;
}

bool top_column_is_number(const struct top_column *c)
{
    return c->kind == TOP_NUMBER || c->kind == TOP_WINDOW || c->kind == TOP_SINCE ||
           c->kind == TOP_SPAN;
}

/* --- cells ------------------------------------------------------------------------------------ */

/* Append; what does not fit is cut. returns the new length */
static size_t add_cell_text(char ret[TOP_CELL_TEXT], size_t len, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static size_t add_cell_text(char ret[TOP_CELL_TEXT], size_t len, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int added = vsnprintf(ret + len, TOP_CELL_TEXT - len, fmt, args);
    va_end(args);
    len += added > 0 ? (size_t)added : 0;
    return len < TOP_CELL_TEXT ? len : TOP_CELL_TEXT - 1;
}

static void set_name_cell(const char *text, const json_t *row, char ret[TOP_CELL_TEXT])
{
    const char *name = text[0] == '\0' ? "-" : text;
    bool is_other = json_is_true(json_object_get(row, "other"));
    (void)add_cell_text(ret, 0, "%s", is_other ? "(others)" : name);
}

static void set_state(const json_t *row, double now, char ret[TOP_CELL_TEXT])
{
    char span[CLI_SPAN_TEXT];
    const json_t *until = json_object_get(row, "until");
    size_t len = add_cell_text(ret, 0, "%s", text_of(row, "state"));
    if (until != NULL) {
        (void)add_cell_text(ret, len, " %s", cli_span_text(json_number_value(until) - now, span));
    }
}

static void set_reason(const json_t *row, double now, char ret[TOP_CELL_TEXT])
{
    char when[CLI_WHEN_TEXT];
    const json_t *error = json_object_get(row, "last_error");
    const char *order = text_of(row, "order"), *why = text_of(row, "why");
    size_t len = 0;
    if (order[0] != '\0') {
        len = add_cell_text(ret, len, "order %s", order);
    }
    if (strcmp(why, nothing_holds) != 0 && why[0] != '\0') {
        len = add_cell_text(ret, len, "%s%s", len > 0 ? "; " : "", why);
    }
    if (error != NULL) {
        (void)add_cell_text(ret, len, "%s%s, %s", len > 0 ? "; " : "", text_of(error, "text"),
                            cli_when_text(json_object_get(error, "time"), now, when));
    }
}

static void set_selectors(const json_t *row, char ret[TOP_CELL_TEXT])
{
    size_t len = 0;
    for (size_t i = 0; i < sizeof(selectors) / sizeof(selectors[0]); i++) {
        const char *value = text_of(row, selectors[i]);
        if (value[0] != '\0') {
            len = add_cell_text(ret, len, "%s%s %s", len > 0 ? ", " : "", selectors[i], value);
        }
    }
    if (len == 0) {
        (void)add_cell_text(ret, 0, "all mail");
    }
}

/* Of what stands of a lane that which makes its state; NULL: nothing does. */
static const json_t *cause_of(const json_t *row)
{
    const json_t *closed = json_object_get(row, "closed"), *paused = json_object_get(row, "paused");
    const json_t *pace = json_array_get(json_object_get(row, "paces"), 0);
    const json_t *ceiling = json_array_get(json_object_get(row, "ceilings"), 0);
    if (closed != NULL) {
        return closed;
    }
    if (paused != NULL) {
        return paused;
    }
    return pace != NULL ? pace : ceiling;
}

/* "host mx[192.0.2.1] said: 554 no": who said it stands in the row already. */
static const char *said_text(const char *text)
{
    static const char said[] = " said: ";
    const char *at = strncmp(text, "host ", 5) == 0 ? strstr(text, said) : NULL;
    return at == NULL ? text : at + sizeof(said) - 1;
}

/* What was said, or who ordered it, and when that began. */
static void set_cause_cell(const json_t *row, double now, char ret[TOP_CELL_TEXT])
{
    char when[CLI_WHEN_TEXT];
    const json_t *cause = cause_of(row), *since = json_object_get(cause, "since");
    const char *text = text_of(cause, "text");
    size_t len =
        add_cell_text(ret, 0, "%s", text[0] != '\0' ? said_text(text) : text_of(cause, "rule"));
    if (since != NULL) {
        (void)add_cell_text(ret, len, "%s%s", len > 0 ? ", " : "", cli_when_text(since, now, when));
    }
}

static void set_lane_cell(enum top_kind kind, const json_t *row, double now,
                          char ret[TOP_CELL_TEXT])
{
    char site[CLI_LANE_SITE], pace[CLI_LANE_PACE];
    if (kind == TOP_SITE) {
        (void)add_cell_text(ret, 0, "%s", cli_lane_site(text_of(row, "site"), site));
    } else if (kind == TOP_PACE) {
        bool is_paced = json_array_size(json_object_get(row, "paces")) > 0;
        (void)add_cell_text(ret, 0, "%s", is_paced ? cli_lane_pace(row, pace) : "");
    } else {
        set_cause_cell(row, now, ret);
    }
}

static void set_bar(double value, double most, char ret[TOP_CELL_TEXT])
{
    double share = most > 0 && value > 0 ? value / most : 0;
    int len = share < 1 ? (int)(share * BAR_MAX + 0.999) : BAR_MAX;
    memset(ret, '#', (size_t)len);
    ret[len] = '\0';
}

const char *top_cell_text(const struct top_column *c, const json_t *row,
                          const struct top_scale *scale, char ret[TOP_CELL_TEXT])
{
    const json_t *value = json_object_get(row, c->member);
    char text[CLI_WHEN_TEXT];
    ret[0] = '\0';
    switch (c->kind) {
    case TOP_TEXT:
        (void)add_cell_text(ret, 0, "%s", text_of(row, c->member));
        break;
    case TOP_NAME:
        set_name_cell(text_of(row, c->member), row, ret);
        break;
    case TOP_NUMBER:
        if (value != NULL) {
            (void)add_cell_text(ret, 0, "%lld", number_of(row, c->member));
        }
        break;
    case TOP_SINCE:
        if (json_is_number(value)) {
            (void)add_cell_text(ret, 0, "%s",
                                cli_span_text(scale->now - json_number_value(value), text));
        }
        break;
    case TOP_SPAN:
        if (json_is_number(value)) {
            (void)add_cell_text(ret, 0, "%s", cli_span_text(json_number_value(value), text));
        }
        break;
    case TOP_WHEN:
        (void)add_cell_text(ret, 0, "%s", cli_when_text(value, scale->now, text));
        break;
    case TOP_WINDOW:
        if (value == NULL) {
            break; /* no transport has the lane */
        }
        (void)add_cell_text(ret, 0, "%lld/%lld", number_of(row, "busy"), number_of(row, "window"));
        break;
    case TOP_STATE:
        set_state(row, scale->now, ret);
        break;
    case TOP_REASON:
        set_reason(row, scale->now, ret);
        break;
    case TOP_SELECTORS:
        set_selectors(row, ret);
        break;
    case TOP_SITE:
    case TOP_PACE:
    case TOP_CAUSE:
        set_lane_cell(c->kind, row, scale->now, ret);
        break;
    case TOP_BAR:
        set_bar(json_number_value(value), scale->most, ret);
        break;
    }
    return ret;
}

/* What is older comes first where spans are told. */
static double figure(const struct top_column *c, const json_t *row)
{
    double value = json_number_value(json_object_get(row, c->member));
    return c->kind == TOP_SINCE ? -value : value;
}

int top_cell_compare(const struct top_column *c, const json_t *a, const json_t *b)
{
    if (top_column_is_number(c) || c->kind == TOP_WHEN || c->kind == TOP_BAR) {
        double x = figure(c, a), y = figure(c, b);
        return x < y ? -1 : x > y;
    }
    static const struct top_scale scale = {0, 0};
    char x[TOP_CELL_TEXT], y[TOP_CELL_TEXT];
    return strcasecmp(top_cell_text(c, a, &scale, x), top_cell_text(c, b, &scale, y));
}

/* --- rows ------------------------------------------------------------------------------------- */

bool top_row_is_held(const json_t *destination)
{
    const char *why = text_of(destination, "why");
    return strcmp(text_of(destination, "state"), "ready") != 0 ||
           text_of(destination, "order")[0] != '\0' ||
           (number_of(destination, "todo") > 0 && why[0] != '\0' &&
            strcmp(why, nothing_holds) != 0);
}

enum top_tone top_row_tone(enum top_view view, const json_t *row)
{
    const char *state = text_of(row, "state");
    switch (view) {
    case TOP_DESTINATIONS:
        if (strcmp(state, "dead") == 0 || strcmp(state, "suspended") == 0 ||
            text_of(row, "order")[0] != '\0') {
            return TOP_ALARM;
        }
        return strcmp(state, "resolving") == 0 ? TOP_WARNING : TOP_PLAIN;
    case TOP_RESPONSES:
        return strcmp(text_of(row, "kind"), "failed") == 0 ? TOP_ALARM : TOP_WARNING;
    case TOP_ORDERS:
        return strcmp(text_of(row, "order"), "suspend") == 0 ? TOP_WARNING : TOP_ALARM;
    case TOP_AGES:
        return strcmp(text_of(row, "age"), ">3d") == 0 && number_of(row, "recipients") > 0
                   ? TOP_WARNING
                   : TOP_PLAIN;
    case TOP_LANES:
        if (strcmp(state, "closed") == 0 || strcmp(state, "dead") == 0) {
            return TOP_ALARM;
        }
        return strcmp(state, "open") == 0 ? TOP_PLAIN : TOP_WARNING;
    case TOP_QUEUE:
    case TOP_TENANTS:
    case TOP_VIEW_COUNT:
        break;
    }
    return TOP_PLAIN;
}

const char *top_row_key(enum top_view view, const json_t *row, char ret[TOP_KEY_TEXT])
{
    static const char *const members[TOP_VIEW_COUNT][2] = {
        [TOP_DESTINATIONS] = {"transport", "destination"},
        [TOP_QUEUE] = {"by", "name"},
        [TOP_AGES] = {"age", "age"},
        [TOP_TENANTS] = {"tenant", "tenant"},
        [TOP_RESPONSES] = {"kind", "text"},
        [TOP_ORDERS] = {"id", "id"},
        [TOP_LANES] = {"site", "source"},
    };
    const char *more = json_is_true(json_object_get(row, "other")) ? "\n" : "";
    (void)snprintf(ret, TOP_KEY_TEXT, "%s\n%s%s\n%s", text_of(row, members[view][0]),
                   text_of(row, members[view][1]),
                   view == TOP_LANES ? text_of(row, "transport") : more, text_of(row, "node"));
    return ret;
}

json_t *top_ages(const json_t *rows)
{
    json_t *all = json_array();
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        json_t *row;
        long long recipients = 0, messages = 0;
        size_t at;
        json_array_foreach(rows, at, row) /* of each node one */
        {
            bool is_it = strcmp(text_of(row, "age"), ages[i]) == 0;
            recipients += is_it ? number_of(row, "recipients") : 0;
            messages += is_it ? number_of(row, "messages") : 0;
        }
        json_t *found = json_pack("{s:s, s:I, s:I}", "age", ages[i], "recipients",
                                  (json_int_t)recipients, "messages", (json_int_t)messages);
        (void)json_array_append_new(all, found); /* out of memory: a row less */
    }
    return all;
}
