/* `sluice suppress`, `unsuppress` and `suppressions`: lists of recipients that get no mail
 * (suppress_request.h, suppression_report.h). A file goes in by parts, each durable when it is answered.
 * `sluice heard` and `return-keys`: what else came back, and the keys that its addresses are sealed by
 * (heard_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

enum {
    PART_LINES = 20000,
    PART_BYTES = 8 << 20,
    PAGE = 10000,
};

static bool is_removal(const struct cli_args *args)
{
    return strcmp(args->row->name, "unsuppress") == 0;
}

/* --- one entry ------------------------------------------------------------------------------------ */

static void print_change(const struct cli *cli, const struct cli_args *args,
                         const struct api_answer *a)
{
    if (cli->is_json) {
        (void)fwrite(a->body.data, 1, a->body.len, cli->out); /* flushed and checked by cli_main */
        return;
    }
    json_t *o = api_answer_object(a);
    const char *tenant = cli_member_text(o, "tenant");
    bool is_new = json_is_true(json_object_get(o, "is_new"));
    cli_print_safe(cli->out, cli_member_text(o, "address"));
    if (is_removal(args)) {
        (void)fputs(": taken off the list ", cli->out);
    } else {
        (void)fprintf(cli->out, ": %s the list ", is_new ? "put on" : "was and is on");
    }
    (void)fputs(tenant[0] == '\0' ? "for all" : "of tenant ", cli->out);
    cli_print_safe(cli->out, tenant);
    (void)fputc('\n', cli->out);
    json_decref(o);
}

static int change_one(const struct cli *cli, const struct cli_args *args, const char *address)
{
    struct api_answer a = {.status = 0};
    struct buf url;
    char *text = NULL;
    buf_init(&url, 0);
    api_client_url(&url, is_removal(args) ? "/v1/suppressions/" : "/v1/suppressions",
                   is_removal(args) ? address : "");
    api_client_query(&url, "tenant", cli_value(args, "tenant"));
    api_client_query(&url, "source", cli_value(args, "source"));
    if (!is_removal(args)) {
        api_client_query(&url, "reason", cli_value(args, "reason"));
        api_client_query(&url, "for", cli_value(args, "for"));
        json_t *body = json_pack("{s:s}", "address", address);
        text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
        json_decref(body);
    }
    const char *method = is_removal(args) ? "DELETE" : "POST";
    bool is_short = url.failed || (!is_removal(args) && text == NULL);
    int code = is_short ? EX_OSERR : api_client_call(cli, method, url.data, text, &a);
    if (code == 0) {
        print_change(cli, args, &a);
    }
    (void)api_client_complain(cli, args->row->name, &a, code);
    api_answer_fini(&a);
    buf_fini(&url);
    free(text);
    return code;
}

/* --- a file --------------------------------------------------------------------------------------- */

struct suppress_file {
    FILE *in;
    const char *type;
    char *line;
    size_t capacity;
    struct buf
        names;      /* the line of names, which is said again in front of each part; may be empty */
    long long next; /* number of the next line */
    json_int_t accepted, changed, bad;
};

/* Reads lines into `part` until it is long enough. returns lines */
static int read_part(struct suppress_file *f, struct buf *part)
{
    int lines = 0;
    ssize_t len;
    buf_clear(part);
    buf_append_slice(part, buf_slice(&f->names));
    while (lines < PART_LINES && part->len < PART_BYTES &&
           (len = getline(&f->line, &f->capacity, f->in)) > 0) {
        buf_append(part, f->line, (size_t)len);
        if (f->line[len - 1] != '\n') {
            buf_append_str(part, "\n");
        }
        lines++;
    }
    return lines;
}

/* What kind of file it is, and the line of names of a CSV: it has no address. Skips to line `from`.
 *
 * returns  the first line where it is none of names, in f->line; NULL: there is none left */
static const char *begin_file(struct suppress_file *f, long long from)
{
    f->next = 1;
    f->type = "text/csv";
    ssize_t len = getline(&f->line, &f->capacity, f->in);
    if (len > 0 && f->line[strspn(f->line, " \t")] == '{') {
        f->type = "application/x-ndjson";
    } else if (len > 0 && strchr(f->line, '@') == NULL) {
        buf_append(&f->names, f->line, (size_t)len);
        f->next++;
        len = getline(&f->line, &f->capacity, f->in);
    }
    while (len > 0 && f->next < from) {
        f->next++;
        len = getline(&f->line, &f->capacity, f->in);
    }
    return len > 0 ? f->line : NULL;
}

static void count_part(const struct cli *cli, const struct cli_args *args, struct suppress_file *f,
                       const struct api_answer *a)
{
    json_t *o = api_answer_object(a), *wrong;
    size_t i;
    f->accepted += cli_member_number(o, "accepted");
    f->changed += cli_member_number(o, is_removal(args) ? "removed" : "added");
    f->bad += cli_member_number(o, "bad");
    json_array_foreach(json_object_get(o, "wrong"), i, wrong)
    {
        (void)fprintf(cli->err, "sluice %s: line %lld: ", args->row->name,
                      (long long)cli_member_number(wrong, "line"));
        cli_print_safe(cli->err, cli_member_text(wrong, "error"));
        (void)fputc('\n', cli->err);
    }
    json_decref(o);
}

static int send_file_part(const struct cli *cli, const struct cli_args *args,
                          struct suppress_file *f, const struct buf *part)
{
    struct api_answer a = {.status = 0};
    struct buf url;
    char line[32];
    (void)snprintf(line, sizeof(line), "%lld", f->next);
    buf_init(&url, 0);
    api_client_url(&url, "/v1/suppressions", "");
    api_client_query(&url, "tenant", cli_value(args, "tenant"));
    api_client_query(&url, "source", cli_value(args, "source"));
    api_client_query(&url, "line", line);
    if (is_removal(args)) {
        api_client_query(&url, "remove", "yes");
    } else {
        api_client_query(&url, "reason", cli_value(args, "reason"));
        api_client_query(&url, "for", cli_value(args, "for"));
    }
    int code = url.failed || part->failed
                   ? EX_OSERR
                   : api_client_send(cli, "POST", url.data, f->type, buf_slice(part), &a);
    if (code == 0) {
        count_part(cli, args, f, &a);
    } else {
        (void)fprintf(cli->err,
                      "sluice %s: what is before line %lld is in force; go on with --from "
                      "%lld\n",
                      args->row->name, f->next, f->next);
    }
    (void)api_client_complain(cli, args->row->name, &a, code);
    api_answer_fini(&a);
    buf_fini(&url);
    return code;
}

static int change_file(const struct cli *cli, const struct cli_args *args, const char *path)
{
    struct suppress_file f = {.in = strcmp(path, "-") == 0 ? cli->in : fopen(path, "re")};
    const char *from = cli_value(args, "from");
    struct buf part;
    int code = 0, lines = 0;
    if (f.in == NULL) {
        (void)fprintf(cli->err, "sluice %s: cannot open %s\n", args->row->name, path);
        return EX_NOINPUT;
    }
    buf_init(&f.names, 0);
    buf_init(&part, 0);
    const char *line = begin_file(&f, from == NULL ? 1 : strtoll(from, NULL, 10));
    size_t names = f.names.len;
    if (line != NULL) { /* goes in front of the first part, behind the names */
        buf_append_str(&f.names, line);
        buf_append_str(&f.names, strchr(line, '\n') == NULL ? "\n" : "");
        lines = 1;
    }
    while (code == 0 && (lines += read_part(&f, &part)) > 0) {
        f.names.len = names;
        code = send_file_part(cli, args, &f, &part);
        f.next += code == 0 ? lines : 0;
        lines = 0;
    }
    if (code == 0) {
        (void)fprintf(cli->out, "%lld lines taken, %lld %s, %lld wrong\n", (long long)f.accepted,
                      (long long)f.changed, is_removal(args) ? "removed" : "new", (long long)f.bad);
        code = f.bad > 0 ? EX_DATAERR : 0;
    }
    buf_fini(&part);
    buf_fini(&f.names);
    free(f.line);
    if (f.in != cli->in) {
        (void)fclose(f.in); /* it was only read */
    }
    return code;
}

int cli_suppress(const struct cli *cli, const struct cli_args *args)
{
    const char *path = cli_value(args, "file");
    if ((path != NULL) == (args->argc > 0) || (path == NULL && cli_has(args, "from"))) {
        (void)fprintf(cli->err, "sluice %s: addresses, or --file FILE\n", args->row->name);
        return EX_USAGE;
    }
    int code = path != NULL ? change_file(cli, args, path) : 0;
    for (int i = 0; i < args->argc && code == 0; i++) {
        code = change_one(cli, args, args->argv[i]);
    }
    return code;
}

/* --- what there is -------------------------------------------------------------------------------- */

static void print_csv_text(FILE *out, const char *text)
{
    if (text[strcspn(text, "\",\r\n ")] == '\0') {
        (void)fputs(text, out);
        return;
    }
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        (void)fprintf(out, "%s%c", *text == '"' ? "\"" : "", *text);
    }
    (void)fputc('"', out);
}

static void print_csv(const struct cli *cli, const json_t *o)
{
    const json_t *expires = json_object_get(o, "expires");
    print_csv_text(cli->out, cli_member_text(o, "tenant"));
    (void)fputc(',', cli->out);
    print_csv_text(cli->out, cli_member_text(o, "address"));
    (void)fprintf(cli->out, ",%s,%.0f,", cli_member_text(o, "reason"),
                  json_number_value(json_object_get(o, "added")));
    if (expires != NULL) {
        (void)fprintf(cli->out, "%.0f", json_number_value(expires));
    }
    (void)fputc(',', cli->out);
    print_csv_text(cli->out, cli_member_text(o, "source"));
    (void)fputs("\r\n", cli->out);
}

static void print_entry(const struct cli *cli, const struct cli_args *args, json_t *o)
{
    if (cli_has(args, "csv")) {
        print_csv(cli, o);
    } else {
        (void)json_dumpf(o, cli->out, JSON_COMPACT); /* flushed and checked by cli_main */
        (void)fputc('\n', cli->out);
    }
}

static void make_list_url(const struct cli_args *args, const char *after, const char *limit,
                          struct buf *url)
{
    const char *tenant = cli_value(args, "tenant");
    buf_init(url, 0);
    api_client_url(url, "/v1/suppressions", "");
    api_client_query(url, "match", args->argc > 0 ? args->argv[0] : NULL);
    api_client_query(url, "tenant", tenant != NULL && strcmp(tenant, "-") == 0 ? "" : tenant);
    api_client_query(url, "after", after);
    api_client_query(url, "limit", limit);
}

/* All pages, one behind the other. */
static int print_all(const struct cli *cli, const struct cli_args *args)
{
    const char *limit = cli_value(args, "limit");
    char page[16], after[512] = "";
    bool has_more = true;
    int code = 0;
    (void)snprintf(page, sizeof(page), "%d", PAGE);
    (void)snprintf(after, sizeof(after), "%s",
                   cli_has(args, "after") ? cli_value(args, "after") : "");
    if (cli_has(args, "csv")) {
        (void)fputs("tenant,address,reason,added,expires,source\r\n", cli->out);
    }
    while (code == 0 && has_more) {
        struct api_answer a;
        struct buf url;
        json_t *o;
        make_list_url(args, after[0] == '\0' ? NULL : after, limit == NULL ? page : limit, &url);
        code = url.failed ? EX_OSERR : api_client_call(cli, "GET", url.data, NULL, &a);
        while (code == 0 && (o = api_answer_next(&a)) != NULL) {
            print_entry(cli, args, o);
            json_decref(o);
        }
        if (code == 0 && !a.has_ended) {
            (void)snprintf(a.error, sizeof(a.error), "the answer was cut");
            code = EX_PROTOCOL;
        }
        has_more = code == 0 && a.has_more && limit == NULL;
        (void)snprintf(after, sizeof(after), "%s",
                       code == 0 ? cli_member_text(a.end, "after") : "");
        if (!url.failed) {
            (void)api_client_complain(cli, "suppressions", &a, code);
            api_answer_fini(&a);
        }
        buf_fini(&url);
    }
    return code;
}

static void add_entry_row(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const json_t *expires = json_object_get(o, "expires");
    char when[CLI_WHEN_TEXT], end[CLI_WHEN_TEXT];
    const char *tenant = cli_member_text(o, "tenant");
    cli_table_text(t, tenant[0] == '\0' ? "-" : tenant);
    cli_table_text(t, cli_member_text(o, "address"));
    cli_table_text(t, cli_member_text(o, "reason"));
    cli_table_text(t, cli_when_text(json_object_get(o, "added"), cli_now(), when));
    cli_table_text(t, expires == NULL ? "never" : cli_when_text(expires, cli_now(), end));
    cli_table_text(t, cli_member_text(o, "source"));
}

int cli_suppressions(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"TENANT", false}, {"ADDRESS", false}, {"REASON", false}, {"ADDED", false},
        {"ENDS", false},   {"SOURCE", false},  {NULL, false}};
    struct buf url;
    if (cli->is_json || cli_has(args, "csv")) {
        return print_all(cli, args);
    }
    make_list_url(args, cli_value(args, "after"), cli_value(args, "limit"), &url);
    return api_client_table(cli, "suppressions", &url, columns, add_entry_row,
                            "nobody is suppressed");
}

/* --- what came back and was not understood --------------------------------------------------------- */

static void add_heard_row(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    char when[CLI_WHEN_TEXT];
    cli_table_text(t, cli_member_text(o, "id"));
    cli_table_text(t, cli_when_text(json_object_get(o, "time"), cli_now(), when));
    cli_table_number(t, cli_member_number(o, "bytes"));
    cli_table_text(t, cli_member_text(o, "from"));
    cli_table_text(t, cli_member_text(o, "subject"));
}

static int list_heard(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {{"ID", false},      {"KEPT", false},
                                                {"BYTES", true},    {"FROM", false},
                                                {"SUBJECT", false}, {NULL, false}};
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/heard", "");
    api_client_query(&url, "limit", cli_value(args, "limit"));
    return api_client_table(cli, "heard", &url, columns, add_heard_row,
                            "nothing was misunderstood");
}

/* Onto a terminal no byte of a stranger's goes as it is; a file or a pipe gets the message as it came. */
static void print_heard(const struct cli *cli, struct slice message)
{
    if (!isatty(fileno(cli->out))) {
        (void)fwrite(message.data, 1, message.len, cli->out); /* flushed and checked by cli_main */
        return;
    }
    while (message.len > 0) {
        size_t len = slice_find(message, '\n');
        char line[1024];
        size_t shown = len < sizeof(line) ? len : sizeof(line) - 1;
        shown -= shown == len && len > 0 && message.data[len - 1] == '\r' ? 1 : 0;
        memcpy(line, message.data, shown);
        line[shown] = '\0';
        cli_print_safe(cli->out, line);
        (void)fputs(shown + 1 < len ? " ...\n" : "\n", cli->out);
        message = slice_from(message, len < message.len ? len + 1 : len);
    }
}

static int ask_heard(const struct cli *cli, const char *method, const char *id)
{
    struct api_answer a = {.status = 0};
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/heard/", id);
    int code = url.failed ? EX_OSERR : api_client_call(cli, method, url.data, NULL, &a);
    if (code == 0 && strcmp(method, "GET") == 0) {
        print_heard(cli, buf_slice(&a.body));
    } else if (code == 0 && cli->is_json) {
        (void)fwrite(a.body.data, 1, a.body.len, cli->out); /* flushed and checked by cli_main */
    } else if (code == 0) {
        (void)fprintf(cli->out, "%s: removed\n", id);
    }
    (void)api_client_complain(cli, "heard", &a, code);
    api_answer_fini(&a);
    buf_fini(&url);
    return code;
}

int cli_heard(const struct cli *cli, const struct cli_args *args)
{
    bool is_removal = cli_has(args, "remove");
    int code = 0;
    if (is_removal && args->argc == 0) {
        (void)fputs("sluice heard: --remove needs ids\n", cli->err);
        return EX_USAGE;
    }
    for (int i = 0; i < args->argc && code == 0; i++) {
        code = ask_heard(cli, is_removal ? "DELETE" : "GET", args->argv[i]);
    }
    return args->argc > 0 ? code : list_heard(cli, args);
}

/* --- keys of return addresses --------------------------------------------------------------------- */

static void add_key_row(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const json_t *until = json_object_get(o, "until");
    char begin[CLI_WHEN_TEXT], end[CLI_WHEN_TEXT];
    cli_table_number(t, cli_member_number(o, "number"));
    cli_table_text(t, cli_when_text(json_object_get(o, "begin"), cli_now(), begin));
    cli_table_text(t, until == NULL ? "in use" : cli_when_text(until, cli_now(), end));
}

static int rotate_keys(const struct cli *cli)
{
    struct api_answer a;
    int code = api_client_call(cli, "POST", "/v1/return-keys", NULL, &a);
    if (code == 0 && cli->is_json) {
        (void)fwrite(a.body.data, 1, a.body.len, cli->out); /* flushed and checked by cli_main */
    } else if (code == 0) {
        json_t *o = api_answer_object(&a);
        (void)fprintf(cli->out, "key %lld seals the return addresses of mail from now on\n",
                      cli_member_number(o, "number"));
        json_decref(o);
    }
    (void)api_client_complain(cli, "return-keys", &a, code);
    api_answer_fini(&a);
    return code;
}

int cli_return_keys(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"KEY", true}, {"BEGUN", false}, {"ENDS", false}, {NULL, false}};
    struct buf url;
    if (cli_has(args, "rotate")) {
        return rotate_keys(cli);
    }
    buf_init(&url, 0);
    api_client_url(&url, "/v1/return-keys", "");
    return api_client_table(cli, "return-keys", &url, columns, add_key_row,
                            "there are none: nothing has verp");
}
