/* What a command takes, as a table: the one parser of options, the help, the completion and the man
 * page all read it, so that they agree. */
#ifndef ENGINE_CLI_OPTIONS_H
#define ENGINE_CLI_OPTIONS_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What stands behind an option, or as an operand; completion offers what fits. */
enum cli_kind {
    CLI_FLAG, /* nothing stands behind it */
    CLI_TEXT,
    CLI_NUMBER, /* a whole number, at most 9 digits */
    CLI_SPAN,   /* 90s, 15m, 2h, 5d, 1w */
    CLI_ID,     /* of a message: up to 16 hex digits */
    CLI_FILE,
    CLI_WORD, /* one of the words that the row's `value` lists: "a|b|c" */
};

struct cli_option {
    const char *name; /* "limit" for --limit; "" for one that has a letter only */
    char letter;      /* 'n' for -n; 0: none */
    enum cli_kind kind;
    const char *value; /* what the help calls it: "N"; NULL for a flag */
    const char *help;
};

#define CLI_OPTIONS_MAX 32

struct cli_row;

/* A command line, parsed. */
struct cli_args {
    const struct cli_row *row;
    const char *values[CLI_OPTIONS_MAX]; /* by place in the row's options; NULL: not given */
    int argc;                            /* operands, or everything when the row is raw */
    char **argv;                         /* [argc + 1], argv[0] is the first operand */
};

/* Options may stand anywhere before "--", as --name VALUE, --name=VALUE, -n VALUE or -nVALUE; each
 * once. argv is reordered. Values are checked for their kind.
 *
 * argc, argv   without the command's name
 * ret_text     what is wrong
 * errors       ERR_SYNTAX */
MUST_USE int cli_options_parse(const struct cli_row *row, int argc, char **argv,
                               struct cli_args *ret, char ret_text[200]);

/* The value of an option of the row, NULL when it was not given. The name must be in the row. */
const char *cli_value(const struct cli_args *args, const char *name);
/* The same; also NULL when the row has no such option. */
const char *cli_given(const struct cli_args *args, const char *name);
bool cli_has(const struct cli_args *args, const char *name);

/* "  --limit N    text", aligned, of every option. */
void cli_options_print(const struct cli_option *options, FILE *out);

#endif
