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
    GIVE_TRIES = 5, /* a node that stops has no other turn */
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

/* What is known of a window. */
struct eaten {
    uint64_t taken, revision;
    bool is_less; /* the key says less */
};

/* What was taken of the window. A key that the servers lost, or made anew with less than was known, counts
 * as what was known; one that cannot be read as used up. errors: of the module */
static int look_up(struct shared_limits *s, const struct limits_part_view *v, const char *key,
                   struct eaten *ret)
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
    /* Revisions of a bucket only grow, and begin anew with it. */
    bool is_less = v->taken > taken && (err == ERR_MISSING || is.revision < v->revision);
    *ret = (struct eaten){is_less ? v->taken : taken, is.revision, is_less};
    free(is.data);
    return 0;
}

/* errors: of the module; ERR_AGAIN: somebody else was first */
static int put_taken(struct shared_limits *s, const char *key, struct eaten *is, uint64_t taken)
{
    char text[VALUE_SIZE];
    int len = snprintf(text, sizeof(text), "%d %" PRIu64, VERSION, taken);
    int err = s->module->swap(s->client, SHARED_QUOTA_BUCKET, key,
                              slice_of_printed(text, sizeof(text), len), is->revision,
                              &is->revision);
    if (err == 0) {
        is->taken = taken;
        (void)atomic_fetch_add_explicit(&s->puts, 1, memory_order_relaxed);
    }
    return err;
}

/* This node may lend so much more of it. */
static void note_taken(struct shared_limits *s, uint32_t slot, const struct limits_part_view *v,
                       const struct eaten *is, uint32_t more)
{
    struct limits_part_view now_is = *v;
    now_is.taken = is->taken;
    now_is.revision = is->revision;
    limits_chunk_take(s->limits, slot, &now_is, more, clock_mono());
}

int shared_quota_take(struct shared_limits *s, uint32_t slot, const struct limits_part_view *v)
{
    char key[KEY_SIZE], old[KEY_SIZE];
    struct eaten is;
    name_window(v, v->window, key);
    int err = look_up(s, v, key, &is);
    if (err != 0) {
        return err;
    }
    bool is_first = is.revision == 0;
    uint32_t quota = v->quota < UINT32_MAX ? (uint32_t)v->quota : UINT32_MAX;
    uint32_t more = limit_share_chunk(is.taken, quota);
    err = more == 0 && !is.is_less ? 0 : put_taken(s, key, &is, is.taken + more);
    if (err == ERR_AGAIN) {
        return 0;
    }
    if (err == 0) {
        note_taken(s, slot, v, &is, more);
    }
    if (err == 0 && is_first) { /* of the window */
        name_window(v, v->window - WINDOWS_KEPT, old);
        (void)s->module->remove(s->client, SHARED_QUOTA_BUCKET, old); /* it may not be there */
    }
    return err;
}

/* errors: as of put_taken */
static int give_once(struct shared_limits *s, uint32_t slot, const struct limits_part_view *v)
{
    char key[KEY_SIZE];
    struct eaten is;
    name_window(v, v->window, key);
    int err = look_up(s, v, key, &is);
    if (err != 0) {
        return err;
    }
    uint32_t left = limits_chunk_give(s->limits, slot, v);
    uint64_t rest = is.taken - (left < is.taken ? left : is.taken);
    err = left == 0 ? 0 : put_taken(s, key, &is, rest);
    if (err == 0) {
        note_taken(s, slot, v, &is, 0);
    } else if (err == ERR_AGAIN) {
        is = (struct eaten){.taken = v->taken, .revision = v->revision};
        note_taken(s, slot, v, &is, left);
    }
    return err;
}

int shared_quota_give(struct shared_limits *s, uint32_t slot, const struct limits_part_view *v)
{
    int err = ERR_AGAIN;
    for (unsigned i = 0; i < GIVE_TRIES && err == ERR_AGAIN; i++) {
        err = give_once(s, slot, v);
    }
    return err == ERR_AGAIN ? 0 : err;
}
