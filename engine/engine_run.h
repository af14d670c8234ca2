/* Start and stop of the engine, by the daemon's command and by a program that embeds it. */
#ifndef ENGINE_ENGINE_RUN_H
#define ENGINE_ENGINE_RUN_H

#include <signal.h>

struct config;
struct engine;

/* A program that embeds the engine. */
struct engine_host {
    void (*built)(void *ctx, struct engine *e);   /* everything is there, no thread runs yet */
    void (*running)(void *ctx, struct engine *e); /* all threads run */
    void *ctx;
};

/* Ends an embedded engine, sent to the thread that runs it. */
#define ENGINE_STOP_SIGNAL SIGUSR2

/* Run the engine until SIGTERM or SIGINT.
 *
 * config   outlives the call
 * host     NULL: the daemon. Else signals of the process are left alone, and it runs until
 *          ENGINE_STOP_SIGNAL
 * thread   main, or the host's for it; blocks all signals before the first thread
 * returns  exit code of sysexits.h: 0 after an orderly stop, 73/75/78 with a message in the log
 *          when it could not start */
int engine_run(const struct config *config, const struct engine_host *host);

#endif
