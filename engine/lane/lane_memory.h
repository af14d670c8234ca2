/* The file in the spool folder with what lanes learned and what operators ordered of them. Any thread
 * that may wait for the disk; struct limits lets one of them write at a time. */
#ifndef ENGINE_LANE_MEMORY_H
#define ENGINE_LANE_MEMORY_H

struct engine;

/* Takes over what the last run of the daemon learned; before any scheduler thread is made. A file
 * that cannot be read is left alone, and told of. */
void lane_memory_recall(struct engine *e);
/* Replaces the file; a failure is logged, and the older file stays. Who is online for RCU is offline
 * meanwhile: pointers that RCU guards are not kept over the call. */
void lane_memory_keep(const struct engine *e);

#endif
