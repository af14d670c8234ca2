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
    if (hosts != NULL &&
        atomic_fetch_sub_explicit(&hosts->references, 1, memory_order_acq_rel) == 1) {
        free(hosts);
    }
}

struct dns_hosts *dns_hosts_new(const struct dns_host *list, uint32_t count, bool has_mx,
                                usec_t expires)
{
    size_t list_bytes = count * sizeof(struct dns_host);
    size_t size = sizeof(struct dns_hosts) + list_bytes;

    for (uint32_t i = 0; i < count; i++) {
        size += list[i].name.len;
    }
    struct dns_hosts *hosts = malloc(size);
    if (hosts == NULL) {
        return NULL;
    }
    atomic_init(&hosts->references, 1);
    hosts->count = count;
    hosts->has_mx = has_mx;
    hosts->expires = expires;
    char *names = (char *)hosts->list + list_bytes;
    for (uint32_t i = 0; i < count; i++) {
        hosts->list[i] = list[i];
        memcpy(names, list[i].name.data, list[i].name.len);
        hosts->list[i].name.data = names;
        names += list[i].name.len;
    }
    return hosts;
}
