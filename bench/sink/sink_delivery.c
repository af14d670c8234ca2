/* A complete message: decide, store, write the ledger, count, answer, in this order. Called by the
 * session when the final dot was read and the delay has passed. */
#include "base/error.h"
#include "base/log.h"
#include "bench/sink/sink_session.h"
#include "bench/tool/report.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LATENCY_MAX     (30LL * 86400 * USEC_PER_SEC) /* an older stamp is no stamp of ours */
#define FILE_NAME_BYTES 32

struct iterator {
    struct slice rest;
};

static bool next_recipient(struct iterator *it, struct slice *ret)
{
    if (it->rest.len == 0) {
        return false;
    }
    size_t len = slice_find(it->rest, '\n');
    *ret = slice_to(it->rest, len);
    it->rest = slice_from(it->rest, len + 1);
    return true;
}

/* ret_name: of the file within the folder, "" when nothing is stored */
static int store_message(struct sink_session *s, char ret_name[FILE_NAME_BYTES])
{
    struct sink *sink = s->worker->sink;
    char path[PATH_MAX];
    ret_name[0] = '\0';
    if (sink->options->store_path == NULL) {
        return 0;
    }
    /* Relaxed: only the uniqueness of the number matters. */
    uint64_t number = atomic_fetch_add_explicit(&sink->store_count, 1, memory_order_relaxed);
    (void)snprintf(ret_name, FILE_NAME_BYTES, "%010" PRIu64 ".eml", number);
    if (snprintf(path, sizeof(path), "%s/%s", sink->options->store_path, ret_name) >=
        (int)sizeof(path)) {
        return ERR_LIMIT;
    }
    return report_replace(path, buf_slice(&s->content.head));
}

static int write_ledger(struct sink_session *s, usec_t wall, const char *hash, const char *file)
{
    struct sink *sink = s->worker->sink;
    if (!ledger_is_open(&sink->ledger)) {
        return 0;
    }
    struct buf line;
    buf_init(&line, 0);
    buf_append_char(&line, '{');
    report_seconds(&line, "time", wall);
    buf_append_str(&line, ", \"id\": ");
    report_string(&line, sink_content_id(&s->content));
    buf_append_str(&line, ", \"listener\": ");
    report_string(&line, slice_of(s->listener->name));
    buf_printf(&line, ", \"tls\": %s", stream_is_tls(&s->stream) ? "true" : "false");
    buf_append_str(&line, ", \"sender\": ");
    report_string(&line, buf_slice(&s->sender));
    buf_append_str(&line, ", \"recipients\": [");
    struct iterator it = {buf_slice(&s->recipients)};
    struct slice address;
    for (const char *separator = ""; next_recipient(&it, &address); separator = ", ") {
        buf_append_str(&line, separator);
        report_string(&line, address);
    }
    buf_printf(&line, "], \"size\": %llu, \"sha256\": \"%s\"",
               (unsigned long long)s->content.size_bytes, hash);
    if (file[0] != '\0') {
        buf_printf(&line, ", \"file\": \"%s\"", file);
    }
    buf_append_str(&line, "}\n");
    int err = line.failed ? ERR_LIMIT : ledger_write(&sink->ledger, buf_slice(&line));
    buf_fini(&line);
    return err;
}

static void count_message(struct sink_session *s, usec_t wall)
{
    struct sink_count *count = &s->worker->count;
    struct sink_tally *listener = &count->listeners[s->listener_index].tally;
    uint64_t bytes = s->content.size_bytes;
    usec_t latency = s->content.stamp > 0 ? wall - s->content.stamp : -1;
    latency = latency <= LATENCY_MAX ? latency : -1;
    sink_tally_message(listener, bytes, wall, latency);
    sink_listener_message(s->listener, wall, latency);
    listener->recipients += s->recipient_count;
    sink_session_count(s, HAPPENED_MESSAGE, 1, wall);
    sink_session_count(s, HAPPENED_RECIPIENT, s->recipient_count, wall);
    if (s->domain != NULL && sink_rule_has_rate(s->domain)) {
        struct sink_client *known = sink_session_known_to(s, s->domain);
        sink_clients_count(&s->domain->clients, known, HAPPENED_MESSAGE, 1, wall);
        sink_clients_count(&s->domain->clients, known, HAPPENED_RECIPIENT, s->recipient_count,
                           wall);
    }

    /* A message counts for each domain among its recipients, but neighbours only once. */
    struct iterator it = {buf_slice(&s->recipients)};
    struct slice address;
    struct sink_tally *before = NULL;
    while (next_recipient(&it, &address)) {
        struct sink_tally *domain = sink_count_domain(count, address);
        if (before == NULL || domain != before) {
            sink_tally_message(domain, bytes, wall, latency);
            if (s->worker->sink->options->timeline > 0) {
                sink_courses_message(&s->worker->sink->courses, address, wall, latency);
            }
            before = domain;
        }
        domain->recipients++;
    }
}

static void count_deferred(struct sink_session *s)
{
    struct sink_count *count = &s->worker->count;
    struct iterator it = {buf_slice(&s->recipients)};
    struct slice address;
    count->listeners[s->listener_index].tally.deferred++;
    sink_listener_deferred(s->listener);
    if (next_recipient(&it, &address)) {
        sink_count_domain(count, address)->deferred++;
    }
}

static void count_rejected(struct sink_session *s)
{
    struct sink_count *count = &s->worker->count;
    struct iterator it = {buf_slice(&s->recipients)};
    struct slice address;
    while (next_recipient(&it, &address)) {
        sink_count_domain(count, address)->rejected++;
    }
    /* A message refused at MAIL has no recipients yet, but at least one would have followed. */
    count->listeners[s->listener_index].tally.rejected +=
        s->recipient_count > 0 ? s->recipient_count : 1;
}

void sink_delivery_refuse(struct sink_session *s, const char *reply)
{
    if (reply[0] == '4') {
        count_deferred(s);
    } else {
        count_rejected(s);
    }
    sink_session_count(s, HAPPENED_REFUSAL, 1, clock_wall());
    if (s->domain != NULL && sink_rule_has_rate(s->domain)) {
        sink_clients_count(&s->domain->clients, sink_session_known_to(s, s->domain),
                           HAPPENED_REFUSAL, 1, clock_wall());
    }
    struct iterator it = {buf_slice(&s->recipients)};
    struct slice first = {0};
    (void)next_recipient(&it, &first); /* at MAIL there is none */
    sink_session_refuse(s, reply, first);
    s->is_counting_behind = s->state == SINK_CLOSING;
}

static void accepted(struct sink *sink)
{
    /* Relaxed: the kick of main below orders nothing but itself. */
    uint64_t number = atomic_fetch_add_explicit(&sink->accepted, 1, memory_order_relaxed) + 1;
    if (sink->options->messages != 0 && number == sink->options->messages) {
        const uint64_t one = 1;
        (void)!write(sink->done_fd, &one, sizeof(one)); /* fails only when it is set already */
    }
}

void sink_delivery(struct sink_session *s)
{
    struct sink *sink = s->worker->sink;
    char hash[SINK_HASH_TEXT_BYTES];
    char file[FILE_NAME_BYTES];
    usec_t wall = clock_wall();
    sink_content_end(&s->content, hash);
    const char *refusal = s->content.is_too_large ? NULL : sink_limit_dot(s);
    if (s->content.is_too_large) {
        sink_session_reply(s, "552 5.3.4 message too large");
    } else if (refusal != NULL) {
        sink_delivery_refuse(s, refusal);
    } else {
        int err = store_message(s, file);
        if (err == 0) {
            err = write_ledger(s, wall, hash, file);
        }
        if (err == 0) {
            count_message(s, wall);
            accepted(sink);
            sink_session_reply(s, "250 2.0.0 Ok: queued");
        } else {
            log_error("message not kept: %s", err_str(err));
            sink_session_reply(s, "451 4.3.0 not kept");
        }
    }
    sink_session_reset(s);
}
