/* Reads tag lists (RFC 6376 section 3.2) and compares what they say with a key.
 * Called by who checks what is published. Must not believe a length or keep a text. */
#include "net/dkim/dkim_record.h"

#include "base/error.h"

const char *dkim_record_verdict_text(enum dkim_record_verdict verdict)
{
    static const char *const texts[DKIM_RECORD_VERDICT_COUNT] = {
        [DKIM_RECORD_FITS] = "the published record fits the key",
        [DKIM_RECORD_MISSING] = "no record is published",
        [DKIM_RECORD_SEVERAL] = "several records are published, of which receivers take any",
        [DKIM_RECORD_SYNTAX] = "the published record makes no sense to receivers",
        [DKIM_RECORD_REVOKED] = "the published record revokes the key: its p= is empty",
        [DKIM_RECORD_KEY_TYPE] = "the published record is of another algorithm (k=)",
        [DKIM_RECORD_KEY] = "the published record has another key (p=)",
        [DKIM_RECORD_HASH] = "the published record does not allow sha256 (h=)",
        [DKIM_RECORD_SERVICE] = "the published record is not for mail (s=)",
    };
    return texts[verdict];
}

/* --- tags ------------------------------------------------------------------------------------- */

/* The next "tag=value" of a list, trimmed; *list is moved behind it.
 *
 * errors   ERR_MISSING: there is none left; ERR_SYNTAX: no "=", or no tag before it */
static int take_tag(struct slice *list, struct slice *ret_tag, struct slice *ret_value)
{
    size_t end = slice_find(*list, ';');
    struct slice spec = slice_trim(slice_to(*list, end));
    *list = slice_from(*list, end < list->len ? end + 1 : end);
    if (spec.len == 0) {
        return list->len == 0 ? ERR_MISSING : ERR_SYNTAX; /* only the last may be empty */
    }
    size_t equals = slice_find(spec, '=');
    *ret_tag = slice_trim(slice_to(spec, equals));
    if (equals == spec.len || ret_tag->len == 0) {
        return ERR_SYNTAX;
    }
    *ret_value = slice_trim(slice_from(spec, equals + 1));
    return 0;
}

/* Whether a list of words with colons between them has this one. */
static bool has_word(struct slice list, struct slice word)
{
    while (list.len > 0) {
        size_t end = slice_find(list, ':');
        if (slice_ieq(slice_trim(slice_to(list, end)), word)) {
            return true;
        }
        list = slice_from(list, end < list.len ? end + 1 : end);
    }
    return false;
}

int dkim_record_parse(struct slice text, struct dkim_record *ret)
{
    struct dkim_record r = {0};
    struct slice list = slice_trim(text), tag, value;
    bool is_first = true, has_key = false, is_ours = false;
    int err;
    while ((err = take_tag(&list, &tag, &value)) == 0) {
        if (slice_eq(tag, SLICE("v"))) {
            if (!is_first || !slice_eq(value, SLICE("DKIM1"))) {
                return is_first ? ERR_MISSING : ERR_SYNTAX; /* another kind of record has v= too */
            }
            is_ours = true;
        } else if (slice_eq(tag, SLICE("p"))) {
            has_key = true;
            r.key = value;
        } else if (slice_eq(tag, SLICE("k"))) {
            r.key_type = value;
        } else if (slice_eq(tag, SLICE("h"))) {
            r.hashes = value;
        } else if (slice_eq(tag, SLICE("s"))) {
            r.services = value;
        } else if (slice_eq(tag, SLICE("t"))) {
            r.is_testing = has_word(value, SLICE("y"));
        }
        is_first = false;
    }
    if (!is_ours && !has_key) {
        return ERR_MISSING; /* v= need not be there, so a text with p= is taken for a record */
    }
    if (err != ERR_MISSING || !has_key) {
        return ERR_SYNTAX;
    }
    *ret = r;
    return 0;
}

/* --- beside a key ----------------------------------------------------------------------------- */

/* Base64 in a record may have white space in it. */
static bool is_same_base64(struct slice published, struct slice own)
{
    size_t at = 0;
    for (size_t i = 0; i < published.len; i++) {
        char c = published.data[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            continue;
        }
        if (at == own.len || own.data[at++] != c) {
            return false;
        }
    }
    return at == own.len;
}

static enum dkim_record_verdict compare(const struct dkim_record *r, const struct dkim_key *key)
{
    struct slice type = r->key_type.len == 0 ? SLICE("rsa") : r->key_type;
    if (r->key.len == 0) {
        return DKIM_RECORD_REVOKED;
    }
    if (!slice_eq(type, slice_of(dkim_algorithm_key_type(dkim_key_algorithm(key))))) {
        return DKIM_RECORD_KEY_TYPE;
    }
    if (!is_same_base64(r->key, dkim_key_public(key))) {
        return DKIM_RECORD_KEY;
    }
    if (r->hashes.len > 0 && !has_word(r->hashes, SLICE("sha256"))) {
        return DKIM_RECORD_HASH;
    }
    if (r->services.len > 0 && !has_word(r->services, SLICE("email")) &&
        !has_word(r->services, SLICE("*"))) {
        return DKIM_RECORD_SERVICE;
    }
    return DKIM_RECORD_FITS;
}

enum dkim_record_verdict dkim_record_judge(const struct slice *texts, uint32_t count,
                                           const struct dkim_key *key, struct dkim_record *ret)
{
    struct dkim_record found = {0};
    uint32_t records = 0, senseless = 0;
    for (uint32_t i = 0; i < count; i++) {
        int err = dkim_record_parse(texts[i], &found);
        records += err == 0;
        senseless += err == ERR_SYNTAX;
    }
    if (records == 0) {
        return senseless > 0 ? DKIM_RECORD_SYNTAX : DKIM_RECORD_MISSING;
    }
    if (records > 1) {
        return DKIM_RECORD_SEVERAL;
    }
    *ret = found;
    return compare(&found, key);
}
