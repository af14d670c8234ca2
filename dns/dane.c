/* The state of one host's TLSA lookup is the list of names that may still be asked.
 * Called by the resolver only.
 * Must not look at anything but validated answers. */
#include "dns/dane.h"

#include <assert.h>
#include <stdio.h>

static bool is_found(const struct dns_rrset *set)
{
    return set != NULL && set->status == DNS_FOUND;
}

void dane_begin(struct dane *d, struct slice name, uint16_t port, const struct dns_rrset *a,
                const struct dns_rrset *aaaa)
{
    const struct dns_rrset *set = is_found(a) && (a->is_authentic || !is_found(aaaa)) ? a : aaaa;

    *d = (struct dane){.port = port, .result = DNS_DANE_NONE};
    if (!is_found(set)) {
        return;
    }
    if (set->is_authentic && set->end.len > 0) {
        d->bases[d->base_count++] = set->end;
    }
    if (set->is_authentic || set->end.len > 0) {
        d->bases[d->base_count++] = name;
    }
    /* An alias into an unsigned zone may be signed itself (RFC 7672 2.2.2). */
    d->is_alias_asked = !set->is_authentic && set->end.len > 0;
}

bool dane_next(struct dane *d, struct dns_name *ret_name, enum dns_type *ret_type)
{
    char text[DNS_NAME_MAX + 32];

    while (d->at < d->base_count) {
        struct slice base = d->bases[d->at];
        if (d->is_alias_asked) {
            *ret_type = DNS_TYPE_CNAME;
            if (dns_name_from_text(base, ret_name) == 0) {
                return true;
            }
            d->base_count = 0;
            return false;
        }
        int len = snprintf(text, sizeof(text), "_%u._tcp." SLICE_FMT, (unsigned)d->port,
                           SLICE_ARG(base)); /* base is a name: it fits */
        *ret_type = DNS_TYPE_TLSA;
        if (dns_name_from_text(slice_make(text, (size_t)len), ret_name) == 0) {
            return true;
        }
        d->at++; /* too long to exist */
    }
    return false;
}

static void end_dane(struct dane *d, enum dns_dane result)
{
    d->result = result;
    d->base_count = 0;
}

void dane_answer(struct dane *d, const struct dns_rrset *answer)
{
    bool is_usable = false;

    if (answer == NULL || dns_status_is_soft(answer->status) ||
        answer->status == DNS_UNRECOVERABLE) {
        end_dane(d, DNS_DANE_FAILED);
        return;
    }
    if (d->is_alias_asked) {
        d->is_alias_asked = false;
        if (!is_found(answer) || !answer->is_authentic) {
            end_dane(d, DNS_DANE_NONE);
        }
        return;
    }
    if (!is_found(answer) || !answer->is_authentic) {
        d->at++;
        return;
    }
    for (uint32_t i = 0; i < answer->count; i++) {
        is_usable = is_usable || dns_tlsa_is_usable(&answer->tlsa[i]);
    }
    end_dane(d, is_usable ? DNS_DANE_RECORDS : DNS_DANE_UNUSABLE);
}

struct slice dane_base(const struct dns_rrset *tlsa)
{
    struct slice name = tlsa->name;

    for (int i = 0; i < 2; i++) {
        name = slice_from(name, slice_find(name, '.') + 1);
    }
    return name;
}
