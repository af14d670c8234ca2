/* Refusals that are owed. Called by sched/limit/pace.c for each verdict and for trials; must not know
 * what a trial is. */
#include "sched/limit/debt.h"

#define SPAN  (12 * USEC_PER_SEC) /* one may be refused in each */
#define PART  0.01                /* and so many of those accepted */
#define MOST  6.0
#define HEAVY 2.0

static void pay(struct debt *d, usec_t now)
{
    d->units -= (double)(now - d->at) / SPAN;
    d->units = d->units > 0 ? d->units : 0;
    d->units = d->units < MOST ? d->units : MOST;
    d->at = now;
}

void debt_accepted(struct debt *d, uint32_t n)
{
    d->units -= n * PART; /* less than nothing is nothing as soon as it is looked at */
}

void debt_refused(struct debt *d, uint32_t n, usec_t now)
{
    pay(d, now);
    d->units += n;
}

usec_t debt_span(struct debt *d, usec_t now)
{
    pay(d, now);
    return (usec_t)(d->units * SPAN);
}

bool debt_is_heavy(struct debt *d, usec_t now)
{
    pay(d, now);
    return d->units >= HEAVY;
}
