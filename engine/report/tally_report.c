/* Reads the tally, which the spool writer keeps; changes nothing. Called on a clerk's thread. */
#include "engine/report/tally_report.h"

#include "engine/http/clerk.h"
#include "engine/schedule/flow_figures.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tally/queue_count.h"
#include "engine/tally/responses.h"
#include "engine/tally/tally.h"

#include <stdlib.h>

enum { RESPONSES_DEFAULT = 50 };

/* --- tenants ---------------------------------------------------------------------------------- */

static uint64_t recipients(const struct tally_row *r)
{
    return tally_row_value(r, TALLY_RECIPIENTS) + tally_row_value(r, TALLY_DELIVERED) +
           tally_row_value(r, TALLY_DEFERRED) + tally_row_value(r, TALLY_FAILED) +
           tally_row_value(r, TALLY_EXPIRED) + tally_row_value(r, TALLY_DROPPED);
}

struct ranked {
    uint64_t weight;
    const struct tally_row *row;
};

static int compare_rows(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

/* What it has in memory now. */
static void set_figure(json_t *o, const struct flow_figure *f)
{
    api_set_number(o, "weight", f->weight);
    api_set_number(o, "in_memory", f->recipients);
    api_set_number(o, "waiting", f->waiting);
    api_set_number(o, "connections", f->held);
    api_set_number(o, "longest_wait", (uint64_t)(f->longest / USEC_PER_SEC));
}

static json_t *tenant_object(const struct engine *e, const struct flow_figures *figures,
                             const struct tally_row *r)
{
    static const struct {
        const char *name;
        enum tally_value value;
    } members[] = {
        {"received", TALLY_RECEIVED}, {"recipients", TALLY_RECIPIENTS},
        {"bytes", TALLY_BYTES},       {"delivered", TALLY_DELIVERED},
        {"deferred", TALLY_DEFERRED}, {"failed", TALLY_FAILED},
        {"expired", TALLY_EXPIRED},   {"dropped", TALLY_DROPPED},
        {"content", TALLY_CONTENT},   {"policy", TALLY_POLICY},
        {"lowered", TALLY_LOWERED},   {"suppressed", TALLY_SUPPRESSED},
    };
    json_t *o = json_object();
    bool is_other = r == tally_table_row(e->tally->tenants, TALLY_ROW_OTHER);
    uint64_t limit = queue_count_limit(settings_of(e)->config, tally_row_name(r));
    if (o != NULL) {
        api_set_text(o, "tenant", tally_row_name(r));
        if (limit > 0 && !is_other) {
            api_set_number(o, "queued", queue_count_of(e->tally->queued, tally_row_name(r)));
            api_set_number(o, "queue_limit", limit);
        }
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
            api_set_number(o, members[i].name, tally_row_value(r, members[i].value));
        }
        const struct flow_figure *f = is_other ? NULL : flow_figures_of(figures, tally_row_name(r));
        if (f != NULL) {
            set_figure(o, f);
        }
    }
    return o;
}

void tally_report_tenants(struct clerk *k, struct api_call *c)
{
    const struct tally_table *t = k->engine->tally->tenants;
    uint32_t rows = tally_table_rows(t), count = 0;
    struct flow_figures figures;
    struct ranked *list = calloc(rows, sizeof(*list));
    if (list == NULL || flow_figures_take(k->engine, &figures) != 0) {
        free(list);
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    for (uint32_t i = 0; i < rows; i++) {
        const struct tally_row *row = tally_table_row(t, i);
        struct ranked r = {recipients(row), row};
        /* A name has a row when something was counted, or was queued at the start. */
        if (r.weight > 0 || i > TALLY_ROW_OTHER ||
            (i == TALLY_ROW_NONE && flow_figures_of(&figures, SLICE("")) != NULL)) {
            list[count++] = r;
        }
    }
    qsort(list, count, sizeof(*list), compare_rows);
    for (uint32_t i = 0; i < count; i++) {
        api_put(c, tenant_object(k->engine, &figures, list[i].row));
    }
    flow_figures_fini(&figures);
    free(list);
    api_end(c, false);
}

/* --- responses -------------------------------------------------------------------------------- */

static int compare_responses(const void *a, const void *b)
{
    const struct response_view *x = a, *y = b;
    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    return (x->last < y->last) - (x->last > y->last);
}

static json_t *name_list(const struct slice *names, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, api_text(names[i])); /* out of memory: one less */
    }
    return list;
}

static json_t *response_object(const struct response_view *v)
{
    json_t *o =
        json_pack("{s:s, s:o, s:o}", "kind", v->kind == RESULT_FAILED ? "failed" : "deferred",
                  "destinations", name_list(v->destinations, v->destination_count), "tenants",
                  name_list(v->tenants, v->tenant_count));
    if (o != NULL) {
        api_set_text(o, "text", v->text);
        api_set_text(o, "example", v->example);
        if (v->code != 0) {
            api_set_number(o, "code", v->code);
        }
        api_set_text(o, "status", v->status);
        api_set_text(o, "class", slice_of(reply_class_text(v->class)));
        api_set_number(o, "count", v->count);
        api_set_time(o, "first", v->first);
        api_set_time(o, "last", v->last);
    }
    return o;
}

void tally_report_responses(struct clerk *k, struct api_call *c)
{
    uint64_t limit;
    if (!api_param_number(c, "limit", 1, RESPONSES_MAX, RESPONSES_DEFAULT, &limit)) {
        return;
    }
    struct response_view *list = calloc(RESPONSES_MAX, sizeof(*list));
    uint32_t cursor = 0, count = 0;
    if (list == NULL) {
        api_error(c, 503, "unavailable", "out of memory");
        return;
    }
    while (count < RESPONSES_MAX &&
           responses_next(k->engine->tally->responses, &cursor, &list[count])) {
        count++;
    }
    qsort(list, count, sizeof(*list), compare_responses);
    for (uint32_t i = 0; i < count && i < limit; i++) {
        api_put(c, response_object(&list[i]));
    }
    free(list);
    api_end(c, count > limit);
}
