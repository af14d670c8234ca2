/* Listening sockets on loopback. */
#include "base/error.h"
#include "net/listen.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in loopback(in_port_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void accepted_sockets_are_ready_for_use(void **state)
{
    struct sockaddr_in any = loopback(0);
    struct sockaddr_storage bound, peer;
    socklen_t len;
    int fd = listen_open((struct sockaddr *)&any, sizeof(any), 16, true);
    assert_true(fd >= 0);
    assert_int_equal(listen_accept(fd, NULL, NULL), ERR_AGAIN);
    assert_int_equal(listen_address(fd, &bound, &len), 0);
    assert_int_equal(len, sizeof(any));

    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&bound, len), 0);
    /* The kernel tells the client before it queues the connection. */
    struct pollfd queued = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&queued, 1, 60000), 1);
    int conn = listen_accept(fd, &peer, &len);
    assert_true(conn >= 0);
    assert_int_equal(peer.ss_family, AF_INET);
    assert_true((fcntl(conn, F_GETFL) & O_NONBLOCK) != 0);
    assert_true((fcntl(conn, F_GETFD) & FD_CLOEXEC) != 0);
    int nodelay = 0;
    len = sizeof(nodelay);
    assert_int_equal(getsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len), 0);
    assert_true(nodelay != 0);
    close(conn);
    close(client);
    close(fd);
}

static void sharing_is_a_choice(void **state)
{
    struct sockaddr_in any = loopback(0);
    struct sockaddr_storage bound;
    socklen_t len;
    int first = listen_open((struct sockaddr *)&any, sizeof(any), 16, true);
    assert_true(first >= 0);
    assert_int_equal(listen_address(first, &bound, &len), 0);
    int second = listen_open((struct sockaddr *)&bound, len, 16, true);
    assert_true(second >= 0);
    assert_int_equal(listen_open((struct sockaddr *)&bound, len, 16, false), -EADDRINUSE);
    close(first);
    close(second);
    assert_int_equal(listen_accept(first, NULL, NULL), -EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_sockets_are_ready_for_use),
        cmocka_unit_test(sharing_is_a_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
