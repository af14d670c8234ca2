/* Canonical bodies. What may be left out, trailing white space of a line and empty lines at the end
 * of the body, is held back until something follows that makes it count.
 * Called by whoever sees a message's content pass. Must not keep any of it. */
#include "net/dkim/dkim_body.h"

#include <endian.h>
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

/* libcrypto looks a function up by its name, under a lock, wherever it is not given one that was looked
 * up before: 0.25 us of each body. It stays for as long as the process. */
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256;

static void find_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

int dkim_body_init(struct dkim_body *b, enum dkim_canon canon)
{
    (void)pthread_once(&sha256_once, find_sha256);
    memset(b, 0, offsetof(struct dkim_body, staged));
    b->canon = canon;
    b->digest = EVP_MD_CTX_new();
    if (b->digest == NULL || sha256 == NULL || EVP_DigestInit_ex(b->digest, sha256, NULL) != 1) {
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

/* Bytes that are looked at together, in one register where the processor has such. */
typedef uint8_t group __attribute__((vector_size(16)));
typedef uint64_t group_halves __attribute__((vector_size(16)));

static inline group load(const char *data)
{
    group bytes;
    memcpy(&bytes, data, sizeof(bytes));
    return bytes;
}

/* Bytes in front of the first control or the first space with white space or a control behind it; a
 * few at the end are not looked at. */
static inline size_t easy_len(struct slice text, size_t from)
{
    size_t n = from;
    while (n + sizeof(group) + 1 <= text.len) {
        group here = load(text.data + n), next = load(text.data + n + 1);
        /* All bits of a byte, where it is so. */
        group_halves odd = (group_halves)((here < ' ') | ((here <= ' ') & (next <= ' ')));
        if (odd[0] != 0) {
            return n + (size_t)__builtin_ctzll(le64toh(odd[0])) / 8;
        }
        if (odd[1] != 0) {
            return n + 8 + (size_t)__builtin_ctzll(le64toh(odd[1])) / 8;
        }
        n += sizeof(group);
    }
    return n;
}

size_t dkim_plain_len(struct slice text)
{
    size_t n = 1;
    while (n < text.len) {
        n = easy_len(text, n);
        if (n < text.len && is_plain(text.data[n])) {
            n++;
        } else if (n + 1 < text.len && text.data[n] == ' ' && is_plain(text.data[n + 1])) {
            n += 2;
        } else {
            break;
        }
    }
    return n;
}

/* Whether a line ends there, and the next one begins with a byte that counts and that nothing changes. */
static bool is_plain_break(const struct dkim_body *b, struct slice piece, size_t at)
{
    return at + 2 < piece.len && piece.data[at] == '\r' && piece.data[at + 1] == '\n' &&
           (b->canon == DKIM_SIMPLE ? piece.data[at + 2] != '\r' : is_plain(piece.data[at + 2]));
}

/* Bytes in front of the first that may not stand for itself, at least one; most bodies are canonical as
 * they are, ends of lines included. */
static size_t run_len(const struct dkim_body *b, struct slice piece)
{
    size_t n = 0;
    do {
        n += n == 0 ? 0 : 2; /* the end of a line */
        struct slice rest = slice_from(piece, n);
        n += b->canon == DKIM_RELAXED ? dkim_plain_len(rest)
                                      : 1 + slice_find(slice_from(rest, 1), '\r');
    } while (is_plain_break(b, piece, n));
    return n;
}

/* Takes the bytes up to the next that may not stand for themselves. returns  how many, at least one */
static size_t take_run(struct dkim_body *b, struct slice piece)
{
    release_held(b);
    size_t n = run_len(b, piece);
    if (n > sizeof(b->staged) - b->staged_len) {
        flush(b);
    }
    if (n > sizeof(b->staged)) {
        hash(b, piece.data, n);
    } else {
        memcpy(b->staged + b->staged_len, piece.data, n);
        b->staged_len += (uint16_t)n;
    }
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
            used = take_run(b, piece);
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
