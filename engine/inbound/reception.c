#include "engine/inbound/reception.h"

#include "base/date.h"
#include "base/packed.h"
#include "engine/config/config.h"
#include "engine/key/body_tap.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"
#include "net/smtp_server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Most Received fields fit, so that the buffer does not grow in steps while one is written. */
enum { RECEIVED_BYTES = 512 };

void reception_init(struct reception *r, const struct config_listener *config)
{
    *r = (struct reception){.config = config};
    buf_init(&r->body, SPOOL_CHUNK_BYTES);
    buf_init(&r->spill, 0);
}

void reception_fini(struct reception *r)
{
    buf_fini(&r->body);
    buf_fini(&r->spill);
    body_tap_free(r->tap);
}

int reception_open(struct reception *r, uint64_t id, uint16_t worker, void *connection,
                   bool is_hashed)
{
    assert(r->intake == NULL);
    r->intake = intake_new();
    if (r->intake == NULL) {
        return -ENOMEM;
    }
    r->intake->envelope.id = id;
    r->intake->worker = worker;
    r->intake->connection = connection;
    r->tenant.len = r->campaign.len = 0;
    r->class = MAIL_CLASS_COUNT;
    r->odd_labels = 0;
    r->are_labels_read = r->is_tls_optional = false;
    if (is_hashed) {
        r->tap = body_tap_new(); /* NULL, out of memory: the signer hashes the body */
    }
    return 0;
}

uint64_t reception_drop(struct reception *r)
{
    if (r->intake == NULL) {
        return 0;
    }
    uint64_t staged = r->intake->is_staged ? r->intake->envelope.id : 0;
    intake_free(r->intake);
    r->intake = NULL;
    if (r->tap != NULL) {
        body_tap_free(r->tap);
        r->tap = NULL;
    }
    buf_clear(&r->spill);
    r->spill_count = 0;
    return staged;
}

/* Begins the content with the Received field: who brought the message, when, and by which id. The
 * client's header follows it. */
static void begin_content(struct reception *r, const struct smtp_server *core)
{
    char id[MESSAGE_ID_TEXT], date[DATE_BYTES];
    struct spool_envelope *e = &r->intake->envelope;
    message_id_format(e->id, id);
    e->created = clock_wall();
    date_format(e->created, date);
    const struct config_listener *lc = r->config;
    (void)buf_reserve(&r->body, RECEIVED_BYTES); /* what does not fit is appended all the same */
    if (lc == NULL || lc->received_header != CONFIG_RECEIVED_NO) {
        smtp_server_received_header(core, slice_of(id), slice_of(date), &r->body);
    }
    bool is_kept = lc == NULL || lc->keep_control_headers;
    const char *names[] = {is_kept ? NULL : lc->tenant_header, is_kept ? NULL : lc->campaign_header,
                           is_kept ? NULL : lc->class_header};
    header_filter_init(&r->filter, names, sizeof(names) / sizeof(names[0]), r->body.len);
}

int reception_add_recipients(struct reception *r, const struct smtp_server *core, bool *ret_full)
{
    struct intake *in = r->intake;
    uint32_t count, room = SPOOL_BATCH_RECIPIENTS - in->packed_count;
    struct slice batch = smtp_server_recipients(core, &count), fits = batch;
    if (in->envelope.recipient_count == 0) {
        begin_content(r, core);
    }
    in->envelope.recipient_count += count;
    if (count > room) {
        fits = packed_first(batch, room, &room);
        r->spill_count += count - room;
        buf_append_slice(&r->spill, slice_from(batch, fits.len));
        count = room;
    }
    in->packed_count += count;
    buf_append_slice(&in->packed, fits);
    if (in->packed.failed || r->spill.failed) {
        return -ENOMEM;
    }
    in->puts_recipients = r->spill_count > 0;
    *ret_full = in->puts_recipients;
    return 0;
}

/* Moves the first `len` bytes of the body buffer into the intake; the others stay for the next
 * part. */
static void hand_over_body(struct reception *r, size_t len, const struct key_ring *keys)
{
    struct buf swap = r->intake->body;
    r->intake->body = r->body;
    r->body = swap;
    buf_clear(&r->body);
    r->body.limit = SPOOL_CHUNK_BYTES;
    buf_append_slice(&r->body, slice_from(buf_slice(&r->intake->body), len));
    r->intake->body.len = len;
    header_filter_cut(&r->filter);
    if (r->tap != NULL) {
        body_tap_feed(r->tap, keys, buf_slice(&r->intake->body));
    }
}

static void read_label(struct reception *r, const char *name, struct label *ret)
{
    if (name != NULL && !label_find(buf_slice(&r->body), slice_of(name), ret)) {
        r->odd_labels++;
    }
}

static void read_class(struct reception *r)
{
    struct label text = {.len = 0};
    read_label(r, r->config->class_header, &text);
    r->class = text.len > 0 ? mail_class_find(label_slice(&text)) : MAIL_CLASS_COUNT;
    r->odd_labels += text.len > 0 && r->class == MAIL_CLASS_COUNT;
}

/* Reads the labels from the first chunk, once: only header fields in the first chunk count. */
static void read_labels(struct reception *r, const struct smtp_body_facts *facts)
{
    if (facts->has_tls_required && !r->are_labels_read) {
        r->is_tls_optional = label_says(buf_slice(&r->body), SLICE("TLS-Required"), SLICE("No"));
    }
    if (r->config != NULL && !r->are_labels_read) {
        read_label(r, r->config->tenant_header, &r->tenant);
        read_label(r, r->config->campaign_header, &r->campaign);
        read_class(r);
    }
    r->are_labels_read = true;
}

bool reception_cut(struct reception *r, const struct smtp_body_facts *facts,
                   const struct key_ring *keys)
{
    read_labels(r, facts);
    size_t len = header_filter_run(&r->filter, &r->body);
    if (len < SPOOL_CHUNK_BYTES / 2) {
        return false;
    }
    hand_over_body(r, len, keys);
    r->intake->puts_body = true;
    return true;
}

/* Fills the last part. A message without any content gets an empty header, as every message in the
 * spool has at least one byte. */
static void finish_content(struct reception *r, const struct smtp_body_facts *facts,
                           const struct key_ring *keys)
{
    read_labels(r, facts);
    (void)header_filter_run(&r->filter, &r->body); /* it ends with a line: all of it is decided */
    if (r->intake->chunk == 0 && r->body.len == 0) {
        buf_append_str(&r->body, "\r\n");
    }
    hand_over_body(r, r->body.len, keys);
}

/* The body's hashes go with the message. Without memory for them the signer makes them. */
static void keep_hashes(struct reception *r)
{
    struct signing *s = r->tap == NULL ? NULL : signing_new();
    if (s != NULL) {
        s->forms = (uint8_t)body_tap_finish(r->tap, s->hashes);
        r->intake->signing = s;
    }
}

static struct slice keep_string(struct buf *strings, const char *data, size_t len)
{
    struct slice kept = {strings->data + strings->len, len};
    buf_append(strings, data, len);
    return kept;
}

static const char *protocol_name(const struct smtp_server *s)
{
    /* RFC 3848, RFC 6531 */
    static const char *const names[2][2][2] = {
        {{"ESMTP", "ESMTPA"}, {"ESMTPS", "ESMTPSA"}},
        {{"UTF8SMTP", "UTF8SMTPA"}, {"UTF8SMTPS", "UTF8SMTPSA"}}};
    return s->is_esmtp || s->is_smtputf8 ? names[s->is_smtputf8][s->is_tls][s->is_authenticated]
                                         : "SMTP";
}

/* Settles which tenant the message belongs to: the header names it, else the listener's section,
 * else it is the user who logged in. A user who is bound to a tenant has no other.
 *
 * returns  false: the header names another */
static bool settle_tenant(struct reception *r, struct slice user)
{
    if (r->bound.len > 0) {
        bool is_own =
            r->tenant.len == 0 || slice_eq(label_slice(&r->tenant), label_slice(&r->bound));
        r->tenant = r->bound;
        return is_own;
    }
    if (r->tenant.len == 0 && r->config != NULL && r->config->tenant != NULL) {
        label_set(&r->tenant, slice_of(r->config->tenant));
    }
    if (r->tenant.len == 0) {
        label_set(&r->tenant, user);
    }
    return true;
}

/* RFC 8689 section 4.1: what MAIL said goes before what the header says. */
static uint32_t tls_flags(const struct reception *r, const struct smtp_server *core)
{
    if (core->requires_tls) {
        return SPOOL_FLAG_REQUIRE_TLS;
    }
    return r->is_tls_optional ? SPOOL_FLAG_TLS_OPTIONAL : 0;
}

/* Settles the message's class, when its tenant is known. */
static enum mail_class settle_class(struct reception *r, const struct smtp_server *core,
                                    const struct config *config)
{
    enum mail_class of_listener = r->config != NULL ? r->config->class : MAIL_CLASS_COUNT;
    if (r->class == MAIL_CLASS_COUNT && core->has_priority) {
        r->class = mail_class_of_priority(core->priority);
    }
    return config_mail_class(config, label_slice(&r->tenant), r->class, of_listener,
                             &r->intake->is_class_lowered);
}

/* Of the whole content, whose last part is filled: the fields in front of the client's bytes are our own
 * lines, and of the client's nothing was taken out. */
static bool is_plain(const struct reception *r, const struct smtp_body_facts *facts)
{
    return r->intake->chunk == 0 && r->filter.name_count == 0 && !facts->has_leading_dot;
}

int reception_complete(struct reception *r, const struct smtp_server *core,
                       const struct config *config, const struct key_ring *keys)
{
    struct intake *in = r->intake;
    struct spool_envelope *e = &in->envelope;
    const struct smtp_body_facts *facts = &core->body.facts;
    struct slice user = core->is_authenticated ? core->auth_username : SLICE("");
    struct slice sender = slice_make(core->sender.text, core->sender.len);
    size_t helo = strlen(core->helo), peer = strlen(core->peer);
    const char *protocol = protocol_name(core);

    finish_content(r, facts, keys);
    if (!settle_tenant(r, user)) {
        return -EACCES;
    }
    /* Reserved as a whole: the slices point into it. */
    if (buf_reserve(&in->strings, sender.len + helo + peer + strlen(protocol) + user.len +
                                      r->tenant.len + r->campaign.len + 1) == NULL) {
        return -ENOMEM;
    }
    e->sender = keep_string(&in->strings, sender.data, sender.len);
    e->peer_name = keep_string(&in->strings, core->helo, helo);
    e->peer_address = keep_string(&in->strings, core->peer, peer);
    e->protocol = keep_string(&in->strings, protocol, strlen(protocol));
    e->auth_user = keep_string(&in->strings, user.data, user.len);
    e->tenant = keep_string(&in->strings, r->tenant.text, r->tenant.len);
    e->campaign = keep_string(&in->strings, r->campaign.text, r->campaign.len);
    e->flags = (facts->has_8bit ? SPOOL_FLAG_8BIT : 0) | (core->is_smtputf8 ? SPOOL_FLAG_UTF8 : 0) |
               (facts->has_leading_dot ? SPOOL_FLAG_LEADING_DOT : 0) | tls_flags(r, core) |
               (r->config != NULL && !r->config->notices ? SPOOL_FLAG_NO_NOTICES : 0) |
               spool_class_flags(settle_class(r, core, config));
    const usec_t warn_after = config->delay_warning_time;
    e->warn_at = warn_after > 0 && sender.len > 0 ? e->created + warn_after : 0;
    e->size_bytes += in->body.len;
    if (in->packed.failed || in->body.failed) {
        return -ENOMEM;
    }
    keep_hashes(r);
    in->message = intake_message(in); /* NULL: read back from the spool */
    if (in->message != NULL) {
        in->message->is_plain = is_plain(r, facts);
    }
    return 0;
}

void reception_staged(struct reception *r)
{
    struct intake *in = r->intake;
    if (in->puts_recipients) {
        struct buf swap = in->packed;
        in->batch++;
        in->packed = r->spill;
        in->packed_count = r->spill_count;
        r->spill = swap;
        r->spill_count = 0;
        buf_clear(&r->spill);
    }
    if (in->puts_body) {
        in->chunk++;
        in->envelope.size_bytes += in->body.len;
        buf_clear(&in->body);
    }
    in->puts_recipients = in->puts_body = false;
}
