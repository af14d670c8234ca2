/* Owns a request of a command and its answer; libcurl does the talking. Called by the commands;
 * must not know what the answers mean. */
#include "engine/cli/api_client.h"

#include "base/error.h"
#include "engine/cli/api_client_private.h"
#include "engine/cli/cli_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum {
    TIMEOUT_SECONDS = 300, /* a walk through a large spool */
    ANSWER_MAX_BYTES = 256 * 1024 * 1024,
};

/* --- asking ----------------------------------------------------------------------------------- */

static size_t take_answer_body(char *data, size_t size, size_t count, void *ctx)
{
    struct api_answer *a = ctx;
    buf_append(&a->body, data, size * count);
    return a->body.failed ? 0 : size * count; /* 0 ends the transfer */
}

bool api_client_prepare(CURL *curl, const char *socket_path, const struct api_client_request *r,
                        struct api_answer *a)
{
    bool is_good = curl_easy_setopt(curl, CURLOPT_URL, r->url) == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path) == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http") == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TIMEOUT_SECONDS) == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer_body) == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_WRITEDATA, a) == CURLE_OK &&
                   curl_easy_setopt(curl, CURLOPT_HTTPHEADER, r->headers) == CURLE_OK;
    if (is_good && strcmp(r->method, "POST") == 0) {
        is_good = curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len) ==
                      CURLE_OK &&
                  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, r->body.data) == CURLE_OK;
    } else if (is_good && strcmp(r->method, "GET") != 0) {
        is_good = curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, r->method) == CURLE_OK;
    }
    return is_good;
}

/* Why there is no answer, and the exit code. */
static int judge_failure(CURL *curl, CURLcode code, const char *socket_path, struct api_answer *a)
{
    long number = 0;
    /* when that fails, the number stays 0 */
    (void)curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &number);
    if (code == CURLE_COULDNT_CONNECT && (number == EACCES || number == EPERM)) {
        (void)snprintf(a->error, sizeof(a->error), "%.400s: %s", socket_path,
                       strerror((int)number));
        return EX_NOPERM;
    }
    if (code == CURLE_COULDNT_CONNECT) {
        (void)snprintf(a->error, sizeof(a->error),
                       "%.400s: the daemon is not running: nobody listens", socket_path);
        return EX_UNAVAILABLE;
    }
    bool is_cut = code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING ||
                  code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR;
    (void)snprintf(a->error, sizeof(a->error), "%s: %s",
                   is_cut ? "the answer was cut off" : "no answer", curl_easy_strerror(code));
    if (is_cut) {
        return EX_IOERR;
    }
    bool is_odd = code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY;
    return is_odd ? EX_PROTOCOL : EX_UNAVAILABLE;
}

static int judge_status(struct api_answer *a)
{
    if (a->status < 300) {
        return 0;
    }
    json_t *o = api_answer_object(a);
    const char *text = json_string_value(json_object_get(o, "error"));
    if (text == NULL) {
        (void)snprintf(a->error, sizeof(a->error), "the daemon answers with status %d", a->status);
    } else {
        (void)snprintf(a->error, sizeof(a->error), "%.590s", text);
    }
    json_decref(o);
    switch (a->status) {
    case 401:
    case 403:
        return EX_NOPERM;
    case 404:
        return EX_NOINPUT;
    case 429:
        return EX_TEMPFAIL;
    default:
        return a->status < 500 ? EX_USAGE : EX_UNAVAILABLE;
    }
}

int api_client_judge(CURL *curl, CURLcode result, const char *socket_path, struct api_answer *a)
{
    long status = 0;
    if (result == CURLE_OK) {
        result = curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    }
    a->error[0] = '\0';
    a->status = (int)status;
    return result != CURLE_OK ? judge_failure(curl, result, socket_path, a) : judge_status(a);
}

void api_client_init_answer(struct api_answer *a)
{
    *a = (struct api_answer){.status = 0};
    buf_init(&a->body, ANSWER_MAX_BYTES);
}

static int transfer(const char *socket_path, const char *method, const char *path,
                    const char *content_type, struct slice body, struct api_answer *a)
{
    struct buf url;
    char type[100];
    CURL *curl = curl_easy_init();
    int code = EX_OSERR;
    buf_init(&url, 0);
    buf_printf(&url, "http://localhost%s", path);
    buf_append_char(&url, '\0');
    (void)snprintf(type, sizeof(type), "Content-Type: %s", content_type);
    struct curl_slist *headers = curl_slist_append(NULL, type);
    (void)snprintf(a->error, sizeof(a->error), "out of memory");
    const struct api_client_request r = {method, url.data, headers, body};
    if (curl != NULL && !url.failed && headers != NULL &&
        api_client_prepare(curl, socket_path, &r, a)) {
        code = api_client_judge(curl, curl_easy_perform(curl), socket_path, a);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    buf_fini(&url);
    return code;
}

void api_client_nodes(const struct cli *cli, struct buf *url)
{
    api_client_query(url, "node", cli->node);
    api_client_query(url, "nodes", cli->is_all_nodes ? "all" : NULL);
}

int api_client_send(const struct cli *cli, const char *method, const char *path_and_query,
                    const char *content_type, struct slice body, struct api_answer *ret)
{
    struct config *config = NULL;
    struct buf url;
    api_client_init_answer(ret);
    buf_init(&url, 0);
    api_client_url(&url, "", "");
    buf_append_str(&url, path_and_query);
    if (strcmp(method, "GET") == 0) {
        api_client_nodes(cli, &url);
    }
    buf_append_char(&url, '\0');
    int code = url.failed ? EX_OSERR : cli_config(cli, false, &config);
    if (code == 0) {
        code = transfer(config->control_path, method, url.data, content_type, body, ret);
    }
    buf_fini(&url);
    config_free(config);
    return code;
}

int api_client_get(const struct config *config, const char *path_and_query, struct api_answer *ret)
{
    api_client_init_answer(ret);
    return transfer(config->control_path, "GET", path_and_query, "application/json", SLICE(""),
                    ret);
}

int api_client_call(const struct cli *cli, const char *method, const char *path_and_query,
                    const char *json_body, struct api_answer *ret)
{
    return api_client_send(cli, method, path_and_query, "application/json",
                           slice_of(json_body == NULL ? "" : json_body), ret);
}

void api_answer_fini(struct api_answer *a)
{
    json_decref(a->end);
    buf_fini(&a->body);
}

int api_client_complain(const struct cli *cli, const char *command, const struct api_answer *a,
                        int code)
{
    if (code != 0 && a->error[0] != '\0') {
        (void)fprintf(cli->err, "sluice %s: ", command);
        cli_print_safe(cli->err, a->error); /* the error may repeat what strangers wrote */
        (void)fputc('\n', cli->err);
    }
    return code;
}

/* --- paths ------------------------------------------------------------------------------------ */

static void append_encoded(struct buf *b, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL) {
            buf_append_char(b, *text);
        } else {
            buf_printf(b, "%%%02X", (unsigned char)*text);
        }
    }
}

/* A NUL behind what there is, which further text replaces. */
static void terminate(struct buf *b)
{
    if (buf_reserve(b, 1) != NULL) {
        b->data[b->len] = '\0';
    }
}

void api_client_url(struct buf *b, const char *path, const char *argument)
{
    buf_append_str(b, path);
    append_encoded(b, argument);
    terminate(b);
}

void api_client_query(struct buf *b, const char *name, const char *value)
{
    if (value != NULL) {
        bool is_first = b->len == 0 || memchr(b->data, '?', b->len) == NULL;
        buf_append_char(b, is_first ? '?' : '&');
        append_encoded(b, name);
        buf_append_char(b, '=');
        append_encoded(b, value);
        terminate(b);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The next line with its LF; "" at the end. */
static struct slice next_line(struct api_answer *a)
{
    struct slice rest = a->body.len == 0 ? SLICE("") : slice_from(buf_slice(&a->body), a->taken);
    size_t lf = slice_find(rest, '\n');
    struct slice line = slice_to(rest, lf < rest.len ? lf + 1 : rest.len);
    a->taken += line.len;
    return line;
}

/* The object of a line; NULL when it is the last one, or none. */
static json_t *parse_line(struct api_answer *a, struct slice line)
{
    json_t *o = line.len == 0 ? NULL : json_loadb(line.data, line.len, 0, NULL);
    if (o == NULL || !json_is_object(o)) {
        (void)snprintf(a->error, sizeof(a->error),
                       line.len == 0 ? "the answer was cut off" : "the answer is not understood");
        json_decref(o);
        return NULL;
    }
    if (json_is_true(json_object_get(o, "end"))) {
        a->has_ended = true;
        a->has_more = json_is_true(json_object_get(o, "more"));
        a->end = o;
        return NULL;
    }
    return o;
}

json_t *api_answer_next(struct api_answer *a)
{
    return a->has_ended ? NULL : parse_line(a, next_line(a));
}

json_t *api_answer_object(const struct api_answer *a)
{
    json_t *o = a->body.len == 0 ? NULL : json_loadb(a->body.data, a->body.len, 0, NULL);
    if (o != NULL && !json_is_object(o)) {
        json_decref(o);
        o = NULL;
    }
    return o;
}

/* How a list becomes text. */
struct list_printer {
    void (*print)(void *ctx, const json_t *object);
    void *ctx;
    const char *nothing; /* said of an empty list; NULL: nothing */
    bool has_headings;   /* each row is told whose it is */
};

/* Names only options that the command has. */
static void tell_more(const struct cli *cli, const char *command)
{
    static const char *const names[] = {"limit", "last", "after"};
    const struct cli_row *row = cli_row_find(command);
    const char *gap = "; see more with --";
    (void)fprintf(cli->err, "sluice %s: there are more", command);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (const struct cli_option *o = row == NULL ? NULL : row->options;
             o != NULL && o->name != NULL; o++) {
            if (strcmp(o->name, names[i]) == 0) {
                (void)fprintf(cli->err, "%s%s", gap, names[i]);
                gap = " or --";
            }
        }
    }
    (void)fputc('\n', cli->err);
}

int api_client_tell_absent(const struct cli *cli, const char *command, const struct api_answer *a,
                           int code)
{
    const json_t *nodes = json_object_get(a->end, "nodes");
    bool is_whole = json_array_size(json_object_get(a->end, "absent")) == 0;
    for (size_t i = 0; !is_whole && i < json_array_size(nodes); i++) {
        const json_t *o = json_array_get(nodes, i);
        const char *error = cli_member_text(o, "error");
        if (error[0] != '\0' && cli_member_number(o, "status") != 404) {
            (void)fprintf(cli->err, "sluice %s: node ", command);
            cli_print_safe(cli->err, cli_member_text(o, "node"));
            (void)fputs(" is missing: ", cli->err);
            cli_print_safe(cli->err, error);
            (void)fputc('\n', cli->err);
        }
    }
    return is_whole || code != 0 ? code : EX_TEMPFAIL;
}

/* Of rows that are no table. */
static void print_heading(const struct cli *cli, const json_t *o, bool is_first)
{
    (void)fputs(is_first ? "node " : "\nnode ", cli->out);
    cli_print_safe(cli->out, cli_member_text(o, "node"));
    (void)fputc('\n', cli->out);
}

/* As api_client_list. */
static int print_list(const struct cli *cli, const char *command, const char *path_and_query,
                      const struct list_printer *p)
{
    struct api_answer a;
    size_t count = 0;
    int code = api_client_call(cli, "GET", path_and_query, NULL, &a);
    while (code == 0) {
        struct slice line = next_line(&a);
        json_t *o = parse_line(&a, line);
        if (o == NULL) {
            if (!a.has_ended) {
                code = line.len == 0 ? EX_IOERR : EX_PROTOCOL;
            }
            break;
        }
        if (cli->is_json) {
            (void)fwrite(line.data, 1, line.len, cli->out); /* a failure shows when it is flushed */
        } else {
            if (p->has_headings) {
                print_heading(cli, o, count == 0);
            }
            p->print(p->ctx, o);
        }
        json_decref(o);
        count++;
    }
    if (code == 0 && count == 0 && p->nothing != NULL && !cli->is_json) {
        (void)fprintf(cli->out, "%s\n", p->nothing);
    }
    if (code == 0 && a.has_more) {
        tell_more(cli, command);
    }
    const char *refusal =
        cli_member_text(a.end, "refusal"); /* of a node that is not in its cluster */
    if (code == 0 && refusal[0] != '\0' && !cli->is_json) {
        (void)fprintf(cli->err, "sluice %s: ", command);
        cli_print_safe(cli->err, refusal);
        (void)fputc('\n', cli->err);
    }
    code = cli->is_all_nodes ? api_client_tell_absent(cli, command, &a, code) : code;
    code = api_client_complain(cli, command, &a, code);
    api_answer_fini(&a);
    return code;
}

int api_client_list(const struct cli *cli, const char *command, const char *path_and_query,
                    void (*print)(void *ctx, const json_t *object), void *ctx, const char *nothing)
{
    const struct list_printer p = {
        .print = print, .ctx = ctx, .nothing = nothing, .has_headings = cli->is_all_nodes};
    return print_list(cli, command, path_and_query, &p);
}

/* A table with the node in front of each row. */
struct nodes_table {
    struct cli_table *table;
    void (*add)(void *ctx, const json_t *object);
};

static void add_of_node(void *ctx, const json_t *o)
{
    const struct nodes_table *t = ctx;
    cli_table_text(t->table, cli_member_text(o, "node"));
    t->add(t->table, o);
}

int api_client_table(const struct cli *cli, const char *command, struct buf *url,
                     const struct cli_column *columns, void (*add)(void *ctx, const json_t *object),
                     const char *nothing)
{
    struct cli_table t;
    struct cli_column wider[CLI_TABLE_COLUMNS_MAX + 1] = {{"NODE", false}};
    struct nodes_table of_nodes = {&t, add};
    struct list_printer p = {.print = add, .ctx = &t, .nothing = nothing};
    for (size_t i = 0; columns[i].title != NULL; i++) {
        assert(i + 2 < sizeof(wider) / sizeof(wider[0]));
        wider[i + 1] = columns[i];
    }
    if (cli->is_all_nodes) {
        p.print = add_of_node;
        p.ctx = &of_nodes;
    }
    cli_table_init(&t, cli->is_all_nodes ? wider : columns);
    int code = url->failed ? EX_OSERR : print_list(cli, command, url->data, &p);
    cli_table_print(&t, cli->out);
    cli_table_fini(&t);
    buf_fini(url);
    return code;
}

int api_client_show(const struct cli *cli, const char *command, const char *path_and_query,
                    void (*print)(void *ctx, const json_t *object), void *ctx)
{
    struct api_answer a;
    if (cli->is_all_nodes) {
        return api_client_list(cli, command, path_and_query, print, ctx, NULL);
    }
    int code = api_client_call(cli, "GET", path_and_query, NULL, &a);
    if (code == 0) {
        json_t *o = api_answer_object(&a);
        if (o == NULL) {
            code = EX_PROTOCOL;
            (void)snprintf(a.error, sizeof(a.error), "the answer is not understood");
        } else if (cli->is_json) {
            /* cli_main tells of a failed write, when it flushes */
            (void)fwrite(a.body.data, 1, a.body.len, cli->out);
        } else {
            print(ctx, o);
        }
        json_decref(o);
    }
    code = api_client_complain(cli, command, &a, code);
    api_answer_fini(&a);
    return code;
}
