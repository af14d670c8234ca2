/* Owns nothing; the buffer is the reception's, or a composition's. Called where content is complete
 * or a chunk of it is full. A line is decided when its name and colon are seen, so at most a name
 * and LABEL_WHITE_MAX bytes are undecided at the end of the buffer; they are looked at
 * again with what follows. */
#include "engine/compose/header_filter.h"

#include "base/buf.h"
#include "engine/config/label.h"

#include <assert.h>

/* In lower case; "-" at its end: all that begin so. */
static const char *const spared[] = {
    "from",
    "sender",
    "reply-to",
    "to",
    "cc",
    "bcc",
    "date",
    "subject",
    "message-id",
    "in-reply-to",
    "references",
    "comments",
    "keywords",
    "received",
    "return-path",
    "mime-version",
    "content-",
    "resent-",
    "list-",
    "feedback-id",
    "dkim-",
    "arc-",
    "authentication-results",
    "precedence",
    "auto-submitted",
};

bool header_filter_spares(struct slice name)
{
    for (size_t i = 0; i < sizeof(spared) / sizeof(spared[0]); i++) {
        struct slice known = slice_of(spared[i]);
        bool is_family = known.data[known.len - 1] == '-' && name.len > known.len;
        if (slice_ieq(is_family ? slice_to(name, known.len) : name, known)) {
            return true;
        }
    }
    return false;
}

void header_filter_init(struct header_filter *f, const char *const *names, size_t count, size_t at)
{
    assert(count <= HEADER_FILTER_NAMES_MAX);
    *f = (struct header_filter){.at = at};
    for (size_t i = 0; i < count; i++) {
        if (names[i] != NULL && !header_filter_spares(slice_of(names[i]))) {
            f->names[f->name_count++] = slice_of(names[i]);
        }
    }
    if (f->name_count == 0) {
        f->state = HEADER_FILTER_DONE;
    }
}

void header_filter_cut(struct header_filter *f)
{
    f->at = 0;
}

enum decision { NOT_YET, STAYS, GOES };

/* Whether the line is a field of this name; it may go on behind `rest`. */
static enum decision is_field(struct slice rest, struct slice name)
{
    size_t len = rest.len < name.len ? rest.len : name.len, at = name.len;
    if (!slice_ieq(slice_to(rest, len), slice_to(name, len))) {
        return STAYS;
    }
    while (at < rest.len && (rest.data[at] == ' ' || rest.data[at] == '\t')) {
        at++;
    }
    if (at > name.len + LABEL_WHITE_MAX || (at < rest.len && rest.data[at] != ':')) {
        return STAYS;
    }
    return at < rest.len ? GOES : NOT_YET;
}

/* What becomes of the line that begins here; at least one byte of it is there. */
static enum decision decide(const struct header_filter *f, struct slice rest)
{
    enum decision result = STAYS;
    if (rest.data[0] == ' ' || rest.data[0] == '\t') {
        return f->is_removing ? GOES : STAYS;
    }
    for (size_t i = 0; i < f->name_count && result != GOES; i++) {
        enum decision d = is_field(rest, f->names[i]);
        result = d != STAYS ? d : result;
    }
    return result;
}

/* The state at the start of a line; false: more bytes are needed. */
static bool begin_line(struct header_filter *f, struct slice rest)
{
    if (rest.data[0] == '\r' || rest.data[0] == '\n') {
        f->state = HEADER_FILTER_DONE;
        return true;
    }
    enum decision d = decide(f, rest);
    if (d != NOT_YET) {
        f->is_removing = d == GOES;
        f->state = f->is_removing ? HEADER_FILTER_REMOVED : HEADER_FILTER_KEPT;
    }
    return d != NOT_YET;
}

/* Let the rest of the line, or of the message behind its header, stay or go.
 * returns its bytes */
static size_t take_header_line(struct header_filter *f, struct buf *b, struct slice rest)
{
    size_t len = rest.len;
    if (f->state != HEADER_FILTER_DONE) {
        size_t lf = slice_find(rest, '\n');
        len = lf < rest.len ? lf + 1 : rest.len;
    }
    if (f->state != HEADER_FILTER_REMOVED) {
        if (b->data + f->at != rest.data) {
            memmove(b->data + f->at, rest.data, len);
        }
        f->at += len;
    }
    if (f->state != HEADER_FILTER_DONE && rest.data[len - 1] == '\n') {
        f->state = HEADER_FILTER_LINE_START;
    }
    return len;
}

size_t header_filter_run(struct header_filter *f, struct buf *b)
{
    struct slice rest = slice_from(buf_slice(b), f->at);
    while (rest.len > 0 && (f->state != HEADER_FILTER_LINE_START || begin_line(f, rest))) {
        rest = slice_from(rest, take_header_line(f, b, rest));
    }
    /* What is undecided moves up behind what stays. */
    if (rest.len > 0 && b->data + f->at != rest.data) {
        memmove(b->data + f->at, rest.data, rest.len);
    }
    b->len = f->at + rest.len;
    return f->at;
}
