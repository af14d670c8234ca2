/* Replies out of arbitrary bytes, cut in two ways: the same results, codes within 200..599, bounded
 * memory, clean text. The first byte says how the second way cuts. */
#include "net/smtp_reply.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* One line for each line read, so that two readings can be compared. */
static void record(struct buf *log, const struct smtp_reply *r, enum smtp_reply_result result)
{
    buf_printf(log, "%d %u %u %d%d%d%d ", (int)result, r->code, r->line_count, r->is_mixed,
               r->has_bare_lf, r->is_unclean, r->is_line_unclean);
    buf_append_slice(log, r->line);
    if (result == SMTP_REPLY_DONE) {
        buf_printf(log, " %s ", r->status.text);
        buf_append_slice(log, smtp_reply_text(r));
    }
    buf_append_char(log, '\n');
}

static void check(const struct smtp_reply *r, enum smtp_reply_result result)
{
    require(r->partial.capacity <= 2 * (SMTP_REPLY_LINE_MAX + 1));
    require(r->text.capacity <= 2 * SMTP_REPLY_TEXT_MAX && r->text.len <= SMTP_REPLY_TEXT_MAX);
    if (result != SMTP_REPLY_DONE) {
        return;
    }
    require(r->code >= 200 && r->code <= 599);
    require(r->status.text[0] == '0' + r->code / 100);
    struct buf again = {.limit = 0};
    smtp_reply_sanitise(&again, smtp_reply_text(r), SMTP_REPLY_TEXT_MAX);
    require(slice_eq(buf_slice(&again), smtp_reply_text(r)));
    buf_fini(&again);
}

static void read_all(struct slice all, uint32_t seed, struct buf *log)
{
    struct smtp_reply r;
    smtp_reply_init(&r);
    enum smtp_reply_result result = SMTP_REPLY_MORE;
    while (all.len > 0 && result != SMTP_REPLY_BAD) {
        seed = seed * 1664525U + 1013904223U;
        size_t len = seed == 0 ? all.len : 1 + (seed >> 24) % 40;
        len = len < all.len ? len : all.len;
        char *copy = malloc(len);
        require(copy != NULL);
        memcpy(copy, all.data, len);
        struct slice in = slice_make(copy, len);
        while (in.len > 0 && result != SMTP_REPLY_BAD) {
            result = smtp_reply_feed(&r, &in);
            check(&r, result);
            if (result != SMTP_REPLY_MORE) {
                record(log, &r, result);
            }
            if (result == SMTP_REPLY_DONE) {
                smtp_reply_next(&r);
            }
        }
        free(copy);
        all = slice_from(all, len);
    }
    smtp_reply_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct slice all = slice_make((const char *)data + 1, size - 1);
    struct buf one = {.limit = 0};
    struct buf two = {.limit = 0};
    read_all(all, 0x12345678, &one);
    read_all(all, data[0] * 2654435761U, &two);
    require(slice_eq(buf_slice(&one), buf_slice(&two)));
    buf_fini(&one);
    buf_fini(&two);
    return 0;
}
