/* Owns the command line: global options, finding the command, help, and what several commands need.
 * Main thread. */
#include "engine/cli/cli.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

void cli_print_usage(FILE *out)
{
    (void)fprintf(out, "usage: sluice COMMAND [-c FILE] [--json] [--help] ...\n\n");
    for (size_t i = 0; i < cli_row_count; i++) {
        (void)fprintf(out, "  %-12s  %s\n", cli_rows[i].name, cli_rows[i].summary);
    }
    (void)fprintf(
        out,
        "\n  -c FILE  configuration, instead of that of the environment's " CONFIG_PATH_VARIABLE
        " or\n           %s\n"
        "  --json   print data as JSON\n"
        "  --help   explain the command\n",
        CONFIG_DEFAULT_PATH);
}

void cli_print_help(const struct cli_row *row, FILE *out)
{
    (void)fprintf(out, "usage: sluice %s [-c FILE] [--json]%s%s%s\n\n", row->name,
                  row->options != NULL ? " [OPTION...]" : "", row->operands[0] != '\0' ? " " : "",
                  row->operands);
    (void)fprintf(out, "%s%s", row->help[0] == '\0' ? row->summary : row->help,
                  row->help[0] == '\0' ? "\n" : "");
    cli_options_print(row->options, out);
}

static int run_row(struct cli *cli, const struct cli_row *row, int argc, char **argv)
{
    struct cli_args args;
    char why[200];
    if (cli_options_parse(row, argc, argv, &args, why) != 0) {
        (void)fprintf(cli->err, "sluice %s: %s; see sluice %s --help\n", row->name, why, row->name);
        return EX_USAGE;
    }
    cli->node = cli_given(&args, "node");
    cli->is_all_nodes = cli_given(&args, "all-nodes") != NULL;
    if (cli->node != NULL && cli->is_all_nodes) {
        (void)fprintf(cli->err, "sluice %s: --node or --all-nodes, not both\n", row->name);
        return EX_USAGE;
    }
    return row->run(cli, &args);
}

struct globals {
    bool wants_help;
    bool wants_version;
    bool lacks_value; /* -c without FILE */
};

/* Take the global options out of argv, wherever they stand before "--"; returns the new argc. */
static int take_globals(struct cli *cli, int argc, char **argv, struct globals *ret)
{
    int kept = 1;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-c") == 0 || strcmp(argv[i], "--config") == 0) {
            ret->lacks_value = i + 1 == argc;
            cli->config_path = ret->lacks_value ? cli->config_path : argv[++i];
        } else if (strncmp(argv[i], "--config=", 9) == 0) {
            cli->config_path = argv[i] + 9;
        } else if (strcmp(argv[i], "--json") == 0) {
            cli->is_json = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            ret->wants_help = true;
        } else if (strcmp(argv[i], "--version") == 0) {
            ret->wants_version = true;
        } else {
            argv[kept++] = argv[i];
        }
    }
    for (; i < argc; i++) {
        argv[kept++] = argv[i];
    }
    return kept;
}

static bool is_called_sendmail(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, "sendmail") == 0;
}

/* What was asked for arrived, or an exit code that says it did not. */
static int flushed(struct cli *cli, int code)
{
    if (fflush(cli->out) != 0 && code == EX_OK) {
        (void)fprintf(cli->err, "sluice: standard output: %s\n", strerror(errno));
        return EX_IOERR;
    }
    return code;
}

int cli_main(struct cli *cli, int argc, char **argv)
{
    struct globals globals = {false, false, false};
    if (cli->config_path == NULL) {
        const char *named = getenv(CONFIG_PATH_VARIABLE);
        cli->config_path = named != NULL && named[0] != '\0' ? named : CONFIG_DEFAULT_PATH;
    }
    if (argc > 0 && is_called_sendmail(argv[0])) {
        return flushed(cli, run_row(cli, cli_row_find("send"), argc - 1, argv + 1));
    }
    argc = take_globals(cli, argc, argv, &globals);
    if (globals.lacks_value) {
        (void)fprintf(cli->err, "sluice: -c needs a file\n");
        return EX_USAGE;
    }
    if (argc < 2 && (globals.wants_help || globals.wants_version)) {
        if (globals.wants_version) {
            return flushed(cli, run_row(cli, cli_row_find("version"), 0, argv));
        }
        cli_print_usage(cli->out);
        return flushed(cli, EX_OK);
    }
    const struct cli_row *row = argc < 2 ? NULL : cli_row_find(argv[1]);
    if (row == NULL) {
        if (argc >= 2) {
            (void)fprintf(cli->err, "sluice: there is no command \"%s\"\n", argv[1]);
        }
        cli_print_usage(cli->err);
        return EX_USAGE;
    }
    if (globals.wants_help) {
        cli_print_help(row, cli->out);
        return flushed(cli, EX_OK);
    }
    return flushed(cli, run_row(cli, row, argc - 2, argv + 2));
}

static void print_complaint(void *ctx, bool is_warning, const char *line)
{
    (void)is_warning; /* the line says so */
    (void)fprintf(ctx, "%s\n", line);
}

/* Warnings are told by `check`, by the daemon that starts and by `reload`: who asks for something else has
 * not changed the file. */
static void print_mistake(void *ctx, bool is_warning, const char *line)
{
    if (!is_warning) {
        print_complaint(ctx, is_warning, line);
    }
}

int cli_config(const struct cli *cli, bool tells_warnings, struct config **ret)
{
    const struct config_sink sink = {.complain = tells_warnings ? print_complaint : print_mistake,
                                     .ctx = cli->err};
    int err = config_load(cli->config_path, &sink, ret);
    if (err == 0) {
        return 0;
    }
    if (err == ERR_SYNTAX) {
        return EX_CONFIG;
    }
    return err == -ENOMEM ? EX_OSERR : EX_NOINPUT;
}

int cli_version(const struct cli *cli, const struct cli_args *args)
{
    (void)args; /* the command has no arguments */
    (void)fprintf(cli->out,
                  cli->is_json ? "{\"name\": \"sluice\", \"version\": \"%s\"}\n" : "sluice %s\n",
                  SLUICE_VERSION);
    return EX_OK;
}
