/* Reception of one message: what a client says, one command at a time, into the server's core.
 * Called by sluice-instructions. Does what engine/inbound and engine/reception do with the core,
 * the growing of a fresh body buffer included. */
#include "base/packed.h"
#include "bench/stage/stage.h"
#include "net/smtp_server.h"

#include <string.h>

#define STAGE      "receive"
#define BODY_LIMIT (256 << 10) /* as in the engine: never reached here */
#define PIECES     5           /* of a message; the first is its MAIL */

struct reception {
    const struct stage_message *message;
    struct slice recipient;
    struct smtp_server core;
    struct buf body;
    struct buf text; /* what the client says, one piece behind the other */
    struct slice pieces[PIECES];
    uint32_t recipients, messages;
    bool is_closed;
    usec_t now;
};

static bool take_stage_recipients(struct reception *r)
{
    uint32_t count;
    struct slice batch = smtp_server_recipients(&r->core, &count), address;
    smtp_server_received_header(&r->core, SLICE("4cT2bN1x0fRz"),
                                SLICE("Sun, 01 Nov 2026 00:00:00 +0000"), &r->body);
    while (packed_next(&batch, &address)) {
        if (!slice_eq(address, r->recipient)) {
            return stage_fail(STAGE, "another recipient came out than went in");
        }
        r->recipients++;
    }
    return true;
}

static bool take_message(struct reception *r)
{
    struct slice content = buf_slice(&r->message->content);
    struct slice body = buf_slice(&r->body);
    if (body.len <= content.len || memcmp(body.data, "Received: from", 14) != 0 ||
        !slice_eq(slice_from(body, body.len - content.len), content)) {
        return stage_fail(STAGE, "the body that came out is not the one that went in");
    }
    r->messages++;
    smtp_server_answer(&r->core, 250, "2.0.0", "Ok: queued as 4cT2bN1x0fRz", r->now);
    buf_fini(&r->body); /* the engine gives it away with the message */
    buf_init(&r->body, BODY_LIMIT);
    return true;
}

/* Give the server one piece of input and take its reply. returns: whether the reply has the code */
static bool say_to_server(struct reception *r, struct slice in, const char *code)
{
    enum smtp_server_event event;
    r->now += 100;
    do {
        event = smtp_server_step(&r->core, &in, &r->body, r->now);
        if (event == SMTP_SERVER_ENVELOPE) {
            smtp_server_answer(&r->core, 250, "2.1.0", "Ok", r->now);
        } else if (event == SMTP_SERVER_RECIPIENTS) {
            if (!take_stage_recipients(r)) {
                return false;
            }
        } else if (event == SMTP_SERVER_MESSAGE) {
            if (!take_message(r)) {
                return false;
            }
        } else if (event == SMTP_SERVER_CLOSE) {
            r->is_closed = true;
        } else if (event != SMTP_SERVER_INPUT) {
            return stage_fail(STAGE, "the core wants what nobody gave a reason for");
        }
    } while (event != SMTP_SERVER_INPUT && !r->is_closed);
    if (in.len != 0 || r->core.out.len < 3 || memcmp(r->core.out.data, code, 3) != 0) {
        return stage_fail(STAGE, "another reply came than was due");
    }
    buf_consume(&r->core.out, r->core.out.len);
    return true;
}

static bool run_reception(struct reception *r, const struct smtp_server_config *config, uint64_t n)
{
    static const char *const codes[PIECES] = {"250", "250", "354", "250", ""};
    const struct smtp_server_peer peer = {.address = "192.0.2.1", .is_trusted = true};
    smtp_server_init(&r->core, config, &peer, r->now);
    r->is_closed = false;
    bool is_good = say_to_server(r, SLICE(""), "220") &&
                   say_to_server(r, SLICE("EHLO source.test\r\n"), "250");
    for (; is_good && n > 0; n--) {
        for (int i = 0; is_good && r->pieces[i].len > 0; i++) {
            is_good = say_to_server(r, r->pieces[i], codes[i]);
        }
    }
    is_good = is_good && say_to_server(r, SLICE("QUIT\r\n"), "221");
    smtp_server_fini(&r->core);
    return is_good && (r->is_closed || stage_fail(STAGE, "QUIT did not end the session"));
}

static bool write_pieces(struct reception *r)
{
    const struct stage_message *m = r->message;
    size_t ends[PIECES - 1];
    buf_init(&r->text, 0);
    buf_printf(&r->text, "MAIL FROM:<%s>\r\n", m->sender);
    ends[0] = r->text.len;
    buf_printf(&r->text, "RCPT TO:<%s>\r\n", m->recipient);
    ends[1] = r->text.len;
    buf_append_str(&r->text, "DATA\r\n");
    ends[2] = r->text.len;
    buf_append_slice(&r->text, buf_slice(&m->content));
    buf_append_str(&r->text, ".\r\n");
    ends[3] = r->text.len;
    size_t from = 0;
    for (int i = 0; i < PIECES - 1; from = ends[i++]) {
        r->pieces[i] = slice_from(slice_to(buf_slice(&r->text), ends[i]), from);
    }
    return !r->text.failed;
}

bool stage_receive(const struct stage_message *m, uint64_t messages)
{
    struct reception r = {.message = m, .recipient = slice_of(m->recipient)};
    struct smtp_server_config config;
    smtp_server_config_defaults(&config);
    config.hostname = "relay.test";
    config.software = "sluice";
    buf_init(&r.body, BODY_LIMIT);
    bool is_good = write_pieces(&r);
    for (uint64_t left = messages; is_good && left > 0;) {
        uint64_t n = left < STAGE_PER_CONNECTION ? left : STAGE_PER_CONNECTION;
        is_good = run_reception(&r, &config, n);
        left -= n;
    }
    buf_fini(&r.text);
    buf_fini(&r.body);
    return is_good && ((r.messages == messages && r.recipients == messages) ||
                       stage_fail(STAGE, "not all messages came out"));
}
