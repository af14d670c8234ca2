/* What sluice-source prints and writes to --json. Called by main; changes nothing of the load. */
#include "bench/source/source_report.h"

#include "bench/tool/report.h"

static void put_source_number(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "\"%s\": %llu, ", name, (unsigned long long)value);
}

static void put_tally(struct buf *out, const struct source_tally *tally)
{
    put_source_number(out, "offered", tally->offered);
    for (int fate = 0; fate < SOURCE_FATE_COUNT; fate++) {
        put_source_number(out, source_fate_name(fate), tally->fates[fate]);
    }
}

/* In the order of their numbers; NULL: nothing accepted yet. */
static void put_tenants(const struct source_load *l, struct buf *out)
{
    static const struct histogram none;
    buf_append_str(out, ", \"tenants\": [");
    for (uint32_t i = 0; i < l->options->tenants; i++) {
        const struct source_tenant *tenant = &l->tenants[i];
        buf_printf(out, "%s{\"tenant\": \"%s%u\", ", i == 0 ? "" : ", ", l->options->tenant_prefix,
                   i + 1);
        put_tally(out, &tenant->tally);
        report_quantiles(out, "answer", tenant->answer != NULL ? tenant->answer : &none);
        buf_append_char(out, '}');
    }
    buf_append_char(out, ']');
}

static void put_histogram(struct buf *out, const struct histogram *h)
{
    const char *separator = "";
    buf_append_str(out, ", \"histogram\": [");
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (h->buckets[i] > 0) {
            uint64_t end = histogram_bucket_end(i);
            buf_printf(out, "%s[%.6f, %llu]", separator,
                       (double)(end < h->max ? end : h->max) / (double)USEC_PER_SEC,
                       (unsigned long long)h->buckets[i]);
            separator = ", ";
        }
    }
    buf_append_char(out, ']');
}

static double elapsed_of(const struct source_load *l)
{
    return l->last_ack > l->first_offer ? (double)(l->last_ack - l->first_offer) / USEC_PER_SEC : 0;
}

static double rate_of(const struct source_load *l)
{
    double elapsed = elapsed_of(l);
    return elapsed > 0 ? (double)l->tally.fates[SOURCE_ACKED] / elapsed : 0;
}

/* "name": a moment as seconds since 1970, 0 for none. The load keeps monotonic time only, which is
 * one clock less to read for each message. */
static void put_moment(struct buf *out, const char *name, usec_t mono)
{
    report_seconds(out, name, mono == 0 ? 0 : clock_wall() - clock_mono() + mono);
    buf_append_str(out, ", ");
}

void source_report_json(const struct source_load *l, struct buf *out)
{
    static const char *const modes[SOURCE_MODE_COUNT] = {"lockstep", "pipelining", "streaming",
                                                         "chunking"};
    buf_append_char(out, '{');
    report_seconds(out, "time", clock_wall());
    buf_append_str(out, ", ");
    put_tally(out, &l->tally);
    put_source_number(out, "reoffered", l->reoffered);
    put_source_number(out, "refused_recipients", l->refused_recipients);
    put_source_number(out, "connections", l->connections);
    put_source_number(out, "failures", l->failures);
    put_source_number(out, "under_way", l->under_way);
    put_source_number(out, "waiting", l->arrivals.count);
    buf_printf(out, "\"mode\": \"%s\", ", modes[l->mode]);
    put_moment(out, "first_offer", l->first_offer);
    put_moment(out, "last_ack", l->last_ack);
    buf_printf(out, "\"elapsed\": %.6f, \"rate\": %.1f, ", elapsed_of(l), rate_of(l));
    report_latency(out, &l->answer);
    buf_append_str(out, ", ");
    report_quantiles(out, "answer", &l->answer);
    buf_append_str(out, ", ");
    report_quantiles(out, "service", &l->service);
    if (l->options->has_histogram) {
        put_histogram(out, &l->answer);
    }
    if (l->options->tenants > 0) {
        put_tenants(l, out);
    }
    buf_append_str(out, ", \"last_problem\": ");
    report_string(out, slice_of(l->last_problem));
    buf_append_str(out, "}\n");
}

void source_report_line(const struct source_load *l, struct buf *out)
{
    buf_printf(out,
               "%llu of %llu accepted in %.2f s, %.0f a second; answer p50 %.2f ms, p99 %.2f ms, "
               "p99.9 %.2f ms",
               (unsigned long long)l->tally.fates[SOURCE_ACKED],
               (unsigned long long)(l->tally.offered - l->reoffered), elapsed_of(l), rate_of(l),
               (double)histogram_quantile(&l->answer, 0.5) / 1000.0,
               (double)histogram_quantile(&l->answer, 0.99) / 1000.0,
               (double)histogram_quantile(&l->answer, 0.999) / 1000.0);
}

bool source_report_is_complete(const struct source_load *l)
{
    uint64_t acked = l->tally.fates[SOURCE_ACKED];
    return acked == l->tally.offered - l->reoffered &&
           (l->options->messages == 0 || l->options->duration != 0 ||
            acked == l->options->messages);
}
