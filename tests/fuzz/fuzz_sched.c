/* Bytes to operations on the scheduler core, held to the model of tests/sim/sched_driver.c; and as
 * the text of a feedback. */
#include "sched/sched.h"
#include "tests/sim/sched_driver.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_feedback(const uint8_t *data, size_t size)
{
    char text[48] = "";
    memcpy(text, data, size < sizeof(text) ? size : sizeof(text) - 1);
    struct sched_feedback f;
    for (int rule = SCHED_RULE_README; rule <= SCHED_RULE_POSTFIX3; rule++) {
        int err = sched_feedback_parse(text, (enum sched_feedback_rule)rule, &f);
        assert(err != 0 || (f.base >= 0 && f.base <= 1));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        parse_feedback(data, size);
    }
    (void)sched_driver_run(data, size);
    return 0;
}
