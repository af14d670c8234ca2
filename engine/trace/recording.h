/* A worker's flight recorder, as large as trace_memory in force allows. Thread: that worker. */
#ifndef ENGINE_RECORDING_H
#define ENGINE_RECORDING_H

struct flight_recorder;
struct worker;

/* The recorder with its part of trace_memory by now. A smaller budget takes away what is recorded
 * beyond it. NULL: nothing is recorded, because trace_memory is 0 or memory is short. */
struct flight_recorder *recording_of(struct worker *w);

#endif
