/* Spool records: whatever the bytes are, decoders stay inside them; what decodes without its
 * checksum encodes to the same bytes again. First byte: kind of record. */
#include "base/packed.h"
#include "engine/spool/spool_record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ID 77

static void check(bool is_right)
{
    if (!is_right) {
        abort();
    }
}

static bool lies_in(struct slice inner, struct slice outer)
{
    return inner.len == 0 ||
           (inner.data >= outer.data && inner.data + inner.len <= outer.data + outer.len);
}

/* Same but for the checksum, which the input need not have. */
static void same_fields(const void *again, struct slice record)
{
    check(memcmp(again, record.data, record.len - 8) == 0);
}

static void message(struct slice record)
{
    struct spool_message m;
    uint32_t chunks;
    uint32_t batches;
    bool is_peeked = spool_message_peek(record, &chunks, &batches);
    bool is_whole = spool_message_decode(record, ID, true, &m) == 0;
    if (spool_message_decode(record, ID, false, &m) != 0) {
        check(!is_whole);
        return;
    }
    check(is_peeked && chunks == m.envelope.chunk_count && batches == m.batch_count);
    check(lies_in(m.body, record) && lies_in(m.packed, record));
    check(lies_in(m.envelope.sender, record) && lies_in(m.envelope.auth_user, record));
    check(lies_in(m.envelope.tenant, record) && lies_in(m.envelope.campaign, record));
    struct slice rest = m.packed;
    struct slice address;
    while (packed_next(&rest, &address)) {
        check(lies_in(address, m.packed));
    }
    size_t bytes;
    /* Written again it has the newest version, which is longer. */
    if (spool_message_bytes(&m, &bytes) == 0 && record.data[0] == 2) {
        check(bytes == record.len);
        char *again = malloc(bytes);
        check(again != NULL);
        spool_message_encode(&m, again, bytes);
        same_fields(again, record);
        check(spool_message_decode(slice_make(again, bytes), ID, true, &m) == 0);
        free(again);
    }
}

static void reason(struct slice record)
{
    const struct spool_key key = spool_key_part(ID, 1);
    struct spool_reason r;
    if (spool_reason_decode(record, &key, &r) == 0) {
        char again[SPOOL_REASON_BYTES_MAX];
        check(lies_in(r.status, record) && lies_in(r.text, record));
        check(lies_in(r.remote_mta, record));
        (void)spool_reason_encode(&r, &key, again); /* cut to its limits */
    }
}

static void small(struct slice record)
{
    const struct spool_key key = spool_key_part(ID, 1);
    struct slice bytes;
    struct spool_retry retry;
    uint64_t number;
    uint64_t id;
    uint32_t part;
    struct spool_position place;
    struct spool_flow flow;
    if (spool_flow_decode(record, 1, &flow) == 0) {
        check(flow.class < MAIL_CLASS_COUNT && spool_flow_bytes(&flow) == record.len);
        check(lies_in(flow.tenant, record) && lies_in(flow.campaign, record));
    }
    if (spool_blob_decode(record, &key, false, &bytes) == 0) {
        check(lies_in(bytes, record) && bytes.len + SPOOL_RECORD_OVERHEAD == record.len);
    }
    bool is_any = spool_number_decode(record, &key, &number) == 0;
    is_any = spool_retry_decode(record, ID, &retry) == 0 || is_any;
    is_any = spool_key_read_id(record, &id) || is_any;
    is_any = spool_key_read_part(record, &id, &part) || is_any;
    is_any = spool_key_read_queue(record, &place) || is_any;
    is_any = spool_key_read_old_queue(record, &number, &id) || is_any;
    is_any = spool_key_read_flow(record, &part) || is_any;
    check(!is_any || record.len <= SPOOL_RETRY_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct slice record = slice_make((const char *)data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        message(record);
        break;
    case 1:
        reason(record);
        break;
    default:
        small(record);
        break;
    }
    return 0;
}
