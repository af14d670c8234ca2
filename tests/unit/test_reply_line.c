/* Replies as one line: code and status once. */
#include "base/plural.h"
#include "engine/event/reply_line.h"
#include "tests/unit/unit.h"

#include <string.h>

static void each_code_once(void **state)
{
    static const struct {
        unsigned code;
        const char *status, *text, *wanted;
    } rows[] = {
        {550, "5.1.1", "no such user", "550 5.1.1 no such user"},
        {550, "5.1.1", "550 5.1.1 no such user", "550 5.1.1 no such user"},
        {550, "5.1.1", "5.1.1 no such user", "550 5.1.1 no such user"},
        {550, "5.0.0", "550 5.1.1 no such user", "550 5.1.1 no such user"},
        {550, "5.1.1", "550-5.1.1 no", "550 5.1.1 no"},
        {550, "5.1.1", "5505 is no code", "550 5.1.1 5505 is no code"},
        {550, "5.1.1", "host a.b[192.0.2.1] said: 550 5.1.1 no",
         "550 5.1.1 host a.b[192.0.2.1] said: no"},
        {550, "5.0.0", "host a.b said: 550 550 5.1.1 no", "550 5.1.1 host a.b said: no"},
        {450, "4.4.2", "host a.b said: 550 no", "450 4.4.2 host a.b said: 550 no"},
        {421, "4.3.2", "4.3 of it", "421 4.3.2 4.3 of it"},
        {421, "", "", "421"},
        {0, "4.4.1", "connection refused", "4.4.1 connection refused"},
        {0, "", "plain", "plain"},
        {0, "4.4.1", "", "4.4.1"},
        {0, "", "", ""},
        {450, "4.2.0", "450", "450 4.2.0"},
    };
    char line[REPLY_LINE_MAX];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(
            reply_line(rows[i].code, slice_of(rows[i].status), slice_of(rows[i].text), line),
            rows[i].wanted);
    }
}

static void a_long_text_is_cut(void **state)
{
    char text[3 * REPLY_LINE_MAX], line[REPLY_LINE_MAX];
    memset(text, 'x', sizeof(text));
    (void)reply_line(550, SLICE("5.1.1"), slice_make(text, sizeof(text)), line);
    assert_int_equal(strlen(line), REPLY_LINE_MAX - 1);
}

static void one_or_many(void **state)
{
    assert_string_equal(plural(1, "delivery", "deliveries"), "delivery");
    assert_string_equal(plural(0, "delivery", "deliveries"), "deliveries");
    assert_string_equal(plural(2, "delivery", "deliveries"), "deliveries");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_code_once),
        cmocka_unit_test(a_long_text_is_cut),
        cmocka_unit_test(one_or_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
