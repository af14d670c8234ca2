/* Delivery of one message: the client's core against a receiver that knows each byte that is due
 * and says what the script has for it. Called by sluice-instructions. Plays the shell as
 * engine/outbound_socket, engine/outflow and engine/outbound_trace do: commands and the small body
 * are gathered, all of it is written before replies are read, and the dialogue is recorded. */
#include "bench/stage/stage.h"
#include "engine/trace/flight_recorder.h"
#include "net/smtp_client.h"
#include "net/smtp_wire.h"

#include <string.h>

#define STAGE  "deliver"
#define RUNS   32
#define PIECES 4 /* the greeting's answer, envelope, content, end of the session */

/* What the receiver waits for, and what it says then. */
struct piece {
    struct slice due, reply;
};

struct delivery {
    /* the client's side */
    const struct stage_message *message;
    struct slice recipient;
    struct smtp_client core;
    struct buf staged;
    size_t of_commands; /* bytes of core.out among the staged */
    bool has_body;      /* a body is to be staged */
    bool is_ready, is_closed;
    uint64_t left; /* messages to be started in this session */
    uint64_t taken, done;

    /* the receiver's */
    struct buf text; /* of the pieces, one behind the other */
    struct piece pieces[PIECES];
    uint32_t piece;
    uint64_t received, expected; /* messages of this session */
    size_t at;                   /* bytes of the piece that came */
    struct buf replies;

    struct flight_recorder *recorder;
    struct flight *flight;
    uint64_t traced; /* bytes of commands recorded */

    bool has_failed;
    usec_t now;
};

enum { PIECE_EHLO, PIECE_ENVELOPE, PIECE_CONTENT, PIECE_QUIT };

static void fail_delivery(struct delivery *d, const char *what)
{
    if (!d->has_failed) {
        d->has_failed = true;
        (void)stage_fail(STAGE, what);
    }
}

/* --- the receiver ----------------------------------------------------------------------------- */

static void write_next_piece(struct delivery *d)
{
    buf_append_slice(&d->replies, d->pieces[d->piece].reply);
    d->at = 0;
    d->received += d->piece == PIECE_CONTENT;
    if (d->piece == PIECE_CONTENT && d->received < d->expected) {
        d->piece = PIECE_ENVELOPE;
    } else {
        d->piece++;
    }
}

static void receive(struct delivery *d, struct slice in)
{
    while (in.len > 0 && !d->has_failed) {
        if (d->piece == PIECES) {
            fail_delivery(d, "bytes came behind the end of the session");
            return;
        }
        struct slice due = slice_from(d->pieces[d->piece].due, d->at);
        size_t len = in.len < due.len ? in.len : due.len;
        if (memcmp(in.data, due.data, len) != 0) {
            fail_delivery(d, "other bytes came than were due");
            return;
        }
        in = slice_from(in, len);
        d->at += len;
        if (len == due.len) {
            write_next_piece(d);
        }
    }
}

static bool write_pieces(struct delivery *d)
{
    const struct stage_message *m = d->message;
    size_t ends[PIECES];
    buf_init(&d->text, 0);
    buf_append_str(&d->text, "EHLO relay.test\r\n");
    ends[PIECE_EHLO] = d->text.len;
    buf_printf(&d->text, "MAIL FROM:<%s> SIZE=%zu\r\nRCPT TO:<%s>\r\nDATA\r\n", m->sender,
               m->content.len, m->recipient);
    ends[PIECE_ENVELOPE] = d->text.len;
    buf_append_slice(&d->text, buf_slice(&m->content));
    buf_append_str(&d->text, ".\r\n");
    ends[PIECE_CONTENT] = d->text.len;
    buf_append_str(&d->text, "QUIT\r\n");
    ends[PIECE_QUIT] = d->text.len;
    size_t from = 0;
    for (int i = 0; i < PIECES; from = ends[i++]) {
        d->pieces[i].due = slice_from(slice_to(buf_slice(&d->text), ends[i]), from);
    }
    d->pieces[PIECE_EHLO].reply = SLICE("250-mx.example.test\r\n250-PIPELINING\r\n"
                                        "250-SIZE 52428800\r\n250-ENHANCEDSTATUSCODES\r\n"
                                        "250-8BITMIME\r\n250 SMTPUTF8\r\n");
    d->pieces[PIECE_ENVELOPE].reply = SLICE("250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n"
                                            "354 End data with <CR><LF>.<CR><LF>\r\n");
    d->pieces[PIECE_CONTENT].reply = SLICE("250 2.0.0 Ok: queued as 5dU3cO2y1gSa\r\n");
    d->pieces[PIECE_QUIT].reply = SLICE("221 2.0.0 Bye\r\n");
    return !d->text.failed;
}

/* --- the client ------------------------------------------------------------------------------- */

static void trace_commands(struct delivery *d)
{
    uint64_t end = d->core.out_taken + d->core.out.len;
    if (d->traced < end) {
        struct slice more = slice_from(buf_slice(&d->core.out), d->traced - d->core.out_taken);
        d->traced = end;
        flight_append(d->recorder, d->flight, DIALOGUE_SAID, more, d->now);
    }
}

static void take_client_event(struct delivery *d, const struct smtp_client_event *e)
{
    switch (e->kind) {
    case SMTP_CLIENT_READY:
        d->is_ready = true;
        break;
    case SMTP_CLIENT_WANT_BODY:
        d->has_body = !e->is_chunk;
        trace_commands(d);
        flight_body(d->recorder, d->flight, 1, d->message->content.len, d->now);
        break;
    case SMTP_CLIENT_RECIPIENT:
    case SMTP_CLIENT_REST:
        d->taken += e->verdict->class == OUTCOME_SUCCESS && e->verdict->code == 250;
        break;
    case SMTP_CLIENT_DONE:
        d->done += e->is_complete;
        break;
    case SMTP_CLIENT_CLOSED:
        d->is_closed = true;
        break;
    case SMTP_CLIENT_WANT_TLS:
    case SMTP_CLIENT_STOP_BODY:
    case SMTP_CLIENT_RETURNED:
    case SMTP_CLIENT_FAILED:
    case SMTP_CLIENT_NONE:
    case SMTP_CLIENT_EVENT_COUNT:
    default:
        fail_delivery(d, "the core tells what nobody gave a reason for");
    }
}

static void take_events(struct delivery *d)
{
    struct smtp_client_event e;
    while (smtp_client_next_event(&d->core, &e)) {
        take_client_event(d, &e);
    }
}

/* Events, then whatever can begin. */
static void drain(struct delivery *d)
{
    take_events(d);
    while (d->left > 0 && d->is_ready && smtp_client_can_start(&d->core) && !d->has_failed) {
        const struct smtp_transaction t = {.sender = slice_of(d->message->sender),
                                           .recipients = &d->recipient,
                                           .recipient_count = 1,
                                           .size_bytes = d->message->content.len};
        d->left--;
        if (smtp_client_start(&d->core, &t, d->now) != 0) {
            fail_delivery(d, "a transaction was not begun");
        }
        take_events(d);
    }
    if (d->left == 0 && d->is_ready && d->core.state == SMTP_CLIENT_STATE_IDLE) {
        smtp_client_quit(&d->core, d->now);
        take_events(d);
    }
}

static void stage_body(struct delivery *d)
{
    struct slice rest = buf_slice(&d->message->content), runs[RUNS];
    struct smtp_wire wire;
    smtp_wire_init(&wire);
    while (rest.len > 0) {
        int count = smtp_wire_runs(&wire, &rest, runs, RUNS);
        if (count < 0) {
            fail_delivery(d, "the body was found malformed");
            return;
        }
        for (int i = 0; i < count; i++) {
            buf_append_slice(&d->staged, runs[i]);
        }
    }
    if (smtp_wire_end(&wire, &runs[0]) != 0 || runs[0].len != 0) {
        fail_delivery(d, "the body was found without its line end");
    }
    d->has_body = false;
    smtp_client_body_sent(&d->core, d->now);
    drain(d);
}

/* Write all that is to be said, in its order, in one piece. */
static void write_out(struct delivery *d)
{
    size_t commands = 0;
    for (;;) {
        struct slice more = slice_from(buf_slice(&d->core.out), commands);
        if (more.len > 0) {
            trace_commands(d);
            buf_append_slice(&d->staged, more);
            commands += more.len;
        } else if (d->has_body && !d->has_failed) {
            stage_body(d);
        } else {
            break;
        }
    }
    receive(d, buf_slice(&d->staged));
    smtp_client_consume(&d->core, commands);
    smtp_client_body_progress(&d->core, d->staged.len - commands, d->now);
    buf_fini(&d->staged); /* as the engine does */
}

static void read_replies(struct delivery *d)
{
    struct slice in = buf_slice(&d->replies);
    flight_append(d->recorder, d->flight, DIALOGUE_HEARD, in, d->now);
    while (in.len > 0 && !d->is_closed && !d->has_failed) {
        smtp_client_input(&d->core, &in, d->now);
        drain(d);
    }
    buf_clear(&d->replies);
}

static bool run_delivery(struct delivery *d, const struct smtp_client_config *config, uint64_t n)
{
    const struct smtp_client_peer peer = {.host = SLICE("mx.example.test"),
                                          .address = SLICE("192.0.2.2"),
                                          .nexthop = slice_of(d->message->domain),
                                          .port = 25};
    const struct flight_names names = {.destination = peer.nexthop,
                                       .host = peer.host,
                                       .address = peer.address,
                                       .source = SLICE("")};
    flight_begin(d->recorder, &d->flight, &names, 1, d->now);
    d->traced = 0;
    d->left = d->expected = n;
    d->received = 0;
    d->piece = 0;
    d->is_ready = d->is_closed = false;
    smtp_client_init(&d->core, config, &peer, d->now);
    buf_append_str(&d->replies, "220 mx.example.test ESMTP\r\n");
    while (!d->is_closed && !d->has_failed) {
        d->now += 200;
        if (d->replies.len == 0) {
            fail_delivery(d, "both sides wait");
        }
        read_replies(d);
        d->now += 200;
        write_out(d);
    }
    if (d->received != n || d->piece != PIECES) {
        fail_delivery(d, "not all bytes of the session came");
    }
    flight_end(d->recorder, d->flight);
    smtp_client_fini(&d->core);
    buf_clear(&d->replies); /* nobody waits for the answer to QUIT */
    return !d->has_failed;
}

bool stage_deliver(const struct stage_message *m, uint64_t messages)
{
    struct delivery d = {.message = m, .recipient = slice_of(m->recipient)};
    struct smtp_client_config config;
    smtp_client_config_defaults(&config);
    config.ehlo_name = SLICE("relay.test");
    config.use_chunking = false;
    buf_init(&d.staged, 0);
    buf_init(&d.replies, 0);
    d.recorder = flight_recorder_new(1 << 20, 1);
    bool is_good = d.recorder != NULL && write_pieces(&d);
    for (uint64_t left = messages; is_good && left > 0;) {
        uint64_t n = left < STAGE_PER_CONNECTION ? left : STAGE_PER_CONNECTION;
        is_good = run_delivery(&d, &config, n);
        left -= n;
    }
    flight_recorder_free(d.recorder);
    buf_fini(&d.text);
    buf_fini(&d.staged);
    buf_fini(&d.replies);
    return is_good && ((d.taken == messages && d.done == messages) ||
                       stage_fail(STAGE, "not all messages were taken"));
}
