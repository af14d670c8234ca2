/* The MIME tree of a report: which part is the status, which the message that is returned, what their
 * fields say. GMime parses and decodes; the walk here is one stack with room for HEARD_PARTS_MAX.
 * Called by heard.c. Must not decide what kind of report it is. */
#include "engine/heard/heard_private.h"

#include <gmime/gmime.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct open_part {
    GMimeObject *object; /* of the tree */
    bool is_returned;    /* inside the message that the report returns */
};

struct part_stack {
    size_t count, seen;
    struct open_part parts[HEARD_PARTS_MAX];
};

static void push(struct part_stack *stack, struct heard *r, GMimeObject *object, bool is_returned)
{
    if (object == NULL) {
        return;
    }
    if (stack->seen == HEARD_PARTS_MAX || stack->count == HEARD_PARTS_MAX) {
        r->is_cut = true;
        return;
    }
    stack->seen++;
    stack->parts[stack->count++] = (struct open_part){object, is_returned};
}

/* NULL: it is no message, or out of memory */
static GMimeMessage *parse(struct slice text)
{
    struct buf flat;
    buf_init(&flat, 0);
    heard_flatten(text, &flat);
    GMimeStream *stream = g_mime_stream_mem_new_with_buffer(flat.data, flat.len); /* copies it */
    bool is_whole = !flat.failed;
    buf_fini(&flat);
    GMimeParser *parser = g_mime_parser_new_with_stream(stream);
    g_object_unref(stream);
    GMimeMessage *message = is_whole ? g_mime_parser_construct_message(parser, NULL) : NULL;
    g_object_unref(parser);
    return message;
}

/* --- fields ----------------------------------------------------------------------------------- */

struct field {
    struct slice name, value; /* value: as it stands, folded */
};

static bool is_named(const struct field *f, const char *name)
{
    return slice_ieq(f->name, slice_of(name));
}

/* The value behind "rfc822;" and the like. */
static struct slice behind_type(struct slice value)
{
    size_t at = slice_find(value, ';');
    return slice_trim(at < value.len ? slice_from(value, at + 1) : value);
}

/* Whether it is one address, as a whole, that a search in text would not find: its local part is quoted, or its
 * domain is an address literal. */
static bool is_odd_address(struct slice text)
{
    size_t at = 0;
    if (text.len > 0 && text.data[0] == '"') {
        for (at = 1; at < text.len && text.data[at] != '"'; at++) {
            at += text.data[at] == '\\';
        }
        at++;
    } else {
        at = slice_find(text, '@');
    }
    if (at == 0 || at + 1 >= text.len || text.data[at] != '@') {
        return false;
    }
    struct slice domain = slice_from(text, at + 1);
    bool is_literal = domain.data[0] == '[' && domain.data[domain.len - 1] == ']';
    return slice_find(domain, ' ') == domain.len && slice_find(domain, '@') == domain.len &&
           (is_literal || text.data[0] == '"');
}

/* An address as a status gives it: with or without its type, brackets, or a route. */
static struct slice address_of(struct slice value)
{
    struct slice rest = behind_type(value), address, whole = rest;
    if (whole.len > 1 && whole.data[0] == '<' && whole.data[whole.len - 1] == '>') {
        whole = slice_make(whole.data + 1, whole.len - 2);
    }
    if (whole.len < HEARD_ADDRESS_BYTES && is_odd_address(whole)) {
        return whole;
    }
    return heard_find_address(&rest, &address) ? address : slice_make("", 0);
}

#define SET(array, value) heard_set((array), sizeof(array), (value))

typedef void field_reader(struct heard_parts *parts, const struct field *f, void *context);

/* Hand on each field of a list, up to the bound. */
static void each_field(struct heard_parts *parts, GMimeHeaderList *list, field_reader *reader,
                       void *context)
{
    int count = g_mime_header_list_get_count(list);
    if (count > HEARD_FIELDS_MAX) {
        parts->report->is_cut = true;
        count = HEARD_FIELDS_MAX;
    }
    for (int i = 0; i < count; i++) {
        GMimeHeader *header = g_mime_header_list_get_header_at(list, i);
        const char *name = g_mime_header_get_name(header);
        const char *value = g_mime_header_get_raw_value(header);
        if (name != NULL && value != NULL) {
            const struct field f = {slice_of(name), slice_trim(slice_of(value))};
            reader(parts, &f, context);
        }
    }
}

/* The fields at the start of a text, up to its first empty line. */
static void each_field_of(struct heard_parts *parts, struct slice text, field_reader *reader,
                          void *context)
{
    GMimeMessage *message = parse(text);
    if (message != NULL) {
        each_field(parts, g_mime_object_get_header_list(GMIME_OBJECT(message)), reader, context);
        g_object_unref(message);
    }
}

/* Fields that name a recipient in a message as it was delivered. */
static bool names_recipient(const struct field *f)
{
    static const char *const names[] = {
        "to",
        "cc",
        "delivered-to",
        "x-original-to",
        "envelope-to",
        "x-rcpt-to",
        "x-envelope-to",
        "x-hmxmroriginalrecipient",
        "x-apparently-to",
        "x-real-to",
        "original-recipient",
        "x-failed-recipients",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (is_named(f, names[i])) {
            return true;
        }
    }
    return false;
}

static void read_returned(struct heard_parts *parts, const struct field *f, void *context)
{
    struct heard *r = parts->report;
    (void)context;
    heard_note_tokens(r, f->value, true);
    if (names_recipient(f)) {
        heard_note_addresses(r, f->value);
    }
    parts->is_jmrp |= is_named(f, "x-hmxmroriginalrecipient");
    if (is_named(f, "message-id")) {
        SET(r->original_message_id, f->value);
    }
}

void heard_returned_header(struct heard_parts *parts, struct slice text)
{
    parts->has_returned = true;
    each_field_of(parts, text, read_returned, NULL);
}

/* --- delivery status (RFC 3464), and what is written like it ---------------------------------- */

static enum heard_action action_of(struct slice value)
{
    static const char *const words[HEARD_ACTION_COUNT] = {"failed", "delayed", "delivered",
                                                          "relayed", "expanded"};
    for (unsigned i = 0; i < HEARD_ACTION_COUNT; i++) {
        size_t len = strlen(words[i]);
        if (value.len >= len && strncasecmp(value.data, words[i], len) == 0) {
            return (enum heard_action)i;
        }
    }
    return HEARD_FAILED;
}

static void read_status(struct heard_parts *parts, const struct field *f, void *context)
{
    struct heard *r = parts->report;
    struct heard_recipient *group = context;
    struct slice status;
    heard_note_tokens(r, f->value, false);
    if (is_named(f, "final-recipient")) {
        SET(group->address, address_of(f->value));
    } else if (is_named(f, "original-recipient")) {
        SET(group->original, address_of(f->value));
    } else if (is_named(f, "x-actual-recipient")) {
        heard_note_addresses(r, f->value);
    } else if (is_named(f, "action")) {
        group->action = action_of(f->value);
    } else if (is_named(f, "status") && heard_find_status(f->value, &status)) {
        SET(group->status, status);
    } else if (is_named(f, "diagnostic-code")) {
        SET(group->diagnostic, behind_type(f->value));
    } else if (is_named(f, "remote-mta")) {
        SET(group->remote_mta, behind_type(f->value));
    } else if (is_named(f, "reporting-mta")) {
        SET(r->reporting_mta, behind_type(f->value));
    } else if (is_named(f, "arrival-date")) {
        SET(r->arrival_date, f->value);
    }
}

/* One group of fields: of the message, or of one recipient. */
static void read_group(struct heard_parts *parts, struct slice text)
{
    struct heard *r = parts->report;
    struct heard_recipient group;
    memset(&group, 0, sizeof(group));
    each_field_of(parts, text, read_status, &group);
    heard_note_address(r, slice_of(group.original));
    const char *address = group.address[0] != '\0' ? group.address : group.original;
    if (address[0] == '\0') {
        return;
    }
    struct heard_recipient *recipient = heard_recipient_of(r, slice_of(address));
    if (recipient != NULL) {
        memcpy(group.address, recipient->address, sizeof(group.address));
        *recipient = group;
    }
}

/* The text's groups of lines, between empty ones, and the next one. */
static struct slice take_group(struct slice *text)
{
    size_t at = 0, end = 0;
    while (at < text->len) {
        size_t len = slice_find(slice_from(*text, at), '\n');
        bool is_empty = slice_trim(slice_to(slice_from(*text, at), len)).len == 0;
        at += at + len < text->len ? len + 1 : len;
        if (is_empty && end > 0) {
            break;
        }
        end = is_empty ? 0 : at;
        if (is_empty) {
            *text = slice_from(*text, at);
            at = 0;
        }
    }
    struct slice group = slice_to(*text, end);
    *text = slice_from(*text, at);
    return group;
}

static void read_delivery_status(struct heard_parts *parts, struct slice text)
{
    parts->has_status = true;
    for (unsigned i = 0; text.len > 0 && i < 4 * HEARD_RECIPIENT_MAX; i++) {
        struct slice group = take_group(&text);
        if (group.len > 0) {
            read_group(parts, group);
        }
    }
    parts->report->is_cut |= text.len > 0;
}

/* --- feedback report (RFC 5965) --------------------------------------------------------------- */

static void read_feedback(struct heard_parts *parts, const struct field *f, void *context)
{
    struct heard *r = parts->report;
    (void)context;
    heard_note_tokens(r, f->value, false);
    if (is_named(f, "feedback-type")) {
        SET(r->feedback_type, f->value);
        slice_lower(slice_of(r->feedback_type), r->feedback_type);
    } else if (is_named(f, "user-agent")) {
        SET(r->user_agent, f->value);
    } else if (is_named(f, "original-mail-from")) {
        SET(r->original_mail_from, address_of(f->value));
    } else if (is_named(f, "original-rcpt-to") || is_named(f, "removal-recipient")) {
        heard_note_addresses(r, f->value);
    } else if (is_named(f, "arrival-date") || is_named(f, "received-date")) {
        SET(r->arrival_date, f->value);
    } else if (is_named(f, "reporting-mta")) {
        SET(r->reporting_mta, behind_type(f->value));
    } else if (is_named(f, "source-ip")) {
        SET(r->source_ip, f->value);
    } else if (is_named(f, "reported-domain") && r->reported_domain[0] == '\0') {
        SET(r->reported_domain, f->value);
    } else if (is_named(f, "incidents")) {
        r->incidents = (uint32_t)strtoul(f->value.data, NULL, 10);
    }
}

static void read_disposition(struct heard_parts *parts, const struct field *f, void *context)
{
    (void)context;
    heard_note_tokens(parts->report, f->value, false);
    if (is_named(f, "final-recipient") || is_named(f, "original-recipient")) {
        heard_note_addresses(parts->report, f->value);
    }
}

/* --- the report's own header ------------------------------------------------------------------ */

static bool is_from_daemon(const char *from)
{
    static const char *const locals[] = {"mailer-daemon@", "postmaster@", "mailerdaemon@",
                                         "mail-daemon@", NULL};
    for (size_t i = 0; locals[i] != NULL; i++) {
        if (strncasecmp(from, locals[i], strlen(locals[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void read_own(struct heard_parts *parts, const struct field *f, void *context)
{
    static const char *const robots[] = {"x-autoreply",
                                         "x-autorespond",
                                         "x-autogenerated",
                                         "x-mail-autoreply",
                                         "x-autoresponder",
                                         "x-vacation",
                                         NULL};
    static const char *const lists[] = {"list-id", "list-unsubscribe", "list-post", NULL};
    struct heard *r = parts->report;
    struct slice rest = f->value, address;
    (void)context;
    heard_note_tokens(r, f->value, false);
    if (is_named(f, "from")) {
        static const char *const daemons[] = {"mailer-daemon", "mail delivery", "postmaster", NULL};
        if (heard_find_address(&rest, &address)) {
            SET(r->from, address);
        }
        parts->is_from_daemon = is_from_daemon(r->from) || heard_has_any(f->value, daemons);
    } else if (is_named(f, "x-failed-recipients")) {
        parts->has_failed_field = true;
        while (heard_find_address(&rest, &address)) {
            (void)heard_recipient_of(r, address); /* full: it says so itself */
        }
    } else if (is_named(f, "x-hmxmroriginalrecipient")) {
        parts->is_jmrp = true;
        heard_note_addresses(r, f->value);
    } else if (is_named(f, "auto-submitted")) {
        parts->is_auto_submitted |= heard_find_word(f->value, "no") != 0;
        parts->is_auto_replied |= heard_begins(f->value, "auto-replied");
    } else if (is_named(f, "precedence")) {
        parts->is_auto_replied |= slice_ieq(f->value, SLICE("auto_reply"));
    }
    for (size_t i = 0; robots[i] != NULL; i++) {
        parts->is_auto_replied |= is_named(f, robots[i]);
    }
    parts->is_auto_submitted |= parts->is_auto_replied;
    for (size_t i = 0; lists[i] != NULL; i++) {
        parts->has_list_field |= is_named(f, lists[i]);
    }
}

/* --- the tree --------------------------------------------------------------------------------- */

/* The text of a part, decoded, in UTF-8, up to `max` bytes. */
static void part_text(GMimePart *part, size_t max, struct buf *out)
{
    GMimeDataWrapper *content = g_mime_part_get_content(part);
    const char *charset = g_mime_object_get_content_type_parameter(GMIME_OBJECT(part), "charset");
    if (content == NULL || max == 0) {
        return;
    }
    /* A stream in memory with bounds does not grow: its room has to be there. */
    GByteArray *bytes = g_byte_array_new();
    g_byte_array_set_size(bytes, (guint)max);
    GMimeStream *memory = g_mime_stream_mem_new_with_byte_array(bytes); /* owns them */
    g_mime_stream_set_bounds(memory, 0, (gint64)max);
    GMimeStream *filtered = g_mime_stream_filter_new(memory);
    GMimeFilter *filter =
        charset == NULL || strcasecmp(charset, "utf-8") == 0 || strcasecmp(charset, "us-ascii") == 0
            ? NULL
            : g_mime_filter_charset_new(charset, "utf-8");
    if (filter != NULL) {
        g_mime_stream_filter_add(GMIME_STREAM_FILTER(filtered), filter);
        g_object_unref(filter);
    }
    /* A stream that is full ends the writing: what it took is the text. */
    (void)g_mime_data_wrapper_write_to_stream(content, filtered);
    (void)g_mime_stream_flush(filtered);
    gint64 len = g_mime_stream_tell(memory);
    if (len > 0) {
        buf_append(out, bytes->data, (size_t)len < max ? (size_t)len : max);
    }
    g_object_unref(filtered);
    g_object_unref(memory);
}

/* Append HTML as text: tags are left out, ends of blocks are ends of lines. */
static void append_plain(struct buf *out, struct slice html)
{
    static const struct {
        const char *name;
        char c;
    } entities[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&nbsp;", ' '}, {"&#64;", '@'}};
    static const char *const blocks[] = {"<br", "<p", "</p", "<div", "</div", "<tr", "</tr", "<li"};
    bool has_end = true;
    for (size_t i = 0; i < html.len;) {
        struct slice rest = slice_from(html, i);
        char c = rest.data[0];
        size_t end = c == '<' && has_end ? slice_find(rest, '>') : rest.len;
        has_end = has_end && (c != '<' || end < rest.len); /* looked for once in vain */
        size_t step = 1;
        if (end < rest.len) {
            for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
                if (strncasecmp(rest.data, blocks[b], strlen(blocks[b])) == 0) {
                    buf_append_char(out, '\n');
                    break;
                }
            }
            i += end + 1;
            continue;
        }
        for (size_t e = 0; c == '&' && e < sizeof(entities) / sizeof(entities[0]); e++) {
            size_t len = strlen(entities[e].name);
            if (rest.len >= len && memcmp(rest.data, entities[e].name, len) == 0) {
                c = entities[e].c;
                step = len;
                break;
            }
        }
        buf_append_char(out, c);
        i += step;
    }
}

static void read_text_part(struct heard_parts *parts, GMimeContentType *type, struct slice text)
{
    if (g_mime_content_type_is_type(type, "text", "html")) {
        append_plain(&parts->plain, text);
    } else {
        buf_append_slice(&parts->prose, text);
        buf_append_char(&parts->prose, '\n');
    }
    heard_note_tokens(parts->report, text, false);
}

static void read_leaf(struct heard_parts *parts, GMimePart *part, bool is_returned)
{
    GMimeContentType *type = g_mime_object_get_content_type(GMIME_OBJECT(part));
    bool is_message = g_mime_content_type_is_type(type, "message", "*");
    bool is_header = g_mime_content_type_is_type(type, "text", "rfc822-headers");
    bool is_text = g_mime_content_type_is_type(type, "text", "*");
    if (is_returned || (!is_message && !is_text)) {
        return;
    }
    struct buf text;
    buf_init(&text, 0);
    part_text(part, HEARD_TEXT_MAX, &text);
    parts->report->is_cut |= text.len == HEARD_TEXT_MAX;
    if (g_mime_content_type_is_type(type, "message", "delivery-status") ||
        g_mime_content_type_is_type(type, "message", "global-delivery-status")) {
        read_delivery_status(parts, buf_slice(&text));
    } else if (g_mime_content_type_is_type(type, "message", "feedback-report")) {
        parts->has_feedback = true;
        each_field_of(parts, buf_slice(&text), read_feedback, NULL);
    } else if (g_mime_content_type_is_type(type, "message", "disposition-notification") ||
               g_mime_content_type_is_type(type, "message", "global-disposition-notification")) {
        parts->has_disposition = true;
        each_field_of(parts, buf_slice(&text), read_disposition, NULL);
    } else if (is_message || is_header) {
        heard_returned_header(parts, buf_slice(&text));
    } else {
        read_text_part(parts, type, buf_slice(&text));
    }
    buf_fini(&text);
}

static void read_object(struct heard_parts *parts, struct part_stack *stack,
                        const struct open_part *open)
{
    struct heard *r = parts->report;
    if (GMIME_IS_MULTIPART(open->object)) {
        GMimeMultipart *multipart = GMIME_MULTIPART(open->object);
        /* The last one first, so that they come off the stack in their order. */
        int count = g_mime_multipart_get_count(multipart);
        if (count > HEARD_PARTS_MAX) {
            r->is_cut = true;
            count = HEARD_PARTS_MAX;
        }
        for (int i = count; i > 0; i--) {
            push(stack, r, g_mime_multipart_get_part(multipart, i - 1), open->is_returned);
        }
    } else if (GMIME_IS_MESSAGE_PART(open->object)) {
        GMimeMessage *message = g_mime_message_part_get_message(GMIME_MESSAGE_PART(open->object));
        if (message != NULL && !open->is_returned) {
            parts->has_returned = true;
            each_field(parts, g_mime_object_get_header_list(GMIME_OBJECT(message)), read_returned,
                       NULL);
        }
        if (message != NULL) {
            push(stack, r, g_mime_message_get_mime_part(message), true);
        }
    } else if (GMIME_IS_PART(open->object)) {
        read_leaf(parts, GMIME_PART(open->object), open->is_returned);
    }
}

static void read_subject(struct heard *r, GMimeMessage *message)
{
    const char *subject = g_mime_message_get_subject(message);
    if (subject != NULL) {
        SET(r->subject, slice_of(subject));
    }
}

void heard_parts_read(struct slice message, struct heard *r, struct heard_parts *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->report = r;
    buf_init(&ret->prose, 2 * HEARD_TEXT_MAX);
    buf_init(&ret->plain, 2 * HEARD_TEXT_MAX);
    GMimeMessage *root = parse(message);
    if (root == NULL) {
        return;
    }
    each_field(ret, g_mime_object_get_header_list(GMIME_OBJECT(root)), read_own, NULL);
    read_subject(r, root);
    struct part_stack stack = {0};
    push(&stack, r, g_mime_message_get_mime_part(root), false);
    while (stack.count > 0) {
        const struct open_part open = stack.parts[--stack.count];
        read_object(ret, &stack, &open);
    }
    g_object_unref(root);
}

void heard_parts_fini(struct heard_parts *parts)
{
    buf_fini(&parts->prose);
    buf_fini(&parts->plain);
}
