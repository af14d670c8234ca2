/* What an outbound connection tells the flight recorder of its worker: the facts of its socket in
 * words, its dialogue as bytes. Called by outbound.c and outbound_socket.c; decides nothing. */
#include "base/error.h"
#include "engine/outbound/outbound_private.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"
#include "engine/trace/flight_recorder.h"
#include "engine/trace/recording.h"

#include <stdio.h>
#include <stdlib.h>

static void note(struct outbound *c, struct slice text)
{
    struct worker *w = c->worker;
    flight_append(w->recorder, c->flight, DIALOGUE_NOTE, text, w->now);
}

void outbound_trace_note(struct outbound *c, const char *what, const char *detail)
{
    char text[FLIGHT_WHY_MAX];
    if (c->flight != NULL) {
        int len = snprintf(text, sizeof(text), "%s%s", what, detail);
        size_t size = (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1;
        note(c, slice_make(text, len < 0 ? 0 : size));
    }
}

static void begin_flight(struct outbound *c)
{
    struct worker *w = c->worker;
    const struct request *first = list_first(&c->waiting, const struct request, link);
    const struct flight_names names = {
        .transport = c->transport,
        .destination = first->delivery->destination,
        .host = c->hosts->list[c->host].name,
        .address = slice_of(c->address),
        .source = egress_source_name(&c->egress),
    };
    uint64_t session = atomic_fetch_add_explicit(&w->engine->next_session, 1, memory_order_relaxed);
    flight_begin(w->recorder, &c->flight, &names, session, w->now);
}

void outbound_trace_connect(struct outbound *c)
{
    char text[FLIGHT_WHY_MAX], source[EGRESS_TEXT_MAX];
    if (recording_of(c->worker) == NULL) {
        return;
    }
    if (c->flight == NULL) {
        begin_flight(c); /* else the same server once more, in clear */
    }
    if (c->flight != NULL) {
        (void)snprintf(text, sizeof(text), "[%s]:%u%s", c->address,
                       (unsigned)c->hosts->list[c->host].port, egress_describe(&c->egress, source));
        outbound_trace_note(c, "connect to ", text);
    }
}

void outbound_trace_connected(struct outbound *c)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);
    struct ip ip;
    uint16_t port;
    char address[IP_TEXT_MAX], text[IP_TEXT_MAX + 16];
    if (c->flight == NULL) {
        return;
    }
    text[0] = '\0';
    if (getsockname(c->stream.fd, (struct sockaddr *)&local, &len) == 0 &&
        ip_from_sockaddr(&local, &ip, &port) == 0) {
        (void)snprintf(text, sizeof(text), " from [%s]:%u", ip_text(&ip, address), (unsigned)port);
    }
    outbound_trace_note(c, egress_proxy(&c->egress) == NULL ? "connected" : "connected to proxy",
                        text);
}

void outbound_trace_resume(struct outbound *c)
{
    if (c->flight != NULL) {
        flight_resume(c->worker->recorder, c->flight);
    } else if (c->worker->recorder != NULL) {
        begin_flight(c);
        outbound_trace_note(c, "a connection that was idle goes on", "");
    }
}

void outbound_trace_carry(struct outbound *c, const struct delivery *d)
{
    flight_carry(c->worker->recorder, c->flight, d->destination);
}

void outbound_trace_rest(struct outbound *c)
{
    flight_rest(c->worker->recorder, c->flight);
}

/* --- the dialogue ----------------------------------------------------------------------------- */

/* Only the core's state tells what part of an AUTH exchange is: base64 looks like anything. */
void outbound_trace_commands(struct outbound *c)
{
    struct worker *w = c->worker;
    uint64_t end = c->smtp.out_taken + c->smtp.out.len;
    if (c->traced >= end) {
        return;
    }
    struct slice commands = slice_from(buf_slice(&c->smtp.out), c->traced - c->smtp.out_taken);
    c->traced = end;
    if (c->flight == NULL) {
        return;
    }
    if (c->smtp.state == SMTP_CLIENT_STATE_AUTH) {
        c->flight->auth = c->smtp.config;
        flight_auth(w->recorder, c->flight, commands, w->now);
    } else {
        flight_append(w->recorder, c->flight, DIALOGUE_SAID, commands, w->now);
    }
}

void outbound_trace_body(struct outbound *c, const struct message *m)
{
    outbound_trace_commands(c);
    struct slice signatures = signing_note(m->signing);
    if (signatures.len > 0 && c->flight != NULL) {
        note(c, signatures);
    }
    flight_body(c->worker->recorder, c->flight, m->envelope.id, message_sent_bytes(m),
                c->worker->now);
}

void outbound_trace_heard(struct outbound *c, struct slice replies)
{
    flight_append(c->worker->recorder, c->flight, DIALOGUE_HEARD, replies, c->worker->now);
}

void outbound_trace_tls(struct outbound *c, const char *failure)
{
    char text[FLIGHT_WHY_MAX];
    const struct tls_facts *t = &c->tls;
    if (c->flight == NULL) {
        return;
    }
    if (t->protocol != NULL) {
        (void)snprintf(text, sizeof(text), "%s %s%s, certificate: %s%s%s", t->protocol, t->cipher,
                       t->is_resumed ? ", resumed" : "", t->verdict == NULL ? "none" : t->verdict,
                       t->verify_text == NULL ? "" : ", ",
                       t->verify_text == NULL ? "" : t->verify_text);
        outbound_trace_note(c, "TLS: ", text);
    }
    if (failure != NULL) {
        outbound_trace_note(c, "TLS failed: ", failure);
    }
}

void outbound_trace_verdict(struct outbound *c, const struct outcome_verdict *v)
{
    struct worker *w = c->worker;
    if (c->flight == NULL) {
        return;
    }
    if (v->class == OUTCOME_SUCCESS) {
        c->flight->messages++;
        return;
    }
    if (v->code == 0) { /* no reply says it */
        note(c, v->text);
    }
    flight_fail(w->recorder, c->flight, v->text);
}

void outbound_trace_unreachable(struct outbound *c, const char *why)
{
    if (c->flight == NULL) {
        outbound_trace_connect(c); /* it did not come so far */
    }
    outbound_trace_note(c, "no connection: ", why);
    flight_fail(c->worker->recorder, c->flight, slice_of(why));
}

void outbound_trace_lost(struct outbound *c, int err)
{
    if (err == 0) {
        outbound_trace_note(c, "the server closed the connection", "");
    } else {
        outbound_trace_note(
            c, "the connection failed: ", err == ERR_TLS ? c->stream.error : err_str(err));
    }
}

void outbound_trace_end(struct outbound *c)
{
    if (c->flight != NULL) {
        note(c, SLICE("closed"));
        flight_end(c->worker->recorder, c->flight);
    }
}
