/* Arrival times by count: nothing that the server does moves them, or a stall of the server would
 * thin out the very messages that would have shown it. Called by the load. */
#include "bench/tool/arrivals.h"

#include "base/error.h"
#include "bench/tool/draw.h"
#include "bench/tool/options.h"

#include <math.h>
#include <string.h>

int arrivals_parse(struct arrivals *a, const char *text)
{
    uint64_t burst = 1;
    if (strcmp(text, "poisson") == 0) {
        a->kind = ARRIVALS_POISSON;
    } else if (strcmp(text, "even") == 0) {
        a->kind = ARRIVALS_EVEN;
    } else if (strncmp(text, "burst:", 6) == 0 &&
               options_integer(text + 6, UINT32_MAX, &burst) == 0 && burst >= 1) {
        a->kind = ARRIVALS_BURST;
    } else {
        return ERR_SYNTAX;
    }
    a->burst = (uint32_t)burst;
    return 0;
}

usec_t arrivals_next(struct arrivals *a)
{
    const double second = (double)USEC_PER_SEC;
    uint64_t number = a->count++;
    uint64_t first = number - number % a->burst; /* of its burst */
    double due = a->gaps;
    switch (a->kind) {
    case ARRIVALS_POISSON:
        a->gaps -= log(draw_uniform(draw_bits(a->seed, DRAW_ARRIVAL, number))) / a->rate * second;
        break;
    case ARRIVALS_EVEN:
        due = (double)number * second / a->rate;
        break;
    case ARRIVALS_BURST:
        due = (double)first * second / a->rate;
        break;
    }
    return (usec_t)due;
}
