/* Writes reports and reads back what it wrote of policies. Called by the thread that sends reports,
 * and by the file of a day. Must not decide who gets one. */
#include "engine/tls_report/tls_report.h"

#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "net/base64.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { DAY_SECONDS = 86400, LINE_BYTES = 57 /* of base64 input: lines of 76 */ };

struct slice tls_report_submitter(const struct tls_report_head *head)
{
    const char *at = strrchr(head->from, '@');
    return slice_of(at == NULL ? head->hostname : at + 1);
}

/* "20261123.0123456789abcdef": the same for the same domain and day. */
static void unique_part(const struct tls_report_head *head, const char *domain, char ret[40])
{
    struct date d;
    date_split(head->begin, &d);
    (void)snprintf(ret, 40, "%04u%02u%02u.%016" PRIx64, d.year % 10000, d.month, d.day,
                   hash_checksum(domain, strlen(domain)));
}

void tls_report_id(const struct tls_report_head *head, const char *domain,
                   char ret[static TLS_REPORT_ID_MAX])
{
    char unique[40];
    struct slice submitter = tls_report_submitter(head);
    unique_part(head, domain, unique);
    (void)snprintf(ret, TLS_REPORT_ID_MAX, "%s@" SLICE_FMT, unique, SLICE_ARG(submitter));
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Peers' texts may hold any bytes: what is no UTF-8 is left out of the report. */
static void set_text(json_t *o, const char *key, const char *text)
{
    if (text[0] != '\0') {
        json_t *value = json_string(text);
        (void)json_object_set_new(o, key, value == NULL ? json_string("?") : value);
    }
}

/* The lines of a policy as an array; of MTA-STS only the values of `mx`, where only_mx. */
static json_t *lines_of(const char *text, bool only_mx)
{
    json_t *array = json_array();
    struct slice rest = slice_of(text);
    while (rest.len > 0) {
        size_t end = slice_find(rest, '\n');
        struct slice line = slice_trim(slice_to(rest, end));
        rest = slice_from(rest, end < rest.len ? end + 1 : end);
        bool is_mx = line.len > 3 && slice_ieq(slice_to(line, 3), SLICE("mx:"));
        if (only_mx && is_mx) {
            line = slice_trim(slice_from(line, 3));
        }
        if (line.len > 0 && (is_mx || !only_mx)) {
            (void)json_array_append_new(array, json_stringn(line.data, line.len));
        }
    }
    return array;
}

static json_t *policy_json(const struct tls_policy_tally *p, bool is_kept)
{
    json_t *o = json_object();
    const char *text = p->basis == TLS_BASIS_TLSA ? p->id : p->text;
    (void)json_object_set_new(o, "policy-type", json_string(tls_basis_name(p->basis)));
    if (text != NULL && text[0] != '\0') {
        (void)json_object_set_new(o, "policy-string", lines_of(text, false));
    }
    set_text(o, "policy-domain", p->domain);
    if (p->basis == TLS_BASIS_STS && text != NULL) {
        (void)json_object_set_new(o, "mx-host", lines_of(text, true));
    }
    if (is_kept && p->basis == TLS_BASIS_STS) {
        set_text(o, "policy-id", p->id);
    }
    return o;
}

static json_t *detail_json(const struct tls_detail *d)
{
    json_t *o = json_object();
    set_text(o, "result-type", tls_failure_name(d->failure));
    set_text(o, "sending-mta-ip", d->sending_ip);
    set_text(o, "receiving-mx-hostname", d->mx_host);
    set_text(o, "receiving-ip", d->receiving_ip);
    (void)json_object_set_new(o, "failed-session-count", json_integer((json_int_t)d->count));
    set_text(o, "failure-reason-code", d->reason);
    return o;
}

json_t *tls_report_policies(const struct tls_domain_tally *d, bool is_kept)
{
    json_t *policies = json_array();
    list_foreach(p, &d->policies, struct tls_policy_tally, link)
    {
        json_t *o = json_object(), *summary = json_object();
        (void)json_object_set_new(o, "policy", policy_json(p, is_kept));
        (void)json_object_set_new(summary, "total-successful-session-count",
                                  json_integer((json_int_t)p->successes));
        (void)json_object_set_new(summary, "total-failure-session-count",
                                  json_integer((json_int_t)p->failures));
        (void)json_object_set_new(o, "summary", summary);
        if (!list_is_empty(&p->details)) {
            json_t *details = json_array();
            list_foreach(f, &p->details, struct tls_detail, link)
            {
                (void)json_array_append_new(details, detail_json(f));
            }
            (void)json_object_set_new(o, "failure-details", details);
        }
        (void)json_array_append_new(policies, o); /* of NULL it does nothing */
    }
    return policies;
}

static json_t *moment(usec_t wall)
{
    char text[64];
    struct date d;
    date_split(wall, &d);
    (void)snprintf(text, sizeof(text), "%04u-%02u-%02uT%02u:%02u:%02uZ", d.year, d.month, d.day,
                   d.hour, d.minute, d.second);
    return json_string(text);
}

/* NULL when out of memory; free(3) */
static char *report_text(const struct tls_report_head *head, const struct tls_domain_tally *d)
{
    char id[TLS_REPORT_ID_MAX];
    json_t *report = json_object(), *range = json_object();
    tls_report_id(head, d->name, id);
    (void)json_object_set_new(range, "start-datetime", moment(head->begin));
    (void)json_object_set_new(range, "end-datetime",
                              moment(head->begin + (DAY_SECONDS - 1) * USEC_PER_SEC));
    set_text(report, "organization-name", head->organization);
    (void)json_object_set_new(report, "date-range", range);
    set_text(report, "contact-info", head->contact);
    set_text(report, "report-id", id);
    (void)json_object_set_new(report, "policies", tls_report_policies(d, false));
    char *text = json_dumps(report, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(report);
    return text;
}

/* --- reading back ----------------------------------------------------------------------------- */

static struct slice text_of(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    return json_is_string(value) ? slice_make(json_string_value(value), json_string_length(value))
                                 : SLICE("");
}

static uint64_t count_of(const json_t *o, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(o, key)); /* 0 where there is none */
    return n > 0 ? (uint64_t)n : 0;
}

static void join_lines(const json_t *array, struct buf *ret)
{
    size_t i;
    json_t *line;
    json_array_foreach(array, i, line)
    {
        if (json_is_string(line)) {
            buf_append(ret, json_string_value(line), json_string_length(line));
            buf_append_char(ret, '\n');
        }
    }
}

static int read_details(struct tls_tally *t, struct tls_session *s, const json_t *details)
{
    size_t i;
    json_t *o;
    int err = 0;
    json_array_foreach(details, i, o)
    {
        const char *type = json_string_value(json_object_get(o, "result-type"));
        enum tls_failure failure = type == NULL ? TLS_FAILURE_COUNT : tls_failure_find(type);
        uint64_t count = count_of(o, "failed-session-count");
        if (failure == TLS_FAILURE_COUNT || failure == TLS_FAILURE_NONE || count == 0) {
            err = ERR_SYNTAX;
            continue;
        }
        s->failure = failure;
        s->sending_ip = text_of(o, "sending-mta-ip");
        s->mx_host = text_of(o, "receiving-mx-hostname");
        s->receiving_ip = text_of(o, "receiving-ip");
        s->reason = text_of(o, "failure-reason-code");
        tls_tally_add(t, s, count);
    }
    return err;
}

static int read_policy(struct tls_tally *t, const char *domain, const json_t *entry)
{
    const json_t *policy = json_object_get(entry, "policy");
    const char *type = json_string_value(json_object_get(policy, "policy-type"));
    struct buf lines;
    struct tls_session s = {
        .domain = slice_of(domain),
        .basis = type == NULL ? TLS_BASIS_COUNT : tls_basis_find(type),
        .policy_domain = text_of(policy, "policy-domain"),
        .policy = text_of(policy, "policy-id"),
    };
    if (s.basis == TLS_BASIS_COUNT) {
        return ERR_SYNTAX;
    }
    buf_init(&lines, 0);
    join_lines(json_object_get(policy, "policy-string"), &lines);
    if (s.basis == TLS_BASIS_TLSA) {
        s.policy = buf_slice(&lines);
    }
    uint64_t successes =
        count_of(json_object_get(entry, "summary"), "total-successful-session-count");
    if (successes > 0) {
        tls_tally_add(t, &s, successes);
    }
    int err = read_details(t, &s, json_object_get(entry, "failure-details"));
    if (s.basis == TLS_BASIS_STS) {
        tls_tally_give_text(t, &s, buf_slice(&lines));
    }
    buf_fini(&lines);
    return err;
}

int tls_report_read_policies(struct tls_tally *t, const char *domain, const json_t *policies)
{
    size_t i;
    json_t *entry;
    int err = json_is_array(policies) ? 0 : ERR_SYNTAX;
    json_array_foreach(policies, i, entry)
    {
        int one = read_policy(t, domain, entry);
        err = err == 0 ? one : err;
    }
    return err;
}

/* --- gzip and mail ---------------------------------------------------------------------------- */

int tls_report_gzip(const struct tls_report_head *head, const struct tls_domain_tally *d,
                    struct buf *ret)
{
    enum { WINDOW_GZIP = 15 + 16, MEMORY = 8 }; /* zlib.h, deflateInit2 */
    z_stream z = {.zalloc = Z_NULL};
    char *text = report_text(head, d);
    if (text == NULL || deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_GZIP, MEMORY,
                                     Z_DEFAULT_STRATEGY) != Z_OK) {
        free(text);
        return -ENOMEM;
    }
    size_t len = strlen(text);
    size_t most = deflateBound(&z, len);
    char *out = buf_reserve(ret, most);
    int err = -ENOMEM;
    if (out != NULL) {
        z.next_in = (unsigned char *)text;
        z.avail_in = (unsigned)len;
        z.next_out = (unsigned char *)out;
        z.avail_out = (unsigned)most;
        err = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -ENOMEM;
        ret->len += err == 0 ? most - z.avail_out : 0;
    }
    (void)deflateEnd(&z); /* it has nothing to say about a stream that is over */
    free(text);
    return err;
}

static void append_base64(struct buf *out, struct slice data)
{
    while (data.len > 0) {
        char line[BASE64_ENCODED_LEN(LINE_BYTES)];
        struct slice piece = slice_to(data, data.len < LINE_BYTES ? data.len : LINE_BYTES);
        buf_append(out, line, base64_encode(piece, line));
        buf_append_str(out, "\r\n");
        data = slice_from(data, piece.len);
    }
}

static void append_headers(const struct tls_report_head *head, const char *domain, const char *to,
                           usec_t now, struct buf *out)
{
    char id[TLS_REPORT_ID_MAX], date[DATE_BYTES], unique[40];
    struct slice submitter = tls_report_submitter(head);
    tls_report_id(head, domain, id);
    unique_part(head, domain, unique);
    date_format(now, date);
    buf_printf(out,
               "From: <%s>\r\nTo: <%s>\r\nDate: %s\r\n"
               "Message-ID: <tls-report.%s@%s>\r\n"
               "Subject: Report Domain: %s\r\n Submitter: " SLICE_FMT "\r\n Report-ID: <%s>\r\n"
               "TLS-Report-Domain: %s\r\nTLS-Report-Submitter: " SLICE_FMT "\r\n"
               "TLS-Required: No\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
               "Content-Type: multipart/report; report-type=\"tlsrpt\";\r\n"
               "\tboundary=\"tls-report-%s\"\r\n\r\n",
               head->from, to, date, unique, head->hostname, domain, SLICE_ARG(submitter), id,
               domain, SLICE_ARG(submitter), unique);
}

int tls_report_mail(const struct tls_report_head *head, const char *domain, const char *to,
                    struct slice gzip, usec_t now, struct buf *ret)
{
    char unique[40], day[DATE_BYTES];
    struct slice submitter = tls_report_submitter(head);
    uint64_t begin = (uint64_t)(head->begin / USEC_PER_SEC);
    unique_part(head, domain, unique);
    date_format(head->begin, day);
    append_headers(head, domain, to, now, ret);
    buf_printf(ret,
               "--tls-report-%s\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n"
               "A report, by RFC 8460, on how sessions with the mail servers of\r\n%s went"
               " under TLS on the day that began\r\n%s.\r\n\r\n"
               "--tls-report-%s\r\nContent-Type: application/tlsrpt+gzip\r\n"
               "Content-Transfer-Encoding: base64\r\n"
               "Content-Disposition: attachment;\r\n\tfilename=\"" SLICE_FMT "!%s!%" PRIu64
               "!%" PRIu64 "!%s.json.gz\"\r\n\r\n",
               unique, domain, day, unique, SLICE_ARG(submitter), domain, begin,
               begin + DAY_SECONDS - 1, unique);
    append_base64(ret, gzip);
    buf_printf(ret, "--tls-report-%s--\r\n", unique);
    return ret->failed ? -ENOMEM : 0;
}
