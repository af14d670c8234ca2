/* The client side of SOCKS version 5, as a state machine: bytes in, bytes out. CONNECT by address
 * (the name was resolved already), without authentication or with user and password. Called by the
 * shell that owns the socket; it touches no socket and no clock, and allocates nothing.
 *
 * How a shell drives it, until socks5_state says DONE or FAILED: write what socks5_out shows and
 * tell socks5_written; read at most socks5_want bytes, never more (what follows belongs to the
 * host behind the proxy), and give them to socks5_input. A proxy is not trusted: it makes this read
 * 270 bytes at most, and time is the shell's to limit. */
#ifndef NET_SOCKS5_H
#define NET_SOCKS5_H

#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

#define SOCKS5_LOGIN_MAX 255 /* bytes of a user and of a password, RFC 1929 section 2 */
#define SOCKS5_OUT_MAX   (3 + 2 * SOCKS5_LOGIN_MAX)
#define SOCKS5_IN_MAX    262 /* the longest reply: 4, a name of 255 with its length, a port */

enum socks5_state {
    SOCKS5_METHOD,        /* which authentication the proxy wants */
    SOCKS5_LOGIN,         /* whether user and password are right */
    SOCKS5_REPLY,         /* whether it reached the target */
    SOCKS5_DONE,          /* from here on the bytes are those of the target */
    SOCKS5_FAILED_PROXY,  /* the proxy's doing, or ours: says nothing about the target */
    SOCKS5_FAILED_TARGET, /* the proxy says that the target cannot be reached */
};

/* User and password; both of 1 to SOCKS5_LOGIN_MAX bytes, or both empty: none. */
struct socks5_login {
    struct slice user, password;
};

/* Private; see the functions. */
struct socks5 {
    enum socks5_state state;
    const char *error; /* static text once failed */
    struct socks5_login login;
    uint8_t request[22]; /* CONNECT */
    size_t request_len;
    uint8_t out[SOCKS5_OUT_MAX];
    size_t out_len, out_done;
    uint8_t in[SOCKS5_IN_MAX]; /* of the answer awaited */
    size_t in_len;
};

/* login    its slices outlive the dialogue
 * family   4 or 6; address: 4 or 16 bytes, network order; port in host order
 * source   RFC 1928 sections 3, 4 and 6; RFC 1929 */
void socks5_init(struct socks5 *s, const struct socks5_login *login, int family,
                 const uint8_t *address, uint16_t port);
/* Wipe the state, which has held the password. */
void socks5_fini(struct socks5 *s);

/* What is to be written now; empty: nothing. Valid until the next call. */
struct slice socks5_out(const struct socks5 *s);
void socks5_written(struct socks5 *s, size_t len);

/* Bytes that may be read now, at most; 0: none (there is something to write, or it is over). */
size_t socks5_want(const struct socks5 *s);
/* data     1..socks5_want bytes */
void socks5_input(struct socks5 *s, const void *data, size_t len);

enum socks5_state socks5_state(const struct socks5 *s);
/* Why it failed; static text without addresses. */
const char *socks5_error(const struct socks5 *s);

#endif
