/* Bytes of the spool's records and keys, both ways. Pure: no environment, no allocation, no clock.
 *
 * A record is a version byte, its fields (big-endian) and a 64-bit checksum over both and the key,
 * so that a record found under another key fails as one with a flipped bit does. Decoders trust no
 * length: they return ERR_CORRUPT, and slices that lie inside the record. */
#ifndef ENGINE_SPOOL_RECORD_H
#define ENGINE_SPOOL_RECORD_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOOL_RECORD_VERSION  1
#define SPOOL_RECORD_OVERHEAD 9          /* version and checksum */
#define SPOOL_RETRY_BATCH     UINT32_MAX /* key number of the retry record in the state table */

#define SPOOL_RETRY_BYTES     (SPOOL_RECORD_OVERHEAD + 21) /* formats before 4: 8 less */
#define SPOOL_NUMBER_BYTES    (SPOOL_RECORD_OVERHEAD + 8)
#define SPOOL_STATE_BYTES_MAX (SPOOL_RECORD_OVERHEAD + SPOOL_BATCH_RECIPIENTS)
/* Longest texts that a reason keeps; longer ones are cut. */
#define SPOOL_STATUS_MAX      32
#define SPOOL_REASON_TEXT_MAX 1024
#define SPOOL_REMOTE_MTA_MAX  255
#define SPOOL_REASON_BYTES_MAX                                                                     \
    (SPOOL_RECORD_OVERHEAD + 17 + SPOOL_STATUS_MAX + SPOOL_REASON_TEXT_MAX + SPOOL_REMOTE_MTA_MAX)

/* A key of any table; order of bytes is order of keys. */
struct spool_key {
    size_t len;
    unsigned char bytes[20];
};

#define SPOOL_OLD_QUEUE_KEY_BYTES 16 /* of a place in the queue before format 5: it has no flow */

struct spool_key spool_key_id(uint64_t id);
struct spool_key spool_key_part(uint64_t id, uint32_t number);
struct spool_key spool_key_queue(uint32_t flow, uint64_t time, uint64_t id);
struct spool_key spool_key_old_queue(uint64_t time, uint64_t id);
struct spool_key spool_key_flow(uint32_t number);
struct spool_key spool_key_quarantine(uint64_t id, uint8_t table, uint32_t number);
/* name: at most 20 bytes */
struct spool_key spool_key_name(const char *name);
/* false when the key does not have the length of its kind */
MUST_USE bool spool_key_read_id(struct slice key, uint64_t *ret_id);
MUST_USE bool spool_key_read_part(struct slice key, uint64_t *ret_id, uint32_t *ret_number);
/* ret->class is the caller's to set */
MUST_USE bool spool_key_read_queue(struct slice key, struct spool_position *ret);
MUST_USE bool spool_key_read_old_queue(struct slice key, uint64_t *ret_time, uint64_t *ret_id);
MUST_USE bool spool_key_read_flow(struct slice key, uint32_t *ret_number);

/* A message record, decoded, with all that lies in it. */
struct spool_message {
    struct spool_envelope envelope;
    uint32_t batch_count; /* recipient batches outside; 0 when inline */
    struct slice packed;  /* inline recipients, empty when outside */
    struct slice body;    /* inline body, empty when in chunks */
};

/* errors: ERR_LIMIT when a field is longer than its length field can tell */
MUST_USE int spool_message_bytes(const struct spool_message *m, size_t *ret_bytes);
/* out: exactly the bytes that spool_message_bytes told */
void spool_message_encode(const struct spool_message *m, void *out, size_t bytes);
/* verify false: the caller has verified this very record before; bounds are checked all the same.
 * errors: ERR_CORRUPT */
MUST_USE int spool_message_decode(struct slice record, uint64_t id, bool verify,
                                  struct spool_message *ret);
/* The counts alone, without the checksum; false when even they cannot be right. */
MUST_USE bool spool_message_peek(struct slice record, uint32_t *ret_chunks, uint32_t *ret_batches);

/* Records that are bytes only: chunks, recipient batches, states. */
static inline size_t spool_blob_bytes(size_t len)
{
    return len + SPOOL_RECORD_OVERHEAD;
}
void spool_blob_encode(struct slice bytes, const struct spool_key *key, void *out);
MUST_USE int spool_blob_decode(struct slice record, const struct spool_key *key, bool verify,
                               struct slice *ret);

void spool_number_encode(uint64_t number, const struct spool_key *key, void *out);
MUST_USE int spool_number_decode(struct slice record, const struct spool_key *key, uint64_t *ret);

/* The mark of the source stands in the upper half of the number of attempts, of which there are never
 * so many (65,535 then stand for more). The span from `blocked` to `due`, in steps of two minutes
 * and 1 more, stands above the 52 bits of the time. A daemon that does not know of them reads numbers
 * that are far too great, and shows them; nothing depends on either. Without them they are 0. */
void spool_retry_encode(const struct spool_retry *retry, uint64_t id, void *out);
MUST_USE int spool_retry_decode(struct slice record, uint64_t id, struct spool_retry *ret);

/* A flow's names; the number is the key. */
static inline size_t spool_flow_bytes(const struct spool_flow *flow)
{
    return SPOOL_RECORD_OVERHEAD + 1 + 2 + flow->tenant.len + flow->campaign.len;
}
void spool_flow_encode(const struct spool_flow *flow, void *out);
MUST_USE int spool_flow_decode(struct slice record, uint32_t number, struct spool_flow *ret);

/* out: SPOOL_REASON_BYTES_MAX; returns the bytes used */
size_t spool_reason_encode(const struct spool_reason *reason, const struct spool_key *key,
                           void *out);
MUST_USE int spool_reason_decode(struct slice record, const struct spool_key *key,
                                 struct spool_reason *ret);

#endif
