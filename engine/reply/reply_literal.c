/* Owns the reading of literals out of regular expressions. Called when rules are loaded, and for
 * each reply; must never claim a literal that a match can do without.
 *
 * An expression is read from left to right with one frame for each open group, no recursion. A frame
 * gathers, for the branch that is read, the best set of literals of which a match must have one: a
 * run of plain characters, or what a group in it needs; and the union over its branches. A frame in
 * which one branch needs nothing needs nothing itself. */
#include "engine/reply/reply_literal.h"

#include <string.h>

enum { GRAM = 3, RUN_MAX = 24, DEPTH_MAX = 8 };

static uint32_t lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static uint16_t gram_bit(uint32_t gram)
{
    return (uint16_t)(((gram & 0xffffff) * 2654435761u) >> 19); /* Knuth's multiplier; 13 bits */
}

void reply_grams_mark(struct reply_grams *g, struct slice text)
{
    uint32_t gram = 0;
    memset(g, 0, sizeof(*g));
    for (size_t i = 0; i < text.len; i++) {
        gram = gram << 8 | lower(text.data[i]);
        if (i + 1 >= GRAM) {
            uint16_t bit = gram_bit(gram);
            g->bits[bit / 64] |= 1ULL << (bit % 64);
        }
    }
}

/* Literals of which a match must have one; count 0: it can do without. */
struct needs {
    uint16_t grams[REPLY_LITERALS][2];
    unsigned count;
    size_t shortest; /* bytes */
};

struct frame {
    struct needs all;  /* of the branches before this one */
    struct needs best; /* of this branch */
    char run[RUN_MAX]; /* plain characters one after the other, up to here */
    size_t len;
    bool can_do_without; /* a branch before this one needed nothing */
};

static uint16_t gram_at(const char *text)
{
    return gram_bit(lower(text[0]) << 16 | lower(text[1]) << 8 | lower(text[2]));
}

/* The better set of what the branch needs: longer literals go before fewer. */
static void offer(struct frame *f, const struct needs *n)
{
    if (n->count > 0 && (f->best.count == 0 || n->shortest > f->best.shortest ||
                         (n->shortest == f->best.shortest && n->count < f->best.count))) {
        f->best = *n;
    }
}

static void end_run(struct frame *f)
{
    if (f->len >= GRAM) {
        const struct needs n = {
            .grams = {{gram_at(f->run), gram_at(f->run + f->len - GRAM)}},
            .count = 1,
            .shortest = f->len,
        };
        offer(f, &n);
    }
    f->len = 0;
}

static void end_branch(struct frame *f)
{
    end_run(f);
    bool fits = f->best.count > 0 && f->all.count + f->best.count <= REPLY_LITERALS;
    f->can_do_without = f->can_do_without || !fits;
    if (fits) {
        memcpy(f->all.grams[f->all.count], f->best.grams, f->best.count * sizeof(f->best.grams[0]));
        f->all.shortest = f->all.count == 0 || f->best.shortest < f->all.shortest ? f->best.shortest
                                                                                  : f->all.shortest;
        f->all.count += f->best.count;
    }
    f->best.count = 0;
}

/* Past the character class that begins at `at`. */
static size_t skip_class(struct slice p, size_t at)
{
    at++;
    at += at < p.len && p.data[at] == '^';
    at += at < p.len && p.data[at] == ']';
    while (at < p.len && p.data[at] != ']') {
        if (p.data[at] == '[' && at + 1 < p.len && memchr(":.=", p.data[at + 1], 3) != NULL) {
            const char end[2] = {p.data[at + 1], ']'};
            const char *found = memmem(p.data + at + 2, p.len - at - 2, end, 2);
            at = found != NULL ? (size_t)(found - p.data) + 1 : at;
        }
        at += p.data[at] == '\\' ? 2 : 1;
    }
    return at < p.len ? at + 1 : p.len;
}

/* Groups that are more than brackets, verbs, and quoted parts change how the rest is read. */
static bool is_plain(struct slice p)
{
    for (size_t i = 0; i + 1 < p.len; i++) {
        bool is_group = p.data[i] == '(' && p.data[i + 1] == '?';
        if ((p.data[i] == '(' && p.data[i + 1] == '*') ||
            (p.data[i] == '\\' && (p.data[i + 1] == 'Q' || p.data[i + 1] == 'E')) ||
            (is_group && (i + 2 == p.len || p.data[i + 2] != ':'))) {
            return false;
        }
    }
    return true;
}

struct reader {
    struct slice p;
    size_t at;
    struct frame frames[DEPTH_MAX];
    size_t depth; /* of the frame under way */
};

/* Whether what was read may be missing, by the quantifier behind it, which is passed. A brace that
 * begins no quantifier is a plain character; it is passed as if what stands before might be missing. */
static bool is_optional(struct reader *r)
{
    if (r->at == r->p.len || memchr("?*{", r->p.data[r->at], 3) == NULL) {
        return false;
    }
    if (r->p.data[r->at++] == '{') {
        size_t end = r->at;
        while (end < r->p.len && memchr("0123456789, ", r->p.data[end], 12) != NULL) {
            end++;
        }
        r->at = end < r->p.len && r->p.data[end] == '}' ? end + 1 : r->at;
    }
    return true;
}

static bool open_group(struct reader *r)
{
    end_run(&r->frames[r->depth]);
    if (++r->depth == DEPTH_MAX) {
        return false;
    }
    r->frames[r->depth] = (struct frame){.len = 0};
    bool has_mark = r->at + 2 < r->p.len && r->p.data[r->at + 1] == '?'; /* (?: */
    r->at += has_mark ? 3 : 1;
    return true;
}

static bool close_group(struct reader *r)
{
    if (r->depth == 0) {
        return false;
    }
    struct frame *inner = &r->frames[r->depth--];
    end_branch(inner);
    r->at++;
    if (!is_optional(r) && !inner->can_do_without) {
        offer(&r->frames[r->depth], &inner->all);
    }
    return true;
}

/* A plain character, at its last byte. */
static void take_character(struct reader *r, char c)
{
    struct frame *f = &r->frames[r->depth];
    r->at++;
    if (is_optional(r)) {
        end_run(f);
        return;
    }
    if (f->len == RUN_MAX) {
        end_run(f);
    }
    f->run[f->len++] = c;
}

/* false: it is not read here what belongs to the escape */
static bool take_escape(struct reader *r)
{
    char after = r->at + 1 < r->p.len ? r->p.data[r->at + 1] : '\0';
    bool is_letter = lower(after) - 'a' < 26u;
    if (after == '\0' || memchr("xopPgkNcuUlL", after, 12) != NULL) {
        return false;
    }
    r->at++;
    if (is_letter || (after >= '0' && after <= '9')) {
        end_run(&r->frames[r->depth]); /* a kind of character, a boundary, a reference */
        r->at++;
    } else {
        take_character(r, after);
    }
    return true;
}

static bool take_atom(struct reader *r)
{
    char c = r->p.data[r->at];
    struct frame *f = &r->frames[r->depth];
    switch (c) {
    case '(':
        return open_group(r);
    case ')':
        return close_group(r);
    case '\\':
        return take_escape(r);
    case '|':
        end_branch(f);
        r->at++;
        return true;
    case '[':
        end_run(f);
        r->at = skip_class(r->p, r->at);
        return true;
    case '^':
    case '$':
    case '.':
    case '+':
    case '?':
    case '*':
    case '{':
        end_run(f);
        (void)is_optional(r); /* of what needs nothing, or a sign of greed behind a quantifier */
        r->at += memchr("^$.+", c, 4) != NULL;
        return true;
    default:
        take_character(r, c);
        return true;
    }
}

void reply_literal_find(struct slice pattern, struct reply_literal *ret)
{
    struct reader r = {.p = pattern};
    *ret = (struct reply_literal){.count = 0};
    bool is_read = is_plain(pattern);
    while (is_read && r.at < pattern.len) {
        is_read = take_atom(&r);
    }
    end_branch(&r.frames[0]);
    if (is_read && r.depth == 0 && !r.frames[0].can_do_without) {
        memcpy(ret->grams, r.frames[0].all.grams, sizeof(ret->grams));
        ret->count = (uint16_t)r.frames[0].all.count;
    }
}
