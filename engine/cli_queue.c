/* `sluice queue`: asks the daemon over its control socket (control_client.h defines the answers)
 * and prints tables, or with --json the objects as they come. */
#include "base/error.h"
#include "engine/cli.h"
#include "engine/control_client.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#define QUEUE_TIMEOUT (60 * USEC_PER_SEC)

struct query {
    const struct cli *cli;
    void (*print)(const struct query *q, const json_t *object, size_t number);
    const char *nothing; /* what is said when there is nothing */
    double now;          /* seconds */
};

/* --- members -----------------------------------------------------------------------------------
 */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

static long long number_of(const json_t *object, const char *name)
{
    return (long long)json_number_value(json_object_get(object, name));
}

/* Seconds as the largest two units that matter: 45s, 3m20s, 5h02m, 3d04h. */
static const char *span_text(double seconds, char ret[32])
{
    long long s = seconds < 0 ? 0 : seconds > 1e12 ? 1000000000000LL : (long long)seconds;
    if (s < 60) {
        (void)snprintf(ret, 32, "%llds", s);
    } else if (s < 3600) {
        (void)snprintf(ret, 32, "%lldm%02llds", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(ret, 32, "%lldh%02lldm", s / 3600, s % 3600 / 60);
    } else {
        (void)snprintf(ret, 32, "%lldd%02lldh", s / 86400, s % 86400 / 3600);
    }
    return ret;
}

/* "in 3m20s", "45s ago", or "" when the member is absent. */
static const char *when_text(const struct query *q, const json_t *object, const char *name,
                             char ret[40])
{
    char span[32];
    const json_t *member = json_object_get(object, name);
    ret[0] = '\0';
    if (member != NULL) {
        double ahead = json_number_value(member) - q->now;
        const char *text = span_text(ahead < 0 ? -ahead : ahead, span);
        (void)snprintf(ret, 40, ahead < 0 ? "%s ago" : "in %s", text);
    }
    return ret;
}

/* What strangers wrote goes to a terminal: no control characters. */
static void print_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        (void)fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
    }
}

/* --- tables ------------------------------------------------------------------------------------
 */

static void print_list(const struct query *q, const json_t *o, size_t number)
{
    char span[32], when[40];
    FILE *out = q->cli->out;
    if (number == 0) {
        (void)fprintf(out, "%-16s %8s %10s %7s %7s  %-8s %-11s %s\n", "ID", "AGE", "SIZE", "RCPTS",
                      "PENDING", "STATE", "DUE", "SENDER, LAST REPLY");
    }
    double age = q->now - json_number_value(json_object_get(o, "created"));
    (void)fprintf(out, "%-16s %8s %10lld %7lld %7lld  %-8s %-11s <", text_of(o, "id"),
                  span_text(age, span), number_of(o, "size"), number_of(o, "recipients"),
                  number_of(o, "pending"), text_of(o, "state"), when_text(q, o, "due", when));
    print_text(out, text_of(o, "sender"));
    (void)fputc('>', out);
    if (text_of(o, "last_reply")[0] != '\0') {
        (void)fprintf(out, "\n%17s", "");
        print_text(out, text_of(o, "last_reply"));
    }
    (void)fputc('\n', out);
}

static void print_totals(const struct query *q, const json_t *o)
{
    (void)fprintf(q->cli->out,
                  "\nmessages %lld: incoming %lld, active %lld, deferred %lld; quarantined %lld\n"
                  "destinations %lld, dead %lld; connections %lld, idle %lld\n"
                  "entries waiting %lld, in flight %lld; recipients in memory %lld\n"
                  "spool %lld of %lld MB\n",
                  number_of(o, "messages"), number_of(o, "incoming"), number_of(o, "active"),
                  number_of(o, "deferred"), number_of(o, "quarantined"),
                  number_of(o, "destinations"), number_of(o, "dead"), number_of(o, "connections"),
                  number_of(o, "idle"), number_of(o, "entries_waiting"),
                  number_of(o, "entries_in_flight"), number_of(o, "recipients_in_core"),
                  number_of(o, "used_bytes") >> 20, number_of(o, "map_bytes") >> 20);
}

static void print_counts(const struct query *q, const json_t *o, size_t number)
{
    char when[40];
    FILE *out = q->cli->out;
    if (number == 0) {
        (void)fprintf(out, "%-10s %-32s %-9s %6s %5s %7s %7s %5s %5s %9s %9s  %s\n", "TRANSPORT",
                      "DESTINATION", "STATE", "WINDOW", "BUSY", "FLIGHT", "WAITING", "CONNS",
                      "IDLE", "DELIVERED", "DEFERRED", "WHY");
    }
    if (json_is_true(json_object_get(o, "totals"))) {
        print_totals(q, o);
        return;
    }
    (void)fprintf(out, "%-10s ", text_of(o, "transport"));
    print_text(out, text_of(o, "destination"));
    size_t width = strlen(text_of(o, "destination"));
    (void)fprintf(out, "%*s %-9s %6lld %5lld %7lld %7lld %5lld %5lld %9lld %9lld  %s %s\n",
                  width < 32 ? (int)(32 - width) : 0, "", text_of(o, "state"),
                  number_of(o, "window"), number_of(o, "busy"), number_of(o, "in_flight"),
                  number_of(o, "todo"), number_of(o, "connections"), number_of(o, "idle"),
                  number_of(o, "delivered"), number_of(o, "deferred"), text_of(o, "why"),
                  when_text(q, o, "until", when));
}

static void print_hosts(const struct query *q, const json_t *o, size_t number)
{
    char when[40], place[80];
    FILE *out = q->cli->out;
    const json_t *notes = json_object_get(o, "notes");
    if (number == 0) {
        (void)fprintf(out, "%-10s %-28s %-7s %5s %7s %8s  %s\n", "TRANSPORT", "HOST", "STATE",
                      "CONNS", "FLIGHT", "FAILURES", "NOTES");
    }
    (void)snprintf(place, sizeof(place), "[%s]:%lld", text_of(o, "address"), number_of(o, "port"));
    (void)fprintf(out, "%-10s %-28s %-7s %5lld %7lld %8lld ", text_of(o, "transport"), place,
                  text_of(o, "state"), number_of(o, "connections"), number_of(o, "in_flight"),
                  number_of(o, "failures"));
    if (json_object_get(o, "until") != NULL) {
        (void)fprintf(out, " again %s", when_text(q, o, "until", when));
    }
    for (size_t i = 0; i < json_array_size(notes); i++) {
        (void)fprintf(out, "%s %s", i == 0 ? "" : ",", json_string_value(json_array_get(notes, i)));
    }
    (void)fputc('\n', out);
}

static void print_recipient(const struct query *q, const json_t *o)
{
    char when[40];
    FILE *out = q->cli->out;
    (void)fprintf(out, "  %-9s ", text_of(o, "state"));
    print_text(out, text_of(o, "recipient"));
    if (text_of(o, "destination")[0] != '\0') {
        (void)fprintf(out, "  via %s, ", text_of(o, "transport"));
        print_text(out, text_of(o, "destination"));
    }
    (void)fputc('\n', out);
    if (text_of(o, "reply")[0] != '\0') {
        (void)fprintf(out, "            %s: ", when_text(q, o, "time", when));
        if (number_of(o, "code") > 0) {
            (void)fprintf(out, "%lld ", number_of(o, "code"));
        }
        (void)fprintf(out, "%s ", text_of(o, "status"));
        print_text(out, text_of(o, "reply"));
        if (text_of(o, "remote_mta")[0] != '\0') {
            (void)fputs(" from ", out);
            print_text(out, text_of(o, "remote_mta"));
        }
        (void)fputc('\n', out);
    }
}

static void print_show(const struct query *q, const json_t *o, size_t number)
{
    char created[40], due[40], expires[40];
    FILE *out = q->cli->out;
    if (number > 0) {
        print_recipient(q, o);
        return;
    }
    (void)fprintf(out, "id          %s\nsender      <", text_of(o, "id"));
    print_text(out, text_of(o, "sender"));
    (void)fprintf(out, ">\nsize        %lld bytes\nreceived    %s", number_of(o, "size"),
                  when_text(q, o, "created", created));
    if (text_of(o, "peer_address")[0] != '\0') {
        (void)fputs(" from ", out);
        print_text(out, text_of(o, "peer_name"));
        (void)fputs(" [", out);
        print_text(out, text_of(o, "peer_address"));
        (void)fprintf(out, "] with %s", text_of(o, "protocol"));
    }
    if (text_of(o, "auth_user")[0] != '\0') {
        (void)fputs(", user ", out);
        print_text(out, text_of(o, "auth_user"));
    }
    (void)fprintf(out, "\nstate       %s %s\nattempts    %lld\nexpires     %s\n",
                  text_of(o, "state"), when_text(q, o, "due", due), number_of(o, "attempts"),
                  when_text(q, o, "expires", expires));
    (void)fprintf(out, "recipients  %lld, of which %lld pending\n", number_of(o, "recipients"),
                  number_of(o, "pending"));
}

/* --- the conversation --------------------------------------------------------------------------
 */

static int print_error(const struct query *q, const json_t *o)
{
    const char *code = text_of(o, "code");
    (void)fprintf(q->cli->err, "sluice queue: %s\n", text_of(o, "error"));
    return strcmp(code, "missing") == 0 ? EX_DATAERR
           : strcmp(code, "usage") == 0 ? EX_USAGE
                                        : EX_TEMPFAIL;
}

/* Everything up to the end object. */
static int print_answer(const struct query *q, struct control_client *client)
{
    for (size_t number = 0;; number++) {
        struct slice line;
        int err = control_client_line(client, &line);
        if (err < 0) {
            (void)fprintf(q->cli->err, "sluice queue: the answer was cut off: %s\n", err_str(err));
            return EX_IOERR;
        }
        json_t *object = json_loadb(line.data, line.len, 0, NULL);
        bool is_end = json_is_true(json_object_get(object, "end"));
        bool is_more = json_is_true(json_object_get(object, "more"));
        int code = json_is_object(object) ? EX_OK : EX_PROTOCOL;
        if (code != EX_OK) {
            (void)fprintf(q->cli->err, "sluice queue: the answer is not understood\n");
        } else if (json_object_get(object, "error") != NULL) {
            code = print_error(q, object);
        } else if (!is_end && q->cli->is_json) {
            (void)fprintf(q->cli->out, SLICE_FMT "\n", SLICE_ARG(line));
        } else if (!is_end) {
            q->print(q, object, number);
        } else if (number == 0 && !q->cli->is_json) {
            (void)fprintf(q->cli->out, "%s\n", q->nothing);
        }
        json_decref(object);
        if (is_end && is_more) {
            (void)fprintf(q->cli->err, "sluice queue: there are more; use --after or --limit\n");
        }
        if (is_end || code != EX_OK) {
            return code;
        }
    }
}

static int ask(struct query *q, const char *request)
{
    struct config *config = NULL;
    struct control_client client;
    int code = cli_config(q->cli, &config);
    if (code != 0) {
        return code;
    }
    int err = control_client_open(&client, config->control_path, request, QUEUE_TIMEOUT);
    if (err < 0) {
        bool is_absent = err == -ENOENT || err == -ECONNREFUSED;
        (void)fprintf(q->cli->err, "sluice queue: %s: %s\n", config->control_path,
                      is_absent ? "the daemon is not running: nobody listens" : err_str(err));
        code = err == -EACCES || err == -EPERM ? EX_NOPERM : EX_UNAVAILABLE;
    } else {
        q->now = (double)clock_wall() / (double)USEC_PER_SEC;
        code = print_answer(q, &client);
        control_client_close(&client);
    }
    config_free(config);
    return code;
}

static int usage(const struct query *q, const char *what)
{
    (void)fprintf(q->cli->err, "sluice queue: %s; see sluice queue --help\n", what);
    return EX_USAGE;
}

static bool is_number(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= 9 && strspn(text, "0123456789") == len;
}

/* An id as the protocol writes it, from one that may lack its leading zeros. */
static bool read_id(const char *text, char ret[17])
{
    size_t len = strlen(text);
    if (len == 0 || len > 16 || strspn(text, "0123456789abcdefABCDEF") != len) {
        return false;
    }
    (void)snprintf(ret, 17, "%016llx", strtoull(text, NULL, 16));
    return true;
}

static int list(struct query *q, int argc, char **argv)
{
    char request[CONTROL_REQUEST_MAX_BYTES] = "queue list";
    for (int i = 0; i < argc; i += 2) {
        char id[17] = "";
        bool is_limit = strcmp(argv[i], "--limit") == 0;
        bool is_after = strcmp(argv[i], "--after") == 0 && i + 1 < argc && read_id(argv[i + 1], id);
        bool is_good = is_after || (is_limit && i + 1 < argc && is_number(argv[i + 1]));
        if (!is_good || i > 2) {
            return usage(q, "list takes --limit NUMBER and --after ID");
        }
        size_t len = strlen(request);
        (void)snprintf(request + len, sizeof(request) - len, " %s=%s", argv[i] + 2,
                       is_after ? id : argv[i + 1]);
    }
    q->print = print_list;
    return ask(q, request);
}

static int hosts(struct query *q, const char *filter)
{
    char request[CONTROL_REQUEST_MAX_BYTES];
    int len = snprintf(request, sizeof(request), "queue hosts %s", filter);
    if (len >= (int)sizeof(request) || strpbrk(filter, "\r\n") != NULL) {
        return usage(q, "that is no part of a host");
    }
    q->nothing = filter[0] == '\0' ? "no host is known" : "no such host is known";
    q->print = print_hosts;
    return ask(q, request);
}

int cli_queue(const struct cli *cli, int argc, char **argv)
{
    char request[CONTROL_REQUEST_MAX_BYTES], id[17];
    struct query q = {.cli = cli, .nothing = "nothing is queued"};
    const char *what = argc > 1 ? argv[1] : "list";
    if (what[0] == '-') {
        return list(&q, argc - 1, argv + 1);
    }
    if (strcmp(what, "list") == 0) {
        return list(&q, argc > 1 ? argc - 2 : 0, argv + 2);
    }
    if (strcmp(what, "counts") == 0 && argc == 2) {
        q.print = print_counts;
        return ask(&q, "queue counts");
    }
    if (strcmp(what, "hosts") == 0 && argc <= 3) {
        return hosts(&q, argc == 3 ? argv[2] : "");
    }
    if (strcmp(what, "show") == 0 && argc == 3 && read_id(argv[2], id)) {
        (void)snprintf(request, sizeof(request), "queue show %s", id);
        q.print = print_show;
        return ask(&q, request);
    }
    return usage(&q, "there is list, counts, hosts [TEXT] and show ID");
}
