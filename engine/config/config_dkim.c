/* Owns the rules about keys that sign mail, and about tenants that name keys and domains. Called by
 * config_check.c; must not open key files, which engine/key/ does. */
#include "dns/nexthop.h"
#include "engine/config/config_load.h"
#include "engine/config/config_section.h"
#include "engine/config/label.h"

#include <stdlib.h>
#include <string.h>

enum {
    DOMAIN_MAX = 253, /* RFC 1035 section 2.3.4, without the root's length */
    LABEL_LIMIT = 63, /* the same */
    FIELDS_MAX = 128, /* DKIM_NAMES_MAX of net/dkim/dkim_signature.h */
    EXPIRE_MIN_S = 3600,
};

static const char separator[] = "._domainkey.";

/* Labels of letters, digits, - and _. */
static bool is_domain(struct slice s)
{
    size_t label = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
        if (c == '.' ? label == 0 : !is_word || label == LABEL_LIMIT) {
            return false;
        }
        label = c == '.' ? 0 : label + 1;
    }
    return label > 0 && s.len <= DOMAIN_MAX;
}

static void lower_texts(struct config_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        slice_lower(slice_of(texts->items[i]), texts->items[i]);
    }
}

static bool is_international(const char *text)
{
    while (*text != '\0' && (unsigned char)*text < 0x80) {
        text++;
    }
    return *text != '\0';
}

/* Domains that are compared with those of From: international ones as A-labels. One that IDNA does not
 * allow stays as it is. */
static void name_domains(struct config_texts *texts)
{
    lower_texts(texts);
    for (size_t i = 0; i < texts->count; i++) {
        struct dns_name name;
        char *text = texts->items[i];
        bool is_named = is_international(text) && nexthop_name(slice_of(text), &name) == 0;
        char *labels = is_named ? strdup(name.text) : NULL;
        if (labels != NULL) {
            free(text);
            texts->items[i] = labels;
        }
    }
}

/* --- a key ------------------------------------------------------------------------------------ */

static void check_title(struct config_loader *l, struct config *c, size_t index)
{
    struct config_dkim *d = &c->dkims[index];
    slice_lower(slice_of(d->name), d->name);
    const char *middle = strstr(d->name, separator);
    if (middle != NULL) {
        d->selector = slice_make(d->name, (size_t)(middle - d->name));
        d->domain = slice_of(middle + strlen(separator));
    }
    if (middle == NULL || !is_domain(d->selector) || !is_domain(d->domain) ||
        strlen(d->name) > DOMAIN_MAX) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, NULL), "dkim",
                        "\"%.80s\" is not the name of a key in the DNS; write "
                        "\"SELECTOR._domainkey.DOMAIN\"",
                        d->name);
    }
    for (size_t j = 0; j < index; j++) {
        if (strcmp(d->name, c->dkims[j].name) == 0) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, NULL), "dkim",
                            "there is a key \"%.80s\" already; keep one of them", d->name);
            return;
        }
    }
}

static void check_fields(struct config_loader *l, size_t index, const char *option,
                         const struct config_texts *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        if (!label_is_field_name(slice_of(name))) {
            config_complain(
                l, config_place_of(l, CONFIG_SECTION_DKIM, index, option), option,
                "\"%.40s\" is no name of a header field; write a name without its colon", name);
        } else if (slice_ieq(slice_of(name), SLICE("DKIM-Signature")) ||
                   slice_ieq(slice_of(name), SLICE("Return-Path")) ||
                   slice_ieq(slice_of(name), SLICE("Received"))) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, option), option,
                            "others on the way change %s (RFC 6376 section 5.4); remove it", name);
        }
    }
    if (names->count > FIELDS_MAX) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, option), option,
                        "there are %zu names; write %d at most", names->count, FIELDS_MAX);
    }
}

static bool has_key_of(const struct config *c, const char *domain)
{
    for (size_t i = 0; i < c->dkim_count; i++) {
        if (slice_eq(c->dkims[i].domain, slice_of(domain))) {
            return true;
        }
    }
    return false;
}

static void check_key(struct config_loader *l, struct config *c, size_t index)
{
    struct config_dkim *d = &c->dkims[index];
    check_fields(l, index, "headers", &d->headers);
    check_fields(l, index, "oversign", &d->oversign);
    lower_texts(&d->also);
    name_domains(&d->from_domains);
    if (d->key == NULL) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, NULL), "key",
                        "dkim \"%.80s\" has none; write key = \"FILE\"", d->name);
    }
    if (d->expire > 0 && d->expire < USEC_PER_SEC * EXPIRE_MIN_S) {
        config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, "expire"), "expire",
                        "mail would arrive with signatures that have expired; write 1h or more, or "
                        "0 for none");
    }
    for (size_t i = 0; i < d->from_domains.count; i++) {
        const char *domain = d->from_domains.items[i];
        if (strcmp(domain, "*") != 0 && !is_domain(slice_of(domain))) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, "from_domains"),
                            "from_domains", "\"%.80s\" is no domain; write one, or \"*\" for all",
                            domain);
        }
    }
}

/* When all titles are known. */
static void check_also(struct config_loader *l, const struct config *c, size_t index)
{
    const struct config_dkim *d = &c->dkims[index];
    for (size_t i = 0; i < d->also.count; i++) {
        if (!has_key_of(c, d->also.items[i])) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_DKIM, index, "also"), "also",
                            "there is no key of domain \"%.80s\"; write its dkim section, or "
                            "remove it",
                            d->also.items[i]);
        }
    }
}

/* --- tenants ---------------------------------------------------------------------------------- */

static void check_template(struct config_loader *l, const struct config *c, size_t index)
{
    static const char *const names[] = {"{tenant}", "{campaign}", "{class}"};
    const char *text = c->tenants[index].feedback_id;
    for (; text != NULL && *text != '\0'; text++) {
        size_t len = 0;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            len = strncmp(text, names[i], strlen(names[i])) == 0 ? strlen(names[i]) : len;
        }
        bool is_plain = *text > ' ' && *text <= '~' && *text != '{' && *text != '}';
        if (len == 0 && !is_plain) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_TENANT, index, "feedback_id"),
                            "feedback_id",
                            "\"%.40s\" cannot stand in it; write printable ASCII without spaces, "
                            "and {tenant}, {campaign} and {class}",
                            text);
            return;
        }
        text += len > 0 ? len - 1 : 0;
    }
}

static void check_tenant(struct config_loader *l, struct config *c, size_t index)
{
    char near[CONFIG_NEAR_TEXT];
    struct config_tenant *t = &c->tenants[index];
    name_domains(&t->from_domains);
    lower_texts(&t->dkim);
    check_template(l, c, index);
    for (size_t i = 0; i < t->from_domains.count; i++) {
        if (!is_domain(slice_of(t->from_domains.items[i]))) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_TENANT, index, "from_domains"),
                            "from_domains", "\"%.80s\" is no domain; write one such as example.com",
                            t->from_domains.items[i]);
        }
    }
    for (size_t i = 0; i < t->dkim.count; i++) {
        const char *name = t->dkim.items[i];
        if (config_section_find_title(c, CONFIG_SECTION_DKIM, name) == c->dkim_count) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_TENANT, index, "dkim"), "dkim",
                            "there is no dkim \"%.80s\"; name a section of this file%s", name,
                            config_check_meant(c, CONFIG_SECTION_DKIM, name, near));
        }
    }
}

void config_check_dkim(struct config_loader *l, struct config *c)
{
    bool has_domains = false;
    for (size_t i = 0; i < c->dkim_count; i++) {
        check_title(l, c, i);
        check_key(l, c, i);
    }
    for (size_t i = 0; i < c->dkim_count; i++) {
        check_also(l, c, i);
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        check_tenant(l, c, i);
        has_domains = has_domains || c->tenants[i].from_domains.count > 0;
    }
    if (c->dkim_count > 0 && c->tenant_count > 0 && !has_domains) {
        config_warn(
            l, config_place_of(l, CONFIG_SECTION_DKIM, 0, NULL), "dkim",
            "no tenant has from_domains, so each tenant can send mail that is signed by the "
            "keys of all others; write from_domains in tenant sections");
    }
}
