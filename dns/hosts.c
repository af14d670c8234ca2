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

/* Puts the text at *memory, which then is behind it. */
static struct slice copy_text(char **memory, struct slice text)
{
    struct slice copy = slice_make(*memory, text.len);
    if (text.len > 0) {
        memcpy(*memory, text.data, text.len);
    }
    *memory += text.len;
    return copy;
}

static struct dns_hosts *make(const struct dns_hosts *head, const struct dns_host *list,
                              const bool *keep, uint32_t count)
{
    struct slice texts[] = {head->policy, head->facts.names, head->tried};
    size_t size = sizeof(struct dns_hosts) + texts[0].len + texts[1].len + texts[2].len;

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
    char *memory = (char *)&hosts->list[hosts->count];
    for (uint32_t i = 0; i < hosts->count; i++) {
        struct dns_host *host = &hosts->list[i];
        uint32_t first = first_of_name(hosts->list, NULL, i);
        if (first < i) {
            host->name = hosts->list[first].name;
        } else {
            host->name = copy_text(&memory, host->name);
        }
        if (host->tlsa != NULL) {
            host->tlsa = dns_rrset_get(host->tlsa);
        }
    }
    hosts->policy = copy_text(&memory, texts[0]);
    hosts->facts.names = copy_text(&memory, texts[1]);
    hosts->tried = copy_text(&memory, texts[2]);
    return hosts;
}

struct dns_hosts *dns_hosts_new(const struct dns_host *list, uint32_t count,
                                const struct dns_hosts_facts *facts)
{
    const struct dns_hosts head = {.facts = *facts, .policy = SLICE(""), .tried = SLICE("")};

    return make(&head, list, NULL, count);
}

struct dns_hosts *dns_hosts_restrict(const struct dns_hosts *hosts, const bool *keep,
                                     struct slice policy)
{
    const struct dns_hosts head = {.facts = hosts->facts, .policy = policy, .tried = SLICE("")};

    return make(&head, hosts->list, keep, hosts->count);
}

struct dns_hosts *dns_hosts_try(const struct dns_hosts *hosts, struct slice tried, uint8_t failure,
                                const bool *outside)
{
    const struct dns_hosts head = {
        .facts = hosts->facts, .policy = SLICE(""), .tried = tried, .tried_failure = failure};
    struct dns_hosts *made = make(&head, hosts->list, NULL, hosts->count);

    for (uint32_t i = 0; made != NULL && outside != NULL && i < made->count; i++) {
        made->list[i].is_outside = outside[i];
    }
    return made;
}
