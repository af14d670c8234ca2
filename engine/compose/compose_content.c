/* Owns the content of an injected message: texts, attachments, finished text. Called by compose.c;
 * header fields are compose_header.c's. */
#include "base/date.h"
#include "base/error.h"
#include "engine/compose/address_list.h"
#include "engine/compose/compose_private.h"
#include "engine/compose/mime_body.h"
#include "engine/compose/mime_field.h"
#include "net/base64.h"
#include "net/smtp_body.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FILENAME_MAX_BYTES = 255,
    CONTENT_TYPE_MAX = 255,
    CONTENT_ID_MAX = 200,
};

/* --- attachments ------------------------------------------------------------------------------ */

static bool is_token_char(char ch)
{
    return ch > 32 && ch < 127 && strchr("()<>@,;:\\\"/[]?=", ch) == NULL;
}

static size_t token_len(struct slice text)
{
    size_t len = 0;
    while (len < text.len && is_token_char(text.data[len])) {
        len++;
    }
    return len;
}

/* "type/subtype", then the end or parameters. What has parts of its own, or may not be base64,
 * cannot be made of bytes (RFC 2046 5.1, 5.2.1). */
static bool is_content_type(struct slice text)
{
    size_t type = token_len(text);
    if (text.len > CONTENT_TYPE_MAX || type == 0 || type == text.len || text.data[type] != '/' ||
        slice_ieq(slice_to(text, type), SLICE("multipart")) ||
        slice_ieq(slice_to(text, type), SLICE("message"))) {
        return false;
    }
    size_t subtype = token_len(slice_from(text, type + 1));
    struct slice rest = slice_from(text, type + 1 + subtype);
    return subtype > 0 && (rest.len == 0 || rest.data[0] == ';') && mime_is_ascii(rest) &&
           mime_is_field_value(rest);
}

static bool is_content_id(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= 32 || text.data[i] >= 127 || text.data[i] == '<' ||
            text.data[i] == '>') {
            return false;
        }
    }
    return text.len > 0 && text.len <= CONTENT_ID_MAX;
}

static void check_part(struct composer *c, const struct mime_part *part, const char *where)
{
    if (part->filename.len > FILENAME_MAX_BYTES || !mime_is_field_value(part->filename)) {
        compose_wrong(c, "is longer than 255 bytes or has a control character", "%sfilename",
                      where);
    }
    if (!is_content_type(part->content_type)) {
        compose_wrong(c, "is no type/subtype of bytes; multipart and message are not", "%s%s",
                      where, "content_type");
    }
    if (part->content_id.data != NULL && !is_content_id(part->content_id)) {
        compose_wrong(c, "is not 1 to 200 ASCII characters without space and angle brackets",
                      "%scontent_id", where);
    }
}

static void take_part(struct composer *c, const json_t *value, size_t index, struct mime_part *ret)
{
    static const char *const known[] = {"filename",   "content_type", "content",
                                        "content_id", "disposition",  NULL};
    char where[sizeof("attachments[].") + 24];
    struct slice disposition;
    *ret = (struct mime_part){.content_type = SLICE("application/octet-stream")};
    (void)snprintf(where, sizeof(where), "attachments[%zu].", index); /* it fits */
    if (!json_is_object(value)) {
        compose_wrong(c, "is no object", "attachments[%zu]", index);
        return;
    }
    compose_known_members(c, value, where, known);
    /* Each of them may be missing, except the content. */
    compose_text(c, value, where, "filename", &ret->filename);
    compose_text(c, value, where, "content_type", &ret->content_type);
    compose_text(c, value, where, "content_id", &ret->content_id);
    if (!compose_text(c, value, where, "content", &ret->content) &&
        compose_member(value, "content") == NULL) {
        compose_wrong(c, "is missing", "%scontent", where);
    }
    ret->is_inline = ret->content_id.len > 0;
    if (compose_text(c, value, where, "disposition", &disposition)) {
        ret->is_inline = slice_eq(disposition, SLICE("inline"));
        if (!ret->is_inline && !slice_eq(disposition, SLICE("attachment"))) {
            compose_wrong(c, "is neither \"attachment\" nor \"inline\"", "%sdisposition", where);
        }
    }
    check_part(c, ret, where);
}

static bool take_content_text(struct composer *c, const char *key, struct slice *ret)
{
    if (!compose_text(c, c->message, "", key, ret)) {
        return false;
    }
    if (ret->len > 0 && memchr(ret->data, '\0', ret->len) != NULL) {
        compose_wrong(c, "has a NUL", "%s", key);
    }
    return true;
}

static int write_parts(struct composer *c)
{
    const json_t *list = compose_member(c->message, "attachments");
    size_t count = json_array_size(list), bad;
    struct mime_part *parts = calloc(count + 1, sizeof(*parts));
    struct mime_body body = {.parts = parts, .part_count = count, .unique = c->id};
    uint32_t before = c->mistakes->count;
    if (parts == NULL) {
        return -ENOMEM;
    }
    body.has_text = take_content_text(c, "text", &body.text);
    body.has_html = take_content_text(c, "html", &body.html);
    if (list != NULL && !json_is_array(list)) {
        compose_wrong(c, "is no array", "attachments");
    } else if (!body.has_text && !body.has_html && count == 0 && c->mistakes->count == before) {
        compose_wrong(c, "is missing, and so are html, attachments and raw", "text");
    }
    for (size_t i = 0; i < count; i++) {
        take_part(c, json_array_get(list, i), i, &parts[i]);
    }
    if (c->mistakes->count == before && mime_body_write(&c->ret->content, &body, &bad) != 0) {
        compose_wrong(c, "is no base64", "attachments[%zu].content", bad);
    }
    free(parts);
    return 0;
}

/* --- finished text ---------------------------------------------------------------------------- */

/* What the SMTP side would say of these bytes, which have CRLF line ends. */
static struct smtp_body_facts learn_facts(struct slice text)
{
    const struct smtp_body_limits none = {0};
    struct smtp_body body;
    smtp_body_init(&body, &none, false);
    smtp_body_look(&body, text);
    return body.facts;
}

static bool is_raw_fit(struct composer *c, const struct smtp_body_facts *facts, const char *where)
{
    if (!facts->has_separator && (facts->header_fields == 0 || facts->header_size < facts->size)) {
        compose_wrong(c, "does not begin with header fields and an empty line", "%s", where);
        return false;
    }
    if (facts->received_count > c->options->hop_limit) {
        compose_wrong(c, "has more Received fields than hopcount_limit: a loop", "%s", where);
        return false;
    }
    return true;
}

static int write_raw(struct composer *c, struct slice raw, const char *where)
{
    struct buf lines;
    if (raw.len > 0 && memchr(raw.data, '\0', raw.len) != NULL) {
        compose_wrong(c, "has a NUL", "%s", where);
        return 0;
    }
    buf_init(&lines, 0);
    mime_body_lines(&lines, raw);
    if (lines.len > 0 && lines.data[lines.len - 1] != '\n') {
        buf_append_str(&lines, "\r\n");
    }
    const struct smtp_body_facts facts = learn_facts(buf_slice(&lines));
    int err = lines.failed ? -ENOMEM : 0;
    if (err == 0 && is_raw_fit(c, &facts, where)) {
        if (!facts.has_from) {
            compose_write_from(c);
        }
        if (!facts.has_date) {
            compose_write_date(c);
        }
        if (!facts.has_message_id) {
            compose_write_message_id(c);
        }
        buf_append_slice(&c->ret->content, buf_slice(&lines));
    }
    buf_fini(&lines);
    return err;
}

static int write_raw_base64(struct composer *c, struct slice text)
{
    struct buf clean;
    size_t len = 0;
    buf_init(&clean, 0);
    for (size_t i = 0; i < text.len; i++) {
        if (strchr("\r\n\t ", text.data[i]) == NULL || text.data[i] == '\0') {
            buf_append_char(&clean, text.data[i]);
        }
    }
    char *bytes = malloc(clean.len + 1);
    int err = bytes == NULL || clean.failed ? -ENOMEM : 0;
    if (err == 0 && base64_decode(buf_slice(&clean), bytes, clean.len + 1, &len) != 0) {
        compose_wrong(c, "is no base64", "raw_base64");
    } else if (err == 0) {
        err = write_raw(c, slice_make(bytes, len), "raw_base64");
    }
    free(bytes);
    buf_fini(&clean);
    return err;
}

/* --- content ---------------------------------------------------------------------------------- */

static void refuse_beside_raw(struct composer *c)
{
    static const char *const keys[] = {"headers", "text", "html", "attachments"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (compose_member(c->message, keys[i]) != NULL) {
            compose_wrong(c, "stands beside \"raw\", which is all of a message", "%s", keys[i]);
        }
    }
}

static int write_content(struct composer *c, struct slice raw)
{
    struct slice text;
    if (raw.data != NULL) {
        return write_raw(c, raw, "body");
    }
    bool is_raw = compose_member(c->message, "raw") != NULL;
    bool is_base64 = compose_member(c->message, "raw_base64") != NULL;
    if (!is_raw && !is_base64) {
        compose_write_headers(c);
        return write_parts(c);
    }
    refuse_beside_raw(c);
    if (is_raw && is_base64) {
        compose_wrong(c, "stands beside \"raw\"", "raw_base64");
    }
    if (is_raw) {
        return compose_text(c, c->message, "", "raw", &text) ? write_raw(c, text, "raw") : 0;
    }
    return compose_text(c, c->message, "", "raw_base64", &text) ? write_raw_base64(c, text) : 0;
}

int compose_content(struct composer *c, struct slice raw)
{
    int err = write_content(c, raw);
    if (err == 0) {
        const struct smtp_body_facts facts = learn_facts(buf_slice(&c->ret->content));
        c->ret->has_8bit = facts.has_8bit;
        c->ret->has_leading_dot = facts.has_leading_dot;
        c->ret->is_tls_optional =
            facts.has_tls_required &&
            label_says(buf_slice(&c->ret->content), SLICE("TLS-Required"), SLICE("No"));
    }
    return err;
}
