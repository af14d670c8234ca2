/* Files are named by their domain, which has neither a slash nor a dot in front (dns_name_from_text
 * took it): "STSv1 FETCHED ID" and the policy behind it. */
#include "engine/outbound/sts_cache.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "dns/dns_wire.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUCKETS = 4096, FILE_MAX = MTA_STS_POLICY_MAX + 128 };

#define MEMORY_MAX                                                                                 \
    ((size_t)64 << 20) /* bytes of all entries: policies may be as long as their limit */

static const char new_name[] = ".new"; /* no domain begins with a dot */

struct sts_cache {
    int folder; /* descriptor */
    uint32_t limit;
    uint32_t count;
    size_t size_bytes; /* of all texts */
    uint64_t seed;
    struct list used;
    struct sts_entry *buckets[BUCKETS];
};

static struct sts_entry **policy_bucket(struct sts_cache *c, struct slice domain)
{
    return &c->buckets[hash_bytes(domain.data, domain.len, c->seed) % BUCKETS];
}

static struct sts_entry *find_policy(struct sts_cache *c, struct slice domain)
{
    struct sts_entry *e = *policy_bucket(c, domain);
    while (e != NULL && !slice_eq(e->domain, domain)) {
        e = e->next_in_bucket;
    }
    return e;
}

static size_t text_bytes(const struct sts_entry *e)
{
    return e->domain.len + e->id.len + e->policy.text.len;
}

static void forget_policy(struct sts_cache *c, struct sts_entry *e)
{
    struct sts_entry **link = policy_bucket(c, e->domain);
    while (*link != e) {
        link = &(*link)->next_in_bucket;
    }
    *link = e->next_in_bucket;
    list_remove(&e->use);
    c->count--;
    c->size_bytes -= text_bytes(e);
    free(e);
}

static void name_of(struct slice domain, char ret[static DNS_NAME_MAX + 1])
{
    assert(domain.len <= DNS_NAME_MAX);
    memcpy(ret, domain.data, domain.len);
    ret[domain.len] = '\0';
}

/* Forget it for good. A file that cannot be removed is read again at the next start, and removed
 * then when it has expired. */
static void drop(struct sts_cache *c, struct sts_entry *e)
{
    char name[DNS_NAME_MAX + 1];
    name_of(e->domain, name);
    (void)unlinkat(c->folder, name, 0);
    forget_policy(c, e);
}

static bool has_expired(const struct sts_entry *e, usec_t now)
{
    return now >= e->fetched + (usec_t)e->policy.max_age * USEC_PER_SEC;
}

static struct slice keep_text(char **memory, struct slice text)
{
    memcpy(*memory, text.data, text.len);
    struct slice kept = slice_make(*memory, text.len);
    *memory += text.len;
    return kept;
}

static int add_policy(struct sts_cache *c, struct slice domain, struct slice id,
                      const struct mta_sts_policy *policy, usec_t fetched)
{
    struct sts_entry *e = malloc(sizeof(*e) + domain.len + id.len + policy->text.len);
    if (e == NULL) {
        return -ENOMEM;
    }
    char *memory = e->memory;
    e->domain = keep_text(&memory, domain);
    e->id = keep_text(&memory, id);
    e->policy = *policy;
    e->policy.text = keep_text(&memory, policy->text);
    e->fetched = fetched;
    struct sts_entry *old = find_policy(c, domain);
    if (old != NULL) {
        forget_policy(c, old);
    }
    while (c->count == c->limit || (c->count > 0 && c->size_bytes + text_bytes(e) > MEMORY_MAX)) {
        drop(c, list_last(&c->used, struct sts_entry, use));
    }
    struct sts_entry **bucket = policy_bucket(c, e->domain);
    e->next_in_bucket = *bucket;
    *bucket = e;
    list_init(&e->use);
    list_push_front(&c->used, &e->use);
    c->count++;
    c->size_bytes += text_bytes(e);
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

/* returns: bytes read into data[FILE_MAX], or -errno */
static ssize_t read_file(int folder, const char *name, char *data)
{
    size_t len = 0;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return -errno;
    }
    ssize_t n = 1;
    while (n > 0 && len < FILE_MAX) {
        n = read(fd, data + len, FILE_MAX - len);
        len += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd); /* only read */
    return n < 0 ? -EIO : (ssize_t)len;
}

/* errors: ERR_SYNTAX */
static int parse_file(struct slice file, usec_t *ret_fetched, struct slice *ret_id,
                      struct mta_sts_policy *ret)
{
    struct slice head = slice_to(file, slice_find(file, '\n'));
    if (head.len == file.len || head.len < 6 || !slice_eq(slice_to(head, 6), SLICE("STSv1 "))) {
        return ERR_SYNTAX;
    }
    struct slice rest = slice_from(head, 6);
    struct slice number = slice_to(rest, slice_find(rest, ' '));
    usec_t fetched = 0;
    for (size_t i = 0; i < number.len; i++) {
        if (i == 18 || number.data[i] < '0' || number.data[i] > '9') {
            return ERR_SYNTAX;
        }
        fetched = fetched * 10 + (number.data[i] - '0');
    }
    if (number.len == rest.len) {
        return ERR_SYNTAX;
    }
    struct slice id = slice_from(rest, number.len + 1);
    if (id.len == 0 || id.len > MTA_STS_ID_MAX) {
        return ERR_SYNTAX;
    }
    *ret_fetched = fetched;
    *ret_id = id;
    return mta_sts_policy_parse(slice_from(file, head.len + 1), ret);
}

static void load_policy(struct sts_cache *c, const char *name, char *data, usec_t now)
{
    struct dns_name domain;
    struct mta_sts_policy policy;
    struct slice id;
    usec_t fetched;
    if (c->count == c->limit) {
        return;
    }
    ssize_t len = read_file(c->folder, name, data);
    if (len < 0) {
        return;
    }
    if (dns_name_from_text(slice_of(name), &domain) != 0 ||
        parse_file(slice_make(data, (size_t)len), &fetched, &id, &policy) != 0) {
        (void)unlinkat(c->folder, name, 0); /* seen again at the next start if it stays */
        return;
    }
    /* A clock that was put back must not make a policy last for ever. */
    if (add_policy(c, dns_name_slice(&domain), id, &policy, fetched < now ? fetched : now) == 0) {
        struct sts_entry *e = list_first(&c->used, struct sts_entry, use);
        if (has_expired(e, now)) {
            drop(c, e);
        }
    }
}

static int load_all(struct sts_cache *c, usec_t now)
{
    char *data = malloc(FILE_MAX);
    int fd = dup(c->folder);
    DIR *folder = data == NULL || fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *item;
    if (folder == NULL) {
        int err = data == NULL ? -ENOMEM : -errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        free(data);
        return err;
    }
    while ((item = readdir(folder)) != NULL) {
        if (item->d_name[0] != '.') {
            load_policy(c, item->d_name, data, now);
        }
    }
    (void)closedir(folder); /* only read */
    free(data);
    return 0;
}

static int store_policy(const struct sts_cache *c, const struct sts_entry *e)
{
    char name[DNS_NAME_MAX + 1];
    struct buf text;
    name_of(e->domain, name);
    buf_init(&text, 0);
    buf_printf(&text, "STSv1 %" PRId64 " " SLICE_FMT "\n", (int64_t)e->fetched, SLICE_ARG(e->id));
    buf_append_slice(&text, e->policy.text);
    int err = text.failed ? -ENOMEM : file_replace_at(c->folder, name, new_name, buf_slice(&text));
    buf_fini(&text);
    return err;
}

/* --- the cache -------------------------------------------------------------------------------- */

int sts_cache_open(const char *folder, uint32_t limit, usec_t now, struct sts_cache **ret)
{
    assert(limit > 0);
    struct sts_cache *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return -ENOMEM;
    }
    c->limit = limit;
    c->seed = hash_random_seed();
    list_init(&c->used);
    int err = mkdir(folder, 0700) != 0 && errno != EEXIST ? -errno : 0;
    c->folder = err != 0 ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (err == 0) {
        err = c->folder < 0 ? -errno : load_all(c, now);
    }
    if (err != 0) {
        sts_cache_close(c);
        return err;
    }
    *ret = c;
    return 0;
}

void sts_cache_close(struct sts_cache *c)
{
    if (c == NULL) {
        return;
    }
    while (!list_is_empty(&c->used)) {
        forget_policy(c, list_first(&c->used, struct sts_entry, use));
    }
    if (c->folder >= 0) {
        (void)close(c->folder);
    }
    free(c);
}

const struct sts_entry *sts_cache_find(struct sts_cache *c, struct slice domain, usec_t now)
{
    struct sts_entry *e = find_policy(c, domain);
    if (e == NULL) {
        return NULL;
    }
    if (has_expired(e, now)) {
        drop(c, e);
        return NULL;
    }
    list_remove(&e->use);
    list_push_front(&c->used, &e->use);
    return e;
}

int sts_cache_put(struct sts_cache *c, struct slice domain, struct slice id,
                  const struct mta_sts_policy *policy, usec_t now)
{
    int err = add_policy(c, domain, id, policy, now);
    return err != 0 ? err : store_policy(c, list_first(&c->used, struct sts_entry, use));
}

uint32_t sts_cache_count(const struct sts_cache *c)
{
    return c->count;
}
