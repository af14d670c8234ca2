/* TLS contexts and per-connection setup on OpenSSL 3.0. Contexts are immutable once returned and
 * used by every worker; sessions for resumption live in the worker's own cache, which each client
 * connection carries as ex-data. Moves no bytes; that is net/stream. */
#include "net/tls.h"

#include "base/clock.h"
#include "base/error.h"
#include "net/tls_session_cache.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define HOST_MAX 255 /* bytes of a host name; RFC 1035 section 2.3.4 */

struct tls_client {
    SSL_CTX *ctx;
    uint64_t serial; /* tells clients apart in session keys: another one may trust other roots */
};

struct tls_server {
    SSL_CTX *ctx;
};

/* What the new-session callback needs; owned by the SSL object. */
struct resumption {
    struct tls_session_cache *cache;
    size_t key_len;
    char key[];
};

/* Any thread, atomic: only uniqueness matters. */
static _Atomic uint64_t next_serial = 1;

static pthread_once_t resumption_once = PTHREAD_ONCE_INIT;
static int resumption_index = -1; /* written once, before any use */

static void resumption_free(void *parent, void *ptr, CRYPTO_EX_DATA *data, int index, long argl,
                            void *argp)
{
    free(ptr);
}

static void resumption_register(void)
{
    resumption_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, resumption_free);
}

void tls_error_line(char *ret, size_t size)
{
    size_t len = 0;
    const char *data;
    int flags;
    unsigned long code;
    ret[0] = '\0';
    while ((code = ERR_get_error_all(NULL, NULL, NULL, &data, &flags)) != 0) {
        char unnamed[64];
        const char *reason = ERR_reason_error_string(code);
        if (reason == NULL) {
            ERR_error_string_n(code, unnamed, sizeof(unnamed));
            reason = unnamed;
        }
        bool has_data = (flags & ERR_TXT_STRING) != 0 && data != NULL && data[0] != '\0';
        int n = snprintf(ret + len, size - len, "%s%s%s%s%s", len > 0 ? "; " : "", reason,
                         has_data ? " (" : "", has_data ? data : "", has_data ? ")" : "");
        len += n < 0 ? 0 : (size_t)n;
        if (len >= size) {
            len = size - 1;
        }
    }
    if (len == 0) {
        (void)snprintf(ret, size, "unknown TLS error");
    }
    for (char *p = ret; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~') {
            *p = '?';
        }
    }
}

/* what: the file or setting at fault */
static int fail(struct tls_error *ret_error, const char *what)
{
    char line[TLS_ERROR_BYTES];
    tls_error_line(line, sizeof(line));
    (void)snprintf(ret_error->text, sizeof(ret_error->text), "%.120s: %.130s", what, line);
    return ERR_TLS;
}

static SSL_CTX *context_new(const SSL_METHOD *method)
{
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (ctx == NULL) {
        return NULL;
    }
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    /* Peers often drop the connection without close_notify; SMTP says itself when it is done. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    /* One recv for header and payload of a record, and for several small records. */
    SSL_CTX_set_read_ahead(ctx, 1);
    return ctx;
}

static int session_made(SSL *ssl, SSL_SESSION *session)
{
    struct resumption *r = SSL_get_ex_data(ssl, resumption_index);
    if (r == NULL || SSL_SESSION_is_resumable(session) != 1) {
        return 0;
    }
    tls_session_cache_put(r->cache, slice_make(r->key, r->key_len), session);
    return 1;
}

static int load_roots(SSL_CTX *ctx, const struct tls_client_config *config,
                      struct tls_error *ret_error)
{
    if (config->ca_file == NULL) {
        return SSL_CTX_set_default_verify_paths(ctx) == 1
                   ? 0
                   : fail(ret_error, "default certificate store");
    }
    return SSL_CTX_load_verify_file(ctx, config->ca_file) == 1 ? 0
                                                               : fail(ret_error, config->ca_file);
}

int tls_client_new(const struct tls_client_config *config, struct tls_client **ret,
                   struct tls_error *ret_error)
{
    (void)pthread_once(&resumption_once, resumption_register);
    struct tls_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return -ENOMEM;
    }
    int err = 0;
    client->ctx = context_new(TLS_client_method());
    if (client->ctx == NULL || resumption_index < 0) {
        err = fail(ret_error, "TLS context");
        goto out;
    }
    err = load_roots(client->ctx, config, ret_error);
    if (err != 0) {
        goto out;
    }
    if (config->ciphers != NULL && SSL_CTX_set_cipher_list(client->ctx, config->ciphers) != 1) {
        err = fail(ret_error, config->ciphers);
        goto out;
    }
    SSL_CTX_set_session_cache_mode(client->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(client->ctx, session_made);
    client->serial = atomic_fetch_add_explicit(&next_serial, 1, memory_order_relaxed);
    *ret = client;
    return 0;
out:
    tls_client_free(client);
    return err;
}

void tls_client_free(struct tls_client *client)
{
    if (client == NULL) {
        return;
    }
    SSL_CTX_free(client->ctx);
    free(client);
}

/* Without it the library would ask for a passphrase on the terminal. */
static int no_passphrase(char *buf, int size, int rwflag, void *user)
{
    return -1;
}

int tls_server_new(const struct tls_server_config *config, struct tls_server **ret,
                   struct tls_error *ret_error)
{
    static const unsigned char session_context[] = "sluice";
    const char *key = config->key_file != NULL ? config->key_file : config->certificate_file;
    struct tls_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return -ENOMEM;
    }
    int err = 0;
    SSL_CTX *ctx = server->ctx = context_new(TLS_server_method());
    if (ctx == NULL) {
        err = fail(ret_error, "TLS context");
        goto out;
    }
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_dh_auto(ctx, 1);
    /* Resumption by tickets only: no state, and the same keys in every worker. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_session_id_context(ctx, session_context, sizeof(session_context) - 1);
    if (SSL_CTX_use_certificate_chain_file(ctx, config->certificate_file) != 1) {
        err = fail(ret_error, config->certificate_file);
    } else if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
               SSL_CTX_check_private_key(ctx) != 1) {
        err = fail(ret_error, key);
    } else if (config->ciphers != NULL && SSL_CTX_set_cipher_list(ctx, config->ciphers) != 1) {
        err = fail(ret_error, config->ciphers);
    }
    if (err == 0) {
        *ret = server;
        return 0;
    }
out:
    tls_server_free(server);
    return err;
}

void tls_server_free(struct tls_server *server)
{
    if (server == NULL) {
        return;
    }
    SSL_CTX_free(server->ctx);
    free(server);
}

SSL *tls_server_connection(const struct tls_server *server)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(server->ctx);
    if (ssl != NULL) {
        SSL_set_accept_state(ssl);
    }
    return ssl;
}

static bool is_address(const char *host)
{
    unsigned char any[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, any) == 1 || inet_pton(AF_INET6, host, any) == 1;
}

/* Name the peer in the hello and in the check of its certificate. */
static bool set_host(SSL *ssl, const char *host)
{
    if (host == NULL || host[0] == '\0') {
        return true;
    }
    if (is_address(host)) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    /* RFC 9525 section 6.3: names come from the subject alternative name only. */
    SSL_set_hostflags(ssl,
                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    char name[HOST_MAX + 1]; /* the macro below casts const away */
    size_t len = strlen(host);
    if (len > HOST_MAX) {
        return false;
    }
    memcpy(name, host, len + 1);
    return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, host) == 1;
}

static void key_add(char *key, size_t *len, const void *data, size_t n)
{
    memcpy(key + *len, data, n);
    *len += n;
}

/* The address without what is not part of it: padding, flow label, the rest of a sun_path. */
static void key_add_address(char *key, size_t *len, const struct sockaddr *address, socklen_t n)
{
    if (address == NULL) {
        return;
    }
    key_add(key, len, &address->sa_family, sizeof(address->sa_family));
    if (address->sa_family == AF_INET && n >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        key_add(key, len, &in.sin_port, sizeof(in.sin_port));
        key_add(key, len, &in.sin_addr, sizeof(in.sin_addr));
    } else if (address->sa_family == AF_INET6 && n >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof(in6));
        key_add(key, len, &in6.sin6_port, sizeof(in6.sin6_port));
        key_add(key, len, &in6.sin6_scope_id, sizeof(in6.sin6_scope_id));
        key_add(key, len, &in6.sin6_addr, sizeof(in6.sin6_addr));
    } else {
        key_add(key, len, address, n < sizeof(struct sockaddr_un) ? n : sizeof(struct sockaddr_un));
    }
}

static bool set_resumption(SSL *ssl, const struct tls_client *client, const struct tls_peer *peer,
                           struct tls_session_cache *cache)
{
    char key[TLS_SESSION_KEY_MAX];
    size_t len = 0;
    unsigned char level = (unsigned char)peer->level;
    key_add(key, &len, &client->serial, sizeof(client->serial));
    key_add(key, &len, &level, sizeof(level));
    key_add_address(key, &len, peer->address, peer->address_len);
    for (const char *p = peer->host; p != NULL && *p != '\0'; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        key_add(key, &len, &c, 1);
    }
    struct resumption *r = malloc(sizeof(*r) + len);
    if (r == NULL) {
        return false;
    }
    r->cache = cache;
    r->key_len = len;
    memcpy(r->key, key, len);
    if (SSL_set_ex_data(ssl, resumption_index, r) != 1) {
        free(r);
        return false;
    }
    SSL_SESSION *session =
        tls_session_cache_take(cache, slice_make(key, len), clock_wall() / USEC_PER_SEC);
    if (session != NULL) {
        /* Refusal only means a full handshake. */
        (void)SSL_set_session(ssl, session);
        SSL_SESSION_free(session);
    }
    return true;
}

SSL *tls_client_connection(const struct tls_client *client, const struct tls_peer *peer,
                           struct tls_session_cache *cache)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(client->ctx);
    if (ssl == NULL) {
        return NULL;
    }
    SSL_set_connect_state(ssl);
    if (peer->level == TLS_LEVEL_VERIFY) {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    } else {
        /* The chain is still judged, and the verdict recorded; it just does not stop anything.
         * Old keys and digests pass too: the alternative at "may" is no encryption at all, and
         * at "encrypt", which proves nothing about the peer either, a mail that never leaves. */
        SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
        SSL_set_security_level(ssl, peer->level == TLS_LEVEL_ENCRYPT ? 1 : 0);
    }
    if (!set_host(ssl, peer->host) ||
        (cache != NULL && !set_resumption(ssl, client, peer, cache))) {
        ERR_clear_error();
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

void tls_connection_facts(const SSL *ssl, struct tls_facts *ret)
{
    const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
    long verdict = SSL_get_verify_result(ssl);
    bool has_certificate = SSL_get0_peer_certificate(ssl) != NULL;
    *ret = (struct tls_facts){
        .protocol = SSL_get_version(ssl),
        .cipher = SSL_CIPHER_get_name(cipher),
        .cipher_bits = SSL_CIPHER_get_bits(cipher, NULL),
        .has_certificate = has_certificate,
        .is_verified = has_certificate && verdict == X509_V_OK,
        .is_resumed = SSL_session_reused(ssl) == 1,
    };
    if (!has_certificate) {
        ret->verify_text = "no certificate";
    } else if (verdict != X509_V_OK) {
        ret->verify_text = X509_verify_cert_error_string(verdict);
    }
}
