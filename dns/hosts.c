/* Reference-counted host lists, one allocation each.
 * Made by the resolver; held and dropped by schedulers and workers.
 * Must not change a list after creation. */
#include "dns/hosts.h"

#include <stdlib.h>
#include <string.h>

struct dns_hosts *dns_hosts_get(struct dns_hosts *hosts)
{
    /* Relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&hosts->references, 1, memory_order_relaxed);
    return hosts;
}

void dns_hosts_put(struct dns_hosts *hosts)
{
    /* Release and acquire: the last holder frees after all uses by the others. */
    if (hosts == NULL ||
        atomic_fetch_sub_explicit(&hosts->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < hosts->count; i++) {
        dns_rrset_put((struct dns_rrset *)(uintptr_t)hosts->list[i].tlsa);
    }
    free(hosts);
}

/* The first that is kept under the same name, or i: addresses of one host share its name, of which
 * an answer may have many. At most MX_TARGETS_MAX of them are compared. */
static uint32_t first_of_name(const struct dns_host *list, const bool *keep, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++) {
        if ((keep == NULL || keep[j]) && slice_eq(list[j].name, list[i].name)) {
            return j;
        }
    }
    return i;
}

static struct dns_hosts *make(const struct dns_hosts *head, const struct dns_host *list,
                              const bool *keep, uint32_t count)
{
    size_t size = sizeof(struct dns_hosts) + head->policy.len;

    for (uint32_t i = 0; i < count; i++) {
        if (keep == NULL || keep[i]) {
            size += sizeof(struct dns_host);
            size += first_of_name(list, keep, i) == i ? list[i].name.len : 0;
        }
    }
    struct dns_hosts *hosts = malloc(size);
    if (hosts == NULL) {
        return NULL;
    }
    memcpy(hosts, head, sizeof(*hosts));
    atomic_init(&hosts->references, 1);
    hosts->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (keep == NULL || keep[i]) {
            hosts->list[hosts->count++] = list[i];
        }
    }
    char *texts = (char *)&hosts->list[hosts->count];
    for (uint32_t i = 0; i < hosts->count; i++) {
        struct dns_host *host = &hosts->list[i];
        uint32_t first = first_of_name(hosts->list, NULL, i);
        if (first < i) {
            host->name = hosts->list[first].name;
        } else {
            memcpy(texts, host->name.data, host->name.len);
            host->name.data = texts;
            texts += host->name.len;
        }
        if (host->tlsa != NULL) {
            host->tlsa = dns_rrset_get(host->tlsa);
        }
    }
    memcpy(texts, head->policy.data, head->policy.len);
    hosts->policy.data = texts;
    return hosts;
}

struct dns_hosts *dns_hosts_new(const struct dns_host *list, uint32_t count, bool has_mx,
                                usec_t expires)
{
    const struct dns_hosts head = {.has_mx = has_mx, .expires = expires, .policy = SLICE("")};

    return make(&head, list, NULL, count);
}

struct dns_hosts *dns_hosts_restrict(const struct dns_hosts *hosts, const bool *keep,
                                     struct slice policy)
{
    const struct dns_hosts head = {
        .has_mx = hosts->has_mx, .expires = hosts->expires, .policy = policy};

    return make(&head, hosts->list, keep, hosts->count);
}
