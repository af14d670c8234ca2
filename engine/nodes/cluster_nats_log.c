/* The module's other table: frames in a stream, by libnats. As cluster_nats.c, it knows nothing of
 * nodes or mail.
 *
 * natsOptions_SetSendAsap is on: without it libnats gathers what it writes for a moment, and each
 * frame would wait for that. The reason against it that cluster_nats.c has are watchers, which are
 * not here.
 *
 * Concurrency: one thread at a time calls; the connection's own threads touch nothing of ours. */
#include "base/error.h"
#include "engine/nodes/cluster_log_module.h"
#include "engine/nodes/cluster_nats.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 96, NANOSECONDS = 1000000000 };

struct cluster_log {
    natsOptions *options;
    natsConnection *connection;
    jsCtx *js;
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
    jsCtx_Destroy(l->js);
    natsConnection_Destroy(l->connection);
    natsOptions_Destroy(l->options);
    free(l);
    nats_ReleaseThreadMemory();
}

static int log_open(const struct cluster_options *options, const char *node,
                    struct cluster_log **ret)
{
    struct cluster_log *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return -ENOMEM;
    }
    (void)snprintf(l->stream, sizeof(l->stream), CLUSTER_LOG_PREFIX "%.32s", node);
    (void)snprintf(l->subject, sizeof(l->subject), CLUSTER_LOG_SUBJECT "%.32s", node);
    l->replicas = options->replicas;
    jsOptions js;
    natsStatus s = natsOptions_Create(&l->options);
    s = s != NATS_OK ? s : cluster_nats_set(l->options, options);
    s = s != NATS_OK ? s : natsOptions_SetErrorHandler(l->options, on_log_error, NULL);
    s = s != NATS_OK ? s : natsOptions_SetRetryOnFailedConnect(l->options, true, NULL, NULL);
    s = s != NATS_OK ? s : natsOptions_SetSendAsap(l->options, true);
    s = s != NATS_OK ? s : natsConnection_Connect(&l->connection, l->options);
    s = s == NATS_NOT_YET_CONNECTED ? NATS_OK : s;
    s = s != NATS_OK ? s : jsOptions_Init(&js);
    if (s == NATS_OK) {
        js.Wait = options->timeout / 1000;
        s = natsConnection_JetStream(&l->js, l->connection, &js);
    }
    if (s != NATS_OK) {
        log_close(l);
        return cluster_nats_error(s);
    }
    *ret = l;
    return 0;
}

static bool log_is_connected(struct cluster_log *l)
{
    return natsConnection_Status(l->connection) == NATS_CONN_STATUS_CONNECTED;
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
    case JSStreamNameExistErr:
        return ERR_LOCKED;
    case JSStreamStoreFailedErr: /* `maximum bytes exceeded`, or the server's disk is full */
    case JSInsufficientResourcesErr:
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
    natsStatus s = js_AddStream(&info, l->js, &config, NULL, &code);
    jsStreamInfo_Destroy(info);
    return s == NATS_OK ? 0 : log_error_of(s, code);
}

static int log_look(struct cluster_log *l, struct cluster_log_state *ret)
{
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus s = js_GetStreamInfo(&info, l->js, l->stream, NULL, &code);
    if (s != NATS_OK) {
        return log_error_of(s, code);
    }
    *ret = (struct cluster_log_state){.first = info->State.FirstSeq,
                                      .last = info->State.LastSeq,
                                      .bytes = info->State.Bytes,
                                      .made = (uint64_t)info->Created};
    jsStreamInfo_Destroy(info);
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
    natsStatus s = natsMsg_Create(&msg, l->subject, NULL, frame.data, (int)frame.len);
    s = s != NATS_OK ? s : natsMsgHeader_Set(msg, "Nats-Expected-Last-Sequence", before);
    s = s != NATS_OK ? s : js_PublishMsg(&ack, l->js, msg, NULL, &code);
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
    natsStatus s = js_GetMsg(&msg, l->js, l->stream, place, NULL, &code);
    if (s != NATS_OK) {
        return log_error_of(s, code);
    }
    size_t len = (size_t)natsMsg_GetDataLength(msg);
    void *data = malloc(len + 1);
    if (data != NULL) {
        memcpy(data, len == 0 ? "" : natsMsg_GetData(msg), len);
        *ret = (struct cluster_value){data, len, place};
    }
    natsMsg_Destroy(msg);
    return data == NULL ? -ENOMEM : 0;
}

static int log_purge(struct cluster_log *l, uint64_t below)
{
    jsOptions o;
    jsErrCode code = 0;
    natsStatus s = jsOptions_Init(&o);
    o.Stream.Purge.Sequence = below;
    s = s != NATS_OK ? s : js_PurgeStream(l->js, l->stream, &o, &code);
    return s == NATS_OK ? 0 : log_error_of(s, code);
}

static int log_remove(struct cluster_log *l)
{
    jsErrCode code = 0;
    natsStatus s = js_DeleteStream(l->js, l->stream, NULL, &code);
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
        .make = log_make,
        .look = log_look,
        .send = log_send,
        .read = log_read,
        .purge = log_purge,
        .remove = log_remove,
    };
    return &module;
}
