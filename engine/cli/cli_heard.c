/* `sluice heard`: mail for us that was not understood: a list, one message, and how those that were read
 * go away. `sluice return-keys`: the keys of return addresses. (heard_report.h) */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <string.h>
#include <sysexits.h>
#include <unistd.h>

static void add_row(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    char when[CLI_WHEN_TEXT];
    cli_table_text(t, cli_member_text(o, "id"));
    cli_table_text(t, cli_when_text(json_object_get(o, "time"), cli_now(), when));
    cli_table_number(t, cli_member_number(o, "bytes"));
    cli_table_text(t, cli_member_text(o, "from"));
    cli_table_text(t, cli_member_text(o, "subject"));
}

static int list(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {{"ID", false},      {"KEPT", false},
                                                {"BYTES", true},    {"FROM", false},
                                                {"SUBJECT", false}, {NULL, false}};
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/heard", "");
    api_client_query(&url, "limit", cli_value(args, "limit"));
    return api_client_table(cli, "heard", &url, columns, add_row, "nothing was misunderstood");
}

/* Onto a terminal no byte of a stranger's goes as it is; a file or a pipe gets the message as it came. */
static void print_message(const struct cli *cli, struct slice message)
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

static int ask(const struct cli *cli, const char *method, const char *id)
{
    struct api_answer a = {.status = 0};
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/heard/", id);
    int code = url.failed ? EX_OSERR : api_client_call(cli, method, url.data, NULL, &a);
    if (code == 0 && strcmp(method, "GET") == 0) {
        print_message(cli, buf_slice(&a.body));
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
        code = ask(cli, is_removal ? "DELETE" : "GET", args->argv[i]);
    }
    return args->argc > 0 ? code : list(cli, args);
}

/* --- keys of return addresses --------------------------------------------------------------------- */

static void add_key(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    const json_t *until = json_object_get(o, "until");
    char begin[CLI_WHEN_TEXT], end[CLI_WHEN_TEXT];
    cli_table_number(t, cli_member_number(o, "number"));
    cli_table_text(t, cli_when_text(json_object_get(o, "begin"), cli_now(), begin));
    cli_table_text(t, until == NULL ? "in use" : cli_when_text(until, cli_now(), end));
}

static int rotate(const struct cli *cli)
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
        return rotate(cli);
    }
    buf_init(&url, 0);
    api_client_url(&url, "/v1/return-keys", "");
    return api_client_table(cli, "return-keys", &url, columns, add_key,
                            "there are none: nothing has verp");
}
