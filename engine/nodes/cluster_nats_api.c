/* The module's third table: questions and answers, by libnats. As cluster_nats.c, it knows nothing of
 * nodes or mail.
 *
 * libnats makes subscriptions anew by itself when a connection was lost; natsOptions_SetSendAsap stays
 * off for the reason that cluster_nats.c gives.
 *
 * Concurrency: what libnats hears comes on one thread for each subscription. Those and the inbox are
 * of the line's connection; the rest is set at open. */
#include "base/attr.h"
#include "base/error.h"
#include "engine/nodes/cluster_api_module.h"
#include "engine/nodes/cluster_nats.h"
#include "engine/nodes/cluster_nats_line.h"

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
    struct cluster_nats_line line;
    char subject[SUBJECT_SIZE]; /* of questions */
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
static void unhear(struct cluster_api *a, natsSubscription **sub)
{
    if (*sub != NULL) {
        natsSubscription_Destroy(*sub);
        *sub = NULL;
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
    cluster_nats_line_stop(&a->line);
    unhear(a, &a->questions);
    unhear(a, &a->answers);
    cluster_nats_line_fini(&a->line);
    natsInbox_Destroy(a->inbox);
    (void)sem_destroy(&a->ended); /* nobody waits */
    free(a);
    nats_ReleaseThreadMemory();
}

static natsStatus subscribe_to(struct cluster_api *a, natsConnection *connection,
                               const char *subject, natsMsgHandler handler, natsSubscription **ret)
{
    natsSubscription *sub = NULL;
    natsStatus s = natsConnection_Subscribe(&sub, connection, subject, handler, a);
    s = s != NATS_OK ? s : natsSubscription_SetOnCompleteCB(sub, on_end, a);
    if (s !=
        NATS_OK) { /* nobody says when the thread of one has ended whose connection was closed just now */
        natsSubscription_Destroy(sub);
        return s;
    }
    *ret = sub;
    return natsSubscription_SetPendingLimits(sub, PENDING_MESSAGES, PENDING_BYTES);
}

static void exchange(natsSubscription **a, natsSubscription **b)
{
    natsSubscription *was = *a;
    *a = *b;
    *b = was;
}

/* Answers to what was asked on another connection are heard on this one. */
static natsStatus api_take_up(void *ctx, natsConnection *connection)
{
    struct cluster_api *a = ctx;
    char subject[SUBJECT_SIZE];
    natsSubscription *questions = NULL, *answers = NULL;
    natsStatus s = a->inbox != NULL ? NATS_OK : natsInbox_Create(&a->inbox);
    s = s != NATS_OK ? s : subscribe_to(a, connection, a->subject, on_question, &questions);
    if (s == NATS_OK) {
        (void)snprintf(subject, sizeof(subject), "%.100s.*", a->inbox);
        s = subscribe_to(a, connection, subject, on_answer, &answers);
    }
    if (s == NATS_OK) {
        exchange(&a->questions, &questions);
        exchange(&a->answers, &answers);
    }
    /* Those of the connection before; or of this one, when that one stays. */
    unhear(a, &questions);
    unhear(a, &answers);
    return s;
}

static natsStatus set_api_options(void *ctx, natsOptions *o)
{
    natsStatus s = natsOptions_SetErrorHandler(o, on_api_error, NULL);
    /* libnats's timers, of all connections, wait for who writes. */
    return s != NATS_OK ? s : natsOptions_SetWriteDeadline(o, WRITE_MS);
}

static int api_open(const struct cluster_options *options, const char *node,
                    const struct cluster_api_hearer *hearer, struct cluster_api **ret)
{
    struct cluster_api *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->hearer = *hearer;
    (void)snprintf(a->subject, sizeof(a->subject), CLUSTER_API_SUBJECT "%.64s", node);
    (void)sem_init(&a->ended, 0, 0); /* cannot fail with these values */
    const struct cluster_nats_user user = {set_api_options, api_take_up, a};
    natsStatus s = cluster_nats_line_open(&a->line, options, &user);
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
    natsConnection *connection = cluster_nats_line_take(&a->line);
    natsStatus s =
        natsConnection_PublishRequest(connection, subject, reply, question.data, (int)question.len);
    cluster_nats_line_leave(&a->line);
    return cluster_nats_error(s);
}

static int api_answer(struct cluster_api *a, const char *reply, struct slice part)
{
    natsConnection *connection = cluster_nats_line_take(&a->line);
    natsStatus s = natsConnection_Publish(connection, reply, part.data, (int)part.len);
    cluster_nats_line_leave(&a->line);
    return cluster_nats_error(s);
}

const struct cluster_api_module cluster_nats_api_module = {
    .open = api_open,
    .close = api_close,
    .ask = api_ask,
    .answer = api_answer,
};
