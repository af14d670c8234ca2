/* Encodes and decodes the spool's records. Called by the store's transactions and readers; touches
 * nothing but the bytes it is given. */
#include "engine/spool/spool_record.h"

#include "base/error.h"
#include "base/hash.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#define CHECKSUM_BYTES 8
/* version, flags, three counts, size, four times, seven text lengths, list and body lengths */
#define MESSAGE_FIXED_BYTES (1 + 2 + 3 * 4 + 8 + 4 * 8 + 7 * 2 + 4 + 4)
/* A message record has this version; one of version 1 has no tenant and campaign, and no times of
 * its own for its first attempt and its end. */
#define MESSAGE_VERSION 2

/* Reads fields in order; the first that does not fit makes every later one empty (sticky). */
struct record_in {
    const unsigned char *at;
    size_t left;
    bool failed;
};

/* Writes fields in order into a buffer whose size was computed before. */
struct record_out {
    unsigned char *at;
    size_t left;
};

static const unsigned char *in_take(struct record_in *in, size_t len)
{
    if (in->failed || len > in->left) {
        in->failed = true;
        return NULL;
    }
    const unsigned char *at = in->at;
    in->at += len;
    in->left -= len;
    return at;
}

static uint8_t in_u8(struct record_in *in)
{
    const unsigned char *at = in_take(in, 1);
    return at == NULL ? 0 : *at;
}

static uint16_t in_u16(struct record_in *in)
{
    uint16_t value = 0;
    const unsigned char *at = in_take(in, sizeof(value));
    if (at != NULL) {
        memcpy(&value, at, sizeof(value));
    }
    return be16toh(value);
}

static uint32_t in_u32(struct record_in *in)
{
    uint32_t value = 0;
    const unsigned char *at = in_take(in, sizeof(value));
    if (at != NULL) {
        memcpy(&value, at, sizeof(value));
    }
    return be32toh(value);
}

static uint64_t in_u64(struct record_in *in)
{
    uint64_t value = 0;
    const unsigned char *at = in_take(in, sizeof(value));
    if (at != NULL) {
        memcpy(&value, at, sizeof(value));
    }
    return be64toh(value);
}

static struct slice in_bytes(struct record_in *in, size_t len)
{
    const unsigned char *at = in_take(in, len);
    return at == NULL ? SLICE("") : slice_make((const char *)at, len);
}

static void out_bytes(struct record_out *out, const void *data, size_t len)
{
    assert(len <= out->left);
    if (len > 0) {
        memcpy(out->at, data, len);
    }
    out->at += len;
    out->left -= len;
}

static void out_slice(struct record_out *out, struct slice s)
{
    out_bytes(out, s.data, s.len);
}

static void out_u8(struct record_out *out, uint8_t value)
{
    out_bytes(out, &value, sizeof(value));
}

static void out_u16(struct record_out *out, uint16_t value)
{
    value = htobe16(value);
    out_bytes(out, &value, sizeof(value));
}

static void out_u32(struct record_out *out, uint32_t value)
{
    value = htobe32(value);
    out_bytes(out, &value, sizeof(value));
}

static void out_u64(struct record_out *out, uint64_t value)
{
    value = htobe64(value);
    out_bytes(out, &value, sizeof(value));
}

static uint64_t record_checksum(const void *data, size_t len, const struct spool_key *key)
{
    return hash_checksum(data, len) ^ hash_checksum(key->bytes, key->len);
}

/* The last field of every record. */
static void out_seal(struct record_out *out, const void *start, const struct spool_key *key)
{
    assert(out->left == CHECKSUM_BYTES);
    out_u64(out, record_checksum(start, (size_t)(out->at - (const unsigned char *)start), key));
}

/* Opens a record for reading: version read, checksum cut off and, when asked, compared. */
static int in_open(struct slice record, const struct spool_key *key, bool verify, uint8_t newest,
                   struct record_in *ret)
{
    if (record.len < SPOOL_RECORD_OVERHEAD) {
        return ERR_CORRUPT;
    }
    const unsigned char *start = (const unsigned char *)record.data;
    if (*start < SPOOL_RECORD_VERSION || *start > newest) {
        return ERR_CORRUPT;
    }
    size_t covered = record.len - CHECKSUM_BYTES;
    if (verify) {
        uint64_t stored;
        memcpy(&stored, start + covered, sizeof(stored));
        if (be64toh(stored) != record_checksum(start, covered, key)) {
            return ERR_CORRUPT;
        }
    }
    *ret = (struct record_in){start + 1, covered - 1, false};
    return 0;
}

static struct spool_key key_two(uint64_t first, const void *rest, size_t rest_len)
{
    struct spool_key key = {.len = sizeof(first) + rest_len};
    first = htobe64(first);
    memcpy(key.bytes, &first, sizeof(first));
    memcpy(key.bytes + sizeof(first), rest, rest_len);
    return key;
}

struct spool_key spool_key_id(uint64_t id)
{
    return key_two(id, "", 0);
}

struct spool_key spool_key_part(uint64_t id, uint32_t number)
{
    number = htobe32(number);
    return key_two(id, &number, sizeof(number));
}

struct spool_key spool_key_queue(uint32_t flow, uint64_t time, uint64_t id)
{
    struct spool_key key = {.len = sizeof(flow) + sizeof(time) + sizeof(id)};
    flow = htobe32(flow);
    time = htobe64(time);
    id = htobe64(id);
    memcpy(key.bytes, &flow, sizeof(flow));
    memcpy(key.bytes + sizeof(flow), &time, sizeof(time));
    memcpy(key.bytes + sizeof(flow) + sizeof(time), &id, sizeof(id));
    return key;
}

struct spool_key spool_key_old_queue(uint64_t time, uint64_t id)
{
    id = htobe64(id);
    return key_two(time, &id, sizeof(id));
}

struct spool_key spool_key_flow(uint32_t number)
{
    struct spool_key key = {.len = sizeof(number)};
    number = htobe32(number);
    memcpy(key.bytes, &number, sizeof(number));
    return key;
}

struct spool_key spool_key_quarantine(uint64_t id, uint8_t table, uint32_t number)
{
    unsigned char rest[5] = {table};
    number = htobe32(number);
    memcpy(rest + 1, &number, sizeof(number));
    return key_two(id, rest, sizeof(rest));
}

struct spool_key spool_key_name(const char *name)
{
    struct spool_key key = {.len = strlen(name)};
    assert(key.len > 0 && key.len <= sizeof(key.bytes));
    memcpy(key.bytes, name, key.len);
    return key;
}

bool spool_key_read_id(struct slice key, uint64_t *ret_id)
{
    struct record_in in = {(const unsigned char *)key.data, key.len, false};
    uint64_t id = in_u64(&in);
    if (in.failed || in.left != 0) {
        return false;
    }
    *ret_id = id;
    return true;
}

bool spool_key_read_part(struct slice key, uint64_t *ret_id, uint32_t *ret_number)
{
    struct record_in in = {(const unsigned char *)key.data, key.len, false};
    uint64_t id = in_u64(&in);
    uint32_t number = in_u32(&in);
    if (in.failed || in.left != 0) {
        return false;
    }
    *ret_id = id;
    *ret_number = number;
    return true;
}

bool spool_key_read_queue(struct slice key, struct spool_position *ret)
{
    struct record_in in = {(const unsigned char *)key.data, key.len, false};
    uint32_t flow = in_u32(&in);
    uint64_t time = in_u64(&in);
    uint64_t id = in_u64(&in);
    if (in.failed || in.left != 0) {
        return false;
    }
    ret->flow = flow;
    ret->time = time;
    ret->id = id;
    return true;
}

bool spool_key_read_flow(struct slice key, uint32_t *ret_number)
{
    struct record_in in = {(const unsigned char *)key.data, key.len, false};
    uint32_t number = in_u32(&in);
    if (in.failed || in.left != 0) {
        return false;
    }
    *ret_number = number;
    return true;
}

bool spool_key_read_old_queue(struct slice key, uint64_t *ret_time, uint64_t *ret_id)
{
    struct record_in in = {(const unsigned char *)key.data, key.len, false};
    uint64_t time = in_u64(&in);
    uint64_t id = in_u64(&in);
    if (in.failed || in.left != 0) {
        return false;
    }
    *ret_time = time;
    *ret_id = id;
    return true;
}

int spool_message_bytes(const struct spool_message *m, size_t *ret_bytes)
{
    const struct spool_envelope *e = &m->envelope;
    const struct slice texts[] = {e->sender,    e->peer_name, e->peer_address, e->protocol,
                                  e->auth_user, e->tenant,    e->campaign};
    size_t bytes = MESSAGE_FIXED_BYTES + m->packed.len + m->body.len + CHECKSUM_BYTES;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].len > UINT16_MAX) {
            return ERR_LIMIT;
        }
        bytes += texts[i].len;
    }
    if (m->packed.len > SPOOL_INLINE_RECIPIENT_BYTES || m->body.len > SPOOL_INLINE_BODY_BYTES ||
        e->flags > UINT16_MAX) {
        return ERR_LIMIT;
    }
    *ret_bytes = bytes;
    return 0;
}

void spool_message_encode(const struct spool_message *m, void *out_start, size_t bytes)
{
    const struct spool_envelope *e = &m->envelope;
    const struct spool_key key = spool_key_id(e->id);
    struct record_out out = {out_start, bytes};
    out_u8(&out, MESSAGE_VERSION);
    out_u16(&out, (uint16_t)e->flags);
    out_u32(&out, e->recipient_count);
    out_u32(&out, e->chunk_count);
    out_u32(&out, m->batch_count);
    out_u64(&out, e->size_bytes);
    out_u64(&out, (uint64_t)e->created);
    out_u64(&out, (uint64_t)e->warn_at);
    out_u64(&out, (uint64_t)e->not_before);
    out_u64(&out, (uint64_t)e->expires);
    out_u16(&out, (uint16_t)e->sender.len);
    out_u16(&out, (uint16_t)e->peer_name.len);
    out_u16(&out, (uint16_t)e->peer_address.len);
    out_u16(&out, (uint16_t)e->protocol.len);
    out_u16(&out, (uint16_t)e->auth_user.len);
    out_u16(&out, (uint16_t)e->tenant.len);
    out_u16(&out, (uint16_t)e->campaign.len);
    out_u32(&out, (uint32_t)m->packed.len);
    out_u32(&out, (uint32_t)m->body.len);
    out_slice(&out, e->sender);
    out_slice(&out, e->peer_name);
    out_slice(&out, e->peer_address);
    out_slice(&out, e->protocol);
    out_slice(&out, e->auth_user);
    out_slice(&out, e->tenant);
    out_slice(&out, e->campaign);
    out_slice(&out, m->packed);
    out_slice(&out, m->body);
    out_seal(&out, out_start, &key);
}

int spool_message_decode(struct slice record, uint64_t id, bool verify, struct spool_message *ret)
{
    const struct spool_key key = spool_key_id(id);
    struct record_in in;
    int r = in_open(record, &key, verify, MESSAGE_VERSION, &in);
    if (r != 0) {
        return r;
    }
    bool has_metadata = record.data[0] != SPOOL_RECORD_VERSION;
    struct spool_message m = {.envelope.id = id};
    struct spool_envelope *e = &m.envelope;
    e->flags = in_u16(&in);
    e->recipient_count = in_u32(&in);
    e->chunk_count = in_u32(&in);
    m.batch_count = in_u32(&in);
    e->size_bytes = in_u64(&in);
    e->created = (usec_t)in_u64(&in);
    e->warn_at = (usec_t)in_u64(&in);
    e->not_before = has_metadata ? (usec_t)in_u64(&in) : 0;
    e->expires = has_metadata ? (usec_t)in_u64(&in) : 0;
    size_t sender_len = in_u16(&in);
    size_t peer_name_len = in_u16(&in);
    size_t peer_address_len = in_u16(&in);
    size_t protocol_len = in_u16(&in);
    size_t auth_user_len = in_u16(&in);
    size_t tenant_len = has_metadata ? in_u16(&in) : 0;
    size_t campaign_len = has_metadata ? in_u16(&in) : 0;
    size_t packed_len = in_u32(&in);
    size_t body_len = in_u32(&in);
    e->sender = in_bytes(&in, sender_len);
    e->peer_name = in_bytes(&in, peer_name_len);
    e->peer_address = in_bytes(&in, peer_address_len);
    e->protocol = in_bytes(&in, protocol_len);
    e->auth_user = in_bytes(&in, auth_user_len);
    e->tenant = in_bytes(&in, tenant_len);
    e->campaign = in_bytes(&in, campaign_len);
    m.packed = in_bytes(&in, packed_len);
    m.body = in_bytes(&in, body_len);
    if (in.failed || in.left != 0) {
        return ERR_CORRUPT;
    }
    *ret = m;
    return 0;
}

bool spool_message_peek(struct slice record, uint32_t *ret_chunks, uint32_t *ret_batches)
{
    struct record_in in = {(const unsigned char *)record.data, record.len, false};
    uint8_t version = in_u8(&in);
    (void)in_take(&in, 2 + 4); /* flags and recipient count */
    uint32_t chunks = in_u32(&in);
    uint32_t batches = in_u32(&in);
    if (in.failed || version < SPOOL_RECORD_VERSION || version > MESSAGE_VERSION) {
        return false;
    }
    *ret_chunks = chunks;
    *ret_batches = batches;
    return true;
}

void spool_blob_encode(struct slice bytes, const struct spool_key *key, void *out_start)
{
    struct record_out out = {out_start, spool_blob_bytes(bytes.len)};
    out_u8(&out, SPOOL_RECORD_VERSION);
    out_slice(&out, bytes);
    out_seal(&out, out_start, key);
}

int spool_blob_decode(struct slice record, const struct spool_key *key, bool verify,
                      struct slice *ret)
{
    struct record_in in;
    int r = in_open(record, key, verify, SPOOL_RECORD_VERSION, &in);
    if (r != 0) {
        return r;
    }
    *ret = in_bytes(&in, in.left);
    return 0;
}

void spool_number_encode(uint64_t number, const struct spool_key *key, void *out_start)
{
    struct record_out out = {out_start, SPOOL_NUMBER_BYTES};
    out_u8(&out, SPOOL_RECORD_VERSION);
    out_u64(&out, number);
    out_seal(&out, out_start, key);
}

int spool_number_decode(struct slice record, const struct spool_key *key, uint64_t *ret)
{
    struct record_in in;
    int r = in_open(record, key, true, SPOOL_RECORD_VERSION, &in);
    if (r != 0) {
        return r;
    }
    uint64_t number = in_u64(&in);
    if (in.failed || in.left != 0) {
        return ERR_CORRUPT;
    }
    *ret = number;
    return 0;
}

void spool_flow_encode(const struct spool_flow *flow, void *out_start)
{
    const struct spool_key key = spool_key_flow(flow->number);
    struct record_out out = {out_start, spool_flow_bytes(flow)};
    out_u8(&out, SPOOL_RECORD_VERSION);
    out_u8(&out, (uint8_t)flow->class);
    out_u16(&out, (uint16_t)flow->tenant.len);
    out_slice(&out, flow->tenant);
    out_slice(&out, flow->campaign);
    out_seal(&out, out_start, &key);
}

int spool_flow_decode(struct slice record, uint32_t number, struct spool_flow *ret)
{
    const struct spool_key key = spool_key_flow(number);
    struct record_in in;
    int r = in_open(record, &key, true, SPOOL_RECORD_VERSION, &in);
    if (r != 0) {
        return r;
    }
    struct spool_flow flow = {.number = number, .class = (enum mail_class)in_u8(&in)};
    size_t tenant_len = in_u16(&in);
    flow.tenant = in_bytes(&in, tenant_len);
    flow.campaign = in_bytes(&in, in.left);
    if (in.failed || flow.class >= MAIL_CLASS_COUNT) {
        return ERR_CORRUPT;
    }
    *ret = flow;
    return 0;
}

enum { DUE_BITS = 52 }; /* of microseconds since 1970: until 2112 */
static const usec_t blocked_step = 120 * USEC_PER_SEC;

/* What stands in the record for `due` and `blocked`. */
static uint64_t pack_due(const struct spool_retry *retry)
{
    const uint64_t due_max = (UINT64_C(1) << DUE_BITS) - 1, steps_max = 4095;
    uint64_t due = (uint64_t)retry->due < due_max ? (uint64_t)retry->due : due_max;
    usec_t span = retry->due - retry->blocked;
    if (retry->blocked == 0 || span < 0) {
        return due;
    }
    uint64_t steps = 1 + (uint64_t)((span + blocked_step / 2) / blocked_step);
    return (steps < steps_max ? steps : steps_max) << DUE_BITS | due;
}

static void unpack_due(uint64_t packed, struct spool_retry *ret)
{
    usec_t steps = (usec_t)(packed >> DUE_BITS);
    ret->due = (usec_t)(packed & ((UINT64_C(1) << DUE_BITS) - 1));
    ret->blocked = steps == 0 ? 0 : ret->due - (steps - 1) * blocked_step;
}

/* The number of attempts, with a bit in front of it, below the mark of a source. */
enum { ATTEMPTS_MAX = 0x7fff, ATTEMPTS_PACED = 0x8000 };

void spool_retry_encode(const struct spool_retry *retry, uint64_t id, void *out_start)
{
    const struct spool_key key = spool_key_part(id, SPOOL_RETRY_BATCH);
    struct record_out out = {out_start, SPOOL_RETRY_BYTES};
    out_u8(&out, SPOOL_RECORD_VERSION);
    uint32_t attempts = retry->attempts < ATTEMPTS_MAX ? retry->attempts : ATTEMPTS_MAX;
    attempts |= retry->is_paced ? ATTEMPTS_PACED : 0;
    out_u32(&out, (uint32_t)retry->source << 16 | attempts);
    out_u8(&out, retry->warned ? 1 : 0);
    out_u64(&out, pack_due(retry));
    out_u64(&out, (uint64_t)retry->deferred);
    out_seal(&out, out_start, &key);
}

int spool_retry_decode(struct slice record, uint64_t id, struct spool_retry *ret)
{
    const struct spool_key key = spool_key_part(id, SPOOL_RETRY_BATCH);
    struct record_in in;
    int r = in_open(record, &key, true, SPOOL_RECORD_VERSION, &in);
    if (r != 0) {
        return r;
    }
    uint32_t attempts = in_u32(&in);
    struct spool_retry retry = {.attempts = attempts & ATTEMPTS_MAX,
                                .is_paced = (attempts & ATTEMPTS_PACED) != 0,
                                .source = (uint16_t)(attempts >> 16)};
    retry.warned = in_u8(&in) != 0;
    unpack_due(in_u64(&in), &retry);
    retry.deferred = in.left == 0 ? 0 : (usec_t)in_u64(&in); /* formats before 4 lack it */
    if (in.failed || in.left != 0) {
        return ERR_CORRUPT;
    }
    *ret = retry;
    return 0;
}

static struct slice cut(struct slice s, size_t max)
{
    return s.len > max ? slice_to(s, max) : s;
}

size_t spool_reason_encode(const struct spool_reason *reason, const struct spool_key *key,
                           void *out_start)
{
    struct slice status = cut(reason->status, SPOOL_STATUS_MAX);
    struct slice text = cut(reason->text, SPOOL_REASON_TEXT_MAX);
    struct slice mta = cut(reason->remote_mta, SPOOL_REMOTE_MTA_MAX);
    size_t bytes = SPOOL_RECORD_OVERHEAD + 8 + 1 + 2 + 3 * 2 + status.len + text.len + mta.len;
    struct record_out out = {out_start, bytes};
    out_u8(&out, SPOOL_RECORD_VERSION);
    out_u64(&out, (uint64_t)reason->time);
    out_u8(&out, reason->state);
    out_u16(&out, reason->code);
    out_u16(&out, (uint16_t)status.len);
    out_u16(&out, (uint16_t)text.len);
    out_u16(&out, (uint16_t)mta.len);
    out_slice(&out, status);
    out_slice(&out, text);
    out_slice(&out, mta);
    out_seal(&out, out_start, key);
    return bytes;
}

int spool_reason_decode(struct slice record, const struct spool_key *key, struct spool_reason *ret)
{
    struct record_in in;
    int r = in_open(record, key, true, SPOOL_RECORD_VERSION, &in);
    if (r != 0) {
        return r;
    }
    struct spool_reason reason = {.time = (usec_t)in_u64(&in)};
    reason.state = in_u8(&in);
    reason.code = in_u16(&in);
    size_t status_len = in_u16(&in);
    size_t text_len = in_u16(&in);
    size_t mta_len = in_u16(&in);
    reason.status = in_bytes(&in, status_len);
    reason.text = in_bytes(&in, text_len);
    reason.remote_mta = in_bytes(&in, mta_len);
    if (in.failed || in.left != 0) {
        return ERR_CORRUPT;
    }
    *ret = reason;
    return 0;
}
