/* Canonical bodies. What may be left out, trailing white space of a line and empty lines at the end
 * of the body, is held back until something follows that makes it count.
 * Called by whoever sees a message's content pass. Must not keep any of it. */
#include "net/dkim/dkim_body.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

int dkim_body_init(struct dkim_body *b, enum dkim_canon canon)
{
    memset(b, 0, offsetof(struct dkim_body, staged));
    b->canon = canon;
    b->digest = EVP_MD_CTX_new();
    if (b->digest == NULL || EVP_DigestInit_ex(b->digest, EVP_sha256(), NULL) != 1) {
        dkim_body_fini(b);
        return -ENOMEM;
    }
    return 0;
}

void dkim_body_fini(struct dkim_body *b)
{
    EVP_MD_CTX_free(b->digest);
    b->digest = NULL;
}

static void hash(struct dkim_body *b, const char *data, size_t len)
{
    if (EVP_DigestUpdate(b->digest, data, len) != 1) {
        b->has_failed = true;
    }
}

static void flush(struct dkim_body *b)
{
    hash(b, b->staged, b->staged_len);
    b->staged_len = 0;
}

static void stage(struct dkim_body *b, char c)
{
    if (b->staged_len == sizeof(b->staged)) {
        flush(b);
    }
    b->staged[b->staged_len++] = c;
}

/* Something follows that counts: so does what was held back before it. */
static void release_held(struct dkim_body *b)
{
    for (; b->breaks > 0; b->breaks--) {
        stage(b, '\r');
        stage(b, '\n');
    }
    if (b->has_space) {
        stage(b, ' ');
        b->has_space = false;
    }
    b->is_begun = true;
}

/* Whether the relaxed form has the byte as it is wherever it stands. */
static inline bool is_plain(char c)
{
    return (unsigned char)c > ' ' || (c != '\r' && !dkim_is_blank(c));
}

/* Stages the bytes up to the next that may not stand for themselves; in the relaxed form also single
 * spaces with such a byte behind them, of which text is full. returns  how many, at least one */
static size_t stage_run(struct dkim_body *b, struct slice piece)
{
    const char *data = piece.data;
    release_held(b);
    if (b->staged_len == sizeof(b->staged)) {
        flush(b);
    }
    size_t room = sizeof(b->staged) - b->staged_len, n = 1;
    size_t len = piece.len < room ? piece.len : room;
    if (b->canon == DKIM_SIMPLE) {
        const char *cr = memchr(data, '\r', len);
        n = cr == NULL ? len : (size_t)(cr - data);
    } else {
        while (n < len) {
            if (is_plain(data[n])) {
                n++;
            } else if (data[n] == ' ' && n + 1 < len && is_plain(data[n + 1])) {
                n += 2;
            } else {
                break;
            }
        }
    }
    memcpy(b->staged + b->staged_len, data, n);
    b->staged_len += (uint16_t)n;
    return n;
}

static void end_line(struct dkim_body *b)
{
    b->has_cr = false;
    b->has_space = false;
    b->breaks++;
}

static void keep_lone_cr(struct dkim_body *b)
{
    release_held(b);
    stage(b, '\r');
    b->has_cr = false;
}

void dkim_body_update(struct dkim_body *b, struct slice piece)
{
    while (piece.len > 0) {
        char c = piece.data[0];
        size_t used = 1;
        if (b->has_cr && c == '\n') {
            end_line(b);
        } else if (b->has_cr) {
            keep_lone_cr(b);
            used = 0;
        } else if (c == '\r') {
            b->has_cr = true;
        } else if (b->canon == DKIM_RELAXED && dkim_is_blank(c)) {
            b->has_space = true;
        } else {
            used = stage_run(b, piece);
        }
        piece = slice_from(piece, used);
    }
}

/* A body that is not empty ends with one CRLF; an empty one is one CRLF in the simple form, and
 * nothing in the relaxed one. */
int dkim_body_finish(struct dkim_body *b, uint8_t ret_hash[DKIM_HASH_BYTES])
{
    if (b->has_cr) {
        keep_lone_cr(b);
    }
    if (b->is_begun || b->canon == DKIM_SIMPLE) {
        stage(b, '\r');
        stage(b, '\n');
    }
    flush(b);
    unsigned len = 0;
    if (b->has_failed || EVP_DigestFinal_ex(b->digest, ret_hash, &len) != 1) {
        return -ENOMEM;
    }
    return 0;
}
