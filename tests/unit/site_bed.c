#include "tests/unit/site_bed.h"

#include <stdlib.h>
#include <string.h>

static void *allocate(void *ctx, size_t size)
{
    return malloc(size);
}

static void release(void *ctx, void *obj)
{
    free(obj);
}

static void release_hosts(void *ctx, void *hosts)
{
}

void shell_init(struct shell *h)
{
    memset(h, 0, sizeof(*h));
    sched_config_defaults(&h->config);
    h->config.must_resolve = true;
    h->config.initial_destination_concurrency = 2;
    h->config.destination_concurrency_limit = 2;
    for (int i = 0; i < 26; i++) {
        h->places[i] = (struct place){.site = "s", .servers = "xy"};
        h->sources[i] = (struct sched_source){.id = 100 + (uint32_t)i, .weight = 1, .families = 3};
    }
}

void shell_open(struct shell *h)
{
    const struct sched_host host = {allocate, release, release, h};
    h->sched = sched_new(&h->config, &host, release_hosts, 0);
    assert_non_null(h->sched);
}

void shell_check(const struct shell *h)
{
    struct sched_fault fault;
    if (sched_check(h->sched, &fault) != 0) {
        fail_msg("%s", fault.text);
    }
}

static void shell_resolve(struct shell *h, struct sched_destination *d)
{
    const struct place *p = &h->places[sched_destination_name(d).data[0] - 'a'];
    struct sched_server servers[4];
    uint32_t count = 0;
    for (const char *at = p->servers; *at != '\0'; at++) {
        servers[count++] = (struct sched_server){
            .key = {(uint8_t)*at}, .key_len = 1, .preference = 10, .name = p->name};
    }
    sched_resolved(h->sched,
                   &(struct sched_hosts_result){.destination = d,
                                                .resolution = SCHED_RESOLVED,
                                                .hosts = h,
                                                .expires = h->now + USEC_PER_SEC,
                                                .servers = servers,
                                                .server_count = count,
                                                .site = slice_of(p->site),
                                                .tls = p->tls,
                                                .terms = p->terms},
                   h->now);
}

unsigned shell_run(struct shell *h)
{
    unsigned before = h->delivered;
    struct sched_action a;
    while (sched_pull(h->sched, &a, h->now)) {
        shell_check(h);
        if (a.kind == SCHED_RESOLVE) {
            shell_resolve(h, a.destination);
            h->resolved++;
        } else if (a.kind == SCHED_DELIVER) {
            assert_in_range(h->delivered, 0, DELIVERIES - 1);
            h->deliveries[h->delivered++] = a;
            h->reused += !a.connection_is_new;
        } else if (a.kind == SCHED_DEFER) {
            h->deferred += a.index_count;
            h->reason = *a.reason;
            if (a.is_paced) {
                h->away[h->paced] = a.message_id;
                h->due[h->paced++] = a.due;
            }
        } else if (a.kind == SCHED_EXHAUSTED) {
            h->exhausted++;
            h->deliveries[h->delivered++] = a;
        } else if (a.kind == SCHED_CLOSE) {
            h->closed++;
        } else if (a.kind == SCHED_ASK) {
            h->asked++;
            h->ask = *a.loan;
            h->asker = a.lane_user;
        } else if (a.kind == SCHED_OWNER_ASKS) {
            h->owner_asked++;
            h->owner_ask = *a.loan;
            h->owner_asker = a.owner_user;
        } else if (a.kind == SCHED_OWNER_RETURNS) {
            h->owner_returned++;
            h->left = a.loan->left;
            h->owner_asker = a.owner_user;
        } else if (a.kind == SCHED_RETURN || a.kind == SCHED_LANE_GONE) {
            h->returned += a.kind == SCHED_RETURN;
            h->gone += a.kind == SCHED_LANE_GONE;
            h->left = a.loan->left;
        }
    }
    shell_check(h);
    return h->delivered - before;
}

void shell_send_to_many(struct shell *h, const char *name, uint32_t recipients)
{
    struct sched_recipient r[64];
    assert_in_range(recipients, 1, 64);
    for (uint32_t i = 0; i < recipients; i++) {
        r[i] = (struct sched_recipient){slice_of("u@example"), slice_of(name), i, h->pool};
    }
    const struct sched_message m = {
        .id = ++h->next_id,
        .handle = h,
        .recipients = r,
        .recipient_count = recipients,
        .owner = h->owner,
        .flow = h->flow,
    };
    assert_int_equal(sched_submit(h->sched, &m, h->now), 0);
    shell_check(h);
}

void shell_send(struct shell *h, const char *name)
{
    shell_send_to_many(h, name, 1);
}

void shell_outcome(struct shell *h, unsigned number, struct sched_outcome o)
{
    assert_non_null(h->deliveries[number].entry);
    o.entry = h->deliveries[number].entry;
    h->deliveries[number].entry = NULL;
    sched_report(h->sched, &o, h->now);
    shell_check(h);
}

void shell_report(struct shell *h, unsigned number, enum sched_feedback_sign feedback,
                  bool stays_open)
{
    static const struct sched_reason reason = {"4.4.2", "lost"};
    shell_outcome(h, number,
                  (struct sched_outcome){.feedback = feedback,
                                         .has_deferred = feedback == SCHED_NEGATIVE,
                                         .connection_open = stays_open,
                                         .reason = &reason});
}

void shell_close(struct shell *h)
{
    for (unsigned i = 0; i < h->delivered; i++) {
        if (h->deliveries[i].entry != NULL) {
            shell_report(h, i, SCHED_NEUTRAL, false);
            (void)shell_run(h); /* what may go meanwhile is reported in its turn */
        }
    }
    sched_free(h->sched);
}

uint32_t shell_source(const struct shell *h, unsigned number)
{
    return h->deliveries[number].source;
}

void shell_sources(struct shell *h, uint32_t count, const uint64_t *pools, uint32_t pool_count)
{
    const struct sched_pools all = {pools, h->weights, pool_count};
    assert_int_equal(sched_set_sources(h->sched, h->sources, count, &all, h->now), 0);
    shell_check(h);
}

char shell_letter(const struct shell *h, unsigned number)
{
    return sched_destination_name(h->deliveries[number].destination).data[0];
}
