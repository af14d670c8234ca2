/* The module's other table: frames in a stream, by libnats. As cluster_nats.c, it knows nothing of
 * nodes or mail.
 *
 * Frames are compressed where that saves a sixteenth: each server writes a message twice (its log of
 * what the servers agree on, and the stream), so their processors, disks and the network pay for each
 * byte several times. A header says so; a message without it is a frame as it is.
 *
 * natsOptions_SetSendAsap is on: without it libnats gathers what it writes for a moment, and each
 * frame would wait for that. The reason against it that cluster_nats.c has are watchers, which are
 * not here.
 *
 * Concurrency: one thread at a time calls; the connection's own threads touch nothing of ours. `js` is
 * of the line's connection, and used while the line is taken. */
#include "base/error.h"
#include "engine/nodes/cluster_log_module.h"
#include "engine/nodes/cluster_nats.h"
#include "engine/nodes/cluster_nats_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define ENCODING      "Sluice-Encoding"
#define ENCODING_ZSTD "zstd"

enum {
    NAME_SIZE = 96,
    NANOSECONDS = 1000000000,
    HEADERS = 256,    /* bytes, more than those of a frame's message */
    PACKED_MIN = 512, /* bytes of a frame; less is not worth the call */
    LEVEL = 1,        /* zstd's fastest that codes letters by their frequency */
};

struct cluster_log {
    ZSTD_CCtx *packer;
    char *packed; /* [ZSTD_COMPRESSBOUND(CLUSTER_LOG_BYTES_MAX)] */
    struct cluster_nats_line line;
    jsCtx *js;
    int64_t timeout_ms;
    char stream[NAME_SIZE], subject[NAME_SIZE];
    int replicas;
};

/* Errors of subscriptions, which libnats otherwise prints: each answer says what it led to. */
static void on_log_error(natsConnection *connection, natsSubscription *sub, natsStatus s,
                         void *closure)
{
}

static void log_close(struct cluster_log *l)
{
    if (l == NULL) {
        return;
    }
    cluster_nats_line_stop(&l->line);
    jsCtx_Destroy(l->js);
    cluster_nats_line_fini(&l->line);
    ZSTD_freeCCtx(l->packer);
    free(l->packed);
    free(l);
    nats_ReleaseThreadMemory();
}

static natsStatus set_log_options(void *ctx, natsOptions *o)
{
    natsStatus s = natsOptions_SetErrorHandler(o, on_log_error, NULL);
    return s != NATS_OK ? s : natsOptions_SetSendAsap(o, true);
}

static natsStatus log_take_up(void *ctx, natsConnection *connection)
{
    struct cluster_log *l = ctx;
    jsCtx *js = NULL;
    jsOptions o;
    natsStatus s = jsOptions_Init(&o);
    o.Wait = l->timeout_ms;
    s = s != NATS_OK ? s : natsConnection_JetStream(&js, connection, &o);
    if (s == NATS_OK) {
        jsCtx_Destroy(l->js);
        l->js = js;
    }
    return s;
}

static int log_open(const struct cluster_options *options, const char *node,
                    struct cluster_log **ret)
{
    struct cluster_log *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return -ENOMEM;
    }
    l->packer = ZSTD_createCCtx();
    l->packed = malloc(ZSTD_COMPRESSBOUND(CLUSTER_LOG_BYTES_MAX));
    if (l->packer == NULL || l->packed == NULL) {
        log_close(l);
        return -ENOMEM;
    }
    (void)snprintf(l->stream, sizeof(l->stream), CLUSTER_LOG_PREFIX "%.32s", node);
    (void)snprintf(l->subject, sizeof(l->subject), CLUSTER_LOG_SUBJECT "%.32s", node);
    l->replicas = options->replicas;
    l->timeout_ms = options->timeout / 1000;
    const struct cluster_nats_user user = {set_log_options, log_take_up, l};
    natsStatus s = cluster_nats_line_open(&l->line, options, &user);
    if (s != NATS_OK) {
        log_close(l);
        return cluster_nats_error(s);
    }
    *ret = l;
    return 0;
}

static bool log_is_connected(struct cluster_log *l)
{
    return cluster_nats_line_is_connected(&l->line);
}

static bool log_takes(struct cluster_log *l, size_t bytes)
{
    int64_t most = natsConnection_GetMaxPayload(cluster_nats_line_take(&l->line));
    cluster_nats_line_leave(&l->line);
    return most >= (int64_t)bytes + HEADERS;
}

/* An error that JetStream gave a number. */
static int log_error_of(natsStatus s, jsErrCode code)
{
    switch ((int)code) {
    case JSStreamWrongLastSequenceErr:
        return ERR_AGAIN;
    case JSStreamNotFoundErr:
    case JSNoMessageFoundErr:
        return ERR_MISSING;
    case JSStreamStoreFailedErr: /* `maximum bytes exceeded`, or the server's disk is full */
    case JSInsufficientResourcesErr:
    case JSClusterNoPeersErr: /* no server has as much room left */
    case JSStorageResourcesExceededErr:
        return ERR_LIMIT;
    default:
        return cluster_nats_error(s);
    }
}

static int log_make(struct cluster_log *l, uint64_t max_bytes)
{
    jsStreamConfig config;
    const char *subjects[] = {l->subject};
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    (void)jsStreamConfig_Init(&config); /* fails for NULL only */
    config.Name = l->stream;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.MaxBytes = (int64_t)max_bytes;
    config.Discard = js_DiscardNew;
    config.Storage = js_FileStorage;
    config.Replicas = l->replicas;
    config.Duplicates = NANOSECONDS; /* nothing has an id to tell duplicates by */
    config.DenyDelete = true;
    (void)cluster_nats_line_take(&l->line);
    natsStatus s = js_AddStream(&info, l->js, &config, NULL, &code);
    if (s != NATS_OK && code == JSStreamNameExistErr) { /* with another limit */
        s = js_UpdateStream(&info, l->js, &config, NULL, &code);
    }
    cluster_nats_line_leave(&l->line);
    jsStreamInfo_Destroy(info);
    return s == NATS_OK ? 0 : log_error_of(s, code);
}

static int log_look(struct cluster_log *l, struct cluster_log_state *ret)
{
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    (void)cluster_nats_line_take(&l->line);
    natsStatus s = js_GetStreamInfo(&info, l->js, l->stream, NULL, &code);
    cluster_nats_line_leave(&l->line);
    if (s != NATS_OK) {
        return log_error_of(s, code);
    }
    uint64_t first = info->State.FirstSeq; /* 0: there never was a frame */
    *ret = (struct cluster_log_state){.first = first > 0 ? first : 1,
                                      .last = info->State.LastSeq,
                                      .bytes = info->State.Bytes,
                                      .max_bytes = (uint64_t)info->Config->MaxBytes,
                                      .replicas = (int)info->Config->Replicas,
                                      .made = (uint64_t)info->Created};
    jsStreamInfo_Destroy(info);
    return 0;
}

/* What is sent for a frame; *ret_is_packed: it is compressed, and valid until the next call. */
static struct slice pack(struct cluster_log *l, struct slice frame, bool *ret_is_packed)
{
    *ret_is_packed = false;
    if (frame.len < PACKED_MIN || frame.len > CLUSTER_LOG_BYTES_MAX) {
        return frame;
    }
    size_t len = ZSTD_compressCCtx(l->packer, l->packed, ZSTD_COMPRESSBOUND(CLUSTER_LOG_BYTES_MAX),
                                   frame.data, frame.len, LEVEL);
    if (ZSTD_isError(len) || len > frame.len - frame.len / 16) {
        return frame;
    }
    *ret_is_packed = true;
    return slice_make(l->packed, len);
}

/* How long a compressed message was; 0: it is not compressed, or no frame was as long. */
static size_t unpacked_len(natsMsg *msg, struct slice found)
{
    const char *encoding = NULL;
    if (natsMsgHeader_Get(msg, ENCODING, &encoding) != NATS_OK ||
        strcmp(encoding, ENCODING_ZSTD) != 0) {
        return 0;
    }
    unsigned long long len = ZSTD_getFrameContentSize(found.data, found.len);
    return len <= CLUSTER_LOG_BYTES_MAX ? (size_t)len : 0; /* both errors are larger */
}

/* Bytes of our own with what was sent; what cannot be unpacked is returned as it lies there, and is
 * no frame then. errors: -ENOMEM */
static int unpack(natsMsg *msg, struct slice found, struct cluster_value *ret)
{
    size_t len = unpacked_len(msg, found);
    char *data = malloc((len > found.len ? len : found.len) + 1);
    if (data == NULL) {
        return -ENOMEM;
    }
    if (len == 0 || ZSTD_decompress(data, len, found.data, found.len) != len) {
        len = found.len;
        memcpy(data, len == 0 ? "" : found.data, len);
    }
    ret->data = data;
    ret->len = len;
    return 0;
}

static int log_send(struct cluster_log *l, uint64_t place, struct slice frame, uint64_t *ret_place)
{
    natsMsg *msg = NULL;
    jsPubAck *ack = NULL;
    jsErrCode code = 0;
    char before[24];
    /* jsPubOptions.ExpectLastSeq cannot say 0. */
    (void)snprintf(before, sizeof(before), "%llu", (unsigned long long)(place - 1));
    bool is_packed;
    const struct slice bytes = pack(l, frame, &is_packed);
    natsStatus s = natsMsg_Create(&msg, l->subject, NULL, bytes.data, (int)bytes.len);
    if (s == NATS_OK && is_packed) {
        s = natsMsgHeader_Set(msg, ENCODING, ENCODING_ZSTD);
    }
    s = s != NATS_OK ? s : natsMsgHeader_Set(msg, "Nats-Expected-Last-Sequence", before);
    (void)cluster_nats_line_take(&l->line);
    s = s != NATS_OK ? s : js_PublishMsg(&ack, l->js, msg, NULL, &code);
    cluster_nats_line_leave(&l->line);
    if (s == NATS_OK) {
        *ret_place = ack->Sequence;
    }
    jsPubAck_Destroy(ack);
    natsMsg_Destroy(msg);
    return s == NATS_OK ? 0 : log_error_of(s, code);
}

static int log_read(struct cluster_log *l, uint64_t place, struct cluster_value *ret)
{
    natsMsg *msg = NULL;
    jsErrCode code = 0;
    (void)cluster_nats_line_take(&l->line);
    natsStatus s = js_GetMsg(&msg, l->js, l->stream, place, NULL, &code);
    cluster_nats_line_leave(&l->line);
    if (s != NATS_OK) {
        return log_error_of(s, code);
    }
    struct slice found = slice_make(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg));
    int err = unpack(msg, found, ret);
    ret->revision = err == 0 ? place : ret->revision;
    natsMsg_Destroy(msg);
    return err;
}

static int log_purge(struct cluster_log *l, uint64_t below)
{
    jsOptions o;
    jsErrCode code = 0;
    natsStatus s = jsOptions_Init(&o);
    o.Stream.Purge.Sequence = below;
    (void)cluster_nats_line_take(&l->line);
    s = s != NATS_OK ? s : js_PurgeStream(l->js, l->stream, &o, &code);
    cluster_nats_line_leave(&l->line);
    return s == NATS_OK ? 0 : log_error_of(s, code);
}

static int log_remove(struct cluster_log *l)
{
    jsErrCode code = 0;
    (void)cluster_nats_line_take(&l->line);
    natsStatus s = js_DeleteStream(l->js, l->stream, NULL, &code);
    cluster_nats_line_leave(&l->line);
    return s == NATS_OK ? 0 : log_error_of(s, code);
}

__attribute__((visibility("default"))) const struct cluster_log_module *
sluice_cluster_log_module(void)
{
    static const struct cluster_log_module module = {
        .version = CLUSTER_MODULE_VERSION,
        .open = log_open,
        .close = log_close,
        .is_connected = log_is_connected,
        .takes = log_takes,
        .make = log_make,
        .look = log_look,
        .send = log_send,
        .read = log_read,
        .purge = log_purge,
        .remove = log_remove,
    };
    return &module;
}
