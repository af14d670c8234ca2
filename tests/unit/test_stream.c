/* Streams: bytes arrive whole and in order through tiny buffers, with and without TLS, driven by
 * the edges of a real poller; and every way in which a peer goes away. */
#include "base/error.h"
#include "net/listen.h"
#include "net/poller.h"
#include "net/stream.h"
#include "tests/unit/tls_pair.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tls_files files;
static struct tls_client *client;
static struct tls_server *server;

static const struct tls_peer any_peer = {.level = TLS_LEVEL_MAY};

static void secure(struct pair *p)
{
    int client_result, server_result;
    pair_secure(p, tls_client_connection(client, &any_peer, NULL), tls_server_connection(server),
                &client_result, &server_result);
    assert_int_equal(client_result, 0);
    assert_int_equal(server_result, 0);
    pair_wake(p);
}

/* One end of an echo: the source sends `total` bytes and takes them back, the mirror returns
 * them. Both stop after a budget and go on in the next pass, as a worker does. */
struct end {
    struct poller_watch watch;
    struct stream *stream;
    size_t sent, received, total;
    size_t block; /* source: where its current block of ranges begins */
    bool is_mirror;
    unsigned seed;
    char held[700]; /* mirror: bytes to send back */
    size_t held_start, held_end;
};

static char pattern(size_t at)
{
    return (char)(at * 31 + (at >> 8) * 17 + (at >> 16));
}

static void end_ready(struct poller_watch *watch, unsigned events)
{
    struct end *e = container_of(watch, struct end, watch);
    stream_ready(e->stream, events);
}

static unsigned next_random(struct end *e)
{
    e->seed = e->seed * 1103515245u + 12345u;
    return e->seed >> 16;
}

/* A block of ranges of 0 to 9,000 bytes, as a pipeline with a body has them; what is left of a
 * block is offered until all of it is taken. */
static bool source_write(struct end *e)
{
    static char bytes[30000];
    struct iovec iov[5];
    size_t at = e->block;
    unsigned state = (unsigned)at + 1;
    for (size_t i = 0; i < 5; i++) {
        state = state * 1103515245u + 12345u;
        size_t len = (state >> 16) % 4 == 0 ? (state >> 18) % 6000 : (state >> 18) % 60;
        len = i == 4 ? 5000 : len;
        len = len < e->total - at ? len : e->total - at;
        size_t from = e->sent > at ? e->sent - at : 0;
        from = from < len ? from : len;
        iov[i] = (struct iovec){bytes + (at - e->block) + from, len - from};
        at += len;
    }
    for (size_t k = e->sent; k < at; k++) {
        bytes[k - e->block] = pattern(k);
    }
    ssize_t n = stream_writev(e->stream, iov, 5, at < e->total);
    if (n == ERR_AGAIN) {
        return false;
    }
    assert_true(n > 0);
    e->sent += (size_t)n;
    e->block = e->sent == at ? at : e->block;
    return true;
}

static bool source_step(struct end *e)
{
    bool has_moved = false;
    if (e->sent < e->total && stream_can_write(e->stream)) {
        has_moved |= source_write(e);
    }
    if (stream_can_read(e->stream)) {
        char buf[600];
        ssize_t n = stream_read(e->stream, buf, 1 + next_random(e) % sizeof(buf));
        assert_true(n > 0 || n == ERR_AGAIN);
        for (ssize_t i = 0; i < n; i++) {
            assert_int_equal(buf[i], pattern(e->received + (size_t)i));
        }
        e->received += n > 0 ? (size_t)n : 0;
        has_moved |= n > 0;
    }
    return has_moved;
}

static bool mirror_step(struct end *e)
{
    bool has_moved = false;
    if (e->held_start < e->held_end && stream_can_write(e->stream)) {
        ssize_t n =
            stream_write(e->stream, e->held + e->held_start, e->held_end - e->held_start, false);
        assert_true(n > 0 || n == ERR_AGAIN);
        e->held_start += n > 0 ? (size_t)n : 0;
        has_moved |= n > 0;
    }
    if (e->held_start == e->held_end && stream_can_read(e->stream)) {
        ssize_t n = stream_read(e->stream, e->held, sizeof(e->held));
        assert_true(n > 0 || n == ERR_AGAIN);
        e->held_start = 0;
        e->held_end = n > 0 ? (size_t)n : 0;
        has_moved |= n > 0;
    }
    return has_moved;
}

static void echo(struct pair *p, size_t total)
{
    struct poller poller;
    struct end source = {.stream = &p->client, .total = total, .seed = 7};
    struct end mirror = {.stream = &p->server, .is_mirror = true};
    assert_int_equal(poller_init(&poller, 4), 0);
    assert_int_equal(poller_add(&poller, &source.watch, p->client.fd, end_ready), 0);
    assert_int_equal(poller_add(&poller, &mirror.watch, p->server.fd, end_ready), 0);
    bool has_moved = true;
    while (source.received < total) {
        /* With nothing left to do an event must be there already: a while without one means
         * that a flag was cleared although no edge was to follow. */
        int n = poller_wait(&poller, has_moved ? 0 : 20 * USEC_PER_SEC);
        assert_true(n >= 0 && (n > 0 || has_moved));
        (void)poller_dispatch(&poller);
        has_moved = source_step(&source);
        has_moved |= mirror_step(&mirror);
    }
    assert_int_equal(source.received, total);
    assert_int_equal(p->client.bytes_out, total);
    assert_int_equal(p->client.bytes_in, total);
    assert_int_equal(p->server.bytes_in, total);
    poller_remove(&poller, &source.watch);
    poller_remove(&poller, &mirror.watch);
    poller_fini(&poller);
}

static void plain_bytes_arrive(void **state)
{
    struct pair p;
    pair_open(&p, 1);
    echo(&p, 300000);
    assert_false(stream_is_tls(&p.client));
    struct tls_facts facts;
    stream_tls_facts(&p.client, &facts);
    assert_null(facts.protocol);
    pair_close(&p);
    pair_close(&p);
}

static void tls_bytes_arrive(void **state)
{
    struct pair p;
    for (int buffer_bytes = 0; buffer_bytes <= 1; buffer_bytes++) {
        pair_open(&p, buffer_bytes);
        secure(&p);
        assert_true(stream_is_tls(&p.client));
        echo(&p, 300000);
        pair_close(&p);
    }
}

/* The other side is this process too, but the kernel may carry a packet to it later. */
static void await(int fd, short events)
{
    struct pollfd event = {.fd = fd, .events = events};
    assert_int_equal(poll(&event, 1, 60000), 1);
}

/* Over TCP, where short reads and writes mean what the kernel says. */
static void tcp_open(struct pair *p, int *ret_listener)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage bound;
    socklen_t len;
    *ret_listener = listen_open((struct sockaddr *)&any, sizeof(any), 4, false);
    assert_true(*ret_listener >= 0);
    assert_int_equal(listen_address(*ret_listener, &bound, &len), 0);
    assert_int_equal(stream_connect(&p->client, (struct sockaddr *)&bound, len,
                                    (struct sockaddr *)&any, sizeof(any)),
                     0);
    await(p->client.fd, POLLOUT);
    assert_int_equal(stream_connect_result(&p->client), 0);
    await(*ret_listener, POLLIN);
    int fd = listen_accept(*ret_listener, NULL, NULL);
    assert_true(fd >= 0);
    stream_init(&p->server, fd);
}

static void tcp_bytes_arrive(void **state)
{
    struct pair p;
    int listener;
    tcp_open(&p, &listener);
    const int small = 4096;
    assert_int_equal(setsockopt(p.client.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    /* A small receive buffer would mean a window below loopback's segment size, and so the
     * kernel's probe timers: a slow test that shows nothing more. */
    assert_int_equal(setsockopt(p.server.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    echo(&p, 300000);
    secure(&p);
    p.client.bytes_in = p.client.bytes_out = p.server.bytes_in = 0;
    echo(&p, 300000);
    pair_close(&p);
    close(listener);
}

static void refused_connections_say_so(void **state)
{
    struct stream s;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage bound;
    socklen_t len;
    /* Bound and not listening: nobody else can have the port. */
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen_address(fd, &bound, &len), 0);
    int result = stream_connect(&s, (struct sockaddr *)&bound, len, NULL, 0);
    if (result == 0) {
        assert_false(stream_can_write(&s));
        do {
            result = stream_connect_result(&s);
        } while (result == ERR_AGAIN);
    }
    assert_int_equal(result, -ECONNREFUSED);
    assert_string_equal(s.error, "connect: Connection refused");
    assert_int_equal(stream_write(&s, "x", 1, false), -ECONNREFUSED);
    stream_close(&s);

    any.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 is nobody's */
    assert_int_equal(
        stream_connect(&s, (struct sockaddr *)&bound, len, (struct sockaddr *)&any, sizeof(any)),
        -EADDRNOTAVAIL);
    assert_non_null(strstr(s.error, "source address"));
    assert_false(stream_is_open(&s));
    close(fd);
}

/* The poller's word is enough where it names no failure; where it does, the socket says which. */
static void the_poller_tells_the_end_of_a_connect(void **state)
{
    struct pair p;
    int listener;
    tcp_open(&p, &listener);
    p.client.is_connecting = true; /* as if its result were not known */
    p.client.is_writable = false;
    stream_ready(&p.client, POLLER_WRITE);
    assert_int_equal(stream_connect_result(&p.client), 0);
    assert_true(stream_can_write(&p.client));
    pair_close(&p);
    close(listener);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_storage bound;
    socklen_t len;
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen_address(fd, &bound, &len), 0);
    struct stream s;
    if (stream_connect(&s, (struct sockaddr *)&bound, len, NULL, 0) == 0) {
        await(s.fd, POLLOUT);
        stream_ready(&s, POLLER_READ | POLLER_WRITE | POLLER_HANGUP);
        assert_int_equal(stream_connect_result(&s), -ECONNREFUSED);
    }
    stream_close(&s);
    close(fd);
}

static void a_close_is_an_end(void **state)
{
    struct pair p;
    char buf[16];
    for (int is_tls = 0; is_tls <= 1; is_tls++) {
        for (int is_abrupt = 0; is_abrupt <= 1; is_abrupt++) {
            pair_open(&p, 0);
            if (is_tls) {
                secure(&p);
            }
            assert_int_equal(stream_write(&p.server, "bye", 3, false), 3);
            if (is_abrupt) {
                assert_int_equal(shutdown(p.server.fd, SHUT_RDWR), 0);
            } else {
                stream_close(&p.server);
            }
            stream_ready(&p.client, POLLER_READ | POLLER_HANGUP);
            assert_int_equal(stream_read(&p.client, buf, sizeof(buf)), 3);
            assert_true(stream_can_read(&p.client));
            assert_int_equal(stream_read(&p.client, buf, sizeof(buf)), 0);
            assert_int_equal(stream_read(&p.client, buf, sizeof(buf)), 0);
            pair_close(&p);
        }
    }
}

/* A peer that rejects a body early and closes: our write fails, its reply is still there. */
static void a_failed_write_leaves_replies_readable(void **state)
{
    struct pair p;
    char buf[16];
    pair_open(&p, 0);
    assert_int_equal(stream_write(&p.server, "554 no", 6, false), 6);
    stream_close(&p.server);
    assert_int_equal(stream_write(&p.client, "body", 4, false), -EPIPE);
    assert_int_equal(stream_write(&p.client, "body", 4, false), -EPIPE);
    assert_string_equal(p.client.error, "write: Broken pipe");
    stream_ready(&p.client, POLLER_READ | POLLER_HANGUP);
    assert_int_equal(stream_read(&p.client, buf, sizeof(buf)), 6);
    pair_close(&p);

    pair_open(&p, 0);
    secure(&p);
    assert_int_equal(stream_write(&p.server, "554 no", 6, false), 6);
    stream_close(&p.server);
    assert_int_equal(stream_write(&p.client, "body", 4, false), -EPIPE);
    stream_ready(&p.client, POLLER_READ | POLLER_HANGUP);
    ssize_t n;
    do {
        n = stream_read(&p.client, buf, sizeof(buf));
    } while (n == ERR_AGAIN);
    assert_int_equal(n, 6);
    pair_close(&p);
}

static void a_shutdown_leaves_reading_possible(void **state)
{
    struct pair p;
    char buf[16];
    for (int is_tls = 0; is_tls <= 1; is_tls++) {
        pair_open(&p, 0);
        if (is_tls) {
            secure(&p);
            pair_exchange(&p);
        }
        stream_shutdown(&p.server);
        assert_int_equal(stream_write(&p.server, "x", 1, false), -EPIPE);
        pair_wake(&p);
        assert_int_equal(stream_read(&p.client, buf, sizeof(buf)), 0);
        assert_int_equal(stream_write(&p.client, "last", 4, false), 4);
        assert_int_equal(stream_read(&p.server, buf, sizeof(buf)), 4);
        pair_close(&p);
    }
}

static void handshakes_fail_with_reasons(void **state)
{
    struct pair p;
    int result;
    /* The peer speaks plaintext. */
    pair_open(&p, 0);
    assert_int_equal(stream_start_tls(&p.client, tls_client_connection(client, &any_peer, NULL)),
                     0);
    assert_int_equal(stream_handshake(&p.client), ERR_AGAIN);
    assert_false(stream_can_handshake(&p.client));
    assert_false(stream_can_read(&p.client));
    assert_false(stream_can_write(&p.client));
    assert_int_equal(stream_write(&p.server, "220 what?\r\n", 11, false), 11);
    stream_ready(&p.client, POLLER_READ);
    assert_true(stream_can_handshake(&p.client));
    result = stream_handshake(&p.client);
    assert_int_equal(result, ERR_TLS);
    assert_string_equal(p.client.error, "TLS handshake: wrong version number");
    assert_int_equal(stream_handshake(&p.client), ERR_TLS);
    pair_close(&p);

    /* The peer goes away. */
    pair_open(&p, 0);
    assert_int_equal(stream_start_tls(&p.client, tls_client_connection(client, &any_peer, NULL)),
                     0);
    assert_int_equal(stream_handshake(&p.client), ERR_AGAIN);
    assert_int_equal(shutdown(p.server.fd, SHUT_WR), 0);
    stream_ready(&p.client, POLLER_READ | POLLER_HANGUP);
    assert_int_equal(stream_handshake(&p.client), ERR_CLOSED);
    assert_string_equal(p.client.error, "TLS handshake: closed by peer");
    pair_close(&p);

    /* No cipher in common: the alert names it on the other side. */
    int client_result, server_result;
    SSL *ssl = tls_client_connection(client, &any_peer, NULL);
    SSL *other = tls_server_connection(server);
    assert_int_equal(SSL_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256"), 1);
    assert_int_equal(SSL_set_ciphersuites(other, "TLS_AES_256_GCM_SHA384"), 1);
    pair_open(&p, 0);
    pair_secure(&p, ssl, other, &client_result, &server_result);
    assert_int_equal(client_result, ERR_TLS);
    assert_int_equal(server_result, ERR_TLS);
    assert_non_null(strstr(p.server.error, "no shared cipher"));
    assert_non_null(strstr(p.client.error, "alert handshake failure"));
    pair_close(&p);
}

/* The client's last flight and its first command may come in one segment, which the library reads
 * in one go: no event tells of the command. */
static void data_behind_the_handshake_is_seen(void **state)
{
    struct pair p;
    char buf[16];
    pair_open(&p, 0);
    assert_int_equal(stream_start_tls(&p.client, tls_client_connection(client, &any_peer, NULL)),
                     0);
    assert_int_equal(stream_start_tls(&p.server, tls_server_connection(server)), 0);
    assert_int_equal(stream_handshake(&p.client), ERR_AGAIN);
    assert_int_equal(stream_handshake(&p.server), ERR_AGAIN);
    assert_int_equal(stream_handshake(&p.client), 0);
    assert_int_equal(stream_write(&p.client, "EHLO", 4, false), 4);
    assert_int_equal(stream_handshake(&p.server), 0);
    assert_true(stream_can_read(&p.server));
    assert_int_equal(stream_read(&p.server, buf, sizeof(buf)), 4);
    pair_close(&p);
}

/* Ranges merged or cut differently from call to call, as long as the bytes are the same. */
static void a_blocked_record_may_be_offered_anew(void **state)
{
    static char data[200000], got[200000];
    struct pair p;
    size_t sent = 0, received = 0;
    unsigned round = 0;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = pattern(i);
    }
    pair_open(&p, 1);
    secure(&p);
    while (received < sizeof(data)) {
        size_t left = sizeof(data) - sent;
        size_t first = left < 5000 ? left / 2 : 5000;
        struct iovec iov[2] = {{data + sent, first}, {data + sent + first, left - first}};
        ssize_t n = 0;
        if (left > 0) {
            n = round++ % 2 == 0 ? stream_writev(&p.client, iov, 2, false)
                                 : stream_write(&p.client, data + sent, left, false);
        }
        if (n < 0 && n != ERR_AGAIN) {
            fail_msg("%s, %zu left", p.client.error, left);
        }
        sent += n > 0 ? (size_t)n : 0;
        n = stream_read(&p.server, got + received, 900);
        assert_true(n > 0 || n == ERR_AGAIN);
        received += n > 0 ? (size_t)n : 0;
    }
    assert_memory_equal(data, got, sizeof(data));
    pair_close(&p);
}

static void empty_writes_are_nothing(void **state)
{
    struct pair p;
    const struct iovec none[2] = {{NULL, 0}, {NULL, 0}};
    for (int is_tls = 0; is_tls <= 1; is_tls++) {
        pair_open(&p, 0);
        if (is_tls) {
            secure(&p);
        }
        assert_int_equal(stream_write(&p.client, "", 0, false), 0);
        assert_int_equal(stream_writev(&p.client, none, 2, false), 0);
        assert_int_equal(stream_writev(&p.client, NULL, 0, false), 0);
        pair_close(&p);
    }
}

static int begin(void **state)
{
    struct tls_error error;
    tls_files_make(&files);
    const struct tls_client_config client_config = {.ca_file = files.root};
    const struct tls_server_config server_config = {.certificate_file = files.leaf,
                                                    .key_file = files.leaf_key};
    assert_int_equal(tls_client_new(&client_config, &client, &error), 0);
    assert_int_equal(tls_server_new(&server_config, &server, &error), 0);
    return 0;
}

static int end(void **state)
{
    tls_client_free(client);
    tls_server_free(server);
    tls_files_remove(&files);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_bytes_arrive),
        cmocka_unit_test(tls_bytes_arrive),
        cmocka_unit_test(tcp_bytes_arrive),
        cmocka_unit_test(the_poller_tells_the_end_of_a_connect),
        cmocka_unit_test(refused_connections_say_so),
        cmocka_unit_test(a_close_is_an_end),
        cmocka_unit_test(a_failed_write_leaves_replies_readable),
        cmocka_unit_test(a_shutdown_leaves_reading_possible),
        cmocka_unit_test(handshakes_fail_with_reasons),
        cmocka_unit_test(data_behind_the_handshake_is_seen),
        cmocka_unit_test(a_blocked_record_may_be_offered_anew),
        cmocka_unit_test(empty_writes_are_nothing),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, begin, end);
}
