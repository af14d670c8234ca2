/* Reading the content of a message as fast as memchr finds dots. Called by the session; no I/O. */
#include "bench/sink/sink_content.h"

#include "base/attr.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES (64UL * 1024) /* the fields must lie within these */
#define KEEP_BYTES (256UL * 1024 * 1024)

int sink_content_init(struct sink_content *c, bool does_hash, bool does_keep, uint64_t limit)
{
    memset(c, 0, sizeof(*c));
    c->does_hash = does_hash;
    c->does_keep = does_keep;
    c->limit = limit;
    buf_init(&c->head, KEEP_BYTES);
    if (does_hash) {
        c->hash = EVP_MD_CTX_new();
        if (c->hash == NULL) {
            return -ENOMEM;
        }
    }
    return 0;
}

void sink_content_fini(struct sink_content *c)
{
    buf_fini(&c->head);
    EVP_MD_CTX_free(c->hash);
    c->hash = NULL;
}

void sink_content_begin(struct sink_content *c)
{
    buf_clear(&c->head);
    c->is_head_done = false;
    c->is_too_large = false;
    c->size_bytes = 0;
    c->stamp = 0;
    c->id_at = c->id_len = 0;
    c->before[0] = '\r'; /* the content starts at a line start */
    c->before[1] = '\n';
}

/* The value of a field of the header section, trimmed; its line start in *ret_at. */
static struct slice find_field(struct slice head, struct slice name, size_t *ret_at)
{
    size_t at = 0;
    while (at < head.len) {
        struct slice line = slice_from(head, at);
        size_t len = slice_find(line, '\n');
        struct slice text = slice_to(line, len);
        if (slice_trim(text).len == 0) {
            break; /* the end of the header section */
        }
        if (text.len > name.len && text.data[name.len] == ':' &&
            slice_ieq(slice_to(text, name.len), name)) {
            *ret_at = at;
            return slice_trim(slice_from(text, name.len + 1));
        }
        at += len + (len < line.len ? 1 : 0);
    }
    return (struct slice){0};
}

/* All of the head that will ever be there is there: read the fields and start the hash. */
static void read_head(struct sink_content *c)
{
    struct slice head = buf_slice(&c->head);
    size_t at = 0;
    c->is_head_done = true;
    struct slice stamp = find_field(head, SLICE("X-Sluice-Stamp"), &at);
    for (size_t i = 0; i < stamp.len && i < 18; i++) {
        if (stamp.data[i] < '0' || stamp.data[i] > '9') {
            c->stamp = 0;
            break;
        }
        c->stamp = c->stamp * 10 + (stamp.data[i] - '0');
    }
    at = 0;
    struct slice id = find_field(head, SLICE("X-Sluice-Id"), &at);
    if (id.len > 0) {
        c->id_at = (size_t)(id.data - head.data);
        c->id_len = id.len;
    }
    if (c->hash != NULL) {
        struct slice hashed = slice_from(head, at);
        if (EVP_DigestInit_ex(c->hash, EVP_sha256(), NULL) != 1 ||
            EVP_DigestUpdate(c->hash, hashed.data, hashed.len) != 1) {
            c->is_too_large = true; /* no memory for the digest: not accepted */
        }
    }
}

static void emit(struct sink_content *c, const char *data, size_t len)
{
    c->size_bytes += len;
    if (c->limit != 0 && c->size_bytes > c->limit) {
        c->is_too_large = true;
    }
    if (c->is_too_large || len == 0) {
        return;
    }
    if (!c->is_head_done || c->does_keep) {
        buf_append(&c->head, data, len);
        if (c->head.failed) {
            c->is_too_large = true;
            return;
        }
    }
    if (!c->is_head_done) {
        if (c->head.len >= HEAD_BYTES) {
            read_head(c);
        }
    } else if (c->hash != NULL && EVP_DigestUpdate(c->hash, data, len) != 1) {
        c->is_too_large = true;
    }
}

/* Byte `at - back` of the raw input, which may lie before this range. back: 1 or 2 */
static char byte_before(const struct sink_content *c, struct slice raw, size_t at, size_t back)
{
    if (at >= back) {
        return raw.data[at - back];
    }
    return c->before[2 - (back - at)];
}

static void remember_end(struct sink_content *c, struct slice raw, size_t used)
{
    char second = byte_before(c, raw, used, 2);
    char first = byte_before(c, raw, used, 1);
    c->before[0] = second;
    c->before[1] = first;
}

size_t sink_content_feed(struct sink_content *c, struct slice raw, bool *ret_done)
{
    size_t begin = 0; /* of the bytes not yet emitted */
    size_t at = 0;
    *ret_done = false;
    while (at < raw.len) {
        const char *dot = memchr(raw.data + at, '.', raw.len - at);
        if (dot == NULL) {
            break;
        }
        at = (size_t)(dot - raw.data);
        if (byte_before(c, raw, at, 1) != '\n' || byte_before(c, raw, at, 2) != '\r') {
            at++;
            continue;
        }
        size_t behind = raw.len - at - 1;
        if (behind == 0 || (raw.data[at + 1] == '\r' && behind == 1)) {
            /* Whether this is the end is in the next bytes. */
            emit(c, raw.data + begin, at - begin);
            remember_end(c, raw, at);
            return at;
        }
        emit(c, raw.data + begin, at - begin);
        if (raw.data[at + 1] == '\r' && raw.data[at + 2] == '\n') {
            *ret_done = true;
            return at + 3;
        }
        at++;
        begin = at;
    }
    emit(c, raw.data + begin, raw.len - begin);
    remember_end(c, raw, raw.len);
    return raw.len;
}

void sink_content_feed_chunk(struct sink_content *c, struct slice raw)
{
    emit(c, raw.data, raw.len);
}

void sink_content_end(struct sink_content *c, char ret_hash[SINK_HASH_TEXT_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    ret_hash[0] = '\0';
    if (!c->is_head_done) {
        read_head(c);
    }
    if (c->hash == NULL || c->is_too_large || EVP_DigestFinal_ex(c->hash, digest, &len) != 1) {
        return;
    }
    for (unsigned i = 0; i < len && i < (SINK_HASH_TEXT_BYTES - 1) / 2; i++) {
        (void)snprintf(ret_hash + (size_t)2 * i, 3, "%02x", digest[i]);
    }
}

struct slice sink_content_id(const struct sink_content *c)
{
    return c->id_len == 0 ? (struct slice){0} : slice_make(c->head.data + c->id_at, c->id_len);
}
