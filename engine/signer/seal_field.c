/* Owns what is written into mail beside its signatures. Called by seal.c, once a message; must not look
 * at keys of DKIM. */
#include "engine/signer/seal_field.h"

#include "base/mail_class.h"
#include "engine/config/config.h"
#include "engine/heard/return_book.h"
#include "engine/heard/return_token.h"
#include "engine/post/message.h"
#include "net/dkim/dkim_header.h"

#include <string.h>

enum {
    FEEDBACK_MAX = 900, /* bytes of a Feedback-ID: a line has 998 at most (RFC 5322) */
    URI_MAX = 900,      /* bytes of one link, likewise */
    SUBJECT_MAX = 200,  /* bytes of an address that stands in a subject: more would be cut there */
};

/* --- Feedback-ID ------------------------------------------------------------------------------ */

static void put_name(struct buf *out, struct slice name)
{
    if (name.len == 0) {
        buf_append_char(out, '-');
    }
    for (size_t i = 0; i < name.len; i++) {
        buf_append_char(out,
                        name.data[i] == ':' ? '_' : name.data[i]); /* which divides the parts */
    }
}

/* What stands in a template under a name in braces. */
struct template_row {
    struct slice name, value;
};

/* The row whose name the text begins with; NULL: none. */
static const struct template_row *row_at(const char *text, const struct template_row *rows,
                                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(text, rows[i].name.data, rows[i].name.len) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static void put_feedback_id(const struct seal_fields_of *of, struct buf *out)
{
    const struct spool_envelope *e = &of->message->envelope;
    const struct config_tenant *tenant = config_tenant_find(of->config, e->tenant);
    const struct template_row rows[] = {
        {SLICE("{tenant}"), e->tenant},
        {SLICE("{campaign}"), e->campaign},
        {SLICE("{class}"), slice_of(mail_class_text(spool_mail_class(e->flags)))}};
    if (tenant == NULL || tenant->feedback_id == NULL ||
        dkim_header_count(of->header, SLICE("Feedback-ID")) > 0) {
        return;
    }
    buf_append_str(out, "Feedback-ID: ");
    for (const char *at = tenant->feedback_id; *at != '\0' && out->len < FEEDBACK_MAX; at++) {
        const struct template_row *row = row_at(at, rows, sizeof(rows) / sizeof(rows[0]));
        if (row != NULL) {
            put_name(out, row->value);
            at += row->name.len - 1;
        } else {
            buf_append_char(out, *at);
        }
    }
    buf_append_str(out, "\r\n");
}

/* --- List-Unsubscribe ------------------------------------------------------------------------- */

/* RFC 3986 section 2: what is not unreserved is escaped. */
static void put_escaped(struct buf *out, struct slice text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                        c == '-' || c == '.' || c == '_' || c == '~';
        if (is_plain) {
            buf_append_char(out, (char)c);
        } else {
            buf_append_char(out, '%');
            buf_append_char(out, digits[c >> 4]);
            buf_append_char(out, digits[c & 15]);
        }
    }
}

static void put_url(struct buf *out, const char *url, struct slice token, struct slice recipient,
                    const struct spool_envelope *e)
{
    const struct template_row rows[] = {{SLICE("{token}"), token},
                                        {SLICE("{recipient}"), recipient},
                                        {SLICE("{tenant}"), e->tenant},
                                        {SLICE("{campaign}"), e->campaign}};
    for (const char *at = url; *at != '\0'; at++) {
        const struct template_row *row = row_at(at, rows, sizeof(rows) / sizeof(rows[0]));
        if (row != NULL) {
            put_escaped(out, row->value);
            at += row->name.len - 1;
        } else {
            buf_append_char(out, *at);
        }
    }
}

/* The subject names the recipient: who answers from another address, to which the mail was sent on, would
 * not be known by the token, which has a hash of the address alone. */
static void put_mailto(struct buf *out, const char *address, struct slice token,
                       struct slice recipient)
{
    const char *at = strchr(address, '@');
    buf_append_str(out, "mailto:");
    buf_append(out, address, (size_t)(at - address));
    buf_append_char(out, '+');
    buf_append_slice(out, token);
    buf_append_str(out, at);
    buf_append_str(out, "?subject=unsubscribe");
    if (recipient.len <= SUBJECT_MAX) {
        put_escaped(out, SLICE(" "));
        put_escaped(out, recipient);
    }
}

/* Take back what was put since `begin` when it is too long for a line. returns: whether it stays */
static bool keeps_link(struct buf *out, size_t begin)
{
    if (out->len - begin > URI_MAX) {
        out->len = begin;
        return false;
    }
    return true;
}

static void put_unsubscribe(const struct seal_fields_of *of, struct buf *out)
{
    static const struct slice own[] = {SLICE("List-Unsubscribe"), SLICE("List-Unsubscribe-Post")};
    char text[RETURN_TOKEN_LEN];
    const struct message *m = of->message;
    const struct spool_envelope *e = &m->envelope;
    const struct config_unsubscribe u = config_unsubscribe(of->config, of->transport, e->tenant);
    bool is_personal = e->recipient_count == 1 && e->sender.len > 0 &&
                       (e->flags & SPOOL_FLAG_TLS_REPORT) == 0;
    if ((u.address == NULL && u.url == NULL) || of->book == NULL || !is_personal ||
        dkim_header_count(of->header, own[0]) > 0 || dkim_header_count(of->header, own[1]) > 0) {
        return;
    }
    const struct return_subject subject = message_subject(m, 0);
    if (!return_book_token(of->book, &subject, text)) {
        return;
    }
    const struct slice token = slice_make(text, RETURN_TOKEN_LEN);
    const size_t begin = out->len;
    buf_append_str(out, "List-Unsubscribe: <");
    const size_t first = out->len;
    if (u.url != NULL) {
        put_url(out, u.url, token, subject.address, e);
    }
    bool has_url = u.url != NULL && keeps_link(out, first);
    if (u.address != NULL) {
        buf_append_str(out, has_url ? ">,\r\n <" : "");
        put_mailto(out, u.address, token, subject.address); /* bounded: see SUBJECT_MAX */
    }
    if (out->len == first) {
        out->len = begin;
        return;
    }
    buf_append_str(out, ">\r\n");
    if (has_url) {
        buf_append_str(out, "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n");
    }
}

void seal_field_put_all(const struct seal_fields_of *of, struct buf *out)
{
    buf_clear(out);
    put_feedback_id(of, out);
    put_unsubscribe(of, out);
}
