/* Owns what a configuration says of suppression: which section is about whose mail, and what its rules
 * mean. Called by config_check.c and by whoever judges mail of a tenant; knows no lists. */
#include "base/span.h"
#include "engine/config/config_load.h"
#include "engine/config/label.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPAN_MAX ((usec_t)366 * 86400 * USEC_PER_SEC)

static const struct config_suppression none = {.at_intake = CONFIG_SUPPRESSED_REFUSE};

static int compare_titles(const char *a, const char *b)
{
    return strcasecmp(a, b);
}

static int compare_suppressions(const void *a, const void *b)
{
    const struct config_suppression *const *x = a, *const *y = b;
    return compare_titles((*x)->name, (*y)->name);
}

static int compare_name(const void *name, const void *at)
{
    const struct config_suppression *const *s = at;
    return compare_titles(name, (*s)->name);
}

const struct config_suppression *config_suppression_find(const struct config *c,
                                                         struct slice tenant)
{
    char name[LABEL_MAX + 1];
    if (c->suppression_count == 0) {
        return &none;
    }
    const struct config_suppression **found = NULL;
    if (tenant.len > 0 && tenant.len <= LABEL_MAX) {
        memcpy(name, tenant.data, tenant.len);
        name[tenant.len] = '\0';
        found = bsearch(name, c->suppression_order, c->suppression_count,
                        sizeof(*c->suppression_order), compare_name);
    }
    if (found != NULL) {
        return *found;
    }
    return c->other_suppressions == NULL ? &none : c->other_suppressions;
}

/* "no", "3", "5 in 30d". false: it is none of these */
static bool parse_rule(struct slice text, struct config_strikes *ret)
{
    *ret = (struct config_strikes){0};
    text = slice_trim(text);
    if (slice_eq(text, SLICE("no"))) {
        return true;
    }
    size_t digits = 0;
    uint32_t count = 0;
    while (digits < text.len && digits < 4 && text.data[digits] >= '0' &&
           text.data[digits] <= '9') {
        count = count * 10 + (uint32_t)(text.data[digits++] - '0');
    }
    struct slice rest = slice_trim(slice_from(text, digits));
    if (digits == 0 || count == 0 || count > SPOOL_STRIKES_EACH || (count > 1 && rest.len == 0)) {
        return false;
    }
    ret->count = count;
    if (rest.len == 0) {
        return true;
    }
    return rest.len > 3 && memcmp(rest.data, "in ", 3) == 0 &&
           span_parse(slice_trim(slice_from(rest, 3)), &ret->span) && ret->span > 0 &&
           ret->span <= SPAN_MAX;
}

static void check_rules(struct config_loader *l, struct config *c, size_t index)
{
    struct config_suppression *s = &c->suppressions[index];
    const struct {
        const char *key, *text;
        enum spool_suppress_reason reason;
    } rules[] = {
        {"hard_bounce", s->hard_bounce, SPOOL_SUPPRESS_HARD_BOUNCE},
        {"complaint", s->complaint, SPOOL_SUPPRESS_COMPLAINT},
        {"unsubscribe", s->unsubscribe, SPOOL_SUPPRESS_UNSUBSCRIBE},
        {"mailbox_full", s->mailbox_full, SPOOL_SUPPRESS_MAILBOX_FULL},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct config_strikes *to = &s->rules[rules[i].reason];
        if (rules[i].text != NULL && !parse_rule(slice_of(rules[i].text), to)) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_SUPPRESSION, index, rules[i].key),
                            rules[i].key,
                            "\"%.40s\" is no rule; write \"no\", \"1\", or how many (up to %d) in "
                            "what time, up to 366d, as in \"5 in 30d\"",
                            rules[i].text, SPOOL_STRIKES_EACH);
        }
        c->strike_span = to->span > c->strike_span ? to->span : c->strike_span;
    }
    if (s->rules[SPOOL_SUPPRESS_MAILBOX_FULL].count == 1) {
        config_warn(l, config_place_of(l, CONFIG_SECTION_SUPPRESSION, index, "mailbox_full"),
                    "mailbox_full",
                    "one full mailbox suppresses its recipient, who may empty it tomorrow; write "
                    "\"5 in 30d\", say");
    }
}

static void check_suppression_name(struct config_loader *l, const struct config *c, size_t index)
{
    const char *name = c->suppressions[index].name;
    struct config_place place = config_place_of(l, CONFIG_SECTION_SUPPRESSION, index, NULL);
    if (!label_is_valid(slice_of(name)) || (strchr(name, '*') != NULL && strcmp(name, "*") != 0)) {
        config_complain(l, place, "suppression",
                        "\"%.80s\" is no tenant's name; write one, or \"*\" for all others", name);
    }
    for (size_t j = 0; j < index; j++) {
        if (strcasecmp(name, c->suppressions[j].name) == 0) {
            config_complain(l, place, "suppression",
                            "\"%.80s\" has a section already, \"%.80s\"; letters match in either "
                            "case, keep one of them",
                            name, c->suppressions[j].name);
            break;
        }
    }
}

int config_check_suppressions(struct config_loader *l, struct config *c)
{
    if (c->suppression_count == 0) {
        return 0;
    }
    c->suppression_order = calloc(c->suppression_count, sizeof(*c->suppression_order));
    if (c->suppression_order == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->suppression_count; i++) {
        check_suppression_name(l, c, i);
        check_rules(l, c, i);
        c->suppression_order[i] = &c->suppressions[i];
        if (strcmp(c->suppressions[i].name, "*") == 0) {
            c->other_suppressions = &c->suppressions[i];
        }
    }
    qsort(c->suppression_order, c->suppression_count, sizeof(*c->suppression_order),
          compare_suppressions);
    return 0;
}
