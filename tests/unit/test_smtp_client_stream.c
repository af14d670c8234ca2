/* Many messages through connections of every depth to a receiver that misbehaves by the seed:
 * whatever is in flight together, and however the bytes are cut, the verdicts are those of one
 * message at a time; nothing is delivered twice, bounced or returned when it was taken. */
#include "net/smtp_client.h"
#include "tests/unit/smtp_receiver.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define MESSAGES   SMTP_RECEIVER_MESSAGES
#define RECIPIENTS 3
#define BODY_MAX   60 /* bytes */

struct result {
    char texts[RECIPIENTS][48]; /* class, status, code */
    unsigned verdicts;          /* recipients that have one */
    bool is_success, is_ambiguous, is_over;
};

struct queued_body {
    uint64_t position; /* in the stream of out */
    size_t written, size;
    bool is_chunk, is_sent;
    unsigned message;
};

struct bed {
    struct smtp_client_config config;
    struct smtp_client client;
    struct smtp_receiver receiver;
    uint16_t depth;
    uint64_t random;
    struct result results[MESSAGES];
    char senders[MESSAGES][8];
    bool is_started[MESSAGES];
    unsigned numbers[MESSAGES * 4]; /* message of each transaction on the connection */
    struct queued_body bodies[64];
    unsigned body_first, body_count;
    uint64_t taken; /* bytes of out */
    unsigned over, most_in_flight, connections;
    bool is_connected;
    usec_t now;
};

static const struct slice recipients[RECIPIENTS] = {SLICE("r0@b"), SLICE("r1@b"), SLICE("r2@b")};

static unsigned below(struct bed *b, unsigned limit)
{
    b->random = b->random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(b->random >> 33) % limit;
}

static uint32_t recipient_count(unsigned message)
{
    return 1 + message % RECIPIENTS;
}

static size_t body_size(unsigned message)
{
    return message % 5 == 0 ? 0 : 2 + message * 7 % (BODY_MAX - 2);
}

static void decide(struct bed *b, unsigned message, unsigned index, const struct outcome_verdict *v)
{
    struct result *r = &b->results[message];
    assert_int_equal(r->texts[index][0], '\0');
    (void)snprintf(r->texts[index], sizeof(r->texts[index]), "%d %s %u", (int)v->class,
                   v->status.text, v->code);
    r->verdicts++;
    r->is_success = r->is_success || v->class == OUTCOME_SUCCESS;
    r->is_ambiguous = r->is_ambiguous || v->is_ambiguous;
}

static void on_end(struct bed *b, unsigned message, bool is_returned)
{
    struct result *r = &b->results[message];
    assert_int_equal(r->verdicts, is_returned ? 0 : recipient_count(message));
    if (is_returned) {
        assert_int_equal(b->receiver.taken[message], 0);
        b->is_started[message] = false;
    } else {
        r->is_over = true;
        b->over++;
    }
}

static void want_body(struct bed *b, unsigned message, bool is_chunk)
{
    assert_in_range(b->body_count, 0, 62);
    b->bodies[(b->body_first + b->body_count++) % 64] = (struct queued_body){
        .position = b->taken + b->client.out.len,
        .size = body_size(message),
        .is_chunk = is_chunk,
        .message = message,
    };
}

static void pull(struct bed *b)
{
    struct smtp_client_event event;
    while (smtp_client_next_event(&b->client, &event)) {
        unsigned message = b->numbers[event.transaction];
        switch ((int)event.kind) {
        case SMTP_CLIENT_WANT_BODY:
            want_body(b, message, event.is_chunk);
            break;
        case SMTP_CLIENT_STOP_BODY:
            b->body_count--;
            break;
        case SMTP_CLIENT_RECIPIENT:
            decide(b, message, event.index, event.verdict);
            break;
        case SMTP_CLIENT_REST:
            for (unsigned i = 0; i < recipient_count(message); i++) {
                if (b->results[message].texts[i][0] == '\0') {
                    decide(b, message, i, event.verdict);
                }
            }
            break;
        case SMTP_CLIENT_DONE:
        case SMTP_CLIENT_RETURNED:
            on_end(b, message, event.kind == SMTP_CLIENT_RETURNED);
            break;
        case SMTP_CLIENT_FAILED:
            fail();
            break;
        case SMTP_CLIENT_CLOSED:
            b->is_connected = false;
            break;
        default:
            break;
        }
    }
}

static void connect(struct bed *b)
{
    static const struct smtp_client_peer peer = {
        .host = SLICE("mx"), .address = SLICE("192.0.2.1"), .nexthop = SLICE("b"), .port = 25};
    if (b->connections++ > 0) {
        smtp_client_fini(&b->client);
    }
    smtp_client_init(&b->client, &b->config, &peer, b->now);
    b->client.pace.depth = b->depth;
    smtp_receiver_connect(&b->receiver);
    b->body_first = b->body_count = 0;
    b->taken = 0;
    b->is_connected = true;
}

static void start(struct bed *b)
{
    for (unsigned i = 0; i < MESSAGES && smtp_client_can_start(&b->client); i++) {
        if (b->is_started[i]) {
            continue;
        }
        const struct smtp_transaction t = {
            .sender = slice_of(b->senders[i]),
            .recipients = recipients,
            .recipient_count = recipient_count(i),
            .size_bytes = body_size(i),
        };
        b->is_started[i] = true;
        b->numbers[b->client.transactions] = i;
        assert_int_equal(smtp_client_start(&b->client, &t, b->now), 0);
        pull(b);
        uint32_t in_flight = smtp_client_in_flight(&b->client);
        b->most_in_flight = in_flight > b->most_in_flight ? in_flight : b->most_in_flight;
        return;
    }
}

/* One write of at most max bytes: commands or body, whichever comes next. */
static void hand_over(struct bed *b, size_t max)
{
    struct queued_body *body = b->body_count > 0 ? &b->bodies[b->body_first % 64] : NULL;
    uint64_t until = body != NULL ? body->position : b->taken + b->client.out.len;
    if (b->taken < until) {
        size_t n = until - b->taken < max ? (size_t)(until - b->taken) : max;
        if (!b->receiver.has_left) {
            buf_append(&b->receiver.in, b->client.out.data, n);
        }
        smtp_client_consume(&b->client, n);
        b->taken += n;
    } else if (body != NULL) {
        char text[BODY_MAX];
        memset(text, 'x', sizeof(text));
        memcpy(text + body->size - (body->size > 0 ? 2 : 0), "\r\n", body->size > 0 ? 2 : 0);
        size_t n = body->size - body->written < max ? body->size - body->written : max;
        if (!b->receiver.has_left) {
            buf_append(&b->receiver.in, text + body->written, n);
        }
        body->written += n;
        smtp_client_body_progress(&b->client, n, b->now);
        if (body->written == body->size && body->is_sent) {
            b->body_first = (b->body_first + 1) % 64;
            b->body_count--;
        }
    }
}

static void send_body(struct bed *b)
{
    struct queued_body *last = &b->bodies[(b->body_first + b->body_count - 1) % 64];
    if (b->body_count > 0 && !last->is_sent) {
        last->is_sent = true;
        smtp_client_body_sent(&b->client, b->now);
        pull(b);
    }
}

static void deliver(struct bed *b, size_t max)
{
    struct buf *out = &b->receiver.out;
    size_t n = out->len < max ? out->len : max;
    struct slice in = slice_make(out->data, n);
    while (in.len > 0) {
        smtp_client_input(&b->client, &in, b->now);
        pull(b);
    }
    buf_consume(out, n);
    if (out->len == 0 && b->receiver.has_left && b->is_connected) {
        smtp_client_eof(&b->client, b->now);
        pull(b);
    }
}

static void run(struct bed *b, const char *features, uint64_t seed, uint16_t depth)
{
    *b = (struct bed){.depth = depth, .random = seed ^ depth, .now = USEC_PER_SEC};
    smtp_client_config_defaults(&b->config);
    b->config.pipeline_depth = depth;
    b->config.chunk_wait = BODY_MAX * 3 / 4;
    b->config.unacked_max = seed % 3 == 0 ? 150 : 4096;
    b->receiver.features = features;
    b->receiver.seed = seed;
    for (unsigned i = 0; i < MESSAGES; i++) {
        (void)snprintf(b->senders[i], sizeof(b->senders[i]), "s%u@a", i);
    }
    for (unsigned steps = 0; b->over < MESSAGES; steps++) {
        assert_in_range(steps, 0, 200000);
        b->now += below(b, 100);
        if (!b->is_connected) {
            connect(b);
        }
        switch (below(b, 8)) {
        case 0:
            start(b);
            break;
        case 1:
            send_body(b);
            break;
        case 2:
        case 3:
        case 4:
            hand_over(b, 1 + below(b, 120));
            break;
        case 5:
            (void)smtp_receiver_step(&b->receiver); /* perhaps there is nothing */
            break;
        default:
            deliver(b, 1 + below(b, 40));
            break;
        }
    }
    smtp_client_fini(&b->client);
    smtp_receiver_fini(&b->receiver);
}

/* What the receiver has and what the client says of it. */
static void check_truth(const struct bed *b)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        const struct result *r = &b->results[i];
        unsigned taken = b->receiver.taken[i];
        if (r->is_ambiguous ? taken > 1 : taken != (r->is_success ? 1 : 0)) {
            fail_msg("seed %lu depth %u message %u (fate %d): taken %u times, \"%s\"%s",
                     (unsigned long)b->receiver.seed, b->depth, i,
                     (int)smtp_receiver_fate(&b->receiver, i), taken, r->texts[0],
                     r->is_ambiguous ? " ambiguous" : "");
        }
    }
}

static void check_same(const struct bed *one, const struct bed *many)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        if (one->results[i].is_ambiguous || many->results[i].is_ambiguous) {
            continue;
        }
        for (unsigned k = 0; k < recipient_count(i); k++) {
            if (strcmp(one->results[i].texts[k], many->results[i].texts[k]) != 0) {
                fail_msg("seed %lu message %u recipient %u: alone \"%s\", at depth %u \"%s\"",
                         (unsigned long)one->receiver.seed, i, k, one->results[i].texts[k],
                         many->depth, many->results[i].texts[k]);
            }
        }
    }
}

static void compare(const char *features, unsigned seeds, unsigned wanted_depth)
{
    struct bed *one = calloc(1, sizeof(*one));
    struct bed *many = calloc(1, sizeof(*many));
    assert_non_null(one);
    assert_non_null(many);
    unsigned most = 0;
    for (unsigned seed = 1; seed <= seeds; seed++) {
        run(one, features, seed, 1);
        check_truth(one);
        assert_int_equal(one->most_in_flight, 1);
        static const uint16_t depths[] = {2, 5, 16};
        for (unsigned i = 0; i < 3; i++) {
            run(many, features, seed, depths[i]);
            check_truth(many);
            check_same(one, many);
            most = many->most_in_flight > most ? many->most_in_flight : most;
        }
    }
    assert_int_equal(most, wanted_depth);
    free(one);
    free(many);
}

static void test_chunking(void **state)
{
    (void)state;
    compare("250-mx\r\n250-PIPELINING\r\n250 CHUNKING\r\n", 150, 16);
}

static void test_pipelining(void **state)
{
    (void)state;
    compare("250-mx\r\n250 PIPELINING\r\n", 100, 2);
}

static void test_lockstep(void **state)
{
    (void)state;
    compare("250 mx\r\n", 50, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunking),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_lockstep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
