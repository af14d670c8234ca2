/* Owns batches on their way to a web server. Called by the feed thread; must not follow anything
 * the server says but its status. */
#include "engine/feed/webhook.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/config/config.h"
#include "engine/config/config_section.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BODY_BYTES = 4 << 20,    /* a batch is full at this size, too */
    LINES_AT_ONCE = 20000,   /* looked at in one step */
    SIGNATURE_BYTES = 64 + 1 /* hexadecimal */
};

struct webhook {
    struct event_consumer consumer;
    /* set at creation */
    CURLM *multi;
    CURL *curl;
    struct curl_slist *headers;
    char *secret; /* [secret_len] */
    size_t secret_len;
    size_t batch_size;
    usec_t batch_wait;
    bool is_array;

    /* feed thread only */
    struct buf body;
    size_t lines;     /* in body */
    usec_t first;     /* monotonic: when the first line came */
    bool is_complete; /* body has its end, and is sent until it is accepted */
    bool is_sending;
    struct curl_slist *sent_headers;
};

static struct webhook *of(struct event_consumer *c)
{
    return (struct webhook *)(void *)((char *)c - offsetof(struct webhook, consumer));
}

/* --- one request ------------------------------------------------------------------------------ */

static bool sign(const struct webhook *w, char ret[static SIGNATURE_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (HMAC(EVP_sha256(), w->secret, (int)w->secret_len, (const unsigned char *)w->body.data,
             w->body.len, digest, &len) == NULL ||
        len != 32) {
        return false;
    }
    for (unsigned i = 0; i < len; i++) {
        (void)snprintf(ret + 2 * (size_t)i, 3, "%02x", digest[i]);
    }
    return true;
}

static bool add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);
    *list = longer != NULL ? longer : *list;
    return longer != NULL;
}

/* Sets the headers of a request: those of the configuration, and those of this batch. */
static bool set_headers(struct webhook *w)
{
    char at[EVENT_POSITION_TEXT];
    char signature[SIGNATURE_BYTES];
    char text[128];
    struct curl_slist *list = NULL;
    bool is_good = true;
    event_position_format(w->consumer.cursor.position, at);
    for (const struct curl_slist *h = w->headers; h != NULL; h = h->next) {
        is_good = is_good && add_header(&list, h->data);
    }
    (void)snprintf(text, sizeof(text), "X-Sluice-Cursor: %s", at);
    is_good = is_good && add_header(&list, text);
    if (w->secret_len > 0) {
        is_good = is_good && sign(w, signature);
        (void)snprintf(text, sizeof(text), "X-Sluice-Signature: sha256=%s",
                       is_good ? signature : "");
        is_good = is_good && add_header(&list, text);
    }
    curl_slist_free_all(w->sent_headers);
    w->sent_headers = list;
    return is_good && curl_easy_setopt(w->curl, CURLOPT_HTTPHEADER, list) == CURLE_OK;
}

static void send_batch(struct webhook *w, usec_t now)
{
    bool is_good =
        set_headers(w) && curl_easy_setopt(w->curl, CURLOPT_POSTFIELDS, w->body.data) == CURLE_OK &&
        curl_easy_setopt(w->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)w->body.len) ==
            CURLE_OK &&
        curl_multi_add_handle(w->multi, w->curl) == CURLM_OK;
    if (is_good) {
        w->is_sending = true;
    } else {
        event_consumer_fail(&w->consumer, -ENOMEM, now);
    }
}

void webhook_done(CURL *curl, CURLcode code, usec_t now)
{
    char *consumer = NULL;
    long status = 0;
    if (curl_easy_getinfo(curl, CURLINFO_PRIVATE, &consumer) != CURLE_OK || consumer == NULL) {
        return;
    }
    struct webhook *w = (struct webhook *)(void *)consumer;
    (void)curl_multi_remove_handle(w->multi, curl); /* it is in there */
    w->is_sending = false;
    if (code != CURLE_OK) {
        event_consumer_fail(&w->consumer, EVENT_CONSUMER_CURL - (int)code, now);
        return;
    }
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status); /* 0 is no success */
    if (status < 200 || status > 299) {
        event_consumer_fail(&w->consumer, status > 0 ? (int)status : -EPROTO, now);
        return;
    }
    event_consumer_ack(&w->consumer, w->lines, now);
    buf_clear(&w->body);
    w->lines = 0;
    w->is_complete = false;
}

/* --- batches ---------------------------------------------------------------------------------- */

static void put_line(struct webhook *w, struct slice line, usec_t now)
{
    w->first = w->lines == 0 ? now : w->first;
    if (w->is_array) {
        buf_append_char(&w->body, w->lines == 0 ? '[' : ',');
    }
    buf_append_slice(&w->body, line);
    if (!w->is_array) {
        buf_append_char(&w->body, '\n');
    }
    w->lines++;
}

/* Out of memory: drops the batch, whose lines are read again later. */
static void drop_batch(struct webhook *w, usec_t now)
{
    buf_clear(&w->body);
    w->lines = 0;
    w->is_complete = false;
    event_consumer_rewind(&w->consumer);
    event_consumer_fail(&w->consumer, -ENOMEM, now);
}

static bool is_full(const struct webhook *w)
{
    return w->lines >= w->batch_size || w->body.len >= BODY_BYTES;
}

/* returns true when the budget ended it */
static bool collect_lines(struct webhook *w, usec_t now)
{
    unsigned budget = LINES_AT_ONCE;
    struct slice line;
    int err = 0;
    while (err == 0 && !is_full(w) && !w->body.failed) {
        err = event_consumer_next(&w->consumer, &budget, &line);
        if (err == 0) {
            put_line(w, line, now);
        }
    }
    if (err != 0 && err != ERR_AGAIN) {
        event_consumer_fail(&w->consumer, err, now);
    }
    return budget == 0;
}

static bool webhook_step(struct event_consumer *c, usec_t now, bool is_last)
{
    struct webhook *w = of(c);
    if (w->is_sending || now < c->retry_at) {
        return false;
    }
    bool has_more = !w->is_complete && collect_lines(w, now);
    if (w->lines == 0) {
        event_consumer_ack(c, 0, now);
        return has_more;
    }
    if (!w->is_complete && (is_full(w) || is_last || now - w->first >= w->batch_wait)) {
        if (w->is_array) {
            buf_append_char(&w->body, ']');
        }
        w->is_complete = true;
    }
    if (w->body.failed) {
        drop_batch(w, now);
    } else if (w->is_complete) {
        send_batch(w, now);
    }
    return has_more;
}

static bool webhook_is_busy(const struct event_consumer *c)
{
    return ((const struct webhook *)(const void *)c)->is_sending;
}

/* --- life ------------------------------------------------------------------------------------- */

static size_t ignore_body(char *data, size_t size, size_t count, void *ctx)
{
    return size * count; /* its time is limited, and nothing of it is kept */
}

static bool set_options(struct webhook *w, const struct config_webhook *config)
{
    CURL *c = w->curl;
    const char *ca_file = config->tls_ca_file;
    return curl_easy_setopt(c, CURLOPT_URL, config->url) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_POST, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(config->timeout / USEC_PER_MSEC)) ==
               CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
           (ca_file == NULL || (curl_easy_setopt(c, CURLOPT_CAINFO, ca_file) == CURLE_OK &&
                                curl_easy_setopt(c, CURLOPT_CAPATH, NULL) == CURLE_OK)) &&
           curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, ignore_body) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PRIVATE, &w->consumer) == CURLE_OK;
}

static bool make_headers(struct webhook *w, const struct config_webhook *config)
{
    bool is_good = add_header(&w->headers, w->is_array ? "Content-Type: application/json"
                                                       : "Content-Type: application/x-ndjson") &&
                   add_header(&w->headers, "Expect:"); /* no round trip before the body */
    for (size_t i = 0; is_good && i < config->headers.count; i++) {
        is_good = add_header(&w->headers, config->headers.items[i]);
    }
    return is_good;
}

/* The URL without what may be secret, and a name of a file that is its own. */
static void name_of(const char *url, char ret_title[static 256],
                    char ret_name[static EVENT_CONSUMER_NAME_MAX])
{
    struct slice shown = config_section_shown(CONFIG_SECTION_WEBHOOK, url);
    (void)snprintf(ret_title, 256, SLICE_FMT, SLICE_ARG(shown)); /* cut: only shown */
    const char *host = strstr(ret_title, "://");
    int len =
        snprintf(ret_name, EVENT_CONSUMER_NAME_MAX, "webhook-%.60s", host == NULL ? "" : host + 3);
    for (int i = 0; i < len; i++) {
        bool is_plain = strchr("-_.", ret_name[i]) != NULL ||
                        (ret_name[i] >= '0' && ret_name[i] <= '9') ||
                        ((ret_name[i] | 32) >= 'a' && (ret_name[i] | 32) <= 'z');
        ret_name[i] = is_plain ? ret_name[i] : '_';
    }
    (void)snprintf(ret_name + len, EVENT_CONSUMER_NAME_MAX - (size_t)len, "-%08x",
                   (unsigned)hash_checksum(url, strlen(url)));
}

static void webhook_free(struct event_consumer *c)
{
    struct webhook *w = of(c);
    if (w->is_sending) {
        (void)curl_multi_remove_handle(w->multi, w->curl); /* it is in there */
    }
    if (w->curl != NULL) {
        curl_easy_cleanup(w->curl);
    }
    curl_slist_free_all(w->headers);
    curl_slist_free_all(w->sent_headers);
    if (w->secret != NULL) {
        explicit_bzero(w->secret, w->secret_len);
        free(w->secret);
    }
    buf_fini(&w->body);
    event_consumer_fini(c);
    free(w);
}

int webhook_new(const struct config_webhook *config, struct slice secret,
                const struct event_consumer_place *at, CURLM *multi, struct event_consumer **ret)
{
    char title[256];
    char name[EVENT_CONSUMER_NAME_MAX];
    struct webhook *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return -ENOMEM;
    }
    w->consumer.kind = "webhook";
    w->consumer.section = CONFIG_SECTION_WEBHOOK;
    w->consumer.section_title = strdup(config->url);
    w->consumer.step = webhook_step;
    w->consumer.is_busy = webhook_is_busy;
    w->consumer.free = webhook_free;
    w->multi = multi;
    w->batch_size = (size_t)config->batch_size;
    w->batch_wait = config->batch_wait;
    w->is_array = config->format == CONFIG_WEBHOOK_ARRAY;
    buf_init(&w->body, 0);
    name_of(config->url, title, name);
    int err = w->consumer.section_title == NULL
                  ? -ENOMEM
                  : event_consumer_init(&w->consumer, at, name, title, &config->types);
    if (err == 0 && secret.len > 0) {
        w->secret = malloc(secret.len);
        w->secret_len = w->secret == NULL ? 0 : secret.len;
        err = w->secret == NULL ? -ENOMEM : 0;
        if (err == 0) {
            memcpy(w->secret, secret.data, secret.len);
        }
    }
    w->curl = curl_easy_init();
    if (err == 0 && (w->curl == NULL || !set_options(w, config) || !make_headers(w, config))) {
        err = -ENOMEM;
    }
    if (err != 0) {
        webhook_free(&w->consumer);
        return err;
    }
    *ret = &w->consumer;
    return 0;
}
