/* A reload: the configuration file is read again, and settings made of it replace those in force.
 * Done by the main thread, when SIGHUP comes or somebody asks; all or nothing: with a mistake in
 * the file, or a file that it names which cannot be read, the old settings stay.
 *
 * What only a restart can change is left out and listed. Sessions and connections that are open go
 * on by the settings with which they began; where the way in which a transport connects has changed
 * (config_change_is_same_way), its scheduler has hosts looked up again and gives no further mail to
 * the connections that are open. Mail that a scheduler holds keeps its route.
 *
 * Concurrency: a question is published in an atomic pointer, of which there is one, and the main
 * thread woken by a signal; who asks sleeps until it is answered. */
#ifndef ENGINE_RELOAD_H
#define ENGINE_RELOAD_H

#include "base/attr.h"
#include "engine/http/api.h"

#include <signal.h>
#include <stdbool.h>

struct engine;

/* Wakes the main thread for a question. */
#define RELOAD_SIGNAL SIGUSR1

struct reloader;

/* Main, when all threads exist. errors: -ENOMEM */
MUST_USE int reloader_new(struct engine *engine, struct reloader **ret);
void reloader_free(struct reloader *r); /* accepts NULL */
/* SIGHUP: reload, and open the event log again. Main. */
void reloader_hang_up(struct reloader *r);
/* Reload, and say whether the file is in force: what could not be started again is not. Main. */
MUST_USE bool reloader_try(struct reloader *r);
/* RELOAD_SIGNAL: answer who asked. Main. */
void reloader_answer(struct reloader *r);
/* Have main look at what it waits for. A clerk. */
void reloader_wake(struct reloader *r);
/* No question is answered from now on. Main, before it waits for any thread. */
void reloader_close(struct reloader *r);

/* POST /v1/reload
 *   200  reloaded true, file, serial, warnings [TEXT], restart [{option, at, why}]
 *   422  error, code, complaints [TEXT], warnings [TEXT]: the old configuration stays in force */
api_handler reload_run;

#endif
