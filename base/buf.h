/* A growable byte buffer with one owner. Growth that the limit or memory forbids sets `failed`,
 * after which appends do nothing: a writer checks once, at the end (sticky error). */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/attr.h"
#include "base/slice.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
    char *data;      /* heap, or NULL while capacity is 0 */
    size_t len;      /* bytes used */
    size_t capacity; /* bytes allocated */
    size_t limit;    /* len never exceeds this; 0 = no limit */
    bool failed;
};

void buf_init(struct buf *b, size_t limit);
void buf_fini(struct buf *b);  /* accepts a zeroed buf */
void buf_clear(struct buf *b); /* len = 0, failed = false, memory kept */
/* Room for `more` bytes beyond len; returns where to write, or NULL (failed is set). The caller
 * adds to len what it wrote. */
char *buf_reserve(struct buf *b, size_t more);
void buf_append(struct buf *b, const void *data, size_t len);
void buf_append_slice(struct buf *b, struct slice s);
void buf_append_char(struct buf *b, char c);
void buf_append_decimal(struct buf *b, uint64_t value);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Remove the first n bytes (n <= len). */
void buf_consume(struct buf *b, size_t n);
/* The bytes, owned by the caller from now on (free()); the buf is empty afterwards. NULL with
 * length 0 when there is no memory behind it or when it had failed (what it held is released). */
char *buf_detach(struct buf *b, size_t *ret_len) MUST_USE;

/* Here so that the length of a literal is known where it is appended. */
static inline void buf_append_str(struct buf *b, const char *text)
{
    buf_append(b, text, strlen(text));
}

static inline struct slice buf_slice(const struct buf *b)
{
    return (struct slice){b->data, b->len};
}

#endif
