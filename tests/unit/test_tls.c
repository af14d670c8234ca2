/* Contexts, verdicts and resumption; the bytes themselves are the matter of test_stream. */
#include "base/error.h"
#include "net/tls.h"
#include "net/tls_session_cache.h"
#include "tests/unit/tls_pair.h"
#include "tests/unit/unit.h"

#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tls_files files;

static struct tls_client *client_new(const char *ca_file)
{
    struct tls_client_config config = {.ca_file = ca_file};
    struct tls_client *client = NULL;
    struct tls_error error;
    assert_int_equal(tls_client_new(&config, &client, &error), 0);
    return client;
}

static struct tls_server *server_new(const char *certificate, const char *key)
{
    struct tls_server_config config = {.certificate_file = certificate, .key_file = key};
    struct tls_server *server = NULL;
    struct tls_error error;
    assert_int_equal(tls_server_new(&config, &server, &error), 0);
    return server;
}

static void expect_server_error(const struct tls_server_config *config, const char *file,
                                const char *why)
{
    struct tls_server *server = NULL;
    struct tls_error error = {""};
    assert_int_equal(tls_server_new(config, &server, &error), ERR_TLS);
    assert_null(server);
    if (strstr(error.text, file) == NULL || strstr(error.text, why) == NULL) {
        fail_msg("'%s' names neither '%s' nor '%s'", error.text, file, why);
    }
}

static void errors_name_the_file(void **state)
{
    struct tls_server_config config = {.certificate_file = "/nonexistent/c.pem"};
    expect_server_error(&config, "/nonexistent/c.pem", "No such file");
    config = (struct tls_server_config){.certificate_file = files.leaf};
    expect_server_error(&config, files.leaf, "");
    config.key_file = "/nonexistent/k.pem";
    expect_server_error(&config, "/nonexistent/k.pem", "No such file");
    config.key_file = files.other_key;
    expect_server_error(&config, files.other_key, "mismatch");
    config.key_file = files.locked_key;
    expect_server_error(&config, files.locked_key, "");
    config.key_file = files.leaf_key;
    config.ciphers = "nonsense";
    expect_server_error(&config, "nonsense", "no cipher match");

    struct tls_client_config client_config = {.ca_file = "/nonexistent/ca.pem"};
    struct tls_client *client = NULL;
    struct tls_error error = {""};
    assert_int_equal(tls_client_new(&client_config, &client, &error), ERR_TLS);
    assert_non_null(strstr(error.text, "/nonexistent/ca.pem"));
    client_config = (struct tls_client_config){.ciphers = "nonsense"};
    assert_int_equal(tls_client_new(&client_config, &client, &error), ERR_TLS);
    assert_non_null(strstr(error.text, "no cipher match"));
    tls_client_free(NULL);
    tls_server_free(NULL);
}

/* One handshake and an exchange. returns: the client's result; facts and reason as they are. */
static int try_handshake(const struct tls_client *client, const struct tls_server *server,
                         const struct tls_peer *peer, struct tls_session_cache *cache,
                         struct tls_facts *ret_facts, char reason[STREAM_ERROR_BYTES])
{
    struct pair p;
    int client_result, server_result;
    pair_open(&p, 0);
    pair_secure(&p, tls_client_connection(client, peer, cache), tls_server_connection(server),
                &client_result, &server_result);
    if (client_result == 0) {
        assert_int_equal(server_result, 0);
        pair_exchange(&p);
    }
    stream_tls_facts(&p.client, ret_facts);
    (void)snprintf(reason, STREAM_ERROR_BYTES, "%s", p.client.error);
    pair_close(&p);
    return client_result;
}

static void levels_decide_what_a_verdict_does(void **state)
{
    static const struct {
        enum tls_level level;
        bool has_root;
        const char *host;
        int result;
        bool is_verified;
        const char *text; /* in the facts, or in the error */
    } rows[] = {
        {TLS_LEVEL_MAY, true, "mx.example", 0, true, NULL},
        {TLS_LEVEL_MAY, true, "192.0.2.1", 0, true, NULL},
        {TLS_LEVEL_MAY, true, NULL, 0, true, NULL},
        {TLS_LEVEL_MAY, true, "other.example", 0, false, "hostname mismatch"},
        {TLS_LEVEL_MAY, true, "192.0.2.2", 0, false, "IP address mismatch"},
        {TLS_LEVEL_MAY, false, "mx.example", 0, false, "unable to get local issuer"},
        {TLS_LEVEL_ENCRYPT, false, "mx.example", 0, false, "unable to get local issuer"},
        {TLS_LEVEL_VERIFY, true, "mx.example", 0, true, NULL},
        {TLS_LEVEL_VERIFY, true, "other.example", ERR_TLS, false, "hostname mismatch"},
        {TLS_LEVEL_VERIFY, false, "mx.example", ERR_TLS, false, "unable to get local issuer"},
    };
    struct tls_client *trusting = client_new(files.root);
    struct tls_client *strange = client_new(files.old_leaf);
    struct tls_server *server = server_new(files.leaf, files.leaf_key);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tls_peer peer = {.host = rows[i].host, .level = rows[i].level};
        struct tls_facts facts;
        char reason[STREAM_ERROR_BYTES];
        int result = try_handshake(rows[i].has_root ? trusting : strange, server, &peer, NULL,
                                   &facts, reason);
        assert_int_equal(result, rows[i].result);
        assert_int_equal(facts.is_verified, rows[i].is_verified);
        if (result == 0) {
            assert_string_equal(facts.protocol, "TLSv1.3");
            assert_non_null(strstr(facts.cipher, "TLS_"));
            assert_true(facts.cipher_bits >= 128);
            assert_true(facts.has_certificate);
            assert_false(facts.is_resumed);
        } else {
            assert_null(facts.protocol);
        }
        const char *text = result == 0 ? facts.verify_text : reason;
        if (rows[i].text == NULL ? text != NULL : strstr(text, rows[i].text) == NULL) {
            fail_msg("row %zu: %s", i, text);
        }
    }
    tls_server_free(server);
    tls_client_free(strange);
    tls_client_free(trusting);
}

static struct tls_tlsa tlsa(uint8_t usage, uint8_t selector, uint8_t matching, const void *data,
                            size_t len)
{
    return (struct tls_tlsa){usage, selector, matching, slice_make(data, len)};
}

static void dane_matches_what_was_published(void **state)
{
    static unsigned char other[32] = "something else, of the same size";
    const struct tls_tlsa key = tlsa(3, 1, 1, files.leaf_spki, 32);
    const struct tls_tlsa old = tlsa(3, 1, 1, files.expired_spki, 32);
    const struct tls_tlsa anchor = tlsa(2, 0, 1, files.root_digest, 32);
    const struct tls_tlsa whole = tlsa(2, 0, 0, files.root_der, files.root_der_len);
    const struct tls_tlsa wrong = tlsa(3, 1, 1, other, 32);
    const struct tls_tlsa pkix = tlsa(1, 1, 1, other, 32);
    const struct tls_tlsa bad = tlsa(3, 0, 0, other, 32);
    const struct {
        const struct tls_tlsa set[3];
        uint32_t count;
        const char *host, *second;
        bool is_expired;
        int result;
        const char *text; /* verdict, or part of the error */
    } rows[] = {
        {{key}, 1, "mx.example", NULL, false, 0, "DANE"},
        {{key}, 1, "elsewhere.example", NULL, false, 0, "DANE"},
        {{old}, 1, "mx.example", NULL, true, 0, "DANE"},
        {{wrong, pkix, key}, 3, "mx.example", NULL, false, 0, "DANE"},
        {{wrong}, 1, "mx.example", NULL, false, ERR_TLS, "no matching DANE TLSA records"},
        {{wrong, old}, 2, "mx.example", NULL, false, ERR_TLS, "no matching DANE TLSA records"},
        {{whole}, 1, "mx.example", NULL, false, 0, "DANE"},
        {{whole}, 1, "elsewhere.example", "mx.example", false, 0, "DANE"},
        {{whole}, 1, "elsewhere.example", "next.example", false, ERR_TLS, "hostname mismatch"},
        {{whole}, 1, "mx.example", NULL, true, ERR_TLS, "expired"},
        {{anchor}, 1, "mx.example", NULL, false, ERR_TLS, ""}, /* the chain is sent without it */
        {{pkix}, 1, "elsewhere.example", NULL, false, 0, "Trusted"},
        {{bad}, 1, "mx.example", NULL, false, 0, "Verified"}, /* no certificate: not usable */
        {{pkix}, 0, "mx.example", NULL, true, 0, "Untrusted"},
    };
    struct tls_client *client = client_new(files.root);
    struct tls_server *good = server_new(files.leaf, files.leaf_key);
    struct tls_server *expired = server_new(files.expired_leaf, files.expired_leaf_key);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tls_peer peer = {.host = rows[i].host,
                                      .level = TLS_LEVEL_DANE,
                                      .second_name = rows[i].second,
                                      .tlsa = rows[i].set,
                                      .tlsa_count = rows[i].count};
        struct tls_facts facts;
        char reason[STREAM_ERROR_BYTES];
        int result =
            try_handshake(client, rows[i].is_expired ? expired : good, &peer, NULL, &facts, reason);
        if (result != rows[i].result ||
            strstr(result == 0 ? facts.verdict : reason, rows[i].text) == NULL) {
            fail_msg("row %zu: %s %s", i, result == 0 ? facts.verdict : "failed", reason);
        }
        assert_true(result != 0 || facts.is_proved);
    }
    tls_server_free(expired);
    tls_server_free(good);
    tls_client_free(client);
}

static void verdicts_say_what_was_proved(void **state)
{
    static const struct {
        enum tls_level level;
        bool has_root, is_sts;
        const char *host, *verdict;
    } rows[] = {
        {TLS_LEVEL_MAY, true, false, "mx.example", "Verified"},
        {TLS_LEVEL_MAY, true, false, "other.example", "Trusted"},
        {TLS_LEVEL_ENCRYPT, true, false, "192.0.2.2", "Trusted"},
        {TLS_LEVEL_MAY, false, false, "mx.example", "Untrusted"},
        {TLS_LEVEL_VERIFY, true, false, "mx.example", "Verified"},
        {TLS_LEVEL_VERIFY, true, true, "mx.example", "STS"},
    };
    struct tls_client *trusting = client_new(files.root);
    struct tls_client *strange = client_new(files.old_leaf);
    struct tls_server *server = server_new(files.leaf, files.leaf_key);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tls_peer peer = {.host = rows[i].host,
                                      .level = rows[i].level,
                                      .sts_id = rows[i].is_sts ? SLICE("1") : SLICE("")};
        struct tls_facts facts;
        char reason[STREAM_ERROR_BYTES];
        assert_int_equal(try_handshake(rows[i].has_root ? trusting : strange, server, &peer, NULL,
                                       &facts, reason),
                         0);
        assert_string_equal(facts.verdict, rows[i].verdict);
    }
    /* A wrong name must not hide what is worse. */
    struct tls_server *expired = server_new(files.expired_leaf, files.expired_leaf_key);
    const struct tls_peer peer = {.host = "other.example", .level = TLS_LEVEL_MAY};
    struct tls_facts facts;
    char reason[STREAM_ERROR_BYTES];
    assert_int_equal(try_handshake(trusting, expired, &peer, NULL, &facts, reason), 0);
    assert_string_equal(facts.verdict, "Untrusted");
    tls_server_free(expired);
    tls_server_free(server);
    tls_client_free(strange);
    tls_client_free(trusting);
}

static int accept_any(int ok, X509_STORE_CTX *store)
{
    return 1;
}

static void a_server_that_asks_is_shown_the_certificate(void **state)
{
    struct tls_server *server = server_new(files.leaf, files.leaf_key);
    for (int has_certificate = 0; has_certificate < 2; has_certificate++) {
        const struct tls_client_config config = {
            .ca_file = files.root,
            .certificate_file = has_certificate ? files.named_leaf : NULL,
            .key_file = has_certificate ? files.named_leaf_key : NULL};
        const struct tls_peer peer = {.host = "mx.example", .level = TLS_LEVEL_VERIFY};
        struct tls_client *client = NULL;
        struct tls_error error;
        struct pair p;
        int client_result, server_result;
        assert_int_equal(tls_client_new(&config, &client, &error), 0);
        SSL *ssl = tls_server_connection(server);
        SSL_set_verify(ssl, SSL_VERIFY_PEER, accept_any);
        pair_open(&p, 0);
        pair_secure(&p, tls_client_connection(client, &peer, NULL), ssl, &client_result,
                    &server_result);
        assert_int_equal(client_result, 0);
        assert_int_equal(server_result, 0);
        assert_int_equal(SSL_get0_peer_certificate(ssl) != NULL, has_certificate);
        pair_close(&p);
        tls_client_free(client);
    }
    const struct tls_client_config config = {.certificate_file = files.leaf,
                                             .key_file = files.other_key};
    struct tls_client *client = NULL;
    struct tls_error error = {""};
    assert_int_equal(tls_client_new(&config, &client, &error), ERR_TLS);
    assert_non_null(strstr(error.text, files.other_key));
    tls_server_free(server);
}

/* A common name is no name (RFC 9525). */
static void names_come_from_the_alternative_name(void **state)
{
    struct tls_client *client = client_new(files.root);
    struct tls_server *server = server_new(files.named_leaf, files.named_leaf_key);
    struct tls_peer peer = {.host = "mx.example", .level = TLS_LEVEL_VERIFY};
    struct tls_facts facts;
    char reason[STREAM_ERROR_BYTES];
    assert_int_equal(try_handshake(client, server, &peer, NULL, &facts, reason), ERR_TLS);
    assert_non_null(strstr(reason, "hostname mismatch"));
    tls_server_free(server);
    tls_client_free(client);
}

static void weak_keys_pass_where_nothing_is_verified(void **state)
{
    struct tls_client *client = client_new(files.root);
    struct pair p;
    int client_result, server_result;
    for (int level = TLS_LEVEL_MAY; level < TLS_LEVEL_COUNT; level++) {
        struct tls_peer peer = {.host = "mx.example", .level = (enum tls_level)level};
        /* Our own server would refuse such a certificate; a peer's may not. */
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
        SSL_CTX_set_security_level(ctx, 0);
        assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, files.old_leaf), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, files.old_leaf_key, SSL_FILETYPE_PEM), 1);
        SSL *ssl = SSL_new(ctx);
        SSL_set_accept_state(ssl);
        SSL_CTX_free(ctx);
        pair_open(&p, 0);
        pair_secure(&p, tls_client_connection(client, &peer, NULL), ssl, &client_result,
                    &server_result);
        assert_int_equal(client_result, level == TLS_LEVEL_VERIFY ? ERR_TLS : 0);
        pair_close(&p);
    }
    tls_client_free(client);
}

/* The parameters of a server of long ago, which the library's default refuses. */
static void weak_exchanges_pass_where_nothing_is_verified(void **state)
{
    struct tls_client *client = client_new(files.root);
    struct pair p;
    int client_result, server_result;
    for (int level = TLS_LEVEL_MAY; level <= TLS_LEVEL_ENCRYPT; level++) {
        struct tls_peer peer = {.host = "mx.example", .level = (enum tls_level)level};
        struct tls_facts facts;
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
        SSL_CTX_set_security_level(ctx, 0);
        assert_int_equal(SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION), 1);
        assert_int_equal(SSL_CTX_set_cipher_list(ctx, "DHE-RSA-AES128-GCM-SHA256"), 1);
        assert_int_equal(SSL_CTX_set_dh_auto(ctx, 2), 1); /* 1,024 bits at this level */
        assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, files.old_leaf), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, files.old_leaf_key, SSL_FILETYPE_PEM), 1);
        SSL *ssl = SSL_new(ctx);
        SSL_set_accept_state(ssl);
        SSL_CTX_free(ctx);
        pair_open(&p, 0);
        pair_secure(&p, tls_client_connection(client, &peer, NULL), ssl, &client_result,
                    &server_result);
        assert_int_equal(client_result, 0);
        stream_tls_facts(&p.client, &facts);
        assert_string_equal(facts.cipher, "DHE-RSA-AES128-GCM-SHA256");
        pair_close(&p);
    }
    tls_client_free(client);
}

static void old_protocols_are_refused(void **state)
{
    struct tls_client *client = client_new(files.root);
    struct tls_server *server = server_new(files.leaf, files.leaf_key);
    struct tls_peer peer = {.level = TLS_LEVEL_MAY};
    struct pair p;
    int client_result, server_result;
    SSL *ssl = tls_client_connection(client, &peer, NULL);
    assert_int_equal(SSL_set_min_proto_version(ssl, TLS1_VERSION), 1);
    assert_int_equal(SSL_set_max_proto_version(ssl, TLS1_1_VERSION), 1);
    pair_open(&p, 0);
    pair_secure(&p, ssl, tls_server_connection(server), &client_result, &server_result);
    assert_int_equal(server_result, ERR_TLS);
    assert_int_equal(client_result, ERR_TLS);
    assert_non_null(strstr(p.server.error, "unsupported protocol"));
    assert_non_null(strstr(p.client.error, "alert protocol version"));
    pair_close(&p);
    tls_server_free(server);
    tls_client_free(client);
}

static bool is_resumed(const struct tls_client *client, const struct tls_server *server,
                       const struct tls_peer *peer, struct tls_session_cache *cache)
{
    struct tls_facts facts;
    char reason[STREAM_ERROR_BYTES];
    assert_int_equal(try_handshake(client, server, peer, cache, &facts, reason), 0);
    assert_true(facts.is_verified);
    return facts.is_resumed;
}

static void sessions_are_used_by_their_like_only(void **state)
{
    struct tls_client *client = client_new(files.root);
    struct tls_client *other = client_new(files.root);
    struct tls_server *server = server_new(files.leaf, files.leaf_key);
    struct tls_session_cache *cache = tls_session_cache_new(100, 1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(25)};
    struct tls_peer peer = {.host = "mx.example",
                            .address = (const struct sockaddr *)&address,
                            .address_len = sizeof(address),
                            .level = TLS_LEVEL_VERIFY};
    assert_false(is_resumed(client, server, &peer, cache));
    assert_int_equal(tls_session_cache_count(cache), 1);
    assert_true(is_resumed(client, server, &peer, cache));
    peer.host = "MX.example";
    assert_true(is_resumed(client, server, &peer, cache));

    assert_false(is_resumed(other, server, &peer, cache));
    peer.level = TLS_LEVEL_MAY;
    assert_false(is_resumed(client, server, &peer, cache));
    peer.level = TLS_LEVEL_VERIFY;
    address.sin_port = htons(26);
    assert_false(is_resumed(client, server, &peer, cache));
    address.sin_port = htons(25);
    address.sin_addr.s_addr = htonl(1);
    assert_false(is_resumed(client, server, &peer, cache));
    address.sin_addr.s_addr = 0;
    peer.host = "192.0.2.1";
    assert_false(is_resumed(client, server, &peer, cache));
    peer.host = "mx.example";
    assert_true(is_resumed(client, server, &peer, cache));

    /* what a policy says is part of the trust */
    peer.sts_id = SLICE("1");
    assert_false(is_resumed(client, server, &peer, cache));
    assert_true(is_resumed(client, server, &peer, cache));
    peer.sts_id = SLICE("2");
    assert_false(is_resumed(client, server, &peer, cache));
    peer.sts_id = SLICE("");
    struct tls_tlsa set[2] = {tlsa(3, 1, 1, files.leaf_spki, 32),
                              tlsa(3, 1, 1, files.expired_spki, 32)};
    peer.level = TLS_LEVEL_DANE;
    peer.tlsa = set;
    peer.tlsa_count = 1;
    assert_false(is_resumed(client, server, &peer, cache));
    assert_true(is_resumed(client, server, &peer, cache));
    peer.tlsa_count = 2;
    assert_false(is_resumed(client, server, &peer, cache));
    assert_true(is_resumed(client, server, &peer, cache));
    peer.second_name = "next.example";
    assert_false(is_resumed(client, server, &peer, cache));
    peer.second_name = NULL;
    peer.level = TLS_LEVEL_VERIFY;
    peer.tlsa_count = 0;
    assert_true(is_resumed(client, server, &peer, cache));

    /* A server with new keys does not know our ticket: a full handshake, no failure. */
    struct tls_server *restarted = server_new(files.leaf, files.leaf_key);
    assert_false(is_resumed(client, restarted, &peer, cache));
    tls_server_free(restarted);
    tls_session_cache_free(cache);
    tls_server_free(server);
    tls_client_free(other);
    tls_client_free(client);
}

static void append_file(FILE *to, const char *path)
{
    char text[8192];
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    size_t len = fread(text, 1, sizeof(text), from);
    assert_in_range(len, 1, sizeof(text) - 1);
    assert_int_equal(fwrite(text, 1, len, to), len);
    assert_int_equal(fclose(from), 0);
}

/* A peer may show as many certificates as it likes; a session would keep them all. */
static void large_sessions_are_not_kept(void **state)
{
    for (int copies = 1; copies < 100; copies += 98) {
        char path[] = "/tmp/chain.XXXXXX";
        int fd = mkstemp(path);
        FILE *chain = fdopen(fd, "w");
        assert_non_null(chain);
        append_file(chain, files.leaf);
        for (int i = 0; i < copies; i++) {
            append_file(chain, files.root);
        }
        assert_int_equal(fclose(chain), 0);
        struct tls_client *client = client_new(files.root);
        struct tls_server *server = server_new(path, files.leaf_key);
        struct tls_session_cache *cache = tls_session_cache_new(100, 1);
        const struct tls_peer peer = {.host = "mx.example", .level = TLS_LEVEL_VERIFY};
        bool is_usual = copies == 1;
        assert_false(is_resumed(client, server, &peer, cache));
        assert_int_equal(tls_session_cache_count(cache), is_usual);
        assert_int_equal(is_resumed(client, server, &peer, cache), is_usual);
        tls_session_cache_free(cache);
        tls_server_free(server);
        tls_client_free(client);
        assert_int_equal(unlink(path), 0);
    }
}

static void sessions_survive_a_lost_connection(void **state)
{
    struct tls_client *client = client_new(files.root);
    struct tls_server *server = server_new(files.leaf, files.leaf_key);
    struct tls_session_cache *cache = tls_session_cache_new(100, 1);
    struct tls_peer peer = {.host = "mx.example", .level = TLS_LEVEL_VERIFY};
    struct pair p;
    int client_result, server_result;
    char buf[16];
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        for (int round = 0; round < 3; round++) {
            SSL *ssl = tls_client_connection(client, &peer, cache);
            assert_int_equal(SSL_set_max_proto_version(ssl, version), 1);
            pair_open(&p, 0);
            pair_secure(&p, ssl, tls_server_connection(server), &client_result, &server_result);
            assert_int_equal(client_result, 0);
            assert_int_equal(SSL_session_reused(ssl), round > 0);
            pair_exchange(&p);
            assert_int_equal(stream_write(&p.client, "unread", 6, false), 6);
            stream_close(&p.server);
            assert_true(stream_read(&p.client, buf, sizeof(buf)) <= 0);
            assert_true(stream_write(&p.client, "late", 4, false) < 0);
            pair_close(&p);
        }
        tls_session_cache_free(cache);
        cache = tls_session_cache_new(100, 1);
    }
    tls_session_cache_free(cache);
    tls_server_free(server);
    tls_client_free(client);
}

static void unusable_names_make_no_connection(void **state)
{
    char host[300];
    struct tls_client *client = client_new(NULL);
    struct tls_peer peer = {.host = host, .level = TLS_LEVEL_MAY};
    memset(host, 'a', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    assert_null(tls_client_connection(client, &peer, NULL));
    tls_client_free(client);
}

static void error_lines_are_printable(void **state)
{
    char line[32];
    tls_error_line(line, sizeof(line));
    assert_string_equal(line, "unknown TLS error");
    ERR_raise_data(ERR_LIB_SSL, SSL_R_BAD_PACKET, "a\r\nb\xff");
    tls_error_line(line, sizeof(line));
    assert_string_equal(line, "bad packet (a??b?)");
    ERR_raise_data(ERR_LIB_SSL, SSL_R_BAD_PACKET, "a text that is far too long for the line");
    ERR_raise(ERR_LIB_SSL, SSL_R_BAD_PACKET);
    tls_error_line(line, sizeof(line));
    assert_int_equal(strlen(line), sizeof(line) - 1);
}

static int make_files(void **state)
{
    tls_files_make(&files);
    return 0;
}

static int remove_files(void **state)
{
    tls_files_remove(&files);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(levels_decide_what_a_verdict_does),
        cmocka_unit_test(dane_matches_what_was_published),
        cmocka_unit_test(verdicts_say_what_was_proved),
        cmocka_unit_test(a_server_that_asks_is_shown_the_certificate),
        cmocka_unit_test(names_come_from_the_alternative_name),
        cmocka_unit_test(weak_keys_pass_where_nothing_is_verified),
        cmocka_unit_test(weak_exchanges_pass_where_nothing_is_verified),
        cmocka_unit_test(old_protocols_are_refused),
        cmocka_unit_test(sessions_are_used_by_their_like_only),
        cmocka_unit_test(large_sessions_are_not_kept),
        cmocka_unit_test(sessions_survive_a_lost_connection),
        cmocka_unit_test(unusable_names_make_no_connection),
        cmocka_unit_test(error_lines_are_printable),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
