#include "engine/trace/dialogue.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD,
    FIRST_BYTES = 1024, /* of the beginning; most sessions need no more */
    TICK_BITS = 7,      /* a tick is 128 microseconds */
    HALVES = 32,        /* a body is written as half bytes */
};

/* In front of each piece: eight bytes with their highest bit set, seven bits in each. */
struct header {
    uint64_t at;  /* ticks since the dialogue began, 40 bits */
    uint32_t len; /* 14 bits */
    enum dialogue_kind kind;
};

struct body {
    uint64_t id, size_bytes;
};

void dialogue_init(struct dialogue *d, usec_t now, size_t *budget)
{
    *d = (struct dialogue){.began = now, .changed = now, .budget = budget};
}

void dialogue_fini(struct dialogue *d)
{
    *d->budget += dialogue_bytes(d);
    for (int i = 0; i < 3; i++) {
        free(d->parts[i].bytes);
        d->parts[i] = (struct dialogue_part){.bytes = NULL};
    }
}

size_t dialogue_bytes(const struct dialogue *d)
{
    return (size_t)d->parts[0].capacity + d->parts[1].capacity + d->parts[2].capacity;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Sixteen counters at once; gcc 12 gets the loop wrong when it makes them of a plain one. */
typedef int8_t lanes __attribute__((vector_size(16)));

static uint32_t count_line_ends(struct slice s)
{
    enum { LANES = sizeof(lanes), ROUNDS = INT8_MAX / 4 };
    uint32_t count = 0;
    while (s.len >= 4 * LANES) {
        lanes sums = {0}, x[4];
        const char *end = s.data + s.len;
        const char *last = s.len > ROUNDS * sizeof(x) ? s.data + ROUNDS * sizeof(x) : end;
        const char *at = s.data;
        for (; (size_t)(last - at) >= sizeof(x); at += sizeof(x)) {
            memcpy(x, at, sizeof(x));
            sums -= (x[0] == '\n') + (x[1] == '\n') + (x[2] == '\n') + (x[3] == '\n');
        }
        for (size_t i = 0; i < LANES; i++) {
            count += (uint32_t)sums[i];
        }
        s = slice_make(at, (size_t)(end - at));
    }
    for (size_t i = 0; i < s.len; i++) {
        count += s.data[i] == '\n' ? 1 : 0;
    }
    return count;
}

static uint32_t count_part_lines(const struct dialogue_part *p)
{
    return p->len == 0 ? 0 : count_line_ends(slice_make(p->bytes, p->len));
}

uint32_t dialogue_line_count(const struct dialogue *d)
{
    return count_part_lines(&d->parts[0]) + count_part_lines(&d->parts[1]) +
           count_part_lines(&d->parts[2]) + d->left_out + (d->is_open ? 1 : 0);
}

/* --- headers ---------------------------------------------------------------------------------- */

#define LOW_28       (((uint64_t)1 << 28) - 1)
#define LOW_14S      0x00003fff00003fffull
#define LOW_7S       0x007f007f007f007full
#define HIGHEST_BITS 0x8080808080808080ull

static inline void write_header(char *at, uint64_t when, size_t len, enum dialogue_kind kind)
{
    uint64_t x = (uint64_t)kind | (uint64_t)len << 2 | when << 16;
    x = (x & LOW_28) | (x & LOW_28 << 28) << 4;
    x = (x & LOW_14S) | (x & LOW_14S << 14) << 2;
    x = (x & LOW_7S) | (x & LOW_7S << 7) << 1 | HIGHEST_BITS;
    memcpy(at, &x, sizeof(x));
}

static struct header read_header(const char *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof(x));
    x &= ~HIGHEST_BITS;
    x = (x & LOW_7S) | (x >> 1 & LOW_7S << 7);
    x = (x & LOW_14S) | (x >> 2 & LOW_14S << 14);
    x = (x & LOW_28) | (x >> 4 & LOW_28 << 28);
    return (struct header){x >> 16, (uint32_t)(x >> 2) & 0x3fff, (enum dialogue_kind)(x & 3)};
}

/* The piece at offset, which moves behind it. */
static struct slice read_piece(const struct dialogue_part *p, uint16_t *offset, struct header *ret)
{
    *ret = read_header(p->bytes + *offset);
    struct slice piece = slice_make(p->bytes + *offset + DIALOGUE_HEADER, ret->len);
    *offset = (uint16_t)(*offset + DIALOGUE_HEADER + ret->len);
    return piece;
}

/* --- recording -------------------------------------------------------------------------------- */

static bool resize(struct dialogue *d, struct dialogue_part *p, size_t capacity)
{
    size_t more = capacity > p->capacity ? capacity - p->capacity : 0;
    if (more > *d->budget) {
        return false;
    }
    char *bytes = realloc(p->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    *d->budget += p->capacity;
    *d->budget -= capacity;
    p->bytes = bytes;
    p->capacity = (uint16_t)capacity;
    return true;
}

/* Adds a piece behind the others; the caller has seen that the part has room for it. */
static inline void put_part(struct dialogue *d, struct dialogue_part *p, enum dialogue_kind kind,
                            struct slice piece, usec_t now)
{
    char *at = p->bytes + p->len;
    write_header(at, (now - d->began) >> TICK_BITS, piece.len, kind);
    memcpy(at + DIALOGUE_HEADER, piece.data, piece.len);
    p->last = p->len;
    p->len = (uint16_t)(p->len + DIALOGUE_HEADER + piece.len);
    d->is_open = piece.data[piece.len - 1] != '\n';
}

/* Appends to the last piece; the caller has seen that the part has room for it. */
static void prolong(struct dialogue *d, struct dialogue_part *p, struct slice piece)
{
    struct header h = read_header(p->bytes + p->last);
    write_header(p->bytes + p->last, h.at, h.len + piece.len, h.kind);
    memcpy(p->bytes + p->len, piece.data, piece.len);
    p->len = (uint16_t)(p->len + piece.len);
    d->is_open = piece.data[piece.len - 1] != '\n';
}

/* Ends the line under way. Where the part has no room for a newline, it replaces the last byte. */
static void close_line(struct dialogue *d, struct dialogue_part *p)
{
    if (p->len == p->capacity) {
        p->bytes[p->len - 1] = '\n';
        d->is_open = false;
    } else {
        prolong(d, p, SLICE("\n"));
    }
}

static void forget_part(struct dialogue *d, struct dialogue_part *p)
{
    d->left_out += count_part_lines(p);
    p->len = 0;
    p->has_failure = false;
}

/* Empties one of the two parts for the end of the dialogue to write into: the other one, or the
 * present one again where memory is short. -1: there is no memory for either */
static int next_dialogue_part(struct dialogue *d)
{
    int other = d->current == 1 ? 2 : 1;
    forget_part(d, &d->parts[other]);
    if (d->parts[other].capacity == DIALOGUE_TAIL_BYTES ||
        resize(d, &d->parts[other], DIALOGUE_TAIL_BYTES)) {
        return other;
    }
    if (d->current == HEAD || d->parts[d->current].capacity < DIALOGUE_TAIL_BYTES) {
        return -1;
    }
    forget_part(d, &d->parts[d->current]);
    return d->current;
}

/* Goes on to the next part: from the beginning to the end, or between the two parts of the end.
 * returns false when there is no memory for it. */
static bool turn_over(struct dialogue *d)
{
    int next = next_dialogue_part(d);
    if (next >= 0) {
        d->current = (uint8_t)next;
    } else if (d->current == HEAD) {
        d->current = 1; /* nothing more belongs to the beginning */
    }
    return next >= 0;
}

/* Cuts a piece that is larger than a part of the end to its last lines. Both parts of the end are
 * emptied then, so that all lines that are left out are in one gap. */
static struct slice cut_front(struct dialogue *d, struct slice piece)
{
    size_t room = d->parts[d->current].capacity - DIALOGUE_HEADER;
    if (piece.len <= room) {
        return piece;
    }
    forget_part(d, &d->parts[1]);
    forget_part(d, &d->parts[2]);
    struct slice kept = slice_from(piece, piece.len - room);
    size_t end = slice_find(kept, '\n');
    kept = slice_from(kept, end < kept.len ? end + 1 : 0);
    d->left_out += count_line_ends(slice_to(piece, piece.len - kept.len));
    return kept;
}

/* Gives the beginning memory for `want` bytes, or as much of that as it may have. */
static void grow_head(struct dialogue *d, size_t want)
{
    struct dialogue_part *p = &d->parts[HEAD];
    size_t capacity = p->capacity == 0 ? FIRST_BYTES : p->capacity;
    while (capacity < want && capacity < DIALOGUE_HEAD_BYTES) {
        capacity *= 2;
    }
    capacity = capacity < DIALOGUE_HEAD_BYTES ? capacity : DIALOGUE_HEAD_BYTES;
    if (capacity > p->capacity) {
        (void)resize(d, p, capacity); /* without memory the beginning keeps the room that it has */
    }
}

/* Puts as many whole lines of the piece into the beginning as have room there; returns the rest. */
static struct slice fill_head(struct dialogue *d, enum dialogue_kind kind, struct slice piece,
                              usec_t now)
{
    struct dialogue_part *p = &d->parts[HEAD];
    grow_head(d, p->len + DIALOGUE_HEADER + piece.len);
    size_t left = p->capacity - p->len;
    size_t room = left > DIALOGUE_HEADER ? left - DIALOGUE_HEADER : 0;
    size_t len = piece.len;
    if (len > room) {
        for (len = room; len > 0 && piece.data[len - 1] != '\n';) {
            len--;
        }
    }
    if (len > 0) {
        put_part(d, p, kind, slice_to(piece, len), now);
    }
    return slice_from(piece, len);
}

/* Appends where the present part is full. Not inlined, as this is rare and must not make the usual
 * case slower. */
__attribute__((noinline)) static void append_slowly(struct dialogue *d, enum dialogue_kind kind,
                                                    struct slice piece, usec_t now)
{
    if (d->current == HEAD) {
        piece = fill_head(d, kind, piece, now);
    }
    if (piece.len == 0) {
        return;
    }
    if (!turn_over(d)) {
        d->left_out += count_line_ends(piece);
        return;
    }
    piece = cut_front(d, piece);
    put_part(d, &d->parts[d->current], kind, piece, now);
}

/* The last line is not complete: the piece's first bytes belong to it and go to its piece, or are
 * left out where the part has no room. Returns the piece without them. */
static struct slice go_on(struct dialogue *d, enum dialogue_kind kind, struct slice piece)
{
    struct dialogue_part *p = &d->parts[d->current];
    if (p->len == 0 || read_header(p->bytes + p->last).kind != kind) {
        if (p->len > 0) {
            close_line(d, p);
        }
        d->is_open = false;
        return piece;
    }
    size_t end = slice_find(piece, '\n');
    end += end < piece.len ? 1 : 0;
    if (d->current == HEAD && p->len + end > p->capacity) {
        grow_head(d, p->len + end);
    }
    if (p->len + end <= p->capacity) {
        prolong(d, p, slice_to(piece, end));
    } else if (piece.data[end - 1] == '\n') {
        close_line(d, p);
    }
    return slice_from(piece, end);
}

static inline void append_piece(struct dialogue *d, enum dialogue_kind kind, struct slice piece,
                                usec_t now)
{
    d->changed = now;
    if (dialogue_is_full(d, piece.len)) {
        append_slowly(d, kind, piece, now);
    } else {
        put_part(d, &d->parts[d->current], kind, piece, now);
    }
}

/* Appends behind a line that is not complete, or appends a note, whose line always ends with it. */
__attribute__((noinline)) static void append_odd(struct dialogue *d, enum dialogue_kind kind,
                                                 struct slice piece, usec_t now)
{
    if (d->is_open) {
        piece = go_on(d, kind, piece);
    }
    if (piece.len > 0) {
        append_piece(d, kind, piece, now);
    }
    if (kind == DIALOGUE_NOTE && d->is_open) {
        close_line(d, &d->parts[d->current]);
    }
}

void dialogue_append(struct dialogue *d, enum dialogue_kind kind, struct slice piece, usec_t now)
{
    if (piece.len == 0) {
        return;
    }
    if (d->is_open || kind == DIALOGUE_NOTE) {
        append_odd(d, kind, piece, now);
    } else {
        append_piece(d, kind, piece, now);
    }
}

void dialogue_append_body(struct dialogue *d, uint64_t id, uint64_t size_bytes, usec_t now)
{
    char text[DIALOGUE_BODY_BYTES];
    const struct body body = {id, size_bytes};
    unsigned char bytes[sizeof(body)];
    memcpy(bytes, &body, sizeof(body));
    for (size_t i = 0; i < sizeof(body); i++) {
        text[i] = (char)(0x40 | (bytes[i] >> 4));
        text[HALVES / 2 + i] = (char)(0x40 | (bytes[i] & 15));
    }
    text[HALVES] = '\n';
    dialogue_append(d, DIALOGUE_BODY, slice_make(text, sizeof(text)), now);
}

void dialogue_append_auth(struct dialogue *d, struct slice commands, usec_t now)
{
    static const struct slice auth = {"AUTH ", 5};
    while (commands.len > 0) {
        size_t end = slice_find(commands, '\n');
        struct slice line = slice_to(commands, end);
        commands = slice_from(commands, end < commands.len ? end + 1 : end);
        line.len -= line.len > 0 && line.data[line.len - 1] == '\r' ? 1 : 0;
        if (line.len < auth.len || !slice_ieq(slice_to(line, auth.len), auth)) {
            dialogue_append(d, DIALOGUE_SAID, SLICE("***\r\n"), now);
            continue;
        }
        size_t mechanism = slice_find(slice_from(line, auth.len), ' ');
        dialogue_append(d, DIALOGUE_SAID, slice_to(line, auth.len + mechanism), now);
        dialogue_append(d, DIALOGUE_SAID,
                        auth.len + mechanism < line.len ? SLICE(" ***\r\n") : SLICE("\r\n"), now);
    }
}

void dialogue_mark(struct dialogue *d)
{
    d->parts[d->current].has_failure = true;
}

bool dialogue_forgets_failure(const struct dialogue *d, size_t bytes)
{
    if (d->current == HEAD || !dialogue_is_full(d, bytes)) {
        return false;
    }
    bool is_large = bytes + DIALOGUE_HEADER > DIALOGUE_TAIL_BYTES;
    return d->parts[3 - d->current].has_failure || (is_large && d->parts[d->current].has_failure);
}

/* --- at rest ---------------------------------------------------------------------------------- */

static void mask_piece(char *bytes, size_t len, struct slice secret)
{
    for (size_t i = 0; i + secret.len <= len; i++) {
        if (memcmp(bytes + i, secret.data, secret.len) == 0) {
            memset(bytes + i, '*', secret.len);
        }
    }
}

void dialogue_mask(struct dialogue *d, struct slice secret)
{
    for (int i = 0; i < 3 && secret.len > 0; i++) {
        struct dialogue_part *p = &d->parts[i];
        for (uint16_t at = 0; at < p->len;) {
            struct header h;
            uint16_t from = (uint16_t)(at + DIALOGUE_HEADER);
            (void)read_piece(p, &at, &h);
            if (h.kind != DIALOGUE_BODY) {
                mask_piece(p->bytes + from, h.len, secret);
            }
        }
    }
}

void dialogue_shrink(struct dialogue *d)
{
    for (int i = 0; i < 3; i++) {
        struct dialogue_part *p = &d->parts[i];
        if (p->len == 0) {
            *d->budget += p->capacity;
            free(p->bytes);
            *p = (struct dialogue_part){.has_failure = p->has_failure};
        } else if (p->len < p->capacity) {
            (void)resize(d, p, p->len); /* when that fails, the part keeps its larger block */
        }
    }
}

int dialogue_copy(const struct dialogue *d, struct dialogue *ret, size_t *budget)
{
    struct dialogue copy = *d;
    copy.budget = budget;
    int err = 0;
    for (int i = 0; i < 3; i++) {
        const struct dialogue_part *from = &d->parts[i];
        struct dialogue_part *p = &copy.parts[i];
        *p = (struct dialogue_part){.has_failure = from->has_failure};
        if (from->len == 0 || err != 0) {
            continue;
        }
        if (!resize(&copy, p, from->len)) {
            err = -ENOMEM;
            continue;
        }
        memcpy(p->bytes, from->bytes, from->len);
        p->len = from->len;
        p->last = from->last;
    }
    if (err != 0) {
        dialogue_fini(&copy);
        return err;
    }
    *ret = copy;
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

void dialogue_begin_reading(const struct dialogue *d, struct dialogue_cursor *ret)
{
    *ret = (struct dialogue_cursor){.d = d, .is_gap_due = d->left_out > 0};
}

/* The part that is read in its turn: the beginning, the older end, the newer one. */
static const struct dialogue_part *part_of(const struct dialogue *d, uint8_t turn)
{
    if (turn == 0) {
        return &d->parts[HEAD];
    }
    uint8_t older = d->current == 1 ? 2 : 1;
    return &d->parts[turn == 1 ? older : 3 - older];
}

static void append_escaped(struct buf *text, struct slice line)
{
    static const char digits[] = "0123456789abcdef";
    bool is_cut = line.len > DIALOGUE_LINE_MAX;
    line = is_cut ? slice_to(line, DIALOGUE_LINE_MAX) : line;
    for (size_t i = 0; i < line.len; i++) {
        unsigned char byte = (unsigned char)line.data[i];
        if (byte == '\\') {
            buf_append_str(text, "\\\\");
        } else if (byte >= 0x20 && byte < 0x7f) {
            buf_append_char(text, (char)byte);
        } else {
            const char escape[] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
            buf_append(text, escape, sizeof(escape));
        }
    }
    if (is_cut) {
        buf_append_str(text, "...");
    }
}

/* The next piece of the parts, or the gap. */
static bool next_dialogue_piece(struct dialogue_cursor *c)
{
    struct header h;
    while (c->turn < 3) {
        const struct dialogue_part *p = part_of(c->d, c->turn);
        if (c->offset < p->len) {
            c->piece = read_piece(p, &c->offset, &h);
            c->kind = h.kind;
            c->at = (usec_t)h.at << TICK_BITS;
            return true;
        }
        c->turn++;
        c->offset = 0;
        if (c->turn == 1 && c->is_gap_due) {
            return true;
        }
    }
    return c->is_gap_due;
}

static void read_body(struct dialogue_cursor *c, struct buf *text)
{
    struct body body;
    unsigned char bytes[sizeof(body)];
    for (size_t i = 0; i < sizeof(body); i++) {
        unsigned high = (unsigned char)c->piece.data[i] & 15u;
        bytes[i] =
            (unsigned char)(high << 4 | ((unsigned char)c->piece.data[HALVES / 2 + i] & 15u));
    }
    memcpy(&body, bytes, sizeof(body));
    buf_printf(text, "[%" PRIu64 " bytes of message %016" PRIx64 "]", body.size_bytes, body.id);
    c->piece.len = 0;
}

static void read_text(struct dialogue_cursor *c, struct buf *text)
{
    size_t end = slice_find(c->piece, '\n');
    struct slice line = slice_to(c->piece, end);
    c->piece = slice_from(c->piece, end < c->piece.len ? end + 1 : end);
    line.len -= line.len > 0 && line.data[line.len - 1] == '\r' ? 1 : 0;
    append_escaped(text, line);
}

/* How a line of the text begins. */
static char sign_of(enum dialogue_kind kind)
{
    if (kind == DIALOGUE_HEARD) {
        return '<';
    }
    return kind == DIALOGUE_NOTE ? '-' : '>';
}

bool dialogue_next_line(struct dialogue_cursor *c, struct dialogue_line *ret, struct buf *text)
{
    buf_clear(text);
    if (c->piece.len == 0 && !next_dialogue_piece(c)) {
        return false;
    }
    if (c->piece.len == 0) {
        *ret = (struct dialogue_line){c->number, c->at, '-'};
        buf_printf(text, "... %" PRIu32 " lines left out", c->d->left_out);
        c->number += c->d->left_out;
        c->is_gap_due = false;
        return true;
    }
    *ret = (struct dialogue_line){c->number++, c->at, sign_of(c->kind)};
    if (c->kind == DIALOGUE_BODY) {
        read_body(c, text);
    } else {
        read_text(c, text);
    }
    return true;
}
