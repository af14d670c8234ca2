/* The c-ares channel of one worker and the questions under way on it.
 * Called by the resolver only.
 * Must not call into c-ares, or complete anything, from within a c-ares callback.
 *
 * A question is WAITING (held back by query_limit), SENT, LATE (sent, and so slow that it holds
 * back nobody any more), or ANSWERED (its waiters have not been told yet); question_move changes
 * the state and with it the list. */
#include "dns/lookup.h"

#include "base/buf.h"
#include "base/error.h"
#include "dns/cache.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    QUESTION_BUCKETS = 4096,
    EDNS_BYTES = 1232, /* fits unfragmented over IPv6 (DNS flag day 2020) */
    ID_BATCH = 128,
    HEADER_FLAGS_LOW = 3, /* byte of the DNS header that holds AD */
    HEADER_AD = 0x20,
    LATE_FACTOR = 16,    /* so many times query_limit may be late */
    ANSWER_BYTES = 2304, /* what the kernel charges for a datagram of EDNS_BYTES */
};

/* c-ares scans all outstanding queries when time passes, so this is done seldom. */
#define TICK_USEC (250 * USEC_PER_MSEC)

/* A name that is answered at all is mostly answered by then, from far away and without a cache.
 * Names that are not take many times as long, and would soon have all of query_limit. */
#define LATE_USEC (500 * USEC_PER_MSEC)

enum question_state {
    QUESTION_WAITING,
    QUESTION_SENT,
    QUESTION_LATE,
    QUESTION_ANSWERED,
    QUESTION_STATE_COUNT
};

struct question {
    struct list in_state;
    struct list in_bucket; /* while not answered */
    struct list waiters;
    struct lookup *owner;
    enum question_state state;
    usec_t sent_at;
    enum dns_type type;
    uint64_t hash;
    struct dns_name asked; /* the cache's key */
    struct dns_name name;  /* what is being asked now: `asked`, or the end of its aliases so far */
    uint32_t alias_ttl;    /* least of the aliases followed */
    uint8_t alias_count;
    bool is_authentic; /* so far */
    bool has_retried_plain, has_retried_closed;
    struct dns_rrset *answer;
};

struct lookup {
    /* set at creation */
    ares_channel channel;
    struct dns_cache *cache;
    struct resolver_hooks hooks;
    uint32_t query_limit;
    bool is_loopback; /* every server is there */
    bool trusts_ad;   /* is_loopback, or the operator says so */
    /* owner thread only */
    bool is_stopping;
    bool uses_edns;
    usec_t now; /* of the call under way; c-ares callbacks carry none */
    usec_t tick_at;
    uint32_t state_counts[QUESTION_STATE_COUNT];
    struct list states[QUESTION_STATE_COUNT];
    struct list buckets[QUESTION_BUCKETS];
    uint64_t queries, timeouts;
    uint32_t id_count;
    uint16_t ids[ID_BATCH];
    struct dns_answer parsed; /* scratch of on_answer */
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_status;

/* ares_library_init of 1.18 is not safe to call from two threads at once. */
static void library_start(void)
{
    library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

static int err_of_ares(int status)
{
    if (status == ARES_SUCCESS) {
        return 0;
    }
    return status == ARES_ENOMEM ? -ENOMEM : ERR_SYNTAX;
}

static void on_socket_state(void *arg, ares_socket_t fd, int want_read, int want_write)
{
    const struct lookup *l = arg;

    l->hooks.watch(l->hooks.ctx, fd, want_read != 0, want_write != 0);
}

static int set_servers(struct lookup *l, const struct dns_config *config)
{
    struct buf csv;

    if (config->server_count == 0) {
        return 0;
    }
    buf_init(&csv, 0);
    for (uint32_t i = 0; i < config->server_count; i++) {
        buf_printf(&csv, "%s%s", i == 0 ? "" : ",", config->servers[i]);
    }
    buf_append_char(&csv, '\0');
    int err =
        csv.failed ? ERR_SYNTAX : err_of_ares(ares_set_servers_ports_csv(l->channel, csv.data));
    buf_fini(&csv);
    return err;
}

/* The AD bit is worth as much as the path to the server: believed from loopback only, unless the
 * operator vouches for the path.
 * Also refuses a channel without servers, on which each query would fail. */
static int check_servers(struct lookup *l)
{
    struct ares_addr_port_node *servers = NULL;
    struct ip server = {0};

    int status = ares_get_servers_ports(l->channel, &servers);
    if (status != ARES_SUCCESS) {
        return err_of_ares(status);
    }
    if (servers == NULL) {
        return ERR_SYNTAX;
    }
    l->is_loopback = true; /* until one of the servers is elsewhere */
    for (const struct ares_addr_port_node *s = servers; s != NULL; s = s->next) {
        server.family = s->family == AF_INET6 ? 6 : 4;
        memcpy(server.bytes, &s->addr, server.family == 6 ? 16 : 4);
        l->is_loopback = l->is_loopback && ip_scope(&server) == IP_LOOPBACK;
    }
    ares_free_data(servers);
    return 0;
}

/* flags   ARES_FLAG_* beside those that are always set */
static int open_channel(struct lookup *l, const struct dns_config *config, int flags)
{
    char lookups[] = "b"; /* DNS only, no hosts file */
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS | flags,
        .timeout = (int)(config->query_timeout / USEC_PER_MSEC),
        .tries = config->query_tries,
        .lookups = lookups,
        .sock_state_cb = on_socket_state,
        .sock_state_cb_data = l,
        .ednspsz = EDNS_BYTES,
        .socket_receive_buffer_size = (int)config->query_limit * ANSWER_BYTES,
    };

    pthread_once(&library_once, library_start);
    if (library_status != ARES_SUCCESS) {
        return err_of_ares(library_status);
    }
    int status = ares_init_options(
        &l->channel, &options,
        ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_DOMAINS |
            ARES_OPT_SOCK_STATE_CB | ARES_OPT_EDNSPSZ | ARES_OPT_SOCK_RCVBUF);
    if (status != ARES_SUCCESS) {
        l->channel = NULL;
        return err_of_ares(status);
    }
    int err = set_servers(l, config);
    return err != 0 ? err : check_servers(l);
}

/* c-ares opens a socket for the first question and closes it with the last answer: a port that
 * nobody can guess is much of what keeps forged answers out. To loopback nobody forges them, and the
 * socket stays: six calls less a question. Where the servers are is known once c-ares has read
 * them. */
static int open_lookup(struct lookup *l, const struct dns_config *config)
{
    int err = open_channel(l, config, 0);
    if (err == 0 && l->is_loopback) {
        ares_destroy(l->channel);
        l->channel = NULL;
        err = open_channel(l, config, ARES_FLAG_STAYOPEN);
    }
    l->trusts_ad = l->is_loopback || config->trust_ad;
    return err;
}

int lookup_new(const struct dns_config *config, struct dns_cache *cache,
               const struct resolver_hooks *hooks, struct lookup **ret)
{
    struct lookup *l = calloc(1, sizeof(*l));

    if (l == NULL) {
        return -ENOMEM;
    }
    l->cache = dns_cache_get(cache);
    l->hooks = *hooks;
    l->query_limit = config->query_limit;
    l->uses_edns = true;
    for (int i = 0; i < QUESTION_STATE_COUNT; i++) {
        list_init(&l->states[i]);
    }
    for (int i = 0; i < QUESTION_BUCKETS; i++) {
        list_init(&l->buckets[i]);
    }
    int err = open_lookup(l, config);
    if (err != 0) {
        lookup_free(l);
        return err;
    }
    *ret = l;
    return 0;
}

static void question_free(struct question *q)
{
    assert(list_is_empty(&q->waiters));
    list_remove(&q->in_state);
    list_remove(&q->in_bucket);
    q->owner->state_counts[q->state]--;
    dns_rrset_put(q->answer);
    free(q);
}

void lookup_free(struct lookup *l)
{
    if (l == NULL) {
        return;
    }
    l->is_stopping = true;
    if (l->channel != NULL) {
        ares_destroy(l->channel); /* answers every question sent, see on_answer */
    }
    for (int i = 0; i < QUESTION_STATE_COUNT; i++) {
        list_foreach_safe(q, &l->states[i], struct question, in_state)
        {
            question_free(q);
        }
    }
    dns_cache_put(l->cache);
    free(l);
}

static void question_move(struct question *q, enum question_state state)
{
    struct lookup *l = q->owner;

    l->state_counts[q->state]--;
    list_remove(&q->in_state);
    q->state = state;
    l->state_counts[state]++;
    list_push_back(&l->states[state], &q->in_state);
}

/* Whoever asks from now on finds the answer in the cache, or asks anew. */
static void question_settle(struct question *q, enum dns_status status, uint32_t ttl)
{
    struct lookup *l = q->owner;
    const struct dns_rrset_source source = {
        .name = dns_name_slice(&q->asked),
        .end =
            status == DNS_FOUND && q->alias_count > 0 ? dns_name_slice(&l->parsed.name) : SLICE(""),
        .hash = q->hash,
        .type = q->type,
        .status = status,
        .is_authentic = q->is_authentic && l->trusts_ad && !dns_status_is_soft(status),
        .expires = dns_cache_expiry(l->cache, status, ttl, l->now),
        .records = l->parsed.records,
        .count = l->parsed.record_count,
    };

    q->answer = dns_rrset_new(&source);
    if (q->answer != NULL) {
        dns_cache_insert(l->cache, q->answer, l->now);
    }
    list_remove(&q->in_bucket);
    question_move(q, QUESTION_ANSWERED);
}

static uint32_t least_ttl(const struct question *q, const struct dns_answer *answer)
{
    uint32_t ttl = q->alias_ttl;

    for (uint32_t i = 0; i < answer->record_count; i++) {
        ttl = answer->records[i].ttl < ttl ? answer->records[i].ttl : ttl;
    }
    return ttl;
}

static uint32_t negative_ttl(const struct question *q, const struct dns_answer *answer)
{
    uint32_t ttl = answer->has_soa ? answer->negative_ttl : 0;

    return ttl < q->alias_ttl ? ttl : q->alias_ttl;
}

/* A well-formed answer of NOERROR or NXDOMAIN: records, nothing, or an alias to go on with. */
static void question_conclude(struct question *q, const struct dns_answer *answer)
{
    q->is_authentic = q->is_authentic && answer->is_authentic;
    q->alias_count = (uint8_t)(q->alias_count + answer->alias_count);
    q->alias_ttl = answer->alias_ttl < q->alias_ttl ? answer->alias_ttl : q->alias_ttl;
    if (answer->is_alias_loop || q->alias_count > DNS_CNAME_MAX) {
        question_settle(q, DNS_ALIAS_LOOP, negative_ttl(q, answer));
    } else if (answer->record_count > 0) {
        question_settle(q, DNS_FOUND, least_ttl(q, answer));
    } else if (answer->rcode == DNS_RCODE_NXDOMAIN) {
        question_settle(q, DNS_NXDOMAIN, negative_ttl(q, answer));
    } else if (answer->alias_count > 0 && !answer->has_soa && answer->name.len > 0) {
        /* The server stopped at an alias. */
        q->name = answer->name;
        question_move(q, QUESTION_WAITING);
    } else {
        question_settle(q, DNS_NODATA, negative_ttl(q, answer));
    }
}

static void question_parse(struct question *q, const uint8_t *data, size_t len)
{
    struct lookup *l = q->owner;
    struct dns_answer *answer = &l->parsed;

    if (dns_wire_parse(data, len, &q->name, q->type, answer) != 0 || answer->is_truncated) {
        question_settle(q, DNS_MALFORMED, 0);
        return;
    }
    switch (answer->rcode) {
    case DNS_RCODE_NOERROR:
    case DNS_RCODE_NXDOMAIN:
        question_conclude(q, answer);
        break;
    case DNS_RCODE_FORMERR:
        if (!q->has_retried_plain) {
            /* A server from before EDNS; c-ares strips the option only once per channel. */
            q->has_retried_plain = true;
            l->uses_edns = false;
            question_move(q, QUESTION_WAITING);
            break;
        }
        question_settle(q, DNS_UNRECOVERABLE, 0);
        break;
    case DNS_RCODE_NOTIMP:
        question_settle(q, DNS_UNRECOVERABLE, 0);
        break;
    default:
        question_settle(q, DNS_SERVFAIL, 0);
        break;
    }
}

/* c-ares has something, or gives up. May come inside ares_send and ares_destroy. */
static void on_answer(void *arg, int status, int timeouts, unsigned char *data, int len)
{
    struct question *q = arg;
    struct lookup *l = q->owner;

    assert(q->state == QUESTION_SENT || q->state == QUESTION_LATE);
    if (l->is_stopping) {
        return;
    }
    l->timeouts += (uint64_t)timeouts;
    switch (status) {
    case ARES_SUCCESS:
        question_parse(q, data, (size_t)len);
        break;
    case ARES_ENOTFOUND: /* names that are never asked for: .onion (RFC 7686) */
        question_settle(q, DNS_NXDOMAIN, 0);
        break;
    case ARES_ETIMEOUT:
        question_settle(q, DNS_TIMEOUT, 0);
        break;
    case ARES_EBADRESP:
        question_settle(q, DNS_MALFORMED, 0);
        break;
    case ARES_ECONNREFUSED:
        if (l->is_loopback && !q->has_retried_closed) {
            /* Sockets stay open there, and the server may have closed a connection before. */
            q->has_retried_closed = true;
            question_move(q, QUESTION_WAITING);
            break;
        }
        question_settle(q, DNS_SERVFAIL, 0);
        break;
    default:
        question_settle(q, DNS_SERVFAIL, 0);
        break;
    }
}

/* Unpredictable, because it is most of what keeps forged answers out. */
static uint16_t next_id(struct lookup *l)
{
    if (l->id_count == 0) {
        ssize_t got = getrandom(l->ids, sizeof(l->ids), 0);
        assert(got == (ssize_t)sizeof(l->ids)); /* never short up to 256 bytes, getrandom(2) */
        l->id_count = ID_BATCH;
    }
    return l->ids[--l->id_count];
}

static uint32_t outstanding(const struct lookup *l)
{
    return l->state_counts[QUESTION_SENT] + l->state_counts[QUESTION_LATE];
}

static void question_send(struct question *q)
{
    struct lookup *l = q->owner;
    unsigned char *query = NULL;
    int len = 0;

    question_move(q, QUESTION_SENT);
    q->sent_at = l->now;
    int status = ares_create_query(q->name.text, ns_c_in, (int)q->type, next_id(l), 1, &query, &len,
                                   l->uses_edns && !q->has_retried_plain ? EDNS_BYTES : 0);
    if (status != ARES_SUCCESS) {
        on_answer(q, status, 0, NULL, 0);
        return;
    }
    query[HEADER_FLAGS_LOW] |= HEADER_AD; /* we want to know (RFC 6840 5.7) */
    l->queries++;
    if (outstanding(l) == 1) {
        l->tick_at = l->now + TICK_USEC;
    }
    ares_send(l->channel, query, len, on_answer, q);
    ares_free_string(query);
}

static struct question *find_question(struct list *bucket, uint64_t hash, struct slice name,
                                      enum dns_type type)
{
    list_foreach(q, bucket, struct question, in_bucket)
    {
        if (q->hash == hash && q->type == type && slice_eq(dns_name_slice(&q->asked), name)) {
            return q;
        }
    }
    return NULL;
}

static struct question *question_new(struct lookup *l, struct slice name, enum dns_type type,
                                     uint64_t hash)
{
    struct question *q = calloc(1, sizeof(*q));

    if (q == NULL) {
        return NULL;
    }
    assert(name.len > 0 && name.len <= DNS_NAME_MAX);
    q->owner = l;
    q->type = type;
    q->hash = hash;
    q->asked.is_valid = true;
    q->asked.len = (uint8_t)name.len;
    memcpy(q->asked.text, name.data, name.len);
    q->name = q->asked;
    q->alias_ttl = UINT32_MAX;
    q->is_authentic = true;
    q->state = QUESTION_WAITING;
    list_init(&q->waiters);
    list_push_back(&l->buckets[hash % QUESTION_BUCKETS], &q->in_bucket);
    list_push_back(&l->states[QUESTION_WAITING], &q->in_state);
    l->state_counts[QUESTION_WAITING]++;
    return q;
}

int lookup_ask(struct lookup *l, struct slice name, enum dns_type type,
               struct lookup_waiter *waiter, usec_t now)
{
    const struct dns_rrset *cached = dns_cache_find(l->cache, name, type, now);

    l->now = now;
    if (cached != NULL) {
        waiter->set = dns_rrset_get(cached);
        return 0;
    }
    uint64_t hash = dns_cache_hash(l->cache, name, type);
    struct question *q = find_question(&l->buckets[hash % QUESTION_BUCKETS], hash, name, type);
    if (q == NULL) {
        q = question_new(l, name, type, hash);
    }
    if (q == NULL) {
        return -ENOMEM;
    }
    waiter->is_waiting = true;
    list_push_back(&q->waiters, &waiter->link);
    return 0;
}

void lookup_forget(struct lookup_waiter *waiter)
{
    if (waiter->is_waiting) {
        waiter->is_waiting = false;
        list_remove(&waiter->link);
    }
}

struct lookup_waiter *lookup_next(struct lookup *l, usec_t now)
{
    struct list *answered = &l->states[QUESTION_ANSWERED];

    l->now = now;
    for (;;) {
        while (l->state_counts[QUESTION_WAITING] > 0 &&
               l->state_counts[QUESTION_SENT] < l->query_limit) {
            question_send(list_first(&l->states[QUESTION_WAITING], struct question, in_state));
        }
        if (list_is_empty(answered)) {
            return NULL;
        }
        struct question *q = list_first(answered, struct question, in_state);
        if (!list_is_empty(&q->waiters)) {
            struct lookup_waiter *waiter = list_first(&q->waiters, struct lookup_waiter, link);
            lookup_forget(waiter);
            waiter->set = q->answer == NULL ? NULL : dns_rrset_get(q->answer);
            return waiter;
        }
        question_free(q);
    }
}

void lookup_fd_event(struct lookup *l, int fd, bool is_readable, bool is_writable, usec_t now)
{
    l->now = now;
    ares_process_fd(l->channel, is_readable ? fd : ARES_SOCKET_BAD,
                    is_writable ? fd : ARES_SOCKET_BAD);
}

static void set_late_aside(struct lookup *l)
{
    list_foreach_safe(q, &l->states[QUESTION_SENT], struct question, in_state)
    {
        if (q->sent_at + LATE_USEC > l->now ||
            l->state_counts[QUESTION_LATE] >= LATE_FACTOR * l->query_limit) {
            break;
        }
        question_move(q, QUESTION_LATE);
    }
}

void lookup_tick(struct lookup *l, usec_t now)
{
    l->now = now;
    if (outstanding(l) > 0 && now >= l->tick_at) {
        set_late_aside(l);
        l->tick_at = now + TICK_USEC;
        ares_process_fd(l->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
}

usec_t lookup_wake_at(const struct lookup *l)
{
    if (l->state_counts[QUESTION_ANSWERED] > 0 ||
        (l->state_counts[QUESTION_WAITING] > 0 &&
         l->state_counts[QUESTION_SENT] < l->query_limit)) {
        return 0;
    }
    return outstanding(l) > 0 ? l->tick_at : USEC_NEVER;
}

void lookup_read_counters(const struct lookup *l, struct lookup_counters *ret)
{
    ret->queries = l->queries;
    ret->timeouts = l->timeouts;
    ret->outstanding = outstanding(l);
    ret->waiting = l->state_counts[QUESTION_WAITING];
}

bool lookup_is_idle(const struct lookup *l)
{
    return outstanding(l) == 0 && l->state_counts[QUESTION_WAITING] == 0 &&
           l->state_counts[QUESTION_ANSWERED] == 0;
}

bool lookup_trusts_ad(const struct lookup *l)
{
    return l->trusts_ad;
}
