/* Owns tables of sessions. Called by workers, each with a table of its own, and by the thread that
 * sends reports. Must not know how a session's end is judged, or what a report looks like. */
#include "engine/tls_report/tls_tally.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct tls_tally {
    int64_t day;
    uint64_t seed;
    uint64_t left_out;
    size_t count;
    struct list domains;
    struct tls_domain_tally *buckets[BUCKETS];
};

static const char *const basis_names[TLS_BASIS_COUNT] = {
    [TLS_BASIS_NONE] = "no-policy-found",
    [TLS_BASIS_STS] = "sts",
    [TLS_BASIS_TLSA] = "tlsa",
};

static const char *const failure_names[TLS_FAILURE_COUNT] = {
    [TLS_FAILURE_NONE] = "",
    [TLS_FAILURE_STARTTLS_NOT_SUPPORTED] = "starttls-not-supported",
    [TLS_FAILURE_HOST_MISMATCH] = "certificate-host-mismatch",
    [TLS_FAILURE_EXPIRED] = "certificate-expired",
    [TLS_FAILURE_NOT_TRUSTED] = "certificate-not-trusted",
    [TLS_FAILURE_VALIDATION] = "validation-failure",
    [TLS_FAILURE_TLSA_INVALID] = "tlsa-invalid",
    [TLS_FAILURE_DNSSEC_INVALID] = "dnssec-invalid",
    [TLS_FAILURE_DANE_REQUIRED] = "dane-required",
    [TLS_FAILURE_STS_FETCH] = "sts-policy-fetch-error",
    [TLS_FAILURE_STS_INVALID] = "sts-policy-invalid",
    [TLS_FAILURE_STS_WEBPKI] = "sts-webpki-invalid",
};

const char *tls_basis_name(enum tls_basis basis)
{
    return basis_names[basis];
}

const char *tls_failure_name(enum tls_failure failure)
{
    return failure_names[failure];
}

enum tls_basis tls_basis_find(const char *name)
{
    int i = 0;
    while (i < TLS_BASIS_COUNT && strcmp(basis_names[i], name) != 0) {
        i++;
    }
    return (enum tls_basis)i;
}

enum tls_failure tls_failure_find(const char *name)
{
    int i = 0;
    while (i < TLS_FAILURE_COUNT && strcmp(failure_names[i], name) != 0) {
        i++;
    }
    return (enum tls_failure)i;
}

/* --- domains ---------------------------------------------------------------------------------- */

struct tls_tally *tls_tally_new(int64_t day)
{
    struct tls_tally *t = calloc(1, sizeof(*t));
    if (t != NULL) {
        t->day = day;
        t->seed = hash_random_seed();
        list_init(&t->domains);
    }
    return t;
}

static struct tls_domain_tally **bucket_of(struct tls_tally *t, struct slice name)
{
    return &t->buckets[hash_bytes(name.data, name.len, t->seed) % BUCKETS];
}

static void policy_free(struct tls_policy_tally *p)
{
    list_foreach_safe(d, &p->details, struct tls_detail, link)
    {
        free(d);
    }
    free(p->text);
    free(p);
}

void tls_tally_drop(struct tls_tally *t, struct tls_domain_tally *d)
{
    struct tls_domain_tally **link = bucket_of(t, slice_of(d->name));
    while (*link != d) {
        link = &(*link)->next_in_bucket;
    }
    *link = d->next_in_bucket;
    list_remove(&d->link);
    t->count--;
    list_foreach_safe(p, &d->policies, struct tls_policy_tally, link)
    {
        policy_free(p);
    }
    free(d);
}

void tls_tally_free(struct tls_tally *t)
{
    if (t == NULL) {
        return;
    }
    list_foreach_safe(d, &t->domains, struct tls_domain_tally, link)
    {
        tls_tally_drop(t, d);
    }
    free(t);
}

/* NULL: it is not there, and there is no room or memory for it. */
static struct tls_domain_tally *domain_of(struct tls_tally *t, struct slice name)
{
    struct tls_domain_tally **bucket = bucket_of(t, name);
    for (struct tls_domain_tally *d = *bucket; d != NULL; d = d->next_in_bucket) {
        if (slice_eq(slice_of(d->name), name)) {
            return d;
        }
    }
    struct tls_domain_tally *d = t->count < TLS_TALLY_DOMAINS && name.len > 0 && name.len < 256
                                     ? calloc(1, sizeof(*d) + name.len + 1)
                                     : NULL;
    if (d == NULL) {
        return NULL;
    }
    memcpy(d->name, name.data, name.len);
    list_init(&d->policies);
    list_push_back(&t->domains, &d->link);
    d->next_in_bucket = *bucket;
    *bucket = d;
    t->count++;
    return d;
}

/* --- policies and failures -------------------------------------------------------------------- */

static struct slice cut(struct slice text, size_t most)
{
    return text.len > most ? slice_to(text, most) : text;
}

/* Puts the text, with its end, at *memory, which then is behind it. */
static const char *place(char **memory, struct slice text)
{
    char *at = *memory;
    if (text.len > 0) {
        memcpy(at, text.data, text.len);
    }
    at[text.len] = '\0';
    *memory += text.len + 1;
    return at;
}

static struct tls_policy_tally *find_policy(struct tls_domain_tally *d, const struct tls_session *s,
                                            struct slice id)
{
    list_foreach(p, &d->policies, struct tls_policy_tally, link)
    {
        if (p->basis == s->basis && slice_eq(slice_of(p->domain), s->policy_domain) &&
            slice_eq(slice_of(p->id), id)) {
            return p;
        }
    }
    return NULL;
}

/* NULL: as domain_of */
static struct tls_policy_tally *policy_tally_of(struct tls_domain_tally *d,
                                                const struct tls_session *s)
{
    struct slice id = cut(s->policy, TLS_TALLY_POLICY_MAX);
    struct slice domain = cut(s->policy_domain, TLS_TALLY_TEXT_MAX);
    struct tls_policy_tally *p = find_policy(d, s, id);
    if (p != NULL || d->policy_count == TLS_TALLY_POLICIES) {
        return p;
    }
    p = calloc(1, sizeof(*p) + id.len + domain.len + 2);
    if (p == NULL) {
        return NULL;
    }
    char *memory = (char *)(p + 1);
    p->basis = s->basis;
    p->domain = place(&memory, domain);
    p->id = place(&memory, id);
    list_init(&p->details);
    list_push_back(&d->policies, &p->link);
    d->policy_count++;
    return p;
}

static bool is_detail_of(const struct tls_detail *d, const struct tls_session *s)
{
    return d->failure == s->failure && slice_eq(slice_of(d->sending_ip), s->sending_ip) &&
           slice_eq(slice_of(d->mx_host), s->mx_host) &&
           slice_eq(slice_of(d->receiving_ip), s->receiving_ip) &&
           slice_eq(slice_of(d->reason), s->reason);
}

static struct tls_detail *find_detail(struct tls_policy_tally *p, const struct tls_session *s)
{
    list_foreach(d, &p->details, struct tls_detail, link)
    {
        if (is_detail_of(d, s)) {
            return d;
        }
    }
    return NULL;
}

/* NULL when out of memory. */
static struct tls_detail *add_detail(struct tls_policy_tally *p, const struct tls_session *s)
{
    struct tls_detail *d = calloc(1, sizeof(*d) + s->sending_ip.len + s->mx_host.len +
                                         s->receiving_ip.len + s->reason.len + 4);
    if (d == NULL) {
        return NULL;
    }
    char *memory = (char *)(d + 1);
    d->failure = s->failure;
    d->sending_ip = place(&memory, s->sending_ip);
    d->mx_host = place(&memory, s->mx_host);
    d->receiving_ip = place(&memory, s->receiving_ip);
    d->reason = place(&memory, s->reason);
    list_push_back(&p->details, &d->link);
    p->detail_count++;
    return d;
}

/* false: no memory */
static bool count_failure(struct tls_policy_tally *p, const struct tls_session *session,
                          uint64_t count)
{
    struct tls_session s = *session;
    s.sending_ip = cut(s.sending_ip, TLS_TALLY_TEXT_MAX);
    s.mx_host = cut(s.mx_host, TLS_TALLY_TEXT_MAX);
    s.receiving_ip = cut(s.receiving_ip, TLS_TALLY_TEXT_MAX);
    s.reason = cut(s.reason, TLS_TALLY_TEXT_MAX);
    struct tls_detail *d = find_detail(p, &s);
    if (d == NULL && p->detail_count >= TLS_TALLY_DETAILS) {
        s.sending_ip = s.mx_host = s.receiving_ip = SLICE("");
        s.reason = SLICE("more failures than are told apart");
        d = find_detail(p, &s);
    }
    d = d == NULL ? add_detail(p, &s) : d;
    if (d == NULL) {
        return false;
    }
    d->count += count;
    p->failures += count;
    return true;
}

void tls_tally_add(struct tls_tally *t, const struct tls_session *s, uint64_t count)
{
    struct tls_domain_tally *d = domain_of(t, s->domain);
    struct tls_policy_tally *p = d == NULL ? NULL : policy_tally_of(d, s);
    if (p == NULL) {
        t->left_out += count;
    } else if (s->failure == TLS_FAILURE_NONE) {
        p->successes += count;
    } else if (!count_failure(p, s, count)) {
        t->left_out += count;
    }
}

void tls_tally_set_text(struct tls_policy_tally *p, struct slice text)
{
    if (p->text == NULL && text.len > 0) {
        p->text = slice_dup(cut(text, TLS_TALLY_POLICY_MAX)); /* NULL: it stays without */
    }
}

void tls_tally_give_text(struct tls_tally *t, const struct tls_session *s, struct slice text)
{
    struct tls_domain_tally *d = *bucket_of(t, s->domain);
    while (d != NULL && !slice_eq(slice_of(d->name), s->domain)) {
        d = d->next_in_bucket;
    }
    struct tls_policy_tally *p =
        d == NULL ? NULL : find_policy(d, s, cut(s->policy, TLS_TALLY_POLICY_MAX));
    if (p != NULL) {
        tls_tally_set_text(p, text);
    }
}

/* --- tables as a whole ------------------------------------------------------------------------ */

static void merge_policy(struct tls_tally *t, struct slice domain, const struct tls_policy_tally *p)
{
    struct tls_session s = {
        .domain = domain,
        .basis = p->basis,
        .policy_domain = slice_of(p->domain),
        .policy = slice_of(p->id),
    };
    if (p->successes > 0) {
        tls_tally_add(t, &s, p->successes);
    }
    list_foreach(f, &p->details, struct tls_detail, link)
    {
        s.failure = f->failure;
        s.sending_ip = slice_of(f->sending_ip);
        s.mx_host = slice_of(f->mx_host);
        s.receiving_ip = slice_of(f->receiving_ip);
        s.reason = slice_of(f->reason);
        tls_tally_add(t, &s, f->count);
    }
    if (p->text != NULL) {
        tls_tally_give_text(t, &s, slice_of(p->text));
    }
}

void tls_tally_merge(struct tls_tally *t, const struct tls_tally *from)
{
    t->left_out += from->left_out;
    list_foreach(d, &from->domains, struct tls_domain_tally, link)
    {
        list_foreach(p, &d->policies, struct tls_policy_tally, link)
        {
            merge_policy(t, slice_of(d->name), p);
        }
    }
}

struct list *tls_tally_domains(struct tls_tally *t)
{
    return &t->domains;
}

int64_t tls_tally_day(const struct tls_tally *t)
{
    return t->day;
}

size_t tls_tally_count(const struct tls_tally *t)
{
    return t->count;
}

uint64_t tls_tally_left_out(const struct tls_tally *t)
{
    return t->left_out;
}

void tls_tally_leave_out(struct tls_tally *t, uint64_t count)
{
    t->left_out += count;
}
