#include "engine/suppression/suppress_line.h"

#include "engine/config/label.h"
#include "net/smtp_address.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_MAX = 512 };

static const char *const column_names[SUPPRESS_COLUMN_COUNT] = {
    [SUPPRESS_TENANT] = "tenant", [SUPPRESS_ADDRESS] = "address", [SUPPRESS_REASON] = "reason",
    [SUPPRESS_ADDED] = "added",   [SUPPRESS_EXPIRES] = "expires", [SUPPRESS_SOURCE] = "source",
};

/* --- one value ------------------------------------------------------------------------------------ */

size_t suppress_line_address(struct slice text, char *out)
{
    struct smtp_address address;
    char whole[SMTP_ADDRESS_MAX + 1] = "x";
    text = slice_trim(text);
    bool is_domain = text.len > 1 && text.data[0] == '@';
    if (text.len == 0 || text.len > SPOOL_SUPPRESS_ADDRESS_MAX - 1) {
        return 0;
    }
    if (is_domain) {
        memcpy(whole + 1, text.data, text.len);
        text = slice_make(whole, text.len + 1);
    }
    if (smtp_address_parse(text, SMTP_ADDRESS_UTF8, &address) != 0 || address.domain.len == 0) {
        return 0;
    }
    struct slice clean = slice_from(smtp_address_slice(&address), is_domain ? 1 : 0);
    slice_lower(clean, out);
    return clean.len;
}

static struct slice keep_text(struct suppress_entry *e, size_t *at, struct slice text,
                              bool is_lower)
{
    char *to = e->text + *at;
    if (is_lower) {
        slice_lower(text, to);
    } else if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    *at += text.len;
    return slice_make(to, text.len);
}

static bool is_printable(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 127) {
            return false;
        }
    }
    return true;
}

/* Seconds since 1970, whole or with a fraction. */
static bool read_seconds(double seconds, usec_t *ret)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > (double)UINT32_MAX) {
        return false;
    }
    *ret = (usec_t)(seconds * (double)USEC_PER_SEC);
    return true;
}

static bool read_seconds_text(struct slice text, usec_t *ret)
{
    char copy[32], *end;
    if (text.len == 0) {
        return true;
    }
    if (text.len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    bool is_right = read_seconds(strtod(copy, &end), ret);
    return is_right && *end == '\0' && end != copy;
}

/* What a line says, before it is checked. */
struct said {
    struct slice values[SUPPRESS_COLUMN_COUNT]; /* "": nothing */
    usec_t added, expires;                      /* expires 0: never, if has_expires */
    bool has_expires;
};

static const char *make_entry(const struct said *s, const struct suppress_defaults *d,
                              struct suppress_entry *ret)
{
    size_t at = 0;
    char address[SPOOL_SUPPRESS_ADDRESS_MAX];
    struct slice tenant = s->values[SUPPRESS_TENANT];
    struct slice source = s->values[SUPPRESS_SOURCE];
    struct slice reason = s->values[SUPPRESS_REASON];
    size_t len = suppress_line_address(s->values[SUPPRESS_ADDRESS], address);
    tenant = tenant.len == 0 ? d->tenant : tenant;
    source = source.len == 0 ? d->source : source;
    source = source.len > SPOOL_SUPPRESS_SOURCE_MAX ? slice_to(source, SPOOL_SUPPRESS_SOURCE_MAX)
                                                    : source;
    ret->entry = (struct spool_suppression){
        .reason = reason.len == 0 ? d->reason : spool_suppress_reason_find(reason),
        .added = s->added,
        .expires = s->has_expires ? s->expires : d->expires};
    if (len == 0) {
        return "no address, nor a domain with @ in front";
    }
    if (tenant.len > 0 && !label_is_valid(tenant)) {
        return "no tenant's name";
    }
    if (ret->entry.reason == SPOOL_SUPPRESS_REASON_COUNT) {
        return "no reason: hard_bounce, complaint, unsubscribe, by_hand or mailbox_full";
    }
    if (!is_printable(source)) {
        return "the source has control characters";
    }
    ret->entry.tenant = keep_text(ret, &at, tenant, true);
    ret->entry.address = keep_text(ret, &at, slice_make(address, len), false);
    ret->entry.source = keep_text(ret, &at, source, false);
    return NULL;
}

/* --- CSV ------------------------------------------------------------------------------------------ */

/* The next field of the line, which is cut off; quotes are taken away into out. false: it is not CSV, or
 * too long. */
static bool next_field(struct slice *line, char out[static FIELD_MAX], struct slice *ret)
{
    size_t len = 0, i = 0;
    if (line->len == 0 || line->data[0] != '"') {
        i = slice_find(*line, ',');
        *ret = slice_trim(slice_to(*line, i));
    } else {
        for (i = 1; i < line->len; i++) {
            if (line->data[i] == '"' && (++i == line->len || line->data[i] != '"')) {
                break;
            }
            if (len == FIELD_MAX) {
                return false;
            }
            out[len++] = line->data[i];
        }
        bool is_closed = line->len > 1 && line->data[i - 1] == '"' && i > 1;
        if (!is_closed || (i < line->len && line->data[i] != ',')) {
            return false;
        }
        *ret = slice_trim(slice_make(out, len));
    }
    *line = i < line->len ? slice_from(*line, i + 1) : (struct slice){NULL, 0};
    return ret->len <= FIELD_MAX;
}

void suppress_columns_default(struct suppress_columns *c)
{
    *c = (struct suppress_columns){.count = 1, .columns = {SUPPRESS_ADDRESS}};
}

static enum suppress_column find_column(struct slice name)
{
    if (slice_ieq(name, SLICE("email")) || slice_ieq(name, SLICE("recipient"))) {
        return SUPPRESS_ADDRESS;
    }
    int i = 0;
    while (i < SUPPRESS_COLUMN_COUNT && !slice_ieq(name, slice_of(column_names[i]))) {
        i++;
    }
    return (enum suppress_column)i;
}

bool suppress_columns_read(struct suppress_columns *c, struct slice line)
{
    char bytes[FIELD_MAX];
    struct slice field;
    struct suppress_columns found = {.count = 0};
    bool has_address = false;
    while (line.data != NULL && found.count < SUPPRESS_COLUMNS_MAX) {
        if (!next_field(&line, bytes, &field)) {
            return false;
        }
        enum suppress_column column = find_column(field);
        has_address = has_address || column == SUPPRESS_ADDRESS;
        found.columns[found.count++] = column;
    }
    if (has_address) {
        *c = found;
    }
    return has_address;
}

bool suppress_line_csv(const struct suppress_columns *c, struct slice line,
                       const struct suppress_defaults *d, struct suppress_entry *ret,
                       const char **ret_wrong)
{
    char bytes[SUPPRESS_COLUMN_COUNT + 1][FIELD_MAX];
    struct said said = {.added = 0};
    for (size_t i = 0; i < c->count && line.data != NULL; i++) {
        struct slice field;
        if (!next_field(&line, bytes[c->columns[i]], &field)) {
            *ret_wrong = "no CSV: quotes do not match, or a field is too long";
            return false;
        }
        if (c->columns[i] != SUPPRESS_COLUMN_COUNT) {
            said.values[c->columns[i]] = field;
        }
    }
    said.has_expires = said.values[SUPPRESS_EXPIRES].len > 0;
    if (!read_seconds_text(said.values[SUPPRESS_ADDED], &said.added) ||
        !read_seconds_text(said.values[SUPPRESS_EXPIRES], &said.expires)) {
        *ret_wrong = "a time is no number of seconds since 1970";
        return false;
    }
    *ret_wrong = make_entry(&said, d, ret);
    return *ret_wrong == NULL;
}

/* --- JSON ----------------------------------------------------------------------------------------- */

bool suppress_line_json(const json_t *o, const struct suppress_defaults *d,
                        struct suppress_entry *ret, const char **ret_wrong)
{
    struct said said = {.added = 0};
    if (!json_is_object(o)) {
        *ret_wrong = "no JSON object";
        return false;
    }
    for (int i = 0; i < SUPPRESS_COLUMN_COUNT; i++) {
        const json_t *value = json_object_get(o, column_names[i]);
        bool is_time = i == SUPPRESS_ADDED || i == SUPPRESS_EXPIRES;
        if (value == NULL || json_is_null(value)) {
            continue;
        }
        if (is_time ? !json_is_number(value) : !json_is_string(value)) {
            *ret_wrong =
                is_time ? "a time is no number of seconds since 1970" : "a member is no string";
            return false;
        }
        if (!is_time) {
            said.values[i] = slice_make(json_string_value(value), json_string_length(value));
        } else if (!read_seconds(json_number_value(value),
                                 i == SUPPRESS_ADDED ? &said.added : &said.expires)) {
            *ret_wrong = "a time is no number of seconds since 1970";
            return false;
        }
        said.has_expires = said.has_expires || i == SUPPRESS_EXPIRES;
    }
    *ret_wrong = make_entry(&said, d, ret);
    return *ret_wrong == NULL;
}

/* --- the other way -------------------------------------------------------------------------------- */

static void put_field(struct buf *out, struct slice text)
{
    bool needs_quotes = false;
    for (size_t i = 0; i < text.len; i++) {
        needs_quotes = needs_quotes || strchr("\",\r\n ", text.data[i]) != NULL;
    }
    if (!needs_quotes) {
        buf_append_slice(out, text);
        return;
    }
    buf_append_str(out, "\"");
    for (size_t i = 0; i < text.len; i++) {
        buf_append(out, &text.data[i], 1);
        if (text.data[i] == '"') {
            buf_append_str(out, "\"");
        }
    }
    buf_append_str(out, "\"");
}

void suppress_line_put_names(struct buf *out)
{
    for (int i = 0; i < SUPPRESS_COLUMN_COUNT; i++) {
        buf_append_str(out, i == 0 ? "" : ",");
        buf_append_str(out, column_names[i]);
    }
    buf_append_str(out, "\r\n");
}

void suppress_line_put(struct buf *out, const struct spool_suppression *s)
{
    put_field(out, s->tenant);
    buf_append_str(out, ",");
    put_field(out, s->address);
    buf_printf(out, ",%s,%lld,", spool_suppress_reason_text(s->reason),
               (long long)(s->added / USEC_PER_SEC));
    if (s->expires != 0) {
        buf_printf(out, "%lld", (long long)(s->expires / USEC_PER_SEC));
    }
    buf_append_str(out, ",");
    put_field(out, s->source);
    buf_append_str(out, "\r\n");
}
