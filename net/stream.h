/* Bytes over one non-blocking socket, plain or TLS. Owns the descriptor and the SSL object; the
 * protocol cores above see byte ranges only. Owner: one thread.
 *
 * With an edge-triggered poller: stream_ready() notes what epoll said; the owner then reads and
 * writes while stream_can_read()/stream_can_write() say so, or stops early (its budget is used up)
 * and comes back in the next pass without an event. Under TLS a read may need the socket writable
 * and the reverse; stream_can_*() know, the owner need not.
 *
 * OpenSSL writes with write(2): SIGPIPE must be blocked or ignored in the process. */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "base/attr.h"
#include "net/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#define STREAM_ERROR_BYTES 192

enum stream_want { STREAM_WANT_READ, STREAM_WANT_WRITE };

struct stream {
    int fd;             /* -1: closed */
    struct ssl_st *ssl; /* NULL: plain */
    bool is_readable;   /* cleared by EAGAIN, and by a short read where that proves as much */
    bool is_writable;   /* cleared by EAGAIN and by a short write */
    bool is_hungup;     /* POLLER_HANGUP was seen: a short read proves nothing */
    bool is_connecting;
    bool is_handshaking;
    bool is_tls_broken;           /* the TLS library must not be asked again */
    enum stream_want read_wants;  /* what a blocked read waits for */
    enum stream_want write_wants; /* what a blocked write or handshake waits for */
    int read_failure;             /* 0, or what every later read returns */
    int write_failure;            /* the same for writes: a failed write leaves replies readable */
    size_t tls_offered;           /* bytes of a record that the socket has not taken; 0: none */
    uint64_t bytes_in, bytes_out; /* payload */
    /* One printable line once an operation returned an error other than ERR_AGAIN; what the peer
     * made is escaped. */
    char error[STREAM_ERROR_BYTES];
};

/* A connected socket, made by listen_accept or socketpair; it must be non-blocking. */
void stream_init(struct stream *s, int fd);

/* Create a socket and begin to connect. `local` may be NULL. The caller then adds s->fd to its
 * poller and calls stream_connect_result when it is writable.
 *
 * returns  0: connected or connecting
 * errors   -errno (socket, bind, or an immediate refusal); s is closed, s->error says which call
 */
MUST_USE int stream_connect(struct stream *s, const struct sockaddr *peer, socklen_t peer_len,
                            const struct sockaddr *local, socklen_t local_len);
/* returns 0 when connected; errors: ERR_AGAIN: not yet; -errno of the connect */
MUST_USE int stream_connect_result(struct stream *s);

/* Note events of the poller (enum poller_event). */
void stream_ready(struct stream *s, unsigned events);
bool stream_can_read(const struct stream *s);
bool stream_can_write(const struct stream *s);

/* Read at most cap bytes (cap > 0).
 *
 * returns  > 0 bytes read; 0: the peer closed (with or without close_notify)
 * errors   ERR_AGAIN; -errno; ERR_TLS with s->error
 */
MUST_USE ssize_t stream_read(struct stream *s, void *buf, size_t cap);

/* Write what fits now. After ERR_AGAIN or a short count the next write must offer the bytes that
 * were not taken, all of them (more may follow; ranges may be merged or cut): the TLS library may
 * hold a record made of them, and fails with ERR_TLS when it gets fewer.
 *
 * more     plain: MSG_MORE, the kernel may hold back a partial segment; TLS: no effect
 * returns  bytes taken, > 0 (0 only for an empty write)
 * errors   ERR_AGAIN; -errno; ERR_TLS with s->error
 */
MUST_USE ssize_t stream_write(struct stream *s, const void *data, size_t len, bool more);
/* As stream_write, for count <= STREAM_IOV_MAX ranges. Plain: one sendmsg. TLS: small ranges are
 * put together into one record, large ones go directly; several records until the socket blocks. */
#define STREAM_IOV_MAX 64
MUST_USE ssize_t stream_writev(struct stream *s, const struct iovec *iov, int count, bool more);

/* Begin TLS on a plain stream whose input was read up to here; takes ownership of ssl (from
 * tls_client_connection or tls_server_connection). The owner discards every plaintext byte it
 * holds, then calls stream_handshake until it stops answering ERR_AGAIN.
 *
 * errors   ERR_TLS; ssl is freed, the stream has failed
 */
MUST_USE int stream_start_tls(struct stream *s, struct ssl_st *ssl);
/* returns 0: secured; errors: ERR_AGAIN; ERR_TLS or -errno, the reason is in s->error; ERR_CLOSED:
 * the peer closed during the handshake */
MUST_USE int stream_handshake(struct stream *s);
/* true when the handshake can make progress now */
bool stream_can_handshake(const struct stream *s);

static inline bool stream_is_open(const struct stream *s)
{
    return s->fd >= 0;
}

static inline bool stream_is_tls(const struct stream *s)
{
    return s->ssl != NULL && !s->is_handshaking;
}

/* Facts of a finished handshake; strings are valid until stream_close. Zeroed for a plain stream.
 */
void stream_tls_facts(const struct stream *s, struct tls_facts *ret);

/* What was wrong with the peer's certificate, of a handshake that failed as well. */
enum tls_fault stream_tls_fault(const struct stream *s);

/* Tell the peer that nothing more comes (close_notify where it fits, then a FIN) and keep reading
 * possible. */
void stream_shutdown(struct stream *s);
/* close_notify if it can be written at once, then close. Never blocks. No-op when closed. */
void stream_close(struct stream *s);

#endif
