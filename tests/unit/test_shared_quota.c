/* Chunks of quotas against a bucket in memory: engine/nodes/shared_quota.h, engine/limit/limits_chunk.c. */
#include "base/error.h"
#include "engine/limit/limits_part.h"
#include "engine/nodes/shared_limits.h"
#include "tests/unit/limits_bed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The servers: one key, and the name of the one that was taken away. */
static struct {
    char key[80], text[64], removed[80];
    uint64_t revision;
    bool is_silent, is_contested;
} server;

static bool is_connected(struct cluster_client *c)
{
    return true;
}

static int bucket(struct cluster_client *c, const char *name)
{
    return 0;
}

static int watch(struct cluster_client *c, const char *name, cluster_watcher *tell, void *ctx)
{
    return 0;
}

static int get(struct cluster_client *c, const char *name, const char *key,
               struct cluster_value *ret)
{
    if (server.is_silent || server.revision == 0 || strcmp(key, server.key) != 0) {
        return server.is_silent ? -ETIMEDOUT : ERR_MISSING;
    }
    *ret = (struct cluster_value){strdup(server.text), strlen(server.text), server.revision};
    return 0;
}

static int swap(struct cluster_client *c, const char *name, const char *key, struct slice value,
                uint64_t revision, uint64_t *ret_revision)
{
    bool is_same = strcmp(key, server.key) == 0;
    if (server.is_contested || revision != (is_same ? server.revision : 0)) {
        server.is_contested = false;
        return ERR_AGAIN;
    }
    assert_string_equal(name, "sluice_quota");
    (void)snprintf(server.key, sizeof(server.key), "%s", key);
    (void)snprintf(server.text, sizeof(server.text), "%.*s", (int)value.len, value.data);
    *ret_revision = ++server.revision;
    return 0;
}

static int remove_key(struct cluster_client *c, const char *name, const char *key)
{
    (void)snprintf(server.removed, sizeof(server.removed), "%s", key);
    return 0;
}

static const struct cluster_module module = {.is_connected = is_connected,
                                             .bucket = bucket,
                                             .watch = watch,
                                             .get = get,
                                             .swap = swap,
                                             .remove = remove_key};

static void ignore(void *ctx)
{
}

struct node {
    struct bed b;
    struct shared_limits s;
    struct limits_hold *h;
};

/* A node with nothing to send. The clock is real: only spans matter. */
static void set_up_idle(struct node *n)
{
    memset(&server, 0, sizeof(server));
    make_bed(&n->b);
    n->b.now = clock_mono();
    shared_limits_init(&n->s, n->b.limits, &module);
    n->s.wake = ignore;
    limits_part_begin(n->b.limits, ignore, NULL);
    assert_int_equal(shared_limits_open(&n->s, (struct cluster_client *)&server), 0);
    n->h = NULL;
}

/* One with mail for a lane of a thousand messages a day. */
static void set_up_node(struct node *n)
{
    const struct limit_rules rules = {.lane.quota = per(1000, DAY)};
    set_up_idle(n);
    n->h = hold(&n->b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&n->b, n->h, 1).why, LIMIT_BY_SHARE);
}

static void tear_down_node(struct node *n)
{
    shared_limits_fini(&n->s);
    limits_release(n->h, n->b.now);
    end_bed(&n->b);
}

static void work(struct node *n, bool is_end)
{
    const struct shared_limits_turn turn = {1, 0, 0, true, is_end};
    n->s.retry = 0;
    (void)shared_limits_work(&n->s, &turn, 1000 * SECOND);
}

/* How many go before it lacks some. */
static uint32_t send_all(struct node *n, enum limit_cause *ret_why)
{
    uint32_t sent = 0;
    struct limit_grant g = lend(&n->b, n->h, 9);
    for (; g.messages > 0; g = lend(&n->b, n->h, 9)) {
        sent += g.messages;
    }
    *ret_why = g.why;
    return sent;
}

static void a_chunk_is_taken_before_it_is_used(void **state)
{
    struct node n;
    enum limit_cause why;
    (void)state;
    set_up_node(&n);
    work(&n, false);
    assert_string_equal(server.text, "1 10");
    assert_int_equal(send_all(&n, &why), 10);
    assert_int_equal(why, LIMIT_BY_SHARE);
    work(&n, false);
    assert_string_equal(server.text, "1 20");

    /* Others have taken what was left but three. */
    (void)snprintf(server.text, sizeof(server.text), "1 997");
    server.revision++;
    assert_int_equal(send_all(&n, &why), 10);
    work(&n, false);
    assert_string_equal(server.text, "1 1000");
    assert_int_equal(send_all(&n, &why), 3);
    work(&n, false);
    assert_string_equal(server.text, "1 1000");
    struct limit_grant g = lend(&n.b, n.h, 1);
    assert_int_equal(g.why, LIMIT_BY_QUOTA);
    assert_int_equal(g.turn - n.b.now, 12 * HOUR); /* tomorrow */

    /* Which begins with the whole quota, and ends what was kept of the day before yesterday. */
    pass(&n.b, 12 * HOUR);
    assert_int_equal(lend(&n.b, n.h, 1).why, LIMIT_BY_SHARE);
    server.revision = 0;
    n.b.now = clock_mono();
    assert_int_equal(lend(&n.b, n.h, 1).why, LIMIT_BY_SHARE);
    work(&n, false);
    assert_string_equal(server.text, "1 10");
    assert_non_null(strstr(server.key, ".20789"));
    assert_non_null(strstr(server.removed, ".20787"));
    assert_int_equal(send_all(&n, &why), 10);
    tear_down_node(&n);
}

/* Who dies takes no more than one with him. */
static void none_is_taken_before_somebody_lacks_it(void **state)
{
    struct node n;
    (void)state;
    set_up_node(&n);
    work(&n, false);
    assert_int_equal(lend(&n.b, n.h, 10).messages, 10);
    work(&n, false);
    assert_string_equal(server.text, "1 10");
    assert_int_equal(lend(&n.b, n.h, 1).messages, 0);
    work(&n, false);
    assert_string_equal(server.text, "1 20");
    tear_down_node(&n);
}

/* A tenant's, which lends beside all lanes, and what reports tell of it. */
static void a_tenants_quota_is_shared_too(void **state)
{
    struct node n;
    struct limits_meter *m;
    struct limits_meter_loan loan;
    struct limits_meter_view v;
    struct limit_grant g;
    const struct limit_meter_key key = {LIMIT_OF_TENANT, SLICE("acme")};
    const struct limit_rates rates = {.quota = per(1000, DAY)};
    (void)state;
    set_up_node(&n);
    const struct limits_meter_ask ask = {.messages = 4, .now = n.b.now, .wall = n.b.wall};
    assert_int_equal(limits_meter_get(n.b.limits, &key, &rates, 1, n.b.now, &m), 0);
    limits_meter_lend(n.b.borrowers[0], m, &ask, &loan, &g);
    assert_int_equal(g.why, LIMIT_BY_SHARE);
    const struct shared_limits_turn turn = {1, 0, 0, true, false};
    n.s.next_slot = 1; /* the lane has the first one */
    (void)shared_limits_work(&n.s, &turn, 1000 * SECOND);
    limits_meter_lend(n.b.borrowers[0], m, &ask, &loan, &g);
    assert_int_equal(g.messages, 4);
    struct limits_part_view part;
    assert_true(limits_part_look(n.b.limits, 1, n.b.now, &part));
    part.taken = 990;
    limits_chunk_take(n.b.limits, 1, &part, 0, n.b.now);
    assert_true(limits_meter_view(n.b.limits, &key, n.b.wall, &v));
    assert_int_equal(v.quota_left, 16); /* ten of all, and six that are here */
    assert_true(v.quota_due <= n.b.wall);
    (void)limits_chunk_give(n.b.limits, 1, &part);
    part.taken = 1000;
    limits_chunk_take(n.b.limits, 1, &part, 0, n.b.now);
    assert_true(limits_meter_view(n.b.limits, &key, n.b.wall, &v));
    assert_int_equal(v.quota_left, 0);
    assert_int_equal(v.quota_due - n.b.wall, 12 * HOUR);
    limits_meter_put(n.b.limits, m);
    tear_down_node(&n);
}

static void what_was_not_used_goes_back(void **state)
{
    struct node n;
    enum limit_cause why;
    (void)state;
    set_up_node(&n);
    work(&n, false);
    struct limit_grant g = lend(&n.b, n.h, 4);
    assert_int_equal(g.messages, 4);
    limits_repay(n.h, &(struct limit_units){.messages = 3}, n.b.now);
    server.is_contested = true; /* another one that stops in this moment */
    work(&n, true);
    assert_string_equal(server.text, "1 1");
    assert_int_equal(send_all(&n, &why), 0);
    tear_down_node(&n);
}

/* The servers lost the key, or somebody wrote what is none. */
static void what_was_known_counts(void **state)
{
    struct node n;
    enum limit_cause why;
    (void)state;
    set_up_node(&n);
    work(&n, false);
    (void)send_all(&n, &why);
    server.revision = 0;
    work(&n, false);
    assert_string_equal(server.text, "1 20");
    (void)send_all(&n, &why);
    (void)snprintf(server.text, sizeof(server.text), "2 x");
    work(&n, false);
    assert_string_equal(server.text, "2 x");
    assert_int_equal(send_all(&n, &why), 0);
    assert_int_equal(why, LIMIT_BY_QUOTA);
    tear_down_node(&n);
}

/* The servers lost all, and a node that knew of less was there first. */
static void what_was_known_counts_in_a_bucket_that_is_made_anew(void **state)
{
    struct node n;
    enum limit_cause why;
    (void)state;
    set_up_node(&n);
    for (unsigned i = 0; i < 5; i++) {
        work(&n, false);
        assert_int_equal(send_all(&n, &why), 10);
    }
    assert_string_equal(server.text, "1 50");
    (void)snprintf(server.text, sizeof(server.text), "1 10");
    server.revision = 1;
    work(&n, false);
    assert_string_equal(server.text, "1 60");
    assert_int_equal(send_all(&n, &why), 10);

    /* Else less is what others gave back. */
    (void)snprintf(server.text, sizeof(server.text), "1 55");
    server.revision = 9;
    work(&n, false);
    assert_string_equal(server.text, "1 65");
    tear_down_node(&n);
}

static void without_servers_it_uses_what_it_has(void **state)
{
    struct node n;
    enum limit_cause why;
    (void)state;
    set_up_node(&n);
    work(&n, false);
    server.is_silent = true;
    assert_int_equal(send_all(&n, &why), 10);
    work(&n, false);
    assert_int_equal(send_all(&n, &why), 0);
    assert_int_equal(why, LIMIT_BY_SHARE);
    server.is_silent = false;
    work(&n, false);
    assert_int_equal(send_all(&n, &why), 10);
    tear_down_node(&n);
}

/* Which is used up, and is raised by a reload. */
static void a_greater_quota_is_used_at_once(void **state)
{
    const struct limit_rules more = {.lane.quota = per(2000, DAY), .serial = 1};
    struct node n;
    enum limit_cause why;
    (void)state;
    set_up_node(&n);
    work(&n, false);
    (void)send_all(&n, &why);
    (void)snprintf(server.text, sizeof(server.text), "1 1000");
    server.revision++;
    work(&n, false);
    assert_int_equal(lend(&n.b, n.h, 1).why, LIMIT_BY_QUOTA);
    assert_int_equal(limits_set_rules(n.h, &more, n.b.now), 0);
    assert_int_equal(lend(&n.b, n.h, 1).why, LIMIT_BY_SHARE);
    work(&n, false);
    assert_string_equal(server.text, "1 1020");
    tear_down_node(&n);
}

/* Two transports have the lane, one without the quota or with one of another span; by a reload that changes
 * nothing the quota goes and comes back. */
static void what_is_left_outlives_a_reload(void **state)
{
    const struct limit_rules others[] = {{.serial = 1},
                                         {.lane.quota = per(5000, HOUR), .serial = 1}};
    struct node n;
    enum limit_cause why;
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const struct limit_rules same = {.lane.quota = per(1000, DAY), .serial = 1};
        set_up_node(&n);
        struct limits_hold *other = hold(&n.b, 1, "ip1", "site", NULL);
        work(&n, false);
        assert_int_equal(lend(&n.b, n.h, 4).messages, 4);
        assert_int_equal(limits_set_rules(other, &others[i], n.b.now), 0);
        assert_int_equal(limits_set_rules(n.h, &same, n.b.now), 0);
        assert_int_equal(send_all(&n, &why), 6);
        assert_string_equal(server.text, "1 10");

        /* What is left of yesterday is of no use. */
        work(&n, false);
        assert_string_equal(server.text, "1 20");
        assert_int_equal(limits_set_rules(other, &(struct limit_rules){.serial = 2}, n.b.now), 0);
        pass(&n.b, DAY);
        const struct limit_rules again = {.lane.quota = per(1000, DAY), .serial = 2};
        assert_int_equal(limits_set_rules(n.h, &again, n.b.now), 0);
        assert_int_equal(send_all(&n, &why), 0);
        limits_release(other, n.b.now);
        tear_down_node(&n);
    }
}

/* Also when no more mail comes that wants it. */
static void what_is_left_goes_back_after_a_reload(void **state)
{
    const struct limit_rules same = {.lane.quota = per(1000, DAY), .serial = 1};
    struct node n;
    (void)state;
    set_up_node(&n);
    struct limits_hold *other = hold(&n.b, 1, "ip1", "site", NULL);
    work(&n, false);
    assert_int_equal(lend(&n.b, n.h, 4).messages, 4);
    assert_int_equal(limits_set_rules(other, &(struct limit_rules){.serial = 1}, n.b.now), 0);
    assert_int_equal(limits_set_rules(n.h, &same, n.b.now), 0);
    work(&n, false);
    assert_string_equal(server.text, "1 10"); /* somebody wanted it just now */
    work(&n, true);
    assert_string_equal(server.text, "1 4");
    limits_release(other, n.b.now);
    tear_down_node(&n);
}

/* What was sent before there was a quota, and reached nobody, was not taken of it. */
static void what_was_not_taken_does_not_go_back(void **state)
{
    const struct limit_rules rules = {.lane.quota = per(1000, DAY), .serial = 1};
    struct node n;
    struct limits_part_view v;
    (void)state;
    set_up_idle(&n);
    n.h = hold(&n.b, 0, "ip1", "site", NULL);
    assert_int_equal(limits_set_rules(n.h, &rules, n.b.now), 0);
    assert_int_equal(lend(&n.b, n.h, 1).why, LIMIT_BY_SHARE);
    work(&n, false);
    assert_int_equal(lend(&n.b, n.h, 4).messages, 4);
    limits_give_back(n.h, &(struct limit_units){.messages = 50}, n.b.now, n.b.now, n.b.wall);
    assert_true(limits_part_look(n.b.limits, 0, n.b.now, &v));
    assert_int_equal(v.share, 10);
    tear_down_node(&n);
}

/* That of a domain inside a provider, which nobody holds. */
static void a_domain_takes_chunks_too(void **state)
{
    struct node n;
    const struct limit_domain domain = {
        .name = SLICE("a.test"), .quota = per(200, DAY), .serial = 1};
    struct limit_domain_answer answer;
    (void)state;
    set_up_idle(&n);
    limits_domain_take(n.b.borrowers[0], &domain, &(struct limit_domain_ask){1, n.b.now, n.b.wall},
                       &answer);
    assert_true(!answer.is_taken && answer.until > n.b.now && answer.until < n.b.now + MINUTE);
    work(&n, false);
    for (unsigned i = 0; i < 2; i++) { /* a hundredth */
        limits_domain_take(n.b.borrowers[0], &domain,
                           &(struct limit_domain_ask){1, n.b.now, n.b.wall}, &answer);
        assert_true(answer.is_taken);
    }
    limits_domain_take(n.b.borrowers[0], &domain, &(struct limit_domain_ask){1, n.b.now, n.b.wall},
                       &answer);
    assert_false(answer.is_taken);
    limits_domain_give_back(n.b.limits, domain.name, 1, n.b.wall);
    limits_domain_take(n.b.borrowers[0], &domain, &(struct limit_domain_ask){1, n.b.now, n.b.wall},
                       &answer);
    assert_true(answer.is_taken);
    tear_down_node(&n);
}

/* Lanes that come and go meanwhile take what is idle away. */
static void a_domain_that_waits_is_not_forgotten(void **state)
{
    struct node n;
    const struct limit_domain domain = {
        .name = SLICE("a.test"), .quota = per(200, DAY), .serial = 1};
    struct limit_domain_answer answer;
    (void)state;
    set_up_idle(&n);
    limits_domain_take(n.b.borrowers[0], &domain, &(struct limit_domain_ask){1, n.b.now, n.b.wall},
                       &answer);
    assert_false(answer.is_taken);
    limits_release(hold(&n.b, 0, "ip1", "site", NULL), n.b.now);
    work(&n, false);
    assert_string_equal(server.text, "1 2");
    limits_release(hold(&n.b, 0, "ip1", "site", NULL), n.b.now);
    limits_domain_take(n.b.borrowers[0], &domain, &(struct limit_domain_ask){1, n.b.now, n.b.wall},
                       &answer);
    assert_true(answer.is_taken);
    tear_down_node(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_taken_before_it_is_used),
        cmocka_unit_test(none_is_taken_before_somebody_lacks_it),
        cmocka_unit_test(a_tenants_quota_is_shared_too),
        cmocka_unit_test(what_was_not_used_goes_back),
        cmocka_unit_test(what_was_known_counts),
        cmocka_unit_test(what_was_known_counts_in_a_bucket_that_is_made_anew),
        cmocka_unit_test(a_greater_quota_is_used_at_once),
        cmocka_unit_test(what_is_left_outlives_a_reload),
        cmocka_unit_test(what_is_left_goes_back_after_a_reload),
        cmocka_unit_test(what_was_not_taken_does_not_go_back),
        cmocka_unit_test(a_domain_takes_chunks_too),
        cmocka_unit_test(a_domain_that_waits_is_not_forgotten),
        cmocka_unit_test(without_servers_it_uses_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
