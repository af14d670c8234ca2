/* The counters from and to JSON. Called by main at start and stop; must not know where the text is
 * kept, or what a counter means. */
#include "engine/tally/tally_memory.h"

#include "base/error.h"
#include "engine/tally/tally.h"

#include <jansson.h>
#include <stdlib.h>

enum { SPAN_VALUES = TALLY_SPAN_BOUNDS + 2 }; /* the buckets and the sum */

static uint64_t counter_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* NULL when out of memory, which json_object_set_new understands. */
static json_t *values_of(const _Atomic uint64_t *counters, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, json_integer((json_int_t)counter_of(&counters[i])));
    }
    return list;
}

static json_t *rows_of(const struct tally_table *t)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < tally_table_rows(t); i++) {
        const struct tally_row *r = tally_table_row(t, i);
        char name[TALLY_NAME_MAX + 1] = "";
        memcpy(name, r->name, r->name_len);
        if (i != TALLY_ROW_NONE && i != TALLY_ROW_OTHER) {
            (void)json_object_set_new(o, name, values_of(r->values, TALLY_VALUE_COUNT));
        }
    }
    return o;
}

/* The rows that have no name of their own. */
static json_t *shared_rows_of(const struct tally_table *t)
{
    json_t *list = json_array();
    for (uint32_t i = TALLY_ROW_NONE; i <= TALLY_ROW_OTHER; i++) {
        (void)json_array_append_new(list,
                                    values_of(tally_table_row(t, i)->values, TALLY_VALUE_COUNT));
    }
    return list;
}

static json_t *table_of(const struct tally_table *t)
{
    json_t *o = json_object();
    (void)json_object_set_new(o, "rows", rows_of(t));
    (void)json_object_set_new(o, "shared", shared_rows_of(t));
    return o;
}

static json_t *span_of(const struct tally_spans *s)
{
    json_t *list = values_of(s->buckets, TALLY_SPAN_BOUNDS + 1);
    (void)json_array_append_new(list, json_integer((json_int_t)counter_of(&s->sum)));
    return list;
}

static json_t *transports_of(const struct tally *t)
{
    json_t *o = json_object();
    for (uint32_t i = 0; i < tally_transports(t); i++) {
        const struct tally_row *r = t->transport_rows[i];
        char name[TALLY_NAME_MAX + 1] = "";
        json_t *one = json_object();
        memcpy(name, r->name, r->name_len);
        (void)json_object_set_new(one, "classes", values_of(t->classes[i], REPLY_CLASS_COUNT));
        for (int span = 0; span < TALLY_SPAN_COUNT; span++) {
            (void)json_object_set_new(one, span == TALLY_QUEUE_TIME ? "queue" : "delivery",
                                      span_of(&t->spans[i][span]));
        }
        (void)json_object_set_new(o, name, one);
    }
    return o;
}

void tally_memory_write(const struct tally *t, const struct tally_total *totals, size_t count,
                        struct buf *out)
{
    json_t *o = json_object(), *sums = json_object();
    for (size_t i = 0; i < count; i++) {
        (void)json_object_set_new(sums, totals[i].name,
                                  json_integer((json_int_t)counter_of(totals[i].value)));
    }
    (void)json_object_set_new(o, "totals", sums);
    (void)json_object_set_new(o, "received", values_of(t->received, MAIL_CLASS_COUNT));
    (void)json_object_set_new(o, "unrouted", values_of(t->classes[t->room], REPLY_CLASS_COUNT));
    (void)json_object_set_new(o, "tenants", table_of(t->tenants));
    (void)json_object_set_new(o, "sources", table_of(t->sources));
    (void)json_object_set_new(o, "transport_rows", table_of(t->transports));
    (void)json_object_set_new(o, "transports", transports_of(t));
    char *text = json_dumps(o, JSON_COMPACT);
    if (text == NULL) {
        out->failed = true;
    } else {
        buf_append_str(out, text);
        buf_append_char(out, '\n');
    }
    free(text);
    json_decref(o);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void add_values(_Atomic uint64_t *counters, size_t count, const json_t *list)
{
    if (json_array_size(list) != count) { /* 0 for what is no list */
        return;
    }
    for (size_t i = 0; i < count; i++) {
        json_int_t value = json_integer_value(json_array_get(list, i));
        tally_add(&counters[i], value > 0 ? (uint64_t)value : 0);
    }
}

static void add_table(struct tally_table *t, json_t *table)
{
    const char *name;
    json_t *values;
    json_object_foreach(json_object_get(table, "rows"), name, values)
    {
        uint32_t row = tally_table_find(t, slice_of(name));
        add_values(tally_table_row(t, row)->values, TALLY_VALUE_COUNT, values);
    }
    const json_t *shared = json_object_get(table, "shared");
    for (uint32_t i = TALLY_ROW_NONE; i <= TALLY_ROW_OTHER; i++) {
        add_values(tally_table_row(t, i)->values, TALLY_VALUE_COUNT, json_array_get(shared, i));
    }
}

static void add_span(struct tally_spans *s, const json_t *list)
{
    if (json_array_size(list) != SPAN_VALUES) {
        return;
    }
    for (size_t i = 0; i < SPAN_VALUES; i++) {
        json_int_t value = json_integer_value(json_array_get(list, i));
        tally_add(i < SPAN_VALUES - 1 ? &s->buckets[i] : &s->sum, value > 0 ? (uint64_t)value : 0);
    }
}

/* Of those that are there now: what went by others stays in their rows. */
static void add_transports(struct tally *t, const json_t *all)
{
    for (uint32_t i = 0; i < tally_transports(t); i++) {
        const struct tally_row *r = t->transport_rows[i];
        char name[TALLY_NAME_MAX + 1] = "";
        memcpy(name, r->name, r->name_len);
        const json_t *one = json_object_get(all, name);
        add_values(t->classes[i], REPLY_CLASS_COUNT, json_object_get(one, "classes"));
        add_span(&t->spans[i][TALLY_QUEUE_TIME], json_object_get(one, "queue"));
        add_span(&t->spans[i][TALLY_DELIVERY_TIME], json_object_get(one, "delivery"));
    }
}

int tally_memory_read(struct tally *t, const struct tally_total *totals, size_t count,
                      struct slice text)
{
    json_error_t error;
    json_t *o = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    const json_t *sums = json_object_get(o, "totals");
    if (!json_is_object(sums)) {
        json_decref(o);
        return ERR_SYNTAX;
    }
    for (size_t i = 0; i < count; i++) {
        json_int_t value = json_integer_value(json_object_get(sums, totals[i].name));
        tally_add(totals[i].value, value > 0 ? (uint64_t)value : 0);
    }
    add_values(t->received, MAIL_CLASS_COUNT, json_object_get(o, "received"));
    add_values(t->classes[t->room], REPLY_CLASS_COUNT, json_object_get(o, "unrouted"));
    add_table(t->tenants, json_object_get(o, "tenants"));
    add_table(t->sources, json_object_get(o, "sources"));
    add_table(t->transports, json_object_get(o, "transport_rows"));
    add_transports(t, json_object_get(o, "transports"));
    json_decref(o);
    return 0;
}
