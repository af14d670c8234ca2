/* The file `counters` in the spool, by which the counters of /metrics go on over a restart. It is there
 * only while no daemon runs: who starts takes it away, so that a crash cannot bring old numbers back.
 *
 * Thread: main, before any other thread is made and after all have ended. */
#ifndef ENGINE_COUNTER_FILE_H
#define ENGINE_COUNTER_FILE_H

struct engine;

/* Adds what the last run counted. A file that cannot be read is told of, and taken away all the same. */
void counter_file_take(struct engine *e);
/* Writes it; a failure is logged, and the next run begins at 0. */
void counter_file_leave(struct engine *e);

#endif
