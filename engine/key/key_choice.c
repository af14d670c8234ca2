/* Owns the rules for whose mail a key signs. Pure. */
#include "engine/key/key_choice.h"

#include "base/hash.h"
#include "engine/key/from_domain.h"

/* The domain above: "b.example" of "a.b.example"; empty: there is none. */
static struct slice parent(struct slice domain)
{
    size_t dot = slice_find(domain, '.');
    return dot == domain.len ? slice_from(domain, dot) : slice_from(domain, dot + 1);
}

/* Whether mail from this domain is signed for that tenant's section. */
static bool is_allowed(const struct key_ring *ring, struct slice domain,
                       const struct config_tenant *tenant)
{
    for (; domain.len > 0; domain = parent(domain)) {
        size_t count;
        size_t first = ring_domain_find(ring->owners, ring->owner_count, domain, &count);
        for (size_t i = first; i < first + count; i++) {
            if (&ring->config->tenants[ring->owners[i].index] == tenant) {
                return true;
            }
        }
        if (count > 0) {
            return false;
        }
    }
    return true;
}

static void choose_key(struct key_choice *c, const struct ring_key *key)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->keys[i] == key) {
            return;
        }
    }
    if (c->count < KEY_CHOICE_MAX) {
        c->keys[c->count++] = key;
    }
}

/* The keys of the nearest domain that has some, of the From domain up; else those for all. */
static size_t find_senders(const struct key_ring *ring, struct slice domain, size_t *ret_count)
{
    for (; domain.len > 0; domain = parent(domain)) {
        size_t first = ring_domain_find(ring->senders, ring->sender_count, domain, ret_count);
        if (*ret_count > 0) {
            return first;
        }
    }
    return ring_domain_find(ring->senders, ring->sender_count, SLICE("*"), ret_count);
}

static void add_of_domain(const struct key_ring *ring, struct slice domain, struct key_choice *c)
{
    size_t count;
    size_t first = find_senders(ring, domain, &count);
    for (size_t i = first; i < first + count; i++) {
        choose_key(c, &ring->keys[ring->senders[i].index]);
    }
}

static const struct ring_key *find_key(const struct key_ring *ring, struct slice title)
{
    static const char separator[] = "._domainkey.";
    char lower[FROM_DOMAIN_BYTES];
    if (title.len > sizeof(lower)) {
        return NULL;
    }
    slice_lower(title, lower);
    title.data = lower;
    const char *middle = memmem(lower, title.len, separator, strlen(separator));
    if (middle == NULL) {
        return NULL;
    }
    size_t count, at = (size_t)(middle - lower) + strlen(separator);
    size_t first = ring_domain_find(ring->domains, ring->count, slice_from(title, at), &count);
    for (size_t i = first; i < first + count; i++) {
        const struct ring_key *key = &ring->keys[ring->domains[i].index];
        if (slice_eq(slice_of(key->section->name), title)) {
            return key;
        }
    }
    return NULL;
}

/* `also`: of the keys that were chosen by other rules, not of those that come by this one. */
static void add_others(const struct key_ring *ring, struct key_choice *c)
{
    const size_t chosen = c->count;
    for (size_t k = 0; k < chosen; k++) {
        const struct config_texts *also = &c->keys[k]->section->also;
        for (size_t i = 0; i < also->count; i++) {
            size_t count;
            size_t first =
                ring_domain_find(ring->domains, ring->count, slice_of(also->items[i]), &count);
            for (size_t j = first; j < first + count; j++) {
                choose_key(c, &ring->keys[ring->domains[j].index]);
            }
        }
    }
}

/* The keys that a request names. */
static enum key_verdict add_wanted(const struct key_ring *ring, struct slice wanted,
                                   const struct config_tenant *tenant, struct key_choice *c)
{
    while (wanted.len > 0) {
        size_t comma = slice_find(wanted, ',');
        struct slice title = slice_trim(slice_to(wanted, comma));
        const struct ring_key *key = find_key(ring, title);
        c->about = title;
        if (key == NULL) {
            return KEY_UNKNOWN;
        }
        if (!is_allowed(ring, key->section->domain, tenant)) {
            return KEY_FOREIGN;
        }
        choose_key(c, key);
        wanted = slice_from(wanted, comma < wanted.len ? comma + 1 : comma);
    }
    return KEY_CHOSEN;
}

void key_choose(const struct key_ring *ring, const struct key_question *q, struct key_choice *ret)
{
    const struct config_tenant *tenant = config_tenant_find(ring->config, q->tenant);
    *ret = (struct key_choice){.verdict = KEY_CHOSEN};
    for (size_t i = 0; i < q->from_count && ret->verdict == KEY_CHOSEN; i++) {
        if (!is_allowed(ring, q->from[i], tenant)) {
            ret->verdict = KEY_FOREIGN;
            ret->about = q->from[i];
        }
    }
    if (ret->verdict == KEY_CHOSEN && q->wanted.len > 0) {
        ret->verdict = add_wanted(ring, q->wanted, tenant, ret);
    } else if (ret->verdict == KEY_CHOSEN && tenant != NULL && tenant->dkim.count > 0) {
        for (size_t i = 0; i < tenant->dkim.count; i++) {
            choose_key(ret, find_key(ring, slice_of(tenant->dkim.items[i])));
        }
    } else if (ret->verdict == KEY_CHOSEN) {
        for (size_t i = 0; i < q->from_count; i++) {
            add_of_domain(ring, q->from[i], ret);
        }
    }
    if (ret->verdict != KEY_CHOSEN) {
        ret->count = 0;
        return;
    }
    add_others(ring, ret);
    ret->verdict = ret->count == 0 ? KEY_NONE : KEY_CHOSEN;
}

enum key_verdict key_choice_allows(const struct key_ring *ring, struct slice tenant,
                                   struct slice wanted, struct slice *ret_about)
{
    struct key_choice c = {.verdict = KEY_CHOSEN};
    enum key_verdict verdict =
        add_wanted(ring, wanted, config_tenant_find(ring->config, tenant), &c);
    *ret_about = c.about;
    return verdict;
}

unsigned key_choice_forms(const struct key_ring *ring, const struct slice *from, size_t count)
{
    struct key_choice c = {.verdict = KEY_CHOSEN};
    for (size_t i = 0; i < count; i++) {
        add_of_domain(ring, from[i], &c);
    }
    add_others(ring, &c);
    unsigned forms = 0;
    for (size_t i = 0; i < c.count; i++) {
        forms |= 1U << c.keys[i]->terms.body;
    }
    return forms;
}

uint64_t key_choice_mark(const struct key_choice *choice)
{
    uint64_t mark = 0;
    for (size_t i = 0; i < choice->count; i++) {
        mark = hash_bytes(&choice->keys[i]->mark, sizeof(choice->keys[i]->mark), mark);
    }
    return mark;
}
