/* Parts of rates against a bucket in memory: engine/nodes/shared_limits.h. */
#include "base/error.h"
#include "engine/limit/limits_part.h"
#include "engine/nodes/shared_limits.h"
#include "tests/unit/limits_bed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The servers: one key. */
static struct {
    char text[512];
    uint64_t revision;
    bool is_silent, is_contested;
    void (*meanwhile)(void); /* while the key is on its way; NULL */
} server;
static uint16_t late_node;
static usec_t heard; /* CLOCK_BOOTTIME: until then it was silent */

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
    if (server.meanwhile != NULL) {
        server.meanwhile();
    }
    if (server.is_silent || server.revision == 0) {
        return server.is_silent ? -ETIMEDOUT : ERR_MISSING;
    }
    *ret = (struct cluster_value){strdup(server.text), strlen(server.text), server.revision};
    return 0;
}

static int swap(struct cluster_client *c, const char *name, const char *key, struct slice value,
                uint64_t revision, uint64_t *ret_revision)
{
    if (server.is_silent) {
        return -ETIMEDOUT;
    }
    if (server.is_contested || revision != server.revision) {
        server.is_contested = false;
        server.revision++;
        return ERR_AGAIN;
    }
    (void)snprintf(server.text, sizeof(server.text), "%.*s", (int)value.len, value.data);
    *ret_revision = ++server.revision;
    return 0;
}

static const struct cluster_module module = {
    .is_connected = is_connected, .bucket = bucket, .watch = watch, .get = get, .swap = swap};

static bool is_late(void *ctx, uint16_t node)
{
    return node == late_node;
}

static void ignore(void *ctx)
{
}

struct node {
    struct bed b;
    struct shared_limits s;
    struct limits_hold *h;
    usec_t boot;
};

/* Node 1 with mail for a site with such rules. The clock is real: only spans matter. */
static void set_up_with(struct node *n, const struct limit_rules *rules)
{
    server.revision = 0;
    server.is_silent = server.is_contested = false;
    server.meanwhile = NULL;
    late_node = 0;
    heard = 0;
    make_bed(&n->b);
    n->b.now = clock_mono();
    n->boot = 1000 * SECOND;
    shared_limits_init(&n->s, n->b.limits, &module);
    n->s.wake = ignore;
    n->s.is_late = is_late;
    limits_part_begin(n->b.limits, ignore, NULL);
    limits_part_until(n->b.limits, n->b.now + HOUR);
    assert_int_equal(shared_limits_open(&n->s, (struct cluster_client *)&server), 0);
    n->h = hold(&n->b, 0, "ip1", "site", rules);
    assert_int_equal(lend(&n->b, n->h, 1).messages, 0);
}

/* Of 100/s and a burst of 10. */
static void set_up_node(struct node *n)
{
    const struct limit_rules rules = {.site.messages = per(100, SECOND)};
    set_up_with(n, &rules);
}

static void tear_down_node(struct node *n)
{
    shared_limits_fini(&n->s);
    limits_release(n->h, n->b.now);
    end_bed(&n->b);
}

static void work(struct node *n, uint32_t lapses, bool may_use, bool is_end)
{
    n->boot += SECOND / 50;
    const struct shared_limits_turn turn = {1, lapses, heard, may_use, is_end};
    (void)shared_limits_work(&n->s, &turn, n->boot);
}

static uint32_t share(struct node *n)
{
    struct limits_part_view v;
    assert_true(limits_part_look(n->b.limits, 0, n->b.now, &v));
    return v.share;
}

static void who_is_alone_takes_all_and_gives_it_back(void **state)
{
    struct node n;
    (void)state;
    set_up_node(&n);
    work(&n, 0, true, false);
    assert_int_equal(share(&n), 10);
    assert_string_equal(server.text, "1 0 0 1:10:10");
    work(&n, 0, true, true);
    assert_int_equal(share(&n), 0);
    assert_null(strchr(server.text, ':'));
    tear_down_node(&n);
}

/* The lease ran out and was renewed before anybody asked: what others may have taken is not used for
 * a moment, whatever the new lease permits. */
static void a_lapse_is_heeded_before_the_next_turn(void **state)
{
    struct node n;
    (void)state;
    set_up_node(&n);
    work(&n, 0, true, false);
    shared_limits_heed(&n.s, 1);
    assert_int_equal(share(&n), 0);
    limits_part_until(n.b.limits, n.b.now + HOUR);
    assert_int_equal(lend(&n.b, n.h, 1).why, LIMIT_BY_SHARE);
    work(&n, 1, true, false);
    assert_int_equal(share(&n), 10);
    tear_down_node(&n);
}

static void what_others_have_is_theirs_until_they_are_late(void **state)
{
    struct node n;
    (void)state;
    set_up_node(&n);
    (void)snprintf(server.text, sizeof(server.text), "1 0 0 2:10:10");
    server.revision = 7;
    work(&n, 0, true, false);
    assert_int_equal(share(&n), 0);
    assert_non_null(strstr(server.text, "1:0:10 2:10:10")); /* our want is told */
    late_node = 2;
    heard = n.boot; /* and has been read since */
    work(&n, 0, true, false);
    assert_true(n.s.is_in_doubt);
    assert_int_equal(share(&n), 0);
    heard = n.boot + SECOND / 50;
    work(&n, 0, true, false);
    assert_false(n.s.is_in_doubt);
    assert_int_equal(share(&n), 10);
    assert_null(strstr(server.text, "2:"));
    tear_down_node(&n);
}

/* What is told of a node that was late may be younger than its silence: it has its part, until our entry went
 * once more and nothing was heard of it. Our own puts change nothing of that. */
static void who_was_late_may_be_back(void **state)
{
    struct limits_part_view v;
    struct node n;
    (void)state;
    set_up_node(&n);
    work(&n, 0, true, false);
    assert_true(limits_part_look(n.b.limits, 0, n.b.now, &v));
    heard = n.boot + SECOND;
    n.boot += 2 * SECOND;
    late_node = 2;
    (void)snprintf(server.text, sizeof(server.text), "1 0 0 1:4:10 2:6:10");
    server.revision++;
    assert_true(inbox_put(&n.s.inbox, v.key, server.text, strlen(server.text), server.revision));
    work(&n, 0, true, false);
    assert_true(n.s.is_in_doubt);
    assert_non_null(strstr(server.text, "2:6:10"));
    heard = n.boot;
    work(&n, 0, true, false);
    assert_false(n.s.is_in_doubt);
    assert_null(strstr(server.text, "2:"));
    tear_down_node(&n);
}

static void a_lost_race_is_run_again(void **state)
{
    struct node n;
    (void)state;
    set_up_node(&n);
    server.is_contested = true;
    work(&n, 0, true, false);
    assert_int_equal(share(&n), 0);
    server.revision = 0;
    work(&n, 0, true, false);
    assert_int_equal(share(&n), 10);
    tear_down_node(&n);
}

static void servers_that_are_silent_give_nothing(void **state)
{
    struct node n;
    (void)state;
    set_up_node(&n);
    server.is_silent = true;
    work(&n, 0, true, false);
    assert_int_equal(share(&n), 0);
    n.s.retry = 0;
    server.is_silent = false;
    work(&n, 0, false, false); /* no lease */
    assert_int_equal(share(&n), 0);
    work(&n, 0, true, false);
    assert_int_equal(share(&n), 10);
    tear_down_node(&n);
}

static struct node *busy;

static void connect_more(uint32_t count)
{
    const struct limit_ask ask = {.messages = 1, .connects = count};
    struct limit_grant g;
    limits_lend(busy->h, &ask, busy->b.now, busy->b.wall, &g);
    for (uint32_t i = 0; g.messages > 0 && i < g.connects; i++) {
        limits_connected(busy->h, busy->b.now, busy->b.now);
    }
}

static void connect_two(void)
{
    server.meanwhile = NULL;
    connect_more(2);
}

/* Others want two of the four connections, of which one was in use when the node began to look. */
static void a_seat_that_was_taken_meanwhile_is_not_given_away(void **state)
{
    const struct limit_rules rules = {.site.connections = 4};
    struct limits_part_view v;
    struct node n;
    (void)state;
    set_up_with(&n, &rules);
    busy = &n;
    connect_more(4);
    work(&n, 0, true, false);
    connect_more(1);
    assert_true(limits_part_look(n.b.limits, 0, n.b.now, &v));
    assert_int_equal(v.share, 4);
    (void)snprintf(server.text, sizeof(server.text), "1 0 0 1:4:4 2:0:4");
    server.revision++;
    assert_true(inbox_put(&n.s.inbox, v.key, NULL, 0, server.revision)); /* it is read */
    server.meanwhile = connect_two;
    work(&n, 0, true, false);
    assert_true(limits_part_look(n.b.limits, 0, n.b.now, &v));
    assert_int_equal(v.in_use, 3);
    assert_non_null(strstr(server.text, "1:3:")); /* the other node may have the fourth */
    tear_down_node(&n);
}

/* The servers lost all while two nodes had two connections each: neither takes the other's. */
static void open_connections_are_told_to_servers_that_lost_all(void **state)
{
    static const char *const lost[] = {"", "1 0 0 2:2:2"};
    const struct limit_rules rules = {.site.connections = 4};
    for (unsigned i = 0; i < 2; i++) {
        struct node n;
        (void)state;
        set_up_with(&n, &rules);
        busy = &n;
        connect_more(4);
        (void)snprintf(server.text, sizeof(server.text), "1 0 0 2:2:4");
        server.revision = 7;
        work(&n, 0, true, false);
        assert_string_equal(server.text, "1 0 0 1:2:4 2:2:4");
        connect_more(4);

        (void)snprintf(server.text, sizeof(server.text), "%s", lost[i]);
        server.revision = i; /* the other node was there first, or this one is */
        assert_true(inbox_put(&n.s.inbox, NULL, NULL, 0, 0));
        server.is_contested = i == 1;
        work(&n, 0, true, false);
        work(&n, 0, true, false);
        assert_int_equal(share(&n), 2);
        assert_string_equal(server.text, i == 0 ? "1 0 0 1:2:2" : "1 0 0 1:2:2 2:2:2");

        /* Who has not come by then has none. */
        n.boot += 5 * SECOND;
        work(&n, 0, true, false);
        assert_int_equal(share(&n), i == 0 ? 4 : 2);
        tear_down_node(&n);
    }
}

/* A server that lags answers with less than was seen: nobody lost anything. */
static void a_server_that_lags_is_asked_again(void **state)
{
    const struct limit_rules rules = {.site.connections = 4};
    struct limits_part_view v;
    struct node n;
    (void)state;
    set_up_with(&n, &rules);
    busy = &n;
    connect_more(2);
    (void)snprintf(server.text, sizeof(server.text), "1 0 0");
    server.revision = 7;
    work(&n, 0, true, false);
    connect_more(2);
    assert_true(limits_part_look(n.b.limits, 0, n.b.now, &v));
    assert_true(inbox_put(&n.s.inbox, v.key, NULL, 0, 9));
    (void)snprintf(server.text, sizeof(server.text), "1 0 0");
    server.revision = 6;
    server.is_contested = true; /* as its leader is further */
    connect_more(4);
    work(&n, 0, true, false);
    (void)snprintf(server.text, sizeof(server.text), "1 0 0 1:2:2");
    server.revision = 9;
    work(&n, 0, true, false);
    assert_int_equal(share(&n), 4);
    tear_down_node(&n);
}

/* While a reload goes round, a transport without the limit may be heard before one that has it. */
static void a_limit_that_returns_has_its_seats_yet(void **state)
{
    struct limit_rules rules = {.site.connections = 4};
    struct limits_part_view v;
    struct node n;
    (void)state;
    set_up_with(&n, &rules);
    busy = &n;
    connect_more(4);
    work(&n, 0, true, false);
    connect_more(3);
    const struct limit_rules none = {.serial = 1};
    assert_int_equal(limits_set_rules(n.h, &none, n.b.now), 0);
    work(&n, 0, true, false);
    assert_string_equal(server.text, "1 0 0 1:4:4");
    rules.serial = 2;
    assert_int_equal(limits_set_rules(n.h, &rules, n.b.now), 0);
    connect_more(1);
    work(&n, 0, true, false);
    assert_string_equal(server.text, "1 0 0 1:4:4");
    assert_true(limits_part_look(n.b.limits, 0, n.b.now, &v));
    assert_int_equal(v.share, 4);

    /* One that is gone for good is given back when its connections had time to end. */
    const struct limit_rules last = {.serial = 3};
    assert_int_equal(limits_set_rules(n.h, &last, n.b.now), 0);
    work(&n, 0, true, false);
    assert_non_null(strchr(server.text, ':'));
    n.boot += 5 * SECOND;
    work(&n, 0, true, false);
    assert_null(strchr(server.text, ':'));
    tear_down_node(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_alone_takes_all_and_gives_it_back),
        cmocka_unit_test(a_lapse_is_heeded_before_the_next_turn),
        cmocka_unit_test(what_others_have_is_theirs_until_they_are_late),
        cmocka_unit_test(who_was_late_may_be_back),
        cmocka_unit_test(a_lost_race_is_run_again),
        cmocka_unit_test(servers_that_are_silent_give_nothing),
        cmocka_unit_test(a_seat_that_was_taken_meanwhile_is_not_given_away),
        cmocka_unit_test(open_connections_are_told_to_servers_that_lost_all),
        cmocka_unit_test(a_server_that_lags_is_asked_again),
        cmocka_unit_test(a_limit_that_returns_has_its_seats_yet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
