/* `sluice run`: the daemon in the foreground. */
#include "engine/cli.h"
#include "engine/engine.h"

#include <sysexits.h>

int cli_run(const struct cli *cli, int argc, char **argv)
{
    struct config *config = NULL;
    if (argc > 1) {
        (void)fprintf(cli->err, "sluice run: \"%s\" is not understood\n", argv[1]);
        return EX_USAGE;
    }
    int code = cli_config(cli, &config);
    if (code == 0) {
        code = engine_run(config);
    }
    config_free(config);
    return code;
}
