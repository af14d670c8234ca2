/* Owns the command line: global options, the table of commands, help, and what several commands
 * need. Main thread. */
#include "engine/cli.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sysexits.h>

struct command {
    const char *name;
    cli_command *run;
    const char *synopsis;
    const char *summary;
    const char *help;
};

static const struct command commands[] = {
    {"run", cli_run, "", "run the daemon in the foreground",
     "Reads the configuration and relays mail until SIGTERM or SIGINT. SIGHUP opens the event log\n"
     "again.\n"},
    {"check", cli_check, "[--reference]", "say whether the configuration is right",
     "Prints every mistake as FILE:LINE: key: what is wrong; what would be right, and exits with "
     "78\n"
     "when there is one.\n"
     "  --reference  print the configuration reference (docs/configuration.md)\n"},
    {"send", cli_send, "[-i] [-t] [-f SENDER] [-F NAME] [RECIPIENT...]",
     "queue the message on standard input",
     "Takes the options of sendmail. Either the message is queued for every recipient or, when "
     "the\n"
     "exit code is not 0, for none.\n"
     "  -t         recipients from To, Cc and Bcc as well; Bcc is removed\n"
     "  -f SENDER  envelope sender; <> is the null sender\n"
     "  -F NAME    full name for a From header that is missing\n"
     "  -i, -oi    a line of one dot does not end the message\n"
     "Exit codes: 64 usage, 65 message or address not understood, 67 a recipient was refused, 69 "
     "the\n"
     "message was refused, 75 try again later, 77 not allowed to use the control socket.\n"},
    {"queue", cli_queue, "[list [--limit N] [--after ID] | counts | hosts [TEXT] | show ID]",
     "look at the queue",
     "  list       the messages in order of id, 1000 at most (--limit), those after ID (--after)\n"
     "  counts     the destinations that schedulers know, and totals\n"
     "  hosts      the addresses that mail went to: connections, failures, when they are tried "
     "again;\n"
     "             only those with TEXT in TRANSPORT [ADDRESS]:PORT\n"
     "  show ID    one message with all its recipients\n"},
    {"version", cli_version, "", "print the version", ""},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *out)
{
    (void)fprintf(out, "usage: sluice COMMAND [-c FILE] [--json] [--help] ...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    }
    (void)fprintf(out,
                  "\n  -c FILE  configuration, instead of %s\n"
                  "  --json   print data as JSON\n"
                  "  --help   explain the command\n",
                  CONFIG_DEFAULT_PATH);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
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
        cli->config_path = CONFIG_DEFAULT_PATH;
    }
    if (argc > 0 && is_called_sendmail(argv[0])) {
        return flushed(cli, cli_send(cli, argc, argv));
    }
    argc = take_globals(cli, argc, argv, &globals);
    if (globals.lacks_value) {
        (void)fprintf(cli->err, "sluice: -c needs a file\n");
        return EX_USAGE;
    }
    if (argc < 2 && (globals.wants_help || globals.wants_version)) {
        if (globals.wants_version) {
            return flushed(cli, cli_version(cli, argc, argv));
        }
        print_usage(cli->out);
        return flushed(cli, EX_OK);
    }
    const struct command *command = argc < 2 ? NULL : find_command(argv[1]);
    if (command == NULL) {
        if (argc >= 2) {
            (void)fprintf(cli->err, "sluice: there is no command \"%s\"\n", argv[1]);
        }
        print_usage(cli->err);
        return EX_USAGE;
    }
    if (globals.wants_help) {
        (void)fprintf(cli->out, "usage: sluice %s [-c FILE] [--json] %s\n\n%s%s", command->name,
                      command->synopsis, command->help[0] == '\0' ? command->summary : "",
                      command->help[0] == '\0' ? "\n" : command->help);
        return flushed(cli, EX_OK);
    }
    return flushed(cli, command->run(cli, argc - 1, argv + 1));
}

static void complain(void *ctx, bool is_warning, const char *line)
{
    (void)is_warning; /* the line says so */
    (void)fprintf(ctx, "%s\n", line);
}

int cli_config(const struct cli *cli, struct config **ret)
{
    struct config_sink sink = {.complain = complain, .ctx = cli->err};
    int err = config_load(cli->config_path, &sink, ret);
    if (err == ERR_SYNTAX) {
        return EX_CONFIG;
    }
    return err == 0 ? 0 : err == -ENOMEM ? EX_OSERR : EX_NOINPUT;
}

int cli_version(const struct cli *cli, int argc, char **argv)
{
    if (argc > 1) {
        (void)fprintf(cli->err, "sluice version: \"%s\" is not understood\n", argv[1]);
        return EX_USAGE;
    }
    (void)fprintf(cli->out,
                  cli->is_json ? "{\"name\": \"sluice\", \"version\": \"%s\"}\n" : "sluice %s\n",
                  SLUICE_VERSION);
    return EX_OK;
}
