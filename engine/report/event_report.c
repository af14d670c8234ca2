/* Reads the files of the event log with a cursor of its own, and the feed's figures. Called on a
 * clerk's thread; must not hold a clerk for long: what one call looks at is bounded. */
#include "engine/report/event_report.h"

#include "base/buf.h"
#include "base/error.h"
#include "engine/event/event_cursor.h"
#include "engine/event/event_line.h"
#include "engine/event/event_log.h"
#include "engine/feed/event_feed.h"
#include "engine/http/clerk.h"
#include "engine/report/why_past.h"
#include "engine/state/engine.h"

#include <errno.h>
#include <string.h>

enum {
    LINES_LOOKED_AT = 100000, /* of other types, too */
    ANSWER_BYTES = 4 << 20
};

struct question {
    struct event_position after;
    uint64_t limit;
    unsigned types;     /* bits; 0: all */
    struct slice owner; /* the member that lines of the caller's tenant have; empty: of anybody's */
    char owner_text[WHY_PAST_MEMBER_MAX];
};

/* "Delivery,Bounce"; answers 400 and returns false when a type is unknown */
static bool read_types(struct api_call *c, unsigned *ret)
{
    struct slice text = SLICE("");
    *ret = 0;
    if (!api_param(c, "type", &text)) {
        return true;
    }
    for (;;) {
        size_t comma = slice_find(text, ',');
        unsigned bit = event_line_type_bit(slice_to(text, comma));
        if (bit == 0) {
            api_error(c, 400, "usage",
                      "type: \"%.*s\" is no type of event; write " EVENT_LINE_TYPES
                      ", with commas between",
                      (int)(comma < 40 ? comma : 40), text.data);
            return false;
        }
        *ret |= bit;
        if (comma == text.len) {
            return true;
        }
        text = slice_from(text, comma + 1);
    }
}

static bool read_question(const struct engine *e, struct api_call *c, struct question *ret)
{
    struct slice after = SLICE("");
    *ret = (struct question){.after = {0, 0}, .owner = SLICE("")};
    if (api_tenant(c).len > 0) {
        ret->owner = why_past_member("tenant", api_tenant(c), ret->owner_text);
    }
    if (!api_param_limit(c, &ret->limit) || !read_types(c, &ret->types)) {
        return false;
    }
    if (!api_param(c, "after", &after)) {
        int err = event_position_end(e->events->path, &ret->after);
        if (err != 0) {
            api_error(c, 503, "unavailable", "the event log cannot be read: %s", err_str(err));
        }
        return err == 0;
    }
    if (!slice_eq(after, SLICE("start")) && event_position_parse(after, &ret->after) != 0) {
        api_error(c, 400, "usage",
                  "after: \"%.*s\" is no cursor; write start, or the cursor of an answer as it was",
                  (int)(after.len < 40 ? after.len : 40), after.data);
        return false;
    }
    return true;
}

/* Whether the line is for whoever asks. A quote inside a text of the line has a backslash before it,
 * so that what is found is the member; and a cursor from outside may stand inside a line, whose rest
 * is no line. */
static bool is_for(const struct question *q, struct slice line)
{
    return q->owner.len == 0 || (event_line_is_whole(line) &&
                                 memmem(line.data, line.len, q->owner.data, q->owner.len) != NULL);
}

/* Lines into `out`. returns: 0: more may be there; else as event_cursor_next */
static int read_lines(struct event_cursor *cursor, const struct question *q, struct buf *out,
                      uint64_t *ret_count, bool *ret_is_lost)
{
    struct slice line;
    *ret_count = 0;
    *ret_is_lost = false;
    for (unsigned n = 0; n < LINES_LOOKED_AT && *ret_count < q->limit && out->len < ANSWER_BYTES;
         n++) {
        int err = event_cursor_next(cursor, &line);
        if (err == ERR_MISSING) {
            *ret_is_lost = true;
            continue;
        }
        if (err != 0) {
            return err;
        }
        bool is_asked =
            q->types == 0 || (q->types & event_line_type_bit(event_line_type(line))) != 0;
        if (is_asked && is_for(q, line)) {
            buf_append_slice(out, line);
            buf_append_char(out, '\n');
            ++*ret_count;
        }
    }
    return 0;
}

void event_report_list(struct clerk *k, struct api_call *c)
{
    struct question q;
    struct event_cursor cursor;
    struct buf out;
    char at[EVENT_POSITION_TEXT];
    uint64_t count = 0;
    bool is_lost = false;
    if (k->engine->feed == NULL) {
        api_error(c, 404, "missing", "there is no event log that can be read");
        return;
    }
    if (!read_question(k->engine, c, &q)) {
        return;
    }
    buf_init(&out, 0);
    int err = event_cursor_init(&cursor, k->engine->events->path, q.after);
    if (err == 0) {
        err = read_lines(&cursor, &q, &out, &count, &is_lost);
    }
    event_position_format(cursor.position, at);
    event_cursor_fini(&cursor);
    buf_printf(&out, "{\"end\":true,\"count\":%llu,\"more\":%s,\"cursor\":\"%s\"%s}\n",
               (unsigned long long)count, err == 0 ? "true" : "false", at,
               is_lost ? ",\"lost\":true" : "");
    if ((err != 0 && err != ERR_AGAIN) || out.failed) {
        api_error(c, 503, "unavailable", "the event log cannot be read: %s",
                  err_str(out.failed ? -ENOMEM : err));
    } else {
        api_raw(c, 200, "application/x-ndjson", buf_slice(&out));
    }
    buf_fini(&out);
}

/* --- consumers -------------------------------------------------------------------------------- */

static void put_consumer(void *ctx, const struct event_feed_report *r)
{
    struct api_call *c = ctx;
    char at[EVENT_POSITION_TEXT];
    event_position_format(r->position, at);
    json_t *o = json_pack("{s:s, s:s, s:o, s:s, s:f}", "kind", r->kind, "name", r->name, "title",
                          api_text(slice_of(r->title)), "cursor", at, "behind",
                          (double)r->behind / (double)USEC_PER_SEC);
    if (o != NULL) {
        api_set_number(o, "behind_bytes", r->behind_bytes);
        api_set_number(o, "events", r->events);
        api_set_number(o, "failures", r->failures);
        api_set_number(o, "gaps", r->gaps);
    }
    if (o != NULL && r->failing_since != 0) {
        api_set_time(o, "failing_since", r->failing_since);
        api_set_text(o, "why", slice_of(r->why));
    }
    api_put(c, o);
}

void event_report_consumers(struct clerk *k, struct api_call *c)
{
    event_feed_look(k->engine->feed, put_consumer, c);
    api_end(c, false);
}
