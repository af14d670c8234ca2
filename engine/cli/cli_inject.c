/* `sluice inject [FILE]`: messages from a file or standard input go to the daemon as POST
 * /v1/inject, and their ids are printed when they are stored. What is in them is not looked at. */
#include "base/span.h"
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/http/api.h"

#include <errno.h>
#include <string.h>
#include <sysexits.h>

enum { PIECE_BYTES = 65536 };
#define BODY_MAX_BYTES ((size_t)256 << 20) /* what the control socket takes */

static int read_all(const struct cli *cli, FILE *from, const char *name, struct buf *out)
{
    for (;;) {
        char *to = buf_reserve(out, PIECE_BYTES);
        if (to == NULL) {
            (void)fprintf(cli->err, "sluice inject: %s: too large\n", name);
            return EX_DATAERR;
        }
        size_t n = fread(to, 1, PIECE_BYTES, from);
        out->len += n;
        if (n == 0) {
            break;
        }
    }
    if (ferror(from) != 0) {
        (void)fprintf(cli->err, "sluice inject: %s: %s\n", name, strerror(errno));
        return EX_IOERR;
    }
    return 0;
}

static int read_input(const struct cli *cli, const struct cli_args *args, struct buf *out)
{
    if (args->argc == 0 || strcmp(args->argv[0], "-") == 0) {
        return read_all(cli, cli->in, "standard input", out);
    }
    FILE *file = fopen(args->argv[0], "re");
    if (file == NULL) {
        (void)fprintf(cli->err, "sluice inject: %s: %s\n", args->argv[0], strerror(errno));
        return EX_NOINPUT;
    }
    int code = read_all(cli, file, args->argv[0], out);
    (void)fclose(file); /* nothing was written that could be lost */
    return code;
}

static void make_url(const struct cli_args *args, struct buf *url)
{
    const char *expires = cli_value(args, "expires");
    usec_t ignored;
    bool is_span = expires != NULL && span_parse(slice_of(expires), &ignored);
    api_client_url(url, "/v1/inject", "");
    api_client_query(url, "tenant", cli_value(args, "tenant"));
    api_client_query(url, "campaign", cli_value(args, "campaign"));
    api_client_query(url, "class", cli_value(args, "class"));
    api_client_query(url, "not_before", cli_value(args, "at"));
    api_client_query(url, is_span ? "expires_in" : "expires", expires);
    api_client_query(url, "dkim", cli_value(args, "dkim"));
    api_client_query(url, "require_tls", cli_has(args, "require-tls") ? "yes" : NULL);
    api_client_query(url, "from", cli_value(args, "from"));
    api_client_query(url, "to", cli_value(args, "to"));
}

static void print_ids(const struct cli *cli, const json_t *answer)
{
    size_t i;
    json_t *id;
    json_array_foreach(json_object_get(answer, "ids"), i, id)
    {
        cli_print_safe(cli->out, json_is_string(id) ? json_string_value(id) : "");
        (void)fputc('\n', cli->out); /* a failure shows when it is flushed */
    }
}

/* Each mistake; false: the answer has none. */
static bool print_mistakes(const struct cli *cli, const json_t *answer)
{
    const json_t *list = json_object_get(answer, "mistakes");
    json_int_t count = json_integer_value(json_object_get(answer, "mistake_count"));
    size_t i;
    json_t *mistake;
    json_array_foreach(list, i, mistake)
    {
        (void)fputs("sluice inject: ", cli->err);
        cli_print_safe(cli->err, cli_member_text(mistake, "where"));
        (void)fputs(": ", cli->err);
        cli_print_safe(cli->err, cli_member_text(mistake, "error"));
        (void)fputc('\n', cli->err);
    }
    if (i > 0 && count > (json_int_t)i) {
        (void)fprintf(cli->err, "sluice inject: and more mistakes than these %zu\n", i);
    }
    return i > 0;
}

/* Some were stored and others not: those can be tried again. returns: exit code */
static int print_results(const struct cli *cli, const json_t *answer)
{
    const json_t *list = json_object_get(answer, "results");
    int code = 0;
    size_t i;
    json_t *result;
    json_array_foreach(list, i, result)
    {
        if (json_object_get(result, "error") != NULL) {
            (void)fprintf(cli->err, "sluice inject: messages[%zu]: ", i);
            cli_print_safe(cli->err, cli_member_text(result, "error"));
            (void)fputc('\n', cli->err);
            code = EX_TEMPFAIL;
        }
    }
    return code;
}

static int report_injected(const struct cli *cli, const struct api_answer *a, int code)
{
    json_t *answer = api_answer_object(a);
    if (cli->is_json && answer != NULL) {
        (void)fwrite(a->body.data, 1, a->body.len, cli->out); /* seen when it is flushed */
    } else if (code == 0) {
        print_ids(cli, answer);
    }
    if (code == 0) {
        code = print_results(cli, answer);
    } else if (!print_mistakes(cli, answer)) {
        code = api_client_complain(cli, "inject", a, code);
    }
    json_decref(answer);
    return code;
}

int cli_inject(const struct cli *cli, const struct cli_args *args)
{
    struct api_answer a = {.status = 0};
    struct buf body, url;
    bool is_message = cli_value(args, "to") != NULL;
    buf_init(&body, BODY_MAX_BYTES);
    buf_init(&url, 0);
    make_url(args, &url);
    int code = url.failed ? EX_OSERR : read_input(cli, args, &body);
    if (code == 0) {
        code = api_client_send(cli, "POST", url.data,
                               is_message ? "message/rfc822" : "application/json",
                               body.len == 0 ? SLICE("") : buf_slice(&body), &a);
        code = report_injected(cli, &a, code);
        api_answer_fini(&a);
    }
    buf_fini(&body);
    buf_fini(&url);
    return code;
}
