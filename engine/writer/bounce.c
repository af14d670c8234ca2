/* Notices to senders: three MIME parts, for people, for programs, and the original. The words are
 * ours, the facts come from the results; every byte that a stranger chose goes through
 * bounce_text. Decides nothing about who gets a notice. */
#include "engine/writer/bounce.h"

#include "base/date.h"
#include "base/error.h"
#include "engine/writer/bounce_text.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BOUNDARY_BYTES 64
#define BOUNDARY_TRIES 16

/* What is decided once and used by all parts. */
struct plan {
    const struct bounce_config *config;
    const struct bounce_message *message;
    enum bounce_kind kind;
    const struct bounce_recipient *recipients;
    size_t count, told;
    struct bounce_text_facts original;
    bool is_headers_only;
    bool is_text_8bit;       /* the part for people has UTF-8 */
    bool is_status_global;   /* RFC 6533: UTF-8 in the part for programs */
    bool is_original_global; /* RFC 6533: UTF-8 in the original's header */
    bool is_original_8bit;
    bool is_sender_utf8;
    char boundary[BOUNDARY_BYTES];
};

static void line(struct buf *out, const char *text)
{
    buf_append_str(out, text);
    buf_append_str(out, "\r\n");
}

static void field(struct buf *out, const char *name, struct slice value, bool allow_utf8)
{
    buf_append_str(out, name);
    bounce_text_value(out, value, BOUNCE_TEXT_VALUE_MAX, allow_utf8);
    buf_append_str(out, "\r\n");
}

static void date_field(struct buf *out, const char *name, usec_t wall)
{
    char date[DATE_BYTES];
    date_format(wall, date);
    field(out, name, slice_of(date), false);
}

static void begin_part(struct buf *out, const struct plan *p, const char *description,
                       const char *type, bool is_8bit)
{
    buf_append_str(out, "\r\n--");
    line(out, p->boundary);
    field(out, "Content-Description: ", slice_of(description), false);
    field(out, "Content-Type: ", slice_of(type), false);
    if (is_8bit) {
        line(out, "Content-Transfer-Encoding: 8bit");
    }
    line(out, "");
}

/* --- the header ------------------------------------------------------------------------------- */

static void put_header(struct buf *out, const struct plan *p)
{
    bool is_8bit = p->is_text_8bit || p->is_status_global || p->is_original_8bit;
    date_field(out, "Date: ", p->config->now);
    static const char *const subjects[] = {
        [BOUNCE_FAILURE] = "Subject: Undelivered mail returned to sender",
        [BOUNCE_DELAY] = "Subject: Delayed mail (still being tried)",
        [BOUNCE_CLEARED] = "Subject: Delayed mail was delivered",
    };
    buf_append_str(out, "From: \"Mail Delivery System\" <MAILER-DAEMON@");
    bounce_text_value(out, p->config->hostname, BOUNCE_TEXT_VALUE_MAX, false);
    line(out, ">");
    buf_append_str(out, "To: <");
    bounce_text_value(out, p->message->sender, BOUNCE_TEXT_VALUE_MAX, p->is_sender_utf8);
    line(out, ">");
    line(out, subjects[p->kind]);
    buf_printf(out, "Message-Id: <%016llx.%llx@", (unsigned long long)p->config->unique,
               (unsigned long long)p->config->now);
    bounce_text_value(out, p->config->hostname, BOUNCE_TEXT_VALUE_MAX, false);
    line(out, ">");
    line(out, "Auto-Submitted: auto-replied");
    line(out, "MIME-Version: 1.0");
    line(out, "Content-Type: multipart/report; report-type=delivery-status;");
    buf_append_str(out, "\tboundary=\"");
    buf_append_str(out, p->boundary);
    line(out, "\"");
    if (is_8bit) {
        line(out, "Content-Transfer-Encoding: 8bit");
    }
    line(out, "");
    line(out, "This is a report of mail delivery in MIME format.");
}

/* --- the part for people ---------------------------------------------------------------------- */

static void put_words(struct buf *out, const struct plan *p)
{
    buf_append_str(out, "This is the mail system at host ");
    bounce_text_value(out, p->config->hostname, BOUNCE_TEXT_VALUE_MAX, false);
    line(out, ".");
    line(out, "");
    if (p->kind == BOUNCE_FAILURE) {
        line(out, "Your message could not be delivered to the recipients listed below, and");
        line(out, p->is_headers_only ? "will not be tried again. Its header is attached."
                                     : "will not be tried again. It is attached.");
        return;
    }
    if (p->kind == BOUNCE_CLEARED) {
        line(out, "Your message, of which you were told that it is delayed, has been delivered");
        line(out, "to the recipients listed below.");
        return;
    }
    line(out, "This is a warning only. You do not need to send your message again.");
    line(out, "");
    line(out, "Your message has not been delivered yet to the recipients listed below.");
    if (p->config->retry_until != 0) {
        char date[DATE_BYTES];
        date_format(p->config->retry_until, date);
        buf_append_str(out, "It will be tried until ");
        buf_append_str(out, date);
        line(out, ".");
    }
}

static void put_told(struct buf *out, const struct bounce_recipient *r)
{
    buf_append_str(out, "<");
    bounce_text_value(out, r->address, BOUNCE_TEXT_VALUE_MAX, true);
    buf_append_str(out, ">:\r\n    ");
    if (r->is_expired) {
        buf_append_str(out, "given up, it took too long; the last attempt ended with:\r\n    ");
    }
    if (r->remote_mta.len > 0) {
        buf_append_str(out, "host ");
        bounce_text_value(out, r->remote_mta, BOUNCE_TEXT_VALUE_MAX, true);
        buf_append_str(out, r->is_reply ? " said:\r\n    " : ":\r\n    ");
    }
    if (r->diagnostic.len > 0) {
        bounce_text_folded(out, r->diagnostic, 4, "    ", true);
    } else {
        buf_append_str(out, "no reason is known");
    }
    buf_append_str(out, "\r\n");
}

static void put_explanation(struct buf *out, const struct plan *p)
{
    begin_part(out, p, "Notification",
               p->is_text_8bit ? "text/plain; charset=utf-8" : "text/plain; charset=us-ascii",
               p->is_text_8bit);
    put_words(out, p);
    for (size_t i = 0; i < p->told; i++) {
        line(out, "");
        put_told(out, &p->recipients[i]);
    }
    size_t others = p->count - p->told + p->message->left_out;
    if (others > 0) {
        line(out, "");
        buf_printf(out, "... and %zu more.\r\n", others);
    }
}

/* --- the part for programs (RFC 3464, RFC 6533) ----------------------------------------------- */

static bool is_unitext(char c)
{
    return c != '+' && c != '=' && c != '\\';
}

/* RFC 6533 section 3, utf-8-addr-unitext: three characters are written by number. An address that
 * does not fit on a line in this form could not have been reached by a mail. */
static void put_unitext(struct buf *out, struct slice address)
{
    char clean[BOUNCE_TEXT_VALUE_MAX];
    size_t len = bounce_text_clean(clean, sizeof(clean), address, true);
    size_t special = 0;
    for (size_t i = 0; i < len; i++) {
        special += !is_unitext(clean[i]);
    }
    if (len + 5 * special > BOUNCE_TEXT_VALUE_MAX) {
        buf_append_char(out, '?');
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (is_unitext(clean[i])) {
            buf_append_char(out, clean[i]);
        } else {
            buf_printf(out, "\\x{%02X}", (unsigned)clean[i]);
        }
    }
}

static void put_final_recipient(struct buf *out, const struct plan *p, struct slice address)
{
    if (!p->is_status_global || bounce_text_is_ascii(address)) {
        field(out, "Final-Recipient: rfc822; ", address, false);
        return;
    }
    buf_append_str(out, "Final-Recipient: utf-8; ");
    put_unitext(out, address);
    line(out, "");
}

static size_t digits(struct slice s)
{
    size_t count = 0;
    while (count < s.len && count < 3 && s.data[count] >= '0' && s.data[count] <= '9') {
        count++;
    }
    return count;
}

/* RFC 3463 section 2: class "." subject "." detail. */
static bool is_enhanced_status(struct slice s)
{
    if (s.len < 5 || (s.data[0] != '4' && s.data[0] != '5') || s.data[1] != '.') {
        return false;
    }
    s = slice_from(s, 2);
    size_t subject = digits(s);
    if (subject == 0 || subject >= s.len || s.data[subject] != '.') {
        return false;
    }
    s = slice_from(s, subject + 1);
    return s.len > 0 && digits(s) == s.len;
}

static void put_recipient_status(struct buf *out, const struct plan *p,
                                 const struct bounce_recipient *r)
{
    static const char *const actions[] = {[BOUNCE_FAILURE] = "Action: failed",
                                          [BOUNCE_DELAY] = "Action: delayed",
                                          [BOUNCE_CLEARED] = "Action: delivered"};
    static const char *const statuses[] = {
        [BOUNCE_FAILURE] = "5.0.0", [BOUNCE_DELAY] = "4.0.0", [BOUNCE_CLEARED] = "2.0.0"};
    line(out, "");
    if (r->original.len > 0) {
        field(out, "Original-Recipient: ", r->original, p->is_status_global);
    }
    put_final_recipient(out, p, r->address);
    line(out, actions[p->kind]);
    field(out, "Status: ", is_enhanced_status(r->status) ? r->status : slice_of(statuses[p->kind]),
          false);
    if (r->remote_mta.len > 0) {
        field(out, "Remote-MTA: dns; ", r->remote_mta, p->is_status_global);
    }
    if (r->diagnostic.len > 0) {
        const char *name = r->is_reply ? "Diagnostic-Code: smtp; " : "Diagnostic-Code: x-sluice; ";
        buf_append_str(out, name);
        bounce_text_folded(out, r->diagnostic, strlen(name), " ", p->is_status_global);
        line(out, "");
    }
    if (p->kind == BOUNCE_DELAY && p->config->retry_until != 0) {
        date_field(out, "Will-Retry-Until: ", p->config->retry_until);
    }
}

static void put_delivery_status(struct buf *out, const struct plan *p)
{
    begin_part(out, p, "Delivery report",
               p->is_status_global ? "message/global-delivery-status" : "message/delivery-status",
               p->is_status_global);
    if (p->message->envid.len > 0) {
        field(out, "Original-Envelope-Id: ", p->message->envid, false);
    }
    field(out, "Reporting-MTA: dns; ", p->config->hostname, false);
    field(out, "X-Sluice-Message-Id: ", p->message->id, false);
    date_field(out, "Arrival-Date: ", p->message->arrival);
    for (size_t i = 0; i < p->told; i++) {
        put_recipient_status(out, p, &p->recipients[i]);
    }
}

/* --- the original ----------------------------------------------------------------------------- */

static void put_original(struct buf *out, const struct plan *p)
{
    const char *type = p->is_original_global ? "message/global" : "message/rfc822";
    if (p->is_headers_only) {
        type = p->is_original_global ? "message/global-headers" : "text/rfc822-headers";
    }
    begin_part(out, p, p->is_headers_only ? "Header of the message" : "Undelivered message", type,
               p->is_original_8bit);
    bounce_text_copy(out, p->message->parts, p->message->part_count,
                     p->is_headers_only ? p->original.header : p->original.total);
}

/* --- putting it together ---------------------------------------------------------------------- */

/* How many recipients are named one by one. Both parts have the texts of each of them, so their
 * texts count twice against BOUNCE_REPORT_BYTES. */
static size_t count_told(const struct plan *p)
{
    enum { WORDS = 256 }; /* our own words about one recipient, in both parts */
    size_t bytes = 0, told = 0;
    while (told < p->count && told < BOUNCE_RECIPIENTS_MAX) {
        const struct bounce_recipient *r = &p->recipients[told];
        bytes +=
            WORDS + r->original.len + 2 * (r->address.len + r->diagnostic.len + r->remote_mta.len);
        if (bytes > BOUNCE_REPORT_BYTES && told > 0) {
            break;
        }
        told++;
    }
    return told;
}

static void make_plan(struct plan *p)
{
    const struct bounce_message *m = p->message;
    bool is_ascii = true;
    p->told = count_told(p);
    bounce_text_measure(m->parts, m->part_count, p->config->size_limit, &p->original);
    p->is_headers_only = m->is_headers_only || p->kind != BOUNCE_FAILURE ||
                         p->original.total > p->config->size_limit;
    for (size_t i = 0; i < p->told && is_ascii; i++) {
        const struct bounce_recipient *r = &p->recipients[i];
        is_ascii = bounce_text_is_ascii(r->address) && bounce_text_is_ascii(r->diagnostic) &&
                   bounce_text_is_ascii(r->remote_mta) && bounce_text_is_ascii(r->original);
    }
    p->is_text_8bit = !is_ascii;
    p->is_status_global = m->is_smtputf8 && !is_ascii;
    p->is_original_global = m->is_smtputf8 && p->original.has_8bit_header;
    p->is_original_8bit =
        p->is_headers_only ? p->original.has_8bit_header : p->original.has_8bit_anywhere;
    p->is_sender_utf8 = m->is_smtputf8 && !bounce_text_is_ascii(m->sender);
}

/* returns: whether the boundary occurs in the original and so cannot be used */
static bool try_boundary(struct buf *out, struct plan *p, unsigned salt)
{
    (void)snprintf(p->boundary, sizeof(p->boundary), "=_sluice_%016llx_%llx_%u",
                   (unsigned long long)p->config->unique, (unsigned long long)p->config->now, salt);
    put_header(out, p);
    put_explanation(out, p);
    put_delivery_status(out, p);
    size_t start = out->len;
    put_original(out, p);
    if (out->failed) {
        return false;
    }
    /* The part's own line is at `start`; any later one was written by a stranger. */
    const char *original = out->data + start + 4 + strlen(p->boundary);
    size_t len = out->len - start - 4 - strlen(p->boundary);
    return memmem(original, len, p->boundary, strlen(p->boundary)) != NULL;
}

int bounce_format(struct buf *out, const struct bounce_config *config,
                  const struct bounce_message *message, const struct bounce_news *news,
                  bool *ret_smtputf8)
{
    struct plan p = {.config = config,
                     .message = message,
                     .kind = news->kind,
                     .recipients = news->recipients,
                     .count = news->count};
    size_t start = out->len;
    assert(news->count >= 1);
    make_plan(&p);
    for (unsigned salt = 0; try_boundary(out, &p, salt); salt++) {
        if (salt == BOUNDARY_TRIES) {
            /* The original contains every boundary tried, so the notice comes without it. */
            p.is_headers_only = true;
            p.original.header = 0;
        }
        out->len = start;
    }
    buf_append_str(out, "\r\n--");
    buf_append_str(out, p.boundary);
    line(out, "--");
    if (out->failed) {
        return out->limit != 0 ? ERR_LIMIT : -ENOMEM;
    }
    *ret_smtputf8 = p.is_sender_utf8 || p.is_status_global || p.is_original_global;
    return 0;
}
