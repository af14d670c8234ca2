/* A view of bytes that somebody else owns: pointer and length, never NUL-dependent. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *data;
    size_t len; /* bytes */
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})
#define SLICE_FMT      "%.*s"
#define SLICE_ARG(s)   (int)(s).len, (s).data

static inline struct slice slice_make(const char *data, size_t len)
{
    return (struct slice){data, len};
}

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

/* What snprintf wrote into text, cut to size - 1 bytes; len: what it returned. */
static inline struct slice slice_of_printed(const char *text, size_t size, int len)
{
    if (len < 0) {
        return slice_make(text, 0);
    }
    return slice_make(text, (size_t)len < size ? (size_t)len : size - 1);
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* ASCII case-insensitive; bytes above 127 compare as they are. */
bool slice_ieq(struct slice a, struct slice b);

/* The bytes with A-Z in lower case into ret[0..s.len), which may be where they are. */
void slice_lower(struct slice s, char *ret);

/* Without ASCII space, tab, CR and LF at both ends. */
struct slice slice_trim(struct slice s);

/* The bytes as a string, from malloc; NULL: out of memory. Not strndup: checkers of strings take it
 * that there is a NUL behind what it gets. */
MUST_USE char *slice_dup(struct slice s);

/* Position of byte c, or s.len. */
size_t slice_find(struct slice s, char c);

/* Without the first `at` bytes (at <= len). */
static inline struct slice slice_from(struct slice s, size_t at)
{
    if (at == 0) {
        return s; /* adding even 0 to a NULL pointer is undefined */
    }
    return (struct slice){s.data + at, s.len - at};
}

static inline struct slice slice_to(struct slice s, size_t len)
{
    return (struct slice){s.data, len};
}

#endif
