/* The parser of every command's options. Called by cli.c before a command runs. Pure but for the
 * printing. */
#include "engine/cli/cli_options.h"

#include "base/error.h"
#include "base/span.h"
#include "engine/cli/cli.h"
#include "engine/http/api.h"

#include <assert.h>
#include <string.h>

static bool is_number(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= 9 && strspn(text, "0123456789") == len;
}

static bool is_id(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= 16 && strspn(text, "0123456789abcdefABCDEF") == len;
}

static bool is_word(const char *words, const char *text)
{
    size_t len = strlen(text);
    for (const char *word = words; word != NULL; word = strchr(word, '|')) {
        word += *word == '|' ? 1 : 0;
        if (strncmp(word, text, len) == 0 && (word[len] == '|' || word[len] == '\0') && len > 0) {
            return true;
        }
    }
    return false;
}

/* NULL when the value fits its kind, else what would. */
static const char *misfit(const struct cli_option *o, const char *value)
{
    usec_t span;
    switch (o->kind) {
    case CLI_NUMBER:
        return is_number(value) ? NULL : "a number";
    case CLI_SPAN:
        return span_parse(slice_of(value), &span) ? NULL : "a span such as 90s, 15m or 2h";
    case CLI_ID:
        return is_id(value) ? NULL : "the id of a message";
    case CLI_WORD:
        return is_word(o->value, value) ? NULL : o->value;
    case CLI_FLAG:
    case CLI_TEXT:
    case CLI_FILE:
        break;
    }
    return NULL;
}

/* The option that the argument names. ret_value: what stands in the same argument, or NULL. */
static const struct cli_option *find_cli_option(const struct cli_option *options,
                                                const char *argument, const char **ret_value)
{
    *ret_value = NULL;
    for (const struct cli_option *o = options; o != NULL && o->name != NULL; o++) {
        size_t len = strlen(o->name);
        if (argument[1] != '-') {
            if (argument[1] == o->letter) {
                *ret_value = argument[2] == '\0' ? NULL : argument + 2;
                return o;
            }
        } else if (len > 0 && strncmp(argument + 2, o->name, len) == 0 &&
                   (argument[2 + len] == '\0' || argument[2 + len] == '=')) {
            *ret_value = argument[2 + len] == '=' ? argument + 3 + len : NULL;
            return o;
        }
    }
    return NULL;
}

/* Take one option, with the next argument where that is its value. */
static int take_option(const struct cli_option *options, int argc, char **argv, int *at,
                       struct cli_args *ret, char ret_text[200])
{
    const char *value, *argument = argv[*at];
    const struct cli_option *o = find_cli_option(options, argument, &value);
    if (o == NULL || (o->kind == CLI_FLAG && value != NULL)) {
        (void)snprintf(ret_text, 200, "%.150s is not understood", argument);
        return ERR_SYNTAX;
    }
    if (o->kind == CLI_FLAG) {
        value = "";
    } else if (value == NULL) {
        if (*at + 1 == argc) {
            (void)snprintf(ret_text, 200, "%.150s needs %s", argument, o->value);
            return ERR_SYNTAX;
        }
        value = argv[++*at];
    }
    const char *wanted = misfit(o, value);
    if (wanted != NULL) {
        (void)snprintf(ret_text, 200, "%.50s: \"%.60s\" is not %.70s", argument, value, wanted);
        return ERR_SYNTAX;
    }
    if (ret->values[o - options] != NULL) {
        (void)snprintf(ret_text, 200, "%.150s is given twice", argument);
        return ERR_SYNTAX;
    }
    ret->values[o - options] = value;
    return 0;
}

int cli_options_parse(const struct cli_row *row, int argc, char **argv, struct cli_args *ret,
                      char ret_text[200])
{
    int kept = 0, i = 0;
    *ret = (struct cli_args){.row = row, .argc = argc, .argv = argv};
    if (row->is_raw) {
        return 0;
    }
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[kept++] = argv[i];
            continue;
        }
        int err = take_option(row->options, argc, argv, &i, ret, ret_text);
        if (err != 0) {
            return err;
        }
    }
    for (i++; i < argc; i++) {
        argv[kept++] = argv[i];
    }
    ret->argc = kept;
    if (kept > row->operands_max) {
        (void)snprintf(ret_text, 200, "\"%.150s\" is not understood", argv[row->operands_max]);
        return ERR_SYNTAX;
    }
    if (kept < row->operands_min) {
        (void)snprintf(ret_text, 200, "%.100s is missing", row->operands);
        return ERR_SYNTAX;
    }
    const struct cli_option operand = {.kind = row->operand_kind, .value = row->operands};
    for (i = 0; i < kept; i++) {
        const char *wanted = misfit(&operand, argv[i]);
        if (wanted != NULL) {
            (void)snprintf(ret_text, 200, "\"%.100s\" is not %.80s", argv[i], wanted);
            return ERR_SYNTAX;
        }
    }
    return 0;
}

/* Its place in the row's options; false: the row has none of that name. */
static bool find_place(const struct cli_args *args, const char *name, size_t *ret)
{
    const struct cli_option *options = args->row->options;
    for (size_t i = 0; options != NULL && options[i].name != NULL; i++) {
        if (strcmp(options[i].name, name) == 0 ||
            (name[0] == options[i].letter && name[1] == '\0')) {
            *ret = i;
            return true;
        }
    }
    return false;
}

const char *cli_value(const struct cli_args *args, const char *name)
{
    size_t place = 0;
    bool is_there = find_place(args, name, &place);
    assert(is_there && "no such option in the command's row");
    return args->values[place];
}

const char *cli_given(const struct cli_args *args, const char *name)
{
    size_t place = 0;
    return find_place(args, name, &place) ? args->values[place] : NULL;
}

bool cli_has(const struct cli_args *args, const char *name)
{
    return cli_value(args, name) != NULL;
}

void cli_options_print(const struct cli_option *options, FILE *out)
{
    for (const struct cli_option *o = options; o != NULL && o->name != NULL; o++) {
        char text[100];
        const char *value = o->value == NULL ? "" : o->value;
        const char *space = o->value == NULL ? "" : " ";
        if (o->name[0] == '\0') {
            (void)snprintf(text, sizeof(text), "-%c%s%s", o->letter, space, value);
        } else if (o->letter != 0) {
            (void)snprintf(text, sizeof(text), "-%c, --%s%s%s", o->letter, o->name, space, value);
        } else {
            (void)snprintf(text, sizeof(text), "--%s%s%s", o->name, space, value);
        }
        if (strlen(text) > 24) {
            (void)fprintf(out, "  %s\n  %-24s  %s\n", text, "", o->help);
        } else {
            (void)fprintf(out, "  %-24s  %s\n", text, o->help);
        }
    }
}
