/* What is printed of a value is what the file would say. */
#include "engine/config/config_section.h"
#include "engine/config/config_text.h"
#include "tests/unit/config_sample.h"

static void expect(const struct config *c, enum config_section section, const char *option,
                   const char *expected)
{
    const struct config_option *o = config_option_find(section, option);
    struct buf text;
    assert_non_null(o);
    buf_init(&text, 0);
    config_text_value(o, config_section_value(c, o->section, o, 0), &text);
    buf_append_char(&text, '\0');
    assert_string_equal(text.data, expected);
    buf_fini(&text);
}

static void values(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, "workers = 3\nmaximal_queue_lifetime = 5d\nqueue_run_delay = 90m\n"
                    "minimal_backoff_time = 7200\nmap_size = 2048M\n"
                    "recipient_refill_delay = 1500ms\ntransport_rate_delay = 100/m\n"
                    "bounce_size_limit = 50000\nallow_loopback = on\n"
                    "defer_transports = {t}\n"
                    "dns { servers = {\"127.0.0.1\", \"[::1]:5300\"} }\n"
                    "listener \"127.0.0.1:1\" { relay_from = {\"10.0.0.0/8\", "
                    "\"2001:db8::/32\"} }\n"
                    "source \"s\" { socks5 = \"[::1]:1080\" }\n"
                    "pool \"p\" { sources = {s} weights = {7} }\n"
                    "transport t { smtp_tls_security_level = mta-sts }\n");
    const struct config *c = s.config;
    assert_non_null(c);
    expect(c, CONFIG_SECTION_GLOBAL, "workers", "3");
    expect(c, CONFIG_SECTION_GLOBAL, "maximal_queue_lifetime", "5d");
    expect(c, CONFIG_SECTION_GLOBAL, "queue_run_delay", "5400s");
    expect(c, CONFIG_SECTION_TRANSPORT, "recipient_refill_delay", "1s500ms");
    expect(c, CONFIG_SECTION_TRANSPORT, "transport_rate_delay", "600ms");
    expect(c, CONFIG_SECTION_GLOBAL, "minimal_backoff_time", "2h");
    expect(c, CONFIG_SECTION_GLOBAL, "map_size", "2G");
    expect(c, CONFIG_SECTION_GLOBAL, "bounce_size_limit", "50000");
    expect(c, CONFIG_SECTION_GLOBAL, "spool_reserve", "256M");
    expect(c, CONFIG_SECTION_GLOBAL, "delay_warning_time", "0s");
    expect(c, CONFIG_SECTION_GLOBAL, "allow_loopback", "yes");
    expect(c, CONFIG_SECTION_GLOBAL, "user", "");
    expect(c, CONFIG_SECTION_GLOBAL, "defer_transports", "t");
    expect(c, CONFIG_SECTION_DNS, "servers", "127.0.0.1:53, [::1]:5300");
    expect(c, CONFIG_SECTION_LISTENER, "relay_from", "10.0.0.0/8, 2001:db8::/32");
    expect(c, CONFIG_SECTION_SOURCE, "socks5", "[::1]:1080");
    expect(c, CONFIG_SECTION_SOURCE, "haproxy", "");
    expect(c, CONFIG_SECTION_SOURCE, "address", "");
    expect(c, CONFIG_SECTION_POOL, "weights", "7");
    expect(c, CONFIG_SECTION_TRANSPORT, "smtp_tls_security_level", "mta-sts");
    expect(c, CONFIG_SECTION_TRANSPORT, "destination_concurrency_positive_feedback", "1");
    config_free(s.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
