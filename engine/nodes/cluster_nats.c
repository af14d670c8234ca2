/* The module: keys and values of NATS JetStream by libnats. Loaded by cluster_loader.c; knows nothing
 * of nodes or mail, and calls nothing of the daemon.
 *
 * What libnats does that shaped this: what is published while it reconnects would be sent late, so
 * its buffer for that is off; a watcher blocks, so each has a thread, and after a reconnect it is made
 * anew, as what it was subscribed to may be gone with a server; so may the bucket, with all of them. What it is
 * subscribed to also ends with a server that this connection is not to, which libnats sees only after ten seconds and
 * more: so a watch that was told nothing asks now and then whether there was nothing. natsOptions_SetSendAsap stays off:
 * requests are sent at once without it, and with it libnats 3.4.1 ends the process. It subscribes
 * watchers anew in a thread, and when the connection breaks in that moment, what cannot be written
 * sends this thread to natsThread_Detach(NULL); without the option the write only fills a buffer.
 *
 * Concurrency: `js` and all `stores` belong to the line's connection, and are used while the line is
 * taken. `buckets` and `watches` grow only, under `lock`; entries below their counts are immutable but
 * for the stores. The rest is set at open, or atomic. */
#include "engine/nodes/cluster_nats.h"

#include "base/attr.h"
#include "base/error.h"
#include "engine/nodes/cluster_module.h"
#include "engine/nodes/cluster_nats_line.h"

#include <errno.h>
#include <nats/nats.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum {
    NAME_SIZE = 64,
    WATCH_LOOK_MS = 200, /* how soon a watch sees that it is to end */
    QUIET_LOOKS = 10,    /* of those, before a watch that was told nothing asks what there is */
    ASK_MS = 500,        /* meanwhile it tells nothing */
    RECONNECT_MS = 250,
    PING_MS = 2000,        /* a server that is silent for two of them is taken for lost */
    SILENCE_SECONDS = 2,   /* that a server may say nothing in a handshake of TLS */
    HANDSHAKE_SECONDS = 4, /* that it may take */
};

struct bucket {
    char name[NAME_SIZE];
    kvStore *store;
};

struct watch {
    struct cluster_client *client;
    const struct bucket *bucket;
    cluster_watcher *tell;
    void *ctx;
    pthread_t thread;
    uint64_t told; /* its thread only: revision of what it told last */
};

struct cluster_client {
    struct cluster_nats_line line;
    jsCtx *js;
    int64_t timeout_ms;
    int replicas;
    pthread_mutex_t lock;
    struct bucket buckets[CLUSTER_BUCKETS_MAX];
    size_t bucket_count;
    struct watch watches[CLUSTER_BUCKETS_MAX];
    size_t watch_count;
    /* any thread, atomic */
    _Atomic bool is_closing;
};

/* How often a client's connection was made anew: watches compare it with what they saw before. It is no
 * client's own, as libnats may say so after the client is gone. Any thread; relaxed. */
static _Atomic uint32_t connects;

int cluster_nats_error(natsStatus s)
{
    switch ((int)s) {
    case NATS_OK:
        return 0;
    case NATS_NOT_FOUND:
        return ERR_MISSING;
    case NATS_NO_MEMORY:
        return -ENOMEM;
    case NATS_TIMEOUT:
        return -ETIMEDOUT;
    case NATS_CONNECTION_CLOSED:
    case NATS_CONNECTION_DISCONNECTED:
    case NATS_NO_SERVER:
    case NATS_NO_RESPONDERS:
    case NATS_INSUFFICIENT_BUFFER: /* it reconnects, and keeps nothing for later */
        return ERR_CLOSED;
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_NOT_PERMITTED:
        return -EACCES;
    case NATS_INVALID_ARG:
    case NATS_SSL_ERROR:
        return ERR_SYNTAX;
    default:
        return -EIO;
    }
}

/* --- the connection --------------------------------------------------------------------------- */

static void on_connected(natsConnection *connection, void *closure)
{
    (void)atomic_fetch_add_explicit(&connects, 1, memory_order_relaxed);
}

/* Errors of subscriptions, which libnats otherwise prints; what they lead to is seen elsewhere. */
static void on_error(natsConnection *connection, natsSubscription *sub, natsStatus s, void *closure)
{
}

/* libnats does the handshake on a blocking socket and without a bound: a server that asks for it and then says
 * nothing, or a byte now and then, would keep the caller for good, and whoever waits for that thread. Sockets and contexts are
 * libnats's own, so each context that is made while we set its options gets this, which libssl calls. */
static _Thread_local bool is_context_ours;
static pthread_once_t contexts_are_seen = PTHREAD_ONCE_INIT;

static intptr_t seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (intptr_t)t.tv_sec;
}

/* In front of each read; arg: the second in which they end. */
static long bound_reads(BIO *bio, int what, const char *data, size_t len, int argi, long argl,
                        int result, size_t *processed)
{
    intptr_t end = (intptr_t)BIO_get_callback_arg(bio);
    return what == BIO_CB_READ && seconds_now() > end ? -1 : result;
}

static void bound_handshake(const SSL *ssl, int where, int result)
{
    const struct timeval most = {.tv_sec = SILENCE_SECONDS};
    if ((where & SSL_CB_HANDSHAKE_START) != 0) { /* afterwards the socket does not block */
        (void)setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
        (void)setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
        BIO_set_callback_arg(SSL_get_rbio(ssl), (char *)(seconds_now() + HANDSHAKE_SECONDS));
        BIO_set_callback_ex(SSL_get_rbio(ssl), bound_reads);
    } else if ((where & SSL_CB_HANDSHAKE_DONE) != 0) {
        BIO_set_callback_ex(SSL_get_rbio(ssl), NULL);
    }
}

static void see_context(void *context, void *data, CRYPTO_EX_DATA *all, int index, long number,
                        void *closure)
{
    if (is_context_ours) {
        SSL_CTX_set_info_callback(context, bound_handshake);
    }
}

static void see_contexts(void)
{
    (void)SSL_CTX_get_ex_new_index(0, NULL, see_context, NULL,
                                   NULL); /* fails for want of memory only */
}

/* Also where TLS is not configured, as libnats then uses it when the server asks. */
static natsStatus make_context(natsOptions *o)
{
    (void)pthread_once(&contexts_are_seen, see_contexts); /* cannot fail */
    is_context_ours = true;
    natsStatus s = natsOptions_SkipServerVerification(o, false); /* as it is; makes the context */
    is_context_ours = false;
    return s;
}

static natsStatus set_tls(natsOptions *o, const struct cluster_options *from)
{
    natsStatus s = make_context(o);
    if (s != NATS_OK) {
        return s;
    }
    if (from->tls_ca_file != NULL || from->tls_certificate != NULL) {
        s = natsOptions_SetSecure(o, true);
    }
    if (s == NATS_OK && from->tls_ca_file != NULL) {
        s = natsOptions_LoadCATrustedCertificates(o, from->tls_ca_file);
    }
    if (s == NATS_OK && from->tls_certificate != NULL) {
        s = natsOptions_LoadCertificatesChain(o, from->tls_certificate, from->tls_key);
    }
    return s;
}

natsStatus cluster_nats_set(natsOptions *o, const struct cluster_options *from)
{
    const char **servers = calloc(from->server_count, sizeof(*servers));
    if (servers == NULL) {
        return NATS_NO_MEMORY;
    }
    for (size_t i = 0; i < from->server_count; i++) {
        servers[i] = from->servers[i];
    }
    natsStatus s = natsOptions_SetServers(o, servers, (int)from->server_count);
    free(servers);
    s = s != NATS_OK ? s : natsOptions_SetName(o, from->name);
    s = s != NATS_OK ? s : natsOptions_SetTimeout(o, from->timeout / 1000);
    /* Else a server that takes the connection and reads nothing would keep the caller for good, and the
     * pings with it, which need the same lock. */
    s = s != NATS_OK ? s : natsOptions_SetWriteDeadline(o, from->timeout / 1000);
    s = s != NATS_OK ? s : natsOptions_SetMaxReconnect(o, -1);
    s = s != NATS_OK ? s : natsOptions_SetReconnectWait(o, RECONNECT_MS);
    s = s != NATS_OK ? s : natsOptions_SetReconnectJitter(o, RECONNECT_MS, RECONNECT_MS);
    s = s != NATS_OK ? s : natsOptions_SetReconnectBufSize(o, 0);
    s = s != NATS_OK ? s : natsOptions_SetPingInterval(o, PING_MS);
    s = s != NATS_OK ? s : natsOptions_SetMaxPingsOut(o, 2);
    s = s != NATS_OK ? s : natsOptions_SetFailRequestsOnDisconnect(o, true);
    if (s == NATS_OK && from->credentials != NULL) {
        s = natsOptions_SetUserCredentialsFromFiles(o, from->credentials, NULL);
    }
    return s != NATS_OK ? s : set_tls(o, from);
}

static natsStatus set_client_options(void *ctx, natsOptions *o)
{
    natsStatus s = natsOptions_SetErrorHandler(o, on_error, NULL);
    return s != NATS_OK ? s : natsOptions_SetReconnectedCB(o, on_connected, NULL);
}

/* libnats puts the place of its source in front of what it says: "(conn.c:733): ". */
static const char *without_place(const char *said)
{
    const char *end = said[0] == '(' ? strstr(said, "): ") : NULL;
    return end == NULL ? said : end + 3;
}

static int client_reach(const struct cluster_options *options, char text[CLUSTER_DESCRIPTION_SIZE])
{
    natsOptions *o = NULL;
    natsConnection *connection = NULL;
    natsStatus s = natsOptions_Create(&o);
    s = s != NATS_OK ? s : cluster_nats_set(o, options);
    s = s != NATS_OK ? s : natsConnection_Connect(&connection, o);
    if (s != NATS_OK) {
        const char *said = nats_GetLastError(NULL);
        (void)snprintf(text, CLUSTER_DESCRIPTION_SIZE, "%s",
                       said == NULL || said[0] == '\0' ? natsStatus_GetText(s)
                                                       : without_place(said));
    }
    natsConnection_Destroy(connection);
    natsOptions_Destroy(o);
    return cluster_nats_error(s);
}

static natsStatus find_or_make(const struct cluster_client *c, jsCtx *js, const char *name,
                               kvStore **ret)
{
    kvConfig config;
    natsStatus s = js_KeyValue(ret, js, name);
    if (s == NATS_NOT_FOUND) {
        (void)kvConfig_Init(&config); /* fails for NULL only */
        config.Bucket = name;
        config.History = 1;
        config.Replicas = c->replicas;
        config.MaxValueSize = CLUSTER_VALUE_MAX;
        config.StorageType = js_FileStorage;
        s = js_CreateKeyValue(ret, js, &config);
        if (s != NATS_OK && js_KeyValue(ret, js, name) == NATS_OK) {
            s = NATS_OK; /* another node was first */
        }
    }
    return s;
}

/* All buckets are there on another connection too. */
static natsStatus client_take_up(void *ctx, natsConnection *connection)
{
    struct cluster_client *c = ctx;
    kvStore *stores[CLUSTER_BUCKETS_MAX] = {NULL};
    jsCtx *js = NULL;
    jsOptions o;
    natsStatus s = jsOptions_Init(&o);
    o.Wait = c->timeout_ms;
    s = s != NATS_OK ? s : natsConnection_JetStream(&js, connection, &o);
    for (size_t i = 0; s == NATS_OK && i < c->bucket_count; i++) {
        s = find_or_make(c, js, c->buckets[i].name, &stores[i]);
    }
    for (size_t i = 0; s == NATS_OK && i < c->bucket_count; i++) {
        kvStore *old = c->buckets[i].store;
        c->buckets[i].store = stores[i];
        stores[i] = old;
    }
    if (s == NATS_OK) {
        jsCtx *old = c->js;
        c->js = js;
        js = old;
        on_connected(connection, NULL);
    }
    for (size_t i = 0; i < CLUSTER_BUCKETS_MAX; i++) {
        kvStore_Destroy(stores[i]);
    }
    jsCtx_Destroy(js);
    return s;
}

static void client_close(struct cluster_client *c)
{
    if (c == NULL) {
        return;
    }
    /* Release pairs with the acquire of run_watch; joining orders the rest. */
    atomic_store_explicit(&c->is_closing, true, memory_order_release);
    cluster_nats_line_stop(&c->line);
    for (size_t i = 0; i < c->watch_count; i++) {
        (void)pthread_join(c->watches[i].thread, NULL);
    }
    for (size_t i = 0; i < c->bucket_count; i++) {
        kvStore_Destroy(c->buckets[i].store);
    }
    jsCtx_Destroy(c->js);
    cluster_nats_line_fini(&c->line);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
    nats_ReleaseThreadMemory();
}

static int client_open(const struct cluster_options *options, struct cluster_client **ret)
{
    struct cluster_client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return -ENOMEM;
    }
    (void)pthread_mutex_init(&c->lock, NULL); /* cannot fail with default attributes on Linux */
    c->timeout_ms = options->timeout / 1000;
    c->replicas = options->replicas;
    const struct cluster_nats_user user = {set_client_options, client_take_up, c};
    natsStatus s = cluster_nats_line_open(&c->line, options, &user);
    if (s != NATS_OK) {
        client_close(c);
        return cluster_nats_error(s);
    }
    *ret = c;
    return 0;
}

static bool client_is_connected(struct cluster_client *c)
{
    return cluster_nats_line_is_connected(&c->line);
}

static void client_describe(struct cluster_client *c, char ret[CLUSTER_DESCRIPTION_SIZE])
{
    const char *text = NULL;
    natsConnection *connection = cluster_nats_line_take(&c->line);
    if (!client_is_connected(c) ||
        natsConnection_GetConnectedUrl(connection, ret, CLUSTER_DESCRIPTION_SIZE) != NATS_OK) {
        natsStatus s = natsConnection_GetLastError(connection, &text);
        bool has_text = text != NULL && text[0] != '\0';
        (void)snprintf(ret, CLUSTER_DESCRIPTION_SIZE, "%s",
                       has_text ? text : natsStatus_GetText(s));
    }
    cluster_nats_line_leave(&c->line);
}

/* --- keys and values -------------------------------------------------------------------------- */

/* While the line is taken. */
static kvStore *find_store(struct cluster_client *c, const char *name)
{
    kvStore *found = NULL;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->bucket_count && found == NULL; i++) {
        found = strcmp(c->buckets[i].name, name) == 0 ? c->buckets[i].store : NULL;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return found;
}

/* Servers that lost all that they had have no bucket any more; the store that we have of it is as good
 * for one that is made anew. */
static void mend_bucket(struct cluster_client *c, const char *name)
{
    kvStore *store = NULL;
    (void)cluster_nats_line_take(&c->line);
    if (find_or_make(c, c->js, name, &store) == NATS_OK) {
        kvStore_Destroy(store);
    }
    cluster_nats_line_leave(&c->line);
}

static int bucket_taken(struct cluster_client *c, const char *name)
{
    kvStore *store = find_store(c, name);
    if (store != NULL) {
        return 0;
    }
    natsStatus s = find_or_make(c, c->js, name, &store);
    if (s != NATS_OK) {
        return cluster_nats_error(s);
    }
    int err = 0;
    (void)pthread_mutex_lock(&c->lock);
    if (c->bucket_count == CLUSTER_BUCKETS_MAX || strlen(name) >= NAME_SIZE) {
        err = ERR_LIMIT;
        kvStore_Destroy(store);
    } else {
        struct bucket *b = &c->buckets[c->bucket_count];
        (void)snprintf(b->name, sizeof(b->name), "%s", name);
        b->store = store;
        c->bucket_count++;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return err;
}

static int client_bucket(struct cluster_client *c, const char *name)
{
    (void)cluster_nats_line_take(&c->line);
    int err = bucket_taken(c, name);
    cluster_nats_line_leave(&c->line);
    return err;
}

static int get_taken(struct cluster_client *c, const char *bucket, const char *key,
                     struct cluster_value *ret)
{
    kvStore *store = find_store(c, bucket);
    kvEntry *entry = NULL;
    if (store == NULL) {
        return ERR_MISSING;
    }
    natsStatus s = kvStore_Get(&entry, store, key);
    if (s != NATS_OK) {
        return cluster_nats_error(s);
    }
    int len = kvEntry_ValueLen(entry);
    void *data = malloc((size_t)len + 1);
    if (data != NULL) {
        memcpy(data, kvEntry_Value(entry), (size_t)len);
        *ret = (struct cluster_value){data, (size_t)len, kvEntry_Revision(entry)};
    }
    kvEntry_Destroy(entry);
    return data == NULL ? -ENOMEM : 0;
}

static int client_get(struct cluster_client *c, const char *bucket, const char *key,
                      struct cluster_value *ret)
{
    (void)cluster_nats_line_take(&c->line);
    int err = get_taken(c, bucket, key, ret);
    cluster_nats_line_leave(&c->line);
    return err;
}

static int put_taken(struct cluster_client *c, const char *bucket, const char *key,
                     struct slice value, uint64_t *ret_revision)
{
    kvStore *store = find_store(c, bucket);
    if (store == NULL) {
        return ERR_MISSING;
    }
    return cluster_nats_error(kvStore_Put(ret_revision, store, key, value.data, (int)value.len));
}

static int client_put(struct cluster_client *c, const char *bucket, const char *key,
                      struct slice value, uint64_t *ret_revision)
{
    (void)cluster_nats_line_take(&c->line);
    int err = put_taken(c, bucket, key, value, ret_revision);
    cluster_nats_line_leave(&c->line);
    return err;
}

/* After a put that failed with an error that has no status of its own. Servers refuse one also while another
 * put of the key is on its way to their disks: then the value has the revision yet that was expected,
 * and does not tell. */
static bool is_wrong_revision(void)
{
    const char *text = nats_GetLastError(NULL);
    return text != NULL && strstr(text, "wrong last sequence") != NULL;
}

static int swap_taken(struct cluster_client *c, const char *bucket, const char *key,
                      struct slice value, uint64_t revision, uint64_t *ret_revision)
{
    kvStore *store = find_store(c, bucket);
    if (store == NULL) {
        return ERR_MISSING;
    }
    natsStatus s =
        revision == 0
            ? kvStore_Create(ret_revision, store, key, value.data, (int)value.len)
            : kvStore_Update(ret_revision, store, key, value.data, (int)value.len, revision);
    if (s == NATS_ERR && is_wrong_revision()) {
        return ERR_AGAIN;
    }
    if (s == NATS_ERR) { /* or it is said in other words: the value tells */
        struct cluster_value is = {.data = NULL};
        int err = get_taken(c, bucket, key, &is);
        uint64_t now = err == 0 ? is.revision : 0;
        free(is.data);
        return (err == 0 || err == ERR_MISSING) && now != revision ? ERR_AGAIN : -EIO;
    }
    if (s == NATS_NO_RESPONDERS) {
        mend_bucket(c, bucket); /* for the next time */
    }
    return cluster_nats_error(s);
}

static int client_swap(struct cluster_client *c, const char *bucket, const char *key,
                       struct slice value, uint64_t revision, uint64_t *ret_revision)
{
    (void)cluster_nats_line_take(&c->line);
    int err = swap_taken(c, bucket, key, value, revision, ret_revision);
    cluster_nats_line_leave(&c->line);
    return err;
}

static int remove_taken(struct cluster_client *c, const char *bucket, const char *key)
{
    kvStore *store = find_store(c, bucket);
    return store == NULL ? ERR_MISSING : cluster_nats_error(kvStore_Delete(store, key));
}

static int client_remove(struct cluster_client *c, const char *bucket, const char *key)
{
    (void)cluster_nats_line_take(&c->line);
    int err = remove_taken(c, bucket, key);
    cluster_nats_line_leave(&c->line);
    return err;
}

/* --- watches ---------------------------------------------------------------------------------- */

static bool is_closing(const struct cluster_client *c)
{
    return atomic_load_explicit(&c->is_closing, memory_order_acquire);
}

static void tell_entry(struct watch *w, kvEntry *entry)
{
    if (entry == NULL) {
        w->tell(w->ctx, NULL, "", 0, 0);
        return;
    }
    w->told = kvEntry_Revision(entry);
    if (kvEntry_Operation(entry) == kvOp_Put) {
        int len = kvEntry_ValueLen(entry);
        const void *data = len == 0 ? "" : kvEntry_Value(entry);
        w->tell(w->ctx, kvEntry_Key(entry), data, (size_t)len, w->told);
    } else {
        w->tell(w->ctx, kvEntry_Key(entry), NULL, 0, w->told);
    }
    kvEntry_Destroy(entry);
}

/* Whether the last change of the bucket is not the one that this watch told last; false too when no server says so
 * in time. Any of those that have the bucket may answer, as what is there is told by all of them. A bucket that was
 * lost and made anew begins with smaller numbers again, and a watch of the old one would wait for those behind its
 * own. */
static bool has_missed(const struct watch *w)
{
    struct cluster_client *c = w->client;
    char stream[NAME_SIZE + sizeof("KV_")], all[NAME_SIZE + sizeof("$KV..>")];
    natsMsg *last = NULL;
    jsOptions o;
    jsDirectGetMsgOptions get;
    (void)jsOptions_Init(&o); /* both fail for NULL only */
    (void)jsDirectGetMsgOptions_Init(&get);
    o.Wait = ASK_MS;
    get.LastBySubject = all;
    (void)snprintf(stream, sizeof(stream), "KV_%s", w->bucket->name);
    (void)snprintf(all, sizeof(all), "$KV.%s.>", w->bucket->name);
    (void)cluster_nats_line_take(&c->line);
    bool is_told =
        client_is_connected(c) && js_DirectGetMsg(&last, c->js, stream, &o, &get) == NATS_OK;
    cluster_nats_line_leave(&c->line);
    bool is_other = is_told && natsMsg_GetSequence(last) != w->told;
    natsMsg_Destroy(last);
    return is_other;
}

/* Until the connection was made anew, or the watcher failed, or has missed something twice on end: what it is
 * to tell may be on its way. seen: of connects, before it was made */
static void run_watcher(struct watch *w, kvWatcher *watcher, uint32_t seen)
{
    struct cluster_client *c = w->client;
    natsStatus s = NATS_OK;
    unsigned quiet = 0, doubts = 0; /* looks since it was told something, and doubts on end */
    while (!is_closing(c) && doubts < 2 && (s == NATS_OK || s == NATS_TIMEOUT) &&
           atomic_load_explicit(&connects, memory_order_relaxed) == seen) {
        kvEntry *entry = NULL;
        s = kvWatcher_Next(&entry, watcher, WATCH_LOOK_MS);
        if (s == NATS_OK) {
            tell_entry(w, entry);
            quiet = 0;
            doubts = 0;
        } else if (s == NATS_TIMEOUT && ++quiet % QUIET_LOOKS == 0) {
            doubts = has_missed(w) ? doubts + 1 : 0;
        }
    }
}

static kvWatcher *make_watcher(const struct watch *w)
{
    kvWatcher *watcher = NULL;
    (void)cluster_nats_line_take(&w->client->line);
    bool is_made = client_is_connected(w->client) &&
                   kvStore_WatchAll(&watcher, w->bucket->store, NULL) == NATS_OK;
    cluster_nats_line_leave(&w->client->line);
    return is_made ? watcher : NULL;
}

static void *run_watch(void *arg)
{
    struct watch *w = arg;
    while (!is_closing(w->client)) {
        uint32_t seen = atomic_load_explicit(&connects, memory_order_relaxed);
        kvWatcher *watcher = make_watcher(w);
        if (watcher != NULL) {
            w->told = 0;
            w->tell(w->ctx, NULL, NULL, 0, 0);
            run_watcher(w, watcher, seen);
            kvWatcher_Destroy(watcher);
        } else {
            nats_Sleep(WATCH_LOOK_MS);
            mend_bucket(w->client, w->bucket->name);
        }
    }
    nats_ReleaseThreadMemory();
    return NULL;
}

static int client_watch(struct cluster_client *c, const char *bucket, cluster_watcher *tell,
                        void *ctx)
{
    const struct bucket *b = NULL;
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->bucket_count && b == NULL; i++) {
        b = strcmp(c->buckets[i].name, bucket) == 0 ? &c->buckets[i] : NULL;
    }
    int err = b == NULL ? ERR_MISSING : 0;
    if (err == 0 && c->watch_count == CLUSTER_BUCKETS_MAX) {
        err = ERR_LIMIT;
    }
    if (err == 0) {
        struct watch *w = &c->watches[c->watch_count];
        *w = (struct watch){.client = c, .bucket = b, .tell = tell, .ctx = ctx};
        err = -pthread_create(&w->thread, NULL, run_watch, w);
        c->watch_count += err == 0 ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return err;
}

__attribute__((visibility("default"))) const struct cluster_module *sluice_cluster_module(void)
{
    static const struct cluster_module module = {
        .version = CLUSTER_MODULE_VERSION,
        .api = &cluster_nats_api_module,
        .reach = client_reach,
        .open = client_open,
        .close = client_close,
        .is_connected = client_is_connected,
        .describe = client_describe,
        .bucket = client_bucket,
        .get = client_get,
        .put = client_put,
        .swap = client_swap,
        .remove = client_remove,
        .watch = client_watch,
    };
    return &module;
}
