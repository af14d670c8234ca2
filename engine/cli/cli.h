/* The commands of the `sluice` program. Each is a row of cli_rows.c and a function in the cli_*.c
 * of its noun. Everything here runs on the main thread and writes to the streams it was given. */
#ifndef ENGINE_CLI_H
#define ENGINE_CLI_H

#include "base/attr.h"
#include "engine/cli/cli_options.h"
#include "engine/config/config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct reply_matcher;
struct reply_set;

struct cli {
    const char *config_path; /* -c, or the default */
    bool is_json;            /* --json */
    /* What a command asks about (its row has the options): one node of the cluster by name, or all of
     * them; else the node that is asked. */
    const char *node;  /* --node; NULL: not given */
    bool is_all_nodes; /* --all-nodes */
    FILE *in, *out, *err;
};

/* Global options are gone. Returns an exit code of sysexits.h. */
typedef int cli_command(const struct cli *cli, const struct cli_args *args);

struct cli_row {
    const char *name;
    cli_command *run;
    const char *operands; /* as in the synopsis: "[TEXT]", "ID", "" */
    int operands_min, operands_max;
    enum cli_kind operand_kind;       /* CLI_TEXT, CLI_ID ... */
    const char *verbs;                /* words that may stand first, "a|b"; NULL: none */
    const struct cli_option *options; /* ends with a NULL name; NULL: none */
    const char *summary;
    const char *help; /* "" or lines that say more, each with its \n */
    bool is_raw;      /* the command parses its arguments itself; `options` is for the help only */
};

extern const struct cli_row cli_rows[];
extern const size_t cli_row_count;
/* NULL: there is none. */
const struct cli_row *cli_row_find(const char *name);

cli_command cli_explain;  /* cli_explain.c */
cli_command cli_classify; /* cli_classify.c */
/* `classify --unknown`: the replies that no rule of the set knew. returns an exit code */
int cli_unknown(const struct cli *cli, const struct cli_args *args, const struct reply_set *set,
                struct reply_matcher *m);
cli_command cli_dkim;    /* cli_dkim.c */
cli_command cli_restart; /* cli_drain.c */
cli_command cli_drain;   /* cli_drain.c */
cli_command cli_reload;  /* cli_drain.c */
cli_command cli_run, cli_check, cli_send, cli_version;
cli_command cli_messages, cli_message;                                /* cli_messages.c */
cli_command cli_destinations, cli_hosts, cli_transports, cli_sources; /* cli_destinations.c */
cli_command cli_sites;                                                /* cli_sites.c */
cli_command cli_suppress, cli_suppressions;                           /* cli_suppress.c */
cli_command cli_heard, cli_return_keys;                               /* cli_suppress.c */
cli_command cli_lanes;                                                /* cli_lanes.c */
cli_command cli_counts;                                               /* cli_counts.c */
cli_command cli_tenants, cli_responses;                               /* cli_tally.c */
cli_command cli_why;                                                  /* cli_why.c */
cli_command cli_order, cli_resume, cli_orders, cli_flush;             /* cli_orders.c */
cli_command cli_events;                                               /* cli_events.c */
cli_command cli_inject;                                               /* cli_inject.c */
cli_command cli_cluster;                                              /* cli_status.c */
cli_command cli_status;                                               /* cli_status.c */
cli_command cli_repair;                                               /* cli_repair.c */
cli_command cli_trace;                                                /* cli_trace.c */

struct buf;
/* Add the parameters of the options that say which mail is meant; the row has all of them. */
void cli_filter(struct buf *url, const struct cli_args *args);

cli_command cli_top; /* cli_top.c */

/* What these commands print of one object; ctx: a FILE. */
void cli_why_print(void *ctx, const json_t *o);
void cli_trace_print(void *ctx, const json_t *o);
void cli_status_print(void *ctx, const json_t *o);

cli_command cli_completion; /* cli_completion.c */
cli_command cli_help;       /* cli_manual.c */

/* Print all commands; cli_print_help prints one command with its options. */
void cli_print_usage(FILE *out);
void cli_print_help(const struct cli_row *row, FILE *out);

/* Load cli->config_path with complaints on cli->err. tells_warnings: of what works as well; for who
 * starts with the file. errors: the exit code (EX_CONFIG, EX_NOINPUT); 0 when *ret is set */
MUST_USE int cli_config(const struct cli *cli, bool tells_warnings, struct config **ret);

/* The whole program: options, table, command. */
int cli_main(struct cli *cli, int argc, char **argv);

#endif
