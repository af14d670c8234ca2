/* Comparison and trimming of byte views; pure. */
#include "base/slice.h"

#include <stdlib.h>
#include <string.h>

static unsigned char ascii_lower(char c)
{
    unsigned byte = (unsigned char)c;
    return (unsigned char)(byte + ((byte - 'A' < 26) << 5)); /* 'a' - 'A' is 32 */
}

bool slice_ieq(struct slice a, struct slice b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (a.data[i] != b.data[i] && ascii_lower(a.data[i]) != ascii_lower(b.data[i])) {
            return false;
        }
    }
    return true;
}

void slice_lower(struct slice s, char *ret)
{
    for (size_t i = 0; i < s.len; i++) {
        ret[i] = (char)ascii_lower(s.data[i]);
    }
}

char *slice_dup(struct slice s)
{
    char *copy = malloc(s.len + 1);
    if (copy != NULL) {
        if (s.len > 0) {
            memcpy(copy, s.data, s.len);
        }
        copy[s.len] = '\0';
    }
    return copy;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct slice slice_trim(struct slice s)
{
    while (s.len > 0 && is_blank(s.data[0])) {
        s = slice_from(s, 1);
    }
    while (s.len > 0 && is_blank(s.data[s.len - 1])) {
        s.len--;
    }
    return s;
}

size_t slice_find(struct slice s, char c)
{
    if (s.len == 0) {
        return 0;
    }
    const char *at = memchr(s.data, c, s.len);
    return at == NULL ? s.len : (size_t)(at - s.data);
}
