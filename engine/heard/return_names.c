#include "engine/heard/return_names.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUCKETS = 1 << 14,
    CHUNK = 1 << 10, /* places of numbers that are made at once */
    CHUNKS = RETURN_NAMES_MAX / CHUNK + 1,
    LINE_MAX_BYTES = 256,
    NAME_MAX_BYTES = 64,
};

struct name_entry {
    struct name_entry *next; /* in its bucket, set before it is published */
    uint32_t number;
    uint8_t tenant_len, campaign_len;
    char text[]; /* both names */
};

struct return_names {
    uint64_t seed;
    int fd; /* -1: not open */
    char *path;

    /* owner thread only */
    uint32_t next; /* number */
    bool is_torn;  /* the file may end within a line */
    struct buf lines;
    struct name_entry *noted; /* not published yet, the newest first */

    /* published by the owner, any thread */
    _Atomic(struct name_entry *) buckets[BUCKETS];
    _Atomic(_Atomic(struct name_entry *) *) chunks[CHUNKS];
};

struct return_names *return_names_new(void)
{
    struct return_names *n = calloc(1, sizeof(*n));
    if (n != NULL) {
        n->seed = hash_random_seed();
        n->fd = -1;
        n->next = 1;
        buf_init(&n->lines, 0);
    }
    return n;
}

static void drop_noted(struct return_names *n)
{
    while (n->noted != NULL) {
        struct name_entry *e = n->noted;
        n->noted = e->next;
        free(e);
    }
    buf_clear(&n->lines);
}

void return_names_free(struct return_names *n)
{
    if (n == NULL) {
        return;
    }
    drop_noted(n);
    for (size_t i = 0; i < BUCKETS; i++) {
        struct name_entry *e = atomic_load_explicit(&n->buckets[i], memory_order_relaxed);
        while (e != NULL) {
            struct name_entry *next = e->next;
            free(e);
            e = next;
        }
    }
    for (size_t i = 0; i < CHUNKS; i++) {
        free(atomic_load_explicit(&n->chunks[i], memory_order_relaxed));
    }
    if (n->fd >= 0) {
        (void)close(n->fd); /* what counts was synced */
    }
    buf_fini(&n->lines);
    free(n->path);
    free(n);
}

/* --- the table -------------------------------------------------------------------------------- */

static size_t bucket_of(const struct return_names *n, struct slice tenant, struct slice campaign)
{
    uint64_t hash = hash_bytes(tenant.data, tenant.len, n->seed);
    return hash_bytes(campaign.data, campaign.len, hash) % BUCKETS;
}

static bool is_entry_of(const struct name_entry *e, struct slice tenant, struct slice campaign)
{
    return slice_eq(slice_make(e->text, e->tenant_len), tenant) &&
           slice_eq(slice_make(e->text + e->tenant_len, e->campaign_len), campaign);
}

uint32_t return_names_find(const struct return_names *n, struct slice tenant, struct slice campaign)
{
    const struct name_entry *e =
        atomic_load_explicit(&n->buckets[bucket_of(n, tenant, campaign)], memory_order_acquire);
    while (e != NULL && !is_entry_of(e, tenant, campaign)) {
        e = e->next;
    }
    return e == NULL ? 0 : e->number;
}

bool return_names_get(const struct return_names *n, uint32_t number, struct slice *ret_tenant,
                      struct slice *ret_campaign)
{
    if (number > RETURN_NAMES_MAX) {
        return false;
    }
    _Atomic(struct name_entry *) *chunk =
        atomic_load_explicit(&n->chunks[number / CHUNK], memory_order_acquire);
    const struct name_entry *e =
        chunk == NULL ? NULL : atomic_load_explicit(&chunk[number % CHUNK], memory_order_acquire);
    if (e == NULL) {
        return false;
    }
    *ret_tenant = slice_make(e->text, e->tenant_len);
    *ret_campaign = slice_make(e->text + e->tenant_len, e->campaign_len);
    return true;
}

static struct name_entry *entry_new(uint32_t number, struct slice tenant, struct slice campaign)
{
    struct name_entry *e = malloc(sizeof(*e) + tenant.len + campaign.len);
    if (e != NULL) {
        e->next = NULL;
        e->number = number;
        e->tenant_len = (uint8_t)tenant.len;
        e->campaign_len = (uint8_t)campaign.len;
        memcpy(e->text, tenant.data, tenant.len);
        memcpy(e->text + tenant.len, campaign.data, campaign.len);
    }
    return e;
}

/* The place of a number, made when it is the first of its chunk. NULL: out of memory */
static _Atomic(struct name_entry *) *place_of(struct return_names *n, uint32_t number)
{
    _Atomic(struct name_entry *) *chunk =
        atomic_load_explicit(&n->chunks[number / CHUNK], memory_order_relaxed);
    if (chunk == NULL) {
        chunk = calloc(CHUNK, sizeof(*chunk));
        atomic_store_explicit(&n->chunks[number / CHUNK], chunk, memory_order_release);
    }
    return chunk == NULL ? NULL : &chunk[number % CHUNK];
}

static void publish_entry(struct return_names *n, struct name_entry *e)
{
    struct slice tenant = slice_make(e->text, e->tenant_len);
    struct slice campaign = slice_make(e->text + e->tenant_len, e->campaign_len);
    _Atomic(struct name_entry *) *bucket = &n->buckets[bucket_of(n, tenant, campaign)];
    _Atomic(struct name_entry *) *place = place_of(n, e->number);
    e->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, e, memory_order_release);
    if (place != NULL) {
        atomic_store_explicit(place, e, memory_order_release);
    }
}

/* --- the file --------------------------------------------------------------------------------- */

static void append_name_line(const struct name_entry *e, struct buf *out)
{
    char text[LINE_MAX_BYTES];
    int len = snprintf(text, sizeof(text), "%u %.*s %.*s", e->number, (int)e->tenant_len, e->text,
                       (int)e->campaign_len, e->text + e->tenant_len);
    buf_printf(out, "%s %016" PRIx64 "\n", text, hash_checksum(text, (size_t)len));
}

/* The text up to the next blank, which *line is moved behind; false: there is none. */
static bool take_field(struct slice *line, struct slice *ret)
{
    size_t len = slice_find(*line, ' ');
    if (len == line->len) {
        return false;
    }
    *ret = slice_to(*line, len);
    *line = slice_from(*line, len + 1);
    return true;
}

/* One line that is whole makes an entry; errors: -ENOMEM */
static int read_name_line(struct return_names *n, struct slice line)
{
    struct slice rest = line, number, tenant, campaign;
    char sum[17];
    if (!take_field(&rest, &number) || !take_field(&rest, &tenant) ||
        !take_field(&rest, &campaign) || tenant.len > NAME_MAX_BYTES ||
        campaign.len > NAME_MAX_BYTES) {
        return 0;
    }
    (void)snprintf(sum, sizeof(sum), "%016" PRIx64,
                   hash_checksum(line.data, line.len - rest.len - 1));
    unsigned long value = strtoul(number.data, NULL, 10);
    if (!slice_eq(rest, slice_of(sum)) || value == 0 || value > RETURN_NAMES_MAX) {
        return 0; /* damaged: its number stays unused (read_names) */
    }
    struct name_entry *e = entry_new((uint32_t)value, tenant, campaign);
    if (e == NULL) {
        return -ENOMEM;
    }
    publish_entry(n, e);
    if (n->next <= value) {
        n->next = (uint32_t)value + 1;
    }
    return 0;
}

static int read_names(struct return_names *n)
{
    struct stat st;
    if (fstat(n->fd, &st) != 0) {
        return -errno;
    }
    struct buf text;
    buf_init(&text, 0);
    char *room = buf_reserve(&text, (size_t)st.st_size + 1);
    ssize_t got = room == NULL ? -1 : pread(n->fd, room, (size_t)st.st_size, 0);
    int err = 0;
    if (room == NULL || got < 0) {
        err = room == NULL ? -ENOMEM : -errno;
    }
    struct slice rest = slice_make(room, got > 0 ? (size_t)got : 0);
    uint32_t lines = 0;
    bool is_cut = rest.len > 0 && rest.data[rest.len - 1] != '\n';
    while (err == 0 && rest.len > 0) {
        size_t len = slice_find(rest, '\n');
        err = len < rest.len ? read_name_line(n, slice_to(rest, len)) : 0;
        lines += len > 0 ? 1 : 0;
        rest = slice_from(rest, len < rest.len ? len + 1 : len);
    }
    if (err == 0 && is_cut) {
        err = file_write(n->fd, SLICE("\n"), NULL);
    }
    /* There is a line for each number at least: that of a last line that is damaged is not given again,
     * as return addresses under way speak of the name that stood there. */
    if (n->next <= lines) {
        n->next = lines + 1;
    }
    buf_fini(&text);
    return err;
}

int return_names_open(struct return_names *n, const char *path)
{
    n->path = strdup(path);
    n->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (n->path == NULL || n->fd < 0) {
        return n->path == NULL ? -ENOMEM : -errno;
    }
    file_sync_folder_of(path);
    return read_names(n);
}

/* --- noting ----------------------------------------------------------------------------------- */

static bool is_noted(const struct return_names *n, struct slice tenant, struct slice campaign)
{
    for (const struct name_entry *e = n->noted; e != NULL; e = e->next) {
        if (is_entry_of(e, tenant, campaign)) {
            return true;
        }
    }
    return return_names_find(n, tenant, campaign) != 0;
}

static void note_one(struct return_names *n, struct slice tenant, struct slice campaign)
{
    if (tenant.len > NAME_MAX_BYTES || campaign.len > NAME_MAX_BYTES ||
        n->next > RETURN_NAMES_MAX || is_noted(n, tenant, campaign)) {
        return;
    }
    struct name_entry *e = entry_new(n->next, tenant, campaign);
    if (e == NULL) {
        return;
    }
    n->next++;
    e->next = n->noted;
    n->noted = e;
    append_name_line(e, &n->lines);
}

void return_names_note(struct return_names *n, struct slice tenant, struct slice campaign)
{
    if (n->fd < 0 || (tenant.len == 0 && campaign.len == 0)) {
        return;
    }
    note_one(n, tenant, SLICE(""));
    if (campaign.len > 0) {
        note_one(n, tenant, campaign);
    }
}

int return_names_keep(struct return_names *n)
{
    if (n->noted == NULL) {
        return 0;
    }
    int err = n->is_torn ? file_write(n->fd, SLICE("\n"), NULL) : 0;
    if (err == 0) {
        err = n->lines.failed ? -ENOMEM : file_write(n->fd, buf_slice(&n->lines), NULL);
    }
    if (err == 0 && fdatasync(n->fd) != 0) {
        err = -errno;
    }
    if (err != 0) {
        /* A part may stand in the file, or all of it: its numbers are not given again, and the next
         * line begins on its own. */
        n->is_torn = true;
        drop_noted(n);
        return err;
    }
    while (n->noted != NULL) {
        struct name_entry *e = n->noted;
        n->noted = e->next;
        publish_entry(n, e);
    }
    buf_clear(&n->lines);
    n->is_torn = false;
    return 0;
}
