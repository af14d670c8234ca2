/* `sluice drain` and `sluice restart`: the daemon takes no mail and ends when what is due has gone out,
 * or ends and begins anew without a refused connection (drain.h). */
#include "base/clock.h"
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_options.h"
#include "engine/cli/cli_table.h"
#include "engine/config/config.h"

#include <sysexits.h>

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
