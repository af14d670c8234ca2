/* Commands among bodies: whatever the socket takes at a time, the bytes arrive in order, and the
 * core hears of exactly those of its commands that left. */
#include "base/error.h"
#include "base/rcu.h"
#include "engine/outbound/outflow.h"
#include "engine/post/message.h"
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

/* What a body in memory becomes, sent by DATA. returns: as body_stream_take_small */
static int take_in_memory(struct slice content, bool is_plain, struct buf *out)
{
    const struct spool_envelope e = {
        .id = 7, .recipient_count = 1, .sender = SLICE(""), .size_bytes = content.len};
    struct message *m = message_new_whole(&e, slice_make("\0\1b", 3));
    struct body_stream stream;
    struct buf body = {0};
    assert_non_null(m);
    buf_append_slice(&body, content);
    message_keep_body(m, &body);
    m->is_plain = is_plain;
    body_stream_begin(&stream, m, false);
    int result = body_stream_take_small(&stream, NULL, out);
    assert_int_equal(stream.is_streaming, result != 1);
    message_put(m);
    return result;
}

/* A plain body goes out as it is; of any other, each byte is looked at. */
static void a_body_in_memory_is_taken_whole(void **state)
{
    static const struct slice plain = SLICE("A: b\r\n\r\nc.\r\n");
    rcu_join(); /* as a worker, which may read bodies in memory */
    for (int i = 0; i < 2; i++) {
        struct buf out = {0};
        assert_int_equal(take_in_memory(plain, i == 1, &out), 1);
        assert_true(slice_eq(buf_slice(&out), plain));
        buf_fini(&out);
    }
    struct buf out = {0};
    assert_int_equal(take_in_memory(SLICE("A: b\r\n\r\n.\r\n.c"), false, &out), 1);
    assert_true(slice_eq(buf_slice(&out), SLICE("A: b\r\n\r\n..\r\n..c\r\n")));
    assert_int_equal(take_in_memory(SLICE("A: b\r\n\r\nc\n.\r\n"), false, &out), ERR_CORRUPT);
    buf_fini(&out);
    rcu_leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_told_as_they_leave),
        cmocka_unit_test(commands_are_gathered_once),
        cmocka_unit_test(enough_is_enough),
        cmocka_unit_test(a_body_in_memory_is_taken_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
