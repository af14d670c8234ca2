/* Reading and matching the rules of sluice-zone. Called by its main and by zone_answer; no I/O but
 * the rule file. */
#include "bench/zone/zone_rule.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX   1000000
#define NUMBER_BYTES 16

static const struct {
    const char *word;
    enum zone_type type;
} types[] = {
    {"A", ZONE_A},
    {"AAAA", ZONE_AAAA},
    {"MX", ZONE_MX},
    {"CNAME", ZONE_CNAME},
    {"TXT", ZONE_TXT},
    {"NXDOMAIN", ZONE_NXDOMAIN},
    {"SERVFAIL", ZONE_SERVFAIL},
    {"REFUSED", ZONE_REFUSED},
    {"DROP", ZONE_DROP},
    {"DELAY", ZONE_DELAY},
    {"TC", ZONE_TC},
};

static int find_type(const char *word, enum zone_type *ret)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(word, types[i].word) == 0) {
            *ret = types[i].type;
            return 0;
        }
    }
    return ERR_SYNTAX;
}

/* Lower case, without the final dot; "." stays empty. */
static void set_rule_name(char *to, const char *from)
{
    size_t len = strlen(from);
    if (len > 0 && from[len - 1] == '.') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        to[i] = from[i];
        if (to[i] >= 'A' && to[i] <= 'Z') {
            to[i] = (char)(to[i] | 0x20);
        }
    }
    to[len] = '\0';
}

/* A number at `text`, of at most NUMBER_MAX. returns: the byte behind it, NULL when there is none */
static const char *read_zone_number(const char *text, unsigned *ret)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *ret = (unsigned)value;
    return text[0] >= '0' && text[0] <= '9' && value <= NUMBER_MAX ? end : NULL;
}

/* What stands for a '#' and "%N" or "%N+M" behind it. returns: the byte behind them, or NULL */
static const char *fold_digits(const char *text, struct slice digits, char ret[NUMBER_BYTES])
{
    unsigned divisor;
    unsigned more = 0;
    unsigned rest = 0;
    const char *end = read_zone_number(text + 1, &divisor);
    if (end == NULL || divisor == 0) {
        return NULL;
    }
    if (*end == '+') {
        end = read_zone_number(end + 1, &more);
    }
    for (size_t i = 0; i < digits.len; i++) {
        rest = (rest * 10 + (unsigned)(digits.data[i] - '0')) % divisor;
    }
    (void)snprintf(ret, NUMBER_BYTES, "%u", rest + more);
    return end;
}

/* Addresses are checked with a digit in the place of '#'. */
static bool is_address(int family, const struct zone_rule *rule)
{
    char text[ZONE_NAME_MAX + 1];
    unsigned char address[16];
    return zone_rule_value(rule, SLICE("1"), text) && inet_pton(family, text, address) == 1;
}

static int set_value(struct zone_rule *rule, char *value)
{
    char expanded[ZONE_NAME_MAX + 1];
    char *rest = NULL;
    switch (rule->type) {
    case ZONE_MX: {
        char *end;
        unsigned long preference = strtoul(value, &end, 10);
        char *host = strtok_r(end, " \t", &rest);
        if (end == value || preference > UINT16_MAX || host == NULL) {
            return ERR_SYNTAX;
        }
        rule->preference = (uint16_t)preference;
        set_rule_name(rule->value, host);
        return zone_rule_value(rule, SLICE("1"), expanded) ? 0 : ERR_SYNTAX;
    }
    case ZONE_CNAME:
        set_rule_name(rule->value, value);
        return rule->value[0] != '\0' && zone_rule_value(rule, SLICE("1"), expanded) ? 0
                                                                                     : ERR_SYNTAX;
    case ZONE_A:
    case ZONE_AAAA: {
        int family = rule->type == ZONE_A ? AF_INET : AF_INET6;
        (void)strcpy(rule->value, value); /* NOLINT: a line is no longer than a value may be */
        return is_address(family, rule) ? 0 : ERR_SYNTAX;
    }
    case ZONE_TXT:
        (void)strcpy(rule->value, value); /* NOLINT: as above */
        return 0;
    case ZONE_DELAY: {
        char *end;
        unsigned long delay = strtoul(value, &end, 10);
        rule->delay = (uint32_t)delay;
        return end == value || *end != '\0' || delay > ZONE_DELAY_MAX ? ERR_SYNTAX : 0;
    }
    case ZONE_NXDOMAIN:
    case ZONE_SERVFAIL:
    case ZONE_REFUSED:
    case ZONE_DROP:
    case ZONE_TC:
        break;
    }
    return value[0] == '\0' ? 0 : ERR_SYNTAX;
}

int zone_add(struct zone *zone, const char *line)
{
    char text[ZONE_NAME_MAX + 1];
    struct zone_rule rule = {0};
    char *rest = NULL;
    struct slice trimmed = slice_trim(slice_of(line));
    if (trimmed.len == 0 || trimmed.data[0] == ';') {
        return 0;
    }
    if (trimmed.len >= sizeof(text) || zone->count >= ZONE_RULES_MAX) {
        return ERR_LIMIT;
    }
    memcpy(text, trimmed.data, trimmed.len);
    text[trimmed.len] = '\0';
    char *name = strtok_r(text, " \t", &rest);
    char *type = strtok_r(NULL, " \t", &rest);
    if (name == NULL || type == NULL || find_type(type, &rule.type) != 0) {
        return ERR_SYNTAX;
    }
    set_rule_name(rule.name, name);
    rest += strspn(rest, " \t");
    if (set_value(&rule, rest) != 0) {
        return ERR_SYNTAX;
    }
    struct zone_rule *rules = realloc(zone->rules, (zone->count + 1) * sizeof(*rules));
    if (rules == NULL) {
        return -ENOMEM;
    }
    zone->rules = rules;
    rules[zone->count++] = rule;
    return 0;
}

int zone_add_file(struct zone *zone, const char *path, int *ret_line)
{
    char line[2 * ZONE_NAME_MAX];
    int number = 0;
    int err = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -errno;
    }
    while (err == 0 && fgets(line, sizeof(line), file) != NULL) {
        number++;
        err = zone_add(zone, line);
    }
    (void)fclose(file); /* nothing was written that could be lost */
    *ret_line = number;
    return err;
}

void zone_fini(struct zone *zone)
{
    free(zone->rules);
    *zone = (struct zone){0};
}

bool zone_rule_matches(const struct zone_rule *rule, struct slice name, struct slice *ret_digits)
{
    struct slice pattern = slice_of(rule->name);
    size_t at = slice_find(pattern, '#');
    *ret_digits = (struct slice){0};
    if (zone_rule_is_wildcard(rule)) {
        struct slice parent = slice_from(pattern, 1);
        return name.len > parent.len && slice_eq(slice_from(name, name.len - parent.len), parent);
    }
    if (at == pattern.len) {
        return slice_eq(pattern, name);
    }
    struct slice tail = slice_from(pattern, at + 1);
    if (name.len < at + 1 + tail.len || !slice_eq(slice_to(name, at), slice_to(pattern, at)) ||
        !slice_eq(slice_from(name, name.len - tail.len), tail)) {
        return false;
    }
    struct slice digits = slice_to(slice_from(name, at), name.len - tail.len - at);
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9') {
            return false;
        }
    }
    *ret_digits = digits;
    return true;
}

bool zone_rule_value(const struct zone_rule *rule, struct slice digits, char ret[ZONE_NAME_MAX + 1])
{
    char folded[NUMBER_BYTES];
    size_t len = 0;
    for (const char *c = rule->value; *c != '\0';) {
        struct slice piece = *c == '#' ? digits : slice_make(c, 1);
        bool is_folded = c[0] == '#' && c[1] == '%' && rule->type != ZONE_TXT;
        c = is_folded ? fold_digits(c + 1, digits, folded) : c + 1;
        piece = is_folded ? slice_of(folded) : piece;
        if (c == NULL || len + piece.len > ZONE_NAME_MAX) {
            return false;
        }
        if (piece.len > 0) {
            memcpy(ret + len, piece.data, piece.len);
        }
        len += piece.len;
    }
    ret[len] = '\0';
    return true;
}
