/* What a browser says of itself. */
#include "engine/http/http_guard.h"
#include "tests/unit/unit.h"

static void hosts(void **state)
{
    (void)state;
    static const char *const good[] = {"127.0.0.1",     "127.0.0.1:80", "[::1]",       "[::1]:8025",
                                       "192.0.2.1:443", "localhost",    "LocalHost:1", "localhost.",
                                       "mail.test:99",  "Mail.Test"};
    static const char *const bad[] = {"",
                                      "evil.test",
                                      "127.0.0.1.evil.test",
                                      "localhost.evil.test",
                                      "[::1",
                                      "::1",
                                      "[::1]x",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "localhost:123456",
                                      "[localhost]",
                                      "a:b@127.0.0.1",
                                      "mail.test@evil.test",
                                      ".",
                                      "[]",
                                      "127.1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!http_guard_host(slice_of(good[i]), "mail.test")) {
            fail_msg("%s", good[i]);
        }
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (http_guard_host(slice_of(bad[i]), "mail.test")) {
            fail_msg("%s", bad[i]);
        }
    }
}

static void origins(void **state)
{
    (void)state;
    static const struct {
        const char *origin, *host;
        bool is_ours;
    } cases[] = {
        {"http://127.0.0.1:8025", "127.0.0.1:8025", true},
        {"https://Mail.test", "mail.test", true},
        {"http://127.0.0.1:8025", "127.0.0.1:8026", false},
        {"http://127.0.0.1", "127.0.0.1:8025", false},
        {"http://evil.test", "127.0.0.1:8025", false},
        {"null", "127.0.0.1", false},
        {"", "127.0.0.1", false},
        {"http://", "", false},
        {"127.0.0.1", "127.0.0.1", false},
        {"file://127.0.0.1", "127.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (http_guard_origin(slice_of(cases[i].origin), slice_of(cases[i].host)) !=
            cases[i].is_ours) {
            fail_msg("%s at %s", cases[i].origin, cases[i].host);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
