/* Answers counts of the queue; counts nothing itself. Called on the slow clerk's thread. */
#include "engine/report/counts_report.h"

#include "base/error.h"
#include "engine/census/census.h"
#include "engine/census/clerk_walk.h"

static bool take_groups(struct api_call *c, uint32_t *ret)
{
    struct slice rest;
    if (!api_param(c, "by", &rest)) {
        return true;
    }
    do {
        size_t end = slice_find(rest, ',');
        enum census_word word = census_word_find(slice_to(rest, end));
        if (word == CENSUS_WORD_COUNT) {
            api_error(c, 400, "usage",
                      "by: one or several of "
                      "tenant,campaign,domain,destination,transport,source,state,age,class,"
                      "mail_class");
            return false;
        }
        *ret |= 1u << word;
        rest = slice_from(rest, end < rest.len ? end + 1 : end);
    } while (rest.len > 0);
    return true;
}

static json_t *row_object(const struct census_result *n, const struct census_row *row,
                          bool is_other)
{
    json_t *o = json_object();
    if (o == NULL) {
        return NULL;
    }
    for (unsigned word = 0; word < CENSUS_WORD_COUNT && !is_other; word++) {
        if ((n->by & 1u << word) != 0) {
            api_set_text(o, census_word_text(word), census_row_value(n, row, word));
        }
    }
    if (is_other) {
        (void)json_object_set_new(o, "other", json_true()); /* out of memory leaves it out */
    }
    api_set_number(o, "recipients", row->recipients);
    api_set_number(o, "messages", row->messages);
    api_set_time(o, "oldest", row->oldest);
    return o;
}

static void answer_counts(struct api_call *c, const struct census_result *n, uint64_t limit)
{
    size_t shown = 0;
    for (; shown < n->row_count && shown < limit && !api_is_long(c); shown++) {
        api_put(c, row_object(n, &n->rows[shown], false));
    }
    if (n->other.recipients > 0) {
        api_put(c, row_object(n, &n->other, true));
    }
    json_t *end = json_object();
    if (end != NULL) {
        api_set_time(end, "as_of", n->as_of);
        (void)json_object_set_new(end, "took", api_time(n->took)); /* out of memory leaves it out */
        api_set_number(end, "recipients", n->recipients);
        api_set_number(end, "messages", n->messages);
        if (api_tenant(c).len == 0) { /* nobody knows whose a damaged message is */
            api_set_number(end, "damaged", n->damaged);
        }
    }
    api_end_with(c, shown < n->row_count, end);
}

void counts_report_list(struct clerk *k, struct api_call *c)
{
    struct census_query query = {0};
    const struct census_result *n;
    uint64_t limit;
    if (take_groups(c, &query.by) && api_param_limit(c, &limit) && clerk_filter(c, &query.filter)) {
        int err = census_run(k, &query, &n);
        if (err == 0) {
            answer_counts(c, n, limit);
        } else {
            clerk_walk_error(k, c, err);
        }
    }
    queue_filter_fini(&query.filter);
}
