/* sluice-kernel-bench: what io_uring would save where sluice asks the kernel most: the write and sync
 * of a journal's batch, and messages that come and are answered over many connections. Each way does
 * the same work in turn, in this process alone but for the peer of the sockets, and its own CPU time
 * and elapsed time a unit of work are printed. Figures and what follows: docs/scaling.md.
 *
 * sluice-kernel-bench FOLDER [ROUNDS] */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 36 << 10,      /* eight messages of 4 KB with their frames, in whole pages */
    JOURNAL = 64 << 20,    /* spool_journal */
    BATCHES = 200,         /* of a turn */
    CONNECTIONS = 20,
    MESSAGE = 4096,
    REPLY = 64,
    EXCHANGES = 40000,     /* of a turn, over all connections */
    BUFFERS = 64,
    BUFFER_GROUP = 1,
};

_Noreturn static void fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct turn {
    double cpu, elapsed;
};

static struct turn now(void)
{
    return (struct turn){seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC)};
}

static void add_since(struct turn *sum, struct turn begin)
{
    struct turn end = now();
    sum->cpu += end.cpu - begin.cpu;
    sum->elapsed += end.elapsed - begin.elapsed;
}

static void report(const char *name, const struct turn *sum, unsigned units)
{
    (void)printf("%-44s CPU %6.1f us, %7.1f us elapsed\n", name, sum->cpu / units * 1e6,
                 sum->elapsed / units * 1e6);
    (void)fflush(stdout);
}

static struct io_uring_sqe *next_request(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    if (sqe == NULL) {
        fail("io_uring_get_sqe");
    }
    return sqe;
}

/* --- the journal's batch ---------------------------------------------------------------------- */

static int open_journal(const char *folder, int flags)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/kernel-bench", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
    if (fd < 0) {
        fail(path);
    }
    return fd;
}

/* Every block is written once before, as the journal's are after its first generation. */
static void fill_journal(const char *folder, const char *batch)
{
    int fd = open_journal(folder, 0);
    for (off_t at = 0; at < JOURNAL; at += BATCH) {
        if (pwrite(fd, batch, BATCH, at) != BATCH) {
            fail("pwrite");
        }
    }
    if (fsync(fd) != 0) {
        fail("fsync");
    }
    (void)close(fd);
}

static void write_batch(int fd, const char *batch, off_t at, bool syncs)
{
    if (pwrite(fd, batch, BATCH, at) != BATCH || (syncs && fdatasync(fd) != 0)) {
        fail("pwrite, fdatasync");
    }
}

static void write_by_ring(struct io_uring *ring, int fd, const char *batch, off_t at)
{
    struct io_uring_sqe *sqe = next_request(ring);
    io_uring_prep_write(sqe, fd, batch, BATCH, (uint64_t)at);
    sqe->flags |= IOSQE_IO_LINK;
    io_uring_prep_fsync(next_request(ring), fd, IORING_FSYNC_DATASYNC);
    if (io_uring_submit_and_wait(ring, 2) != 2) {
        fail("io_uring_submit_and_wait");
    }
    for (int n = 0; n < 2; n++) {
        struct io_uring_cqe *cqe;
        if (io_uring_wait_cqe(ring, &cqe) != 0 || cqe->res < 0) {
            fail("linked write and sync");
        }
        io_uring_cqe_seen(ring, cqe);
    }
}

/* The ways take turns batch by batch, as the disk has others to serve. */
static void bench_journal(const char *folder, struct io_uring *ring)
{
    char *batch = aligned_alloc(4096, BATCH);
    if (batch == NULL) {
        fail("malloc");
    }
    memset(batch, 'x', BATCH);
    fill_journal(folder, batch);
    int plain = open_journal(folder, 0);
    int direct = open_journal(folder, O_DIRECT | O_DSYNC);
    struct turn by_calls = {0}, by_ring = {0}, by_direct = {0};
    for (off_t i = 0; i < BATCHES; i++) {
        struct turn begin = now();
        write_batch(plain, batch, 3 * i * BATCH, true);
        add_since(&by_calls, begin);
        begin = now();
        write_by_ring(ring, plain, batch, (3 * i + 1) * BATCH);
        add_since(&by_ring, begin);
        begin = now();
        write_batch(direct, batch, (3 * i + 2) * BATCH, false);
        add_since(&by_direct, begin);
    }
    report("journal: pwrite, fdatasync", &by_calls, BATCHES);
    report("journal: io_uring, linked write and sync", &by_ring, BATCHES);
    report("journal: pwrite, O_DIRECT and O_DSYNC", &by_direct, BATCHES);
    (void)close(plain);
    (void)close(direct);
    free(batch);
}

/* --- sockets ---------------------------------------------------------------------------------- */

static int connected_pair(int *ret_peer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    const int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&at, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) != 0 ||
        connect(*ret_peer, (struct sockaddr *)&at, len) != 0) {
        fail("socket");
    }
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(*ret_peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)close(listener);
    return fd;
}

/* The clients: each sends its next message when it has its reply. Never returns. */
static void run_peer(const int *fds)
{
    static char message[MESSAGE], reply[REPLY];
    int set = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        (void)epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event);
        (void)!write(fds[i], message, MESSAGE);
    }
    for (;;) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(set, events, CONNECTIONS, -1);
        for (int i = 0; i < count; i++) {
            if (recv(events[i].data.fd, reply, REPLY, MSG_WAITALL) != REPLY ||
                write(events[i].data.fd, message, MESSAGE) != MESSAGE) {
                _exit(0);
            }
        }
    }
}

struct server {
    int fds[CONNECTIONS];
    uint32_t got[CONNECTIONS]; /* bytes of a message */
    unsigned answered;
    char reply[REPLY];
};

/* returns whether a message is complete */
static bool take(struct server *s, uint32_t connection, int bytes)
{
    s->got[connection] += (uint32_t)bytes;
    if (s->got[connection] < MESSAGE) {
        return false;
    }
    s->got[connection] -= MESSAGE;
    s->answered++;
    return true;
}

static void serve_calls(struct server *s)
{
    static char in[65536];
    int set = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = i};
        if (epoll_ctl(set, EPOLL_CTL_ADD, s->fds[i], &event) != 0) {
            fail("epoll_ctl");
        }
    }
    while (s->answered < EXCHANGES) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(set, events, CONNECTIONS, -1);
        for (int i = 0; i < count; i++) {
            uint32_t connection = events[i].data.u32;
            ssize_t n = recv(s->fds[connection], in, sizeof(in), 0);
            if (n > 0 && take(s, connection, (int)n)) {
                (void)!send(s->fds[connection], s->reply, REPLY, MSG_NOSIGNAL);
            }
        }
    }
    (void)close(set);
}

static void receive(struct io_uring *ring, const struct server *s, uint32_t connection)
{
    struct io_uring_sqe *sqe = next_request(ring);
    io_uring_prep_recv_multishot(sqe, s->fds[connection], NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
    sqe->user_data = connection;
}

static void serve_ring(struct io_uring *ring, struct io_uring_buf_ring *buffers, char *memory,
                       struct server *s)
{
    const int mask = io_uring_buf_ring_mask(BUFFERS);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        receive(ring, s, i);
    }
    while (s->answered < EXCHANGES) {
        unsigned head, seen = 0;
        struct io_uring_cqe *cqe;
        if (io_uring_submit_and_wait(ring, 1) < 0) {
            fail("io_uring_submit_and_wait");
        }
        io_uring_for_each_cqe(ring, head, cqe)
        {
            seen++;
            uint32_t connection = (uint32_t)cqe->user_data;
            if (connection >= CONNECTIONS) {
                continue; /* a reply has left */
            }
            if ((cqe->flags & IORING_CQE_F_BUFFER) != 0) {
                unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
                io_uring_buf_ring_add(buffers, memory + (size_t)id * 65536, 65536,
                                      (unsigned short)id, mask, 0);
                io_uring_buf_ring_advance(buffers, 1);
            }
            if (cqe->res > 0 && take(s, connection, cqe->res)) {
                struct io_uring_sqe *sqe = next_request(ring);
                io_uring_prep_send(sqe, s->fds[connection], s->reply, REPLY, MSG_NOSIGNAL);
                sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
                sqe->user_data = CONNECTIONS;
            }
            if ((cqe->flags & IORING_CQE_F_MORE) == 0) {
                receive(ring, s, connection);
            }
        }
        io_uring_cq_advance(ring, seen);
    }
}

static void bench_sockets(bool by_ring)
{
    struct server s = {.answered = 0};
    int peers[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        s.fds[i] = connected_pair(&peers[i]);
    }
    pid_t peer = fork();
    if (peer == 0) {
        run_peer(peers);
    }
    if (by_ring) {
        struct io_uring ring;
        struct io_uring_buf_reg registration = {.ring_entries = BUFFERS, .bgid = BUFFER_GROUP};
        struct io_uring_buf_ring *buffers =
            aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
        char *memory = malloc((size_t)BUFFERS * 65536);
        registration.ring_addr = (uint64_t)(uintptr_t)buffers;
        if (buffers == NULL || memory == NULL ||
            io_uring_queue_init(256, &ring,
                                IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) != 0 ||
            io_uring_register_buf_ring(&ring, &registration, 0) != 0) {
            fail("io_uring with provided buffers");
        }
        io_uring_buf_ring_init(buffers);
        for (unsigned i = 0; i < BUFFERS; i++) {
            io_uring_buf_ring_add(buffers, memory + (size_t)i * 65536, 65536, (unsigned short)i,
                                  io_uring_buf_ring_mask(BUFFERS), (int)i);
        }
        io_uring_buf_ring_advance(buffers, BUFFERS);
        struct turn begin = now(), sum = {0};
        serve_ring(&ring, buffers, memory, &s);
        add_since(&sum, begin);
        report("sockets: io_uring, multishot receive, send", &sum, EXCHANGES);
        io_uring_queue_exit(&ring);
        free(buffers);
        free(memory);
    } else {
        struct turn begin = now(), sum = {0};
        serve_calls(&s);
        add_since(&sum, begin);
        report("sockets: epoll_wait, recv, send", &sum, EXCHANGES);
    }
    (void)kill(peer, SIGKILL);
    (void)waitpid(peer, NULL, 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        (void)close(s.fds[i]);
        (void)close(peers[i]);
    }
}

int main(int argc, char **argv)
{
    struct io_uring ring;
    if (argc < 2 || argc > 3) {
        (void)fprintf(stderr, "usage: sluice-kernel-bench FOLDER [ROUNDS]\n");
        return 64;
    }
    if (io_uring_queue_init(8, &ring, 0) != 0) {
        fail("io_uring_queue_init");
    }
    for (int rounds = argc > 2 ? atoi(argv[2]) : 3; rounds > 0; rounds--) {
        bench_journal(argv[1], &ring);
        bench_sockets(false);
        bench_sockets(true);
    }
    io_uring_queue_exit(&ring);
    return 0;
}
