/* Blocks of bytes that are compared at once: sixteen with SSE2, which every x86-64 has, else the
 * eight of a word. Comparisons give flags, one a byte, the first byte's in the lowest bits. In a
 * word, what is borrowed or carried over from a byte goes upwards only, so the lowest flag is
 * exact, and with none there is no such byte. */
#include "net/smtp_text.h"

#include <stdint.h>
#include <string.h>

/* SMTP_TEXT_WORDS: as on a machine without SSE2, for a test. */
#if defined(__SSE2__) && !defined(SMTP_TEXT_WORDS)
#include <emmintrin.h>

#define FLAG_BITS 1 /* from one byte's flag to the next */

typedef __m128i block;

static block load_block(const char *p)
{
    block b;
    memcpy(&b, p, sizeof(b));
    return b;
}

/* Bytes below n. */
static uint64_t below(block b, char n)
{
    block most = _mm_set1_epi8((char)(n - 1));
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(b, most), b));
}

static uint64_t above_127(block b)
{
    return (unsigned)_mm_movemask_epi8(b);
}

static uint64_t deletes(block b)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(b, _mm_set1_epi8(0x7f)));
}

#else
#include <endian.h>

#define FLAG_BITS 8
#define ONES      (~(uint64_t)0 / 255)
#define FLAGS     (ONES << 7)

typedef uint64_t block;

static block load_block(const char *p)
{
    block b;
    memcpy(&b, p, sizeof(b));
    return le64toh(b);
}

/* Bytes below n, which is at most 128. */
static uint64_t below(block b, char n)
{
    return (b - ONES * (unsigned char)n) & ~b & FLAGS;
}

static uint64_t above_127(block b)
{
    return b & FLAGS;
}

/* Exact below the first byte above 127. */
static uint64_t deletes(block b)
{
    return (b + ONES) & ~b & FLAGS;
}
#endif

/* Number of bytes before the first flag. */
static size_t first(uint64_t flags)
{
    return (size_t)__builtin_ctzll(flags) / FLAG_BITS;
}

/* The flags of the first n bytes, of a block that has more. */
static uint64_t before(uint64_t flags, size_t n)
{
    return flags & (((uint64_t)1 << (FLAG_BITS * n)) - 1);
}

size_t smtp_text_span(struct slice s, bool *ret_8bit)
{
    uint64_t seen = 0;
    size_t at = 0;

    for (;;) {
        /* Of the controls that this stops at, most are a CR. */
        if (s.len - at >= sizeof(block)) {
            block b = load_block(s.data + at);
            uint64_t controls = below(b, '\r' + 1);
            if (controls == 0) {
                seen |= above_127(b);
                at += sizeof(block);
                continue;
            }
            size_t len = first(controls);
            seen |= before(above_127(b), len);
            at += len;
        } else if (at == s.len) {
            break;
        }
        unsigned char c = (unsigned char)s.data[at];
        if (c == '\r' || c == '\n' || c == '\0') {
            break;
        }
        seen |= c & 128;
        at++;
    }
    *ret_8bit = seen != 0;
    return at;
}

size_t smtp_text_printable(struct slice s)
{
    size_t at = 0;

    for (; s.len - at >= sizeof(block); at += sizeof(block)) {
        block b = load_block(s.data + at);
        uint64_t others = below(b, ' ') | above_127(b) | deletes(b);
        if (others != 0) {
            return at + first(others);
        }
    }
    while (at < s.len && s.data[at] >= ' ' && s.data[at] < 0x7f) {
        at++;
    }
    return at;
}
