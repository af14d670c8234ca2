/* Commands among bodies: whatever the socket takes at a time, the bytes arrive in order, and the
 * core hears of exactly those of its commands that left. */
#include "base/error.h"
#include "engine/outbound/outflow.h"
#include "net/poller.h"
#include "net/stream.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct bed {
    struct outflow flow;
    struct stream stream;
    int peer;
    struct buf out;      /* as the core's */
    struct buf expected; /* all bytes, in order */
    struct buf received;
    size_t commands, body; /* told as taken */
};

static void setup(struct bed *b)
{
    int fds[2], bytes = 1; /* the kernel makes that its minimum */
    *b = (struct bed){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    stream_init(&b->stream, fds[0]);
    b->peer = fds[1];
    outflow_init(&b->flow);
}

static void teardown(struct bed *b)
{
    stream_close(&b->stream);
    close(b->peer);
    outflow_fini(&b->flow);
    buf_fini(&b->out);
    buf_fini(&b->expected);
    buf_fini(&b->received);
}

static void add_commands(struct bed *b, char fill, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        buf_append_char(&b->out, fill);
        buf_append_char(&b->expected, fill);
    }
    assert_int_equal(outflow_add_commands(&b->flow, &b->out), 0);
}

/* As a small body is gathered. */
static void add_body(struct bed *b, char fill, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        buf_append_char(&b->flow.staged, fill);
        buf_append_char(&b->expected, fill);
    }
}

static int write_some(struct bed *b)
{
    struct outflow_taken taken;
    stream_ready(&b->stream, POLLER_WRITE);
    int err = outflow_write(&b->flow, &b->stream, &taken);
    buf_consume(&b->out, taken.commands);
    b->commands += taken.commands;
    b->body += taken.body;
    return err;
}

static void read_some(struct bed *b)
{
    char bytes[700];
    ssize_t n = read(b->peer, bytes, sizeof(bytes));
    if (n > 0) {
        buf_append(&b->received, bytes, (size_t)n);
    }
}

static size_t count_commands(struct slice bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        n += bytes.data[i] < 'a'; /* capital letters are commands */
    }
    return n;
}

static void commands_are_told_as_they_leave(void **state)
{
    (void)state;
    struct bed b;
    setup(&b);
    for (int i = 0; i < 8; i++) {
        add_commands(&b, 'A', 100);
        add_body(&b, 'b', 1500);
        add_commands(&b, 'C', 3);
    }
    int rounds = 0;
    while (write_some(&b) == ERR_AGAIN) {
        rounds++;
        size_t taken = b.commands + b.body;
        assert_int_equal(b.commands, count_commands(slice_to(buf_slice(&b.expected), taken)));
        assert_int_equal(b.flow.of_commands + b.commands, 8 * 103);
        read_some(&b);
    }
    assert_true(rounds > 0);
    assert_int_equal(b.commands, 8 * 103);
    assert_int_equal(b.body, 8 * 1500);
    assert_int_equal(b.out.len, 0);
    assert_int_equal(b.flow.of_commands, 0);
    assert_int_equal(b.flow.staged.len, 0);
    while (b.received.len < b.expected.len) {
        read_some(&b);
    }
    assert_memory_equal(b.received.data, b.expected.data, b.expected.len);
    teardown(&b);
}

static void commands_are_gathered_once(void **state)
{
    (void)state;
    struct bed b;
    setup(&b);
    add_commands(&b, 'A', 10);
    assert_int_equal(outflow_add_commands(&b.flow, &b.out), 0);
    assert_int_equal(b.flow.staged.len, 10);
    add_commands(&b, 'B', 5); /* the first ten still stand in front in the core's buffer */
    assert_int_equal(b.flow.staged.len, 15);
    assert_int_equal(write_some(&b), 0);
    assert_int_equal(b.commands, 15);
    teardown(&b);
}

static void enough_is_enough(void **state)
{
    (void)state;
    struct bed b;
    setup(&b);
    int marks = 0;
    while (!outflow_is_full(&b.flow)) {
        add_commands(&b, 'A', 1);
        add_body(&b, 'b', 1);
        marks++;
    }
    assert_int_equal(marks, OUTFLOW_MARKS);
    outflow_drop(&b.flow);
    assert_int_equal(b.flow.staged.len, 0);
    assert_int_equal(b.flow.of_commands, 0);
    add_body(&b, 'b', 64 << 10);
    assert_true(outflow_is_full(&b.flow));
    teardown(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_told_as_they_leave),
        cmocka_unit_test(commands_are_gathered_once),
        cmocka_unit_test(enough_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
