#include "engine/writer/notice.h"

#include "base/error.h"
#include "base/json_line.h"
#include "base/log.h"
#include "base/packed.h"
#include "engine/config/config.h"
#include "engine/event/event.h"
#include "engine/post/intake.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/post/signing.h"
#include "engine/reply/reply.h"
#include "engine/reply/reply_set.h"
#include "engine/spool/spool_store.h"
#include "engine/writer/bounce.h"
#include "engine/writer/notice_recipients.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS_MAX = 64, /* chunks of an original that comes back whole: 4 MB */
    HOST_MAX = 255, /* bytes of a host's name in an event line */
    ADDRESS_MAX = 64,
    SITE_MAX = HOST_MAX + ADDRESS_MAX + 3 + JSON_LINE_NUMBER_MAX,
};

/* The original's text, as much of it as the notice may carry. Valid until the reader ends. */
static size_t original(struct spool_reader *reader, const struct message *m, bool headers_only,
                       struct slice parts[PARTS_MAX])
{
    size_t count = 0;
    uint32_t chunks = m->envelope.chunk_count == 0 ? 1 : m->envelope.chunk_count;
    if (message_body(m, &parts[0])) {
        return 1;
    }
    if (headers_only) {
        chunks = 1;
    }
    for (uint32_t i = 0; i < chunks && count < PARTS_MAX; i++) {
        if (spool_read_chunk(reader, m->envelope.id, i, &parts[count]) != 0) {
            break; /* a damaged chunk: the notice carries the text in front of it */
        }
        count++;
    }
    return count;
}

static uint32_t body_flags(struct slice body, bool is_utf8)
{
    uint32_t flags = SPOOL_FLAG_BOUNCE | (is_utf8 ? SPOOL_FLAG_UTF8 : 0);
    bool at_start = true;
    for (size_t i = 0; i < body.len; i++) {
        if ((unsigned char)body.data[i] > 127) {
            flags |= SPOOL_FLAG_8BIT;
        }
        if (at_start && body.data[i] == '.') {
            flags |= SPOOL_FLAG_LEADING_DOT;
        }
        at_start = body.data[i] == '\n';
    }
    return flags;
}

static enum bounce_kind bounce_kind(enum notice_kind kind)
{
    if (kind == NOTICE_DELAYED) {
        return BOUNCE_DELAY;
    }
    return kind == NOTICE_CLEARED ? BOUNCE_CLEARED : BOUNCE_FAILURE;
}

static int format(const struct config *config, struct spool_reader *reader, const struct message *m,
                  const struct notice_head *head, struct buf *body, bool *ret_utf8)
{
    struct notice_recipients about;
    struct slice parts[PARTS_MAX];
    char text[MESSAGE_ID_TEXT];
    message_id_format(m->envelope.id, text);
    const struct bounce_config bc = {
        .hostname = slice_of(config->hostname),
        .size_limit = config->bounce_size_limit,
        .now = head->now,
        .retry_until = message_expires(m, config),
        .unique = head->id,
    };
    struct bounce_message bm = {
        .id = slice_of(text),
        .sender = m->envelope.sender,
        .arrival = m->envelope.created,
        .is_smtputf8 = (m->envelope.flags & SPOOL_FLAG_UTF8) != 0,
        .parts = parts,
        /* RFC 8689 section 5: what had to be protected is not given back. */
        .is_headers_only = m->envelope.size_bytes > config->bounce_size_limit ||
                           (m->envelope.flags & SPOOL_FLAG_REQUIRE_TLS) != 0,
    };
    int err = spool_reader_begin(reader);
    if (err != 0) {
        return err;
    }
    err = notice_recipients_gather(&about, reader, m, head->kind);
    bm.left_out = about.left_out;
    if (err == 0 && about.count == 0) {
        err = ERR_MISSING;
    }
    if (err == 0) {
        bm.part_count = original(reader, m, bm.is_headers_only, parts);
        const struct bounce_news news = {bounce_kind(head->kind), about.list, about.count};
        err = bounce_format(body, &bc, &bm, &news, ret_utf8);
    }
    notice_recipients_fini(&about);
    spool_reader_end(reader);
    return err;
}

int notice_new(const struct config *config, struct spool_reader *reader, const struct message *m,
               const struct notice_head *head, struct intake **ret)
{
    struct intake *in = intake_new();
    bool is_utf8 = false;
    if (in == NULL) {
        return -ENOMEM;
    }
    int err = format(config, reader, m, head, &in->body, &is_utf8);
    packed_append(&in->packed, m->envelope.sender);
    if (err == 0 && (in->packed.failed || in->body.failed)) {
        err = -ENOMEM;
    }
    if (err != 0) {
        intake_free(in);
        return err;
    }
    in->packed_count = 1;
    in->is_last = true; /* one part has all of it */
    in->envelope = (struct spool_envelope){
        .id = head->id,
        .created = head->now,
        .size_bytes = in->body.len,
        .recipient_count = 1,
        .flags = body_flags(buf_slice(&in->body), is_utf8) |
                 spool_class_flags(spool_mail_class(m->envelope.flags)) |
                 (m->envelope.flags & SPOOL_FLAG_REQUIRE_TLS),
        .sender = SLICE(""),
        .peer_name = SLICE(""),
        .peer_address = SLICE(""),
        .protocol = SLICE("Notice"),
        .auth_user = SLICE(""),
    };
    in->message = intake_message(in);
    *ret = in;
    return 0;
}

/* --- event lines ------------------------------------------------------------------------------ */

static struct slice class_text(const struct spool_envelope *e)
{
    return slice_of(mail_class_text(spool_mail_class(e->flags)));
}

void notice_log_reception(struct buf *log, const struct intake *in, usec_t now)
{
    const struct spool_envelope *e = &in->envelope;
    char id[MESSAGE_ID_TEXT];
    struct slice packed = buf_slice(&in->packed), first = SLICE("");
    message_id_format(e->id, id);
    (void)packed_next(&packed, &first); /* staged recipients are not here: none in the line */
    const struct event event = {
        .type = EVENT_RECEPTION,
        .id = slice_make(id, MESSAGE_ID_TEXT - 1),
        .sender = e->sender,
        .recipient = first,
        .recipient_count = e->recipient_count,
        .size = e->size_bytes,
        .peer_name = e->peer_name,
        .peer_address = e->peer_address,
        .created = e->created,
        .event_time = now,
        .reception_protocol = e->protocol,
        .source_transport = slice_eq(e->protocol, SLICE("HTTP")) ? SLICE("http") : SLICE(""),
        .tenant = e->tenant,
        .campaign = e->campaign,
        .mail_class = class_text(e),
    };
    event_format(log, &event);
}

static uint16_t number_after(const char *status, int dots)
{
    while (dots > 0 && *status != '\0') {
        dots -= *status++ == '.';
    }
    return (uint16_t)strtoul(status, NULL, 10);
}

static char *append_cut(char *at, struct slice text, size_t most)
{
    size_t len = text.len < most ? text.len : most;
    memcpy(at, text.data, len);
    return at + len;
}

/* "mx.example[192.0.2.1]:25" */
static struct slice format_site(const struct result *r, char text[SITE_MAX])
{
    if (r->host_address.len == 0) {
        return SLICE("");
    }
    char *at = append_cut(text, r->host_name, HOST_MAX);
    *at++ = '[';
    at = append_cut(at, r->host_address, ADDRESS_MAX);
    *at++ = ']';
    *at++ = ':';
    at = json_line_unsigned(at, r->port);
    return slice_make(text, (size_t)(at - text));
}

static struct slice transport_name(const struct config *config, uint16_t transport)
{
    return transport < config->transport_count ? slice_of(config->transports[transport].name)
                                               : SLICE("");
}

void notice_log_result(struct buf *log, const struct config *config, const struct message *m,
                       const struct result *r, const struct result_recipient *to)
{
    static const enum event_type types[RESULT_KIND_COUNT] = {
        [RESULT_DELIVERED] = EVENT_DELIVERY,    [RESULT_DEFERRED] = EVENT_TRANSIENT_FAILURE,
        [RESULT_FAILED] = EVENT_BOUNCE,         [RESULT_DROPPED] = EVENT_ADMIN_DROP,
        [RESULT_SUPPRESSED] = EVENT_SUPPRESSED,
    };
    assert(to->kind != RESULT_PARKED);
    char id[MESSAGE_ID_TEXT], site[SITE_MAX];
    message_id_format(m->envelope.id, id);
    const struct event_stamps stamps = {
        .arrival = m->envelope.created,
        .active = m->activated,
        .agent = r->dispatched,
        .connected = r->connected,
        .done = r->done,
    };
    const struct event event = {
        .type = r->order != 0 && to->kind == RESULT_FAILED ? EVENT_ADMIN_BOUNCE : types[to->kind],
        .id = slice_make(id, MESSAGE_ID_TEXT - 1),
        .sender = m->envelope.sender,
        .recipient = message_address(m, to->index),
        .queue = r->destination,
        .transport = transport_name(config, r->transport),
        .site = format_site(r, site),
        .size = m->envelope.size_bytes,
        .response = {.code = to->code,
                     .class_ = number_after(to->status, 0),
                     .subject = number_after(to->status, 1),
                     .detail = number_after(to->status, 2),
                     .content = result_text(r, to)},
        .bounce_classification = slice_of(reply_class_text((enum reply_class)to->class)),
        .peer_name = r->host_name,
        .peer_address = r->host_address,
        .created = m->envelope.created,
        .event_time = r->done,
        .num_attempts = m->retry.attempts + 1,
        .egress_source = r->source,
        .delivery_protocol = r->host_address.len > 0 ? SLICE("ESMTP") : SLICE(""),
        .tls_protocol_version = r->tls_protocol,
        .tls_cipher = r->tls_cipher,
        .tls_verdict = r->tls_verdict,
        .is_tls_resumed = r->is_tls_resumed,
        .is_ambiguous = r->is_ambiguous && to->kind == RESULT_DEFERRED,
        .tenant = m->envelope.tenant,
        .campaign = m->envelope.campaign,
        .mail_class = class_text(&m->envelope),
        .members = signing_event(m->signing),
        .stamps = &stamps,
        .delay_resolution = 2,
    };
    event_format(log, &event);
}

/* What the last reply to a stored recipient means by the rules in force. */
static enum reply_class class_of_stored(const struct notice_log *log, struct slice text)
{
    struct reply reply;
    struct reply_verdict v;
    if (log->matcher == NULL || log->replies == NULL) {
        return REPLY_CLASS_NONE;
    }
    reply_read(text, &reply);
    if (reply.code == 0) {
        return REPLY_CLASS_NONE;
    }
    reply_set_classify(log->replies, log->matcher, &reply, &v);
    return v.class;
}

static void log_expired(struct buf *log, const struct message *m, struct slice recipient,
                        struct slice text, enum reply_class class, usec_t now)
{
    char id[MESSAGE_ID_TEXT];
    message_id_format(m->envelope.id, id);
    const struct event event = {
        .type = EVENT_EXPIRATION,
        .id = slice_make(id, MESSAGE_ID_TEXT - 1),
        .sender = m->envelope.sender,
        .recipient = recipient,
        .size = m->envelope.size_bytes,
        .response = {.class_ = 4, .subject = 4, .detail = 7, .content = text},
        .bounce_classification = slice_of(reply_class_text(class)),
        .created = m->envelope.created,
        .event_time = now,
        .num_attempts = m->retry.attempts + 1,
        .tenant = m->envelope.tenant,
        .campaign = m->envelope.campaign,
        .mail_class = class_text(&m->envelope),
    };
    event_format(log, &event);
}

static int log_stored_expired(const struct notice_log *log, struct spool_reader *reader,
                              struct message *m, usec_t now, unsigned limit)
{
    struct notice_stored walk;
    struct notice_stored_recipient to;
    int err = notice_stored_begin(&walk, reader, m, m->account.expiry_from);
    bool has_more = true;
    for (unsigned i = 0; err == 0 && i < limit; i++) {
        has_more = notice_stored_next(&walk, &to);
        if (!has_more) {
            break;
        }
        m->account.expiry_from = to.index + 1;
        if (recipient_is_undone(to.state)) {
            log_expired(log->lines, m, to.address, to.text, class_of_stored(log, to.text), now);
            notice_log_flush(log);
        }
    }
    int end = notice_stored_end(&walk);
    err = err != 0 ? err : end;
    m->account.expiry_from =
        err == 0 && !has_more ? m->envelope.recipient_count : m->account.expiry_from;
    return err;
}

int notice_log_expiration(const struct notice_log *log, struct spool_reader *reader,
                          struct message *m, usec_t now, unsigned limit)
{
    bool is_first = !m->account.is_expiry_begun;
    m->account.is_expiry_begun = true;
    for (const struct result *r = m->account.fresh; is_first && r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->count; i++) {
            const struct result_recipient *to = &r->recipients[i];
            if (to->kind == RESULT_DEFERRED || to->kind == RESULT_PARKED) {
                log_expired(log->lines, m, message_address(m, to->index), result_text(r, to),
                            (enum reply_class)to->class, now);
                notice_log_flush(log);
            }
        }
    }
    if ((m->account.stored.deferred == 0 && m->account.stored.parked == 0) ||
        m->account.expiry_from == m->envelope.recipient_count) {
        return 0;
    }
    int err = spool_reader_begin(reader);
    if (err == 0) {
        err = log_stored_expired(log, reader, m, now, limit);
        spool_reader_end(reader);
    }
    return err;
}

void notice_log_flush(const struct notice_log *log)
{
    enum { BYTES_MAX = 1 << 20 };
    if (log->lines->len >= BYTES_MAX && log->write != NULL) {
        log->write(log->ctx);
    }
}
