/* Strict base64. Called by the SMTP cores; knows nothing of lines, padding-free variants or
 * white space, all of which are errors here. */
#include "net/base64.h"

#include "base/error.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 0..63, or -1 for a byte outside the alphabet. */
static int digit_value(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    if (c == '+') {
        return 62;
    }
    return c == '/' ? 63 : -1;
}

/* The value of four characters, of which the last `padding` are '='; negative on error. */
static int32_t group_value(const char *text, unsigned padding)
{
    uint32_t value = 0;

    for (unsigned i = 0; i < 4; i++) {
        int digit = i < 4 - padding ? digit_value((unsigned char)text[i]) : 0;
        if (digit < 0) {
            return -1;
        }
        value = value << 6 | (uint32_t)digit;
    }
    /* Bits that the padding cuts off must be zero, else two texts would decode alike. */
    uint32_t cut = (1U << (8 * padding)) - 1;
    return (value & cut) != 0 ? -1 : (int32_t)value;
}

int base64_decode(struct slice text, void *out, size_t size, size_t *ret_len)
{
    unsigned char *to = out;
    size_t len = 0;

    if (text.len % 4 != 0) {
        return ERR_SYNTAX;
    }
    for (size_t at = 0; at < text.len; at += 4) {
        const char *group = text.data + at;
        unsigned padding = 0;
        if (at + 4 == text.len && group[3] == '=') {
            padding = group[2] == '=' ? 2 : 1;
        }
        int32_t value = group_value(group, padding);
        if (value < 0) {
            return ERR_SYNTAX;
        }
        for (unsigned i = 0; i < 3 - padding; i++) {
            if (len == size) {
                return ERR_LIMIT;
            }
            to[len++] = (unsigned char)(value >> (16 - 8 * i));
        }
    }
    *ret_len = len;
    return ERR_OK;
}

size_t base64_encode(struct slice data, char *out)
{
    const unsigned char *from = (const unsigned char *)data.data;
    size_t len = 0, left = data.len;
    for (; left >= 3; left -= 3, from += 3, len += 4) {
        uint32_t value = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
        out[len] = alphabet[value >> 18];
        out[len + 1] = alphabet[value >> 12 & 63];
        out[len + 2] = alphabet[value >> 6 & 63];
        out[len + 3] = alphabet[value & 63];
    }
    if (left > 0) {
        uint32_t value = (uint32_t)from[0] << 8 | (left == 2 ? from[1] : 0U);
        out[len] = alphabet[value >> 10];
        out[len + 1] = alphabet[value >> 4 & 63];
        out[len + 2] = '=';
        if (left == 2) {
            out[len + 2] = alphabet[value << 2 & 63];
        }
        out[len + 3] = '=';
        len += 4;
    }
    return len;
}
