/* Fields of records, one after the other. Called by mta_sts.c and tls_rpt.c. Must not allocate or
 * believe a length. */
#include "net/policy_record.h"

#include "base/error.h"

enum { KEY_MAX = 32 };

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct slice policy_record_trim(struct slice text)
{
    while (text.len > 0 && is_blank(text.data[0])) {
        text = slice_from(text, 1);
    }
    while (text.len > 0 && is_blank(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

bool policy_record_is_key(struct slice key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.data[i];
        if (!is_key_char(c) && (i == 0 || (c != '_' && c != '-' && c != '.'))) {
            return false;
        }
    }
    return key.len > 0 && key.len <= KEY_MAX;
}

bool policy_record_is_value(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        if (c <= ' ' || c > '~' || c == '=' || c == ';') {
            return false;
        }
    }
    return value.len > 0;
}

/* Whether it begins with the version and the semicolon behind it; *ret is what follows. */
static bool has_version(struct slice text, struct slice version, struct slice *ret)
{
    if (text.len < version.len || !slice_eq(slice_to(text, version.len), version)) {
        return false;
    }
    text = policy_record_trim(slice_from(text, version.len));
    if (text.len == 0 || text.data[0] != ';') {
        return false;
    }
    *ret = slice_from(text, 1);
    return true;
}

int policy_record_find(const struct slice *texts, uint32_t count, struct slice version,
                       struct slice *ret)
{
    struct slice found = SLICE("");
    bool is_found = false;
    for (uint32_t i = 0; i < count; i++) {
        struct slice fields;
        if (!has_version(texts[i], version, &fields)) {
            continue;
        }
        if (is_found) {
            return ERR_MISSING;
        }
        found = fields;
        is_found = true;
    }
    if (!is_found) {
        return ERR_MISSING;
    }
    *ret = found;
    return 0;
}

int policy_record_take(struct slice *fields, struct slice *ret_key, struct slice *ret_value)
{
    if (policy_record_trim(*fields).len == 0) {
        return 0;
    }
    size_t end = slice_find(*fields, ';');
    struct slice field = policy_record_trim(slice_to(*fields, end));
    size_t equals = slice_find(field, '=');
    *fields = slice_from(*fields, end < fields->len ? end + 1 : end);
    *ret_key = slice_to(field, equals);
    *ret_value = slice_from(field, equals < field.len ? equals + 1 : equals);
    return policy_record_is_key(*ret_key) ? 1 : ERR_SYNTAX;
}
