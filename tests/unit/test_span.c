/* Spans of time as text. */
#include "base/span.h"
#include "tests/unit/unit.h"

static void spans_are_read(void **state)
{
    static const struct {
        const char *text;
        usec_t seconds; /* -1: none */
    } spans[] = {{"90s", 90},    {"15m", 900},       {"2h", 7200},   {"5d", 432000},
                 {"1w", 604800}, {"7", 7},           {"0s", 0},      {"s", -1},
                 {"", -1},       {"-5s", -1},        {"1.5h", -1},   {"5y", -1},
                 {"5 s", -1},    {"9999999999", -1}, {"10000w", -1}, {"h2", -1}};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        usec_t span = -2;
        bool is_good = span_parse(slice_of(spans[i].text), &span);
        if (is_good != (spans[i].seconds >= 0) ||
            (is_good && span != spans[i].seconds * USEC_PER_SEC)) {
            fail_msg("\"%s\"", spans[i].text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spans_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
