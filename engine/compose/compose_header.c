/* Owns the header of an injected message: its fields as the JSON gives them, and those that it
 * lacks. Called by compose_content.c; no byte of a value is written before it was looked at, so
 * that no value can begin a line of its own. */
#include "base/date.h"
#include "engine/compose/address_list.h"
#include "engine/compose/compose_private.h"
#include "engine/compose/mime_field.h"

#include <stdio.h>

/* --- header fields ---------------------------------------------------------------------------- */

enum field_kind {
    FIELD_TEXT,     /* anything; what is not ASCII becomes encoded words */
    FIELD_STRICT,   /* the grammar of the field has no place for encoded words */
    FIELD_MAILBOX,  /* addresses with names */
    FIELD_OURS,     /* a member beside "headers" makes the field */
    FIELD_NOT_SENT, /* the field would tell receivers of hidden recipients */
};

static const struct field_rule {
    const char *name; /* in lower case; "-" at its end: all that begin so */
    enum field_kind kind;
    bool is_single; /* RFC 5322 3.6 */
} field_rules[] = {
    {"from", FIELD_MAILBOX, true},        {"sender", FIELD_MAILBOX, true},
    {"reply-to", FIELD_MAILBOX, true},    {"to", FIELD_MAILBOX, true},
    {"cc", FIELD_MAILBOX, true},          {"bcc", FIELD_NOT_SENT, true},
    {"subject", FIELD_TEXT, true},        {"date", FIELD_STRICT, true},
    {"message-id", FIELD_STRICT, true},   {"in-reply-to", FIELD_STRICT, true},
    {"references", FIELD_STRICT, true},   {"mime-version", FIELD_OURS, true},
    {"content-", FIELD_OURS, true},       {"list-", FIELD_STRICT, false},
    {"received", FIELD_STRICT, false},    {"dkim-signature", FIELD_STRICT, false},
    {"resent-bcc", FIELD_NOT_SENT, true}, {"return-path", FIELD_OURS, true},
};

static const struct field_rule *find_rule(struct slice name)
{
    static const struct field_rule other = {"", FIELD_TEXT, false};
    for (size_t i = 0; i < sizeof(field_rules) / sizeof(field_rules[0]); i++) {
        struct slice known = slice_of(field_rules[i].name);
        bool is_family = known.data[known.len - 1] == '-';
        if (is_family && name.len > known.len ? slice_ieq(slice_to(name, known.len), known)
                                              : slice_ieq(name, known)) {
            return &field_rules[i];
        }
    }
    return &other;
}

/* Fields of these names, in any case. */
static size_t count_fields(const json_t *headers, const char *name)
{
    size_t count = 0;
    for (void *at = json_object_iter((json_t *)(uintptr_t)headers); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)headers, at)) {
        count += slice_ieq(slice_of(json_object_iter_key(at)), slice_of(name)) &&
                 !json_is_null(json_object_iter_value(at));
    }
    return count;
}

/* What of a text no field may have. */
static bool is_fit(struct composer *c, struct slice text, const char *where)
{
    if (!mime_is_field_value(text)) {
        compose_wrong(c, "has a line break, NUL or another control character", "%s", where);
        return false;
    }
    if (mime_is_ascii(text) && mime_has_long_word(text)) {
        compose_wrong(c, "has a word of more than 900 characters, which no line holds", "%s",
                      where);
        return false;
    }
    return true;
}

static void write_text(struct composer *c, const struct field_rule *rule, struct slice name,
                       const json_t *value, const char *where)
{
    struct mime_field f;
    struct slice text = compose_string(value);
    if (!json_is_string(value)) {
        compose_wrong(c, "is no text", "%s", where);
        return;
    }
    if (!is_fit(c, text, where)) {
        return;
    }
    if (rule->kind == FIELD_STRICT && !mime_is_ascii(text)) {
        compose_wrong(c, "has characters that are not ASCII, for which this field has no form",
                      "%s", where);
        return;
    }
    mime_field_begin(&f, &c->ret->content, name);
    mime_field_text(&f, text);
    mime_field_end(&f);
}

/* --- address fields --------------------------------------------------------------------------- */

/* The next mailbox of a list, up to a comma that is not inside quotes or angle brackets. */
static struct slice next_mailbox(struct slice *list)
{
    bool is_quoted = false, is_angled = false;
    size_t at = 0;
    for (; at < list->len; at++) {
        char ch = list->data[at];
        if (is_quoted && ch == '\\') {
            at++;
        } else if (ch == '"') {
            is_quoted = !is_quoted;
        } else if (!is_quoted && (ch == '<' || ch == '>')) {
            is_angled = ch == '<';
        } else if (!is_quoted && !is_angled && ch == ',') {
            break;
        }
    }
    at = at < list->len ? at : list->len;
    struct slice item = slice_trim(slice_to(*list, at));
    *list = slice_from(*list, at < list->len ? at + 1 : at);
    return item;
}

/* A display name without its quotes into `out`. False: a comment or a group, or half a quote. */
static bool unquote(struct slice phrase, struct buf *out)
{
    bool is_quoted = phrase.len > 0 && phrase.data[0] == '"';
    for (size_t i = is_quoted ? 1 : 0; i < phrase.len; i++) {
        char ch = phrase.data[i];
        if (is_quoted && ch == '"') {
            return i + 1 == phrase.len;
        }
        if (is_quoted && ch == '\\' && ++i == phrase.len) {
            return false;
        }
        if (!is_quoted && strchr("\"()<>:;@\\", ch) != NULL) {
            return false;
        }
        buf_append_char(out, phrase.data[i]);
    }
    return !is_quoted;
}

/* "Name <address>" or "address". */
static bool write_mailbox(struct composer *c, struct mime_field *f, struct slice item)
{
    struct smtp_address address;
    struct buf name;
    struct slice text = item;
    buf_init(&name, 0);
    bool is_right = true;
    if (item.len > 0 && item.data[item.len - 1] == '>') {
        size_t angle = item.len;
        while (angle > 0 && item.data[angle - 1] != '<') {
            angle--;
        }
        is_right = angle > 0 && unquote(slice_trim(slice_to(item, angle - 1)), &name);
        text = is_right ? slice_make(item.data + angle, item.len - angle - 1) : text;
    }
    is_right = is_right && smtp_address_parse(text, SMTP_ADDRESS_UTF8, &address) == 0 &&
               !name.failed && name.len <= MIME_FIELD_DISPLAY_MAX;
    if (is_right) {
        c->ret->needs_utf8 = c->ret->needs_utf8 || address.has_utf8;
        mime_field_mailbox(f, buf_slice(&name), smtp_address_slice(&address));
    }
    buf_fini(&name);
    return is_right;
}

static int check_header_address(void *ctx, struct slice text)
{
    struct smtp_address address;
    size_t *count = ctx;
    (*count)++;
    return smtp_address_parse(text, 0, &address);
}

/* A list in one text. ASCII goes as it is, comments and groups included. */
static bool write_mailboxes(struct composer *c, struct mime_field *f, struct slice text)
{
    size_t count = 0;
    if (mime_is_ascii(text)) {
        if (address_list_parse(text, check_header_address, &count) != 0) {
            return false;
        }
        mime_field_words(f, text);
        return true;
    }
    while (text.len > 0) {
        struct slice item = next_mailbox(&text);
        if (!write_mailbox(c, f, item)) {
            return false;
        }
        if (text.len > 0) {
            buf_append_char(f->out, ',');
            f->column++;
        }
    }
    return true;
}

static void write_address_item(struct composer *c, struct mime_field *f, const json_t *value,
                               const char *where)
{
    if (json_is_object(value)) {
        struct smtp_address address;
        struct slice name;
        if (compose_mailbox(c, value, where, 0, &address, &name)) {
            mime_field_mailbox(f, name, smtp_address_slice(&address));
        }
        return;
    }
    if (!json_is_string(value)) {
        compose_wrong(c, "is no text", "%s", where);
        return;
    }
    if (is_fit(c, compose_string(value), where) && !write_mailboxes(c, f, compose_string(value))) {
        compose_wrong(c, "is no list of addresses: \"Name <local@domain>, local@domain\"", "%s",
                      where);
    }
}

/* An array of addresses becomes one field with all of them. */
static void write_addresses(struct composer *c, struct slice name, const json_t *value,
                            const char *where)
{
    struct mime_field f;
    mime_field_begin(&f, &c->ret->content, name);
    if (!json_is_array(value)) {
        write_address_item(c, &f, value, where);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        char item[COMPOSE_WHERE_BYTES + 24];
        (void)snprintf(item, sizeof(item), "%s[%zu]", where, i); /* it fits */
        if (i > 0) {
            buf_append_char(f.out, ',');
            f.column++;
        }
        write_address_item(c, &f, json_array_get(value, i), item);
    }
    if (json_is_array(value) && json_array_size(value) == 0) {
        compose_wrong(c, "is an empty array", "%s", where);
    }
    mime_field_end(&f);
}

static void write_field(struct composer *c, const json_t *headers, const char *key,
                        const json_t *value)
{
    struct slice name = slice_of(key);
    char where[COMPOSE_WHERE_BYTES], item[COMPOSE_WHERE_BYTES + 24];
    (void)snprintf(where, sizeof(where), "headers.%.*s", COMPOSE_KEY_SHOWN, key); /* cut */
    if (!mime_is_field_name(name)) {
        compose_wrong(c, "is no name of a header field", "%s", where);
        return;
    }
    const struct field_rule *rule = find_rule(name);
    bool is_list = json_is_array(value);
    if (rule->kind == FIELD_OURS) {
        compose_wrong(c, "is made here from the other members; or give all of it as \"raw\"", "%s",
                      where);
    } else if (rule->kind == FIELD_NOT_SENT) {
        compose_wrong(c, "would be seen by everybody; \"recipients\" says who gets it", "%s",
                      where);
    } else if (rule->is_single && (count_fields(headers, key) > 1 ||
                                   (rule->kind != FIELD_MAILBOX && json_array_size(value) > 1))) {
        compose_wrong(c, "may stand only once", "%s", where);
    } else if (rule->kind == FIELD_MAILBOX) {
        write_addresses(c, name, value, where);
    } else if (!is_list) {
        write_text(c, rule, name, value, where);
    }
    for (size_t i = 0; rule->kind <= FIELD_STRICT && i < json_array_size(value); i++) {
        (void)snprintf(item, sizeof(item), "%s[%zu]", where, i); /* it fits */
        write_text(c, rule, name, json_array_get(value, i), item);
    }
}

/* --- fields that are missing ------------------------------------------------------------------ */

void compose_write_from(struct composer *c)
{
    struct mime_field f;
    if (c->ret->sender.len == 0) {
        compose_wrong(c, "is missing, and the null sender makes none", "headers.From");
        return;
    }
    mime_field_begin(&f, &c->ret->content, SLICE("From"));
    mime_field_mailbox(&f, c->sender_name, smtp_address_slice(&c->ret->sender));
    mime_field_end(&f);
}

static void write_to(struct composer *c)
{
    struct mime_field f;
    mime_field_begin(&f, &c->ret->content, SLICE("To"));
    if (c->ret->recipient_count == 1) {
        mime_field_mailbox(&f, c->first_name, smtp_address_slice(&c->first));
    } else {
        mime_field_words(&f, SLICE("undisclosed-recipients:;"));
    }
    mime_field_end(&f);
}

/* Scheduled mail (not_before) has that time as its date, not the time at which it was composed. */
void compose_write_date(struct composer *c)
{
    char date[DATE_BYTES];
    date_format(c->ret->not_before != 0 ? c->ret->not_before : c->options->now, date);
    buf_printf(&c->ret->content, "Date: %s\r\n", date);
}

void compose_write_message_id(struct composer *c)
{
    buf_printf(&c->ret->content, "Message-ID: <%016llx@" SLICE_FMT ">\r\n",
               (unsigned long long)c->id, SLICE_ARG(c->options->hostname));
}

void compose_write_headers(struct composer *c)
{
    const json_t *headers = compose_member(c->message, "headers");
    if (headers != NULL && !json_is_object(headers)) {
        compose_wrong(c, "is no object", "headers");
        return;
    }
    if (json_object_size(headers) > COMPOSE_FIELDS_MAX) {
        compose_wrong(c, "has more than 200 fields", "headers");
        return;
    }
    if (count_fields(headers, "from") == 0) {
        compose_write_from(c);
    }
    if (count_fields(headers, "to") == 0) {
        write_to(c);
    }
    if (count_fields(headers, "date") == 0) {
        compose_write_date(c);
    }
    if (count_fields(headers, "message-id") == 0) {
        compose_write_message_id(c);
    }
    for (void *at = json_object_iter((json_t *)(uintptr_t)headers); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)headers, at)) {
        const json_t *value = json_object_iter_value(at);
        if (!json_is_null(value)) {
            write_field(c, headers, json_object_iter_key(at), value);
        }
    }
}
