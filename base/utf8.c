#include "base/utf8.h"

#include <stdbool.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

size_t utf8_length(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.data;
    if (s.len == 0) {
        return 0;
    }
    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        return s.len >= 2 && is_continuation(p[1]) ? 2 : 0;
    }
    if (p[0] >= 0xe0 && p[0] <= 0xef) {
        /* No overlong forms, no surrogates. */
        unsigned char low = p[0] == 0xe0 ? 0xa0 : 0x80;
        unsigned char high = p[0] == 0xed ? 0x9f : 0xbf;
        return s.len >= 3 && p[1] >= low && p[1] <= high && is_continuation(p[2]) ? 3 : 0;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        unsigned char low = p[0] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = p[0] == 0xf4 ? 0x8f : 0xbf;
        return s.len >= 4 && p[1] >= low && p[1] <= high && is_continuation(p[2]) &&
                       is_continuation(p[3])
                   ? 4
                   : 0;
    }
    return 0;
}

size_t utf8_decode(struct slice s, uint32_t *ret)
{
    size_t len = utf8_length(s);
    if (len > 0) {
        /* The lead byte of n > 1 bytes has n ones and a zero before its part of the number. */
        unsigned char lead = (unsigned char)s.data[0];
        *ret = len == 1 ? lead : lead & (0x7fU >> len);
        for (size_t i = 1; i < len; i++) {
            *ret = *ret << 6 | ((unsigned char)s.data[i] & 0x3f);
        }
    }
    return len;
}
