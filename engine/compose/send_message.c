/* Owns the making of a complete message from what a program writes to `sluice send`. Pure; called
 * by cli_send.c. */
#include "engine/compose/send_message.h"

#include "base/error.h"
#include "engine/compose/address_list.h"

#include <strings.h>
#include <time.h>

/* --- body ------------------------------------------------------------------------------------- */

static void end_message_line(struct send_body *b, struct buf *out)
{
    if (b->had_dot && b->dot_ends) {
        b->has_ended = true;
    } else {
        buf_append_str(out, b->had_dot ? "..\r\n" : "\r\n");
    }
    b->in_line = b->had_dot = false;
}

static void put_byte(struct send_body *b, char c, struct buf *out)
{
    if (!b->in_line && !b->had_dot && c == '.') {
        b->had_dot = true;
        return;
    }
    if (b->had_dot) {
        buf_append_str(out, "..");
        b->had_dot = false;
    }
    buf_append_char(out, c);
    b->in_line = true;
}

void send_body_convert(struct send_body *b, struct slice in, struct buf *out)
{
    for (size_t i = 0; i < in.len && !b->has_ended; i++) {
        char c = in.data[i];
        if (b->had_cr) {
            b->had_cr = false;
            end_message_line(b, out);
            if (c == '\n') {
                continue;
            }
            if (b->has_ended) {
                return;
            }
        }
        if (c == '\r') {
            b->had_cr = true;
        } else if (c == '\n') {
            end_message_line(b, out);
        } else {
            put_byte(b, c, out);
        }
    }
}

void send_body_finish(struct send_body *b, struct buf *out)
{
    if (b->had_cr || b->in_line || b->had_dot) {
        end_message_line(b, out);
    }
    buf_append_str(out, ".\r\n");
}

/* --- header ----------------------------------------------------------------------------------- */

/* Past the end of the line that starts at `at`; text.len when it has no end. */
static size_t line_end(struct slice text, size_t at)
{
    const char *lf = at < text.len ? memchr(text.data + at, '\n', text.len - at) : NULL;
    return lf == NULL ? text.len : (size_t)(lf - text.data) + 1;
}

static bool is_mbox_line(struct slice line)
{
    return (line.len >= 5 && memcmp(line.data, "From ", 5) == 0) ||
           (line.len >= 6 && memcmp(line.data, ">From ", 6) == 0);
}

/* Length of the name before the colon, or 0 when the line starts no header. */
static size_t name_length(struct slice line)
{
    size_t n = 0;
    while (n < line.len && (unsigned char)line.data[n] > ' ' && line.data[n] != ':' &&
           line.data[n] != 0x7f) {
        n++;
    }
    size_t colon = n;
    while (colon < line.len && (line.data[colon] == ' ' || line.data[colon] == '\t')) {
        colon++; /* obsolete syntax allows white space before the colon */
    }
    return colon < line.len && line.data[colon] == ':' ? n : 0;
}

bool send_message_split(struct slice text, bool is_all, size_t *ret_header, size_t *ret_body)
{
    size_t at = 0;
    while (at < text.len) {
        size_t end = line_end(text, at);
        if (!is_all && end == text.len && (end == at || text.data[end - 1] != '\n')) {
            return false; /* the line is not complete */
        }
        struct slice line = slice_make(text.data + at, end - at);
        struct slice bare = slice_trim(line);
        bool is_empty = bare.len == 0 && line.data[0] != ' ' && line.data[0] != '\t';
        bool is_continued = at > 0 && (line.data[0] == ' ' || line.data[0] == '\t');
        if (is_empty) {
            *ret_header = at;
            *ret_body = end;
            return true;
        }
        if (!is_continued && name_length(line) == 0 && !(at == 0 && is_mbox_line(line))) {
            *ret_header = *ret_body = at;
            return true;
        }
        at = end;
    }
    *ret_header = *ret_body = text.len;
    return is_all;
}

int send_message_recipient(struct slice address, struct slice hostname, struct buf *recipients)
{
    for (size_t i = 0; i < address.len; i++) {
        unsigned char c = (unsigned char)address.data[i];
        if (c < 0x20 || c == 0x7f || c == '<' || c == '>') {
            return ERR_SYNTAX;
        }
    }
    if (address.len == 0) {
        return ERR_SYNTAX;
    }
    buf_append_slice(recipients, address);
    if (slice_find(address, '@') == address.len) {
        buf_append_char(recipients, '@');
        buf_append_slice(recipients, hostname);
    }
    buf_append_char(recipients, '\0');
    return recipients->failed ? ERR_LIMIT : 0;
}

struct seen {
    bool date, from, message_id, resent;
};

struct collect {
    const struct send_options *options;
    struct buf *recipients;
};

static int collect_recipient(void *ctx, struct slice address)
{
    struct collect *c = ctx;
    return send_message_recipient(address, c->options->hostname, c->recipients);
}

static bool is_named(struct slice name, const char *wanted)
{
    return slice_ieq(name, slice_of(wanted));
}

static bool names_recipients(struct slice name, bool is_resent)
{
    return is_resent ? is_named(name, "Resent-To") || is_named(name, "Resent-Cc") ||
                           is_named(name, "Resent-Bcc")
                     : is_named(name, "To") || is_named(name, "Cc") || is_named(name, "Bcc");
}

/* Take one header field with its continuation lines; returns where the next field starts. */
static size_t next_header(struct slice text, size_t at, struct slice *ret_name,
                          struct slice *ret_value, struct slice *ret_all)
{
    size_t end = line_end(text, at);
    while (end < text.len && (text.data[end] == ' ' || text.data[end] == '\t')) {
        end = line_end(text, end);
    }
    *ret_all = slice_make(text.data + at, end - at);
    *ret_name = slice_to(*ret_all, name_length(*ret_all));
    size_t colon = slice_find(*ret_all, ':');
    *ret_value = colon < ret_all->len ? slice_from(*ret_all, colon + 1) : slice_make("", 0);
    return end;
}

static struct seen scan_header(struct slice header)
{
    struct seen seen = {false, false, false, false};
    struct slice name, value, all;
    for (size_t at = 0; at < header.len;) {
        at = next_header(header, at, &name, &value, &all);
        seen.date = seen.date || is_named(name, "Date");
        seen.from = seen.from || is_named(name, "From");
        seen.message_id = seen.message_id || is_named(name, "Message-ID");
        seen.resent = seen.resent || (name.len > 7 && strncasecmp(name.data, "Resent-", 7) == 0);
    }
    return seen;
}

static void append_from(const struct send_options *o, struct buf *out)
{
    buf_append_str(out, "From: ");
    if (o->full_name.len > 0) {
        buf_append_char(out, '"');
        for (size_t i = 0; i < o->full_name.len; i++) {
            char c = o->full_name.data[i];
            if (c == '"' || c == '\\') {
                buf_append_char(out, '\\');
            }
            buf_append_char(out, (unsigned char)c < 0x20 ? ' ' : c);
        }
        buf_append_str(out, "\" ");
    }
    buf_append_char(out, '<');
    if (o->sender.len == 0) {
        buf_printf(out, "MAILER-DAEMON@" SLICE_FMT, SLICE_ARG(o->hostname));
    } else {
        buf_append_slice(out, o->sender);
    }
    buf_append_str(out, ">\r\n");
}

static void append_missing(const struct seen *seen, const struct send_options *o, struct buf *out)
{
    char text[64];
    struct tm parts;
    time_t seconds = (time_t)(o->now / USEC_PER_SEC);
    if (gmtime_r(&seconds, &parts) == NULL) {
        return;
    }
    if (!seen->from) {
        append_from(o, out);
    }
    if (!seen->date && strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S +0000", &parts) > 0) {
        buf_printf(out, "Date: %s\r\n", text);
    }
    if (!seen->message_id && strftime(text, sizeof(text), "%Y%m%d%H%M%S", &parts) > 0) {
        buf_printf(out, "Message-ID: <%s.%016llx@" SLICE_FMT ">\r\n", text,
                   (unsigned long long)o->unique, SLICE_ARG(o->hostname));
    }
}

int send_message_header(struct slice header, const struct send_options *options, struct buf *out,
                        struct buf *recipients)
{
    if (is_mbox_line(header)) {
        header = slice_from(header, line_end(header, 0));
    }
    struct seen seen = scan_header(header);
    struct collect collect = {options, recipients};
    struct slice name, value, all;
    for (size_t at = 0; at < header.len;) {
        at = next_header(header, at, &name, &value, &all);
        bool is_bcc = is_named(name, "Bcc") || is_named(name, "Resent-Bcc");
        if (options->takes_recipients && names_recipients(name, seen.resent)) {
            int err = address_list_parse(value, collect_recipient, &collect);
            if (err < 0) {
                return err;
            }
        }
        if (!(options->takes_recipients && is_bcc)) {
            struct send_body lines = {.dot_ends = false};
            send_body_convert(&lines, all, out);
            if (lines.in_line || lines.had_dot || lines.had_cr) {
                send_body_convert(&lines, SLICE("\n"), out);
            }
        }
    }
    append_missing(&seen, options, out);
    buf_append_str(out, "\r\n");
    return out->failed ? ERR_LIMIT : 0;
}
