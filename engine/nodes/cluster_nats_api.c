/* The module's third table: questions and answers, by libnats. As cluster_nats.c, it knows nothing of
 * nodes or mail.
 *
 * libnats makes subscriptions anew by itself when a connection was lost; natsOptions_SetSendAsap stays
 * off for the reason that cluster_nats.c gives.
 *
 * Concurrency: all is set at open. What libnats hears comes on one thread for each subscription. */
#include "base/attr.h"
#include "base/error.h"
#include "engine/nodes/cluster_api_module.h"
#include "engine/nodes/cluster_nats.h"

#include <errno.h>
#include <nats/nats.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUBJECT_SIZE = 128,
    PENDING_MESSAGES = 1024, /* that libnats holds for us; more are lost */
    PENDING_BYTES = 64 * 1024 * 1024,
    WRITE_MS = 3000, /* that a server which stands still may keep us at one part */
};

static const char inbox_prefix[] = "_INBOX.";

struct cluster_api {
    natsOptions *options;
    natsConnection *connection;
    natsSubscription *questions, *answers;
    natsInbox *inbox;
    struct cluster_api_hearer hearer;
    sem_t ended; /* once for each subscription whose thread has ended */
};

/* What is lost shows as silence. */
static void on_api_error(natsConnection *connection, natsSubscription *sub, natsStatus s,
                         void *closure)
{
}

/* Only an inbox is answered: nobody makes a node write where it may and he may not. */
static void on_question(natsConnection *connection, natsSubscription *sub, natsMsg *msg,
                        void *closure)
{
    const struct cluster_api *a = closure;
    const char *reply = natsMsg_GetReply(msg);
    if (reply != NULL && strncmp(reply, inbox_prefix, sizeof(inbox_prefix) - 1) == 0 &&
        strlen(reply) <= CLUSTER_API_REPLY_MAX) {
        a->hearer.question(a->hearer.ctx, reply, natsMsg_GetData(msg),
                           (size_t)natsMsg_GetDataLength(msg));
    }
    natsMsg_Destroy(msg);
}

static void on_answer(natsConnection *connection, natsSubscription *sub, natsMsg *msg,
                      void *closure)
{
    const struct cluster_api *a = closure;
    const char *token = strrchr(natsMsg_GetSubject(msg), '.');
    bool is_nobody = natsMsg_IsNoResponders(msg);
    if (token != NULL && strlen(token + 1) <= CLUSTER_API_TOKEN_MAX) {
        const char *data = natsMsg_GetDataLength(msg) == 0 ? "" : natsMsg_GetData(msg);
        a->hearer.answer(a->hearer.ctx, token + 1, is_nobody ? NULL : data,
                         (size_t)natsMsg_GetDataLength(msg));
    }
    natsMsg_Destroy(msg);
}

static void on_end(void *closure)
{
    struct cluster_api *a = closure;
    (void)sem_post(&a->ended); /* cannot overflow */
}

/* Its thread has ended afterwards. */
static void unhear(struct cluster_api *a, natsSubscription *sub)
{
    if (sub != NULL) {
        natsSubscription_Destroy(sub);
        while (sem_wait(&a->ended) != 0) {
            /* EINTR */
        }
    }
}

static void api_close(struct cluster_api *a)
{
    if (a == NULL) {
        return;
    }
    unhear(a, a->questions);
    unhear(a, a->answers);
    natsConnection_Destroy(a->connection);
    natsOptions_Destroy(a->options);
    natsInbox_Destroy(a->inbox);
    (void)sem_destroy(&a->ended); /* nobody waits */
    free(a);
    nats_ReleaseThreadMemory();
}

static natsStatus subscribe_to(struct cluster_api *a, const char *subject, natsMsgHandler handler,
                               natsSubscription **ret)
{
    natsStatus s = natsConnection_Subscribe(ret, a->connection, subject, handler, a);
    s = s != NATS_OK ? s : natsSubscription_SetOnCompleteCB(*ret, on_end, a);
    return s != NATS_OK ? s
                        : natsSubscription_SetPendingLimits(*ret, PENDING_MESSAGES, PENDING_BYTES);
}

static natsStatus hear_all(struct cluster_api *a, const char *node)
{
    char subject[SUBJECT_SIZE];
    (void)snprintf(subject, sizeof(subject), CLUSTER_API_SUBJECT "%.64s", node);
    natsStatus s = natsInbox_Create(&a->inbox);
    s = s != NATS_OK ? s : subscribe_to(a, subject, on_question, &a->questions);
    if (s == NATS_OK) {
        (void)snprintf(subject, sizeof(subject), "%.100s.*", a->inbox);
        s = subscribe_to(a, subject, on_answer, &a->answers);
    }
    return s;
}

static int api_open(const struct cluster_options *options, const char *node,
                    const struct cluster_api_hearer *hearer, struct cluster_api **ret)
{
    struct cluster_api *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->hearer = *hearer;
    (void)sem_init(&a->ended, 0, 0); /* cannot fail with these values */
    natsStatus s = natsOptions_Create(&a->options);
    s = s != NATS_OK ? s : cluster_nats_set(a->options, options);
    s = s != NATS_OK ? s : natsOptions_SetErrorHandler(a->options, on_api_error, NULL);
    /* libnats's timers, of all connections, wait for who writes. */
    s = s != NATS_OK ? s : natsOptions_SetWriteDeadline(a->options, WRITE_MS);
    s = s != NATS_OK
            ? s
            : natsOptions_SetRetryOnFailedConnect(a->options, true, cluster_nats_connected, NULL);
    s = s != NATS_OK ? s : natsConnection_Connect(&a->connection, a->options);
    s = s == NATS_NOT_YET_CONNECTED ? NATS_OK : s;
    s = s != NATS_OK ? s : hear_all(a, node);
    if (s != NATS_OK) {
        api_close(a);
        return cluster_nats_error(s);
    }
    *ret = a;
    return 0;
}

static int api_ask(struct cluster_api *a, const char *node, const char *token,
                   struct slice question)
{
    char subject[SUBJECT_SIZE], reply[SUBJECT_SIZE];
    (void)snprintf(subject, sizeof(subject), CLUSTER_API_SUBJECT "%.64s", node);
    (void)snprintf(reply, sizeof(reply), "%.80s.%.*s", a->inbox, CLUSTER_API_TOKEN_MAX, token);
    return cluster_nats_error(natsConnection_PublishRequest(a->connection, subject, reply,
                                                            question.data, (int)question.len));
}

static int api_answer(struct cluster_api *a, const char *reply, struct slice part)
{
    return cluster_nats_error(
        natsConnection_Publish(a->connection, reply, part.data, (int)part.len));
}

const struct cluster_api_module cluster_nats_api_module = {
    .open = api_open,
    .close = api_close,
    .ask = api_ask,
    .answer = api_answer,
};
