/* Spans as they stand in the texts of causes. */
#include "engine/report/why_chain.h"
#include "tests/unit/unit.h"

static void spans(void **state)
{
    static const struct {
        usec_t span;
        const char *text;
    } rows[] = {
        {-5 * USEC_PER_SEC, "0s"},      {0, "0s"},
        {USEC_PER_SEC / 2, "1s"},       {59 * USEC_PER_SEC, "59s"},
        {300 * USEC_PER_SEC, "5m"},     {330 * USEC_PER_SEC, "5m30s"},
        {3600 * USEC_PER_SEC, "1h"},    {3660 * USEC_PER_SEC, "1h1m"},
        {3601 * USEC_PER_SEC, "1h"},    {86400 * USEC_PER_SEC, "1d"},
        {93600 * USEC_PER_SEC, "1d2h"}, {432000 * USEC_PER_SEC, "5d"},
    };
    char text[WHY_SPAN_TEXT];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(why_span_text(rows[i].span, text), rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
