/* Rendering of numbered messages. Pure but for the start, which reads clock and process id. */
#include "bench/source_message.h"

#include "base/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 76 /* and CRLF */

static void fill_text(struct buf *text, size_t size)
{
    static const char letters[] = "etaoinshrdlu etaoin etaoinshrdlucmfwypvbgkjqxz ";
    uint64_t random = 88172645463325252ULL; /* xorshift64 (Marsaglia 2003): the same in each run */
    for (size_t column = 0; text->len < size && !text->failed;) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (column == LINE_BYTES) {
            buf_append_str(text, "\r\n");
            column = 0;
        }
        buf_append_char(text, letters[(random >> 32) % (sizeof(letters) - 1)]);
        column++;
    }
}

int source_template_init(struct source_template *t, const struct source_options *options)
{
    memset(t, 0, sizeof(*t));
    t->options = options;
    if (options->id_prefix != NULL) {
        (void)snprintf(t->prefix, sizeof(t->prefix), "%s", options->id_prefix);
    } else {
        (void)snprintf(t->prefix, sizeof(t->prefix), "%llx-%x", (unsigned long long)clock_wall(),
                       (unsigned)getpid());
    }
    time_t now = clock_wall() / USEC_PER_SEC;
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL ||
        strftime(t->date, sizeof(t->date), "%a, %d %b %Y %H:%M:%S +0000", &parts) == 0) {
        return -EINVAL;
    }
    buf_init(&t->text, 0);
    fill_text(&t->text, options->size_bytes);
    return t->text.failed ? -ENOMEM : 0;
}

void source_template_fini(struct source_template *t)
{
    buf_fini(&t->text);
}

void source_message_id(const struct source_template *t, uint64_t number, char ret[SOURCE_ID_BYTES])
{
    (void)snprintf(ret, SOURCE_ID_BYTES, "%s-%llu", t->prefix, (unsigned long long)number);
}

void source_message_recipient(const struct source_template *t, uint64_t number, uint32_t index,
                              struct buf *out)
{
    const struct source_options *o = t->options;
    uint64_t n = number * o->recipients + index;
    buf_printf(out, "u%llu@%s", (unsigned long long)n, o->domains[n % o->domain_count]);
}

/* From X-Sluice-Id on. `before`: bytes of the content in front of it */
static void put_stable(const struct source_template *t, uint64_t number, size_t before,
                       struct buf *out)
{
    char id[SOURCE_ID_BYTES];
    size_t begin = out->len;
    source_message_id(t, number, id);
    buf_printf(out, "X-Sluice-Id: %s\r\nFrom: source <%s>\r\nTo: ", id,
               t->options->sender[0] != '\0' ? t->options->sender : "source@source.test");
    source_message_recipient(t, number, 0, out);
    buf_printf(out, "\r\nSubject: message %llu\r\nDate: %s\r\nMessage-ID: <%s@source.test>\r\n\r\n",
               (unsigned long long)number, t->date, id);
    size_t used = out->len - begin + before;
    size_t size = t->options->size_bytes;
    if (used + 3 <= size) {
        buf_append(out, t->text.data, size - used - 2);
        if (!out->failed && out->data[out->len - 1] == '\r') {
            out->data[out->len - 1] = 'e'; /* only whole line ends */
        }
        buf_append_str(out, "\r\n");
    }
}

void source_message_content(const struct source_template *t, uint64_t number, usec_t stamp,
                            struct buf *out)
{
    size_t begin = out->len;
    /* As many digits each time, so that the rest is the same each time. */
    buf_printf(out, "X-Sluice-Stamp: %018lld\r\n", (long long)stamp);
    put_stable(t, number, out->len - begin, out);
}

void source_message_hash(const struct source_template *t, uint64_t number,
                         char ret[SOURCE_HASH_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct buf stable;
    buf_init(&stable, 0);
    put_stable(t, number, strlen("X-Sluice-Stamp: \r\n") + 18, &stable);
    ret[0] = '\0';
    if (!stable.failed &&
        EVP_Digest(stable.data, stable.len, digest, &len, EVP_sha256(), NULL) == 1) {
        for (unsigned i = 0; i < len && i < (SOURCE_HASH_BYTES - 1) / 2; i++) {
            (void)snprintf(ret + (size_t)2 * i, 3, "%02x", digest[i]);
        }
    }
    buf_fini(&stable);
}
