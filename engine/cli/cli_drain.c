/* `sluice reload`, `drain` and `restart`: the daemon reads its configuration again (reload.h), takes no
 * mail and ends when what is due has gone out, or ends and begins anew without a refused connection
 * (drain.h). */
#include "base/clock.h"
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_options.h"
#include "engine/cli/cli_table.h"
#include "engine/config/config.h"

#include <sysexits.h>

static void print_texts(FILE *out, const json_t *texts)
{
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        cli_print_safe(out, text == NULL ? "" : text);
        (void)fputc('\n', out);
    }
}

static void print_restart(FILE *out, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        cli_print_safe(out, cli_member_text(o, "at"));
        (void)fputs(": ", out);
        cli_print_safe(out, cli_member_text(o, "option"));
        (void)fputs(": ", out);
        cli_print_safe(out, cli_member_text(o, "why"));
        (void)fputc('\n', out);
    }
}

static void print_answer(const struct cli *cli, const json_t *o)
{
    print_texts(cli->err, json_object_get(o, "complaints"));
    print_texts(cli->err, json_object_get(o, "warnings"));
    print_restart(cli->err, json_object_get(o, "restart"));
    if (json_is_true(json_object_get(o, "reloaded"))) {
        cli_print_safe(cli->out, cli_member_text(o, "file"));
        (void)fputs(" is in force\n", cli->out);
    } else {
        (void)fprintf(cli->err, "sluice reload: ");
        cli_print_safe(cli->err, cli_member_text(o, "error"));
        (void)fputc('\n', cli->err);
    }
}

int cli_reload(const struct cli *cli, const struct cli_args *args)
{
    struct api_answer answer;
    (void)args; /* the command has no arguments */
    int code = api_client_call(cli, "POST", "/v1/reload", NULL, &answer);
    bool is_wrong = answer.status == 422;
    json_t *o = code == 0 || is_wrong ? api_answer_object(&answer) : NULL;
    if (o == NULL) {
        code = api_client_complain(cli, "reload", &answer, code == 0 ? EX_PROTOCOL : code);
    } else if (cli->is_json) {
        (void)json_dumpf(o, cli->out, JSON_COMPACT); /* cli_main finds out when it cannot */
        (void)fputc('\n', cli->out);
    } else {
        print_answer(cli, o);
    }
    json_decref(o);
    api_answer_fini(&answer);
    return o != NULL && is_wrong ? EX_CONFIG : code;
}

static void print_drain(const struct cli *cli, const json_t *o)
{
    if (!json_is_true(json_object_get(o, "draining"))) {
        (void)fprintf(cli->out, "not draining: mail is taken\n");
    } else if (json_object_get(o, "until") == NULL) {
        (void)fprintf(cli->out,
                      "draining: no mail is taken, and the daemon ends when only deferred "
                      "and held mail is left\n");
    } else {
        char when[CLI_WHEN_TEXT];
        (void)fprintf(
            cli->out,
            "draining: no mail is taken, and the daemon ends when only deferred and held "
            "mail is left, or at %s\n",
            cli_when_text(json_object_get(o, "until"), (double)clock_wall() / USEC_PER_SEC, when));
    }
}

int cli_drain(const struct cli *cli, const struct cli_args *args)
{
    struct api_answer answer;
    bool is_off = cli_has(args, "off");
    const char *span = cli_value(args, "for");
    if (is_off && span != NULL) {
        (void)fprintf(cli->err, "sluice drain: --off takes no --for\n");
        return EX_USAGE;
    }
    char body[100] = "{}";
    if (span != NULL) { /* its characters were checked */
        (void)snprintf(body, sizeof(body), "{\"for\": \"%.60s\"}", span);
    }
    int code = api_client_call(cli, is_off ? "DELETE" : "POST", "/v1/drain", is_off ? NULL : body,
                               &answer);
    json_t *o = code == 0 ? api_answer_object(&answer) : NULL;
    if (o == NULL) {
        code = api_client_complain(cli, "drain", &answer, code == 0 ? EX_PROTOCOL : code);
    } else if (cli->is_json) {
        (void)json_dumpf(o, cli->out, JSON_COMPACT); /* cli_main finds out when it cannot */
        (void)fputc('\n', cli->out);
    } else {
        print_drain(cli, o);
    }
    json_decref(o);
    api_answer_fini(&answer);
    return code;
}

int cli_restart(const struct cli *cli, const struct cli_args *args)
{
    struct api_answer answer;
    struct config *config = NULL;
    (void)args;                                /* the command has no arguments */
    int code = cli_config(cli, true, &config); /* says what is wrong in the file */
    config_free(config);
    if (code != 0) {
        return code;
    }
    code = api_client_call(cli, "POST", "/v1/restart", "{}", &answer);
    if (code != 0) {
        code = api_client_complain(cli, "restart", &answer, code);
    } else {
        (void)fprintf(cli->out, "restarting\n");
    }
    api_answer_fini(&answer);
    return code;
}
