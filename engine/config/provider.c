/* Owns the table from patterns to rules: one entry for each pattern, sorted by its number of stars
 * and by what follows them, so that a name with n labels leads to its rules by n searches. */
#include "engine/config/provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_BYTES_MAX = 63, NAME_BYTES_MAX = 253 }; /* RFC 1035 section 2.3.4, without the root */

struct pattern {
    unsigned stars;
    struct slice rest; /* behind the stars */
};

struct provider_entry {
    struct pattern pattern;
    bool is_domain; /* of the rule's `domains`; else of its `mx` */
    size_t rule;
};

struct provider_table {
    struct provider_rule *rules;
    size_t rule_count, entry_count;
    struct provider_entry entries[];
};

/* --- patterns --------------------------------------------------------------------------------- */

static struct slice without_root(struct slice name)
{
    return name.len > 0 && name.data[name.len - 1] == '.' ? slice_to(name, name.len - 1) : name;
}

static struct pattern pattern_of(struct slice text)
{
    struct pattern p = {.rest = without_root(text)};
    while (p.rest.len >= 2 && p.rest.data[0] == '*' && p.rest.data[1] == '.') {
        p.stars++;
        p.rest = slice_from(p.rest, 2);
    }
    return p;
}

/* Remove the first label and its dot. returns false when there is no other label behind it */
static bool skip_label(struct slice *name)
{
    size_t dot = slice_find(*name, '.');
    if (dot == 0 || dot + 1 >= name->len) {
        return false;
    }
    *name = slice_from(*name, dot + 1);
    return true;
}

static bool is_label_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool provider_pattern_is_valid(struct slice text)
{
    struct slice rest = pattern_of(text).rest;
    size_t label = 0;
    for (size_t i = 0; i < rest.len; i++) {
        if (rest.data[i] == '.' ? label == 0 : !is_label_byte(rest.data[i])) {
            return false;
        }
        label = rest.data[i] == '.' ? 0 : label + 1;
        if (label > LABEL_BYTES_MAX) {
            return false;
        }
    }
    return label > 0 && text.len <= NAME_BYTES_MAX;
}

bool provider_pattern_matches(struct slice pattern, struct slice name)
{
    struct pattern p = pattern_of(pattern);
    name = without_root(name);
    for (unsigned i = 0; i < p.stars; i++) {
        if (!skip_label(&name)) {
            return false;
        }
    }
    return slice_ieq(p.rest, name);
}

bool provider_patterns_meet(struct slice a, struct slice b)
{
    struct pattern x = pattern_of(a);
    struct pattern y = pattern_of(b);
    /* A star of one stands for a star or a label of the other, as both count labels alike. */
    unsigned x_stars = x.stars;
    unsigned y_stars = y.stars;
    while (x_stars < y_stars && skip_label(&x.rest)) {
        x_stars++;
    }
    while (y_stars < x_stars && skip_label(&y.rest)) {
        y_stars++;
    }
    return x_stars == y_stars && slice_ieq(x.rest, y.rest);
}

/* --- the table -------------------------------------------------------------------------------- */

static int compare_patterns(const struct pattern *a, const struct pattern *b)
{
    if (a->stars != b->stars) {
        return a->stars < b->stars ? -1 : 1;
    }
    if (a->rest.len != b->rest.len) {
        return a->rest.len < b->rest.len ? -1 : 1;
    }
    for (size_t i = 0; i < a->rest.len; i++) {
        char x, y;
        slice_lower(slice_make(a->rest.data + i, 1), &x);
        slice_lower(slice_make(b->rest.data + i, 1), &y);
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct provider_entry *x = a;
    const struct provider_entry *y = b;
    return compare_patterns(&x->pattern, &y->pattern);
}

static void add_entries(struct provider_table *t, const struct config_texts *texts, size_t rule,
                        bool is_domain)
{
    for (size_t i = 0; i < texts->count; i++) {
        t->entries[t->entry_count++] =
            (struct provider_entry){pattern_of(slice_of(texts->items[i])), is_domain, rule};
    }
}

int provider_table_new(const struct provider_rule *rules, size_t count, struct provider_table **ret)
{
    size_t entries = 0;
    for (size_t i = 0; i < count; i++) {
        entries += rules[i].mx->count + rules[i].domains->count;
    }
    struct provider_table *t = calloc(1, sizeof(*t) + entries * sizeof(t->entries[0]));
    if (t == NULL) {
        return -ENOMEM;
    }
    t->rules = calloc(count + 1, sizeof(*t->rules));
    if (t->rules == NULL) {
        free(t);
        return -ENOMEM;
    }
    t->rule_count = count;
    for (size_t i = 0; i < count; i++) {
        t->rules[i] = rules[i];
        add_entries(t, rules[i].mx, i, false);
        add_entries(t, rules[i].domains, i, true);
    }
    qsort(t->entries, t->entry_count, sizeof(t->entries[0]), compare_entries);
    *ret = t;
    return 0;
}

void provider_table_free(struct provider_table *t)
{
    if (t != NULL) {
        free(t->rules);
        free(t);
    }
}

/* --- a question ------------------------------------------------------------------------------- */

struct question {
    const struct provider_table *table;
    struct slice domain;
    const struct slice *hosts;
    size_t host_count;
    size_t best; /* rule; the count of rules: none yet */
};

static bool is_one_of(const struct config_texts *patterns, struct slice name)
{
    for (size_t i = 0; i < patterns->count; i++) {
        if (provider_pattern_matches(slice_of(patterns->items[i]), name)) {
            return true;
        }
    }
    return false;
}

static bool is_matching(const struct question *q, const struct provider_rule *rule)
{
    if (rule->domains->count > 0 && !is_one_of(rule->domains, q->domain)) {
        return false;
    }
    for (size_t i = 0; rule->mx->count > 0 && i < q->host_count; i++) {
        if (!is_one_of(rule->mx, q->hosts[i])) {
            return false;
        }
    }
    return rule->mx->count == 0 || q->host_count > 0;
}

/* The first entry that is not before the pattern. */
static size_t first_entry(const struct provider_table *t, const struct pattern *pattern)
{
    size_t low = 0;
    size_t high = t->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_patterns(&t->entries[middle].pattern, pattern) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Try the rules to which the patterns of a name lead. */
static void try_name(struct question *q, struct slice name, bool is_domain)
{
    const struct provider_table *t = q->table;
    struct pattern p = {.rest = without_root(name)};
    do {
        for (size_t i = first_entry(t, &p);
             i < t->entry_count && compare_patterns(&t->entries[i].pattern, &p) == 0; i++) {
            const struct provider_entry *e = &t->entries[i];
            if (e->is_domain == is_domain && e->rule < q->best &&
                is_matching(q, &t->rules[e->rule])) {
                q->best = e->rule;
            }
        }
        p.stars++;
    } while (skip_label(&p.rest));
}

size_t provider_find(const struct provider_table *t, struct slice domain, const struct slice *hosts,
                     size_t host_count)
{
    struct question q = {t, domain, hosts, host_count, t->rule_count};
    try_name(&q, domain, true);
    if (host_count > 0) {
        try_name(&q, hosts[0], false);
    }
    return q.best;
}
