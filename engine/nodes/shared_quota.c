/* Chunks of quotas as values of a bucket. Values of others are checked and never asserted. */
#include "engine/nodes/shared_quota.h"

#include "base/error.h"
#include "base/log.h"
#include "engine/cluster/limit_share.h"
#include "engine/limit/limits_part.h"
#include "engine/nodes/shared_limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_SIZE = LIMITS_PART_KEY_MAX + 24,
    VALUE_SIZE = 32,
    VERSION = 1,
    WINDOWS_KEPT = 2, /* the present one and the last one, which a slower clock may be in */
};

static void name_window(const struct limits_part_view *v, int64_t window, char ret[static KEY_SIZE])
{
    (void)snprintf(ret, KEY_SIZE, "%s.%" PRId64, v->key, window);
}

/* false: it is no value, or of a version that is not known here. */
static bool read_taken(const struct cluster_value *is, uint64_t *ret)
{
    char text[VALUE_SIZE] = "";
    unsigned version;
    int end = 0;
    if (is->len >= sizeof(text)) {
        return false;
    }
    memcpy(text, is->data, is->len);
    return sscanf(text, "%u %20" SCNu64 "%n", &version, ret, &end) == 2 && version == VERSION &&
           (size_t)end == is->len;
}

/* What was taken of the window. A key that the servers lost, or that says less than was known, counts as
 * what was known; one that cannot be read as used up. errors: of the module */
static int look_up(struct shared_limits *s, const struct limits_part_view *v, const char *key,
                   uint64_t *ret_taken, uint64_t *ret_revision)
{
    struct cluster_value is = {.data = NULL};
    uint64_t taken = 0;
    int err = s->module->get(s->client, SHARED_QUOTA_BUCKET, key, &is);
    if (err != 0 && err != ERR_MISSING) {
        return err;
    }
    if (err == 0 && !read_taken(&is, &taken)) {
        log_warning("cluster: quota %s has a value of no version that is known here", key);
        taken = v->quota;
    }
    *ret_taken = err == ERR_MISSING && v->taken > taken ? v->taken : taken;
    *ret_revision = is.revision;
    free(is.data);
    return 0;
}

/* errors: of the module; ERR_AGAIN: somebody else was first */
static int put_taken(struct shared_limits *s, const char *key, uint64_t taken, uint64_t revision)
{
    char text[VALUE_SIZE];
    uint64_t next;
    int len = snprintf(text, sizeof(text), "%d %" PRIu64, VERSION, taken);
    int err = s->module->swap(s->client, SHARED_QUOTA_BUCKET, key,
                              slice_of_printed(text, sizeof(text), len), revision, &next);
    if (err == 0) {
        (void)atomic_fetch_add_explicit(&s->puts, 1, memory_order_relaxed);
    }
    return err;
}

int shared_quota_take(struct shared_limits *s, uint32_t slot, const struct limits_part_view *v)
{
    char key[KEY_SIZE], old[KEY_SIZE];
    uint64_t taken, revision;
    name_window(v, v->window, key);
    int err = look_up(s, v, key, &taken, &revision);
    if (err != 0) {
        return err;
    }
    uint32_t quota = v->quota < UINT32_MAX ? (uint32_t)v->quota : UINT32_MAX;
    uint32_t more = limit_share_chunk(taken, quota);
    err = more == 0 ? 0 : put_taken(s, key, taken + more, revision);
    if (err == ERR_AGAIN) {
        return 0;
    }
    if (err == 0) {
        limits_chunk_take(s->limits, slot, v, taken + more, more, clock_mono());
    }
    if (err == 0 && revision == 0) { /* the first one of the window */
        name_window(v, v->window - WINDOWS_KEPT, old);
        (void)s->module->remove(s->client, SHARED_QUOTA_BUCKET, old); /* it may not be there */
    }
    return err;
}

int shared_quota_give(struct shared_limits *s, uint32_t slot, const struct limits_part_view *v)
{
    char key[KEY_SIZE];
    uint64_t taken, revision;
    name_window(v, v->window, key);
    int err = look_up(s, v, key, &taken, &revision);
    if (err != 0) {
        return err;
    }
    uint32_t left = limits_chunk_give(s->limits, slot, v);
    taken -= left < taken ? left : taken;
    err = left == 0 ? 0 : put_taken(s, key, taken, revision);
    if (err == 0 || err == ERR_AGAIN) {
        uint64_t known = err == 0 ? taken : v->taken;
        limits_chunk_take(s->limits, slot, v, known, err == 0 ? 0 : left, clock_mono());
    }
    return err == ERR_AGAIN ? 0 : err;
}
