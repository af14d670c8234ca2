/* sluice-sim: the real scheduler core without network, threads or clock. */
#include "bench/sim/sluice_sim.h"

#include <stdio.h>
#include <string.h>

static int usage(void)
{
    (void)fputs(
        "usage: sluice-sim script FILE...\n"
        "       sluice-sim scale [--jobs N] [--destinations N] [--in-flight N] [--size N] "
        "[--rounds N]\n"
        "                        [--sites N [--apart]] [--beside JOBS] [--json]\n"
        "       sluice-sim tables [--table 1|2|3] [--seed N] [--json]\n"
        "       sluice-sim pace [--short] [--seed N] [--json | --verbose]\n"
        "       sluice-sim waits [--seed N] [--json]\n"
        "       sluice-sim flows [--short] [--json]\n"
        "       sluice-sim day [--short] [--seed N] [--json]\n"
        "       sluice-sim cluster [--seed N]\n"
        "       sluice-sim log [--rate N] [--gbit N] [--disk MB/S] [--sync USEC] [--way USEC] "
        "| --one-machine\n",
        stderr);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        return usage();
    }
    if (strcmp(argv[1], "script") == 0 && argc > 2) {
        return sim_script(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "scale") == 0) {
        return sim_scale(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "tables") == 0) {
        return sim_tables(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "pace") == 0) {
        return sim_pace(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "waits") == 0) {
        return sim_waits(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "flows") == 0) {
        return sim_flows(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "day") == 0) {
        return sim_day(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "cluster") == 0) {
        return sim_cluster(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "log") == 0) {
        return sim_log(argc - 2, argv + 2);
    }
    return usage();
}
