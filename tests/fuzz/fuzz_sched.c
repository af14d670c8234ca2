/* Bytes to operations on the scheduler core, held to the model of tests/sim/sched_driver.c. */
#include "tests/sim/sched_driver.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sched_driver_run(data, size);
    return 0;
}
