/* Bytes in and out of one SMTP connection, delays, and the order of things. Called by the worker's
 * loop; what commands mean is in sink_command.c. */
#include "bench/sink/sink_session.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES       (64UL * 1024)
#define READS_A_PASS     16                   /* then others have their turn */
#define OUT_HIGH_BYTES   (64UL * 1024)        /* replies that the client does not read */
#define HELD_HIGH_BYTES  (64UL * 1024 * 1024) /* replies under way */
#define LINE_MAX_BYTES   4096
#define RECIPIENTS_BYTES (64UL * 1024 * 1024)
#define IDLE_LIMIT       (600 * USEC_PER_SEC)

static void session_ready(struct poller_watch *watch, unsigned events);
static void session_expired(struct timeout *t, usec_t now);
static void replies_due(struct timeout *t, usec_t now);

int sink_session_start(struct sink_worker *w, size_t listener_index, int fd,
                       const struct sockaddr_storage *peer)
{
    const struct sink_options *o = w->sink->options;
    struct sink_session *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    s->worker = w;
    s->listener = &w->sink->listeners[listener_index];
    s->listener_index = listener_index;
    stream_init(&s->stream, fd);
    buf_init(&s->in, 0);
    buf_init(&s->out, 0);
    buf_init(&s->sender, LINE_MAX_BYTES);
    buf_init(&s->recipients, RECIPIENTS_BYTES);
    list_init(&s->link);
    list_push_back(&w->sessions, &s->link);
    endpoint_key(peer, s->client);
    s->receiver = &w->sink->receivers[s->listener->destination];
    s->behaviour = behaviour_file_towards(&o->file, s->listener->destination, peer);
    s->known = sink_clients_find(s->receiver, s->client, s->behaviour);
    s->is_refused = sink_limit_connection(s) != NULL;
    w->count.listeners[listener_index].connections++;
    sink_session_count(s, HAPPENED_CONNECTION, 1, clock_wall());

    int err = sink_content_init(&s->content, ledger_is_open(&w->sink->ledger),
                                o->store_path != NULL, o->size_limit);
    if (err == 0) {
        err = timeout_add(&w->timeouts, &s->timer, session_expired);
    }
    if (err == 0) {
        err = timeout_add(&w->timeouts, &s->reply_timer, replies_due);
    }
    if (err == 0) {
        err = poller_add(&w->poller, &s->watch, fd, session_ready);
    }
    if (err != 0) {
        sink_session_free(s);
        return err;
    }
    timeout_set(&w->timeouts, &s->timer, w->now + IDLE_LIMIT);
    return 0; /* the socket is writable, so session_ready comes and sends the greeting */
}

static void leave_listener(struct sink_session *s)
{
    if (!s->is_refused && !s->has_left) {
        s->has_left = true;
        sink_listener_leave(s->listener, s->client);
    }
}

void sink_session_free(struct sink_session *s)
{
    leave_listener(s);
    poller_remove(&s->worker->poller, &s->watch);
    timeout_remove(&s->worker->timeouts, &s->timer);
    timeout_remove(&s->worker->timeouts, &s->reply_timer);
    list_remove(&s->link);
    stream_close(&s->stream);
    sink_content_fini(&s->content);
    buf_fini(&s->in);
    buf_fini(&s->out);
    buf_fini(&s->sender);
    buf_fini(&s->recipients);
    reply_queue_fini(&s->replies);
    free(s);
}

void sink_session_reset(struct sink_session *s)
{
    s->ended += s->has_sender ? 1 : 0;
    s->has_sender = false;
    s->is_chunked = false;
    s->has_token = false;
    buf_clear(&s->sender);
    buf_clear(&s->recipients);
    s->recipient_count = 0;
    s->domain = s->last_domain = NULL;
}

void sink_session_begin(struct sink_session *s)
{
    struct sink_listener_count *count = &s->worker->count.listeners[s->listener_index];
    s->has_sender = true;
    s->in_flight++;
    if (s->in_flight > count->max_in_flight) {
        count->max_in_flight = s->in_flight;
    }
}

void sink_session_reply(struct sink_session *s, const char *text)
{
    buf_append_str(&s->out, text);
    buf_append_str(&s->out, "\r\n");
}

void sink_session_count(struct sink_session *s, enum sink_happening what, uint64_t count,
                        usec_t wall)
{
    sink_clients_count(s->receiver, s->known, what, count, wall);
}

struct sink_client *sink_session_known_to(const struct sink_session *s, struct sink_rule *domain)
{
    return sink_clients_find(&domain->clients, s->client, domain->behaviour);
}

/* Append a reply with the names that it asks for. */
static void fill_in(struct sink_session *s, const char *text, struct slice recipient)
{
    char name[SINK_DOMAIN_NAME_MAX];
    while (*text != '\0') {
        size_t len = strcspn(text, "{");
        buf_append(&s->out, text, len);
        text += len;
        if (strncmp(text, "{client}", 8) == 0) {
            buf_append_str(&s->out, s->known->name);
            text += 8;
        } else if (strncmp(text, "{sender}", 8) == 0) {
            buf_append_slice(&s->out, sink_domain_name(buf_slice(&s->sender), name));
            text += 8;
        } else if (strncmp(text, "{domain}", 8) == 0) {
            buf_append_slice(&s->out, sink_domain_name(recipient, name));
            text += 8;
        } else if (*text != '\0') {
            buf_append_char(&s->out, *text++);
        }
    }
    buf_append_str(&s->out, "\r\n");
}

void sink_session_refuse(struct sink_session *s, const char *text, struct slice recipient)
{
    fill_in(s, text, recipient);
    if (strncmp(text, "421", 3) == 0) {
        s->state = SINK_CLOSING;
    }
}

static usec_t draw_span(struct sink_session *s, struct behaviour_delay delay)
{
    if (delay.most == delay.least) {
        return delay.least;
    }
    double part = sink_worker_random(s->worker);
    return delay.least + (usec_t)(part * (double)(delay.most - delay.least + 1));
}

bool sink_session_pause(struct sink_session *s, struct behaviour_delay delay)
{
    if (s->is_delayed) {
        s->is_delayed = false;
        return false;
    }
    usec_t span = draw_span(s, delay);
    s->tarpit += s->behaviour->tarpit;
    span += s->tarpit;
    if (span == 0) {
        return false;
    }
    s->is_paused = true;
    timeout_set(&s->worker->timeouts, &s->timer, clock_mono() + span);
    return true;
}

const char *sink_session_rejection(struct sink_session *s, const struct behaviour *b,
                                   enum behaviour_stage stage)
{
    for (size_t i = 0; i < b->rejection_count; i++) {
        const struct behaviour_rejection *r = &b->rejections[i];
        if (r->stage == stage && sink_worker_draw(s->worker, r->share)) {
            return r->reply;
        }
    }
    return NULL;
}

const struct behaviour *sink_session_behaviour(const struct sink_session *s,
                                               const struct sink_rule *domain,
                                               enum behaviour_key key)
{
    return domain != NULL && behaviour_has(domain->behaviour, key) ? domain->behaviour
                                                                   : s->behaviour;
}

/* returns: false when greetings are held back */
static bool greet(struct sink_session *s)
{
    struct sink *sink = s->worker->sink;
    /* Pairs with the release in main, which kicks the workers afterwards. */
    if (s->behaviour->does_hold && atomic_load_explicit(&sink->is_holding, memory_order_acquire)) {
        return false;
    }
    if (sink_session_pause(s, s->behaviour->delays[STAGE_BANNER])) {
        return true;
    }
    const char *refusal = s->is_refused ? s->behaviour->connection_reply
                                        : sink_session_rejection(s, s->behaviour, STAGE_BANNER);
    if (refusal != NULL) {
        s->worker->count.listeners[s->listener_index].refused++;
        sink_session_count(s, HAPPENED_CONNECTION_REFUSAL, 1, clock_wall());
        fill_in(s, refusal, (struct slice){0});
        s->state = SINK_CLOSING;
        return true;
    }
    buf_printf(&s->out, "220 %s ESMTP sluice-sink\r\n", sink->options->hostname);
    s->state = SINK_COMMAND;
    return true;
}

/* Draw whether it goes wrong now, as asked for. returns: true when it did */
static bool fail_session(struct sink_session *s)
{
    static const enum sink_state states[] = {
        [FAULT_RESET] = SINK_LOST,
        [FAULT_STALL] = SINK_STALLED,
        [FAULT_421] = SINK_CLOSING,
    };
    const double *shares = s->behaviour->fault_shares;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (shares[i] > 0 && sink_worker_draw(s->worker, shares[i])) {
            if (i == FAULT_421) {
                sink_session_reply(s, "421 4.3.2 going away");
            }
            s->state = states[i];
            return true;
        }
    }
    return false;
}

/* The message is complete and no delay runs. */
static void deliver_message(struct sink_session *s)
{
    const double share = s->behaviour->fault_shares[FAULT_CLOSE];
    if (fail_session(s)) {
        return;
    }
    s->state = SINK_COMMAND;
    s->messages++;
    sink_delivery(s);
    if (share > 0 && sink_worker_draw(s->worker, share)) {
        s->state = SINK_CLOSING;
    } else {
        (void)fail_session(s); /* accepted, and the client may not hear of it */
    }
}

/* One line of input as a command. returns: false when there is nothing to do now */
static bool take_command_line(struct sink_session *s)
{
    struct slice input = slice_from(buf_slice(&s->in), s->taken);
    size_t len = slice_find(input, '\n');
    if (len == input.len) {
        if (len > LINE_MAX_BYTES) {
            sink_session_reply(s, "500 5.5.2 line too long");
            s->state = SINK_CLOSING;
        }
        return false;
    }
    if (!s->is_delayed && fail_session(s)) {
        return true;
    }
    struct slice line = slice_to(input, len > 0 && input.data[len - 1] == '\r' ? len - 1 : len);
    if (!sink_command(s, line)) {
        return false;
    }
    s->taken += len + 1;
    return true;
}

/* What is there of the chunk under way. returns: false when more of it must come */
static bool take_chunk(struct sink_session *s)
{
    struct slice raw = slice_from(buf_slice(&s->in), s->taken);
    if (raw.len > s->chunk_left) {
        raw = slice_to(raw, (size_t)s->chunk_left);
    }
    if (!s->is_chunk_refused) {
        sink_content_feed_chunk(&s->content, raw);
    }
    s->taken += raw.len;
    s->chunk_left -= raw.len;
    if (s->chunk_left > 0) {
        return false;
    }
    s->state = SINK_COMMAND;
    if (s->is_chunk_refused) {
        sink_session_reply(s, "503 5.5.1 MAIL and a valid recipient first");
    } else if (s->is_last_chunk) {
        s->state = SINK_CONTENT_END;
    } else {
        buf_printf(&s->out, "250 2.0.0 %llu bytes\r\n", (unsigned long long)s->chunk_size);
    }
    return true;
}

/* One line behind the refusal that ended the connection: what was sent in one go with it.
 * returns: false when there is none */
static bool take_behind(struct sink_session *s)
{
    struct slice input = slice_from(buf_slice(&s->in), s->taken);
    if (s->chunk_left > 0) {
        size_t len = input.len < s->chunk_left ? input.len : (size_t)s->chunk_left;
        s->taken += len;
        s->chunk_left -= len;
        return len > 0;
    }
    size_t len = slice_find(input, '\n');
    s->is_counting_behind = len < input.len || len <= LINE_MAX_BYTES;
    if (len == input.len) {
        return false;
    }
    s->chunk_left = sink_command_behind(
        s, slice_to(input, len > 0 && input.data[len - 1] == '\r' ? len - 1 : len));
    s->taken += len + 1;
    return true;
}

/* Bytes of replies that were not sent, those that the reply queue holds back left out. */
static size_t pending(const struct sink_session *s)
{
    return (size_t)(s->out_at + s->out.len - s->sent - reply_queue_held(&s->replies));
}

static bool is_all_sent(const struct sink_session *s)
{
    return s->sent == s->out_at + s->out.len;
}

static bool can_take(const struct sink_session *s)
{
    return !s->is_paused && pending(s) < OUT_HIGH_BYTES &&
           reply_queue_held(&s->replies) < HELD_HIGH_BYTES;
}

static struct behaviour_delay dot_delay(struct sink_session *s)
{
    return sink_session_behaviour(s, s->domain, BEHAVIOUR_DELAY_DOT)->delays[STAGE_DOT];
}

/* returns: true when it stopped only because much output waits */
static bool process(struct sink_session *s)
{
    bool goes_on = true;
    while (goes_on && can_take(s)) {
        bool is_done = false;
        switch (s->state) {
        case SINK_BANNER:
            goes_on = greet(s);
            break;
        case SINK_COMMAND:
            goes_on = take_command_line(s);
            break;
        case SINK_CONTENT: {
            struct slice raw = slice_from(buf_slice(&s->in), s->taken);
            s->taken += sink_content_feed(&s->content, raw, &is_done);
            if (is_done) {
                s->state = SINK_CONTENT_END;
            }
            goes_on = is_done;
            break;
        }
        case SINK_CHUNK:
            goes_on = take_chunk(s);
            break;
        case SINK_CONTENT_END:
            if (!sink_session_pause(s, dot_delay(s))) {
                deliver_message(s);
            }
            break;
        case SINK_HANDSHAKE:
            goes_on = false;
            break;
        case SINK_CLOSING:
            goes_on = s->is_counting_behind && take_behind(s);
            s->taken = s->is_counting_behind ? s->taken : s->in.len;
            break;
        case SINK_STALLED:
        case SINK_LOST:
            s->taken = s->in.len; /* whatever it still says */
            goes_on = false;
            break;
        }
    }
    if (s->state == SINK_HANDSHAKE) {
        s->taken = s->in.len; /* nothing that was sent in clear may count after STARTTLS */
    }
    buf_consume(&s->in, s->taken);
    s->taken = 0;
    return goes_on && !s->is_paused;
}

/* New replies set out; those that have arrived may be sent. */
static void release_held_line(struct sink_session *s)
{
    /* Without a way to go nothing is ever held, whatever the time is. */
    bool is_far = s->behaviour->round_trip.most > 0;
    usec_t now = is_far ? clock_mono() : s->worker->now;
    uint64_t end = s->out_at + s->out.len;
    if (end > s->replies.end) {
        usec_t due = is_far ? now + draw_span(s, s->behaviour->round_trip) : now;
        reply_queue_add(&s->replies, end, s->ended, due);
        s->ended = 0;
    }
    s->in_flight -= reply_queue_release(&s->replies, now);
    timeout_set(&s->worker->timeouts, &s->reply_timer, reply_queue_next(&s->replies));
}

/* returns: false when the connection is broken */
static bool flush_replies(struct sink_session *s)
{
    while (s->sent < s->replies.released && stream_can_write(&s->stream)) {
        ssize_t n = stream_write(&s->stream, s->out.data + (s->sent - s->out_at),
                                 (size_t)(s->replies.released - s->sent), false);
        if (n == ERR_AGAIN) {
            break;
        }
        if (n < 0) {
            return false;
        }
        s->sent += (uint64_t)n;
    }
    /* Not after each write: what is under way lies behind and would be moved each time. */
    size_t gone = (size_t)(s->sent - s->out_at);
    if (gone >= s->out.len - gone) {
        buf_consume(&s->out, gone);
        s->out_at = s->sent;
    }
    return true;
}

/* The 220 to STARTTLS is out. returns: false when the connection is broken */
static bool secure(struct sink_session *s)
{
    if (!stream_is_tls(&s->stream) && !s->stream.is_handshaking) {
        struct ssl_st *ssl = tls_server_connection(s->worker->sink->tls);
        if (ssl == NULL || stream_start_tls(&s->stream, ssl) != 0) {
            return false;
        }
    }
    int err = stream_handshake(&s->stream);
    if (err == 0) {
        s->state = SINK_COMMAND;
    }
    return err == 0 || err == ERR_AGAIN;
}

/* returns: > 0: bytes came; 0: none now; < 0: it is over */
static int receive(struct sink_session *s)
{
    if (!can_take(s) || !stream_can_read(&s->stream)) {
        return 0;
    }
    char *to = buf_reserve(&s->in, READ_BYTES);
    if (to == NULL) {
        return -ENOMEM;
    }
    ssize_t n = stream_read(&s->stream, to, READ_BYTES);
    if (n > 0) {
        s->in.len += (size_t)n;
        return 1;
    }
    return n == ERR_AGAIN ? 0 : -1;
}

/* Make the close that follows a reset. */
static void reset(struct sink_session *s)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(s->stream.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

/* Everything that can be done now. returns: false when the session is over */
static bool advance_sink(struct sink_session *s)
{
    s->is_yielding = false;
    for (int reads = 0;; reads++) {
        bool is_full = process(s);
        if (s->state == SINK_LOST) {
            reset(s); /* this also drops answers that were ready */
            return false;
        }
        release_held_line(s);
        if (!flush_replies(s)) {
            return false;
        }
        if (is_full && can_take(s)) {
            continue;
        }
        if (s->state == SINK_HANDSHAKE && is_all_sent(s)) {
            if (!secure(s)) {
                return false;
            }
            if (s->state == SINK_HANDSHAKE) {
                return true;
            }
        }
        if (s->state == SINK_CLOSING && is_all_sent(s) && !s->is_input_over) {
            s->is_input_over = true;
            leave_listener(s); /* before the client sees the end and comes again, as servers do */
            stream_shutdown(&s->stream);
        }
        if (s->is_paused) {
            return true;
        }
        if (reads >= READS_A_PASS) {
            s->is_yielding = true;
            timeout_set(&s->worker->timeouts, &s->timer, clock_mono());
            return true;
        }
        int result = receive(s);
        if (result <= 0) {
            return result == 0;
        }
    }
}

static void run_session_steps(struct sink_session *s)
{
    if (!advance_sink(s)) {
        sink_session_free(s);
    } else if (!s->is_paused && !s->is_yielding) {
        timeout_set(&s->worker->timeouts, &s->timer, s->worker->now + IDLE_LIMIT);
    }
}

static void session_ready(struct poller_watch *watch, unsigned events)
{
    struct sink_session *s = container_of(watch, struct sink_session, watch);
    stream_ready(&s->stream, events);
    run_session_steps(s);
}

static void session_expired(struct timeout *t, usec_t now)
{
    struct sink_session *s = container_of(t, struct sink_session, timer);
    (void)now;
    if (s->is_paused) {
        s->is_paused = false;
        s->is_delayed = true;
    } else if (!s->is_yielding) {
        sink_session_free(s); /* silent for too long */
        return;
    }
    run_session_steps(s);
}

static void replies_due(struct timeout *t, usec_t now)
{
    (void)now;
    run_session_steps(container_of(t, struct sink_session, reply_timer));
}

void sink_session_resume(struct sink_session *s)
{
    if (s->state == SINK_BANNER) {
        run_session_steps(s);
    }
}
