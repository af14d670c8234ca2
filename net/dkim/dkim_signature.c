/* Writes a signature: its field without the value of b=, the hash over the signed fields and it, and
 * what the key makes of that. Lines are folded where the grammar of a tag allows white space.
 * Called by the threads that sign. Must not change what it signs. */
#include "net/dkim/dkim_signature.h"

#include "base/error.h"
#include "net/base64.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum {
    LINE_MAX_BYTES = 76, /* RFC 5322 section 2.1.1 asks for at most 78 */
    LAST_LINE_BYTES = 3, /* of a draft: a tab and "b=" */
};

const struct slice dkim_default_names[] = {
    SLICE("Sender"),
    SLICE("Resent-Date"),
    SLICE("Resent-From"),
    SLICE("Resent-Sender"),
    SLICE("Resent-To"),
    SLICE("Resent-Cc"),
    SLICE("Resent-Message-ID"),
    SLICE("In-Reply-To"),
    SLICE("References"),
    SLICE("List-Id"),
    SLICE("List-Help"),
    SLICE("List-Subscribe"),
    SLICE("List-Post"),
    SLICE("List-Owner"),
    SLICE("List-Archive"),
    SLICE("List-Unsubscribe"),
    SLICE("List-Unsubscribe-Post"),
    SLICE("Feedback-ID"),
    SLICE("Auto-Submitted"),
    SLICE("Content-Description"),
    SLICE("Content-ID"),
    SLICE("Content-Disposition"),
};
const size_t dkim_default_name_count = sizeof(dkim_default_names) / sizeof(dkim_default_names[0]);

const struct slice dkim_default_oversigned[] = {
    SLICE("From"),         SLICE("To"),
    SLICE("Cc"),           SLICE("Subject"),
    SLICE("Date"),         SLICE("Message-ID"),
    SLICE("Reply-To"),     SLICE("MIME-Version"),
    SLICE("Content-Type"), SLICE("Content-Transfer-Encoding"),
};
const size_t dkim_default_oversigned_count =
    sizeof(dkim_default_oversigned) / sizeof(dkim_default_oversigned[0]);

/* --- which fields ----------------------------------------------------------------------------- */

/* One name of h=, with the field that it stands for; NULL: that there is no such field. */
struct instance {
    struct slice name;
    const struct dkim_field *field;
};

struct choice {
    struct instance *instances;
    size_t count;
};

static bool is_among(struct slice name, const struct slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dkim_is_same_name(name, names[i])) {
            return true;
        }
    }
    return false;
}

static int add_instance(struct choice *c, struct slice name, const struct dkim_field *field)
{
    if (c->count == DKIM_INSTANCES_MAX) {
        return ERR_LIMIT;
    }
    c->instances[c->count++] = (struct instance){name, field};
    return 0;
}

/* The fields of a name from the bottom, in one pass however many there are. */
static int add_instances(struct choice *c, const struct dkim_header *header, struct slice name,
                         bool is_oversigned)
{
    int err = 0;
    size_t at = header->count;
    while (err == 0 && (at = dkim_header_find_above(header, name, at)) != DKIM_NO_FIELD) {
        err = add_instance(c, name, &header->fields[at]);
    }
    return err == 0 && is_oversigned ? add_instance(c, name, NULL) : err;
}

static int choose(struct choice *c, const struct dkim_terms *t, const struct dkim_header *header)
{
    struct slice from = SLICE("From");
    if (dkim_header_count(header, from) == 0) {
        return ERR_MISSING;
    }
    int err = 0;
    if (!is_among(from, t->oversigned, t->oversigned_count) &&
        !is_among(from, t->names, t->name_count)) {
        err = add_instances(c, header, from, false);
    }
    for (size_t i = 0; i < t->oversigned_count && err == 0; i++) {
        if (!is_among(t->oversigned[i], t->oversigned, i)) {
            err = add_instances(c, header, t->oversigned[i], true);
        }
    }
    for (size_t i = 0; i < t->name_count && err == 0; i++) {
        if (dkim_header_may_have(header, t->names[i]) &&
            !is_among(t->names[i], t->oversigned, t->oversigned_count) &&
            !is_among(t->names[i], t->names, i)) {
            err = add_instances(c, header, t->names[i], false);
        }
    }
    return err;
}

/* --- the field -------------------------------------------------------------------------------- */

/* A field that is being written, with the length of its last line. */
struct writer {
    struct buf *out;
    size_t line_begin;
};

static void fold(struct writer *w)
{
    buf_append_str(w->out, "\r\n");
    w->line_begin = w->out->len;
    buf_append_char(w->out, '\t');
}

static bool has_room(const struct writer *w, size_t len)
{
    return w->out->len - w->line_begin + len <= LINE_MAX_BYTES;
}

/* A tag with its value, which is not broken, behind white space. */
static void put_tag(struct writer *w, const char *tag, struct slice value)
{
    if (has_room(w, 1 + strlen(tag) + value.len + 1)) {
        buf_append_char(w->out, ' ');
    } else {
        fold(w);
    }
    buf_append_str(w->out, tag);
    buf_append_slice(w->out, value);
    buf_append_char(w->out, ';');
}

static void put_time_tag(struct writer *w, const char *tag, uint64_t time)
{
    if (time != 0) {
        char text[24];
        int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)time);
        put_tag(w, tag, slice_of_printed(text, sizeof(text), len));
    }
}

static void put_names(struct writer *w, const struct choice *c)
{
    fold(w);
    buf_append_str(w->out, "h=");
    for (size_t i = 0; i < c->count; i++) {
        if (i > 0) {
            buf_append_char(w->out, ':');
        }
        if (i > 0 && !has_room(w, c->instances[i].name.len + 1)) {
            fold(w);
        }
        buf_append_slice(w->out, c->instances[i].name);
    }
    buf_append_char(w->out, ';');
}

/* Base64 may be broken anywhere. */
static void put_base64(struct writer *w, struct slice data)
{
    char text[BASE64_ENCODED_LEN(DKIM_SIGNATURE_MAX)];
    struct slice rest = slice_make(text, base64_encode(data, text));
    while (rest.len > 0) {
        size_t used = w->out->len - w->line_begin;
        size_t room = used < LINE_MAX_BYTES ? LINE_MAX_BYTES - used : 0;
        size_t part = rest.len < room ? rest.len : room;
        buf_append_slice(w->out, slice_to(rest, part));
        rest = slice_from(rest, part);
        if (rest.len > 0) {
            fold(w);
        }
    }
}

/* Everything up to the value of b=. */
static void put_unsigned(struct writer *w, const struct dkim_key *key, const struct dkim_terms *t,
                         const struct choice *c, const uint8_t *body_hash)
{
    static const char *const canons[2][2] = {
        [DKIM_SIMPLE] = {[DKIM_SIMPLE] = "simple/simple", [DKIM_RELAXED] = "simple/relaxed"},
        [DKIM_RELAXED] = {[DKIM_SIMPLE] = "relaxed/simple", [DKIM_RELAXED] = "relaxed/relaxed"},
    };
    buf_append_str(w->out, "DKIM-Signature: v=1;");
    put_tag(w, "a=", slice_of(dkim_algorithm_text(dkim_key_algorithm(key))));
    put_tag(w, "c=", slice_of(canons[t->header][t->body]));
    put_tag(w, "d=", t->domain);
    put_tag(w, "s=", t->selector);
    put_time_tag(w, "t=", t->signed_at);
    put_time_tag(w, "x=", t->expires_at);
    put_names(w, c);
    char hash[BASE64_ENCODED_LEN(DKIM_HASH_BYTES)];
    size_t hash_len = base64_encode(slice_make((const char *)body_hash, DKIM_HASH_BYTES), hash);
    put_tag(w, "bh=", slice_make(hash, hash_len));
    fold(w);
    buf_append_str(w->out, "b=");
}

/* --- the signature ---------------------------------------------------------------------------- */

/* Section 3.7: the signed fields in the order of h=, each with a CRLF, then the signature's own field
 * with an empty b= and without one. */
static int hash_header(const struct dkim_key *key, const struct dkim_terms *t,
                       const struct choice *c, struct slice field, uint8_t ret[DKIM_HASH_BYTES])
{
    struct buf text;
    size_t room = field.len;
    buf_init(&text, 0);
    for (size_t i = 0; i < c->count; i++) {
        room += c->instances[i].field == NULL ? 0 : c->instances[i].field->text.len + 2;
    }
    (void)buf_reserve(&text, room); /* at once; text.failed says whether there was memory */
    for (size_t i = 0; i < c->count; i++) {
        if (c->instances[i].field != NULL) {
            dkim_field_put(c->instances[i].field, t->header, &text);
            buf_append_str(&text, "\r\n");
        }
    }
    struct dkim_field own = {field, strlen("DKIM-Signature")};
    dkim_field_put(&own, t->header, &text);
    int err = text.failed ? -ENOMEM : dkim_key_hash(key, buf_slice(&text), ret);
    buf_fini(&text);
    return err;
}

int dkim_draft(const struct dkim_key *key, const struct dkim_terms *terms,
               const struct dkim_header *header, const uint8_t body_hash[DKIM_HASH_BYTES],
               struct buf *out, uint8_t ret_hash[DKIM_HASH_BYTES])
{
    struct instance instances[DKIM_INSTANCES_MAX];
    struct choice c = {instances, 0};
    assert(terms->name_count <= DKIM_NAMES_MAX && terms->oversigned_count <= DKIM_NAMES_MAX);
    size_t begin = out->len;
    struct writer w = {out, begin};
    int err = choose(&c, terms, header);
    if (err == 0) {
        put_unsigned(&w, key, terms, &c, body_hash);
        err = out->failed
                  ? -ENOMEM
                  : hash_header(key, terms, &c, slice_from(buf_slice(out), begin), ret_hash);
    }
    if (err != 0) {
        out->len = begin;
    }
    return err;
}

void dkim_put_signature(struct slice signature, struct buf *out)
{
    assert(out->failed || out->len >= LAST_LINE_BYTES);
    struct writer w = {out, out->failed ? 0 : out->len - LAST_LINE_BYTES};
    put_base64(&w, signature);
    buf_append_str(out, "\r\n");
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Up to the first line that does not begin with white space. */
static struct slice next_field(struct slice *rest)
{
    size_t end = 0;
    do {
        struct slice behind = slice_from(*rest, end);
        size_t line = slice_find(behind, '\n');
        end += line < behind.len ? line + 1 : behind.len;
    } while (end < rest->len && (rest->data[end] == ' ' || rest->data[end] == '\t'));
    struct slice field = slice_to(*rest, end);
    *rest = slice_from(*rest, end);
    return field;
}

/* The value of a tag, without the white space around it; empty: there is no such tag. */
static struct slice tag_value(struct slice tags, struct slice name)
{
    while (tags.len > 0) {
        size_t end = slice_find(tags, ';');
        struct slice tag = slice_to(tags, end < tags.len ? end : tags.len);
        tags = end < tags.len ? slice_from(tags, end + 1) : SLICE("");
        size_t equals = slice_find(tag, '=');
        if (equals < tag.len && slice_eq(slice_trim(slice_to(tag, equals)), name)) {
            return slice_trim(slice_from(tag, equals + 1));
        }
    }
    return SLICE("");
}

bool dkim_signature_next(struct slice *rest, struct dkim_signer *ret)
{
    while (rest->len > 0) {
        struct slice field = next_field(rest);
        size_t colon = slice_find(field, ':');
        if (colon < field.len &&
            slice_ieq(slice_trim(slice_to(field, colon)), SLICE("DKIM-Signature"))) {
            struct slice tags = slice_from(field, colon + 1);
            *ret = (struct dkim_signer){tag_value(tags, SLICE("d")), tag_value(tags, SLICE("s")),
                                        tag_value(tags, SLICE("a"))};
            return true;
        }
    }
    return false;
}
