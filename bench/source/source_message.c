/* Rendering of numbered messages. Pure but for the start, which reads clock and process id. */
#include "bench/source/source_message.h"

#include "bench/tool/draw.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES   76 /* and CRLF */
#define STAMP_DIGITS 18 /* always as many, so that the rest is the same each time */

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
    fill_text(&t->text, options->size.most);
    t->domain = calloc(options->domain_count, sizeof(*t->domain));
    if (t->text.failed || t->domain == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < options->domain_count; i++) {
        t->domain[i] = slice_of(options->domains[i]);
    }
    return 0;
}

void source_template_fini(struct source_template *t)
{
    buf_fini(&t->text);
    free(t->domain);
    t->domain = NULL;
}

void source_message_id(const struct source_template *t, uint64_t number, char ret[SOURCE_ID_BYTES])
{
    (void)snprintf(ret, SOURCE_ID_BYTES, "%s-%llu", t->prefix, (unsigned long long)number);
}

static void put_id(const struct source_template *t, uint64_t number, struct buf *out)
{
    buf_append_str(out, t->prefix);
    buf_append_char(out, '-');
    buf_append_decimal(out, number);
}

uint32_t source_message_recipients(const struct source_template *t, uint64_t number)
{
    const struct source_options *o = t->options;
    return (uint32_t)amount_draw(&o->recipients, draw_bits(o->seed, DRAW_RECIPIENTS, number));
}

void source_message_recipient(const struct source_template *t, uint64_t number, uint32_t index,
                              struct buf *out)
{
    const struct source_options *o = t->options;
    uint64_t n = number * o->recipients.most + index;
    size_t domain = 0;
    if (o->popularity.count > 0) {
        domain = choice_pick(&o->popularity, draw_bits(o->seed, DRAW_DOMAIN, n));
    } else if (amount_is_constant(&o->recipients)) {
        domain = n % o->domain_count;
    } else {
        /* n leaves gaps; so each index goes round by itself. */
        domain = (number + index) % o->domain_count;
    }
    buf_append_char(out, 'u');
    buf_append_decimal(out, n);
    buf_append_char(out, '@');
    buf_append_slice(out, t->domain[domain]);
}

uint32_t source_message_tenant(const struct source_template *t, uint64_t number)
{
    const struct source_options *o = t->options;
    return o->tenants == 0
               ? 0
               : choice_pick(&o->tenant_popularity, draw_bits(o->seed, DRAW_TENANT, number));
}

void source_message_sender(const struct source_template *t, uint64_t number, struct buf *out)
{
    const char *sender = t->options->sender;
    const char *at = strrchr(sender, '@'); /* not NULL where there are tenants */
    if (t->options->tenants > 0 && at != NULL) {
        buf_append(out, sender, (size_t)(at - sender));
        buf_append_char(out, '+');
        buf_append_str(out, t->options->tenant_prefix);
        buf_append_decimal(out, source_message_tenant(t, number) + 1);
        sender = at;
    }
    buf_append_str(out, sender);
}

/* From X-Sluice-Id on. `before`: bytes of the content in front of it */
static void put_stable(const struct source_template *t, uint64_t number, size_t before,
                       struct buf *out)
{
    const struct source_options *o = t->options;
    size_t begin = out->len;
    buf_append_str(out, "X-Sluice-Id: ");
    put_id(t, number, out);
    if (o->tenants > 0) {
        buf_append_str(out, "\r\nX-Tenant: ");
        buf_append_str(out, o->tenant_prefix);
        buf_append_decimal(out, source_message_tenant(t, number) + 1);
    }
    buf_append_slice(out, buf_slice(&o->headers));
    buf_append_str(out, "\r\nFrom: source <");
    if (o->sender[0] != '\0') {
        source_message_sender(t, number, out);
    } else {
        buf_append_str(out, "source@source.test");
    }
    buf_append_str(out, ">\r\nTo: ");
    source_message_recipient(t, number, 0, out);
    buf_append_str(out, "\r\nSubject: message ");
    buf_append_decimal(out, number);
    buf_append_str(out, "\r\nDate: ");
    buf_append_str(out, t->date);
    buf_append_str(out, "\r\nMessage-ID: <");
    put_id(t, number, out);
    buf_append_str(out, "@source.test>\r\n\r\n");
    size_t used = out->len - begin + before;
    size_t size = amount_draw(&o->size, draw_bits(o->seed, DRAW_SIZE, number));
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
    char digits[STAMP_DIGITS];
    for (size_t i = STAMP_DIGITS; i > 0; stamp /= 10) {
        digits[--i] = (char)('0' + stamp % 10);
    }
    buf_append_str(out, "X-Sluice-Stamp: ");
    buf_append(out, digits, STAMP_DIGITS);
    buf_append_str(out, "\r\n");
    put_stable(t, number, out->len - begin, out);
}

void source_message_hash(const struct source_template *t, uint64_t number,
                         char ret[SOURCE_HASH_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct buf stable;
    buf_init(&stable, 0);
    put_stable(t, number, strlen("X-Sluice-Stamp: \r\n") + STAMP_DIGITS, &stable);
    ret[0] = '\0';
    if (!stable.failed &&
        EVP_Digest(stable.data, stable.len, digest, &len, EVP_sha256(), NULL) == 1) {
        for (unsigned i = 0; i < len && i < (SOURCE_HASH_BYTES - 1) / 2; i++) {
            (void)snprintf(ret + (size_t)2 * i, 3, "%02x", digest[i]);
        }
    }
    buf_fini(&stable);
}
