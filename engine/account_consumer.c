/* Owns the way from event lines to an accounting file. Called by the feed thread; the order of
 * writing is here: rows and their sync, then the place with the file's mark. */
#include "engine/account_consumer.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/account_row.h"
#include "engine/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINES_AT_ONCE = 20000,
    ROWS_BYTES = 8 << 20,
};
/* Rows wait so long for others: a sync of the file and one of the place a second. */
static const usec_t flush_interval = USEC_PER_SEC;

/* What names of the log stand for, copied from the configuration. */
struct known_source {
    char *name;
    char address[IP_TEXT_MAX], address6[IP_TEXT_MAX]; /* "": unknown */
};

struct known_transport {
    char *name, *pool;
};

struct account_consumer {
    struct event_consumer consumer;
    /* set at creation */
    enum account_column *columns; /* [column_count] */
    size_t column_count;
    struct known_source *sources;
    size_t source_count;
    struct known_transport *transports;
    size_t transport_count;
    /* feed thread only */
    struct account_file file;
    struct buf rows;
    usec_t flushed; /* monotonic; 0: never */
    bool is_ready;  /* the file was opened */
};

static struct account_consumer *of(struct event_consumer *c)
{
    return (struct account_consumer *)(void *)((char *)c -
                                               offsetof(struct account_consumer, consumer));
}

/* --- names -------------------------------------------------------------------------------------
 */

static const char *source_address(const void *ctx, const char *source, bool is_v6)
{
    const struct account_consumer *a = ctx;
    for (size_t i = 0; i < a->source_count; i++) {
        if (strcmp(a->sources[i].name, source) == 0) {
            return is_v6 ? a->sources[i].address6 : a->sources[i].address;
        }
    }
    return NULL;
}

static const char *pool_of(const void *ctx, const char *transport)
{
    const struct account_consumer *a = ctx;
    for (size_t i = 0; i < a->transport_count; i++) {
        if (strcmp(a->transports[i].name, transport) == 0) {
            return a->transports[i].pool;
        }
    }
    return NULL;
}

static int copy_names(struct account_consumer *a, const struct config *config)
{
    a->sources = calloc(config->egress_source_count + 1, sizeof(*a->sources));
    a->transports = calloc(config->transport_count + 1, sizeof(*a->transports));
    if (a->sources == NULL || a->transports == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < config->egress_source_count; i++) {
        const struct config_egress_source *s = &config->egress_sources[i];
        struct known_source *known = &a->sources[a->source_count++];
        known->name = strdup(s->name);
        if (s->address.family != 0) {
            (void)ip_text(&s->address, known->address);
        }
        if (s->address6.family != 0) {
            (void)ip_text(&s->address6, known->address6);
        }
        if (known->name == NULL) {
            return -ENOMEM;
        }
    }
    for (size_t i = 0; i < config->transport_count; i++) {
        const struct config_transport *t = &config->transports[i];
        struct known_transport *known = &a->transports[a->transport_count++];
        known->name = strdup(t->name);
        known->pool = t->source_pool == NULL ? NULL : strdup(t->source_pool);
        if (known->name == NULL || (known->pool == NULL && t->source_pool != NULL)) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* --- rows --------------------------------------------------------------------------------------
 */

/* A new file begins only here, when every row of the old one is accounted for. errors: -errno */
static int make_ready(struct account_consumer *a, usec_t now)
{
    struct event_consumer *c = &a->consumer;
    int err = account_file_ready(&a->file, &c->mark);
    if (err > 0) {
        c->mark = a->file.mark;
        event_consumer_save(c, now);
    }
    a->is_ready = err >= 0;
    return err > 0 ? 0 : err;
}

static void give_up(struct account_consumer *a, int err, usec_t now)
{
    buf_clear(&a->rows);
    a->is_ready = false;
    event_consumer_fail(&a->consumer, err, now);
    event_consumer_rewind(&a->consumer);
}

/* errors: -errno of the log or for want of memory. *ret_lines: rows made, or lines passed as none
 */
static int collect(struct account_consumer *a, uint64_t *ret_lines, bool *ret_has_more)
{
    const struct account_names names = {source_address, pool_of, a};
    unsigned budget = LINES_AT_ONCE;
    struct slice line;
    int err = 0;
    *ret_lines = 0;
    while (a->rows.len < ROWS_BYTES &&
           (err = event_consumer_next(&a->consumer, &budget, &line)) == 0) {
        /* A line that is no event has no row. */
        bool is_row = account_row(&a->rows, line, a->columns, a->column_count, &names) == 0;
        *ret_lines += is_row;
    }
    *ret_has_more = err == 0 || budget == 0;
    return a->rows.failed ? -ENOMEM : err == ERR_AGAIN ? 0 : err;
}

static bool account_step(struct event_consumer *c, usec_t now, bool is_last)
{
    struct account_consumer *a = of(c);
    uint64_t lines = 0;
    bool has_more = false;
    if (now < c->retry_at || (!is_last && a->is_ready && now - a->flushed < flush_interval)) {
        return false;
    }
    int err = make_ready(a, now);
    if (err == 0) {
        err = collect(a, &lines, &has_more);
    }
    if (err == 0 && a->rows.len > 0) {
        err = account_file_append(&a->file, buf_slice(&a->rows));
    }
    if (err != 0) {
        give_up(a, err, now);
        return false;
    }
    c->mark = a->file.mark;
    event_consumer_ack(c, lines, now);
    buf_clear(&a->rows);
    a->flushed = has_more ? now - flush_interval : now;
    return has_more;
}

/* --- life --------------------------------------------------------------------------------------
 */

static void account_free(struct event_consumer *c)
{
    struct account_consumer *a = of(c);
    account_file_fini(&a->file);
    buf_fini(&a->rows);
    for (size_t i = 0; i < a->source_count; i++) {
        free(a->sources[i].name);
    }
    for (size_t i = 0; i < a->transport_count; i++) {
        free(a->transports[i].name);
        free(a->transports[i].pool);
    }
    free(a->sources);
    free(a->transports);
    free(a->columns);
    event_consumer_fini(c);
    free(a);
}

static int choose_columns(struct account_consumer *a, const struct config_texts *names)
{
    a->column_count = names->count > 0 ? names->count : ACCOUNT_COLUMN_COUNT;
    a->columns = calloc(a->column_count, sizeof(*a->columns));
    for (size_t i = 0; a->columns != NULL && i < a->column_count; i++) {
        a->columns[i] = names->count > 0 ? account_column_find(slice_of(names->items[i]))
                                         : (enum account_column)i;
    }
    return a->columns == NULL ? -ENOMEM : 0;
}

static int open_file(struct account_consumer *a, const struct config_csv *csv)
{
    struct buf names;
    buf_init(&names, 0);
    account_row_names(&names, a->columns, a->column_count);
    int err = names.failed ? -ENOMEM
                           : account_file_init(&a->file, csv->path, buf_slice(&names),
                                               csv->rotate_size, (unsigned)csv->rotate_keep);
    buf_fini(&names);
    return err;
}

int account_consumer_new(const struct config_csv *csv, const struct config *config,
                         const struct event_consumer_place *at, struct event_consumer **ret)
{
    char name[EVENT_CONSUMER_NAME_MAX];
    struct account_consumer *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->consumer.kind = "csv";
    a->consumer.step = account_step;
    a->consumer.free = account_free;
    a->file.fd = -1;
    buf_init(&a->rows, 0);
    (void)snprintf(name, sizeof(name), "csv-%016llx",
                   (unsigned long long)hash_checksum(csv->path, strlen(csv->path)));
    int err = event_consumer_init(&a->consumer, at, name, csv->path, &csv->types);
    if (err == 0) {
        err = choose_columns(a, &csv->columns);
    }
    if (err == 0) {
        err = copy_names(a, config);
    }
    if (err == 0) {
        err = open_file(a, csv);
    }
    if (err != 0) {
        account_free(&a->consumer);
        return err;
    }
    *ret = &a->consumer;
    return 0;
}
