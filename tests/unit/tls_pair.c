/* Fixture; see the header. */
#include "tests/unit/tls_pair.h"

#include "base/error.h"
#include "net/poller.h"
#include "tests/unit/certificate.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void path(char *ret, size_t size, const struct tls_files *files, const char *name)
{
    (void)snprintf(ret, size, "%s/%s", files->folder, name);
}

static void save(const struct certificate *c, const char *leaf, const char *key)
{
    certificate_save(c, leaf);
    certificate_save_key(c, key, NULL);
}

void tls_files_make(struct tls_files *files)
{
    (void)snprintf(files->folder, sizeof(files->folder), "/tmp/sluice-tls-XXXXXX");
    assert_non_null(mkdtemp(files->folder));
    path(files->root, sizeof(files->root), files, "root");
    path(files->leaf, sizeof(files->leaf), files, "leaf");
    path(files->leaf_key, sizeof(files->leaf_key), files, "leaf.key");
    path(files->other_key, sizeof(files->other_key), files, "other.key");
    path(files->locked_key, sizeof(files->locked_key), files, "locked.key");
    path(files->old_leaf, sizeof(files->old_leaf), files, "old");
    path(files->old_leaf_key, sizeof(files->old_leaf_key), files, "old.key");
    path(files->named_leaf, sizeof(files->named_leaf), files, "named");
    path(files->named_leaf_key, sizeof(files->named_leaf_key), files, "named.key");
    path(files->expired_leaf, sizeof(files->expired_leaf), files, "expired");
    path(files->expired_leaf_key, sizeof(files->expired_leaf_key), files, "expired.key");
    struct certificate *root = certificate_new("Test Root", NULL, NULL);
    struct certificate *leaf = certificate_new("leaf", "DNS:mx.example,IP:192.0.2.1", root);
    struct certificate *named = certificate_new("mx.example", NULL, root);
    struct certificate *old = certificate_new_rsa("old", "DNS:mx.example", root, 1024);
    struct certificate *expired = certificate_new("expired", "DNS:mx.example", root);
    certificate_end(expired, root, -1);
    (void)certificate_tlsa(leaf, 1, 1, files->leaf_spki);
    (void)certificate_tlsa(expired, 1, 1, files->expired_spki);
    (void)certificate_tlsa(root, 0, 1, files->root_digest);
    files->root_der_len = certificate_tlsa(root, 0, 0, files->root_der);
    save(expired, files->expired_leaf, files->expired_leaf_key);
    certificate_free(expired);
    certificate_save(root, files->root);
    save(leaf, files->leaf, files->leaf_key);
    save(old, files->old_leaf, files->old_leaf_key);
    save(named, files->named_leaf, files->named_leaf_key);
    certificate_save_key(root, files->other_key, NULL);
    certificate_save_key(leaf, files->locked_key, "secret");
    certificate_free(named);
    certificate_free(old);
    certificate_free(leaf);
    certificate_free(root);
}

void tls_files_remove(const struct tls_files *files)
{
    const char *const all[] = {
        files->root,         files->leaf,         files->leaf_key,        files->other_key,
        files->locked_key,   files->old_leaf,     files->named_leaf,      files->named_leaf_key,
        files->old_leaf_key, files->expired_leaf, files->expired_leaf_key};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)unlink(all[i]);
    }
    (void)rmdir(files->folder);
}

void pair_open(struct pair *p, int buffer_bytes)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 0; i < 2 && buffer_bytes > 0; i++) {
        assert_int_equal(
            setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes)), 0);
    }
    stream_init(&p->client, fds[0]);
    stream_init(&p->server, fds[1]);
}

void pair_close(struct pair *p)
{
    stream_close(&p->client);
    stream_close(&p->server);
}

void pair_wake(struct pair *p)
{
    stream_ready(&p->client, POLLER_READ | POLLER_WRITE);
    stream_ready(&p->server, POLLER_READ | POLLER_WRITE);
}

void pair_secure(struct pair *p, struct ssl_st *client_ssl, struct ssl_st *server_ssl,
                 int *ret_client, int *ret_server)
{
    assert_non_null(client_ssl);
    assert_non_null(server_ssl);
    assert_int_equal(stream_start_tls(&p->client, client_ssl), 0);
    assert_int_equal(stream_start_tls(&p->server, server_ssl), 0);
    *ret_client = *ret_server = ERR_AGAIN;
    for (int round = 0; round < 1000; round++) {
        if (*ret_client == ERR_AGAIN) {
            *ret_client = stream_handshake(&p->client);
        }
        if (*ret_server == ERR_AGAIN) {
            *ret_server = stream_handshake(&p->server);
        }
        if (*ret_client != ERR_AGAIN && *ret_server != ERR_AGAIN) {
            return;
        }
        /* Over TCP the kernel may carry what was said a while later. */
        struct pollfd said[] = {{.fd = p->client.fd, .events = POLLIN},
                                {.fd = p->server.fd, .events = POLLIN}};
        assert_true(poll(said, 2, 20000) > 0);
        pair_wake(p);
    }
    fail_msg("the handshake does not end");
}

static void carry(struct stream *from, struct stream *to)
{
    char buf[16];
    ssize_t n = ERR_AGAIN;
    assert_int_equal(stream_write(from, "line\r\n", 6, false), 6);
    for (int round = 0; round < 10 && n == ERR_AGAIN; round++) {
        n = stream_read(to, buf, sizeof(buf));
    }
    assert_int_equal(n, 6);
    assert_memory_equal(buf, "line\r\n", 6);
}

void pair_exchange(struct pair *p)
{
    pair_wake(p);
    carry(&p->client, &p->server);
    carry(&p->server, &p->client);
}
