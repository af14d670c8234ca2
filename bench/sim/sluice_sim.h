/* The subcommands of sluice-sim; each returns the exit status of the program. */
#ifndef BENCH_SLUICE_SIM_H
#define BENCH_SLUICE_SIM_H

int sim_script(int argc, char **argv);
int sim_scale(int argc, char **argv);
int sim_tables(int argc, char **argv);
int sim_pace(int argc, char **argv);
int sim_waits(int argc, char **argv);
int sim_cluster(int argc, char **argv);
int sim_log(int argc, char **argv);
int sim_day(int argc, char **argv);
int sim_flows(int argc, char **argv);

#endif
