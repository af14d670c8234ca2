/* Signs messages for a test that has others verify them: frames of a length (4 bytes, the most
 * significant first) and a message on the standard input, the same with each message signed on the
 * standard output.
 *
 * usage: sign_messages DOMAIN HEADER/BODY SELECTOR=KEY.pem... (HEADER, BODY: simple, relaxed) */
#include "base/buf.h"
#include "base/error.h"
#include "net/dkim/dkim_signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 4, PIECE = 1000 };

struct signer {
    struct dkim_terms terms;
    struct slice selectors[KEYS_MAX];
    struct dkim_key *keys[KEYS_MAX];
    int key_count;
};

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "sign_messages: %s: %s\n", what, why);
    exit(1);
}

static struct dkim_key *read_key(const char *path)
{
    char pem[8192];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fail(path, "cannot be opened");
    }
    size_t len = fread(pem, 1, sizeof(pem), file);
    (void)fclose(file);
    struct dkim_key *key = NULL;
    enum dkim_key_problem problem = DKIM_KEY_FINE;
    if (dkim_key_read(slice_make(pem, len), &key, &problem) != 0) {
        fail(path, dkim_key_problem_text(problem));
    }
    return key;
}

static size_t read_length(void)
{
    unsigned char bytes[4];
    if (fread(bytes, 1, sizeof(bytes), stdin) != sizeof(bytes)) {
        exit(0);
    }
    return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

static struct slice body_of(struct slice message)
{
    const char *end = memmem(message.data, message.len, "\r\n\r\n", 4);
    return end == NULL ? slice_from(message, message.len)
                       : slice_from(message, (size_t)(end + 4 - message.data));
}

static void hash_body(enum dkim_canon canon, struct slice body, uint8_t *ret)
{
    struct dkim_body b;
    int err = dkim_body_init(&b, canon);
    while (err == 0 && body.len > 0) {
        size_t len = body.len < PIECE ? body.len : PIECE;
        dkim_body_update(&b, slice_to(body, len));
        body = slice_from(body, len);
    }
    err = err != 0 ? err : dkim_body_finish(&b, ret);
    dkim_body_fini(&b);
    if (err != 0) {
        fail("body", err_str(err));
    }
}

static void sign_message(struct signer *s, struct slice message)
{
    struct dkim_header header;
    uint8_t hash[DKIM_HASH_BYTES];
    struct buf out;
    buf_init(&out, 0);
    hash_body(s->terms.body, body_of(message), hash);
    int err = dkim_header_parse(message, &header);
    for (int i = 0; i < s->key_count && err == 0; i++) {
        s->terms.selector = s->selectors[i];
        uint8_t signed_hash[DKIM_HASH_BYTES], signature[DKIM_SIGNATURE_MAX];
        size_t len = 0;
        err = dkim_draft(s->keys[i], &s->terms, &header, hash, &out, signed_hash);
        err = err != 0 ? err : dkim_key_sign(s->keys[i], signed_hash, signature, &len);
        if (err == 0) {
            dkim_put_signature(slice_make((const char *)signature, len), &out);
        }
    }
    if (err != 0) {
        fail("message", err_str(err));
    }
    dkim_header_fini(&header);
    size_t len = out.len + message.len;
    const unsigned char bytes[4] = {(unsigned char)(len >> 24), (unsigned char)(len >> 16),
                                    (unsigned char)(len >> 8), (unsigned char)len};
    if (fwrite(bytes, 1, sizeof(bytes), stdout) != sizeof(bytes) ||
        fwrite(out.data, 1, out.len, stdout) != out.len ||
        fwrite(message.data, 1, message.len, stdout) != message.len) {
        fail("standard output", "cannot be written");
    }
    buf_fini(&out);
}

int main(int argc, char **argv)
{
    struct signer s = {.terms = {.names = dkim_default_names,
                                 .oversigned = dkim_default_oversigned,
                                 .name_count = dkim_default_name_count,
                                 .oversigned_count = dkim_default_oversigned_count}};
    if (argc < 4 || argc > 3 + KEYS_MAX) {
        fail("usage", "DOMAIN HEADER/BODY SELECTOR=KEY.pem...");
    }
    s.terms.domain = slice_of(argv[1]);
    s.terms.header = argv[2][0] == 's' ? DKIM_SIMPLE : DKIM_RELAXED;
    s.terms.body = strstr(argv[2], "/s") != NULL ? DKIM_SIMPLE : DKIM_RELAXED;
    for (int i = 3; i < argc; i++) {
        size_t len = strcspn(argv[i], "=");
        s.selectors[s.key_count] = slice_make(argv[i], len);
        s.keys[s.key_count++] = read_key(argv[i] + len + 1);
    }
    for (;;) {
        size_t len = read_length();
        char *message = malloc(len + 1);
        if (message == NULL || fread(message, 1, len, stdin) != len) {
            fail("standard input", "ends within a message");
        }
        sign_message(&s, slice_make(message, len));
        free(message);
    }
}
