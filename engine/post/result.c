#include "engine/post/result.h"

#include "base/mailbox.h"
#include "engine/post/letter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of a result's text; longer text is cut. Replies have at most 1,000 bytes, and neighbours
 * with equal replies share one. Blocks are small, as most results need only names and a short reply
 * and thousands of them may wait for their commit. */
enum { TEXT_BASE = 1200, TEXT_PER_RECIPIENT = 1004, TEXT_BLOCK = 240 };

struct result *result_new(struct message *message, uint32_t capacity)
{
    struct result *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    r->recipients = calloc(capacity == 0 ? 1 : capacity, sizeof(*r->recipients));
    if (r->recipients == NULL) {
        free(r);
        return NULL;
    }
    r->message = message;
    r->transport = RESULT_NO_TRANSPORT;
    r->capacity = capacity;
    return r;
}

void result_free(struct result *r)
{
    if (r != NULL) {
        free(r->recipients);
        while (r->blocks != NULL) {
            struct result_block *next = r->blocks->next;
            free(r->blocks);
            r->blocks = next;
        }
        free(r);
    }
}

void result_free_all(struct result *list)
{
    while (list != NULL) {
        struct result *next = list->next;
        result_free(list);
        list = next;
    }
}

/* The block with room for `len` bytes; NULL when out of memory. */
static struct result_block *text_block(struct result *r, size_t len)
{
    struct result_block *block = r->blocks;
    if (block != NULL && block->capacity - block->len >= len) {
        return block;
    }
    size_t capacity = len < TEXT_BLOCK ? TEXT_BLOCK : len;
    block = malloc(sizeof(*block) + capacity);
    if (block != NULL) {
        *block = (struct result_block){.next = r->blocks, .capacity = (uint32_t)capacity};
        r->blocks = block;
    }
    return block;
}

struct slice result_keep(struct result *r, struct slice s)
{
    uint32_t several = r->capacity < 16 ? r->capacity : 16;
    size_t room = TEXT_BASE + several * TEXT_PER_RECIPIENT - r->text_bytes;
    size_t len = s.len < room ? s.len : room;
    struct result_block *block = len == 0 ? NULL : text_block(r, len);
    if (block == NULL) {
        return SLICE("");
    }
    struct slice kept = {block->bytes + block->len, len};
    memcpy(block->bytes + block->len, s.data, len);
    block->len += (uint32_t)len;
    r->text_bytes += len;
    return kept;
}

void result_add(struct result *r, uint32_t index, enum result_kind kind, uint16_t code,
                const char *status, struct slice text)
{
    assert(r->count < r->capacity);
    struct result_recipient *to = &r->recipients[r->count];
    to->index = index;
    to->kind = (uint8_t)kind;
    to->code = code;
    size_t status_len = strnlen(status, sizeof(to->status) - 1); /* cut by design */
    memcpy(to->status, status, status_len);
    to->status[status_len] = '\0';
    if (r->count > 0) {
        const struct result_recipient *last = to - 1;
        if (slice_eq(text, result_text(r, last))) {
            to->text = last->text;
            r->count++;
            return;
        }
    }
    to->text = result_keep(r, text);
    r->count++;
}

struct slice result_text(const struct result *r, const struct result_recipient *recipient)
{
    return recipient->text;
}

void result_send(struct outbox *to_writer, struct result *r, struct message *m, uint32_t count,
                 unsigned shares)
{
    if (r != NULL) {
        letter_put_result(to_writer, r);
    } else {
        letter_put_no_result(to_writer, m, count, shares);
    }
}
