/* Makes a template of a reply, word by word. Called by the responses' table on the spool writer;
 * must not read beyond the text, and takes time in proportion to it. */
#include "engine/tally/response_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    TEXT_MAX = 1024,   /* bytes of a reply that are looked at */
    QUOTED_MAX = 300,  /* bytes between two quotes */
    IPV6_MAX = 64,     /* bytes of an address with its zone and all */
    CODE_MAX = 8,      /* bytes of a code like TSS04 or BL000001, */
    CODE_DIGITS = 6,   /* digits at the end of such a code */
    CODE_LETTERS = 6,  /* letters of a code in two parts, like RP-001 or LPN105_411 */
    CODE_MIDDLE = 3,   /* digits in front of the separator of such a code */
    CODE_LAST = 4,     /* digits behind its separator */
    CODE_RULE = 5,     /* digits of a number behind a code, as in AUP#1260 */
    RULE_LETTERS = 4,  /* letters in front of that number, as in AUP#In-1190 */
    RANDOM_LEAST = 24, /* letters in both cases from which on a token is perhaps no word */
    RANDOM_SHARE = 4,  /* such a token is no word when more than one letter in so many is a
                        * capital */
};

struct writer {
    char *out;
    size_t len;
};

/* What a byte may be; a table, as every byte is asked about several times. */
enum {
    DIGIT = 1,
    UPPER = 2,
    LOWER = 4,
    HEX = 8,
    HIGH = 16,      /* beyond ASCII: taken for a letter */
    INNER = 32,     /* stands in tokens beside letters and digits */
    BLANK = 64,     /* control bytes too */
    ENCLOSER = 128, /* ends a word */
    ALNUM = DIGIT | UPPER | LOWER | HIGH,
};

static const uint8_t classes[256] = {
    [0 ... ' '] = BLANK,
    [127] = BLANK,
    ['0' ... '9'] = DIGIT | HEX,
    ['A' ... 'F'] = UPPER | HEX,
    ['G' ... 'Z'] = UPPER,
    ['a' ... 'f'] = LOWER | HEX,
    ['g' ... 'z'] = LOWER,
    ['.'] = INNER,
    ['-'] = INNER,
    ['_'] = INNER,
    ['+'] = INNER,
    ['~'] = INNER,
    ['%'] = INNER,
    ['<'] = ENCLOSER,
    ['>'] = ENCLOSER,
    ['('] = ENCLOSER,
    [')'] = ENCLOSER,
    ['['] = ENCLOSER,
    [']'] = ENCLOSER,
    ['{'] = ENCLOSER,
    ['}'] = ENCLOSER,
    ['"'] = ENCLOSER,
    [','] = ENCLOSER,
    [';'] = ENCLOSER,
    [128 ... 255] = HIGH,
};

static bool is(char c, unsigned what)
{
    return (classes[(unsigned char)c] & what) != 0;
}

static void put_char(struct writer *w, char c)
{
    if (w->len < RESPONSE_TEXT_MAX) {
        w->out[w->len++] = c;
    }
}

static bool is_join(char c)
{
    switch (c) {
    case ':':
    case '.':
    case '/':
    case '-':
    case '=':
    case '+':
    case '_':
    case '#':
        return true;
    default:
        return false;
    }
}

/* Write a star for a word that varies. Stars joined by a separator become one: 12:34:56 is `*`. */
static void put_star(struct writer *w)
{
    if (w->len >= 2 && w->out[w->len - 2] == '*' && is_join(w->out[w->len - 1])) {
        w->len--;
    }
    if (w->len == 0 || w->out[w->len - 1] != '*') {
        put_char(w, '*');
    }
}

/* --- kinds of words --------------------------------------------------------------------------- */

/* What stands behind the last word of a sentence. */
static bool is_end(char c)
{
    return c == '.' || c == ':' || c == '\'' || c == '!' || c == '?';
}

/* Length of a mail address that the text begins with; 0: none. Only at the start of a word, so that
 * no byte is looked at again and again. */
static size_t address_length(struct slice s, char before)
{
    struct slice word = slice_to(s, 0);
    while (is(before, BLANK | ENCLOSER) && word.len < s.len &&
           !is(s.data[word.len], BLANK | ENCLOSER)) {
        word.len++;
    }
    while (word.len > 0 && is_end(word.data[word.len - 1])) {
        word.len--;
    }
    size_t at = slice_find(word, '@');
    return at > 0 && at + 1 < word.len ? word.len : 0;
}

/* Length of an IPv6 address; 0: none. */
static size_t ipv6_length(struct slice s)
{
    size_t len = 0, colons = 0;
    s = slice_to(s, s.len < IPV6_MAX ? s.len : IPV6_MAX);
    while (len < s.len && (is(s.data[len], HEX) || s.data[len] == ':' || s.data[len] == '.')) {
        colons += s.data[len++] == ':';
    }
    while (len > 0 && (s.data[len - 1] == '.' ||
                       (s.data[len - 1] == ':' && len >= 2 && s.data[len - 2] != ':'))) {
        len--; /* of the sentence */
    }
    if (len < 2 || (s.data[0] == ':' && s.data[1] != ':')) {
        return 0; /* a port */
    }
    bool is_cut = len < s.len && is(s.data[len], ALNUM);
    return colons >= 2 && len >= 3 && !is_cut ? len : 0;
}

/* Length of what stands in quotes, with both of them; 0: nothing does. */
static size_t quoted_length(struct slice s, char before)
{
    char quote = s.data[0];
    if (quote != '"' && (quote != '\'' || is(before, ALNUM))) {
        return 0;
    }
    for (size_t i = 1; i < s.len && i <= QUOTED_MAX; i++) {
        if (s.data[i] == quote && (quote == '"' || i + 1 == s.len || !is(s.data[i + 1], ALNUM))) {
            return i + 1;
        }
    }
    return 0;
}

/* How many bytes from `at` on are of the classes `what`. */
static size_t span(struct slice s, size_t at, unsigned what)
{
    size_t len = 0;
    while (at + len < s.len && is(s.data[at + len], what)) {
        len++;
    }
    return len;
}

/* Capitals and then a few digits: a receiver's name for a reason, such as TSS04 or S77719. In two
 * parts it is RP-001, OFR_506 or LPN105_411; only these are also written in small letters, and then
 * with a low line, as hosts have names like mx-1. */
static bool is_code(struct slice s)
{
    size_t letters = span(s, 0, UPPER), lower = letters == 0 ? span(s, 0, LOWER) : 0;
    size_t middle = span(s, letters + lower, DIGIT), at = letters + lower + middle;
    if (at == s.len) {
        return letters > 0 && s.len <= CODE_MAX && middle <= CODE_DIGITS;
    }
    char join = s.data[at];
    size_t last = span(s, at + 1, DIGIT);
    return letters + lower > 0 && letters + lower <= CODE_LETTERS && middle <= CODE_MIDDLE &&
           (join == '_' || (join == '-' && lower == 0)) && last > 0 && last <= CODE_LAST &&
           at + 1 + last == s.len;
}

/* 4.7.28; also with its reply code in front, 421-4.7.28, and as a range, 5.7.606-649. */
static bool is_status_word(struct slice s)
{
    size_t at = span(s, 0, DIGIT) == 3 && s.len > 3 && s.data[3] == '-' ? 4 : 0;
    if (span(s, at, DIGIT) != 1 || (s.data[at] != '2' && s.data[at] != '4' && s.data[at] != '5')) {
        return false;
    }
    at++;
    for (int part = 0; part < 2; part++) {
        size_t digits = at < s.len && s.data[at] == '.' ? span(s, at + 1, DIGIT) : 0;
        if (digits == 0 || digits > 3) {
            return false;
        }
        at += 1 + digits;
    }
    size_t range = at < s.len && s.data[at] == '-' ? span(s, at + 1, DIGIT) : 0;
    return at == s.len || (range > 0 && range <= 3 && at + 1 + range == s.len);
}

/* Words with digits that are the same for everybody. */
static bool is_host_name(struct slice s)
{
    static const char *const names[] = {"IPv4",    "IPv6",    "TLSv1",  "TLSv1.0",
                                        "TLSv1.1", "TLSv1.2", "TLSv1.3"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (slice_eq(s, slice_of(names[i]))) {
            return true;
        }
    }
    return false;
}

/* Letters in both cases without any order. Names like UnsolicitedRateLimitError are reasons. */
static bool is_random(struct slice s)
{
    size_t upper = 0, lower = 0;
    for (size_t i = 0; i < s.len; i++) {
        upper += is(s.data[i], UPPER);
        lower += is(s.data[i], LOWER);
    }
    return s.len >= RANDOM_LEAST && upper + lower == s.len && lower > 0 &&
           upper * RANDOM_SHARE > s.len;
}

/* Whether the token differs from one delivery to the next. */
static bool is_variable(struct slice s)
{
    unsigned found = 0;
    for (size_t i = 0; i < s.len; i++) {
        found |= classes[(unsigned char)s.data[i]];
    }
    return (found & DIGIT) != 0 ? !is_code(s) && !is_status_word(s) && !is_host_name(s)
                                : is_random(s);
}

/* Whether the token is the rest of a code whose beginning is written: AUP#1260, AUP#In-1190,
 * DOC-1369#550, AS(1430). A number that stands behind a star or a blank, such as #12345, is none.
 */
static bool is_rule(const struct writer *w, struct slice s)
{
    size_t letters = span(s, 0, UPPER | LOWER), at = letters;
    at += at < s.len && s.data[at] == '-';
    size_t digits = span(s, at, DIGIT);
    if (w->len < 3 || digits == 0 || at + digits != s.len) {
        return false;
    }
    const char *end = w->out + w->len;
    if (end[-1] == '#') {
        return letters <= RULE_LETTERS && digits <= CODE_RULE && is(end[-2], UPPER | DIGIT);
    }
    return letters == 0 && at == 0 && memcmp(end - 3, "AS(", 3) == 0;
}

/* Whether the token is a reply code in front of its enhanced one: 550 5.7.1. */
static bool is_reply_code(struct slice s, struct slice behind)
{
    if (s.len != 3 || span(s, 0, DIGIT) != 3 || behind.len < 2 || behind.data[0] != ' ') {
        return false;
    }
    struct slice next = slice_from(behind, 1);
    return is_status_word(slice_to(next, span(next, 0, DIGIT | INNER)));
}

/* --- what stands in front --------------------------------------------------------------------- */

/* "host mx.example[192.0.2.1] said: ", as results have it. */
static struct slice without_host(struct slice text)
{
    const struct slice head = SLICE("host "), said = SLICE(" said: ");
    if (text.len < head.len || memcmp(text.data, head.data, head.len) != 0) {
        return text;
    }
    size_t line = slice_find(text, '\n');
    const char *at = memmem(text.data, line < text.len ? line : text.len, said.data, said.len);
    return at == NULL ? text : slice_from(text, (size_t)(at - text.data) + said.len);
}

/* A word of digits and full stops with a space behind it: "452 ", "4.2.2 ". */
static struct slice without_code(struct slice text)
{
    size_t len = 0;
    while (len < text.len && (is(text.data[len], DIGIT) || (len > 0 && text.data[len] == '.'))) {
        len++;
    }
    return len > 0 && len < text.len && text.data[len] == ' ' ? slice_from(text, len + 1) : text;
}

/* Code and enhanced status code of a reply. */
static struct slice without_codes(struct slice text)
{
    bool is_reply = text.len > 4 && is(text.data[0], DIGIT) && is(text.data[1], DIGIT) &&
                    is(text.data[2], DIGIT) && text.data[3] == ' ';
    return is_reply ? without_code(slice_from(text, 4)) : text;
}

/* --- the text --------------------------------------------------------------------------------- */

/* Write the word with which the text begins, or a star for it; returns how many bytes it has. */
static size_t put_word(struct writer *w, struct slice s, char before)
{
    size_t len = address_length(s, before);
    if (len == 0) {
        len = ipv6_length(s);
    }
    if (len > 0) {
        put_star(w);
        return len;
    }
    while (len < s.len && is(s.data[len], ALNUM | INNER)) {
        len++;
    }
    struct slice token = slice_to(s, len);
    while (token.len > 0 && !is(token.data[token.len - 1], ALNUM)) {
        token.len--;
    }
    /* a host name before its address: host[192.0.2.1] */
    bool is_host = len < s.len && s.data[len] == '[';
    bool is_reason = is_rule(w, token) || is_reply_code(token, slice_from(s, token.len));
    if (is_host || (is_variable(token) && !is_reason)) {
        put_star(w);
    } else {
        for (size_t i = 0; i < token.len; i++) {
            put_char(w, token.data[i]);
        }
    }
    for (size_t i = token.len; i < len; i++) {
        put_char(w, s.data[i]); /* a full stop behind it */
    }
    return len;
}

size_t response_text_template(struct slice text, char ret[RESPONSE_TEXT_MAX])
{
    struct writer w = {ret, 0};
    struct slice rest = slice_to(text, text.len < TEXT_MAX ? text.len : TEXT_MAX);
    char before = ' ';
    rest = without_codes(without_host(rest));
    while (rest.len > 0 && w.len < RESPONSE_TEXT_MAX) {
        char c = rest.data[0];
        size_t len = 1, quoted = quoted_length(rest, before);
        if (quoted > 0) {
            len = quoted;
            put_char(&w, c);
            put_char(&w, '*');
            put_char(&w, c);
        } else if (is(c, BLANK)) {
            if (w.len > 0 && w.out[w.len - 1] != ' ') {
                put_char(&w, ' ');
            }
        } else if (is(c, ALNUM | INNER) || c == ':') {
            len = put_word(&w, rest, before);
            if (len == 0) { /* a colon alone */
                put_char(&w, c);
                len = 1;
            }
        } else {
            put_char(&w, c);
        }
        before = rest.data[len - 1];
        rest = slice_from(rest, len);
    }
    while (w.len > 0 && w.out[w.len - 1] == ' ') {
        w.len--;
    }
    return w.len;
}
