/* Lines and fields of MTA-STS. The policy is read once to check it, and its mx lines again for each
 * host: there are few of both, and nothing has to be kept.
 * Called by the thread that fetches policies, and wherever hosts are filtered by one.
 * Must not allocate or believe a length. */
#include "net/mta_sts.h"

#include "base/error.h"
#include "net/policy_record.h"

enum { NAME_MAX_BYTES = 253, LABEL_MAX = 63 };

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* --- the record ------------------------------------------------------------------------------- */

static bool is_id(struct slice id)
{
    for (size_t i = 0; i < id.len; i++) {
        if (!is_alnum(id.data[i])) {
            return false;
        }
    }
    return id.len > 0 && id.len <= MTA_STS_ID_MAX;
}

int mta_sts_record(const struct slice *texts, uint32_t count, struct slice *ret_id)
{
    struct slice fields, key, value, id = SLICE("");
    int err = policy_record_find(texts, count, SLICE("v=STSv1"), &fields);
    if (err != 0) {
        return err;
    }
    while ((err = policy_record_take(&fields, &key, &value)) > 0) {
        bool has_id = slice_eq(key, SLICE("id"));
        if (has_id ? id.len > 0 || !is_id(value) : !policy_record_is_value(value)) {
            return ERR_SYNTAX;
        }
        id = has_id ? value : id;
    }
    if (err != 0 || id.len == 0) {
        return ERR_SYNTAX;
    }
    *ret_id = id;
    return 0;
}

/* --- the policy ------------------------------------------------------------------------------- */

/* Take the first line, without its end and the spaces before that. */
static struct slice take_policy_line(struct slice *text)
{
    size_t end = slice_find(*text, '\n');
    struct slice line = slice_to(*text, end);
    *text = slice_from(*text, end < text->len ? end + 1 : end);
    if (line.len > 0 && line.data[line.len - 1] == '\r') {
        line.len--;
    }
    while (line.len > 0 && (line.data[line.len - 1] == ' ' || line.data[line.len - 1] == '\t')) {
        line.len--;
    }
    return line;
}

/* "key: value"; false when it is no such line. */
static bool split(struct slice line, struct slice *ret_key, struct slice *ret_value)
{
    size_t colon = slice_find(line, ':');
    if (colon == line.len || !policy_record_is_key(slice_to(line, colon))) {
        return false;
    }
    *ret_key = slice_to(line, colon);
    *ret_value = policy_record_trim(slice_from(line, colon + 1));
    return true;
}

/* A domain, or "*." and a domain. */
static bool is_pattern(struct slice value)
{
    size_t label = 0;
    if (value.len >= 2 && value.data[0] == '*' && value.data[1] == '.') {
        value = slice_from(value, 2);
    }
    if (value.len == 0 || value.len > NAME_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < value.len; i++) {
        char c = value.data[i];
        if (c == '.' ? label == 0 : (!is_alnum(c) && c != '-' && c != '_') || ++label > LABEL_MAX) {
            return false;
        }
        label = c == '.' ? 0 : label;
    }
    return label > 0;
}

static bool parse_age(struct slice value, uint32_t *ret)
{
    uint64_t age = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') {
            return false;
        }
        age = age * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (value.len == 0 || value.len > 10) { /* section 3.2: 1*10DIGIT */
        return false;
    }
    *ret = age > MTA_STS_MAX_AGE_MAX ? MTA_STS_MAX_AGE_MAX : (uint32_t)age;
    return true;
}

static bool parse_mode(struct slice value, enum mta_sts_mode *ret)
{
    if (slice_eq(value, SLICE("enforce"))) {
        *ret = MTA_STS_ENFORCE;
    } else if (slice_eq(value, SLICE("testing"))) {
        *ret = MTA_STS_TESTING;
    } else if (slice_eq(value, SLICE("none"))) {
        *ret = MTA_STS_NONE;
    } else {
        return false;
    }
    return true;
}

/* What was seen so far; of a field that stands twice the first counts (section 3.2). */
struct seen {
    bool version, mode, max_age, mx;
};

static bool parse_field(struct slice key, struct slice value, struct seen *seen,
                        struct mta_sts_policy *policy)
{
    if (slice_eq(key, SLICE("version")) && !seen->version) {
        seen->version = true;
        return slice_eq(value, SLICE("STSv1"));
    }
    if (slice_eq(key, SLICE("mode")) && !seen->mode) {
        seen->mode = true;
        return parse_mode(value, &policy->mode);
    }
    if (slice_eq(key, SLICE("max_age")) && !seen->max_age) {
        seen->max_age = true;
        return parse_age(value, &policy->max_age);
    }
    if (slice_eq(key, SLICE("mx"))) {
        seen->mx = true;
        return is_pattern(value);
    }
    return true;
}

int mta_sts_policy_parse(struct slice text, struct mta_sts_policy *ret)
{
    struct mta_sts_policy policy = {.text = text};
    struct seen seen = {false};
    struct slice rest = text;
    if (text.len > MTA_STS_POLICY_MAX) {
        return ERR_LIMIT;
    }
    while (rest.len > 0) {
        struct slice line = take_policy_line(&rest);
        struct slice key, value;
        if (line.len == 0) {
            continue; /* an empty line, as editors leave at the end of a file */
        }
        if (!split(line, &key, &value) || !parse_field(key, value, &seen, &policy)) {
            return ERR_SYNTAX;
        }
    }
    if (!seen.version || !seen.mode || !seen.max_age || (!seen.mx && policy.mode != MTA_STS_NONE)) {
        return ERR_SYNTAX;
    }
    *ret = policy;
    return 0;
}

/* A wildcard stands for exactly one label (section 4.1). */
static bool matches(struct slice pattern, struct slice host)
{
    if (pattern.data[0] == '*') {
        size_t dot = slice_find(host, '.');
        return dot > 0 && dot < host.len &&
               slice_ieq(slice_from(pattern, 1), slice_from(host, dot));
    }
    return slice_ieq(pattern, host);
}

bool mta_sts_policy_allows(const struct mta_sts_policy *policy, struct slice host)
{
    struct slice rest = policy->text;
    while (rest.len > 0) {
        struct slice line = take_policy_line(&rest);
        struct slice key, value;
        if (split(line, &key, &value) && slice_eq(key, SLICE("mx")) && matches(value, host)) {
            return true;
        }
    }
    return false;
}
