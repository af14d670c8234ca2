/* The lines of events. Made where the event happens, by whoever notes it; nothing here decides what
 * is logged, nor knows where a line goes. */
#include "engine/event/event.h"

#include "base/date.h"
#include "base/json_line.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define DELAY_MAX  (JSON_LINE_NUMBER_MAX + 7) /* a point and six decimals */
#define LINE_FIXED 1600 /* names, quotes, numbers, times and delays of a line: never much more */

#define HEAD_TEXT(type) "{\"type\":\"" type "\",\"id\":"
#define HEAD(type)      HEAD_TEXT(type), sizeof(HEAD_TEXT(type)) - 1

/* --- delays ----------------------------------------------------------------------------------- */

static usec_t usec_between(usec_t from, usec_t to)
{
    return to > from ? to - from : 0;
}

void event_delays(const struct event_stamps *stamps, struct event_delays *ret)
{
    *ret = (struct event_delays){0};
    if (stamps->arrival == 0) {
        return;
    }
    usec_t active = stamps->active != 0 ? stamps->active : stamps->done;
    usec_t agent = stamps->agent != 0 ? stamps->agent : stamps->done;
    usec_t connected = stamps->connected != 0 ? stamps->connected : stamps->done;
    ret->total = usec_between(stamps->arrival, stamps->done);
    ret->a = usec_between(stamps->arrival, active);
    ret->b = usec_between(active, agent);
    ret->c = usec_between(agent, connected);
    ret->d = usec_between(connected, stamps->done);
}

/* At most DELAY_MAX bytes. */
static char *put_delay(char *at, usec_t delay, unsigned resolution)
{
    usec_t unit = USEC_PER_SEC;
    unsigned decimals = 0;
    assert(resolution <= 6);
    if (delay < 0) {
        delay = 0;
    }
    /* One decimal more for each place by which the value stays below ten. */
    for (usec_t bound = 10 * USEC_PER_SEC; decimals < resolution && delay < bound; bound /= 10) {
        decimals++;
        unit /= 10;
    }
    usec_t rounded = (delay + unit / 2) / unit;
    while (decimals > 0 && rounded % 10 == 0) {
        rounded /= 10;
        decimals--;
    }
    usec_t whole = rounded;
    for (unsigned i = 0; i < decimals; i++) {
        whole /= 10;
    }
    at = json_line_unsigned(at, (uint64_t)whole);
    if (decimals > 0) {
        *at = '.';
        for (unsigned i = decimals; i > 0; i--) {
            at[i] = (char)('0' + rounded % 10);
            rounded /= 10;
        }
        at += 1 + decimals;
    }
    return at;
}

void event_format_delay(struct buf *out, usec_t delay, unsigned resolution)
{
    char text[DELAY_MAX];
    buf_append(out, text, (size_t)(put_delay(text, delay, resolution) - text));
}

/* --- one line ----------------------------------------------------------------------------------
 *
 * A line is written behind a cursor into room that was made for the longest that it can become.
 */

/* A constant text: copied without a call. */
static inline char *put_json_text(char *at, struct slice text)
{
    memcpy(at, text.data, text.len);
    return at + text.len;
}

/* "2026-11-21T09:49:49.123456Z" (RFC 3339) */
static char *put_event_time(char *at, usec_t wall)
{
    static const char form[] = "\"0000-00-00T00:00:00.000000Z\"";
    struct date d;
    date_split(wall, &d);
    memcpy(at, form, sizeof(form) - 1);
    date_digits(at + 1, d.year, 4);
    date_digits(at + 6, d.month, 2);
    date_digits(at + 9, d.day, 2);
    date_digits(at + 12, d.hour, 2);
    date_digits(at + 15, d.minute, 2);
    date_digits(at + 18, d.second, 2);
    date_digits(at + 21, wall < 0 ? 0 : (unsigned)(wall % USEC_PER_SEC), 6);
    return at + sizeof(form) - 1;
}

/* key: with its quotes and colon, and the comma before it */
static inline char *put_string(char *at, struct slice key, struct slice value)
{
    return value.len == 0 ? at : json_line_string(put_json_text(at, key), value);
}

static inline char *put_unsigned(char *at, struct slice key, uint64_t value)
{
    return json_line_unsigned(put_json_text(at, key), value);
}

static char *put_response(char *at, const struct event *event)
{
    if (event->response.code == 0 && event->response.class_ == 0 &&
        event->response.content.len == 0) {
        return at;
    }
    at = put_unsigned(at, SLICE(",\"response\":{\"code\":"), event->response.code);
    if (event->response.class_ != 0) {
        at = put_unsigned(at, SLICE(",\"enhanced_code\":{\"class\":"), event->response.class_);
        at = put_unsigned(at, SLICE(",\"subject\":"), event->response.subject);
        at = put_unsigned(at, SLICE(",\"detail\":"), event->response.detail);
        *at++ = '}';
    }
    at = json_line_string(put_json_text(at, SLICE(",\"content\":")), event->response.content);
    at = put_string(at, SLICE(",\"command\":"), event->response.command);
    *at++ = '}';
    return at;
}

static char *put_peer(char *at, const struct event *event)
{
    if (event->peer_name.len == 0 && event->peer_address.len == 0) {
        return at;
    }
    at = json_line_string(put_json_text(at, SLICE(",\"peer_address\":{\"name\":")),
                          event->peer_name);
    at = json_line_string(put_json_text(at, SLICE(",\"addr\":")), event->peer_address);
    *at++ = '}';
    return at;
}

static char *put_times(char *at, const struct event *event)
{
    at = json_line_signed(put_json_text(at, SLICE(",\"timestamp\":")),
                          event->event_time / USEC_PER_SEC);
    at = put_event_time(put_json_text(at, SLICE(",\"event_time\":")), event->event_time);
    if (event->created == 0) {
        return at;
    }
    at = json_line_signed(put_json_text(at, SLICE(",\"created\":")), event->created / USEC_PER_SEC);
    return put_event_time(put_json_text(at, SLICE(",\"created_time\":")), event->created);
}

static char *put_delays(char *at, const struct event *event)
{
    struct event_delays delays;
    if (event->stamps == NULL) {
        return at;
    }
    event_delays(event->stamps, &delays);
    at = put_delay(put_json_text(at, SLICE(",\"delay\":")), delays.total, event->delay_resolution);
    at = put_json_text(at, SLICE(",\"delays\":["));
    const usec_t parts[4] = {delays.a, delays.b, delays.c, delays.d};
    for (int i = 0; i < 4; i++) {
        at = put_delay(at, parts[i], event->delay_resolution);
        *at++ = i < 3 ? ',' : ']';
    }
    return at;
}

/* More than the line can take: LINE_FIXED, each string and the members. */
static size_t line_room(const struct event *e)
{
    const size_t bytes = e->id.len + e->sender.len + e->recipient.len + e->queue.len +
                         e->transport.len + e->site.len + e->response.content.len +
                         e->response.command.len + e->bounce_classification.len +
                         e->peer_name.len + e->peer_address.len + e->egress_source.len +
                         e->delivery_protocol.len + e->reception_protocol.len +
                         e->source_transport.len + e->tenant.len + e->campaign.len +
                         e->mail_class.len + e->nodeid.len + e->session_id.len +
                         e->tls_cipher.len + e->tls_protocol_version.len + e->tls_verdict.len;
    return LINE_FIXED + json_line_string_max(bytes) + e->members.len;
}

static char *put_line(char *at, const struct event *event)
{
    static const struct slice heads[EVENT_TYPE_COUNT] = {
        [EVENT_RECEPTION] = {HEAD("Reception")},
        [EVENT_DELIVERY] = {HEAD("Delivery")},
        [EVENT_TRANSIENT_FAILURE] = {HEAD("TransientFailure")},
        [EVENT_BOUNCE] = {HEAD("Bounce")},
        [EVENT_EXPIRATION] = {HEAD("Expiration")},
        [EVENT_ADMIN_BOUNCE] = {HEAD("AdminBounce")},
        [EVENT_ADMIN_DROP] = {HEAD("AdminDrop")},
        [EVENT_SUPPRESSED] = {HEAD("Suppressed")},
        [EVENT_SUPPRESSION_ADDED] = {HEAD("SuppressionAdded")},
        [EVENT_SUPPRESSION_REMOVED] = {HEAD("SuppressionRemoved")},
        [EVENT_OOB] = {HEAD("OOB")},
        [EVENT_FEEDBACK] = {HEAD("Feedback")},
        [EVENT_AUTO_REPLY] = {HEAD("AutoReply")},
    };
    at = json_line_string(put_json_text(at, heads[event->type]), event->id);
    at = json_line_string(put_json_text(at, SLICE(",\"sender\":")), event->sender);
    at = put_string(at, SLICE(",\"recipient\":"), event->recipient);
    if (event->recipient_count != 0) {
        at = put_unsigned(at, SLICE(",\"recipient_count\":"), event->recipient_count);
    }
    at = put_string(at, SLICE(",\"queue\":"), event->queue);
    at = put_string(at, SLICE(",\"transport\":"), event->transport);
    at = put_string(at, SLICE(",\"site\":"), event->site);
    at = put_unsigned(at, SLICE(",\"size\":"), event->size);
    at = put_response(at, event);
    at = put_string(at, SLICE(",\"bounce_classification\":"), event->bounce_classification);
    at = put_peer(at, event);
    at = put_times(at, event);
    if (event->type != EVENT_RECEPTION) {
        at = put_unsigned(at, SLICE(",\"num_attempts\":"), event->num_attempts);
    }
    at = put_string(at, SLICE(",\"egress_source\":"), event->egress_source);
    at = put_string(at, SLICE(",\"delivery_protocol\":"), event->delivery_protocol);
    at = put_string(at, SLICE(",\"reception_protocol\":"), event->reception_protocol);
    at = put_string(at, SLICE(",\"source_transport\":"), event->source_transport);
    at = put_string(at, SLICE(",\"tenant\":"), event->tenant);
    at = put_string(at, SLICE(",\"campaign\":"), event->campaign);
    at = put_string(at, SLICE(",\"mail_class\":"), event->mail_class);
    at = put_string(at, SLICE(",\"nodeid\":"), event->nodeid);
    at = put_string(at, SLICE(",\"session_id\":"), event->session_id);
    at = put_string(at, SLICE(",\"tls_cipher\":"), event->tls_cipher);
    at = put_string(at, SLICE(",\"tls_protocol_version\":"), event->tls_protocol_version);
    at = put_string(at, SLICE(",\"tls_verdict\":"), event->tls_verdict);
    if (event->is_tls_resumed) {
        at = put_json_text(at, SLICE(",\"is_tls_resumed\":true"));
    }
    if (event->is_ambiguous) {
        at = put_json_text(at, SLICE(",\"is_ambiguous\":true"));
    }
    if (event->members.len > 0) {
        at = put_json_text(at, event->members);
    }
    return put_json_text(put_delays(at, event), SLICE("}\n"));
}

void event_format(struct buf *out, const struct event *event)
{
    size_t room = line_room(event);
    char *line = buf_reserve(out, room);
    if (line != NULL) {
        size_t len = (size_t)(put_line(line, event) - line);
        assert(len <= room);
        out->len += len;
    }
}
