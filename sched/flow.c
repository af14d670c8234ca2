/* Flows, see sched/flow.h. Called by the public calls. */
#include "sched/flow.h"

#include "sched/candidate.h"
#include "sched/job.h"
#include "sched/parking.h"

#include <string.h>

void flow_init(struct flow *f)
{
    memset(f, 0, sizeof(*f));
    f->tag = 1;
    job_init_lists(f);
    parking_init(f);
    candidate_init(f);
}
