/* The content of a message on its way in: DATA, BDAT chunks, the verdict at the end, and the
 * Received field. Called by the state machine; the bytes themselves are smtp_body's matter. */
#include "net/smtp_server_private.h"

#include <assert.h>

#define BODY_LIMIT_LOWEST 1024 /* bytes the shell's buffer must be able to hold */

void smtp_server_begin_body(struct smtp_server *server, bool has_dots)
{
    const struct smtp_server_config *config = server->config;
    struct smtp_body_limits limits = {
        .size = config->message_size_limit,
        .header_size = config->header_size_limit,
        .line = config->text_line_limit,
        .header_fields = config->header_fields_limit,
        .fix_bare_lf = config->fix_bare_lf,
    };

    smtp_body_init(&server->body, &limits, has_dots);
}

/* Bytes of content buy time at min_data_rate, up to command_timeout from now: a peer that drips
 * runs out of it (Postfix smtpd_min_data_rate). */
static void credit_time(struct smtp_server *server, size_t bytes)
{
    const struct smtp_server_config *config = server->config;
    usec_t most = server->now + config->command_timeout;

    if (bytes == 0) {
        return;
    }
    if (config->min_data_rate == 0) {
        server->deadline = most;
        return;
    }
    usec_t bought = (usec_t)((uint64_t)bytes * USEC_PER_SEC / config->min_data_rate);
    server->deadline = bought > most - server->deadline ? most : server->deadline + bought;
}

static const struct {
    int code;
    const char *text;
} fault_replies[SMTP_BODY_FAULT_COUNT] = {
    [SMTP_BODY_OK] = {0, NULL},
    [SMTP_BODY_BARE_CR] = {550, "5.6.11 Error: bare <CR> in message"},
    [SMTP_BODY_BARE_LF] = {550, "5.6.11 Error: bare <LF> in message"},
    [SMTP_BODY_NUL] = {550, "5.6.11 Error: NUL in message"},
    [SMTP_BODY_TOO_LARGE] = {552, "5.3.4 Message size exceeds fixed limit"},
    [SMTP_BODY_LINE_TOO_LONG] = {554, "5.6.0 Error: line too long in message"},
    [SMTP_BODY_HEADER_TOO_LARGE] = {554, "5.6.0 Error: message header too large"},
    [SMTP_BODY_NO_MEMORY] = {452, "4.3.1 Error: out of memory"},
};

/* Refuse the content read so far when something is wrong with it; the transaction is over. */
static bool refuse_content(struct smtp_server *server)
{
    enum smtp_body_fault fault = server->body.fault;

    if (server->has_failed) {
        smtp_server_reply(server, server->fail_code, server->fail_text);
    } else if (fault != SMTP_BODY_OK) {
        smtp_server_error(server, fault_replies[fault].code, fault_replies[fault].text);
    } else if (server->body.facts.received_count > server->config->hop_limit) {
        smtp_server_error(server, 554, "5.4.6 Error: too many hops");
    } else {
        return false;
    }
    smtp_server_reset(server);
    server->state = SMTP_SERVER_COMMAND;
    smtp_server_restart_clock(server);
    return true;
}

/* Decode part, which is the start of in. */
static enum smtp_body_result decode_part(struct smtp_server *server, struct slice part,
                                         struct slice *in, struct buf *body)
{
    const char *start = part.data;

    if (server->has_failed && server->body.fault == SMTP_BODY_OK) {
        server->body.fault = SMTP_BODY_NO_MEMORY; /* nobody wants the bytes any more */
    }
    enum smtp_body_result result = smtp_body_decode(&server->body, &part, body);
    size_t used = (size_t)(part.data - start);
    *in = slice_from(*in, used);
    credit_time(server, used);
    if (smtp_server_is_absurd_size(server, server->body.facts.size)) {
        smtp_server_bye(server, 552, "5.3.4 Message size exceeds fixed limit");
    }
    return result;
}

static enum smtp_server_event read_data(struct smtp_server *server, struct slice *in,
                                        struct buf *body)
{
    if (in->len == 0) {
        return SMTP_SERVER_INPUT;
    }
    enum smtp_body_result result = decode_part(server, *in, in, body);
    if (server->state == SMTP_SERVER_CLOSING) {
        return SMTP_SERVER_GO_ON;
    }
    if (result == SMTP_BODY_END) {
        server->state = SMTP_SERVER_BODY_END;
    }
    return result == SMTP_BODY_FULL ? SMTP_SERVER_BODY : SMTP_SERVER_GO_ON;
}

static struct slice chunk_part(const struct smtp_server *server, struct slice in)
{
    return server->chunk_left < in.len ? slice_to(in, (size_t)server->chunk_left) : in;
}

/* A chunk is complete. */
static enum smtp_server_event end_chunk(struct smtp_server *server, struct buf *body)
{
    if (server->is_last_chunk) {
        if (smtp_body_finish(&server->body, body) == SMTP_BODY_FULL) {
            return SMTP_SERVER_BODY;
        }
        server->state = SMTP_SERVER_BODY_END;
        return SMTP_SERVER_GO_ON;
    }
    if (!refuse_content(server)) {
        server->state = SMTP_SERVER_COMMAND;
        smtp_server_restart_clock(server);
        smtp_server_reply(server, 250, "2.0.0 Ok");
    }
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event read_chunk(struct smtp_server *server, struct slice *in,
                                         struct buf *body)
{
    if (server->chunk_left == 0) {
        return end_chunk(server, body);
    }
    if (in->len == 0) {
        return SMTP_SERVER_INPUT;
    }
    struct slice part = chunk_part(server, *in);
    const char *start = in->data;
    enum smtp_body_result result = decode_part(server, part, in, body);
    if (server->state == SMTP_SERVER_CLOSING) {
        return SMTP_SERVER_GO_ON;
    }
    server->chunk_left -= (uint64_t)(in->data - start);
    return result == SMTP_BODY_FULL ? SMTP_SERVER_BODY : SMTP_SERVER_GO_ON;
}

static enum smtp_server_event skip_chunk(struct smtp_server *server, struct slice *in)
{
    if (server->chunk_left > 0) {
        size_t len = chunk_part(server, *in).len;
        if (len == 0) {
            return SMTP_SERVER_INPUT;
        }
        *in = slice_from(*in, len);
        server->chunk_left -= len;
        credit_time(server, len);
        return SMTP_SERVER_GO_ON;
    }
    server->state = SMTP_SERVER_COMMAND;
    smtp_server_restart_clock(server);
    smtp_server_error(server, server->skip_code, server->skip_text);
    return SMTP_SERVER_GO_ON;
}

static enum smtp_server_event end_message(struct smtp_server *server)
{
    if (refuse_content(server)) {
        return SMTP_SERVER_GO_ON;
    }
    server->is_staged = false;
    server->state = SMTP_SERVER_MESSAGE_WAIT;
    return SMTP_SERVER_MESSAGE;
}

enum smtp_server_event smtp_server_read_body(struct smtp_server *server, struct slice *in,
                                             struct buf *body)
{
    if (server->state == SMTP_SERVER_SKIP) {
        return skip_chunk(server, in);
    }
    assert(body != NULL && body->limit >= BODY_LIMIT_LOWEST);
    if (server->state == SMTP_SERVER_DATA) {
        return read_data(server, in, body);
    }
    return server->state == SMTP_SERVER_CHUNK ? read_chunk(server, in, body) : end_message(server);
}

static void write_client(const struct smtp_server *server, struct buf *out)
{
    bool is_ipv6 = slice_find(slice_of(server->peer), ':') < strlen(server->peer);

    buf_append_str(out, " from ");
    buf_append_str(out, server->helo);
    buf_append_str(out, is_ipv6 ? "\r\n\t([IPv6:" : "\r\n\t([");
    buf_append_str(out, server->peer);
    buf_append_str(out, "])\r\n\t");
}

void smtp_server_received_header(const struct smtp_server *server, struct slice id,
                                 struct slice date, struct buf *out)
{
    const char *protocol = "SMTP";
    if (server->is_smtputf8) {
        protocol = "UTF8SMTP";
    } else if (server->is_esmtp) {
        protocol = "ESMTP";
    }
    bool has_suffix = server->is_esmtp || server->is_smtputf8;

    buf_append_str(out, "Received:");
    if (server->config->hides_client) {
        buf_append_str(out, " ");
    } else {
        write_client(server, out);
    }
    if (server->is_tls) {
        buf_printf(out, "(using %s with cipher %s)\r\n\t", server->tls_version, server->tls_cipher);
    }
    buf_append_str(out, "by ");
    buf_append_str(out, server->config->hostname);
    if (server->config->software[0] != '\0') {
        buf_append_str(out, " (");
        buf_append_str(out, server->config->software);
        buf_append_str(out, ")");
    }
    buf_append_str(out, "\r\n\twith ");
    buf_append_str(out, protocol);
    buf_append_str(out, has_suffix && server->is_tls ? "S" : "");
    buf_append_str(out, has_suffix && server->is_authenticated ? "A" : "");
    buf_append_str(out, " id ");
    buf_append_slice(out, id);
    buf_append_str(out, ";\r\n\t");
    buf_append_slice(out, date);
    buf_append_str(out, "\r\n");
}
