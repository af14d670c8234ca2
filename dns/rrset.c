/* Immutable record sets in one allocation each: header, records, then the bytes of the names.
 * Called by the lookup layer (make), the cache and the resolver (hold).
 * Must not change anything after creation but the reference count. */
#include "dns/rrset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t record_bytes(enum dns_type type)
{
    return type == DNS_TYPE_MX ? sizeof(struct dns_mx) : sizeof(struct ip);
}

/* Insertion sort: at most 100 records, and the order of equals stays that of the answer. */
static void fill_mx(struct dns_mx *mx, char *names, const struct dns_record *records,
                    uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct dns_name *exchange = &records[i].exchange;
        struct dns_mx item = {records[i].preference, exchange->is_valid, {names, exchange->len}};
        uint32_t at = i;

        memcpy(names, exchange->text, exchange->len);
        names += exchange->len;
        for (; at > 0 && mx[at - 1].preference > item.preference; at--) {
            mx[at] = mx[at - 1];
        }
        mx[at] = item;
    }
}

struct dns_rrset *dns_rrset_new(const struct dns_rrset_source *source)
{
    uint32_t count = source->status == DNS_FOUND ? source->count : 0;
    size_t records_at = (sizeof(struct dns_rrset) + _Alignof(struct dns_mx) - 1) /
                        _Alignof(struct dns_mx) * _Alignof(struct dns_mx);
    size_t names_at = records_at + count * record_bytes(source->type);
    size_t size = names_at + source->name.len;

    assert((source->status == DNS_FOUND) == (count > 0) && count <= DNS_RECORDS_MAX);
    if (source->type == DNS_TYPE_MX) {
        for (uint32_t i = 0; i < count; i++) {
            size += source->records[i].exchange.len;
        }
    }
    char *memory = malloc(size);
    if (memory == NULL) {
        return NULL;
    }
    struct dns_rrset *set = (struct dns_rrset *)(void *)memory;
    memset(set, 0, sizeof(*set));
    memcpy(memory + names_at, source->name.data, source->name.len);
    set->name = slice_make(memory + names_at, source->name.len);
    set->hash = source->hash;
    set->type = source->type;
    set->status = source->status;
    set->is_authentic = source->is_authentic;
    set->expires = source->expires;
    set->count = count;
    set->size_bytes = (uint32_t)size;
    if (source->type == DNS_TYPE_MX) {
        struct dns_mx *mx = (struct dns_mx *)(void *)(memory + records_at);
        fill_mx(mx, memory + names_at + source->name.len, source->records, count);
        set->mx = mx;
    } else {
        struct ip *ips = (struct ip *)(void *)(memory + records_at);
        for (uint32_t i = 0; i < count; i++) {
            ips[i] = source->records[i].ip;
        }
        set->ips = ips;
    }
    atomic_init(&set->references, 1);
    return set;
}

struct dns_rrset *dns_rrset_get(const struct dns_rrset *set)
{
    struct dns_rrset *held = (struct dns_rrset *)(uintptr_t)set;

    /* Relaxed: the caller already reaches it, by RCU or by a reference of its own. */
    atomic_fetch_add_explicit(&held->references, 1, memory_order_relaxed);
    return held;
}

void dns_rrset_put(struct dns_rrset *set)
{
    /* Release and acquire: the last holder frees after all uses by the others. */
    if (set != NULL && atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) == 1) {
        free(set);
    }
}

/* source   Postfix dns_strerror; the reference is silent on malformed answers */
const char *dns_status_text(enum dns_status status)
{
    switch (status) {
    case DNS_FOUND:
        return "Host found";
    case DNS_NODATA:
        return "Host found but no data record of requested type";
    case DNS_NXDOMAIN:
        return "Host not found";
    case DNS_ALIAS_LOOP:
        return "Name server loop";
    case DNS_SERVFAIL:
    case DNS_TIMEOUT:
        return "Host not found, try again";
    case DNS_MALFORMED:
        return "Malformed or unexpected name server reply";
    case DNS_UNRECOVERABLE:
        return "Non-recoverable error";
    case DNS_STATUS_COUNT:
        break;
    }
    return "Unknown error";
}
