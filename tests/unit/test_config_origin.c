#include "engine/config/config_origin.h"
#include "tests/unit/config_sample.h"

#include <stdlib.h>
#include <unistd.h>

static void comes_from(const struct config *c, enum config_section section, size_t index,
                       const char *option, const char *expected)
{
    char text[CONFIG_ORIGIN_BYTES];
    bool is_set = config_origin(c, section, index, option, text);
    assert_string_equal(text, expected);
    assert_int_equal(is_set, strcmp(expected, "default") != 0);
}

static void places(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, "workers = 3\n"
                    "process_limit = 7\n"
                    "spool {\n path = \"/x\" }\n"
                    "event_log { path = none }\n"
                    "transport a {}\n"
                    "transport b {\n process_limit = 9\n}\n"
                    "dns { servers = {\"127.0.0.1\",\n \"::1\"} }\n"
                    "defer_transports = {a}\n"
                    "listener \"127.0.0.1:1\" { relay_from = {\"127.0.0.0/8\"} }\n"
                    "route \"*\" {\n transport = b }\n");
    assert_int_equal(s.err, 0);
    const struct config *c = s.config;
    comes_from(c, CONFIG_SECTION_GLOBAL, 0, "workers", "f:1");
    comes_from(c, CONFIG_SECTION_GLOBAL, 0, "hostname", "default");
    comes_from(c, CONFIG_SECTION_SPOOL, 0, "path", "f:4");
    comes_from(c, CONFIG_SECTION_EVENT_LOG, 0, "path", "f:5");
    comes_from(c, CONFIG_SECTION_CONTROL, 0, "path", "default");
    comes_from(c, CONFIG_SECTION_TRANSPORT, 0, "process_limit", "f:2");
    comes_from(c, CONFIG_SECTION_TRANSPORT, 1, "process_limit", "f:8");
    comes_from(c, CONFIG_SECTION_TRANSPORT, 1, "pipeline_depth", "default");
    comes_from(c, CONFIG_SECTION_TRANSPORT, 0, "hold", "f:12");
    comes_from(c, CONFIG_SECTION_TRANSPORT, 1, "hold", "default");
    comes_from(c, CONFIG_SECTION_TRANSPORT, 1, NULL, "f:7");
    comes_from(c, CONFIG_SECTION_DNS, 0, "servers", "f:11");
    comes_from(c, CONFIG_SECTION_LISTENER, 0, NULL, "f:13");
    comes_from(c, CONFIG_SECTION_ROUTE, 0, "transport", "f:15");
    comes_from(c, CONFIG_SECTION_ROUTE, 0, NULL, "f:14");
    /* what there is not */
    comes_from(c, CONFIG_SECTION_ROUTE, 1, NULL, "default");
    comes_from(c, CONFIG_SECTION_SOURCE, 0, "address", "default");
    comes_from(c, CONFIG_SECTION_GLOBAL, 0, "no_such", "default");
    comes_from(c, CONFIG_SECTION_GLOBAL, 0, "process_limit", "default");
    config_free(s.config);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0 && fclose(f) == 0, 1);
}

static void included_files(void **state)
{
    (void)state;
    struct sample s;
    char folder[] = "/tmp/origin.XXXXXX", a[64], b[64], expected[96];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(a, sizeof(a), "%s/a", folder);
    (void)snprintf(b, sizeof(b), "%s/b", folder);
    write_file(a, "include(\"b\")\nroute \"*\" { transport = smtp }\n");
    write_file(b, "\n\ntransport smtp { hold = yes }\n");
    struct config_sink sink = {.complain = sample_complain, .ctx = &s};
    s.said[0] = '\0';
    assert_int_equal(config_load(a, &sink, &s.config), 0);
    (void)snprintf(expected, sizeof(expected), "%s:3", b);
    comes_from(s.config, CONFIG_SECTION_TRANSPORT, 0, "hold", expected);
    (void)snprintf(expected, sizeof(expected), "%s:2", a);
    comes_from(s.config, CONFIG_SECTION_ROUTE, 0, "transport", expected);
    config_free(s.config);
    assert_int_equal(unlink(a) | unlink(b) | rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places), cmocka_unit_test(included_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
