/* What a message takes in the thread that signs it, beside what its keys compute: choosing keys, the
 * canonical header and its hash, the fields. dkim_key_sign is another function here (a wrap of the
 * linker), which says one signature for all: keys cost what OpenSSL makes of this processor, and so
 * much more than all else that nothing of it would be seen. Called by sluice-instructions. */
#include "base/rcu.h"
#include "bench/stage/stage.h"
#include "engine/config/config.h"
#include "engine/key/body_tap.h"
#include "engine/key/key_ring.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"
#include "engine/signer/seal.h"
#include "engine/state/settings.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIGNED_AT ((usec_t)1793491200 * USEC_PER_SEC) /* 2026-11-01T00:00:00Z */
#define KEYS      2                                   /* of one domain: all of them sign */

/* RFC 8463 appendix A.2 */
static const char private_key[] = "-----BEGIN PRIVATE KEY-----\n"
                                  "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                                  "-----END PRIVATE KEY-----\n";

/* In place of dkim_key_sign, by --wrap; tests verify what the real one makes. */
int __wrap_dkim_key_sign(const struct dkim_key *k, const uint8_t hash[DKIM_HASH_BYTES],
                         uint8_t *ret, size_t *ret_len);
int __wrap_dkim_key_sign(const struct dkim_key *k, const uint8_t hash[DKIM_HASH_BYTES],
                         uint8_t *ret, size_t *ret_len)
{
    (void)k;
    memcpy(ret, hash, DKIM_HASH_BYTES);
    memcpy(ret + DKIM_HASH_BYTES, hash, DKIM_HASH_BYTES);
    *ret_len = 2 * (size_t)DKIM_HASH_BYTES; /* as long as one of Ed25519 */
    return 0;
}

static bool write_key(const char *path)
{
    int fd = mkstemp((char *)(uintptr_t)path); /* readable by its owner alone */
    bool is_written = fd >= 0 && write(fd, private_key, strlen(private_key)) ==
                                     (ssize_t)strlen(private_key);
    return fd >= 0 && close(fd) == 0 && is_written;
}

/* Nobody listens on anything, which it warns of. */
static void ignore_complaint(void *ctx, bool is_warning, const char *line)
{
    (void)ctx;
    (void)is_warning;
    (void)line;
}

/* Configuration and ring with keys that sign all mail. */
static bool read_keys(struct config **ret, struct key_ring **ret_ring)
{
    char path[] = "/tmp/sluice-stage-XXXXXX", text[400];
    const struct config_sink sink = {.complain = ignore_complaint};
    bool is_good = write_key(path);
    (void)snprintf(text, sizeof(text),
                   "dkim \"s1._domainkey.source.test\" { key = \"%s\" from_domains = {\"*\"} }\n"
                   "dkim \"s2._domainkey.source.test\" { key = \"%s\" from_domains = {\"*\"} }\n",
                   path, path);
    is_good = is_good && config_load_text(text, "keys", &sink, ret) == 0;
    is_good = is_good && key_ring_load(*ret, NULL, &sink, ret_ring) == 0;
    (void)unlink(path); /* it may not be there */
    return is_good;
}

/* As a reception leaves the message: the body's hash is known, nothing else. */
static bool prepare(struct message *m, struct slice content)
{
    struct body_tap *tap = body_tap_new();
    uint8_t hashes[2][DKIM_HASH_BYTES];
    m->signing = signing_new();
    if (tap == NULL || m->signing == NULL) {
        body_tap_free(tap);
        return false;
    }
    body_tap_want(tap, 1U << DKIM_RELAXED);
    body_tap_feed(tap, NULL, content);
    m->signing->forms = (uint8_t)body_tap_finish(tap, hashes);
    memcpy(m->signing->hashes, hashes, sizeof(hashes));
    body_tap_free(tap);
    return m->signing->forms == 1U << DKIM_RELAXED;
}

static struct message *message_of(const struct stage_message *m)
{
    const struct spool_envelope e = {.id = 1,
                                     .created = SIGNED_AT,
                                     .size_bytes = m->content.len,
                                     .recipient_count = 1,
                                     .sender = slice_of(m->sender)};
    struct buf packed, body;
    buf_init(&packed, 0);
    buf_init(&body, 0);
    buf_append_char(&packed, 0);
    buf_append_char(&packed, (char)strlen(m->recipient));
    buf_append_str(&packed, m->recipient);
    buf_append_slice(&body, buf_slice(&m->content));
    struct message *message =
        packed.failed || body.failed ? NULL : message_new_whole(&e, buf_slice(&packed));
    if (message != NULL) {
        message_keep_body(message, &body);
    }
    buf_fini(&packed);
    buf_fini(&body);
    return message;
}

static bool sign_all(struct message *message, const struct settings *settings, struct slice content,
                     uint64_t messages)
{
    struct seal seal;
    struct buf first;
    bool is_good = prepare(message, content);
    const struct signing received = is_good ? *message->signing : (struct signing){.forms = 0};
    buf_init(&first, 0);
    seal_init(&seal, NULL, NULL); /* what is in memory needs no reader */
    for (uint64_t i = 0; is_good && i < messages; i++) {
        struct seal_job job = {.message = message};
        signing_free(message->signing);
        message->signing = signing_new();
        is_good = message->signing != NULL;
        if (is_good) {
            *message->signing = received;
            is_good = seal_messages(&seal, settings, &job, 1, SIGNED_AT) == 1 && job.err == 0 &&
                      job.result == SEAL_SIGNED && job.signatures == KEYS;
        }
        if (i == 0) {
            buf_append_slice(&first, signing_fields(message->signing));
        }
        is_good = is_good && slice_eq(signing_fields(message->signing), buf_slice(&first));
    }
    seal_fini(&seal);
    buf_fini(&first);
    return is_good;
}

bool stage_sign(const struct stage_message *m, uint64_t messages)
{
    struct config *config = NULL;
    struct key_ring *ring = NULL;
    rcu_join();
    struct message *message = message_of(m);
    bool is_good = read_keys(&config, &ring) && message != NULL;
    if (is_good) {
        const struct settings settings = {.config = config, .keys = ring};
        is_good = sign_all(message, &settings, buf_slice(&m->content), messages);
    }
    if (message != NULL) {
        message_put(message);
    }
    key_ring_free(ring);
    config_free(config);
    rcu_leave();
    return is_good || stage_fail("sign", "a message was not signed by both keys, or not as the first");
}
