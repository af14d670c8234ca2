/* `sluice run`: the daemon in the foreground. */
#include "engine/cli/cli.h"
#include "engine/engine_run.h"

#include <sysexits.h>

int cli_run(const struct cli *cli, const struct cli_args *args)
{
    struct config *config = NULL;
    (void)args; /* the command has no arguments */
    int code = cli_config(cli, true, &config);
    if (code == 0) {
        code = engine_run(config, NULL);
    }
    config_free(config);
    return code;
}
