/* The growable buffer: doubling growth under a limit, with a sticky failure. One owner; no locks.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_BYTES 64

void buf_init(struct buf *b, size_t limit)
{
    *b = (struct buf){.limit = limit};
}

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

/* Room for `more` bytes, which count against the limit, and `slack` bytes, which do not. */
static char *buf_grow(struct buf *b, size_t more, size_t slack)
{
    if (b->failed) {
        return NULL;
    }
    size_t need_bytes;
    size_t used_bytes;
    if (__builtin_add_overflow(b->len, more, &used_bytes) ||
        __builtin_add_overflow(used_bytes, slack, &need_bytes) ||
        (b->limit != 0 && used_bytes > b->limit)) {
        b->failed = true;
        return NULL;
    }
    if (need_bytes > b->capacity || b->data == NULL) {
        size_t capacity = b->capacity < BUF_FIRST_BYTES ? BUF_FIRST_BYTES : b->capacity;
        while (capacity < need_bytes) {
            capacity = capacity > SIZE_MAX / 2 ? need_bytes : capacity * 2;
        }
        if (b->limit != 0 && capacity > b->limit && need_bytes <= b->limit) {
            capacity = b->limit;
        }
        char *data = realloc(b->data, capacity);
        if (data == NULL) {
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->capacity = capacity;
    }
    return b->data + b->len;
}

/* buf_reserve for inlining: mostly the memory is there. */
static inline char *reserve(struct buf *b, size_t more)
{
    bool is_there = more <= b->capacity - b->len && b->data != NULL && !b->failed &&
                    (b->limit == 0 || more <= b->limit - b->len);
    return is_there ? b->data + b->len : buf_grow(b, more, 0);
}

char *buf_reserve(struct buf *b, size_t more)
{
    return reserve(b, more);
}

void buf_append(struct buf *b, const void *data, size_t len)
{
    if (len == 0) {
        return;
    }
    char *to = reserve(b, len);
    if (to != NULL) {
        memcpy(to, data, len);
        b->len += len;
    }
}

void buf_append_slice(struct buf *b, struct slice s)
{
    buf_append(b, s.data, s.len);
}

void buf_append_char(struct buf *b, char c)
{
    char *to = reserve(b, 1);
    if (to != NULL) {
        *to = c;
        b->len++;
    }
}

void buf_append_decimal(struct buf *b, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buf_append(b, digits + at, sizeof(digits) - at);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    if (b->failed) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    size_t room = b->capacity - b->len;
    int len = vsnprintf(room == 0 ? NULL : b->data + b->len, room, fmt, args);
    if (len < 0 || (b->limit != 0 && (size_t)len > b->limit - b->len)) {
        b->failed = true;
    } else if ((size_t)len < room) {
        b->len += (size_t)len;
    } else {
        /* vsnprintf writes a NUL behind the text; it is not part of the contents. */
        char *to = buf_grow(b, (size_t)len, 1);
        if (to != NULL) {
            (void)vsnprintf(to, (size_t)len + 1, fmt, again); /* measured above */
            b->len += (size_t)len;
        }
    }
    va_end(again);
    va_end(args);
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (n != 0 && n < b->len) {
        memmove(b->data, b->data + n, b->len - n);
    }
    b->len -= n;
}

char *buf_detach(struct buf *b, size_t *ret_len)
{
    char *data = b->data;
    size_t len = b->len;
    if (b->failed) {
        free(data);
        data = NULL;
        len = 0;
    }
    buf_init(b, b->limit);
    *ret_len = len;
    return data;
}
