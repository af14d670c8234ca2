/* The dialogue over a real stream: what arrives at the proxy, that the target's greeting is left in
 * the socket, and whom a failure blames. */
#include "dns/hosts.h"
#include "engine/outbound/egress.h"
#include "engine/outbound/proxy_dialogue.h"
#include "engine/state/settings.h"
#include "net/poller.h"
#include "net/socks5.h"
#include "net/stream.h"
#include "tests/unit/config_sample.h"

#include <sys/socket.h>
#include <unistd.h>

static const char text[] = "source front { address = 192.0.2.1 haproxy = \"127.0.0.1:5000\" }\n"
                           "source socks { socks5 = \"127.0.0.1:1080\" }\n"
                           "pool front { sources = {front} } pool socks { sources = {socks} }\n"
                           "transport smtp {} route \"*\" { transport = smtp }\n";

static const struct dns_host target = {.ip = {4, {198, 51, 100, 7}}, .port = 25};

struct bed {
    struct sample s;
    struct settings settings;
    struct slice passwords[2];
    struct stream stream;
    int proxy; /* the other end */
    struct proxy_dialogue *d;
};

static void begin(struct bed *b, uint32_t source)
{
    int fds[2];
    memset(b, 0, sizeof(*b));
    sample_load(&b->s, text);
    assert_int_equal(b->s.err, 0);
    b->settings.config = b->s.config;
    b->settings.passwords.sources = b->passwords;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    stream_init(&b->stream, fds[0]);
    b->proxy = fds[1];
    const struct egress choice = {&b->s.config->egress_sources[source], 0};
    b->d = proxy_dialogue_new(&b->settings, &choice, &target);
    assert_non_null(b->d);
}

static void end(struct bed *b)
{
    proxy_dialogue_end(&b->d);
    assert_null(b->d);
    stream_close(&b->stream);
    if (b->proxy >= 0) {
        assert_int_equal(close(b->proxy), 0);
    }
    config_free(b->s.config);
}

/* What the proxy heard. */
static void expect(struct bed *b, const char *bytes, size_t len)
{
    char got[600];
    assert_int_equal(read(b->proxy, got, sizeof(got)), (ssize_t)len);
    assert_memory_equal(got, bytes, len);
}

static enum proxy_progress answer(struct bed *b, const char *bytes, size_t len)
{
    assert_int_equal(write(b->proxy, bytes, len), (ssize_t)len);
    stream_ready(&b->stream, POLLER_READ);
    return proxy_dialogue_run(b->d, &b->stream);
}

static void header(void **state)
{
    (void)state;
    struct bed b;
    begin(&b, 0);
    assert_int_equal(proxy_dialogue_run(b.d, &b.stream), PROXY_DONE);
    expect(&b,
           "\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x07\x00\x00\x00\x19",
           28);
    end(&b);
}

static void header_to_nobody(void **state)
{
    (void)state;
    struct bed b;
    begin(&b, 0);
    assert_int_equal(close(b.proxy), 0);
    b.proxy = -1;
    assert_int_equal(proxy_dialogue_run(b.d, &b.stream), PROXY_FAILED);
    assert_string_equal(proxy_dialogue_error(b.d), "the proxy closed the connection");
    assert_false(proxy_dialogue_blames_target(b.d));
    end(&b);
}

static void socks(void **state)
{
    (void)state;
    struct bed b;
    char rest[20];
    begin(&b, 1);
    assert_int_equal(proxy_dialogue_run(b.d, &b.stream), PROXY_AGAIN);
    expect(&b, "\x05\x01\x00", 3);
    assert_int_equal(answer(&b, "\x05", 1), PROXY_AGAIN);
    assert_int_equal(answer(&b, "\x00", 1), PROXY_AGAIN);
    expect(&b, "\x05\x01\x00\x01\xc6\x33\x64\x07\x00\x19", 10);
    assert_int_equal(answer(&b,
                            "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
                            "220 x\r\n",
                            17),
                     PROXY_DONE);
    assert_true(stream_can_read(&b.stream));
    assert_int_equal(stream_read(&b.stream, rest, sizeof(rest)), 7);
    assert_memory_equal(rest, "220 x\r\n", 7);
    end(&b);
}

static void socks_refusals(void **state)
{
    (void)state;
    struct bed b;
    begin(&b, 1);
    assert_int_equal(proxy_dialogue_run(b.d, &b.stream), PROXY_AGAIN);
    assert_int_equal(answer(&b, "\x05\x00", 2), PROXY_AGAIN);
    assert_int_equal(answer(&b, "\x05\x04", 2), PROXY_FAILED);
    assert_string_equal(proxy_dialogue_error(b.d), "Host unreachable");
    assert_true(proxy_dialogue_blames_target(b.d));
    end(&b);
    begin(&b, 1);
    assert_int_equal(proxy_dialogue_run(b.d, &b.stream), PROXY_AGAIN);
    assert_int_equal(answer(&b, "220 hello\r\n", 11), PROXY_FAILED);
    assert_string_equal(proxy_dialogue_error(b.d), "it does not speak SOCKS version 5");
    assert_false(proxy_dialogue_blames_target(b.d));
    end(&b);
    begin(&b, 1);
    assert_int_equal(proxy_dialogue_run(b.d, &b.stream), PROXY_AGAIN);
    expect(&b, "\x05\x01\x00", 3);
    assert_int_equal(close(b.proxy), 0);
    b.proxy = -1;
    stream_ready(&b.stream, POLLER_READ);
    assert_int_equal(proxy_dialogue_run(b.d, &b.stream), PROXY_FAILED);
    assert_false(proxy_dialogue_blames_target(b.d));
    end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header),
        cmocka_unit_test(header_to_nobody),
        cmocka_unit_test(socks),
        cmocka_unit_test(socks_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
