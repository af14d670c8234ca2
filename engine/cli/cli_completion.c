/* `sluice completion bash|zsh`: a script that completes command lines, made of the table of
 * commands (cli_rows.c). */
#include "engine/cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* --- bash ------------------------------------------------------------------------------------- */

static const char bash_head[] =
    "# Completion of sluice for bash: sluice completion bash > "
    "/usr/share/bash-completion/completions/sluice\n"
    "_sluice() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local command= words= files= i\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        -c | --config) ((i++)) ;;\n"
    "        -*) ;;\n"
    "        *) command=${COMP_WORDS[i]} && break ;;\n"
    "        esac\n"
    "    done\n"
    "    COMPREPLY=()\n"
    "    case $command:$previous in\n"
    "    *:-c | *:--config) files=1 ;;\n";

static const char bash_tail[] =
    "    esac\n"
    "    if [ -n \"$files\" ] && [[ $current != -* ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
    "    fi\n"
    "}\n"
    "complete -F _sluice sluice\n";

/* "a|b|c" as "a b c" */
static void print_words(const char *words, FILE *out)
{
    for (; *words != '\0'; words++) {
        (void)fputc(*words == '|' ? ' ' : *words, out);
    }
}

/* The cases of options behind which something stands. */
static void print_bash_values(const struct cli_row *row, FILE *out)
{
    for (const struct cli_option *o = row->options; o != NULL && o->name != NULL; o++) {
        if (o->kind == CLI_FLAG) {
            continue;
        }
        (void)fprintf(out, "    ");
        if (o->name[0] != '\0') {
            (void)fprintf(out, "%s:--%s%s", row->name, o->name, o->letter != 0 ? " | " : "");
        }
        if (o->letter != 0) {
            (void)fprintf(out, "%s:-%c", row->name, o->letter);
        }
        if (o->kind == CLI_FILE) {
            (void)fprintf(out, ") files=1 ;;\n");
        } else if (o->kind == CLI_WORD) {
            (void)fprintf(out, ") words=\"");
            print_words(o->value, out);
            (void)fprintf(out, "\" ;;\n");
        } else {
            (void)fprintf(out, ") return ;;\n"); /* values of any other kind cannot be completed */
        }
    }
}

/* The branch of one command in bash's `case`: its options, and what its operands are. */
static void print_bash_row(const struct cli_row *row, FILE *out)
{
    (void)fprintf(out, "    %s:*) words=\"", row->name);
    for (const struct cli_option *o = row->options; o != NULL && o->name != NULL; o++) {
        if (o->name[0] != '\0') {
            (void)fprintf(out, "--%s ", o->name);
        }
        if (o->letter != 0) {
            (void)fprintf(out, "-%c ", o->letter);
        }
    }
    if (row->operand_kind == CLI_WORD || row->verbs != NULL) {
        print_words(row->verbs != NULL ? row->verbs : row->operands, out);
        (void)fputc(' ', out);
    }
    (void)fprintf(out, "-c --json --help\"%s ;;\n",
                  row->operand_kind == CLI_FILE && row->operands_max > 0 ? " files=1" : "");
}

static void print_bash(FILE *out)
{
    (void)fputs(bash_head, out);
    for (size_t i = 0; i < cli_row_count; i++) {
        print_bash_values(&cli_rows[i], out);
    }
    for (size_t i = 0; i < cli_row_count; i++) {
        print_bash_row(&cli_rows[i], out);
    }
    (void)fprintf(out, "    :*) words=\"");
    for (size_t i = 0; i < cli_row_count; i++) {
        (void)fprintf(out, "%s ", cli_rows[i].name);
    }
    (void)fprintf(out, "-c --json --help --version\" ;;\n");
    (void)fputs(bash_tail, out);
}

/* --- zsh -------------------------------------------------------------------------------------- */

/* Print a text inside single quotes. special: characters that have a meaning of their own there */
static void print_zsh_text(const char *text, const char *special, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            (void)fputs("'\\''", out);
        } else {
            (void)fprintf(out, strchr(special, *text) != NULL ? "\\%c" : "%c", *text);
        }
    }
}

static void print_zsh_action(enum cli_kind kind, const char *value, FILE *out)
{
    (void)fputc(':', out);
    print_zsh_text(kind == CLI_WORD ? "word" : value, ":", out);
    (void)fputc(':', out);
    if (kind == CLI_FILE) {
        (void)fputs("_files", out);
    } else if (kind == CLI_WORD) {
        (void)fputc('(', out);
        print_words(value, out);
        (void)fputc(')', out);
    }
}

static void print_zsh_option(const struct cli_option *o, const char *dashes, const char *name,
                             FILE *out)
{
    (void)fprintf(out, " \\\n            '%s%s[", dashes, name);
    print_zsh_text(o->help, ":[]\\", out);
    (void)fputc(']', out);
    if (o->kind != CLI_FLAG) {
        print_zsh_action(o->kind, o->value, out);
    }
    (void)fputc('\'', out);
}

static void print_zsh_row(const struct cli_row *row, FILE *out)
{
    (void)fprintf(out, "        %s) _arguments $globals", row->name);
    for (const struct cli_option *o = row->options; o != NULL && o->name != NULL; o++) {
        const char letter[2] = {o->letter, '\0'};
        if (o->name[0] != '\0') {
            print_zsh_option(o, "--", o->name, out);
        }
        if (o->letter != 0) {
            print_zsh_option(o, "-", letter, out);
        }
    }
    if (row->verbs != NULL) {
        (void)fprintf(out, " \\\n            '1:word:(");
        print_words(row->verbs, out);
        (void)fputs(")'", out);
    }
    if (row->operands[0] != '\0') {
        (void)fprintf(out, " \\\n            '*");
        print_zsh_action(row->operand_kind, row->operands, out);
        (void)fputc('\'', out);
    }
    (void)fprintf(out, " ;;\n");
}

static void print_zsh(FILE *out)
{
    (void)fputs("#compdef sluice\n"
                "# Completion of sluice for zsh: sluice completion zsh > "
                "/usr/share/zsh/vendor-completions/_sluice\n"
                "_sluice() {\n"
                "    local context state line curcontext=$curcontext\n"
                "    local -a commands globals\n"
                "    globals=('-c[configuration]:file:_files' '--json[print data as JSON]'\n"
                "        '--help[explain the command]')\n"
                "    commands=(\n",
                out);
    for (size_t i = 0; i < cli_row_count; i++) {
        (void)fprintf(out, "        '%s:", cli_rows[i].name);
        print_zsh_text(cli_rows[i].summary, ":", out);
        (void)fprintf(out, "'\n");
    }
    (void)fputs("    )\n"
                "    _arguments -C $globals '--version[print the version]' \\\n"
                "        '1:command:->command' '*::argument:->argument'\n"
                "    case $state in\n"
                "    command) _describe command commands ;;\n"
                "    argument)\n"
                "        case $words[1] in\n",
                out);
    for (size_t i = 0; i < cli_row_count; i++) {
        print_zsh_row(&cli_rows[i], out);
    }
    (void)fputs("        esac\n"
                "        ;;\n"
                "    esac\n"
                "}\n"
                "_sluice \"$@\"\n",
                out);
}

int cli_completion(const struct cli *cli, const struct cli_args *args)
{
    if (strcmp(args->argv[0], "bash") == 0) {
        print_bash(cli->out);
    } else {
        print_zsh(cli->out);
    }
    return EX_OK;
}
