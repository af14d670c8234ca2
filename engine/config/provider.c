/* Owns the table from patterns to rules: one entry for each pattern, sorted by its number of stars
 * and by what follows them, so that a name with n labels leads to its rules by n searches. */
#include "engine/config/provider.h"

#include "base/error.h"
#include "engine/config/name_pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct provider_entry {
    struct name_pattern pattern;
    struct slice text; /* as it was written */
    bool is_domain;    /* of the rule's `domains`; else of its `mx` */
    size_t rule;
};

struct provider_table {
    struct provider_rule *rules;
    size_t rule_count, entry_count;
    struct provider_entry entries[];
};

/* --- the table -------------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const struct provider_entry *x = a;
    const struct provider_entry *y = b;
    int order = name_pattern_compare(&x->pattern, &y->pattern);
    if (order == 0 && x->rule != y->rule) {
        order = x->rule < y->rule ? -1 : 1;
    }
    return order == 0 ? x->is_domain - y->is_domain : order;
}

static void add_entries(struct provider_table *t, const struct config_texts *texts, size_t rule,
                        bool is_domain)
{
    for (size_t i = 0; i < texts->count; i++) {
        t->entries[t->entry_count++] = (struct provider_entry){
            name_pattern_of(slice_of(texts->items[i])), slice_of(texts->items[i]), is_domain, rule};
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

int provider_table_of(const struct config *c, struct provider_table **ret)
{
    struct provider_rule *rules = calloc(c->provider_count + 1, sizeof(*rules));
    if (rules == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->provider_count; i++) {
        rules[i] = (struct provider_rule){&c->providers[i].mx, &c->providers[i].domains};
    }
    int err = provider_table_new(rules, c->provider_count, ret);
    free(rules);
    return err;
}

/* The first entry that is not before the pattern. */
static size_t first_entry(const struct provider_table *t, const struct name_pattern *pattern)
{
    size_t low = 0;
    size_t high = t->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (name_pattern_compare(&t->entries[middle].pattern, pattern) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* --- overlaps --------------------------------------------------------------------------------- */

/* The answers for pairs of rules are kept where they fit, as each pair of patterns asks again; and
 * there is an end to it, as the rest grows with the cube of what a file can have. */
enum { ANSWERS = 1024, COMPARISONS_MAX = 5 * 1000 * 1000 };

struct overlap_search {
    const struct provider_table *table;
    struct answer {
        size_t a, b; /* rules; both 0: none yet */
        bool is_domain, do_meet;
    } answers[ANSWERS];
    uint64_t comparisons;
};

/* Whether some name is one of both lists. An empty list takes any. */
static bool lists_meet(struct overlap_search *s, const struct config_texts *a,
                       const struct config_texts *b)
{
    for (size_t i = 0; i < a->count && s->comparisons < COMPARISONS_MAX; i++) {
        for (size_t j = 0; j < b->count; j++) {
            s->comparisons++;
            if (name_pattern_meets(slice_of(a->items[i]), slice_of(b->items[j]))) {
                return true;
            }
        }
    }
    return a->count == 0 || b->count == 0;
}

/* Two patterns of one kind meet: whether the rules do by the other kind, too. */
static bool rules_meet(struct overlap_search *s, const struct provider_entry *e,
                       const struct provider_entry *f)
{
    const struct provider_rule *rules = s->table->rules;
    if (e->rule == f->rule || e->is_domain != f->is_domain) {
        return false;
    }
    struct answer *k = &s->answers[(e->rule * 31 + f->rule) % ANSWERS];
    if (k->a != e->rule || k->b != f->rule || k->is_domain != e->is_domain) {
        *k = (struct answer){e->rule, f->rule, e->is_domain, false};
        k->do_meet = e->is_domain ? lists_meet(s, rules[e->rule].mx, rules[f->rule].mx)
                                  : lists_meet(s, rules[e->rule].domains, rules[f->rule].domains);
    }
    return k->do_meet;
}

static void note_overlap(const struct provider_entry *e, const struct provider_entry *f,
                         struct provider_overlap *ret)
{
    const struct provider_entry *first = e->rule < f->rule ? e : f;
    const struct provider_entry *second = e->rule < f->rule ? f : e;
    if (!ret[second->rule].is_found) {
        ret[second->rule] =
            (struct provider_overlap){true, e->is_domain, first->rule, second->text, first->text};
    }
}

/* What meets it with as many stars or more: those with fewer find it from their side. */
static void find_overlaps(struct overlap_search *s, const struct provider_entry *e,
                          struct provider_overlap *ret)
{
    const struct provider_table *t = s->table;
    struct name_pattern p = e->pattern;
    do {
        size_t i = first_entry(t, &p);
        while (i < t->entry_count && name_pattern_compare(&t->entries[i].pattern, &p) == 0) {
            s->comparisons++;
            if (rules_meet(s, e, &t->entries[i])) {
                note_overlap(e, &t->entries[i], ret);
                break;
            }
            i++;
        }
        p.stars++;
    } while (name_pattern_skip_label(&p.rest));
}

int provider_table_overlaps(const struct provider_table *t, struct provider_overlap *ret)
{
    struct overlap_search *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return -ENOMEM;
    }
    s->table = t;
    memset(ret, 0, t->rule_count * sizeof(*ret));
    for (size_t k = 0; k < t->entry_count && s->comparisons < COMPARISONS_MAX; k++) {
        const struct provider_entry *e = &t->entries[k];
        if (k == 0 || compare_entries(e - 1, e) != 0) { /* else it is there twice */
            find_overlaps(s, e, ret);
        }
    }
    int err = s->comparisons < COMPARISONS_MAX ? 0 : ERR_LIMIT;
    free(s);
    return err;
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
        if (name_pattern_matches(slice_of(patterns->items[i]), name)) {
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

/* Try the rules to which the patterns of a name lead. */
static void try_name(struct question *q, struct slice name, bool is_domain)
{
    const struct provider_table *t = q->table;
    struct name_pattern p = {.rest = name_pattern_without_root(name)};
    do {
        for (size_t i = first_entry(t, &p);
             i < t->entry_count && name_pattern_compare(&t->entries[i].pattern, &p) == 0; i++) {
            const struct provider_entry *e = &t->entries[i];
            if (e->is_domain == is_domain && e->rule < q->best &&
                is_matching(q, &t->rules[e->rule])) {
                q->best = e->rule;
            }
        }
        p.stars++;
    } while (name_pattern_skip_label(&p.rest));
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
