/* Owns the reading of literals out of regular expressions. Called when rules are loaded, and for
 * each reply; must never claim a literal that a match can do without. */
#include "engine/reply/reply_literal.h"

#include <string.h>

enum { GRAM = 4, RUN_MAX = 256 };

static uint32_t lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static uint16_t gram_bit(uint32_t gram)
{
    return (uint16_t)((gram * 2654435761u) >> 20); /* Knuth's multiplier; 12 bits */
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

/* A literal under way, and the longest so far. */
struct runs {
    char run[RUN_MAX], best[RUN_MAX];
    size_t len, best_len;
};

static void end_run(struct runs *r)
{
    if (r->len > r->best_len) {
        memcpy(r->best, r->run, r->len);
        r->best_len = r->len;
    }
    r->len = 0;
}

static void add(struct runs *r, char c)
{
    if (r->len == RUN_MAX) {
        end_run(r);
    }
    r->run[r->len++] = c;
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

/* Past the group that begins at `at`. */
static size_t skip_group(struct slice p, size_t at)
{
    unsigned depth = 0;
    while (at < p.len) {
        if (p.data[at] == '[') {
            at = skip_class(p, at);
            continue;
        }
        depth += p.data[at] == '(';
        depth -= p.data[at] == ')';
        at += p.data[at] == '\\' ? 2 : 1;
        if (depth == 0) {
            return at < p.len ? at : p.len;
        }
    }
    return p.len;
}

/* Options inside the pattern, verbs, comments and quoted parts change how the rest is read. */
static bool is_plain(struct slice p)
{
    for (size_t i = 0; i + 1 < p.len; i++) {
        bool is_group = p.data[i] == '(' && p.data[i + 1] == '?';
        char kind = i + 2 < p.len ? p.data[i + 2] : '\0';
        if ((p.data[i] == '(' && p.data[i + 1] == '*') ||
            (p.data[i] == '\\' && (p.data[i + 1] == 'Q' || p.data[i + 1] == 'E')) ||
            (is_group && (kind == '\0' || memchr(":=!<", kind, 4) == NULL))) {
            return false;
        }
    }
    return true;
}

/* false: the pattern has branches outside groups */
static bool find_runs(struct slice p, struct runs *r)
{
    size_t at = 0;
    while (at < p.len) {
        char c = p.data[at];
        if (c == '|') {
            return false;
        }
        if (c == '[' || c == '(') {
            end_run(r);
            at = c == '[' ? skip_class(p, at) : skip_group(p, at);
        } else if (memchr("?*{", c, 3) != NULL) { /* what stands before may be missing */
            r->len -= r->len > 0;
            end_run(r);
            at++;
            while (c == '{' && at < p.len && p.data[at - 1] != '}') {
                at++;
            }
        } else if (c == '\\') {
            char after = at + 1 < p.len ? p.data[at + 1] : '\0';
            if ((after >= '0' && after <= '9') || lower(after) - 'a' < 26u || after == '\0') {
                end_run(r); /* a kind of character, a boundary, a reference */
                if (memchr("xopPgkNc", after, 8) != NULL && after != '\0') {
                    return false; /* what belongs to it is not read here */
                }
            } else {
                add(r, after);
            }
            at += 2;
        } else {
            if (memchr("^$.+", c, 4) != NULL) {
                end_run(r);
            } else {
                add(r, c);
            }
            at++;
        }
    }
    end_run(r);
    return true;
}

void reply_literal_find(struct slice pattern, struct reply_literal *ret)
{
    struct runs r = {.len = 0};
    *ret = (struct reply_literal){.count = 0};
    if (!is_plain(pattern) || !find_runs(pattern, &r) || r.best_len < GRAM) {
        return;
    }
    uint32_t gram = 0;
    for (size_t i = 0; i < r.best_len && ret->count < REPLY_LITERAL_GRAMS; i++) {
        gram = gram << 8 | lower(r.best[i]);
        if (i + 1 >= GRAM) {
            ret->grams[ret->count++] = gram_bit(gram);
        }
    }
}
