/* Counts for handlers: those made last are kept for a moment, so that several people who look at
 * the same page cost one walk. Called on a clerk's thread; what is kept belongs to that clerk. */
#include "engine/census/census.h"
#include "engine/census/clerk_walk.h"
#include "engine/http/clerk.h"

#include <errno.h>
#include <stdlib.h>

struct census_memo {
    struct census_query query;
    struct label owner; /* for whom it was counted */
    struct census_result *result;
    usec_t kept_until; /* monotonic */
};

static void memo_free(struct census_memo *m)
{
    if (m != NULL) {
        queue_filter_fini(&m->query.filter);
        census_result_free(m->result);
        free(m);
    }
}

/* Whether two queries ask for the same counts. Their limits of age are times, which differ between
 * two equal requests by the time that passed between them. */
static bool query_eq(const struct census_query *a, const struct census_query *b)
{
    struct queue_filter x = a->filter, y = b->filter;
    usec_t apart = x.created_before - y.created_before;
    bool is_near = (x.created_before == 0) == (y.created_before == 0) && apart <= CENSUS_KEPT &&
                   apart >= -CENSUS_KEPT;
    x.created_before = y.created_before = 0;
    return a->by == b->by && is_near && queue_filter_eq(&x, &y);
}

int census_run(struct clerk *k, const struct census_query *query, const struct census_result **ret)
{
    const struct label owner = clerk_owner(k);
    if (k->census != NULL && clock_mono() < k->census->kept_until &&
        slice_eq(label_slice(&k->census->owner), label_slice(&owner)) &&
        query_eq(&k->census->query, query)) {
        *ret = k->census->result;
        return 0;
    }
    memo_free(k->census);
    k->census = NULL;
    struct queue_source from;
    struct census_memo *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return -ENOMEM;
    }
    m->query.by = query->by;
    m->owner = owner;
    int err = queue_filter_copy(&m->query.filter, &query->filter);
    if (err == 0) {
        clerk_source(k, &from);
        err = census_take(&from, query, &m->result);
    }
    if (err != 0) {
        memo_free(m);
        return err;
    }
    usec_t kept = 3 * m->result->took > CENSUS_KEPT ? 3 * m->result->took : CENSUS_KEPT;
    m->kept_until = clock_mono() + kept;
    k->census = m;
    k->free_census = memo_free;
    *ret = m->result;
    return 0;
}
