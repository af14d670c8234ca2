/* The program `sluice`. Everything it does is in cli.c and the files of the commands. */
#include "engine/cli/cli.h"

/* Read by jemalloc. Its own thread gives freed pages back: without it they stay after a burst until
 * a thread that has work comes by, and 10,000 idle connections hold half as much memory again. */
const char *malloc_conf = "background_thread:true";

int main(int argc, char **argv)
{
    struct cli cli = {.in = stdin, .out = stdout, .err = stderr};
    return cli_main(&cli, argc, argv);
}
