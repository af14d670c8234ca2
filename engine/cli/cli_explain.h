/* What `sluice check --explain` and `sluice explain` (cli_way.c) have in common: options with their
 * values, and where they were set. */
#ifndef ENGINE_CLI_EXPLAIN_H
#define ENGINE_CLI_EXPLAIN_H

#include "engine/config/config_option.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

struct cli;
struct cli_table;
struct config;

/* Every option of every section, with its value and where it was set, on cli->out. */
void cli_explain_all(const struct cli *cli, const struct config *c);

/* Of one section, with a line about it in front; NULL: out of memory. */
void cli_explain_section(FILE *out, const struct config *c, enum config_section section,
                         size_t index);
json_t *cli_explain_section_object(const struct config *c, enum config_section section,
                                   size_t index);

/* One option. ctx: a table begun by cli_explain_begin, or a json_t array */
typedef void cli_explain_take(void *ctx, const char *option, const char *value, const char *at);
cli_explain_take cli_explain_row, cli_explain_object;
void cli_explain_begin(struct cli_table *t);

#endif
