/* Owns the way from event lines to an accounting file. Called by the feed thread; the order of
 * writing is here: rows and their sync, then the place with the file's mark. */
#include "engine/feed/account_consumer.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rcu.h"
#include "dns/ip.h"
#include "engine/config/config.h"
#include "engine/event/account_row.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINES_AT_ONCE = 20000,
    ROWS_BYTES = 8 << 20,
};
/* How long rows wait for further rows, so that the file and the place are synced once a second at
 * most. */
static const usec_t flush_interval = USEC_PER_SEC;

struct account_consumer {
    struct event_consumer consumer;
    /* set at creation */
    enum account_column *columns; /* [column_count] */
    size_t column_count;
    const struct engine *engine;
    /* feed thread only */
    struct settings *settings, *before; /* own references; `before` is NULL until a reload */
    struct account_file file;
    struct buf rows;
    usec_t flushed;            /* monotonic; 0: never */
    bool is_ready;             /* the file was opened */
    char address[IP_TEXT_MAX]; /* what source_address returned last */
};

static struct account_consumer *of(struct event_consumer *c)
{
    return (struct account_consumer *)(void *)((char *)c -
                                               offsetof(struct account_consumer, consumer));
}

/* --- names -------------------------------------------------------------------------------------
 *
 * Names of the log mean what the settings in force say. A name that a reload took away, of which
 * lines may still come, means what the settings before said.
 */

/* Thread: offline under RCU, as the feed thread is. */
static void take_settings(struct account_consumer *a)
{
    rcu_awake();
    struct settings *now = settings_of(a->engine);
    if (now != a->settings) {
        settings_put(a->before);
        a->before = a->settings;
        a->settings = settings_get(now);
    }
    rcu_sleep();
}

static const struct config_egress_source *find_source(const struct settings *s, const char *name)
{
    for (size_t i = 0; s != NULL && i < s->config->egress_source_count; i++) {
        if (strcmp(s->config->egress_sources[i].name, name) == 0) {
            return &s->config->egress_sources[i];
        }
    }
    return NULL;
}

static const char *source_address(void *ctx, const char *name, bool is_v6)
{
    struct account_consumer *a = ctx;
    const struct config_egress_source *source = find_source(a->settings, name);
    source = source != NULL ? source : find_source(a->before, name);
    if (source == NULL) {
        return NULL;
    }
    const struct ip *address = is_v6 ? &source->address6 : &source->address;
    return address->family != 0 ? ip_text(address, a->address) : "";
}

/* A reload keeps every transport. */
static const char *pool_of(void *ctx, const char *name)
{
    const struct account_consumer *a = ctx;
    size_t at = config_transport_find(a->settings->config, slice_of(name));
    return at < a->settings->config->transport_count
               ? a->settings->config->transports[at].source_pool
               : NULL;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Opens the file, or begins a new one. A new file begins only here, where the stored mark covers
 * every row of the old one. errors: -errno */
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

static void give_up_file(struct account_consumer *a, int err, usec_t now)
{
    buf_clear(&a->rows);
    a->is_ready = false;
    event_consumer_fail(&a->consumer, err, now);
    event_consumer_rewind(&a->consumer);
}

/* errors: -errno of the log or for want of memory. *ret_lines: rows made, or lines passed as none
 */
static int collect_rows(struct account_consumer *a, uint64_t *ret_lines, bool *ret_has_more)
{
    const struct account_names names = {source_address, pool_of, a};
    unsigned budget = LINES_AT_ONCE;
    struct slice line;
    int err = 0;
    take_settings(a);
    *ret_lines = 0;
    while (a->rows.len < ROWS_BYTES &&
           (err = event_consumer_next(&a->consumer, &budget, &line)) == 0) {
        /* A line that is no event has no row. */
        bool is_row = account_row(&a->rows, line, a->columns, a->column_count, &names) == 0;
        *ret_lines += is_row;
    }
    *ret_has_more = err == 0 || budget == 0;
    if (a->rows.failed) {
        return -ENOMEM;
    }
    return err == ERR_AGAIN ? 0 : err;
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
        err = collect_rows(a, &lines, &has_more);
    }
    if (err == 0 && a->rows.len > 0) {
        err = account_file_append(&a->file, buf_slice(&a->rows));
    }
    if (err != 0) {
        give_up_file(a, err, now);
        return false;
    }
    c->mark = a->file.mark;
    event_consumer_ack(c, lines, now);
    buf_clear(&a->rows);
    a->flushed = has_more ? now - flush_interval : now;
    return has_more;
}

/* --- life ------------------------------------------------------------------------------------- */

static void account_free(struct event_consumer *c)
{
    struct account_consumer *a = of(c);
    account_file_fini(&a->file);
    buf_fini(&a->rows);
    settings_put(a->settings);
    settings_put(a->before);
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

static int open_consumer_file(struct account_consumer *a, const struct config_csv *csv)
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

int account_consumer_new(const struct config_csv *csv, const struct engine *engine,
                         const struct event_consumer_place *at, struct event_consumer **ret)
{
    char name[EVENT_CONSUMER_NAME_MAX];
    struct account_consumer *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->engine = engine;
    a->consumer.kind = "csv";
    a->consumer.section = CONFIG_SECTION_CSV;
    a->consumer.section_title = strdup(csv->path);
    a->consumer.step = account_step;
    a->consumer.free = account_free;
    a->file.fd = -1;
    buf_init(&a->rows, 0);
    (void)snprintf(name, sizeof(name), "csv-%016llx",
                   (unsigned long long)hash_checksum(csv->path, strlen(csv->path)));
    int err = a->consumer.section_title == NULL
                  ? -ENOMEM
                  : event_consumer_init(&a->consumer, at, name, csv->path, &csv->types);
    if (err == 0) {
        err = choose_columns(a, &csv->columns);
    }
    if (err == 0) {
        err = open_consumer_file(a, csv);
    }
    if (err != 0) {
        account_free(&a->consumer);
        return err;
    }
    *ret = &a->consumer;
    return 0;
}
