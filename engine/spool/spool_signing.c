/* Owns the record of signatures and its table. Called by the spool writer inside its transactions, and
 * by readers. */
#include "engine/spool/spool_signing.h"

#include "engine/spool/spool_env.h"
#include "engine/spool/spool_table.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

/* A blob of spool_record.h, which has the version and the checksum, with this in it:
 *   forms 1, hashes of these 32 each, mark 8, signed_at 8, expires 8, length of wanted 2, wanted,
 *   fields */
enum {
    FIXED = 1 + 3 * 8 + 2,
    BYTES_MAX = FIXED + SPOOL_SIGNING_FORMS * SPOOL_SIGNING_HASH_BYTES + SPOOL_SIGNING_WANTED_MAX +
                SPOOL_SIGNING_FIELDS_MAX,
};

static char *put_bytes_at(char *at, const void *bytes, size_t len)
{
    if (len > 0) {
        memcpy(at, bytes, len);
    }
    return at + len;
}

static char *put_number_at(char *at, uint64_t number)
{
    number = htobe64(number);
    return put_bytes_at(at, &number, sizeof(number));
}

static size_t encode_signing(const struct spool_signing *s, char *out)
{
    char *at = out;
    *at++ = (char)s->forms;
    for (unsigned i = 0; i < SPOOL_SIGNING_FORMS; i++) {
        if ((s->forms >> i & 1) != 0) {
            at = put_bytes_at(at, s->hashes[i], sizeof(s->hashes[i]));
        }
    }
    at = put_number_at(at, s->mark);
    at = put_number_at(at, (uint64_t)s->signed_at);
    at = put_number_at(at, (uint64_t)s->expires);
    *at++ = (char)(s->wanted.len >> 8);
    *at++ = (char)(s->wanted.len & 255);
    at = put_bytes_at(at, s->wanted.data, s->wanted.len);
    at = put_bytes_at(at, s->fields.data, s->fields.len);
    return (size_t)(at - out);
}

static uint64_t take_number(struct slice *rest)
{
    uint64_t number;
    memcpy(&number, rest->data, sizeof(number));
    *rest = slice_from(*rest, sizeof(number));
    return be64toh(number);
}

static int decode_signing(struct slice rest, struct spool_signing *ret)
{
    struct spool_signing s = {.wanted = SLICE(""), .fields = SLICE("")};
    if (rest.len < FIXED) {
        return ERR_CORRUPT;
    }
    s.forms = (uint8_t)rest.data[0];
    rest = slice_from(rest, 1);
    for (unsigned i = 0; i < SPOOL_SIGNING_FORMS; i++) {
        if ((s.forms >> i & 1) == 0) {
            continue;
        }
        if (rest.len < FIXED - 1 + sizeof(s.hashes[i])) {
            return ERR_CORRUPT;
        }
        memcpy(s.hashes[i], rest.data, sizeof(s.hashes[i]));
        rest = slice_from(rest, sizeof(s.hashes[i]));
    }
    s.mark = take_number(&rest);
    s.signed_at = (usec_t)take_number(&rest);
    s.expires = (usec_t)take_number(&rest);
    size_t wanted = (size_t)(unsigned char)rest.data[0] << 8 | (unsigned char)rest.data[1];
    rest = slice_from(rest, 2);
    if (s.forms >> SPOOL_SIGNING_FORMS != 0 || wanted > rest.len) {
        return ERR_CORRUPT;
    }
    s.wanted = slice_to(rest, wanted);
    s.fields = slice_from(rest, wanted);
    *ret = s;
    return 0;
}

int spool_put_signing(struct spool_txn *t, uint64_t id, const struct spool_signing *s)
{
    const struct spool_key key = spool_key_id(id);
    char bytes[BYTES_MAX];
    void *at;
    if (s->wanted.len > SPOOL_SIGNING_WANTED_MAX || s->fields.len > SPOOL_SIGNING_FIELDS_MAX) {
        return ERR_LIMIT;
    }
    size_t len = encode_signing(s, bytes);
    int r = spool_table_put(t, SPOOL_TABLE_SIGNING, &key, spool_blob_bytes(len), &at);
    if (r == 0) {
        spool_blob_encode(slice_make(bytes, len), &key, at);
        spool_tell(t->store, SPOOL_CHANGE_SIGNING, id, 0, slice_make(at, spool_blob_bytes(len)));
    }
    return r;
}

int spool_forget_signing(struct spool_txn *t, uint64_t id)
{
    uint64_t count;
    int r = spool_table_count(t, SPOOL_TABLE_SIGNING, &count);
    if (r != 0 || count == 0) {
        return r;
    }
    const struct spool_key key = spool_key_id(id);
    return spool_table_del(t, SPOOL_TABLE_SIGNING, &key);
}

bool spool_signing_is_good(struct slice record, const struct spool_key *key)
{
    struct slice bytes;
    struct spool_signing s;
    return spool_blob_decode(record, key, true, &bytes) == 0 && decode_signing(bytes, &s) == 0;
}

int spool_read_signing(struct spool_reader *r, uint64_t id, struct spool_signing *ret)
{
    assert(spool_reader_is_active(r));
    const struct spool_key key = spool_key_id(id);
    MDB_val k = spool_val(&key), v;
    int rc = mdb_get(r->txn, r->store->dbi[SPOOL_TABLE_SIGNING], &k, &v);
    if (rc != 0) {
        return spool_reader_result(r, spool_error(rc), NULL);
    }
    const struct slice record = spool_slice(&v);
    struct slice bytes;
    int err = spool_blob_decode(record, &key, true, &bytes);
    err = err != 0 ? err : decode_signing(bytes, ret);
    return spool_reader_result(r, err, &record);
}
