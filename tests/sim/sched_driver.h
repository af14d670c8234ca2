/* Drives a scheduler core by bytes and holds it to a model: every recipient is settled once, every
 * message finishes once, connections and hosts are used as announced. Shared by the random
 * simulation and the fuzz target; aborts on the first contradiction. Returns a digest of all
 * actions: the same bytes give the same ones. */
#ifndef TESTS_SIM_SCHED_DRIVER_H
#define TESTS_SIM_SCHED_DRIVER_H

#include <stddef.h>
#include <stdint.h>

uint64_t sched_driver_run(const uint8_t *data, size_t size);

#endif
