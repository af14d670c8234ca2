/* The time that a reply asks for, from texts that receivers use. */
#include "engine/reply/reply_hint.h"
#include "tests/unit/unit.h"

static void test_texts(void **state)
{
    static const struct {
        const char *text;
        usec_t seconds;
    } cases[] = {
        {"4.7.0 Try again later, closing connection. (MAIL)", 0},
        {"421 4.7.0 Please try again in 5 minutes", 300},
        {"450 4.7.1 Greylisted, please try again in 00:04:59", 0},
        {"451 Greylisted, retry after 300 seconds", 300},
        {"451 4.7.1 Please wait at least 60s", 60},
        {"421 too many messages, come back in 1 hour", 3600},
        {"452 4.3.1 wait 10min. and retry", 600},
        {"421 4.7.28 20 messages per minute are allowed, slow down", 0},
        {"421 more than 100 connections in the last 60 minutes", 0},
        {"450 try again after at least another 2 hours", 7200},
        {"421 retry in 99999999999999999999 hours", REPLY_HINT_MOST / USEC_PER_SEC},
        {"421 Retry 0 seconds later", 0},
        {"450 4.2.1 30 minutes later please", 1800},
        {"", 0},
        {"7", 0},
        {"try 7", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(reply_hint(slice_of(cases[i].text)), cases[i].seconds * USEC_PER_SEC);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
