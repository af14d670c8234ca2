/* Puts a reaction into a line. Called by who writes the event log; must not know where reactions come
 * from. */
#include "engine/event/reaction_line.h"

#include "base/date.h"
#include "base/json_line.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LINE_FIXED 512 /* names, numbers and times */

static char *put_reaction_text(char *at, struct slice text)
{
    memcpy(at, text.data, text.len);
    return at + text.len;
}

/* key: with its quotes and colon, and the comma before it */
static char *put_member_text(char *at, struct slice key, struct slice value)
{
    return value.len == 0 ? at : json_line_string(put_reaction_text(at, key), value);
}

/* "2026-11-21T09:49:49.123456Z" (RFC 3339) */
static char *put_wall_time(char *at, struct slice key, usec_t wall)
{
    struct date d;
    char text[64];
    date_split(wall, &d);
    int len =
        snprintf(text, sizeof(text), "\"%04u-%02u-%02uT%02u:%02u:%02u.%06uZ\"", d.year, d.month,
                 d.day, d.hour, d.minute, d.second, (unsigned)(wall < 0 ? 0 : wall % USEC_PER_SEC));
    return put_reaction_text(put_reaction_text(at, key), slice_make(text, (size_t)len));
}

static char *put_value(char *at, double value)
{
    char text[32];
    if (value <= 0 || !isfinite(value)) {
        return at;
    }
    int len = snprintf(text, sizeof(text), "%.6g", value);
    at = put_reaction_text(at, SLICE(",\"value\":"));
    return put_reaction_text(at, slice_make(text, (size_t)len));
}

static size_t reaction_line_room(const struct reaction_line *r)
{
    const struct slice *strings[] = {&r->reaction, &r->cause, &r->rule,        &r->text, &r->source,
                                     &r->site,     &r->hosts, &r->destination, &r->unit};
    size_t room = LINE_FIXED;
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        room += json_line_string_max(strings[i]->len);
    }
    return room;
}

static char *put_reaction_line(char *at, const struct reaction_line *r)
{
    at = put_reaction_text(at, SLICE("{\"type\":\"Reaction\",\"reaction\":"));
    at = json_line_string(at, r->reaction);
    at = put_member_text(at, SLICE(",\"cause\":"), r->cause);
    at = put_member_text(at, SLICE(",\"source\":"), r->source);
    at = put_member_text(at, SLICE(",\"site\":"), r->site);
    at = put_member_text(at, SLICE(",\"hosts\":"), r->hosts);
    at = put_member_text(at, SLICE(",\"destination\":"), r->destination);
    at = put_value(at, r->value);
    at = put_member_text(at, SLICE(",\"unit\":"), r->unit);
    at = put_member_text(at, SLICE(",\"rule\":"), r->rule);
    at = put_member_text(at, SLICE(",\"text\":"), r->text);
    if (r->count != 0) {
        at = json_line_unsigned(put_reaction_text(at, SLICE(",\"count\":")), r->count);
    }
    at = json_line_signed(put_reaction_text(at, SLICE(",\"timestamp\":")), r->time / USEC_PER_SEC);
    at = put_wall_time(at, SLICE(",\"event_time\":"), r->time);
    if (r->until != 0) {
        at = put_wall_time(at, SLICE(",\"until\":"), r->until);
    }
    return put_reaction_text(at, SLICE("}\n"));
}

void reaction_line_format(struct buf *out, const struct reaction_line *r)
{
    size_t room = reaction_line_room(r);
    char *line = buf_reserve(out, room);
    if (line != NULL) {
        size_t len = (size_t)(put_reaction_line(line, r) - line);
        assert(len <= room);
        out->len += len;
    }
}
