/* Immutable record sets in one allocation each: header, records, then the bytes of the names.
 * Called by the lookup layer (make), the cache and the resolver (hold).
 * Must not change anything after creation but the reference count. */
#include "dns/rrset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TLSA_HEAD_BYTES = 3, SHA256_BYTES = 32, SHA512_BYTES = 64 };

static bool has_name(enum dns_type type)
{
    return type == DNS_TYPE_MX || type == DNS_TYPE_CNAME;
}

static bool has_data(enum dns_type type)
{
    return type == DNS_TYPE_TLSA || type == DNS_TYPE_TXT;
}

static size_t record_bytes(enum dns_type type)
{
    if (has_name(type)) {
        return sizeof(struct dns_mx);
    }
    if (type == DNS_TYPE_TLSA) {
        return sizeof(struct dns_tlsa);
    }
    return type == DNS_TYPE_TXT ? sizeof(struct slice) : sizeof(struct ip);
}

/* Bytes that a record has behind its struct: its name or its data. */
static size_t tail_bytes(enum dns_type type, const struct dns_record *record)
{
    if (has_name(type)) {
        return record->exchange.len;
    }
    return has_data(type) ? record->data.len : 0;
}

static bool mx_goes_before(const struct dns_mx *a, const struct dns_mx *b)
{
    size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
    int order = len == 0 ? 0 : memcmp(a->name.data, b->name.data, len);

    if (a->preference != b->preference) {
        return a->preference < b->preference;
    }
    return order < 0 || (order == 0 && a->name.len < b->name.len);
}

static int compare_ips(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct ip));
}

/* Insertion sort: at most 100 records. */
static void fill_mx(struct dns_mx *mx, char *names, const struct dns_record *records,
                    uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct dns_name *exchange = &records[i].exchange;
        struct dns_mx item = {records[i].preference, exchange->is_valid, {names, exchange->len}};
        uint32_t at = i;

        memcpy(names, exchange->text, exchange->len);
        names += exchange->len;
        for (; at > 0 && mx_goes_before(&item, &mx[at - 1]); at--) {
            mx[at] = mx[at - 1];
        }
        mx[at] = item;
    }
}

static int compare_tlsa(const void *a, const void *b)
{
    const struct dns_tlsa *x = a;
    const struct dns_tlsa *y = b;
    const uint8_t heads[2][3] = {{x->usage, x->selector, x->matching},
                                 {y->usage, y->selector, y->matching}};
    size_t len = x->data.len < y->data.len ? x->data.len : y->data.len;
    int order = memcmp(heads[0], heads[1], sizeof(heads[0]));

    if (order == 0 && len > 0) {
        order = memcmp(x->data.data, y->data.data, len);
    }
    if (order != 0 || x->data.len == y->data.len) {
        return order;
    }
    return x->data.len < y->data.len ? -1 : 1;
}

static void fill_tlsa(struct dns_tlsa *tlsa, char *memory, const struct dns_record *records,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct slice data = records[i].data;
        size_t len = data.len - TLSA_HEAD_BYTES; /* not negative: dns_wire has checked the length */
        memcpy(memory, data.data + TLSA_HEAD_BYTES, len);
        tlsa[i] = (struct dns_tlsa){(uint8_t)data.data[0], (uint8_t)data.data[1],
                                    (uint8_t)data.data[2], slice_make(memory, len)};
        memory += len;
    }
    qsort(tlsa, count, sizeof(*tlsa), compare_tlsa);
}

/* Without the length in front of each string. */
static void fill_txt(struct slice *txt, char *memory, const struct dns_record *records,
                     uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct slice data = records[i].data;
        txt[i] = slice_make(memory, 0);
        for (size_t at = 0; at < data.len; at += (size_t)(uint8_t)data.data[at] + 1) {
            size_t len = (uint8_t)data.data[at];
            memcpy(memory, data.data + at + 1, len);
            memory += len;
            txt[i].len += len;
        }
    }
}

static void fill_rrset(struct dns_rrset *set, char *records_at, char *memory,
                       const struct dns_rrset_source *source)
{
    uint32_t count = set->count;

    if (has_name(set->type)) {
        set->mx = (struct dns_mx *)(void *)records_at;
        fill_mx((struct dns_mx *)(void *)records_at, memory, source->records, count);
    } else if (set->type == DNS_TYPE_TLSA) {
        set->tlsa = (struct dns_tlsa *)(void *)records_at;
        fill_tlsa((struct dns_tlsa *)(void *)records_at, memory, source->records, count);
    } else if (set->type == DNS_TYPE_TXT) {
        set->txt = (struct slice *)(void *)records_at;
        fill_txt((struct slice *)(void *)records_at, memory, source->records, count);
    } else {
        struct ip *ips = (struct ip *)(void *)records_at;
        for (uint32_t i = 0; i < count; i++) {
            ips[i] = source->records[i].ip;
        }
        static_assert(sizeof(struct ip) == 17, "bytes without gaps can be compared");
        qsort(ips, count, sizeof(*ips), compare_ips);
        set->ips = ips;
    }
}

struct dns_rrset *dns_rrset_new(const struct dns_rrset_source *source)
{
    uint32_t count = source->status == DNS_FOUND ? source->count : 0;
    size_t records_at = (sizeof(struct dns_rrset) + _Alignof(struct dns_mx) - 1) /
                        _Alignof(struct dns_mx) * _Alignof(struct dns_mx);
    size_t names_at = records_at + count * record_bytes(source->type);
    size_t size = names_at + source->name.len + source->end.len;

    assert((source->status == DNS_FOUND) == (count > 0) && count <= DNS_RECORDS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        size += tail_bytes(source->type, &source->records[i]);
    }
    char *memory = malloc(size);
    if (memory == NULL) {
        return NULL;
    }
    struct dns_rrset *set = (struct dns_rrset *)(void *)memory;
    memset(set, 0, sizeof(*set));
    memcpy(memory + names_at, source->name.data, source->name.len);
    set->name = slice_make(memory + names_at, source->name.len);
    names_at += source->name.len;
    if (source->end.len > 0) {
        memcpy(memory + names_at, source->end.data, source->end.len);
    }
    set->end = slice_make(memory + names_at, source->end.len);
    names_at += source->end.len;
    set->hash = source->hash;
    set->type = source->type;
    set->status = source->status;
    set->is_authentic = source->is_authentic;
    set->expires = source->expires;
    set->count = count;
    set->size_bytes = (uint32_t)size;
    fill_rrset(set, memory + records_at, memory + names_at, source);
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

static bool has_length(const struct dns_tlsa *t)
{
    switch (t->matching) {
    case 0:
        return t->data.len > 0;
    case 1:
        return t->data.len == SHA256_BYTES;
    case 2:
        return t->data.len == SHA512_BYTES;
    default:
        return false;
    }
}

bool dns_tlsa_is_usable(const struct dns_tlsa *t)
{
    return (t->usage == 2 || t->usage == 3) && t->selector <= 1 && has_length(t);
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
