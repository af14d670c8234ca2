/* The program `sluice`. Everything it does is in cli.c and the files of the commands. */
#include "engine/cli.h"

int main(int argc, char **argv)
{
    struct cli cli = {.in = stdin, .out = stdout, .err = stderr};
    return cli_main(&cli, argc, argv);
}
