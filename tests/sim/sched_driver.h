/* Drives a scheduler core by bytes and holds it to a model: every recipient is settled once, every
 * message finishes once, connections and hosts are used as announced. Shared by the random
 * simulation and the fuzz target; aborts on the first contradiction. */
#ifndef TESTS_SIM_SCHED_DRIVER_H
#define TESTS_SIM_SCHED_DRIVER_H

#include <stddef.h>
#include <stdint.h>

void sched_driver_run(const uint8_t *data, size_t size);

#endif
