/* The body decoder: one automaton over bytes for the line ends, one over lines for the header.
 * Called by smtp_server with whatever pieces the network made; must not depend on the cuts. */
#include "net/smtp_body.h"

#include "net/smtp_text.h"

#include <string.h>

/* A longer first word is no field name, so that content without a header ends the search. */
#define FIELD_NAME_MAX 998

void smtp_body_init(struct smtp_body *body, const struct smtp_body_limits *limits, bool has_dots)
{
    *body = (struct smtp_body){.limits = *limits, .has_dots = has_dots};
}

static void set_fault(struct smtp_body *body, enum smtp_body_fault fault)
{
    if (body->fault == SMTP_BODY_OK) {
        body->fault = fault;
    }
}

static bool exceeds(uint64_t value, uint64_t limit)
{
    return limit != 0 && value > limit;
}

/* Where decoded bytes go, during one call: what stands together in the input, many lines as a rule,
 * is kept and appended at once. */
struct sink {
    struct buf *out; /* NULL: only the facts are wanted */
    struct slice kept;
};

/* Bytes that out can still take. */
static size_t sink_room(const struct sink *sink)
{
    return sink->out == NULL ? SIZE_MAX : sink->out->limit - sink->out->len - sink->kept.len;
}

static void sink_flush(struct smtp_body *body, struct sink *sink)
{
    if (sink->out != NULL) {
        buf_append_slice(sink->out, sink->kept);
    }
    sink->kept.len = 0;
    if (sink->out != NULL && sink->out->failed) {
        set_fault(body, SMTP_BODY_NO_MEMORY);
    }
}

static void append_body(struct smtp_body *body, struct sink *sink, const char *data, size_t len)
{
    body->facts.size += len;
    if (exceeds(body->facts.size, body->limits.size)) {
        set_fault(body, SMTP_BODY_TOO_LARGE);
    }
    if (body->fault != SMTP_BODY_OK) {
        return;
    }
    if (sink->kept.len > 0 && sink->kept.data + sink->kept.len != data) {
        sink_flush(body, sink);
    }
    if (sink->kept.len == 0) {
        sink->kept.data = data;
    }
    sink->kept.len += len;
}

/* The header section ended in front of the current line. */
static void header_done(struct smtp_body *body)
{
    body->header = SMTP_BODY_HEADER_DONE;
}

static bool name_is(const struct smtp_body *body, struct slice name)
{
    return slice_eq(slice_make(body->name, body->name_len), name);
}

/* A field name and its colon are complete. */
static void field_begin(struct smtp_body *body)
{
    struct smtp_body_facts *facts = &body->facts;

    body->header = SMTP_BODY_FIELD_VALUE;
    facts->header_fields++;
    if (exceeds(facts->header_fields, body->limits.header_fields)) {
        set_fault(body, SMTP_BODY_HEADER_TOO_LARGE);
    }
    if (body->name_len > sizeof(body->name)) {
        return;
    }
    facts->received_count += name_is(body, SLICE("received"));
    facts->has_message_id = facts->has_message_id || name_is(body, SLICE("message-id"));
    facts->has_date = facts->has_date || name_is(body, SLICE("date"));
    facts->has_from = facts->has_from || name_is(body, SLICE("from"));
    facts->has_tls_required = facts->has_tls_required || name_is(body, SLICE("tls-required"));
}

static char lower_header_char(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c + ('a' - 'A'));
    }
    return c;
}

static void name_byte(struct smtp_body *body, char c)
{
    if (c == ':' && body->name_len > 0) {
        field_begin(body);
    } else if ((c == ' ' || c == '\t') && body->name_len > 0) {
        body->header = SMTP_BODY_FIELD_NAME_END;
    } else if (c > 32 && c < 127 && c != ':' && body->name_len < FIELD_NAME_MAX) {
        if (body->name_len < sizeof(body->name)) {
            body->name[body->name_len] = lower_header_char(c);
        }
        body->name_len++;
    } else {
        header_done(body);
    }
}

/* One byte of a line in the header section, before the field's value. */
static void header_byte(struct smtp_body *body, char c)
{
    switch (body->header) {
    case SMTP_BODY_FIELD_START:
        if (c == ' ' || c == '\t') {
            if (body->facts.header_fields > 0) {
                body->header = SMTP_BODY_FIELD_VALUE; /* a folded line */
            } else {
                header_done(body);
            }
            break;
        }
        body->header = SMTP_BODY_FIELD_NAME;
        body->name_len = 0;
        name_byte(body, c);
        break;
    case SMTP_BODY_FIELD_NAME:
        name_byte(body, c);
        break;
    case SMTP_BODY_FIELD_NAME_END:
        if (c == ':') {
            field_begin(body);
        } else if (c != ' ' && c != '\t') {
            header_done(body);
        }
        break;
    case SMTP_BODY_FIELD_VALUE:
    case SMTP_BODY_HEADER_DONE:
        break;
    }
}

static void header_run(struct smtp_body *body, const char *data, size_t len, bool has_8bit)
{
    for (size_t i = 0; i < len && body->header < SMTP_BODY_FIELD_VALUE; i++) {
        header_byte(body, data[i]);
    }
    if (body->header == SMTP_BODY_FIELD_VALUE) {
        body->facts.has_8bit_header = body->facts.has_8bit_header || has_8bit;
        if (exceeds(body->facts.size + len, body->limits.header_size)) {
            set_fault(body, SMTP_BODY_HEADER_TOO_LARGE);
        }
    }
}

/* Text without line ends: part of one line. */
static void take_run(struct smtp_body *body, const char *data, size_t len, bool has_8bit,
                     struct sink *sink)
{
    struct smtp_body_facts *facts = &body->facts;

    if (body->line_size == 0 && data[0] == '.') {
        facts->has_leading_dot = true;
    }
    facts->has_8bit = facts->has_8bit || has_8bit;
    body->line_size += len;
    if (exceeds(body->line_size, body->limits.line)) {
        set_fault(body, SMTP_BODY_LINE_TOO_LONG);
    }
    if (body->header != SMTP_BODY_HEADER_DONE) {
        header_run(body, data, len, has_8bit);
    }
    append_body(body, sink, data, len);
    body->line = SMTP_BODY_TEXT;
}

/* crlf: the bytes to append, of the input where they stand in it */
static void end_body_line(struct smtp_body *body, const char *crlf, struct sink *sink)
{
    struct smtp_body_facts *facts = &body->facts;

    if (body->line_size > facts->longest_line) {
        facts->longest_line = body->line_size;
    }
    append_body(body, sink, crlf, 2);
    switch (body->header) {
    case SMTP_BODY_FIELD_START:
        facts->has_separator = true;
        header_done(body);
        break;
    case SMTP_BODY_FIELD_NAME:
    case SMTP_BODY_FIELD_NAME_END:
        header_done(body);
        break;
    case SMTP_BODY_FIELD_VALUE:
        body->header = SMTP_BODY_FIELD_START;
        facts->header_size = facts->size;
        break;
    case SMTP_BODY_HEADER_DONE:
        break;
    }
    body->line_size = 0;
    body->line = SMTP_BODY_LINE_START;
}

/* A LF that no CR precedes. Fixed, it ends a line of content, but the next line is not one at
 * whose start a dot means anything: only CRLF gives dots a meaning. */
static void bare_lf(struct smtp_body *body, struct sink *sink)
{
    if (body->limits.fix_bare_lf) {
        end_body_line(body, "\r\n", sink);
    } else {
        set_fault(body, SMTP_BODY_BARE_LF);
    }
    body->line = SMTP_BODY_TEXT;
}

/* A line end at the start of in that is whole and has room. */
static bool take_line_end(struct smtp_body *body, struct slice *in, struct sink *sink)
{
    bool has_room = body->fault != SMTP_BODY_OK || sink_room(sink) >= 2;
    if (!has_room || in->len < 2 || in->data[0] != '\r' || in->data[1] != '\n') {
        return false;
    }
    end_body_line(body, in->data, sink);
    *in = slice_from(*in, 2);
    return true;
}

/* Text, a CR, or what is not allowed, at the start of in, within a line. */
static void decode_text(struct smtp_body *body, struct slice *in, struct sink *sink)
{
    switch (in->data[0]) {
    case '\r':
        if (take_line_end(body, in, sink)) {
            return;
        }
        body->line = SMTP_BODY_CR;
        break;
    case '\n':
        bare_lf(body, sink);
        break;
    case '\0':
        set_fault(body, SMTP_BODY_NUL);
        body->line = SMTP_BODY_TEXT;
        break;
    default: {
        bool has_8bit = false;
        size_t room = body->fault == SMTP_BODY_OK ? sink_room(sink) : in->len;
        size_t len = smtp_text_span(slice_to(*in, room < in->len ? room : in->len), &has_8bit);
        take_run(body, in->data, len, has_8bit, sink);
        *in = slice_from(*in, len);
        (void)take_line_end(body, in, sink); /* what is not whole goes by way of the states */
        return;
    }
    }
    *in = slice_from(*in, 1);
}

/* The byte after a line's CR: the state moves on; the byte is consumed when it is LF. */
static void decode_after_cr(struct smtp_body *body, struct slice *in, struct sink *sink)
{
    if (in->data[0] == '\n') {
        *in = slice_from(*in, 1);
        end_body_line(body, "\r\n", sink); /* the CR may have come in an earlier call */
    } else {
        set_fault(body, SMTP_BODY_BARE_CR);
        body->line = SMTP_BODY_TEXT;
    }
}

/* Whole lines behind the header, from a line's start on: what most of a message consists of. They
 * change nothing but the facts, which are written once for all of them. Stops in front of the first
 * line that is something else, is too long, or has no room; the states take that one. */
static void take_lines(struct smtp_body *body, struct slice *in, struct sink *sink)
{
    struct smtp_body_facts *facts = &body->facts;
    uint64_t line_max = body->limits.line != 0 ? body->limits.line : UINT64_MAX;
    size_t room = sink_room(sink);
    struct slice left = slice_to(*in, room < in->len ? room : in->len);
    uint64_t longest = facts->longest_line;
    bool has_dot = false, has_8bit = false;

    while (left.len >= 2 && !(body->has_dots && left.data[0] == '.')) {
        bool has_8bit_line;
        size_t len = smtp_text_span(left, &has_8bit_line);
        if (len > line_max || left.len - len < 2 || left.data[len] != '\r' ||
            left.data[len + 1] != '\n') {
            break;
        }
        has_dot = has_dot || left.data[0] == '.';
        has_8bit = has_8bit || has_8bit_line;
        longest = len > longest ? len : longest;
        left = slice_from(left, len + 2);
    }
    size_t taken = (size_t)(left.data - in->data);
    facts->longest_line = longest;
    facts->has_leading_dot = facts->has_leading_dot || has_dot;
    facts->has_8bit = facts->has_8bit || has_8bit;
    append_body(body, sink, in->data, taken);
    *in = slice_from(*in, taken);
}

static enum smtp_body_result decode_chunk(struct smtp_body *body, struct slice *in,
                                          struct sink *sink)
{
    while (in->len > 0) {
        if (body->line == SMTP_BODY_LINE_START && body->header == SMTP_BODY_HEADER_DONE) {
            take_lines(body, in, sink);
            if (in->len == 0) {
                break;
            }
        }
        if (body->fault == SMTP_BODY_OK && sink_room(sink) < 2) {
            return SMTP_BODY_FULL;
        }
        char c = in->data[0];
        switch (body->line) {
        case SMTP_BODY_LINE_START:
            if (body->has_dots && c == '.') {
                body->line = SMTP_BODY_DOT;
                *in = slice_from(*in, 1);
                break;
            }
            decode_text(body, in, sink);
            break;
        case SMTP_BODY_TEXT:
            decode_text(body, in, sink);
            break;
        case SMTP_BODY_DOT: /* the dot was stuffing, or the end */
            if (c == '\r') {
                body->line = SMTP_BODY_DOT_CR;
                *in = slice_from(*in, 1);
            } else {
                body->line = SMTP_BODY_TEXT;
            }
            break;
        case SMTP_BODY_DOT_CR:
            if (c == '\n') {
                *in = slice_from(*in, 1);
                body->line = SMTP_BODY_LINE_START;
                return SMTP_BODY_END;
            }
            decode_after_cr(body, in, sink);
            break;
        case SMTP_BODY_CR:
            decode_after_cr(body, in, sink);
            break;
        }
    }
    return SMTP_BODY_MORE;
}

enum smtp_body_result smtp_body_decode(struct smtp_body *body, struct slice *in, struct buf *out)
{
    struct sink sink = {.out = out};
    enum smtp_body_result result = decode_chunk(body, in, &sink);
    sink_flush(body, &sink);
    return result;
}

void smtp_body_look(struct smtp_body *body, struct slice in)
{
    struct sink sink = {.out = NULL};
    (void)decode_chunk(body, &in, &sink); /* without dots there is no end, and nothing is full */
}

enum smtp_body_result smtp_body_finish(struct smtp_body *body, struct buf *out)
{
    if (out->limit - out->len < 2 && body->fault == SMTP_BODY_OK) {
        return SMTP_BODY_FULL;
    }
    if (body->line == SMTP_BODY_CR) {
        set_fault(body, SMTP_BODY_BARE_CR);
        body->line = SMTP_BODY_TEXT;
    }
    if (body->line_size > 0) {
        struct sink sink = {.out = out};
        end_body_line(body, "\r\n", &sink);
        sink_flush(body, &sink);
    }
    return SMTP_BODY_END;
}
