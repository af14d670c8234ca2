/* The commands of the `sluice` program. Each cli_*.c is one command; main.c finds it in a table.
 * Everything here runs on the main thread and writes to the streams it was given. */
#ifndef ENGINE_CLI_H
#define ENGINE_CLI_H

#include "base/attr.h"
#include "engine/config.h"

#include <stdbool.h>
#include <stdio.h>

struct cli {
    const char *config_path; /* -c, or the default */
    bool is_json;            /* --json */
    FILE *in, *out, *err;
};

/* argv[0] is the command's name; global options are gone. Returns an exit code of sysexits.h. */
typedef int cli_command(const struct cli *cli, int argc, char **argv);

cli_command cli_run, cli_check, cli_send, cli_queue, cli_version;

/* Load cli->config_path with complaints on cli->err. errors: the exit code (EX_CONFIG, EX_NOINPUT);
 * 0 when *ret is set */
MUST_USE int cli_config(const struct cli *cli, struct config **ret);

/* The whole program: options, table, command. */
int cli_main(struct cli *cli, int argc, char **argv);

#endif
