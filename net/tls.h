/* TLS policy: builds the contexts of the client and server side and the per-connection SSL objects.
 *
 * A struct tls_client or tls_server is immutable after creation and may be used by any thread; a
 * reload builds a new one. Connections made from it hold their own reference to the library's
 * context, so it may be freed while they live. At least TLS 1.2, no renegotiation, no compression,
 * no early data. */
#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct ssl_st;
struct tls_client;
struct tls_server;
struct tls_session_cache;

#define TLS_ERROR_BYTES 256

struct tls_error {
    char text[TLS_ERROR_BYTES]; /* one printable line */
};

enum tls_level {
    TLS_LEVEL_NONE,    /* never STARTTLS */
    TLS_LEVEL_MAY,     /* if offered; any certificate */
    TLS_LEVEL_ENCRYPT, /* always; any certificate */
    TLS_LEVEL_VERIFY,  /* always; chain and host name must verify */
    TLS_LEVEL_DANE,    /* always; a TLSA record must match; like ENCRYPT when none is usable */
    TLS_LEVEL_COUNT
};

struct tls_client_config {
    const char *ca_file; /* PEM bundle; NULL: the system's default store */
    const char *ciphers; /* OpenSSL list for TLS 1.2; NULL: the library's default */
    const char
        *certificate_file; /* PEM, leaf first: what a server that asks is shown; NULL: none */
    const char *key_file;  /* PEM; NULL: in certificate_file */
};

/* errors: ERR_TLS with a text that names the file or list at fault; -ENOMEM */
MUST_USE int tls_client_new(const struct tls_client_config *config, struct tls_client **ret,
                            struct tls_error *ret_error);
void tls_client_free(struct tls_client *client); /* accepts NULL */

struct tls_server_config {
    const char *certificate_file; /* PEM, leaf first */
    const char *key_file;         /* PEM; NULL: in certificate_file */
    const char *ciphers;          /* OpenSSL's list of ciphers, as of the client */
};

/* errors: ERR_TLS with a text that names the file at fault, or that key and certificate differ */
MUST_USE int tls_server_new(const struct tls_server_config *config, struct tls_server **ret,
                            struct tls_error *ret_error);
void tls_server_free(struct tls_server *server); /* accepts NULL */

/* A TLSA record (RFC 6698 section 2.1). */
struct tls_tlsa {
    uint8_t usage, selector, matching;
    struct slice data;
};

/* Whom a client connection speaks to; everything here is part of the session's key. */
struct tls_peer {
    const char *host; /* SNI and certificate name, no trailing dot; NULL or an address: no SNI */
    const struct sockaddr *address;
    socklen_t address_len;
    enum tls_level level;
    const char *second_name;     /* DANE: a certificate may have this name instead; or NULL */
    const struct tls_tlsa *tlsa; /* DANE: [tlsa_count]; host is where they were found */
    uint32_t tlsa_count;
    struct slice sts_id; /* id of the MTA-STS policy that demands VERIFY; empty: none does */
};

/* An SSL object for stream_start_tls, which owns it from there (SSL_free otherwise).
 *
 * cache    the calling thread's, must outlive the connection; NULL: no resumption
 * errors   NULL: out of memory or an unusable host name
 */
MUST_USE struct ssl_st *tls_client_connection(const struct tls_client *client,
                                              const struct tls_peer *peer,
                                              struct tls_session_cache *cache);
MUST_USE struct ssl_st *tls_server_connection(const struct tls_server *server);

/* What is wrong with a certificate, for who reports on it. */
enum tls_fault {
    TLS_FAULT_NONE, /* or there was none to look at */
    TLS_FAULT_NAME,
    TLS_FAULT_EXPIRED, /* or not valid yet */
    TLS_FAULT_UNTRUSTED,
    TLS_FAULT_DANE, /* no TLSA record matches */
    TLS_FAULT_OTHER
};

/* What the log and the policy want to know of a finished handshake. */
struct tls_facts {
    const char *protocol; /* "TLSv1.3"; static; NULL: no TLS */
    const char *cipher;   /* "TLS_AES_256_GCM_SHA384"; static */
    int cipher_bits;
    bool has_certificate; /* the peer showed one (or did when the session began) */
    bool is_verified; /* chain and, if the host name was given, name verified; at DANE: matched */
    bool is_resumed;
    bool is_proved;       /* what the level demands of the certificate; always true below VERIFY */
    enum tls_fault fault; /* the same, also of a handshake that failed for it */
    const char *verify_text; /* why not verified; static; NULL when verified */
    const char *verdict; /* "Untrusted", "Trusted" (the chain, not the name), "Verified", "DANE",
                          * "STS"; static; NULL: no TLS, or a server's side */
};

/* Of a handshake that has ended, however it did. */
enum tls_fault tls_connection_fault(const struct ssl_st *ssl);
void tls_connection_facts(const struct ssl_st *ssl, struct tls_facts *ret);

/* Drain the calling thread's OpenSSL error queue into one printable line; "unknown TLS error" when
 * it is empty. size > 0. */
void tls_error_line(char *ret, size_t size);

#endif
