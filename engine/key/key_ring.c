/* Owns the reading of key files and the ring that is made of them. Called by main, at the start and
 * at a reload, and by `sluice check`. Bytes of key files are wiped once they are parsed. */
#include "engine/key/key_ring.h"

#include "base/error.h"
#include "base/hash.h"
#include "engine/config/config_origin.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 16 << 10 }; /* a PEM file with an RSA key of 4,096 bits has 3.3 KB */

/* A parsed key, found again by the hash of the bytes that it was read from. */
struct ring_secret {
    _Atomic uint32_t references;
    uint8_t digest[DKIM_HASH_BYTES];
    struct dkim_key *key;
};

static void secret_put(struct ring_secret *s)
{
    /* Release and acquire: who signed with it has ended before the last holder frees it. */
    if (s != NULL && atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) == 1) {
        dkim_key_free(s->key);
        free(s);
    }
}

/* --- complaints ------------------------------------------------------------------------------- */

struct loading {
    const struct config *config;
    const struct config_sink *sink;
    struct key_ring *ring;
    struct ring_secret **known; /* by digest: of the ring before */
    size_t known_count;
    size_t wrong;
};

PRINTF_LIKE(4, 5)
static void tell(struct loading *l, bool is_warning, size_t index, const char *fmt, ...)
{
    char at[CONFIG_ORIGIN_BYTES], what[700], line[CONFIG_ORIGIN_BYTES + 1000];
    const struct config_dkim *d = &l->config->dkims[index];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap); /* cut where it is too long */
    va_end(ap);
    bool is_placed = config_origin(l->config, CONFIG_SECTION_DKIM, index, "key", at);
    (void)snprintf(line, sizeof(line), "%s: key: %s%.256s: %s", is_placed ? at : l->config->path,
                   is_warning ? "warning: " : "", d->key, what);
    l->wrong += is_warning ? 0 : 1;
    l->sink->complain(l->sink->ctx, is_warning, line);
}

/* --- files ------------------------------------------------------------------------------------ */

/* errors: -errno, of what the system says about the file; ERR_SYNTAX: it was told */
static int read_open(struct loading *l, size_t index, int fd, char *bytes, size_t *ret_len)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        tell(l, false, index, "it is not a file; name a file with a private key in PEM");
        return ERR_SYNTAX;
    }
    if ((st.st_mode & 077) != 0) {
        tell(l, false, index,
             "others than its owner can read or change it (mode %04o); chmod 600, and make it the "
             "daemon's own",
             (unsigned)(st.st_mode & 07777));
        return ERR_SYNTAX;
    }
    size_t len = 0;
    ssize_t n = 1;
    while (n > 0 && len < FILE_MAX_BYTES) {
        n = read(fd, bytes + len, FILE_MAX_BYTES - len);
        len += n > 0 ? (size_t)n : 0;
    }
    *ret_len = len;
    return n < 0 ? -errno : 0;
}

static int read_file(struct loading *l, size_t index, char *bytes, size_t *ret_len)
{
    int fd = open(l->config->dkims[index].key, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int err = fd < 0 ? -errno : read_open(l, index, fd, bytes, ret_len);
    if (fd >= 0) {
        (void)close(fd); /* only read */
    }
    if (err != 0 && err != ERR_SYNTAX) {
        tell(l, false, index, "%s; name a file that the daemon can read", err_str(err));
        err = ERR_SYNTAX;
    }
    return err;
}

/* --- parsed keys ------------------------------------------------------------------------------ */

static int compare_secrets(const void *a, const void *b)
{
    const struct ring_secret *const *x = a, *const *y = b;
    return memcmp((*x)->digest, (*y)->digest, sizeof((*x)->digest));
}

static int list_known(struct loading *l, const struct key_ring *before)
{
    size_t count = before == NULL ? 0 : before->count;
    l->known = calloc(count + 1, sizeof(struct ring_secret *));
    for (; l->known != NULL && l->known_count < count; l->known_count++) {
        l->known[l->known_count] = before->keys[l->known_count].secret;
    }
    if (l->known != NULL) {
        qsort(l->known, l->known_count, sizeof(struct ring_secret *), compare_secrets);
    }
    return l->known == NULL ? -ENOMEM : 0;
}

/* A key that the ring before has, or that the section in front of this one named; NULL: neither. */
static struct ring_secret *find_known(const struct loading *l, size_t index, const uint8_t *digest)
{
    struct ring_secret wanted, *key = &wanted;
    memcpy(wanted.digest, digest, sizeof(wanted.digest));
    struct ring_secret **found =
        bsearch(&key, l->known, l->known_count, sizeof(struct ring_secret *), compare_secrets);
    if (found != NULL) {
        return *found;
    }
    struct ring_secret *last = index == 0 ? NULL : l->ring->keys[index - 1].secret;
    return last != NULL && memcmp(last->digest, digest, sizeof(last->digest)) == 0 ? last : NULL;
}

/* errors: -ENOMEM; ERR_SYNTAX: told */
static int parse(struct loading *l, size_t index, struct slice bytes, const uint8_t *digest,
                 struct ring_secret **ret)
{
    enum dkim_key_problem problem = DKIM_KEY_FINE;
    struct ring_secret *s = calloc(1, sizeof(*s));
    int err = s == NULL ? -ENOMEM : dkim_key_read(bytes, &s->key, &problem);
    if (err == ERR_SYNTAX) {
        tell(l, false, index, "%s", dkim_key_problem_text(problem));
    }
    if (err != 0) {
        free(s);
        return err;
    }
    memcpy(s->digest, digest, sizeof(s->digest));
    atomic_init(&s->references, 0);
    *ret = s;
    return 0;
}

static int read_key(struct loading *l, size_t index)
{
    struct ring_key *k = &l->ring->keys[index];
    char bytes[FILE_MAX_BYTES];
    uint8_t digest[DKIM_HASH_BYTES];
    size_t len = 0;
    int err = read_file(l, index, bytes, &len);
    if (err == 0) {
        err = EVP_Digest(bytes, len, digest, NULL, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
    }
    struct ring_secret *s = err == 0 ? find_known(l, index, digest) : NULL;
    if (err == 0 && s == NULL) {
        err = parse(l, index, slice_make(bytes, len), digest, &s);
    }
    explicit_bzero(bytes, sizeof(bytes));
    if (err != 0) {
        return err;
    }
    atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
    k->secret = s;
    k->key = s->key;
    if (dkim_key_algorithm(k->key) == DKIM_RSA_SHA256 &&
        dkim_key_bits(k->key) < DKIM_RSA_BITS_ADVISED) {
        tell(l, true, index,
             "an RSA key of %u bits is weak, and some receivers ignore it; make one of "
             "2048 bits",
             dkim_key_bits(k->key));
    }
    return 0;
}

/* --- terms ------------------------------------------------------------------------------------ */

/* returns  how many */
static size_t copy_names(struct slice *to, const struct config_texts *from)
{
    if (from->count == 1 && slice_ieq(slice_of(from->items[0]), SLICE("none"))) {
        return 0;
    }
    for (size_t i = 0; i < from->count; i++) {
        to[i] = slice_of(from->items[i]);
    }
    return from->count;
}

static int set_terms(struct key_ring *ring, struct ring_key *k)
{
    const struct config_dkim *d = k->section;
    bool has_simple_header = d->canonicalization == CONFIG_CANON_SIMPLE_RELAXED ||
                             d->canonicalization == CONFIG_CANON_SIMPLE_SIMPLE;
    bool has_simple_body = d->canonicalization == CONFIG_CANON_RELAXED_SIMPLE ||
                           d->canonicalization == CONFIG_CANON_SIMPLE_SIMPLE;
    k->names = calloc(d->headers.count + d->oversign.count + 1, sizeof(*k->names));
    if (k->names == NULL) {
        return -ENOMEM;
    }
    struct slice *oversigned = k->names + d->headers.count;
    size_t name_count = copy_names(k->names, &d->headers);
    size_t oversigned_count = copy_names(oversigned, &d->oversign);
    bool has_names = d->headers.count > 0, has_oversigned = d->oversign.count > 0;
    k->terms = (struct dkim_terms){
        .domain = d->domain,
        .selector = d->selector,
        .header = has_simple_header ? DKIM_SIMPLE : DKIM_RELAXED,
        .body = has_simple_body ? DKIM_SIMPLE : DKIM_RELAXED,
        .names = has_names ? k->names : dkim_default_names,
        .name_count = has_names ? name_count : dkim_default_name_count,
        .oversigned = has_oversigned ? oversigned : dkim_default_oversigned,
        .oversigned_count = has_oversigned ? oversigned_count : dkim_default_oversigned_count,
    };
    struct slice public = dkim_key_public(k->key);
    k->mark = hash_bytes(public.data, public.len, hash_bytes(d->name, strlen(d->name), 0));
    ring->forms |= 1U << k->terms.body;
    return 0;
}

/* --- domains ---------------------------------------------------------------------------------- */

static int compare_domain_names(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len == 0 ? 0 : memcmp(a.data, b.data, len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_ring_domains(const void *a, const void *b)
{
    const struct ring_domain *x = a, *y = b;
    int order = compare_domain_names(x->name, y->name);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static void sort(struct ring_domain *domains, size_t count)
{
    if (count > 0) {
        qsort(domains, count, sizeof(*domains), compare_ring_domains);
    }
}

size_t ring_domain_find(const struct ring_domain *domains, size_t count, struct slice name,
                        size_t *ret_count)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_domain_names(domains[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t end = low;
    while (end < count && slice_eq(domains[end].name, name)) {
        end++;
    }
    *ret_count = end - low;
    return low;
}

static int index_keys(struct key_ring *ring)
{
    const struct config *c = ring->config;
    size_t count = 0;
    for (size_t i = 0; i < ring->count; i++) {
        count += c->dkims[i].from_domains.count + 1;
    }
    ring->senders = calloc(count + 1, sizeof(*ring->senders));
    ring->domains = calloc(ring->count + 1, sizeof(*ring->domains));
    if (ring->senders == NULL || ring->domains == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < ring->count; i++) {
        const struct config_dkim *d = &c->dkims[i];
        ring->domains[i] = (struct ring_domain){d->domain, i};
        if (d->from_domains.count == 0) {
            ring->senders[ring->sender_count++] = (struct ring_domain){d->domain, i};
        }
        for (size_t j = 0; j < d->from_domains.count; j++) {
            ring->senders[ring->sender_count++] =
                (struct ring_domain){slice_of(d->from_domains.items[j]), i};
        }
    }
    sort(ring->senders, ring->sender_count);
    sort(ring->domains, ring->count);
    size_t for_all;
    (void)ring_domain_find(ring->senders, ring->sender_count, SLICE("*"), &for_all);
    ring->is_one_form = for_all > 0 && (ring->forms & (ring->forms - 1)) == 0;
    return 0;
}

static int index_owners(struct key_ring *ring)
{
    const struct config *c = ring->config;
    size_t count = 0;
    for (size_t i = 0; i < c->tenant_count; i++) {
        count += c->tenants[i].from_domains.count;
    }
    ring->owners = calloc(count + 1, sizeof(*ring->owners));
    if (ring->owners == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->tenant_count; i++) {
        for (size_t j = 0; j < c->tenants[i].from_domains.count; j++) {
            ring->owners[ring->owner_count++] =
                (struct ring_domain){slice_of(c->tenants[i].from_domains.items[j]), i};
        }
    }
    sort(ring->owners, ring->owner_count);
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int load(struct loading *l)
{
    struct key_ring *ring = l->ring;
    int err = 0;
    for (size_t i = 0; i < ring->count && (err == 0 || err == ERR_SYNTAX); i++) {
        ring->keys[i].section = &l->config->dkims[i];
        int one = read_key(l, i);
        one = one != 0 ? one : set_terms(ring, &ring->keys[i]);
        err = one != 0 ? one : err;
    }
    err = err != 0 ? err : index_keys(ring);
    return err != 0 ? err : index_owners(ring);
}

int key_ring_load(const struct config *config, const struct key_ring *before,
                  const struct config_sink *sink, struct key_ring **ret)
{
    struct loading l = {.config = config, .sink = sink};
    *ret = NULL;
    if (config->dkim_count == 0) {
        return 0;
    }
    l.ring = calloc(1, sizeof(*l.ring));
    struct ring_key *keys = calloc(config->dkim_count, sizeof(*keys));
    int err = l.ring == NULL || keys == NULL ? -ENOMEM : 0;
    if (err == 0) {
        *l.ring = (struct key_ring){.config = config, .keys = keys, .count = config->dkim_count};
        keys = NULL;
        err = list_known(&l, before);
    }
    err = err != 0 ? err : load(&l);
    free(l.known);
    free(keys);
    if (err != 0) {
        key_ring_free(l.ring);
        return err;
    }
    *ret = l.ring;
    return 0;
}

void key_ring_free(struct key_ring *ring)
{
    if (ring == NULL) {
        return;
    }
    for (size_t i = 0; i < ring->count; i++) {
        secret_put(ring->keys[i].secret);
        free(ring->keys[i].names);
    }
    free(ring->keys);
    free(ring->senders);
    free(ring->domains);
    free(ring->owners);
    free(ring);
}
