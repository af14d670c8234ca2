/* What is kept of one message: its record in the spool and its lines in the event log. Called by
 * sluice-instructions. */
#include "base/packed.h"
#include "bench/stage/stage.h"
#include "engine/event/event.h"
#include "engine/spool/spool_record.h"

#include <string.h>

#define ARRIVAL ((usec_t)1793491200 * USEC_PER_SEC) /* 2026-11-01T00:00:00Z */

/* --- the spool -------------------------------------------------------------------------------- */

static bool is_same_message(const struct spool_message *in, const struct spool_message *out)
{
    return out->envelope.id == in->envelope.id &&
           out->envelope.size_bytes == in->envelope.size_bytes &&
           out->envelope.created == in->envelope.created &&
           slice_eq(out->envelope.sender, in->envelope.sender) &&
           slice_eq(out->packed, in->packed) && slice_eq(out->body, in->body);
}

/* One message into `record` and out again. */
static bool write_and_read(const struct spool_message *m, struct slice recipient,
                           struct buf *record)
{
    char packed[64];
    size_t packed_len = 0, bytes = 0;
    struct spool_message in = *m, out;
    if (!packed_fill(packed, sizeof(packed), &packed_len, recipient)) {
        return stage_fail("record", "the recipient does not fit");
    }
    in.packed = slice_make(packed, packed_len);
    buf_clear(record);
    if (spool_message_bytes(&in, &bytes) != 0 || buf_reserve(record, bytes) == NULL) {
        return stage_fail("record", "the message does not fit into a record");
    }
    spool_message_encode(&in, record->data, bytes);
    record->len = bytes;
    if (spool_message_decode(buf_slice(record), in.envelope.id, true, &out) != 0 ||
        !is_same_message(&in, &out)) {
        return stage_fail("record", "another message came out than went in");
    }
    struct slice left = out.packed, address;
    return (packed_next(&left, &address) && slice_eq(address, recipient) && left.len == 0) ||
           stage_fail("record", "another recipient came out than went in");
}

bool stage_record(const struct stage_message *m, uint64_t messages)
{
    struct slice recipient = slice_of(m->recipient);
    struct spool_message message = {
        .envelope = {.created = ARRIVAL,
                     .size_bytes = m->content.len,
                     .recipient_count = 1,
                     .sender = slice_of(m->sender),
                     .peer_name = SLICE("source.test"),
                     .peer_address = SLICE("192.0.2.1"),
                     .protocol = SLICE("ESMTP")},
        .body = buf_slice(&m->content),
    };
    struct buf record;
    bool is_good = true;
    buf_init(&record, 0);
    for (uint64_t i = 0; is_good && i < messages; i++) {
        message.envelope.id = 1 + i;
        is_good = write_and_read(&message, recipient, &record);
    }
    buf_fini(&record);
    return is_good;
}

/* --- the event log ---------------------------------------------------------------------------- */

/* Fill event lines as engine/writer/notice.c does. */
static void put_lines(const struct stage_message *m, struct buf *log)
{
    const struct event_stamps stamps = {ARRIVAL, ARRIVAL + 310, ARRIVAL + 420, ARRIVAL + 430,
                                        ARRIVAL + 1570};
    const struct event reception = {
        .type = EVENT_RECEPTION,
        .id = SLICE("4cT2bN1x0fRz"),
        .sender = slice_of(m->sender),
        .recipient = slice_of(m->recipient),
        .recipient_count = 1,
        .size = m->content.len,
        .peer_name = SLICE("source.test"),
        .peer_address = SLICE("192.0.2.1"),
        .created = ARRIVAL,
        .event_time = ARRIVAL + 300,
        .reception_protocol = SLICE("ESMTP"),
    };
    const struct event delivery = {
        .type = EVENT_DELIVERY,
        .id = SLICE("4cT2bN1x0fRz"),
        .sender = slice_of(m->sender),
        .recipient = slice_of(m->recipient),
        .queue = slice_of(m->domain),
        .site = SLICE("mx.example.test[192.0.2.2]:25"),
        .size = m->content.len,
        .response = {.code = 250, .class_ = 2, .content = SLICE("Ok: queued as 5dU3cO2y1gSa")},
        .peer_name = SLICE("mx.example.test"),
        .peer_address = SLICE("192.0.2.2"),
        .created = ARRIVAL,
        .event_time = stamps.done,
        .num_attempts = 1,
        .delivery_protocol = SLICE("ESMTP"),
        .stamps = &stamps,
        .delay_resolution = 2,
    };
    event_format(log, &reception);
    event_format(log, &delivery);
}

bool stage_log(const struct stage_message *m, uint64_t messages)
{
    static const char head[] = "{\"type\":\"Reception\",\"id\":\"4cT2bN1x0fRz\",\"sender\":\"";
    static const char tail[] =
        ",\"delivery_protocol\":\"ESMTP\",\"delay\":0,\"delays\":[0,0,0,0]}\n";
    struct buf first, log;
    buf_init(&first, 0);
    buf_init(&log, 0);
    put_lines(m, &first);
    bool is_good = first.len > strlen(head) + strlen(tail) &&
                   memcmp(first.data, head, strlen(head)) == 0 &&
                   memcmp(first.data + first.len - strlen(tail), tail, strlen(tail)) == 0;
    for (uint64_t i = 0; is_good && i < messages; i++) {
        buf_clear(&log);
        put_lines(m, &log);
        is_good = slice_eq(buf_slice(&log), buf_slice(&first));
    }
    buf_fini(&first);
    buf_fini(&log);
    return is_good || stage_fail("log", "the lines are not those of these events");
}
