/* `sluice help`: the overview, a command's help, or with --man the manual page sluice(1), made of
 * the table of commands (cli_rows.c). */
#include "engine/cli/cli.h"

#include <string.h>
#include <sysexits.h>

/* One piece of running text for troff: nothing in it is taken for a request or an escape. */
static void print_text(const char *text, FILE *out)
{
    bool is_start = true;
    for (; *text != '\0'; text++) {
        if (is_start && (*text == '.' || *text == '\'')) {
            (void)fputs("\\&", out);
        }
        is_start = *text == '\n';
        if (*text == '\\') {
            (void)fputs("\\e", out);
        } else if (*text == '-') {
            (void)fputs("\\-", out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

static void print_option(const struct cli_option *o, FILE *out)
{
    (void)fputs(".TP\n", out);
    if (o->letter != 0) {
        (void)fprintf(out, "\\fB\\-%c\\fR%s", o->letter, o->name[0] != '\0' ? ", " : "");
    }
    if (o->name[0] != '\0') {
        (void)fputs("\\fB\\-\\-", out);
        print_text(o->name, out);
        (void)fputs("\\fR", out);
    }
    if (o->value != NULL) {
        (void)fputs(" \\fI", out);
        print_text(o->value, out);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
    print_text(o->help, out);
    (void)fputs(".\n", out);
}

static void print_row(const struct cli_row *row, FILE *out)
{
    (void)fprintf(out, ".SS sluice %s", row->name);
    (void)fputs(row->options != NULL ? " [\\fIOPTION\\fR...]" : "", out);
    if (row->operands[0] != '\0') {
        (void)fputs(" \\fI", out);
        print_text(row->operands, out);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
    print_text(row->summary, out);
    (void)fputs(".\n", out);
    if (row->help[0] != '\0') {
        (void)fputs(".PP\n", out);
        print_text(row->help, out);
    }
    for (const struct cli_option *o = row->options; o != NULL && o->name != NULL; o++) {
        print_option(o, out);
    }
}

static void print_manual(FILE *out)
{
    static const struct cli_option globals[] = {
        {"config", 'c', CLI_FILE, "FILE", "the configuration, instead of " CONFIG_DEFAULT_PATH},
        {"json", 0, CLI_FLAG, NULL, "print data as JSON, one object a line"},
        {"help", 0, CLI_FLAG, NULL, "explain the command"},
        {"version", 0, CLI_FLAG, NULL, "print the version"},
    };
    (void)fputs(".TH SLUICE 1 \"\" \"sluice " SLUICE_VERSION "\"\n"
                ".SH NAME\n"
                "sluice \\- deliver mail, and look after its delivery\n"
                ".SH SYNOPSIS\n"
                ".B sluice\n"
                "\\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIOPERAND\\fR...]\n"
                ".SH DESCRIPTION\n"
                "\\fBsluice run\\fR is the daemon. The other commands ask it over its control "
                "socket, whose permissions\n"
                "decide who may. Called as\n"
                ".B sendmail\n"
                "it does what \\fBsluice send\\fR does.\n"
                ".SH OPTIONS\n"
                "These stand anywhere before \\fB\\-\\-\\fR.\n",
                out);
    for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++) {
        print_option(&globals[i], out);
    }
    (void)fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; i < cli_row_count; i++) {
        print_row(&cli_rows[i], out);
    }
    (void)fputs(".SH EXIT STATUS\n"
                "0, or as sysexits.h has it: 64 usage, 66 there is no such thing, 69 the daemon is "
                "not running or\n"
                "cannot answer, 70 to 76 other failures (75: try again later), 77 not allowed, 78 "
                "the configuration\n"
                "is wrong.\n"
                ".SH ENVIRONMENT\n"
                ".TP\n"
                ".B " CONFIG_PATH_VARIABLE "\n"
                "The configuration where \\fB\\-c\\fR names none.\n"
                ".SH FILES\n"
                ".TP\n"
                ".I " CONFIG_DEFAULT_PATH "\n"
                "The configuration; \\fBsluice check \\-\\-reference\\fR explains every option.\n"
                ".TP\n"
                ".I /var/spool/sluice\n"
                "The spool, unless the configuration says otherwise, with the control socket and "
                "\\fIorders.json\\fR in it.\n"
                ".SH SEE ALSO\n"
                "\\fIoperating.md\\fR, \\fIdaily\\-tasks.md\\fR and, for the same over HTTP, "
                "\\fIopenapi.yaml\\fR in\n"
                "/usr/share/doc/sluice, or in docs/ of the source.\n",
                out);
}

int cli_help(const struct cli *cli, const struct cli_args *args)
{
    const struct cli_row *row = args->argc > 0 ? cli_row_find(args->argv[0]) : NULL;
    if (cli_has(args, "man")) {
        print_manual(cli->out);
    } else if (row != NULL) {
        cli_print_help(row, cli->out);
    } else if (args->argc == 0) {
        cli_print_usage(cli->out);
    } else {
        (void)fprintf(cli->err, "sluice help: there is no command \"%s\"\n", args->argv[0]);
        return EX_USAGE;
    }
    return EX_OK;
}
