/* Random operations on the scheduler core. usage: sched_random [SEED [RUNS]] */
#include "tests/chance.h"
#include "tests/sim/sched_driver.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef SLUICE_SANITIZED
#define RUNS 800
#else
#define RUNS 3500
#endif

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : RUNS;
    uint64_t checksum = 0;
    for (uint64_t run = 0; run < runs; run++) {
        uint8_t data[2000];
        uint64_t state = (seed + run) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        size_t size = 40 + chance_next(&state) % (sizeof(data) - 40);
        for (size_t i = 0; i < size; i++) {
            data[i] = (uint8_t)(chance_next(&state) >> 32);
        }
        if (run % 1000 == 0) {
            (void)printf("seed %llu\n", (unsigned long long)(seed + run));
            (void)fflush(stdout);
        }
        checksum = (checksum << 1 | checksum >> 63) ^ sched_driver_run(data, size);
    }
    (void)printf("checksum %016llx\n", (unsigned long long)checksum);
    return 0;
}
