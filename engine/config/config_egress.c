/* Owns the rules about sources and pools. Called by config_check.c, before transports name their
 * pools. Whether this machine has an address is asked of the system, and only warned about: the
 * address may come later, or belong to the other machine of a pair. */
#include "dns/nexthop.h"
#include "engine/config/config_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct config_place source_place(const struct config_loader *l, size_t index,
                                        const char *name)
{
    return config_place_of(l, CONFIG_SECTION_SOURCE, index, name);
}

static struct config_place pool_place(const struct config_loader *l, size_t index, const char *name)
{
    return config_place_of(l, CONFIG_SECTION_POOL, index, name);
}

/* "a,b" */
static char *join_texts(const struct config_texts *names)
{
    size_t bytes = 1;
    for (size_t i = 0; i < names->count; i++) {
        bytes += strlen(names->items[i]) + 1;
    }
    char *list = malloc(bytes), *at = list;
    for (size_t i = 0; list != NULL && i < names->count; i++) {
        at = stpcpy(i > 0 ? stpcpy(at, ",") : at, names->items[i]);
    }
    return list;
}

/* --- sources ---------------------------------------------------------------------------------- */

/* false only when the system says that the address is not there: a kernel without IPv6, or without
 * descriptors, says nothing about it */
static bool may_bind(const struct ip *ip)
{
    struct sockaddr_storage address;
    unsigned len = ip_to_sockaddr(ip, 0, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return true;
    }
    bool is_missing =
        bind(fd, (const struct sockaddr *)&address, len) != 0 && errno == EADDRNOTAVAIL;
    (void)close(fd); /* nothing was sent */
    return !is_missing;
}

static void check_source_address(struct config_loader *l, const struct config_egress_source *s,
                                 size_t index, const char *option, const struct ip *ip)
{
    char text[IP_TEXT_MAX];
    if (ip->family == 0) {
        return;
    }
    enum ip_scope scope = ip_scope(ip);
    bool needs_interface = scope == IP_LINK_LOCAL && ip->family == 6;
    if (scope == IP_UNSPECIFIED || scope == IP_UNUSABLE || needs_interface) {
        config_complain(l, source_place(l, index, option), option,
                        "nothing can be sent from %s; write an address of one host, or leave the "
                        "option out",
                        ip_text(ip, text));
    } else if (s->socks5.len > 0) {
        config_complain(l, source_place(l, index, option), option,
                        "a SOCKS proxy chooses the address; remove it, or socks5");
    } else if (s->haproxy.len == 0 && !may_bind(ip)) {
        config_warn(l, source_place(l, index, option), option,
                    "this machine has no address %s; until it has, connections from source \"%s\" "
                    "fail",
                    ip_text(ip, text), s->name);
    }
}

static void check_helo_name(struct config_loader *l, const struct config_egress_source *s,
                            size_t index)
{
    struct nexthop n;
    if (s->helo_name != NULL && (nexthop_parse(slice_of(s->helo_name), 0, &n) < 0 || n.port != 0 ||
                                 (!n.wants_mx && n.ip.family == 0))) {
        config_complain(l, source_place(l, index, "helo_name"), "helo_name",
                        "\"%.80s\" is not a host name; write a fully qualified name, such as "
                        "mta1.example.com",
                        s->helo_name);
    }
}

static void check_login(struct config_loader *l, const struct config_egress_source *s, size_t index)
{
    bool has_user = s->socks5_user != NULL;
    bool has_password = s->socks5_password_file != NULL;
    const char *is = has_user ? "socks5_user" : "socks5_password_file";
    if (s->socks5.len == 0 && (has_user || has_password)) {
        config_complain(l, source_place(l, index, is), is,
                        "there is no SOCKS proxy; write socks5 = \"ADDR:PORT\", or remove it");
    } else if (has_user != has_password) {
        config_complain(l, source_place(l, index, is), is,
                        "it needs %s beside it; write both, or none",
                        has_user ? "socks5_password_file" : "socks5_user");
    }
}

static void check_source(struct config_loader *l, const struct config *c, size_t index)
{
    const struct config_egress_source *s = &c->egress_sources[index];
    config_check_name(l, CONFIG_SECTION_SOURCE, index, s->name);
    if (s->haproxy.len > 0 && s->socks5.len > 0) {
        config_complain(l, source_place(l, index, "socks5"), "socks5",
                        "source \"%s\" has haproxy already; keep one of them", s->name);
    } else if (s->haproxy.len > 0 && s->address.family == 0 && s->address6.family == 0) {
        config_complain(l, source_place(l, index, "haproxy"), "haproxy",
                        "the proxy must be told an address to connect from; write address, "
                        "address6 or both");
    }
    check_source_address(l, s, index, "address", &s->address);
    check_source_address(l, s, index, "address6", &s->address6);
    check_helo_name(l, s, index);
    check_login(l, s, index);
}

/* --- pools ------------------------------------------------------------------------------------ */

static const struct config_egress_source *find_source(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->egress_source_count; i++) {
        if (strcmp(c->egress_sources[i].name, name) == 0) {
            return &c->egress_sources[i];
        }
    }
    return NULL;
}

static void check_members(struct config_loader *l, const struct config *c, size_t index)
{
    struct config_egress_pool *p = &c->egress_pools[index];
    for (size_t i = 0; i < p->source_names.count; i++) {
        const char *name = p->source_names.items[i];
        p->sources[i] = find_source(c, name);
        if (p->sources[i] == NULL) {
            config_complain(l, pool_place(l, index, "sources"), "sources",
                            "there is no source \"%.64s\"; name sources of this file", name);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(p->source_names.items[j], name) == 0) {
                config_complain(l, pool_place(l, index, "sources"), "sources",
                                "source \"%.64s\" is there twice; write it once, with a greater "
                                "weight",
                                name);
                break;
            }
        }
    }
}

/* errors: -ENOMEM */
static int complete_weights(struct config_loader *l, struct config_egress_pool *p, size_t index)
{
    size_t count = p->source_names.count;
    long long sum = 0;
    if (p->weights.count == 0) {
        p->weights.items = calloc(count, sizeof(*p->weights.items));
        if (p->weights.items == NULL) {
            return -ENOMEM;
        }
        for (p->weights.count = 0; p->weights.count < count; p->weights.count++) {
            p->weights.items[p->weights.count] = 1;
        }
    }
    if (p->weights.count != count) {
        config_complain(l, pool_place(l, index, "weights"), "weights",
                        "there are %zu for %zu sources; write one for each source, in their order",
                        p->weights.count, count);
    }
    for (size_t i = 0; i < p->weights.count; i++) {
        sum += p->weights.items[i];
    }
    if (sum == 0) {
        config_complain(l, pool_place(l, index, "weights"), "weights",
                        "all of them are 0, so nothing can be sent; write 1 or more for a source");
    }
    return 0;
}

static int check_pool(struct config_loader *l, struct config *c, size_t index)
{
    struct config_egress_pool *p = &c->egress_pools[index];
    config_check_name(l, CONFIG_SECTION_POOL, index, p->name);
    if (p->source_names.count == 0) {
        config_complain(l, pool_place(l, index, "sources"), "sources",
                        "pool \"%.64s\" is empty; write sources = {\"NAME\"}", p->name);
        return 0;
    }
    p->sources = calloc(p->source_names.count, sizeof(struct config_egress_source *));
    p->list = join_texts(&p->source_names);
    if (p->sources == NULL || p->list == NULL) {
        return -ENOMEM;
    }
    check_members(l, c, index);
    return complete_weights(l, p, index);
}

/* --- sources of a transport ------------------------------------------------------------------- */

/* Marks the sources of a pool that may be used; returns how many were not marked. */
static size_t mark_sources(const struct config *c, const struct config_egress_pool *p, bool *marks)
{
    size_t fresh = 0;
    for (size_t i = 0; p != NULL && i < p->source_names.count && i < p->weights.count; i++) {
        if (p->sources[i] != NULL && p->weights.items[i] > 0) {
            bool *mark = &marks[p->sources[i] - c->egress_sources];
            fresh += !*mark;
            *mark = true;
        }
    }
    return fresh;
}

int config_check_source_counts(struct config_loader *l, const struct config *c)
{
    size_t common = 0;
    bool *marks = calloc(2 * (c->egress_source_count + 1), sizeof(*marks));
    if (marks == NULL) {
        return -ENOMEM;
    }
    bool *own = marks + c->egress_source_count + 1;
    for (size_t i = 0; i < c->tenant_count; i++) {
        common += mark_sources(c, c->tenants[i].pool, marks);
    }
    for (size_t i = 0; i < c->transport_count; i++) {
        const struct config_transport *t = &c->transports[i];
        memcpy(own, marks, c->egress_source_count * sizeof(*own));
        size_t count = common + (t->pool == NULL ? 1 : mark_sources(c, t->pool, own));
        if (count > SCHED_SOURCES_MAX) {
            config_complain(l, config_place_of(l, CONFIG_SECTION_TRANSPORT, i, "source_pool"),
                            "source_pool",
                            "transport \"%.64s\" has %zu sources with those of tenants' pools; %d "
                            "are the most; give some of them to another daemon",
                            t->name, count, SCHED_SOURCES_MAX);
        }
    }
    free(marks);
    return 0;
}

int config_check_egress(struct config_loader *l, struct config *c)
{
    int err = 0;
    for (size_t i = 0; i < c->egress_source_count && err == 0; i++) {
        check_source(l, c, i);
        err = config_check_warmup(l, c, i);
    }
    for (size_t i = 0; i < c->egress_pool_count && err == 0; i++) {
        err = check_pool(l, c, i);
    }
    return err;
}
