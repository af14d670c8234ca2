/* The syntax of rates. Called by whoever reads an option or an order; must not know which. */
#include "sched/limit/rate_text.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

#define SHOWN 40 /* bytes of the text that an error repeats */

static const struct unit {
    const char *word; /* an "s" may follow it where it has more than one letter */
    usec_t span;
} units[] = {
    {"s", USEC_PER_SEC},         {"sec", USEC_PER_SEC},         {"second", USEC_PER_SEC},
    {"m", 60 * USEC_PER_SEC},    {"min", 60 * USEC_PER_SEC},    {"minute", 60 * USEC_PER_SEC},
    {"h", 3600 * USEC_PER_SEC},  {"hr", 3600 * USEC_PER_SEC},   {"hour", 3600 * USEC_PER_SEC},
    {"d", 86400 * USEC_PER_SEC}, {"day", 86400 * USEC_PER_SEC},
};

/* What is left to read, and the whole for the errors. */
struct reading {
    struct slice whole, rest;
    char *why;
};

PRINTF_LIKE(2, 3) static int refuse(struct reading *r, const char *fmt, ...)
{
    int len = r->whole.len < SHOWN ? (int)r->whole.len : SHOWN;
    int used = snprintf(r->why, RATE_WHY_BYTES, "\"%.*s\" ", len, r->whole.data);
    if (used < 0 || used >= RATE_WHY_BYTES) {
        return ERR_SYNTAX;
    }
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(r->why + used, (size_t)(RATE_WHY_BYTES - used), fmt, ap); /* cut if too long */
    va_end(ap);
    return ERR_SYNTAX;
}

static void skip_space(struct reading *r)
{
    while (r->rest.len > 0 && (r->rest.data[0] == ' ' || r->rest.data[0] == '\t')) {
        r->rest = slice_from(r->rest, 1);
    }
}

static bool is_digit(struct slice s, size_t at)
{
    return at < s.len && s.data[at] >= '0' && s.data[at] <= '9';
}

static size_t digits(struct slice s)
{
    size_t n = 0;
    while (is_digit(s, n)) {
        n++;
    }
    return n;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static struct slice take_word(struct reading *r)
{
    size_t n = 0;
    while (n < r->rest.len && is_letter(r->rest.data[n])) {
        n++;
    }
    struct slice word = slice_to(r->rest, n);
    r->rest = slice_from(r->rest, n);
    return word;
}

/* Digits, with commas before each three of them or with none. Saturates above most. */
static int take_number(struct reading *r, uint64_t most, uint64_t *ret)
{
    uint64_t value = 0;
    size_t n = digits(r->rest);
    if (n == 0) {
        return refuse(r, "does not begin with a number; write a rate such as 100/s or 5000/h");
    }
    for (;;) {
        for (size_t i = 0; i < n; i++) {
            value = value * 10 + (uint64_t)(r->rest.data[i] - '0');
            value = value > most ? most + 1 : value;
        }
        bool is_group = r->rest.len > n && r->rest.data[n] == ',' && is_digit(r->rest, n + 1);
        if (is_group && n > 3) {
            return refuse(r, "has its comma in the wrong place; write 1,000/h or 1000/h");
        }
        r->rest = slice_from(r->rest, n);
        if (!is_group) {
            break;
        }
        r->rest = slice_from(r->rest, 1);
        n = digits(r->rest);
        if (n != 3) {
            return refuse(r, "has its comma in the wrong place; write 1,000/h or 1000/h");
        }
    }
    *ret = value;
    return 0;
}

static usec_t find_unit(struct slice word)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct slice name = slice_of(units[i].word);
        struct slice one = word;
        if (name.len > 1 && word.len == name.len + 1 && (word.data[name.len] | 0x20) == 's') {
            one = slice_to(word, name.len);
        }
        if (slice_ieq(one, name)) {
            return units[i].span;
        }
    }
    return 0;
}

/* "/" or "per", and the unit. */
static int take_unit(struct reading *r, usec_t *ret)
{
    skip_space(r);
    if (r->rest.len > 0 && r->rest.data[0] == '/') {
        r->rest = slice_from(r->rest, 1);
    } else if (r->rest.len == 0) {
        return refuse(r, "has no unit; write it with /s, /min, /h or /d, such as 100/s");
    } else if (r->rest.data[0] == '.') {
        return refuse(r, "is no whole number; write 30/min for a half each second");
    } else if (!slice_ieq(take_word(r), SLICE("per"))) {
        return refuse(r, "has no / between number and unit; write it such as 100/s");
    }
    skip_space(r);
    if (is_digit(r->rest, 0)) {
        return refuse(r, "has a number as its unit; write /s, /min, /h or /d, such as 100/s");
    }
    struct slice word = take_word(r);
    usec_t span = find_unit(word);
    if (word.len == 0) {
        return refuse(r, "has no unit; write it with /s, /min, /h or /d, such as 100/s");
    }
    if (span == 0) {
        return refuse(r, "has an unknown unit; write /s, /min, /h or /d, such as 100/s");
    }
    *ret = span;
    return 0;
}

static int take_burst(struct reading *r, uint32_t *ret)
{
    uint64_t burst;
    skip_space(r);
    if (r->rest.len > 0 && r->rest.data[0] == '/') {
        return refuse(r, "has two units; write one, such as 100/s");
    }
    if (r->rest.len == 0) {
        return 0;
    }
    bool has_comma = r->rest.data[0] == ',';
    r->rest = slice_from(r->rest, has_comma);
    skip_space(r);
    if (is_digit(r->rest, 0)) {
        return refuse(r, "has two rates; write one, such as 100/s: the smallest of all options "
                         "holds");
    }
    if (!has_comma || !slice_ieq(take_word(r), SLICE("burst"))) {
        return refuse(r, "has more behind its unit; only a burst may follow: 600/min, burst 10");
    }
    skip_space(r);
    if (!is_digit(r->rest, 0)) {
        return refuse(r, "has a burst without a number; write it such as 600/min, burst 10");
    }
    int err = take_number(r, RATE_BURST_MAX, &burst);
    if (err != 0) {
        return err;
    }
    if (burst == 0 || burst > RATE_BURST_MAX) {
        return refuse(r, "has a burst out of range; write 1 to %u", RATE_BURST_MAX);
    }
    *ret = (uint32_t)burst;
    skip_space(r);
    return r->rest.len == 0 ? 0 : refuse(r, "has more behind its burst; write 600/min, burst 10");
}

static int parse(struct slice text, bool is_quota, struct rate_rule *ret, char *why)
{
    struct reading r = {slice_trim(text), slice_trim(text), why};
    struct rate_rule rule = {0};
    uint64_t count;
    if (slice_ieq(r.whole, SLICE("none"))) {
        *ret = rule;
        return 0;
    }
    int err = take_number(&r, RATE_COUNT_MAX, &count);
    if (err == 0) {
        err = take_unit(&r, &rule.span);
    }
    if (err == 0) {
        err = take_burst(&r, &rule.burst);
    }
    if (err != 0) {
        return err;
    }
    if (count == 0) {
        return refuse(&r, "would let nothing through; write a number above 0, or \"none\" for no "
                          "limit");
    }
    if (count > RATE_COUNT_MAX ||
        count * USEC_PER_SEC > RATE_PER_SECOND_MAX * (uint64_t)rule.span) {
        return refuse(&r, "is too much; write at most %u in all and %u/s, or \"none\" for no limit",
                      RATE_COUNT_MAX, RATE_PER_SECOND_MAX);
    }
    if (is_quota && rule.burst > 0) {
        return refuse(&r, "has a burst, which a quota does not know; write it such as 5000/d");
    }
    if (is_quota && rule.span < 3600 * USEC_PER_SEC) {
        return refuse(&r, "counts by less than an hour; write a quota with /h or /d, such as "
                          "5000/d");
    }
    rule.count = (uint32_t)count;
    *ret = rule;
    return 0;
}

int rate_parse(struct slice text, struct rate_rule *ret, char ret_why[RATE_WHY_BYTES])
{
    return parse(text, false, ret, ret_why);
}

int rate_parse_quota(struct slice text, struct rate_rule *ret, char ret_why[RATE_WHY_BYTES])
{
    return parse(text, true, ret, ret_why);
}

static const char *unit_name(usec_t span)
{
    if (span == USEC_PER_SEC) {
        return "s";
    }
    if (span == 60 * USEC_PER_SEC) {
        return "min";
    }
    return span == 3600 * USEC_PER_SEC ? "h" : "d";
}

void rate_print(const struct rate_rule *rule, char ret[RATE_TEXT_BYTES])
{
    if (rule->count == 0) {
        (void)snprintf(ret, RATE_TEXT_BYTES, "none");
    } else if (rule->burst > 0) {
        (void)snprintf(ret, RATE_TEXT_BYTES, "%u/%s, burst %u", rule->count, unit_name(rule->span),
                       rule->burst);
    } else {
        (void)snprintf(ret, RATE_TEXT_BYTES, "%u/%s", rule->count, unit_name(rule->span));
    }
}
