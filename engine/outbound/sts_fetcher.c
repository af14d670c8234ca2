/* One thread around curl_multi_poll: questions in from workers, answers out, transfers between.
 * Must not follow anything a stranger's server says: no redirect, no other protocol, no proxy, and
 * only addresses that a worker resolved and that a mail host might have as well. */
#include "engine/outbound/sts_fetcher.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/post.h"
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/outbound/sts_cache.h"
#include "engine/post/letter.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/worker/worker.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POLICIES_MAX = 10000,
    FETCHES_MAX = 50,     /* under way; others wait for a place */
    FAILURE_PLACES = 4096 /* a power of two */
};

/* One domain's policy on its way; questions about the same domain wait for the same fetch. */
struct fetch {
    struct list link; /* in waiting or active */
    struct list questions;
    usec_t deadline; /* monotonic, of waiting and fetching together */
    uint16_t transport;
    char domain[DNS_NAME_MAX + 1];
    char id[MTA_STS_ID_MAX + 1];
    struct ip addresses[STS_ADDRESSES_MAX];
    uint32_t address_count;
    CURL *curl; /* while active */
    struct curl_slist *resolve;
    struct buf body;
    enum tls_failure failure; /* what it is in a report, once it failed */
    char why[CURL_ERROR_SIZE];
};

struct sts_fetcher {
    struct engine *engine;
    struct post post;
    struct outbox *to_workers; /* [engine->worker_count], of the post */

    /* owner thread only */
    struct sts_cache *cache;
    CURLM *multi;
    struct list waiting, active; /* struct fetch */
    uint32_t active_count;
    uint64_t seed;
    struct {
        uint64_t key;
        usec_t until; /* monotonic */
        enum tls_failure failure;
    } failures[FAILURE_PLACES]; /* by domain and id; the later of two in one place */
};

void sts_question_free(struct sts_question *q)
{
    if (q != NULL) {
        free(q->text);
        free(q);
    }
}

/* --- failures --------------------------------------------------------------------------------- */

static uint64_t failure_key(const struct sts_fetcher *f, const char *domain, const char *id)
{
    return hash_bytes(domain, strlen(domain), hash_bytes(id, strlen(id), f->seed));
}

/* How the fetch went that is not to be repeated yet; TLS_FAILURE_NONE: nothing keeps it. */
static enum tls_failure last_failure(const struct sts_fetcher *f, const struct sts_question *q,
                                     usec_t now)
{
    uint64_t key = failure_key(f, q->domain, q->id);
    size_t at = key & (FAILURE_PLACES - 1);
    bool has_failed = f->failures[at].key == key && now < f->failures[at].until;
    return has_failed ? f->failures[at].failure : TLS_FAILURE_NONE;
}

static void remember_failure(struct sts_fetcher *f, const struct fetch *t, usec_t now)
{
    uint64_t key = failure_key(f, t->domain, t->id);
    size_t at = key & (FAILURE_PLACES - 1);
    f->failures[at].key = key;
    f->failures[at].until = now + STS_RETRY_TIME;
    f->failures[at].failure = t->failure;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* returns false when out of memory */
static bool fill_in(struct sts_question *q, const struct sts_entry *entry)
{
    q->text = malloc(entry->policy.text.len + 1);
    if (q->text == NULL) {
        return false;
    }
    memcpy(q->text, entry->policy.text.data, entry->policy.text.len);
    memcpy(q->answer_id, entry->id.data, entry->id.len);
    q->policy = entry->policy;
    q->policy.text.data = q->text;
    q->has_policy = true;
    return true;
}

/* entry   NULL: no policy holds */
static void answer_question(struct sts_fetcher *f, struct sts_question *q,
                            const struct sts_entry *entry)
{
    q->has_failed = q->has_failed || (entry != NULL && !fill_in(q, entry));
    letter_put_sts_answer(&f->to_workers[q->worker], q);
}

static void fetch_free(struct sts_fetcher *f, struct fetch *t)
{
    if (t->curl != NULL) {
        (void)curl_multi_remove_handle(f->multi, t->curl); /* fails for handles not added only */
        curl_easy_cleanup(t->curl);
        f->active_count--;
    }
    curl_slist_free_all(t->resolve);
    buf_fini(&t->body);
    list_remove(&t->link);
    free(t);
}

static void fetch_end(struct sts_fetcher *f, struct fetch *t)
{
    const struct sts_entry *entry = sts_cache_find(f->cache, slice_of(t->domain), clock_wall());
    list_foreach_safe(q, &t->questions, struct sts_question, link)
    {
        list_remove(&q->link);
        q->failure = entry == NULL ? t->failure : TLS_FAILURE_NONE;
        answer_question(f, q, entry);
    }
    fetch_free(f, t);
}

static void fetch_failed(struct sts_fetcher *f, struct fetch *t, const char *why)
{
    t->failure = t->failure == TLS_FAILURE_NONE ? TLS_FAILURE_STS_FETCH : t->failure;
    log_info("mta-sts: policy of %s: %s", t->domain, why);
    remember_failure(f, t, clock_mono());
    fetch_end(f, t);
}

/* --- fetching --------------------------------------------------------------------------------- */

bool sts_fetcher_may_ask(const struct ip *ip, bool allow_loopback)
{
    enum ip_scope scope = ip_scope(ip);
    return scope == IP_PUBLIC || (allow_loopback && (scope == IP_LOOPBACK || scope == IP_PRIVATE));
}

/* "+mta-sts.example.com:443:192.0.2.1,[2001:db8::1]"; false: no address, or no memory */
static bool pin_addresses(const struct sts_fetcher *f, struct fetch *t)
{
    struct buf text;
    uint32_t count = 0;
    rcu_awake();
    bool allow_loopback = settings_of(f->engine)->config->allow_loopback;
    rcu_sleep();
    buf_init(&text, 0);
    buf_printf(&text, "+" MTA_STS_HOST_LABEL ".%s:443:", t->domain);
    for (uint32_t i = 0; i < t->address_count; i++) {
        char ip[IP_TEXT_MAX];
        bool is_v6 = t->addresses[i].family == 6;
        if (sts_fetcher_may_ask(&t->addresses[i], allow_loopback)) {
            buf_printf(&text, "%s%s%s%s", count++ == 0 ? "" : ",", is_v6 ? "[" : "",
                       ip_text(&t->addresses[i], ip), is_v6 ? "]" : "");
        }
    }
    buf_append_char(&text, '\0');
    if (count > 0 && !text.failed) {
        t->resolve = curl_slist_append(NULL, text.data);
    }
    buf_fini(&text);
    return t->resolve != NULL;
}

static size_t take_policy_body(char *data, size_t size, size_t count, void *ctx)
{
    struct fetch *t = ctx;
    buf_append(&t->body, data, size * count);
    return t->body.failed ? 0 : size * count; /* 0 ends the transfer */
}

/* Sets all options of a transfer. Each of them closes a way to misuse it, so one that cannot be set
 * fails the fetch. */
static bool set_options(const struct sts_fetcher *f, struct fetch *t)
{
    const char *ca_file = settings_for(settings_of(f->engine), t->transport)
                              ->config->transports[t->transport]
                              .smtp.smtp_tls_CAfile;
    char url[DNS_NAME_MAX + 64];
    CURL *c = t->curl;
    long left = (long)((t->deadline - clock_mono()) / USEC_PER_MSEC);
    (void)snprintf(url, sizeof(url), "https://" MTA_STS_HOST_LABEL ".%s/.well-known/mta-sts.txt",
                   t->domain); /* the domain is bounded */
    return curl_easy_setopt(c, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https") == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, left > 0 ? left : 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
           (ca_file == NULL || (curl_easy_setopt(c, CURLOPT_CAINFO, ca_file) == CURLE_OK &&
                                curl_easy_setopt(c, CURLOPT_CAPATH, NULL) == CURLE_OK)) &&
           curl_easy_setopt(c, CURLOPT_RESOLVE, t->resolve) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_MAXFILESIZE, (long)MTA_STS_POLICY_MAX) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->why) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_policy_body) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_WRITEDATA, t) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PRIVATE, t) == CURLE_OK;
}

static void fetch_start(struct sts_fetcher *f, struct fetch *t)
{
    list_remove(&t->link);
    list_push_back(&f->active, &t->link);
    if (!pin_addresses(f, t)) {
        fetch_failed(f, t, "its host has no address that may be asked");
        return;
    }
    CURL *curl = curl_easy_init();
    if (curl == NULL) {
        fetch_failed(f, t, "out of memory");
        return;
    }
    t->curl = curl;
    f->active_count++;
    rcu_awake(); /* settings are read */
    bool is_set = set_options(f, t);
    rcu_sleep();
    if (!is_set || curl_multi_add_handle(f->multi, curl) != CURLM_OK) {
        fetch_failed(f, t, "cannot begin a transfer");
    }
}

/* RFC 8461 section 3.3: 200 and text/plain, nothing else. */
static const char *check_response(const struct fetch *t, CURLcode code)
{
    long status = 0;
    const char *type = NULL;
    if (code != CURLE_OK) {
        return t->why[0] != '\0' ? t->why : curl_easy_strerror(code);
    }
    if (curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status != 200) {
        return "the answer is not 200";
    }
    if (curl_easy_getinfo(t->curl, CURLINFO_CONTENT_TYPE, &type) != CURLE_OK || type == NULL) {
        return "the answer is not text/plain";
    }
    struct slice text = slice_of(type);
    text = slice_trim(slice_to(text, slice_find(text, ';')));
    return slice_ieq(text, SLICE("text/plain")) ? NULL : "the answer is not text/plain";
}

static void fetch_done(struct sts_fetcher *f, struct fetch *t, CURLcode code)
{
    struct mta_sts_policy policy;
    const char *why = check_response(t, code);
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        t->failure = TLS_FAILURE_STS_WEBPKI;
    }
    if (why == NULL && mta_sts_policy_parse(buf_slice(&t->body), &policy) != 0) {
        why = "the answer is no policy";
        t->failure = TLS_FAILURE_STS_INVALID;
    }
    if (why != NULL) {
        fetch_failed(f, t, why);
        return;
    }
    int err = sts_cache_put(f->cache, slice_of(t->domain), slice_of(t->id), &policy, clock_wall());
    if (err != 0) {
        log_warning("mta-sts: the policy of %s is not kept: %s", t->domain, err_str(err));
    }
    fetch_end(f, t);
}

/* --- questions -------------------------------------------------------------------------------- */

static struct fetch *find_fetch(struct list *list, const char *domain)
{
    list_foreach(t, list, struct fetch, link)
    {
        if (strcmp(t->domain, domain) == 0) {
            return t;
        }
    }
    return NULL;
}

/* The fetch of this policy, under way or a new one; NULL when out of memory. */
static struct fetch *fetch_of(struct sts_fetcher *f, const struct sts_question *q)
{
    struct fetch *t = find_fetch(&f->active, q->domain);
    t = t != NULL ? t : find_fetch(&f->waiting, q->domain);
    if (t != NULL) {
        return t;
    }
    t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    list_init(&t->link);
    list_init(&t->questions);
    t->deadline = clock_mono() + STS_FETCH_TIME;
    t->transport = q->transport;
    memcpy(t->domain, q->domain, sizeof(t->domain));
    memcpy(t->id, q->id, sizeof(t->id));
    memcpy(t->addresses, q->addresses, sizeof(t->addresses));
    t->address_count = q->address_count;
    buf_init(&t->body, MTA_STS_POLICY_MAX);
    list_push_back(&f->waiting, &t->link);
    return t;
}

/* A policy in the second half of its life is fetched again before it is needed (RFC 8461 section
 * 3.3), without anybody waiting for it. */
static bool is_old(const struct sts_entry *e)
{
    return clock_wall() - e->fetched > (usec_t)e->policy.max_age * USEC_PER_SEC / 2;
}

static void take_question(struct sts_fetcher *f, struct sts_question *q)
{
    const struct sts_entry *entry = sts_cache_find(f->cache, slice_of(q->domain), clock_wall());
    bool is_known = entry != NULL && slice_eq(entry->id, slice_of(q->id));
    list_init(&q->link);
    /* Without a TXT record the cached policy still holds: otherwise an attacker had only to hide
     * the record. */
    enum tls_failure failure = last_failure(f, q, clock_mono());
    if (q->id[0] == '\0' || failure != TLS_FAILURE_NONE) {
        q->failure = entry == NULL && q->id[0] != '\0' ? failure : TLS_FAILURE_NONE;
        answer_question(f, q, entry);
        return;
    }
    struct fetch *t = is_known && !is_old(entry) ? NULL : fetch_of(f, q);
    if (is_known || t == NULL) {
        q->has_failed = !is_known && entry == NULL;
        answer_question(f, q, entry);
    } else {
        list_push_back(&t->questions, &q->link);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

int sts_fetcher_new(struct engine *engine, struct sts_fetcher **ret)
{
    struct sts_fetcher *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return -ENOMEM;
    }
    f->engine = engine;
    f->seed = hash_random_seed();
    list_init(&f->waiting);
    list_init(&f->active);
    int err = post_init_polled(&f->post, 4096);
    if (err == 0) {
        err = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -ENOMEM;
    }
    if (err == 0) {
        f->multi = curl_multi_init();
        err = f->multi == NULL ? -ENOMEM : 0;
    }
    if (err == 0) {
        char folder[4096];
        (void)snprintf(folder, sizeof(folder), "%.4000s/mta-sts", engine->config->spool.path);
        err = sts_cache_open(folder, POLICIES_MAX, clock_wall(), &f->cache);
    }
    if (err != 0) {
        sts_fetcher_free(f);
        return err;
    }
    *ret = f;
    return 0;
}

struct mailbox *sts_fetcher_box(struct sts_fetcher *f)
{
    return &f->post.box;
}

static void drop_all(struct sts_fetcher *f, struct list *fetches)
{
    list_foreach_safe(t, fetches, struct fetch, link)
    {
        list_foreach_safe(q, &t->questions, struct sts_question, link)
        {
            sts_question_free(q);
        }
        fetch_free(f, t);
    }
}

void sts_fetcher_free(struct sts_fetcher *f)
{
    struct letter letter;
    if (f == NULL) {
        return;
    }
    while (post_take_left(&f->post, &letter)) {
        sts_question_free(letter_take_sts_question(&letter));
    }
    drop_all(f, &f->waiting);
    drop_all(f, &f->active);
    if (f->multi != NULL) {
        (void)curl_multi_cleanup(f->multi);
    }
    curl_global_cleanup();
    sts_cache_close(f->cache);
    post_fini(&f->post);
    free(f);
}

static void start_waiting(struct sts_fetcher *f, usec_t now)
{
    list_foreach_safe(t, &f->waiting, struct fetch, link)
    {
        if (now >= t->deadline) {
            fetch_failed(f, t, "no place among the transfers in time");
        } else if (f->active_count < FETCHES_MAX) {
            fetch_start(f, t);
        } else {
            return;
        }
    }
}

static void take_transfers(struct sts_fetcher *f)
{
    int running;
    int left;
    const CURLMsg *m;
    (void)curl_multi_perform(f->multi, &running); /* failures are those of transfers */
    while ((m = curl_multi_info_read(f->multi, &left)) != NULL) {
        char *t = NULL;
        if (m->msg == CURLMSG_DONE &&
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t) == CURLE_OK) {
            fetch_done(f, (struct fetch *)(void *)t, m->data.result);
        }
    }
}

static void run_fetcher(void *arg)
{
    struct sts_fetcher *f = arg;
    struct letter letter;
    post_assert_owner(&f->post);
    rcu_sleep(); /* but where settings are read */
    while (!post_must_end(&f->post)) {
        while (post_take(&f->post, &letter)) {
            take_question(f, letter_take_sts_question(&letter));
        }
        start_waiting(f, clock_mono());
        take_transfers(f);
        bool is_idle = post_flush(&f->post) && list_is_empty(&f->waiting) && f->active_count == 0;
        struct curl_waitfd wakeup = {.fd = post_fd(&f->post), .events = CURL_WAIT_POLLIN};
        if (post_nap_prepare(&f->post)) {
            (void)curl_multi_poll(f->multi, &wakeup, 1, is_idle ? 3600000 : 100, NULL);
        }
        post_nap_finish(&f->post);
        post_clear(&f->post);
    }
    rcu_awake();
}

int sts_fetcher_start(struct sts_fetcher *f)
{
    const struct engine *e = f->engine;
    int err = post_open(&f->post, e->worker_count);
    if (err != 0) {
        return err;
    }
    f->to_workers = post_write_to_each(&f->post, e->boxes.workers, e->worker_count);
    return post_start(&f->post, "sts", run_fetcher, f);
}

void sts_fetcher_stop(struct sts_fetcher *f)
{
    post_stop(&f->post);
}
