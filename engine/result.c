#include "engine/result.h"

#include "engine/mailbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Slices into the text must survive its growth, so the text never moves: it is allocated once and
 * what does not fit is cut. Replies are at most 1,000 bytes and equal neighbours share theirs. */
enum { TEXT_BASE = 1200, TEXT_PER_RECIPIENT = 1004 };

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
    r->capacity = capacity;
    return r;
}

void result_free(struct result *r)
{
    if (r != NULL) {
        free(r->recipients);
        free(r->text);
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

struct slice result_keep(struct result *r, struct slice s)
{
    if (s.len == 0) {
        return SLICE("");
    }
    if (r->text == NULL) {
        uint32_t several = r->capacity < 16 ? r->capacity : 16;
        r->text_capacity = TEXT_BASE + several * TEXT_PER_RECIPIENT;
        r->text = malloc(r->text_capacity);
        if (r->text == NULL) {
            r->text_capacity = 0;
            return SLICE("");
        }
    }
    size_t room = r->text_capacity - r->text_len;
    size_t len = s.len < room ? s.len : room;
    struct slice kept = {r->text + r->text_len, len};
    memcpy(r->text + r->text_len, s.data, len);
    r->text_len += (uint32_t)len;
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
            to->text_at = last->text_at;
            to->text_len = last->text_len;
            r->count++;
            return;
        }
    }
    struct slice kept = result_keep(r, text);
    to->text_at = kept.len == 0 ? 0 : (uint32_t)(kept.data - r->text);
    to->text_len = (uint32_t)kept.len;
    r->count++;
}

struct slice result_text(const struct result *r, const struct result_recipient *recipient)
{
    if (recipient->text_len == 0) {
        return SLICE("");
    }
    return slice_make(r->text + recipient->text_at, recipient->text_len);
}

void result_send(struct outbox *to_writer, struct result *r, struct message *m, uint32_t count,
                 unsigned shares)
{
    if (r != NULL) {
        outbox_put_patient(to_writer, LETTER_RESULT, r, 0);
    } else {
        outbox_put_patient(to_writer, LETTER_FORGONE, m, (uint64_t)shares << 32 | count);
    }
}
