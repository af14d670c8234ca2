/* What `sluice check --explain` has from `sluice explain`. */
#ifndef ENGINE_CLI_EXPLAIN_H
#define ENGINE_CLI_EXPLAIN_H

struct cli;
struct config;

/* Every option of every section, with its value and where it was set, on cli->out. */
void cli_explain_all(const struct cli *cli, const struct config *c);

#endif
