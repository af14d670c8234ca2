/* TLS contexts and per-connection setup on OpenSSL 3.0. Contexts are immutable once returned and
 * used by every worker; sessions for resumption live in the worker's own cache, which each client
 * connection carries as ex-data together with what was demanded of it. Moves no bytes; that is
 * net/stream. */
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

enum { USAGE_DANE_TA = 2, USAGE_DANE_EE = 3 }; /* RFC 7218 */

struct tls_client {
    SSL_CTX *ctx;
    uint64_t serial; /* tells clients apart in session keys: another one may trust other roots */
};

struct tls_server {
    SSL_CTX *ctx;
};

/* SHA-256 of all that decides whether a session's verdict holds for another connection. */
struct session_key {
    unsigned char bytes[32];
};

/* What the new-session callback and the verdict need; owned by the SSL object. */
struct demand {
    struct tls_session_cache *cache; /* NULL: no resumption */
    struct session_key key;
    enum tls_level level; /* the level as it is enforced: DANE only with usable records */
    bool is_sts;
};

/* Any thread, atomic: only uniqueness matters. */
static _Atomic uint64_t next_serial = 1;

static pthread_once_t demand_once = PTHREAD_ONCE_INIT;
static int demand_index = -1; /* written once, before any use */

static void demand_free(void *parent, void *ptr, CRYPTO_EX_DATA *data, int index, long argl,
                        void *argp)
{
    free(ptr);
}

static void demand_register(void)
{
    demand_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, demand_free);
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
static int fail_tls(struct tls_error *ret_error, const char *what)
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

static struct slice key_slice(const struct session_key *key)
{
    return slice_make((const char *)key->bytes, sizeof(key->bytes));
}

/* What a session takes, about: its ticket, and the certificates that came with it. */
static size_t session_bytes(SSL *ssl, SSL_SESSION *session)
{
    STACK_OF(X509) *chain = SSL_get_peer_cert_chain(ssl);
    int bytes = i2d_SSL_SESSION(session, NULL);
    size_t sum = bytes > 0 ? (size_t)bytes : 0;
    for (int i = 0; chain != NULL && i < sk_X509_num(chain); i++) {
        bytes = i2d_X509(sk_X509_value(chain, i), NULL);
        sum += bytes > 0 ? (size_t)bytes : 0;
    }
    return sum;
}

static int session_made(SSL *ssl, SSL_SESSION *session)
{
    struct demand *d = SSL_get_ex_data(ssl, demand_index);
    if (d == NULL || d->cache == NULL || SSL_SESSION_is_resumable(session) != 1 ||
        session_bytes(ssl, session) > TLS_SESSION_BYTES_MAX) {
        return 0;
    }
    tls_session_cache_put(d->cache, key_slice(&d->key), session);
    return 1;
}

static int load_roots(SSL_CTX *ctx, const struct tls_client_config *config,
                      struct tls_error *ret_error)
{
    if (config->ca_file == NULL) {
        /* Not SSL_CTX_set_default_verify_paths: that adds the same folder again as a store, which reads
         * through all of it at each certificate whose issuer is not found (OpenSSL 3.0). */
        return SSL_CTX_set_default_verify_file(ctx) == 1 && SSL_CTX_set_default_verify_dir(ctx) == 1
                   ? 0
                   : fail_tls(ret_error, "default certificate store");
    }
    return SSL_CTX_load_verify_file(ctx, config->ca_file) == 1
               ? 0
               : fail_tls(ret_error, config->ca_file);
}

/* Refuse to ask for a passphrase: a daemon has nobody who could type one. */
static int no_passphrase(char *buf, int size, int rwflag, void *user)
{
    return -1;
}

static int load_certificate(SSL_CTX *ctx, const char *certificate_file, const char *key_file,
                            struct tls_error *ret_error)
{
    const char *key = key_file == NULL ? certificate_file : key_file;
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    if (SSL_CTX_use_certificate_chain_file(ctx, certificate_file) != 1) {
        return fail_tls(ret_error, certificate_file);
    }
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1) {
        return fail_tls(ret_error, key);
    }
    return 0;
}

int tls_client_new(const struct tls_client_config *config, struct tls_client **ret,
                   struct tls_error *ret_error)
{
    (void)pthread_once(&demand_once, demand_register);
    struct tls_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return -ENOMEM;
    }
    int err = 0;
    client->ctx = context_new(TLS_client_method());
    if (client->ctx == NULL || demand_index < 0 || SSL_CTX_dane_enable(client->ctx) != 1) {
        err = fail_tls(ret_error, "TLS context");
        goto out;
    }
    err = load_roots(client->ctx, config, ret_error);
    if (err != 0) {
        goto out;
    }
    if (config->ciphers != NULL && SSL_CTX_set_cipher_list(client->ctx, config->ciphers) != 1) {
        err = fail_tls(ret_error, config->ciphers);
        goto out;
    }
    if (config->certificate_file != NULL) {
        err = load_certificate(client->ctx, config->certificate_file, config->key_file, ret_error);
        if (err != 0) {
            goto out;
        }
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

int tls_server_new(const struct tls_server_config *config, struct tls_server **ret,
                   struct tls_error *ret_error)
{
    static const unsigned char session_context[] = "sluice";
    struct tls_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return -ENOMEM;
    }
    int err = 0;
    SSL_CTX *ctx = server->ctx = context_new(TLS_server_method());
    if (ctx == NULL) {
        err = fail_tls(ret_error, "TLS context");
        goto out;
    }
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_dh_auto(ctx, 1);
    /* Resumption by tickets only: no state, and the same keys in every worker. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_session_id_context(ctx, session_context, sizeof(session_context) - 1);
    err = load_certificate(ctx, config->certificate_file, config->key_file, ret_error);
    if (err == 0 && config->ciphers != NULL && SSL_CTX_set_cipher_list(ctx, config->ciphers) != 1) {
        err = fail_tls(ret_error, config->ciphers);
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

/* --- the key of a session --------------------------------------------------------------------- */

static bool key_add(EVP_MD_CTX *md, const void *data, size_t n)
{
    return EVP_DigestUpdate(md, data, n) == 1;
}

/* In lower case, with its end; NULL as an empty one. */
static bool key_add_name(EVP_MD_CTX *md, const char *name)
{
    char lower[HOST_MAX + 1] = "";
    size_t len = 0;
    for (; name != NULL && name[len] != '\0' && len < HOST_MAX; len++) {
        char c = name[len];
        lower[len] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return key_add(md, lower, len) && key_add(md, "", 1);
}

/* The address without what is not part of it: padding, flow label, the rest of a sun_path. */
static bool key_add_address(EVP_MD_CTX *md, const struct sockaddr *address, socklen_t n)
{
    struct sockaddr_in in = {0};
    struct sockaddr_in6 in6 = {0};
    if (address == NULL) {
        return key_add(md, "", 1);
    }
    if (address->sa_family == AF_INET && n >= sizeof(in)) {
        memcpy(&in, address, sizeof(in));
        return key_add(md, &in.sin_family, sizeof(in.sin_family)) &&
               key_add(md, &in.sin_port, sizeof(in.sin_port)) &&
               key_add(md, &in.sin_addr, sizeof(in.sin_addr));
    }
    if (address->sa_family == AF_INET6 && n >= sizeof(in6)) {
        memcpy(&in6, address, sizeof(in6));
        return key_add(md, &in6.sin6_family, sizeof(in6.sin6_family)) &&
               key_add(md, &in6.sin6_port, sizeof(in6.sin6_port)) &&
               key_add(md, &in6.sin6_scope_id, sizeof(in6.sin6_scope_id)) &&
               key_add(md, &in6.sin6_addr, sizeof(in6.sin6_addr));
    }
    return key_add(md, address, n < sizeof(struct sockaddr_un) ? n : sizeof(struct sockaddr_un));
}

static bool key_add_tlsa(EVP_MD_CTX *md, const struct tls_peer *peer)
{
    bool ok = key_add(md, &peer->tlsa_count, sizeof(peer->tlsa_count));
    for (uint32_t i = 0; ok && i < peer->tlsa_count; i++) {
        const struct tls_tlsa *t = &peer->tlsa[i];
        const unsigned char head[3] = {t->usage, t->selector, t->matching};
        ok = key_add(md, head, sizeof(head)) && key_add(md, &t->data.len, sizeof(t->data.len)) &&
             key_add(md, t->data.data, t->data.len);
    }
    return ok;
}

static bool key_make(const struct tls_client *client, const struct tls_peer *peer,
                     struct session_key *ret)
{
    unsigned char level = (unsigned char)peer->level;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool ok = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
              key_add(md, &client->serial, sizeof(client->serial)) && key_add(md, &level, 1) &&
              key_add_address(md, peer->address, peer->address_len) &&
              key_add_name(md, peer->host) && key_add_name(md, peer->second_name) &&
              key_add_tlsa(md, peer) && key_add(md, peer->sts_id.data, peer->sts_id.len) &&
              EVP_DigestFinal_ex(md, ret->bytes, NULL) == 1;
    EVP_MD_CTX_free(md);
    return ok;
}

/* --- a client connection ---------------------------------------------------------------------- */

/* Where nothing is demanded of the name, its mismatch must not hide what the chain is worth. */
static int pass_other_names(int ok, X509_STORE_CTX *store)
{
    int err = X509_STORE_CTX_get_error(store);
    return ok == 1 || err == X509_V_ERR_HOSTNAME_MISMATCH || err == X509_V_ERR_IP_ADDRESS_MISMATCH;
}

/* returns  1: a record is usable; 0: none is; negative: out of memory or the like
 * source   SSL_dane_tlsa_add: 0 for a record that cannot be used, negative for an error */
static int set_tlsa(SSL *ssl, const struct tls_peer *peer)
{
    int usable = 0;
    if (SSL_dane_enable(ssl, peer->host) != 1) {
        return -1;
    }
    /* RFC 7671 section 5.1: neither names nor dates matter where the key itself is published. */
    (void)SSL_dane_set_flags(ssl, DANE_FLAG_NO_DANE_EE_NAMECHECKS);
    if (peer->second_name != NULL && SSL_add1_host(ssl, peer->second_name) != 1) {
        return -1;
    }
    for (uint32_t i = 0; i < peer->tlsa_count; i++) {
        const struct tls_tlsa *t = &peer->tlsa[i];
        if (t->usage != USAGE_DANE_TA && t->usage != USAGE_DANE_EE) {
            continue; /* RFC 7672 section 3.1.3: the others mean nothing in SMTP */
        }
        const unsigned char *data = (const unsigned char *)t->data.data;
        int added = SSL_dane_tlsa_add(ssl, t->usage, t->selector, t->matching, data, t->data.len);
        if (added < 0) {
            return -1;
        }
        usable = usable == 1 || added > 0;
    }
    return usable;
}

/* Demand of the peer what the level says. ret_level: what is enforced. */
static bool set_level(SSL *ssl, const struct tls_peer *peer, enum tls_level *ret_level)
{
    enum tls_level level = peer->level;
    if (level == TLS_LEVEL_DANE) {
        int usable = peer->host == NULL ? 0 : set_tlsa(ssl, peer);
        if (usable < 0) {
            return false;
        }
        level = usable == 0 ? TLS_LEVEL_ENCRYPT : level;
    }
    *ret_level = level;
    if (level == TLS_LEVEL_VERIFY || level == TLS_LEVEL_DANE) {
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
        return true;
    }
    /* The chain is still judged, and the verdict recorded; it just does not stop anything.
     * Old keys and digests pass too: the alternative at "may" is no encryption at all, and
     * at "encrypt", which proves nothing about the peer either, a mail that never leaves. */
    SSL_set_verify(ssl, SSL_VERIFY_NONE, pass_other_names);
    SSL_set_security_level(ssl, level == TLS_LEVEL_ENCRYPT ? 1 : 0);
    return true;
}

static bool set_resumption(SSL *ssl, const struct tls_client *client, const struct tls_peer *peer,
                           struct demand *d)
{
    if (!key_make(client, peer, &d->key)) {
        return false;
    }
    SSL_SESSION *session =
        tls_session_cache_take(d->cache, key_slice(&d->key), clock_wall() / USEC_PER_SEC);
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
    struct demand *d = calloc(1, sizeof(*d));
    if (d == NULL || SSL_set_ex_data(ssl, demand_index, d) != 1) {
        free(d);
        SSL_free(ssl);
        return NULL;
    }
    d->cache = cache;
    d->is_sts = peer->sts_id.len > 0;
    if (!set_host(ssl, peer->host) || !set_level(ssl, peer, &d->level) ||
        (cache != NULL && !set_resumption(ssl, client, peer, d))) {
        ERR_clear_error();
        SSL_free(ssl);
        return NULL;
    }
    ERR_clear_error(); /* of records that cannot be used */
    return ssl;
}

static const char *verdict_text(const struct demand *d, const struct tls_facts *facts, long verdict)
{
    if (d->level == TLS_LEVEL_DANE) {
        return facts->is_verified ? "DANE" : "Untrusted";
    }
    if (!facts->is_verified) {
        bool is_chain = facts->has_certificate && (verdict == X509_V_ERR_HOSTNAME_MISMATCH ||
                                                   verdict == X509_V_ERR_IP_ADDRESS_MISMATCH);
        return is_chain ? "Trusted" : "Untrusted";
    }
    return d->is_sts && d->level == TLS_LEVEL_VERIFY ? "STS" : "Verified";
}

static enum tls_fault fault_of(long verdict)
{
    switch (verdict) {
    case X509_V_OK:
        return TLS_FAULT_NONE;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return TLS_FAULT_NAME;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return TLS_FAULT_EXPIRED;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
        return TLS_FAULT_UNTRUSTED;
    case X509_V_ERR_DANE_NO_MATCH:
        return TLS_FAULT_DANE;
    default:
        return TLS_FAULT_OTHER;
    }
}

enum tls_fault tls_connection_fault(const SSL *ssl)
{
    return fault_of(SSL_get_verify_result(ssl));
}

void tls_connection_facts(const SSL *ssl, struct tls_facts *ret)
{
    const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
    long verdict = SSL_get_verify_result(ssl);
    bool has_certificate = SSL_get0_peer_certificate(ssl) != NULL;
    const struct demand *d = demand_index < 0 ? NULL : SSL_get_ex_data(ssl, demand_index);
    *ret = (struct tls_facts){
        .protocol = SSL_get_version(ssl),
        .cipher = SSL_CIPHER_get_name(cipher),
        .cipher_bits = SSL_CIPHER_get_bits(cipher, NULL),
        .has_certificate = has_certificate,
        .is_verified = has_certificate && verdict == X509_V_OK,
        .is_resumed = SSL_session_reused(ssl) == 1,
        .fault = fault_of(verdict),
    };
    if (!has_certificate) {
        ret->verify_text = "no certificate";
    } else if (verdict != X509_V_OK) {
        ret->verify_text = X509_verify_cert_error_string(verdict);
    }
    if (d != NULL) {
        bool is_demanded = d->level == TLS_LEVEL_VERIFY || d->level == TLS_LEVEL_DANE;
        ret->is_proved = ret->is_verified || !is_demanded;
        ret->verdict = verdict_text(d, ret, verdict);
    }
}
