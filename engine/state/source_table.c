/* Owns numbers and names of sources and pools. Called when settings are made; read by who routes
 * mail, by scheduler threads, workers and reports; must not look at orders. */
#include "engine/state/source_table.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/config/config.h"
#include "engine/config/config_change.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the numbers that a core has room for: pools, and in them single sources. Mail for whose source
 * there is no number goes by its pool. */
enum { WHOLES_MAX = SOURCE_TABLE_POOLS_MAX / 2, SINGLES_MAX = SOURCE_TABLE_POOLS_MAX - WHOLES_MAX };

enum { IPV4 = 1, IPV6 = 2 };

static const struct config_egress_pool *tenant_pool(const struct config_tenant *t)
{
    return t->pool;
}

/* --- names ------------------------------------------------------------------------------------ */

static bool is_same_name(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* errors: -ENOMEM */
static int copy_name(const char *name, char **ret)
{
    *ret = name == NULL ? NULL : strdup(name);
    return name != NULL && *ret == NULL ? -ENOMEM : 0;
}

static int add_name(struct source_table *t, const char *name)
{
    for (uint32_t i = 0; i < t->name_count; i++) {
        if (strcmp(t->names[i], name) == 0) {
            return 0;
        }
    }
    char **grown = realloc(t->names, (t->name_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    t->names = grown;
    int err = copy_name(name, &t->names[t->name_count]);
    t->name_count += err == 0;
    return err;
}

/* The number of the pool, or pool_count. */
static uint32_t find_pool(const struct source_table *t, const char *pool, const char *source)
{
    uint32_t i = 0;
    while (i < t->pool_count &&
           !(is_same_name(t->pools[i].pool, pool) && is_same_name(t->pools[i].source, source))) {
        i++;
    }
    return i;
}

/* errors: -ENOMEM, ERR_LIMIT: there is no number left */
static int add_pool(struct source_table *t, const char *pool, const char *source)
{
    uint32_t singles = t->pool_count - t->whole_count;
    if (find_pool(t, pool, source) < t->pool_count) {
        return 0;
    }
    if (source == NULL ? t->whole_count == WHOLES_MAX : singles == SINGLES_MAX) {
        return ERR_LIMIT;
    }
    struct source_pool *grown = realloc(t->pools, (t->pool_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    t->pools = grown;
    struct source_pool *p = &t->pools[t->pool_count];
    *p = (struct source_pool){.pool = NULL};
    int err = copy_name(pool, &p->pool);
    err = err != 0 ? err : copy_name(source, &p->source);
    if (err != 0) {
        free(p->pool);
        return err;
    }
    if (source != NULL) {
        p->whole = (uint16_t)find_pool(t, pool, NULL);
        p->mark = source_table_mark(slice_of(source));
        assert(p->whole < t->pool_count);
    }
    t->whole_count += source == NULL;
    t->pool_count++;
    return 0;
}

static int take_over(struct source_table *t, const struct source_table *before)
{
    int err = 0;
    for (uint32_t i = 0; before != NULL && i < before->name_count && err == 0; i++) {
        err = add_name(t, before->names[i]);
    }
    for (uint32_t i = 0; before != NULL && i < before->pool_count && err == 0; i++) {
        err = add_pool(t, before->pools[i].pool, before->pools[i].source);
    }
    return err;
}

static int number_pools(struct source_table *t, const struct config *c, char *ret_text)
{
    int err = add_pool(t, NULL, NULL);
    for (size_t i = 0; i < c->tenant_count && err == 0; i++) {
        const struct config_egress_pool *p = tenant_pool(&c->tenants[i]);
        err = p == NULL ? 0 : add_pool(t, p->name, NULL);
        if (err == ERR_LIMIT) {
            (void)snprintf(ret_text, SOURCE_TABLE_TEXT_MAX,
                           "tenant \"%.64s\": its pool \"%.64s\" would be the %dth name of a "
                           "tenant's pool since the start; a restart forgets those that are gone",
                           c->tenants[i].name, p->name, WHOLES_MAX);
        }
    }
    return err;
}

/* errors: -ENOMEM; without a number it is not of its own */
static int number_singles_of(struct source_table *t, const struct config_egress_pool *p,
                             const char *name)
{
    int err = 0;
    for (size_t i = 0; p->source_names.count > 1 && i < p->source_names.count && err == 0; i++) {
        err = p->weights.items[i] == 0 ? 0 : add_pool(t, name, p->source_names.items[i]);
        err = err == ERR_LIMIT ? 0 : err;
    }
    return err;
}

static int number_singles(struct source_table *t, const struct config *c)
{
    int err = 0;
    for (size_t i = 0; i < c->transport_count && err == 0; i++) {
        const struct config_egress_pool *p = c->transports[i].pool;
        err = p == NULL ? 0 : number_singles_of(t, p, NULL);
    }
    for (size_t i = 0; i < c->tenant_count && err == 0; i++) {
        const struct config_egress_pool *p = tenant_pool(&c->tenants[i]);
        err = p == NULL ? 0 : number_singles_of(t, p, p->name);
    }
    return err;
}

uint16_t source_table_mark(struct slice name)
{
    if (name.len == 0) {
        return 0;
    }
    uint16_t mark = (uint16_t)hash_checksum(name.data, name.len);
    return mark == 0 ? 1 : mark;
}

/* --- sources of a transport ------------------------------------------------------------------- */

static uint32_t id_of(const struct source_table *t, const char *name)
{
    uint32_t i = 0;
    while (strcmp(t->names[i], name) != 0) {
        i++;
    }
    return i + 1;
}

static uint8_t families_of(const struct config_egress_source *s)
{
    uint8_t families =
        (uint8_t)((s->address.family != 0 ? IPV4 : 0) | (s->address6.family != 0 ? IPV6 : 0));
    return families == 0 ? IPV4 | IPV6 : families;
}

/* Weights up to 10,000 as the core has them. */
static uint16_t weight_of(const struct config_egress_pool *p, size_t index)
{
    enum { CORE_WEIGHT_MAX = 1000 };
    int64_t most = CORE_WEIGHT_MAX;
    for (size_t i = 0; i < p->weights.count; i++) {
        most = p->weights.items[i] > most ? p->weights.items[i] : most;
    }
    int64_t weight = (int64_t)p->weights.items[index] * CORE_WEIGHT_MAX;
    weight = (weight + most / 2) / most;
    if (most == CORE_WEIGHT_MAX) {
        weight = p->weights.items[index];
    }
    return weight == 0 ? 1 : (uint16_t)weight;
}

/* errors: ERR_LIMIT, -ENOMEM */
static int add_sources(struct source_table *t, struct transport_sources *s,
                       const struct config_egress_pool *p)
{
    for (size_t i = 0; i < p->source_names.count; i++) {
        int err = add_name(t, p->sources[i]->name);
        if (err != 0) {
            return err;
        }
        uint32_t id = id_of(t, p->sources[i]->name);
        if (p->weights.items[i] == 0 || source_table_place(s, id) < s->count) {
            continue;
        }
        if (s->count == SCHED_SOURCES_MAX) {
            return ERR_LIMIT;
        }
        s->given[s->count] = (struct sched_source){
            .id = id, .weight = weight_of(p, i), .families = families_of(p->sources[i])};
        s->sections[s->count++] = p->sources[i];
    }
    return 0;
}

static int fill_transport(struct source_table *t, const struct config *c, size_t index)
{
    const struct config_transport *transport = &c->transports[index];
    struct transport_sources *s = &t->transports[index];
    int err = 0;
    if (transport->pool == NULL) {
        s->given[s->count++] = (struct sched_source){.id = 0, .weight = 1, .families = IPV4 | IPV6};
    } else {
        err = add_sources(t, s, transport->pool);
    }
    for (size_t i = 0; i < c->tenant_count && err == 0; i++) {
        const struct config_egress_pool *p = tenant_pool(&c->tenants[i]);
        err = p == NULL ? 0 : add_sources(t, s, p);
    }
    s->is_plain = s->count == 1 && transport->pool == NULL;
    return err;
}

static int fill_transports(struct source_table *t, const struct config *c, char *ret_text)
{
    int err = 0;
    t->transport_count = c->transport_count;
    t->transports = calloc(c->transport_count + 1, sizeof(*t->transports));
    for (size_t i = 0; t->transports != NULL && i < c->transport_count && err == 0; i++) {
        err = fill_transport(t, c, i);
        if (err == ERR_LIMIT) {
            (void)snprintf(ret_text, SOURCE_TABLE_TEXT_MAX,
                           "transport \"%.64s\": its pool and those of tenants have more than %d "
                           "sources together",
                           c->transports[i].name, SCHED_SOURCES_MAX);
        }
    }
    return t->transports == NULL ? -ENOMEM : err;
}

/* --- tenants ---------------------------------------------------------------------------------- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int compare_names(struct slice a, struct slice b)
{
    for (size_t i = 0; i < a.len && i < b.len; i++) {
        if (lower(a.data[i]) != lower(b.data[i])) {
            return (unsigned char)lower(a.data[i]) < (unsigned char)lower(b.data[i]) ? -1 : 1;
        }
    }
    return (a.len > b.len) - (a.len < b.len);
}

static int compare_tenants(const void *a, const void *b)
{
    return compare_names(((const struct source_tenant *)a)->name,
                         ((const struct source_tenant *)b)->name);
}

/* A tenant with a section that names no pool is there too: it has none, whatever "*" says. */
static int fill_tenants(struct source_table *t, const struct config *c)
{
    bool has_any = false;
    for (size_t i = 0; i < c->tenant_count; i++) {
        has_any = has_any || tenant_pool(&c->tenants[i]) != NULL;
    }
    if (!has_any) {
        return 0;
    }
    t->tenants = calloc(c->tenant_count, sizeof(*t->tenants));
    if (t->tenants == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        const struct config_egress_pool *p = tenant_pool(&c->tenants[i]);
        uint16_t pool = p == NULL ? 0 : (uint16_t)find_pool(t, p->name, NULL);
        if (strcmp(c->tenants[i].name, "*") == 0) {
            t->others = pool;
            continue;
        }
        t->tenants[t->tenant_count++] =
            (struct source_tenant){.name = slice_of(c->tenants[i].name), .pool = pool};
    }
    qsort(t->tenants, t->tenant_count, sizeof(*t->tenants), compare_tenants);
    return 0;
}

uint16_t source_table_pool(const struct source_table *t, struct slice tenant)
{
    const struct source_tenant wanted = {.name = tenant};
    if (t->tenants == NULL) {
        return 0;
    }
    const struct source_tenant *found =
        bsearch(&wanted, t->tenants, t->tenant_count, sizeof(*t->tenants), compare_tenants);
    return found == NULL ? t->others : found->pool;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void find_sections(struct source_table *t, const struct config *c)
{
    for (uint32_t i = 1; i < t->pool_count; i++) {
        for (size_t j = 0; j < c->egress_pool_count; j++) {
            if (is_same_name(t->pools[i].pool, c->egress_pools[j].name)) {
                t->pools[i].section = &c->egress_pools[j];
            }
        }
    }
}

int source_table_new(const struct config *c, const struct source_table *before,
                     struct source_table **ret, char ret_text[static SOURCE_TABLE_TEXT_MAX])
{
    struct source_table *t = calloc(1, sizeof(*t));
    int err = t == NULL ? -ENOMEM : take_over(t, before);
    err = err != 0 ? err : number_pools(t, c, ret_text);
    err = err != 0 ? err : fill_transports(t, c, ret_text);
    err = err != 0 ? err : number_singles(t, c);
    err = err != 0 ? err : fill_tenants(t, c);
    if (err != 0) {
        source_table_free(t);
        return err;
    }
    find_sections(t, c);
    *ret = t;
    return 0;
}

void source_table_free(struct source_table *t)
{
    if (t == NULL) {
        return;
    }
    for (uint32_t i = 0; i < t->name_count; i++) {
        free(t->names[i]);
    }
    for (uint32_t i = 0; i < t->pool_count; i++) {
        free(t->pools[i].pool);
        free(t->pools[i].source);
    }
    free(t->names);
    free(t->pools);
    free(t->transports);
    free(t->tenants);
    free(t);
}

/* --- questions -------------------------------------------------------------------------------- */

uint16_t source_table_kept(const struct source_table *t, uint16_t pool, uint16_t mark)
{
    uint16_t found = pool;
    for (uint32_t i = 1; mark != 0 && i < t->pool_count; i++) {
        const struct source_pool *p = &t->pools[i];
        if (p->source == NULL || p->whole != pool || p->mark != mark) {
            continue;
        }
        if (found != pool) {
            return pool;
        }
        found = (uint16_t)i;
    }
    return found;
}

uint16_t source_table_whole(const struct source_table *t, uint16_t pool)
{
    return pool < t->pool_count && t->pools[pool].source != NULL ? t->pools[pool].whole : pool;
}

uint32_t source_table_place(const struct transport_sources *s, uint32_t id)
{
    uint32_t i = 0;
    while (i < s->count && s->given[i].id != id) {
        i++;
    }
    return i;
}

struct slice source_table_name(const struct source_table *t, uint32_t id)
{
    return id == 0 || id > t->name_count ? SLICE("") : slice_of(t->names[id - 1]);
}

const struct config_egress_pool *source_table_section(const struct source_table *t,
                                                      const struct config *c, size_t transport,
                                                      uint16_t pool)
{
    if (pool >= t->pool_count) {
        return NULL;
    }
    return t->pools[pool].pool == NULL ? c->transports[transport].pool : t->pools[pool].section;
}

struct slice source_table_pool_list(const struct source_table *t, const struct config *c,
                                    size_t transport, uint16_t pool)
{
    const struct config_egress_pool *p = source_table_section(t, c, transport, pool);
    return p == NULL ? SLICE("") : slice_of(p->list);
}

struct slice source_table_list(const struct source_table *t, const struct config *c,
                               size_t transport, struct slice tenant)
{
    return source_table_pool_list(t, c, transport, source_table_pool(t, tenant));
}

/* Bits of the transport's sources that the pool has; only: with this name, NULL: all. */
static uint64_t mask_of(const struct source_table *t, const struct config *c, size_t transport,
                        uint16_t pool, const char *only)
{
    const struct transport_sources *s = &t->transports[transport];
    const struct config_egress_pool *p = source_table_section(t, c, transport, pool);
    uint64_t mask = 0;
    if (p == NULL) { /* the system chooses; of a pool that is gone nothing is left */
        return pool == 0 && only == NULL ? 1 : 0;
    }
    for (size_t i = 0; i < p->source_names.count; i++) {
        bool is_meant = only == NULL || strcmp(only, p->source_names.items[i]) == 0;
        for (uint32_t place = 0; is_meant && p->weights.items[i] > 0 && place < s->count; place++) {
            mask |= s->sections[place] == p->sources[i] ? UINT64_C(1) << place : 0;
        }
    }
    return mask;
}

/* Of one pool, as the next function has it. */
static uint64_t pool_mask(const struct source_table *t, const struct config *c, size_t transport,
                          uint64_t closed, uint16_t pool)
{
    const struct source_pool *p = &t->pools[pool];
    uint64_t mask = p->source == NULL ? 0 : mask_of(t, c, transport, p->whole, p->source) & ~closed;
    if (mask != 0) {
        return mask;
    }
    return mask_of(t, c, transport, p->source == NULL ? pool : p->whole, NULL) & ~closed;
}

bool source_table_weights(const struct source_table *t, const struct config *c, size_t transport,
                          uint16_t *ret)
{
    const struct transport_sources *s = &t->transports[transport];
    bool is_any = false;
    for (uint32_t pool = 0; pool < t->pool_count; pool++) {
        const struct config_egress_pool *p =
            t->pools[pool].source == NULL ? source_table_section(t, c, transport, (uint16_t)pool)
                                          : NULL;
        uint16_t *of_pool = ret + (size_t)pool * SCHED_SOURCES_MAX;
        bool differs = false;
        for (size_t i = 0; p != NULL && i < p->source_names.count; i++) {
            for (uint32_t place = 0; p->weights.items[i] > 0 && place < s->count; place++) {
                if (s->sections[place] == p->sources[i]) {
                    of_pool[place] = weight_of(p, i);
                    differs = differs || of_pool[place] != s->given[place].weight;
                }
            }
        }
        if (!differs) {
            memset(of_pool, 0, SCHED_SOURCES_MAX * sizeof(*of_pool));
        }
        is_any = is_any || differs;
    }
    return is_any;
}

uint8_t source_table_families(const struct source_table *t, const struct config *c,
                              size_t transport, uint16_t pool)
{
    uint64_t mask = pool < t->pool_count ? pool_mask(t, c, transport, 0, pool) : 0;
    uint8_t families = 0;
    for (; mask != 0; mask &= mask - 1) {
        families |= t->transports[transport].given[__builtin_ctzll(mask)].families;
    }
    return families;
}

bool source_table_is_same(const struct source_table *a, const struct source_table *b,
                          size_t transport)
{
    const struct transport_sources *x = &a->transports[transport], *y = &b->transports[transport];
    bool is_same = x->count == y->count;
    for (uint32_t i = 0; is_same && i < x->count; i++) {
        is_same = x->given[i].id == y->given[i].id && x->given[i].families == y->given[i].families;
        if (is_same && x->sections[i] != NULL) {
            is_same = config_change_is_same_section(CONFIG_SECTION_SOURCE, x->sections[i],
                                                    y->sections[i]);
        }
    }
    return is_same;
}

void source_table_masks(const struct source_table *t, const struct config *c, size_t transport,
                        uint64_t closed, uint64_t *ret)
{
    for (uint32_t i = 0; i < t->pool_count; i++) {
        ret[i] = pool_mask(t, c, transport, closed, (uint16_t)i);
    }
}
