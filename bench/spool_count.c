/* Speed of counting the queue: a spool full of messages, and walks over it with several groups.
 *
 * usage: sluice-spool-count [FOLDER [MESSAGES [BODY_BYTES]]]
 * A folder that has messages already is walked as it is. Half of the messages are deferred. Prints
 * nanoseconds a message, the best of three. */
#include "base/clock.h"
#include "base/error.h"
#include "base/packed.h"
#include "engine/census/census.h"
#include "engine/config/config.h"
#include "engine/config/router.h"
#include "engine/spool/spool_record.h"
#include "engine/spool/spool_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENANTS = 50, DOMAINS = 1000 };

static void check_count_rc(int rc, const char *what)
{
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s\n", what, err_str(rc));
        exit(1);
    }
}

static void put_count_message(struct spool_txn *t, uint64_t id, struct slice body)
{
    char packed[64], address[48], tenant[16];
    size_t len = 0;
    (void)snprintf(address, sizeof(address), "someone.%u@mail%u.example.com", (unsigned)id,
                   (unsigned)(id * 7919 % DOMAINS));
    (void)snprintf(tenant, sizeof(tenant), "tenant%u", (unsigned)(id * 31 % TENANTS));
    if (!packed_fill(packed, sizeof(packed), &len, slice_of(address))) {
        exit(1);
    }
    struct spool_envelope e = {
        .id = id,
        .created = clock_wall() - (usec_t)(id % 100000) * USEC_PER_SEC,
        .size_bytes = body.len,
        .recipient_count = 1,
        .sender = SLICE("bounce-12345@sender.example"),
        .peer_name = SLICE("app1.sender.example"),
        .peer_address = SLICE("192.0.2.10"),
        .protocol = SLICE("ESMTP"),
        .tenant = slice_of(tenant),
        .campaign = SLICE("spring"),
    };
    struct spool_position at;
    check_count_rc(spool_put_message(t, &e, slice_make(packed, len), body, &at), "put");
    if (id % 2 == 0) {
        struct spool_position to = {SPOOL_DEFERRED, 1700000000000000u + id * 7919u % 100000, id,
                                    at.flow};
        const struct spool_retry retry = {.attempts = 1};
        check_count_rc(spool_set_recipient(t, id, 1, 0, SPOOL_RECIPIENT_DEFERRED, NULL), "state");
        check_count_rc(spool_requeue(t, &at, &to, &retry), "requeue");
    }
}

static void fill_spool(struct spool_store *s, uint32_t count, size_t body_bytes)
{
    char *body = malloc(body_bytes + 1);
    if (body == NULL) {
        exit(1);
    }
    memset(body, 'x', body_bytes + 1);
    uint64_t id = spool_store_first_id(s);
    for (uint32_t done = 0; done < count;) {
        struct spool_txn *t;
        check_count_rc(spool_begin(s, &t), "begin");
        for (uint32_t i = 0; i < 20000 && done < count; i++, done++) {
            put_count_message(t, ++id, slice_make(body, body_bytes));
        }
        check_count_rc(spool_commit(t), "commit");
    }
    free(body);
}

static void measure_count(const struct queue_source *from, const char *name,
                          const struct census_query *query)
{
    usec_t best = USEC_NEVER;
    struct census_result *c = NULL;
    for (int i = 0; i < 3; i++) {
        census_result_free(c);
        check_count_rc(census_take(from, query, &c), "count");
        best = c->took < best ? c->took : best;
    }
    uint64_t total = c->messages == 0 ? 1 : c->messages;
    (void)printf("%-24s %9llu messages %7zu rows %8.3f s %6.0f ns a message\n", name,
                 (unsigned long long)c->messages, c->row_count, (double)best / USEC_PER_SEC,
                 1e3 * (double)best / (double)total);
    (void)fflush(stdout);
    census_result_free(c);
}

static void complain_of_config(void *ctx, bool is_warning, const char *line)
{
    (void)fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "spool-count.tmp";
    uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : 1000000;
    size_t body_bytes = argc > 3 ? (size_t)atoi(argv[3]) : 1024;
    struct spool_options options = {.path = folder, .map_size = 1ull << 40};
    const struct config_sink sink = {.complain = complain_of_config};
    struct spool_store *s;
    struct queue_source from = {0};
    struct config *config;
    struct spool_counts counts;
    char text[256];
    if (spool_store_open(&options, &s, text) != 0) {
        (void)fprintf(stderr, "%s\n", text);
        return 1;
    }
    check_count_rc(config_load_text("transport smtp {}\nroute \"*\" { transport = smtp }\n",
                                    "bench", &sink, &config),
                   "configuration");
    from.config = config;
    struct router *router = router_new(config);
    if (router == NULL) {
        return 1;
    }
    from.router = router;
    check_count_rc(spool_reader_new(s, &from.reader), "reader");
    check_count_rc(spool_reader_begin(from.reader), "view");
    check_count_rc(spool_read_counts(from.reader, &counts), "counts");
    spool_reader_end(from.reader);
    if (counts.messages == 0) {
        fill_spool(s, count, body_bytes);
    }
    measure_count(&from, "all", &(struct census_query){0});
    measure_count(&from, "tenant,state",
                  &(struct census_query){.by = 1u << SELECTOR_TENANT | 1u << CENSUS_STATE});
    measure_count(&from, "domain", &(struct census_query){.by = 1u << SELECTOR_DOMAIN});
    measure_count(&from, "destination,state,age",
                  &(struct census_query){.by = 1u << SELECTOR_DESTINATION | 1u << CENSUS_STATE |
                                               1u << CENSUS_AGE});
    measure_count(&from, "every word", &(struct census_query){.by = (1u << CENSUS_WORD_COUNT) - 1});
    spool_reader_free(from.reader);
    router_free(router);
    config_free(config);
    spool_store_close(s);
    return 0;
}
