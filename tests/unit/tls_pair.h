/* Two streams on one socket pair, with TLS between them when asked: what the tests of net/stream
 * and net/tls share. Uses cmocka's assertions. */
#ifndef TESTS_UNIT_TLS_PAIR_H
#define TESTS_UNIT_TLS_PAIR_H

#include "net/stream.h"
#include "net/tls.h"
#include "net/tls_session_cache.h"

struct ssl_st;

/* Files of one root, a leaf that it signed for "mx.example" and 192.0.2.1, and keys. */
struct tls_files {
    char folder[32];
    char root[64], leaf[64], leaf_key[64], other_key[64], locked_key[64], old_leaf[64],
        old_leaf_key[64], named_leaf[64], named_leaf_key[64], expired_leaf[64],
        expired_leaf_key[64];
    /* what a TLSA record says of the leaf's key and of the root: SHA-256, and DER */
    unsigned char leaf_spki[2048], root_digest[2048], root_der[2048], expired_spki[2048];
    size_t root_der_len;
};

void tls_files_make(struct tls_files *files);
void tls_files_remove(const struct tls_files *files);

struct pair {
    struct stream client, server;
};

/* Connected non-blocking streams; buffer_bytes: SO_SNDBUF of both, 0: the default. */
void pair_open(struct pair *p, int buffer_bytes);
void pair_close(struct pair *p);
/* Both readable and writable, as far as flags go. */
void pair_wake(struct pair *p);
/* Put TLS on both and run the handshake to its end. ret_client, ret_server: the last results. */
void pair_secure(struct pair *p, struct ssl_st *client_ssl, struct ssl_st *server_ssl,
                 int *ret_client, int *ret_server);
/* Carry one line each way, so that the client meets the tickets that follow the handshake. */
void pair_exchange(struct pair *p);

#endif
