/* Words of eight bytes whose bytes are compared at once. A flag is the highest bit of a byte. What
 * is borrowed or carried over from a byte goes upwards only, so the lowest flag is exact, and with
 * none there is no such byte. */
#include "net/smtp_text.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define WORD_BYTES sizeof(uint64_t)
#define ONES       (~(uint64_t)0 / 255)
#define FLAGS      (ONES << 7)

/* The word at p, its first byte in the lowest bits. */
static uint64_t load(const char *p)
{
    uint64_t word;
    memcpy(&word, p, WORD_BYTES);
    return le64toh(word);
}

/* Flags bytes below n, which is at most 128. */
static uint64_t below(uint64_t word, unsigned char n)
{
    return (word - ONES * n) & ~word & FLAGS;
}

/* Number of bytes before the first flag. */
static size_t first(uint64_t flags)
{
    return (size_t)__builtin_ctzll(flags) / 8;
}

/* The first n bytes of the word, n < 8. */
static uint64_t head(uint64_t word, size_t n)
{
    return word & (((uint64_t)1 << (8 * n)) - 1);
}

size_t smtp_text_span(struct slice s, bool *ret_8bit)
{
    uint64_t seen = 0;
    size_t at = 0;

    for (;;) {
        /* Of the controls that this stops at, most are a CR. */
        if (s.len - at >= WORD_BYTES) {
            uint64_t word = load(s.data + at);
            uint64_t controls = below(word, '\r' + 1);
            if (controls == 0) {
                seen |= word;
                at += WORD_BYTES;
                continue;
            }
            size_t len = first(controls);
            seen |= head(word, len);
            at += len;
        } else if (at == s.len) {
            break;
        }
        unsigned char c = (unsigned char)s.data[at];
        if (c == '\r' || c == '\n' || c == '\0') {
            break;
        }
        seen |= c;
        at++;
    }
    *ret_8bit = (seen & FLAGS) != 0;
    return at;
}

size_t smtp_text_printable(struct slice s)
{
    size_t at = 0;

    for (; s.len - at >= WORD_BYTES; at += WORD_BYTES) {
        uint64_t word = load(s.data + at);
        uint64_t others = below(word, ' ') | ((word | (word + ONES)) & FLAGS);
        if (others != 0) {
            return at + first(others);
        }
    }
    while (at < s.len && s.data[at] >= ' ' && s.data[at] < 0x7f) {
        at++;
    }
    return at;
}
