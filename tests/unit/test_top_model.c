/* What `sluice top` keeps and how it is sorted, filtered, selected and fitted into a terminal. */
#include "engine/cli/top_layout.h"
#include "engine/cli/top_model.h"
#include "tests/unit/unit.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static json_t *parse(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

static const char rows_text[] =
    "[{\"transport\": \"smtp\", \"destination\": \"b.example\", \"state\": \"ready\", \"todo\": 9,"
    "  \"why\": \"its concurrency window is full\", \"delivered\": 5, \"deferred\": 0},"
    " {\"transport\": \"smtp\", \"destination\": \"a.example\", \"state\": \"dead\", \"todo\": 0,"
    "  \"until\": 130, \"why\": \"it is dead\", \"delivered\": 7, \"deferred\": 70},"
    " {\"transport\": \"bulk\", \"destination\": \"B.test\", \"state\": \"ready\", \"todo\": 2,"
    "  \"why\": \"nothing holds it back\", \"delivered\": 6, \"deferred\": 1},"
    " {\"transport\": \"smtp\", \"destination\": \"c.example\", \"state\": \"ready\", \"todo\": 0,"
    "  \"why\": \"nothing holds it back\", \"order\": \"3\", \"delivered\": 0, \"deferred\": 2}]";

static void setup_rows(struct top_model *m)
{
    top_model_init(m);
    top_model_status(m, parse("{\"now\": 100}"));
    top_model_rows(m, TOP_DESTINATIONS, parse(rows_text), false);
}

/* The names in sight, and > in front of the selected one. */
static void expect(const struct top_model *m, const char *names)
{
    char text[500] = "", cell[TOP_CELL_TEXT];
    size_t len = 0;
    const struct top_scale scale = top_model_scale(m);
    for (size_t i = 0; i < top_model_table(m)->shown_count; i++) {
        const json_t *row = top_model_row(m, i);
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%s%s%s", i > 0 ? " " : "",
                             row == top_model_selected(m) ? ">" : "",
                             top_cell_text(&top_view_row(m->view)->columns[0], row, &scale, cell));
    }
    assert_string_equal(text, names);
}

static void sort_by(struct top_model *m, const char *title)
{
    for (size_t i = 0; i <= TOP_COLUMNS_MAX && strcmp(top_model_sort_name(m), title) != 0; i++) {
        top_model_sort_next(m);
    }
    assert_string_equal(top_model_sort_name(m), title);
}

static void sorting(void **state)
{
    struct top_model m;
    (void)state;
    setup_rows(&m);
    expect(&m, ">b.example a.example B.test c.example");
    assert_string_equal(top_model_sort_name(&m), "load");
    assert_string_equal(top_model_daemon_sort(&m), "load");
    top_model_reverse(&m);
    expect(&m, ">c.example B.test a.example b.example");
    sort_by(&m, "DESTINATION");
    expect(&m, ">a.example b.example B.test c.example");
    assert_string_equal(top_model_daemon_sort(&m), "name");
    sort_by(&m, "DELIVERED"); /* numbers: the largest first */
    expect(&m, ">a.example B.test b.example c.example");
    assert_string_equal(top_model_daemon_sort(&m), "delivered");
    top_model_reverse(&m);
    expect(&m, ">c.example b.example B.test a.example");
    sort_by(&m, "TRANSPORT"); /* equals stay as they came */
    expect(&m, ">B.test b.example a.example c.example");
    assert_string_equal(top_model_daemon_sort(&m), "load");
    sort_by(&m, "load"); /* round */
    expect(&m, ">b.example a.example B.test c.example");
    top_model_fini(&m);
}

static void filters(void **state)
{
    struct top_model m;
    (void)state;
    setup_rows(&m);
    top_model_filter(&m, "EXAMPLE");
    expect(&m, ">b.example a.example c.example");
    top_model_held_only(&m, true); /* full window with mail waiting, dead, closed by an order */
    top_model_filter(&m, "");
    expect(&m, ">b.example a.example c.example");
    top_model_held_only(&m, false);
    top_model_filter(&m, "smtp"); /* of destinations the name only */
    expect(&m, "");
    assert_null(top_model_selected(&m));
    top_model_move(&m, 1);
    top_model_rows(&m, TOP_RESPONSES,
                   parse("[{\"kind\": \"failed\", \"text\": \"no such user\"},"
                         " {\"kind\": \"deferred\", \"text\": \"slow down\"}]"),
                   false);
    top_model_show(&m, TOP_RESPONSES);
    top_model_filter(&m, "Defer");
    assert_int_equal(top_model_table(&m)->shown_count, 1);
    top_model_fini(&m);
}

static void selection(void **state)
{
    struct top_model m;
    (void)state;
    setup_rows(&m);
    top_model_move(&m, 2);
    expect(&m, "b.example a.example >B.test c.example");
    sort_by(&m, "DELIVERED"); /* it stays the row's, not the place's */
    expect(&m, "a.example >B.test b.example c.example");
    top_model_rows(&m, TOP_DESTINATIONS,
                   parse("[{\"transport\": \"bulk\", \"destination\": \"B.test\"},"
                         " {\"transport\": \"smtp\", \"destination\": \"z\"},"
                         " {\"transport\": \"smtp\", \"destination\": \"B.test\"}]"),
                   true);
    expect(&m, ">B.test z B.test");
    top_model_move(&m, 1000000);
    expect(&m, "B.test z >B.test");
    top_model_rows(&m, TOP_DESTINATIONS, parse("[{\"destination\": \"y\"}]"), false);
    expect(&m, ">y"); /* the one that was selected is gone */
    top_model_move(&m, -1000000);
    top_model_rows(&m, TOP_DESTINATIONS, json_array(), false);
    expect(&m, "");
    top_model_fini(&m);
}

static void scrolling(void **state)
{
    struct top_model m;
    json_t *rows = json_array();
    (void)state;
    for (int i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "d%02d", i);
        (void)json_array_append_new(rows, json_pack("{s:s}", "destination", name));
    }
    top_model_init(&m);
    top_model_rows(&m, TOP_DESTINATIONS, rows, false);
    const struct top_table *t = top_model_table(&m);
    top_model_scroll(&m, 10);
    assert_int_equal(t->first, 0);
    top_model_move(&m, 10);
    top_model_scroll(&m, 10);
    assert_int_equal(t->first, 1);
    top_model_move(&m, 1000);
    top_model_scroll(&m, 10);
    assert_int_equal(t->first, 40);
    assert_int_equal(t->selected, 49);
    top_model_scroll(&m, 45); /* the terminal grew */
    assert_int_equal(t->first, 5);
    top_model_move(&m, -1000);
    top_model_scroll(&m, 3);
    assert_int_equal(t->first, 0);
    top_model_filter(&m, "d4");
    top_model_scroll(&m, 3);
    assert_int_equal(t->shown_count, 10);
    top_model_fini(&m);
}

static void views(void **state)
{
    struct top_model m;
    (void)state;
    setup_rows(&m);
    top_model_queue(&m,
                    parse("[{\"destination\": \"x\", \"recipients\": 2}, {\"destination\": \"\","
                          " \"recipients\": 1}, {\"other\": true, \"recipients\": 8}]"),
                    false);
    top_model_show(&m, TOP_QUEUE);
    expect(&m, ">x - (others)");
    assert_true(top_model_scale(&m).most == 8);
    top_model_group(&m, true);
    assert_null(top_model_table(&m)->rows);
    json_t *some = parse("[{\"age\": \"1h-4h\", \"recipients\": 3}]");
    top_model_rows(&m, TOP_AGES, top_ages(some), false);
    json_decref(some);
    top_model_show(&m, TOP_AGES);
    expect(&m, "><1m 1m-5m 5m-15m 15m-1h 1h-4h 4h-1d 1d-3d >3d");
    top_model_fini(&m);
}

static void cell(enum top_view view, const char *title, const char *row, const char *expected)
{
    const struct top_scale scale = {.now = 100, .most = 60};
    const struct top_column *c = top_view_row(view)->columns;
    char text[TOP_CELL_TEXT];
    while (strcmp(c->title, title) != 0) {
        c++;
    }
    json_t *o = parse(row);
    assert_string_equal(top_cell_text(c, o, &scale, text), expected);
    json_decref(o);
}

static void cells(void **state)
{
    (void)state;
    cell(TOP_DESTINATIONS, "STATE", "{\"state\": \"dead\", \"until\": 165}", "dead 1m05s");
    cell(TOP_DESTINATIONS, "WINDOW", "{\"busy\": 2, \"window\": 20}", "2/20");
    cell(TOP_DESTINATIONS, "HELD BACK BY", "{\"why\": \"nothing holds it back\"}", "");
    cell(TOP_DESTINATIONS, "HELD BACK BY",
         "{\"why\": \"w\", \"order\": \"7\", \"last_error\": {\"time\": 70, \"text\": \"451 e\"}}",
         "order 7; w; 451 e, 30s ago");
    cell(TOP_QUEUE, "OLDEST", "{\"oldest\": 40}", "1m00s");
    cell(TOP_QUEUE, "OLDEST", "{}", "");
    cell(TOP_QUEUE, "SHARE", "{\"recipients\": 1}", "#");
    cell(TOP_QUEUE, "SHARE", "{\"recipients\": 0}", "");
    cell(TOP_QUEUE, "SHARE", "{\"recipients\": 30}", "###############");
    cell(TOP_QUEUE, "SHARE", "{\"recipients\": 1e300}", "##############################");
    cell(TOP_ORDERS, "OF", "{\"tenant\": \"t\", \"source\": \"s\"}", "tenant t, source s");
    cell(TOP_ORDERS, "OF", "{}", "all mail");
    cell(TOP_RESPONSES, "CODE", "{}", "");
    static const char lane[] =
        "{\"site\": \"provider:x\", \"source\": \"ip1\", \"state\": \"closed\", \"until\": 165,"
        " \"closed\": {\"by\": \"receiver\", \"until\": 165, \"since\": 70, \"times\": 2,"
        " \"rule\": \"r\", \"text\": \"host mx[192.0.2.1] said: 554 no\"},"
        " \"paces\": [{\"of\": \"messages\", \"per_second\": 12.5}]}";
    cell(TOP_LANES, "SITE", lane, "provider:x");
    cell(TOP_LANES, "STATE", lane, "closed 1m05s");
    cell(TOP_LANES, "PACE", lane, "12.5/s");
    cell(TOP_LANES, "PACE", "{}", "");
    cell(TOP_LANES, "WINDOW", lane, ""); /* no transport has it now */
    cell(TOP_LANES, "CAUSE", lane, "554 no, 30s ago");
    cell(TOP_LANES, "CAUSE", "{\"paces\": [{\"rule\": \"mine\"}]}", "mine");
    cell(TOP_LANES, "CAUSE", "{\"state\": \"open\"}", "");
    json_t *closed = parse(lane), *paced = parse("{\"state\": \"paced\"}");
    assert_int_equal(top_row_tone(TOP_LANES, closed), TOP_ALARM);
    assert_int_equal(top_row_tone(TOP_LANES, paced), TOP_WARNING);
    json_decref(closed);
    json_decref(paced);
    json_t *held = parse("{\"state\": \"dead\"}"), *plain = parse("{\"state\": \"ready\"}");
    assert_int_equal(top_row_tone(TOP_DESTINATIONS, held), TOP_ALARM);
    assert_int_equal(top_row_tone(TOP_DESTINATIONS, plain), TOP_PLAIN);
    json_decref(held);
    json_decref(plain);
}

/* With 80 columns site, source, state and cause have room whatever they are. */
static void lanes_fit_eighty_columns(void **state)
{
    const int natural[] = {46, 12, 14, 9, 7, 6, 5, 9, 300};
    int got[TOP_COLUMNS_MAX];
    assert_int_equal(top_view_columns(TOP_LANES), sizeof(natural) / sizeof(natural[0]));
    top_layout_columns(TOP_LANES, top_view_columns(TOP_LANES), natural, 80, got);
    int sum = -2;
    for (size_t i = 0; i < top_view_columns(TOP_LANES); i++) {
        sum += got[i] > 0 ? got[i] + 2 : 0;
    }
    assert_true(sum <= 80 && got[0] >= 16 && got[1] == 12 && got[2] == 14 && got[8] >= 26);
}

static void take(const char *text, int width, int used, const wchar_t *expected, const char *rest)
{
    wchar_t wide[TOP_WIDTH_MAX + 1];
    assert_int_equal(top_layout_take(&text, width, true, wide), used);
    assert_int_equal(wcscmp(wide, expected), 0);
    assert_string_equal(text, rest);
}

static void text(void **state)
{
    (void)state;
    take("abc", 2, 2, L"ab", "c");
    take("ab\ncd", 9, 2, L"ab", "cd");
    take("", 9, 0, L"", "");
    take("one two three", 10, 8, L"one two ", "three");
    take("a longlonglong", 10, 10, L"a longlong", "long");
    take("a\x1b[2J\x07\xc2\x9b", 9, 7, L"a?[2J??", "");
    take("x\xe2\x80\xaey\xe2\x81\xa6z", 9, 5, L"x?y?z", "");
    take("e\xcc\x81\xcc\x81t", 9, 2, L"et", ""); /* what has no width is left out */
    take("\xff\xc0\x80\xed\xa0\x80\xf5", 9, 7, L"???????", "");
    take("\xe4\xb8\xad\xe6\x96\x87", 3, 2, L"\x4e2d", "\xe6\x96\x87"); /* two columns each */
    take("caf\xc3", 9, 4, L"caf?", "");
    assert_int_equal(top_layout_width("\xe4\xb8\xad\n"), 3);
}

static void widths(void **state)
{
    int natural[TOP_COLUMNS_MAX], got[TOP_COLUMNS_MAX];
    size_t count = top_view_columns(TOP_DESTINATIONS);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        natural[i] = 9;
    }
    natural[0] = 40;
    natural[count - 1] = 60;
    top_layout_columns(TOP_DESTINATIONS, count, natural, 500, got);
    assert_memory_equal(got, natural, count * sizeof(int));
    for (int width = 200; width > 0; width--) {
        int sum = -2;
        top_layout_columns(TOP_DESTINATIONS, count, natural, width, got);
        for (size_t i = 0; i < count; i++) {
            sum += got[i] > 0 ? got[i] + 2 : 0;
            assert_true(got[i] >= 0 && got[i] <= natural[i]);
        }
        assert_true(sum <= width && got[0] > 0);
        assert_true(width < 60 || (got[1] == 9 && got[2] == 9 && got[0] >= 16));
    }
}

/* Who has waited longest comes first; what is not known of a tenant, with no mail in memory, is empty. */
static void tenants(void **state)
{
    struct top_model m;
    char cell[TOP_CELL_TEXT];
    (void)state;
    top_model_init(&m);
    top_model_rows(&m, TOP_TENANTS,
                   parse("[{\"tenant\": \"a\", \"received\": 9, \"weight\": 1, \"waiting\": 4,"
                         "  \"connections\": 2, \"longest_wait\": 61},"
                         " {\"tenant\": \"b\", \"received\": 8},"
                         " {\"tenant\": \"c\", \"received\": 7, \"weight\": 10, \"waiting\": 1,"
                         "  \"connections\": 0, \"longest_wait\": 4000}]"),
                   false);
    top_model_show(&m, TOP_TENANTS);
    expect(&m, ">a b c");
    sort_by(&m, "LONGEST");
    expect(&m, ">c a b");
    const struct top_column *c = top_view_row(TOP_TENANTS)->columns;
    const struct top_scale scale = top_model_scale(&m);
    while (strcmp(c->title, "LONGEST") != 0) {
        c++;
    }
    assert_string_equal(top_cell_text(c, top_model_row(&m, 1), &scale, cell), "1m01s");
    assert_string_equal(top_cell_text(c, top_model_row(&m, 2), &scale, cell), "");
    sort_by(&m, "WEIGHT");
    expect(&m, ">c a b");
    top_model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorting),   cmocka_unit_test(tenants),
        cmocka_unit_test(filters),   cmocka_unit_test(selection),
        cmocka_unit_test(scrolling), cmocka_unit_test(views),
        cmocka_unit_test(cells),     cmocka_unit_test(text),
        cmocka_unit_test(widths),    cmocka_unit_test(lanes_fit_eighty_columns),
    };
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        return 77; /* skipped: no such locale */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
