/* Plain or TLS bytes over one non-blocking socket; flags instead of callbacks. Called by the
 * connection code of the workers; decides nothing about the protocol above. */
#include "net/stream.h"

#include "base/error.h"
#include "net/poller.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TLS_RECORD_MAX 16384 /* RFC 8446 section 5.1: bytes of payload in one record */
#define TLS_LARGE      4096  /* a range of at least this many bytes is not copied into a record */

static void describe_error(struct stream *s, const char *what, const char *why)
{
    (void)snprintf(s->error, sizeof(s->error), "%.30s: %.159s", what, why);
}

void stream_init(struct stream *s, int fd)
{
    memset(s, 0, sizeof(*s));
    s->fd = fd;
    s->is_writable = true;
    s->read_wants = STREAM_WANT_READ;
    s->write_wants = STREAM_WANT_WRITE;
}

static int connect_failed(struct stream *s, const char *what)
{
    int err = -errno;
    describe_error(s, what, err_str(err));
    s->read_failure = s->write_failure = err;
    stream_close(s);
    return err;
}

static int bind_local(int fd, const struct sockaddr *local, socklen_t local_len)
{
    const int on = 1;
    /* The port is chosen at connect, per destination: one source address then serves more than
     * one range of ports. Kernels that do not know the option still work. */
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    return bind(fd, local, local_len);
}

int stream_connect(struct stream *s, const struct sockaddr *peer, socklen_t peer_len,
                   const struct sockaddr *local, socklen_t local_len)
{
    const int on = 1;
    stream_init(s, socket(peer->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    s->is_writable = false;
    if (s->fd < 0) {
        return connect_failed(s, "socket");
    }
    if (peer->sa_family != AF_UNIX) {
        /* when that fails, mail still flows, only slower */
        (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    if (local != NULL && bind_local(s->fd, local, local_len) != 0) {
        return connect_failed(s, "bind to the source address");
    }
    if (connect(s->fd, peer, peer_len) == 0) {
        s->is_writable = true;
        return 0;
    }
    if (errno != EINPROGRESS && errno != EINTR) {
        return connect_failed(s, "connect");
    }
    s->is_connecting = true;
    return 0;
}

int stream_connect_result(struct stream *s)
{
    if (!s->is_connecting) {
        return s->write_failure;
    }
    if (s->is_writable && !s->is_hungup) {
        s->is_connecting = false; /* the poller tells a failure with a hangup */
        return 0;
    }
    int result = 0;
    socklen_t len = sizeof(result);
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &result, &len) != 0) {
        result = errno;
    }
    struct sockaddr_storage peer;
    len = sizeof(peer);
    /* Before connect has finished an error-free socket has no peer yet. */
    if (result == 0 && getpeername(s->fd, (struct sockaddr *)&peer, &len) != 0) {
        if (errno == ENOTCONN) {
            return ERR_AGAIN;
        }
        result = errno;
    }
    s->is_connecting = false;
    if (result != 0) {
        s->read_failure = s->write_failure = -result;
        describe_error(s, "connect", err_str(-result));
        return -result;
    }
    s->is_writable = true;
    return 0;
}

void stream_ready(struct stream *s, unsigned events)
{
    if ((events & POLLER_READ) != 0) {
        s->is_readable = true;
    }
    if ((events & POLLER_WRITE) != 0) {
        s->is_writable = true;
    }
    if ((events & POLLER_HANGUP) != 0) {
        s->is_hungup = true;
    }
}

static bool has_wanted(const struct stream *s, enum stream_want want)
{
    return want == STREAM_WANT_READ ? s->is_readable : s->is_writable;
}

bool stream_can_read(const struct stream *s)
{
    return s->fd >= 0 && !s->is_handshaking &&
           (s->read_failure != 0 || has_wanted(s, s->read_wants));
}

bool stream_can_write(const struct stream *s)
{
    return s->fd >= 0 && !s->is_handshaking && !s->is_connecting &&
           (s->write_failure != 0 || has_wanted(s, s->write_wants));
}

bool stream_can_handshake(const struct stream *s)
{
    return s->fd >= 0 && s->is_handshaking &&
           (s->write_failure != 0 || has_wanted(s, s->write_wants));
}

/* The verdict on a TLS call that did not succeed. saved_errno: errno right after the call.
 * returns: ERR_AGAIN with *ret_want set; 0: close_notify; else the error, described. */
static int tls_failed(struct stream *s, int result, int saved_errno, const char *what,
                      enum stream_want *ret_want)
{
    char line[160];
    int err = ERR_TLS;
    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        s->is_readable = false;
        *ret_want = STREAM_WANT_READ;
        return ERR_AGAIN;
    case SSL_ERROR_WANT_WRITE:
        s->is_writable = false;
        *ret_want = STREAM_WANT_WRITE;
        return ERR_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        err = saved_errno == 0 ? ERR_CLOSED : -saved_errno;
        describe_error(s, what, err_str(err));
        ERR_clear_error();
        return err;
    default:
        break;
    }
    s->is_tls_broken = true;
    if (s->is_handshaking && SSL_get_verify_result(s->ssl) != X509_V_OK &&
        ERR_GET_REASON(ERR_peek_error()) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        describe_error(s, what, X509_verify_cert_error_string(SSL_get_verify_result(s->ssl)));
        ERR_clear_error();
        return err;
    }
    tls_error_line(line, sizeof(line));
    describe_error(s, what, line);
    return err;
}

static ssize_t plain_read(struct stream *s, void *buf, size_t cap)
{
    ssize_t n;
    do {
        n = recv(s->fd, buf, cap, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        if (errno == EAGAIN) {
            s->is_readable = false;
            return ERR_AGAIN;
        }
        s->read_failure = -errno;
        describe_error(s, "read", err_str(s->read_failure));
        return s->read_failure;
    }
    /* Nothing was left behind a short read, and what comes later is a new event. A FIN that was
     * seen together with the data is no new event. */
    if (n > 0 && (size_t)n < cap && !s->is_hungup) {
        s->is_readable = false;
    }
    s->bytes_in += (uint64_t)n;
    return n;
}

static ssize_t tls_read(struct stream *s, void *buf, size_t cap)
{
    size_t n = 0;
    ERR_clear_error();
    errno = 0;
    int result = SSL_read_ex(s->ssl, buf, cap, &n);
    if (result == 1) {
        s->read_wants = STREAM_WANT_READ;
        s->bytes_in += n;
        return (ssize_t)n;
    }
    int err = tls_failed(s, result, errno, "TLS read", &s->read_wants);
    if (err == ERR_CLOSED) {
        return 0;
    }
    if (err != 0 && err != ERR_AGAIN) {
        s->read_failure = err;
        s->write_failure = s->write_failure != 0 ? s->write_failure : err;
    }
    return err;
}

ssize_t stream_read(struct stream *s, void *buf, size_t cap)
{
    assert(cap > 0 && !s->is_handshaking);
    if (s->read_failure != 0) {
        return s->read_failure;
    }
    return s->ssl == NULL ? plain_read(s, buf, cap) : tls_read(s, buf, cap);
}

static ssize_t send_several(int fd, const struct iovec *iov, int count, int flags)
{
    struct iovec copy[STREAM_IOV_MAX];
    memcpy(copy, iov, (size_t)count * sizeof(*iov));
    const struct msghdr message = {.msg_iov = copy, .msg_iovlen = (size_t)count};
    return sendmsg(fd, &message, flags);
}

/* One piece goes by send, for which the kernel reads neither a header nor a list of pieces. */
static ssize_t plain_writev(struct stream *s, const struct iovec *iov, int count, size_t total,
                            bool more)
{
    const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    ssize_t n;
    do {
        n = count == 1 ? send(s->fd, iov->iov_base, iov->iov_len, flags)
                       : send_several(s->fd, iov, count, flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        if (errno == EAGAIN) {
            s->is_writable = false;
            return ERR_AGAIN;
        }
        s->write_failure = -errno;
        describe_error(s, "write", err_str(s->write_failure));
        return s->write_failure;
    }
    if ((size_t)n < total) {
        s->is_writable = false;
    }
    s->bytes_out += (uint64_t)n;
    return n;
}

/* One SSL_write: at most one record, and after a blocked one exactly that again; the library, given
 * more, could go on to the next record and then count both as not taken. returns: bytes taken, or
 * an error as stream_write. */
static ssize_t tls_write_record(struct stream *s, const void *data, size_t len)
{
    size_t n = 0;
    size_t most = s->tls_offered > 0 ? s->tls_offered : TLS_RECORD_MAX;
    len = len < most ? len : most;
    ERR_clear_error();
    errno = 0;
    int result = SSL_write_ex(s->ssl, data, len, &n);
    if (result == 1) {
        s->write_wants = STREAM_WANT_WRITE;
        s->tls_offered = 0;
        s->bytes_out += n;
        return (ssize_t)n;
    }
    int err = tls_failed(s, result, errno, "TLS write", &s->write_wants);
    if (err == ERR_AGAIN) {
        s->tls_offered = len;
        return err;
    }
    if (err == 0) {
        err = -EPIPE;
        describe_error(s, "TLS write", err_str(err));
    }
    s->write_failure = err;
    if (s->is_tls_broken && s->read_failure == 0) {
        s->read_failure = err;
    }
    return err;
}

/* A position in an array of ranges. */
struct cursor {
    const struct iovec *iov;
    int count;
    size_t offset; /* in iov[0] */
};

static void cursor_skip(struct cursor *c, size_t n)
{
    while (c->count > 0 && n >= c->iov->iov_len - c->offset) {
        n -= c->iov->iov_len - c->offset;
        c->offset = 0;
        c->iov++;
        c->count--;
    }
    c->offset += n;
}

/* Copy the next bytes into a record of at most TLS_RECORD_MAX. returns: its length */
static size_t cursor_gather(const struct cursor *c, char *record)
{
    size_t len = 0;
    size_t offset = c->offset;
    for (int i = 0; i < c->count && len < TLS_RECORD_MAX; i++) {
        size_t n = c->iov[i].iov_len - offset;
        if (n > TLS_RECORD_MAX - len) {
            n = TLS_RECORD_MAX - len;
        }
        if (n > 0) {
            memcpy(record + len, (const char *)c->iov[i].iov_base + offset, n);
        }
        len += n;
        offset = 0;
    }
    return len;
}

static ssize_t tls_writev(struct stream *s, const struct iovec *iov, int count)
{
    char record[TLS_RECORD_MAX];
    struct cursor c = {iov, count, 0};
    size_t done = 0;
    cursor_skip(&c, 0);
    while (c.count > 0) {
        const char *data = (const char *)c.iov->iov_base + c.offset;
        size_t len = c.iov->iov_len - c.offset;
        bool is_last = c.count == 1;
        if (!is_last && (len < TLS_LARGE || len < s->tls_offered)) {
            len = cursor_gather(&c, record);
            data = record;
        }
        ssize_t n = tls_write_record(s, data, len);
        if (n < 0) {
            /* What was taken so far is told first; the error is sticky and comes next time. */
            return done > 0 ? (ssize_t)done : n;
        }
        done += (size_t)n;
        cursor_skip(&c, (size_t)n);
    }
    return (ssize_t)done;
}

ssize_t stream_writev(struct stream *s, const struct iovec *iov, int count, bool more)
{
    size_t total = 0;
    assert(count >= 0 && count <= STREAM_IOV_MAX && !s->is_handshaking);
    if (s->write_failure != 0) {
        return s->write_failure;
    }
    for (int i = 0; i < count; i++) {
        total += iov[i].iov_len;
    }
    if (total == 0) {
        return 0;
    }
    return s->ssl == NULL ? plain_writev(s, iov, count, total, more) : tls_writev(s, iov, count);
}

ssize_t stream_write(struct stream *s, const void *data, size_t len, bool more)
{
    union {
        const void *in;
        void *base; /* struct iovec has no const member; nothing is written through it */
    } address = {.in = data};
    const struct iovec one = {.iov_base = address.base, .iov_len = len};
    return stream_writev(s, &one, 1, more);
}

int stream_start_tls(struct stream *s, struct ssl_st *ssl)
{
    char line[160];
    assert(s->ssl == NULL && s->fd >= 0);
    ERR_clear_error();
    if (SSL_set_fd(ssl, s->fd) != 1) {
        tls_error_line(line, sizeof(line));
        describe_error(s, "TLS", line);
        SSL_free(ssl);
        s->read_failure = s->write_failure = ERR_TLS;
        return ERR_TLS;
    }
    s->ssl = ssl;
    s->is_handshaking = true;
    s->read_wants = STREAM_WANT_READ;
    s->write_wants = STREAM_WANT_WRITE;
    return 0;
}

int stream_handshake(struct stream *s)
{
    if (s->write_failure != 0) {
        return s->write_failure;
    }
    assert(s->is_handshaking);
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(s->ssl);
    if (result == 1) {
        s->is_handshaking = false;
        s->write_wants = STREAM_WANT_WRITE;
        /* The library may have read on beyond the handshake, which no event would tell. */
        s->is_readable = true;
        return 0;
    }
    int err = tls_failed(s, result, errno, "TLS handshake", &s->write_wants);
    if (err == ERR_AGAIN) {
        return err;
    }
    if (err == 0 || err == ERR_CLOSED) {
        err = ERR_CLOSED;
        describe_error(s, "TLS handshake", "closed by peer");
    }
    s->read_failure = s->write_failure = err;
    return err;
}

void stream_tls_facts(const struct stream *s, struct tls_facts *ret)
{
    if (!stream_is_tls(s)) {
        *ret = (struct tls_facts){0};
        return;
    }
    tls_connection_facts(s->ssl, ret);
}

enum tls_fault stream_tls_fault(const struct stream *s)
{
    return s->ssl == NULL ? TLS_FAULT_NONE : tls_connection_fault(s->ssl);
}

/* Say close_notify once. Where the socket takes nothing more the peer sees a FIN without it. */
static void tls_notify_close(struct stream *s)
{
    if (s->is_handshaking || s->is_tls_broken) {
        return;
    }
    if (s->write_failure == 0 && s->read_failure == 0) {
        ERR_clear_error();
        (void)SSL_shutdown(s->ssl);
        ERR_clear_error();
    } else {
        /* A lost connection says nothing against its session: without this mark the library
         * would spoil the one that the cache holds. */
        SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN);
    }
}

void stream_shutdown(struct stream *s)
{
    if (s->fd < 0) {
        return;
    }
    if (s->ssl != NULL) {
        tls_notify_close(s);
    }
    /* Fails when the peer is gone already, which the next read tells. */
    (void)shutdown(s->fd, SHUT_WR);
    if (s->write_failure == 0) {
        s->write_failure = -EPIPE;
    }
}

void stream_close(struct stream *s)
{
    if (s->fd < 0) {
        return;
    }
    if (s->ssl != NULL) {
        if ((SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN) == 0) {
            tls_notify_close(s);
        }
        SSL_free(s->ssl);
        s->ssl = NULL;
    }
    (void)close(s->fd);
    s->fd = -1;
    s->is_readable = s->is_writable = false;
}
