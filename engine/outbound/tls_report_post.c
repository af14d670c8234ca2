/* Owns one transfer at a time. Called by the thread that reports on TLS. Must not resolve a name by
 * itself, nor connect to an address that was not looked at: the callback that opens the socket sees
 * what libcurl would connect to in the end. */
#include "engine/outbound/tls_report_post.h"

#include "base/buf.h"
#include "base/error.h"
#include "dns/dns_wire.h"
#include "engine/outbound/sts_fetcher.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { ANSWER_MAX = 65536, URI_MAX = 2048 };

struct transfer {
    const struct tls_report_post *post;
    CURL *curl;
    struct curl_slist *resolve, *headers;
    size_t answered;
    char error[CURL_ERROR_SIZE];
};

static int refuse_uri(char ret_why[static TLS_REPORT_POST_WHY], const char *why)
{
    (void)snprintf(ret_why, TLS_REPORT_POST_WHY, "%s", why);
    return ERR_SYNTAX;
}

/* Whether the last label is a number, as no name's is: libcurl takes such a host for an address. */
static bool is_number(const char *host)
{
    const char *dot = strrchr(host, '.');
    const char *last = dot == NULL ? host : dot + 1;
    return *last >= '0' && *last <= '9';
}

/* errors: as tls_report_post_host; *ret_url is the caller's */
static int parse_uri(struct slice uri, CURLU **ret_url, char ret_host[static 254],
                     char ret_why[static TLS_REPORT_POST_WHY])
{
    char text[URI_MAX + 1], *scheme = NULL, *host = NULL, *port = NULL, *user = NULL;
    struct dns_name name;
    CURLU *url = uri.len > URI_MAX ? NULL : curl_url();
    int err = url == NULL ? refuse_uri(ret_why, "the URI is too long") : 0;
    if (err == 0) {
        memcpy(text, uri.data, uri.len);
        text[uri.len] = '\0';
        if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK ||
            curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
            strcmp(scheme, "https") != 0 ||
            curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
            curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK) {
            err = refuse_uri(ret_why, "it is no https URI");
        } else if (dns_name_from_text(slice_of(host), &name) != 0 || is_number(name.text)) {
            err = refuse_uri(ret_why, "its host is not a name");
        } else if (strcmp(port, "443") != 0 ||
                   curl_url_get(url, CURLUPART_USER, &user, 0) != CURLUE_NO_USER) {
            err = refuse_uri(ret_why, "it has another port than 443, or a user");
        } else if (curl_url_set(url, CURLUPART_HOST, name.text, 0) != CURLUE_OK) {
            err =
                refuse_uri(ret_why, "its host is not a name"); /* the pin is for this form of it */
        } else {
            memcpy(ret_host, name.text, (size_t)name.len + 1);
        }
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(user);
    if (err != 0) {
        curl_url_cleanup(url);
        return err;
    }
    *ret_url = url;
    return 0;
}

int tls_report_post_host(struct slice uri, char ret[static 254],
                         char ret_why[static TLS_REPORT_POST_WHY])
{
    CURLU *url;
    int err = parse_uri(uri, &url, ret, ret_why);
    if (err == 0) {
        curl_url_cleanup(url);
    }
    return err;
}

/* "+host:443:192.0.2.1,[2001:db8::1]"; false: no address, or no memory */
static bool pin_host(struct transfer *t, const char *host)
{
    const struct tls_report_post *p = t->post;
    struct buf text;
    uint32_t used = 0;
    buf_init(&text, 0);
    buf_printf(&text, "+%s:443:", host);
    for (uint32_t i = 0; i < p->count; i++) {
        char ip[IP_TEXT_MAX];
        bool is_v6 = p->addresses[i].family == 6;
        if (sts_fetcher_may_ask(&p->addresses[i], p->allow_loopback)) {
            buf_printf(&text, "%s%s%s%s", used++ == 0 ? "" : ",", is_v6 ? "[" : "",
                       ip_text(&p->addresses[i], ip), is_v6 ? "]" : "");
        }
    }
    buf_append_char(&text, '\0');
    t->resolve = used > 0 && !text.failed ? curl_slist_append(NULL, text.data) : NULL;
    buf_fini(&text);
    return t->resolve != NULL;
}

/* The last look at an address, whichever way libcurl came by it. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    const struct tls_report_post *p = ctx;
    struct sockaddr_storage to = {0};
    struct ip ip;
    uint16_t port;
    (void)purpose;
    if (address->addrlen > sizeof(to)) {
        return CURL_SOCKET_BAD;
    }
    memcpy(&to, &address->addr, address->addrlen);
    if (ip_from_sockaddr(&to, &ip, &port) != 0 || !sts_fetcher_may_ask(&ip, p->allow_loopback)) {
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t drop_answer(char *data, size_t size, size_t count, void *ctx)
{
    struct transfer *t = ctx;
    (void)data;
    t->answered += size * count;
    return t->answered > ANSWER_MAX ? 0 : size * count; /* 0 ends the transfer */
}

static int look_at_end(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct tls_report_post *p = ctx;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return p->must_end(p->ctx) ? 1 : 0;
}

/* Each option closes a way to misuse a transfer, so one that cannot be set fails it. */
static bool set_post_options(struct transfer *t, CURLU *url)
{
    const struct tls_report_post *p = t->post;
    CURL *c = t->curl;
    long milliseconds = (long)(p->time / USEC_PER_MSEC);
    return curl_easy_setopt(c, CURLOPT_CURLU, url) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https") == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, milliseconds) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
           (p->ca_file == NULL || (curl_easy_setopt(c, CURLOPT_CAINFO, p->ca_file) == CURLE_OK &&
                                   curl_easy_setopt(c, CURLOPT_CAPATH, NULL) == CURLE_OK)) &&
           curl_easy_setopt(c, CURLOPT_RESOLVE, t->resolve) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, p) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)p->body.len) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_POSTFIELDS, p->body.data) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->error) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_at_end) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_XFERINFODATA, p) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, drop_answer) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_WRITEDATA, t) == CURLE_OK;
}

static int perform(struct transfer *t, char ret_why[static TLS_REPORT_POST_WHY])
{
    long status = 0;
    CURLcode code = curl_easy_perform(t->curl);
    if (code != CURLE_OK) {
        (void)snprintf(ret_why, TLS_REPORT_POST_WHY, "%.250s",
                       t->error[0] != '\0' ? t->error : curl_easy_strerror(code));
        return -EIO;
    }
    (void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status); /* 0 where there is none */
    if (status < 200 || status > 299) {
        (void)snprintf(ret_why, TLS_REPORT_POST_WHY, "the answer is %ld", status);
        return -EIO;
    }
    return 0;
}

int tls_report_post_send(const struct tls_report_post *p, char ret_why[static TLS_REPORT_POST_WHY])
{
    struct transfer t = {.post = p};
    char host[254];
    CURLU *url;
    int err = parse_uri(p->uri, &url, host, ret_why);
    if (err != 0) {
        return err;
    }
    t.curl = curl_easy_init();
    t.headers = curl_slist_append(NULL, "Content-Type: application/tlsrpt+gzip");
    if (t.curl == NULL || t.headers == NULL) {
        (void)snprintf(ret_why, TLS_REPORT_POST_WHY, "out of memory");
        err = -ENOMEM;
    } else if (!pin_host(&t, host)) {
        (void)snprintf(ret_why, TLS_REPORT_POST_WHY, "its host has no address that may be asked");
        err = -EACCES;
    } else if (!set_post_options(&t, url)) {
        (void)snprintf(ret_why, TLS_REPORT_POST_WHY, "cannot begin a transfer");
        err = -EIO;
    } else {
        err = perform(&t, ret_why);
    }
    curl_easy_cleanup(t.curl);
    curl_slist_free_all(t.resolve);
    curl_slist_free_all(t.headers);
    curl_url_cleanup(url);
    return err;
}
