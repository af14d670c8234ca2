/* Owns the places of consumers and their retries. Called by the consumers themselves, on the feed
 * thread; must not know what they do with lines. */
#include "engine/feed/event_consumer.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/event/event_line.h"
#include "engine/event/event_log.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const usec_t backoff_least = USEC_PER_SEC;
static const usec_t backoff_most = 300 * USEC_PER_SEC;
static const usec_t lazy_save = 5 * USEC_PER_SEC;

/* --- the place -------------------------------------------------------------------------------- */

/* errors: -errno; ERR_SYNTAX */
static int read_place(struct event_consumer *c)
{
    char text[256];
    unsigned long long dev, ino, size;
    int fd = open(c->place, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return -errno;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    int err = n < 0 ? -errno : 0;
    (void)close(fd); /* only read */
    if (err != 0) {
        return err;
    }
    text[n] = '\0';
    struct slice first = slice_make(text, (size_t)n);
    size_t end = slice_find(first, '\n');
    if (end == first.len) {
        return ERR_SYNTAX;
    }
    if (sscanf(text + end + 1, "%20llu:%20llu:%20llu", &dev, &ino, &size) == 3) {
        c->mark = (struct account_mark){dev, ino, size};
    }
    return event_position_parse(slice_to(first, end), &c->acked);
}

void event_consumer_save(struct event_consumer *c, usec_t now)
{
    char at[EVENT_POSITION_TEXT];
    char text[256];
    event_position_format(c->acked, at);
    int len =
        snprintf(text, sizeof(text), "%s\n%llu:%llu:%llu\n", at, (unsigned long long)c->mark.dev,
                 (unsigned long long)c->mark.ino, (unsigned long long)c->mark.size);
    int err = file_replace(c->place, slice_make(text, (size_t)len));
    if (err != 0 && c->is_saved) {
        log_warning("%s %s: its place cannot be kept, a restart repeats events: %s", c->kind,
                    c->title, err_str(err));
    }
    c->is_saved = err == 0;
    c->saved = now;
}

/* Moves a place that is behind the end of the log back to that end. A power cut may take the last
 * second of the log, and lines that are written there from now on are new to the consumer. errors:
 * -errno of the log's folder */
static int clamp_place(struct event_consumer *c)
{
    struct event_position end;
    int err = event_position_end(c->log->path, &end);
    if (err == 0 && end.segment == c->acked.segment && end.offset < c->acked.offset) {
        c->acked = end;
    }
    return err;
}

static void publish_place(struct event_consumer *c)
{
    atomic_store_explicit(&c->segment, c->acked.segment, memory_order_relaxed);
    atomic_store_explicit(&c->offset, c->acked.offset, memory_order_relaxed);
}

int event_consumer_init(struct event_consumer *c, const struct event_consumer_place *at,
                        const char *name, const char *title, const struct config_texts *types)
{
    c->log = at->log;
    c->name = strdup(name);
    c->title = strdup(title);
    if (c->name == NULL || c->title == NULL || asprintf(&c->place, "%s/%s", at->folder, name) < 0) {
        c->place = NULL;
        return -ENOMEM;
    }
    for (size_t i = 0; types != NULL && i < types->count; i++) {
        c->types |= event_line_type_bit(slice_of(types->items[i]));
    }
    int err = read_place(c);
    c->is_saved = true;
    if (err == -ENOENT) {
        err = 0;
        c->acked = at->begin;
        event_consumer_save(c, 0);
        file_sync_folder_of(at->folder); /* which may be new */
    } else if (err == 0) {
        err = clamp_place(c);
    } else {
        log_warning("%s %s: %s: %s; it begins with the oldest events there are", c->kind, title,
                    c->place, err_str(err));
        c->acked = (struct event_position){0, 0};
        err = 0;
    }
    publish_place(c);
    return err != 0 ? err : event_cursor_init(&c->cursor, at->log->path, c->acked);
}

void event_consumer_fini(struct event_consumer *c)
{
    event_cursor_fini(&c->cursor);
    free(c->name);
    free(c->title);
    free(c->section_title);
    free(c->place);
}

void event_consumer_inherit(struct event_consumer *c, const struct event_consumer *from)
{
    atomic_store_explicit(&c->events, atomic_load(&from->events), memory_order_relaxed);
    atomic_store_explicit(&c->failures, atomic_load(&from->failures), memory_order_relaxed);
    atomic_store_explicit(&c->gaps, atomic_load(&from->gaps), memory_order_relaxed);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void tell_gap(struct event_consumer *c)
{
    char at[EVENT_POSITION_TEXT];
    event_position_format(c->cursor.position, at);
    atomic_fetch_add_explicit(&c->gaps, 1, memory_order_relaxed);
    log_warning("%s %s: events were removed before it read them; it goes on at %s", c->kind,
                c->title, at);
}

static bool is_wanted(const struct event_consumer *c, struct slice line)
{
    return c->types == 0 ? event_line_is_of_mail(line)
                         : (c->types & event_line_type_bit(event_line_type(line))) != 0;
}

int event_consumer_next(struct event_consumer *c, unsigned *budget, struct slice *ret)
{
    /* Acquire pairs with the release of the writer, which has written what it counts. */
    uint64_t written = atomic_load_explicit(&c->log->written, memory_order_acquire);
    if (c->is_at_end && written == c->seen) {
        return ERR_AGAIN;
    }
    c->is_at_end = false;
    while (*budget > 0) {
        int err = event_cursor_next(&c->cursor, ret);
        if (err == ERR_MISSING) {
            tell_gap(c);
            continue;
        }
        if (err != 0) {
            c->is_at_end = err == ERR_AGAIN;
            c->seen = written;
            return err;
        }
        --*budget;
        if (!is_wanted(c, *ret)) {
            continue;
        }
        if (atomic_load_explicit(&c->oldest, memory_order_relaxed) == 0) {
            atomic_store_explicit(&c->oldest, event_line_time(*ret), memory_order_relaxed);
        }
        return 0;
    }
    return ERR_AGAIN;
}

void event_consumer_ack(struct event_consumer *c, uint64_t lines, usec_t now)
{
    bool has_moved = c->acked.segment != c->cursor.position.segment ||
                     c->acked.offset != c->cursor.position.offset;
    c->acked = c->cursor.position;
    publish_place(c);
    atomic_store_explicit(&c->oldest, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->events, lines, memory_order_relaxed);
    c->is_saved = c->is_saved && !has_moved;
    if (lines > 0 || (!c->is_saved && now - c->saved >= lazy_save)) {
        event_consumer_save(c, now);
    }
    if (lines > 0 && c->backoff != 0) {
        log_info("%s %s: works again", c->kind, c->title);
        c->backoff = 0;
        c->retry_at = 0;
        atomic_store_explicit(&c->failing_since, 0, memory_order_relaxed);
        atomic_store_explicit(&c->why, 0, memory_order_relaxed);
    }
}

void event_consumer_fail(struct event_consumer *c, int why, usec_t now)
{
    char text[EVENT_CONSUMER_WHY_MAX];
    bool is_news = c->backoff == 0 || atomic_load(&c->why) != why;
    c->backoff = c->backoff == 0 ? backoff_least : 2 * c->backoff;
    c->backoff = c->backoff > backoff_most ? backoff_most : c->backoff;
    c->retry_at = now + c->backoff;
    atomic_fetch_add_explicit(&c->failures, 1, memory_order_relaxed);
    atomic_store_explicit(&c->why, why, memory_order_relaxed);
    if (atomic_load(&c->failing_since) == 0) {
        atomic_store_explicit(&c->failing_since, clock_wall(), memory_order_relaxed);
    }
    if (is_news) {
        event_consumer_why(why, text);
        log_warning("%s %s: %s; it is tried again", c->kind, c->title, text);
    }
}

void event_consumer_rewind(struct event_consumer *c)
{
    event_cursor_seek(&c->cursor, c->acked);
    c->is_at_end = false;
}

void event_consumer_why(int why, char ret[static EVENT_CONSUMER_WHY_MAX])
{
    if (why > 0) {
        (void)snprintf(ret, EVENT_CONSUMER_WHY_MAX, "answered %d", why);
    } else if (why <= EVENT_CONSUMER_CURL) {
        (void)snprintf(ret, EVENT_CONSUMER_WHY_MAX, "%s",
                       curl_easy_strerror((CURLcode)(EVENT_CONSUMER_CURL - why)));
    } else {
        (void)snprintf(ret, EVENT_CONSUMER_WHY_MAX, "%s", why == 0 ? "" : err_str(why));
    }
}
