/* Connections at a time, of which this node has a part: engine/limit/limits_seats.c. */
#include "engine/limit/limits_part.h"
#include "tests/unit/limits_bed.h"

static const struct limit_rules four = {.site.connections = 4};

static void ignore(void *ctx)
{
}

static void make_shared_bed(struct bed *b)
{
    make_bed(b);
    limits_part_begin(b->limits, ignore, NULL);
    limits_part_until(b->limits, b->now + HOUR);
}

static struct limit_grant ask(struct bed *b, struct limits_hold *h, uint32_t connects)
{
    struct limit_grant g;
    const struct limit_ask ask = {.messages = 9, .connects = connects};
    limits_lend(h, &ask, b->now, b->wall, &g);
    return g;
}

/* Ask for so many connections, and make those that are lent. */
static uint32_t connect(struct bed *b, struct limits_hold *h, uint32_t connects)
{
    struct limit_grant g = ask(b, h, connects);
    uint32_t made = g.messages > 0 ? g.connects : 0;
    for (uint32_t i = 0; i < made; i++) {
        limits_connected(h, b->now, b->now);
    }
    return made;
}

static struct limits_part_view look(struct bed *b)
{
    struct limits_part_view v;
    assert_true(limits_part_look(b->limits, 0, b->now, &v));
    return v;
}

static void set_share(struct bed *b, uint32_t share)
{
    assert_true(limits_part_set(b->limits, 0, look(b).id, share, 0, b->now));
}

static void disconnect(struct bed *b, struct limits_hold *h)
{
    limits_disconnected(h, b->now);
    pass(b, SECOND / 5);
}

static void a_connection_needs_a_seat(void **state)
{
    struct bed b;
    (void)state;
    make_shared_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &four);
    struct limit_grant g = ask(&b, h, 3);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_CONNECTIONS);
    assert_int_equal(g.whose, LIMIT_OF_SITE);
    struct limits_part_view v = look(&b);
    assert_int_equal(v.kind, LIMITS_PART_OF_CONNECTIONS);
    assert_int_equal(v.parts, 4);
    assert_int_equal(v.want, 3);
    assert_int_equal(v.in_use, 0);
    set_share(&b, 2);
    assert_int_equal(connect(&b, h, 3), 2);
    assert_int_equal(look(&b).in_use, 2);
    assert_int_equal(look(&b).want, 3);
    assert_int_equal(connect(&b, h, 1), 0);
    assert_int_equal(ask(&b, h, 0).connects, 0); /* by those that there are */
    assert_int_equal(ask(&b, h, 0).messages, 9);

    /* One that was closed a moment ago has its seat yet. */
    limits_disconnected(h, b.now);
    assert_int_equal(look(&b).in_use, 2);
    assert_int_equal(connect(&b, h, 1), 0);
    pass(&b, SECOND / 10);
    assert_int_equal(look(&b).in_use, 1);
    assert_int_equal(connect(&b, h, 1), 1);
    limits_release(h, b.now);
    end_bed(&b);
}

static void what_was_lent_and_not_used_goes_back(void **state)
{
    struct bed b;
    (void)state;
    make_shared_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &four);
    (void)ask(&b, h, 3);
    set_share(&b, 4);
    struct limit_grant g = ask(&b, h, 3);
    assert_int_equal(g.connects, 3);
    assert_int_equal(look(&b).in_use, 3);
    limits_repay(h, &(struct limit_units){.messages = 9, .connects = 2}, b.now);
    assert_int_equal(look(&b).in_use, 1);
    limits_not_connected(h, b.now); /* the third one came to nothing */
    assert_int_equal(look(&b).in_use, 1);
    pass(&b, SECOND);
    assert_int_equal(look(&b).in_use, 0);
    limits_release(h, b.now);
    end_bed(&b);
}

/* The part becomes smaller: idle connections end, and it is wanted all the same. */
static void who_has_too_many_is_told(void **state)
{
    struct bed b;
    struct limit_change c;
    (void)state;
    make_shared_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &four);
    (void)ask(&b, h, 4);
    set_share(&b, 4);
    assert_int_equal(connect(&b, h, 4), 4);
    (void)last_change(&b, 0, &c);
    set_share(&b, 1);
    assert_true(last_change(&b, 0, &c));
    assert_int_equal(c.state.most_connections, 1);
    assert_false(c.state.is_emptied);
    assert_int_equal(look(&b).in_use, 4);
    disconnect(&b, h);
    disconnect(&b, h);
    disconnect(&b, h);
    assert_true(last_change(&b, 0, &c));
    assert_int_equal(c.state.most_connections, 0); /* what is lent bounds them */
    assert_int_equal(look(&b).in_use, 1);
    set_share(&b, 0);
    assert_true(last_change(&b, 0, &c));
    assert_true(c.state.is_emptied);
    struct limit_grant g = ask(&b, h, 0);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_CONNECTIONS);
    disconnect(&b, h);
    assert_true(last_change(&b, 0, &c));
    assert_false(c.state.is_emptied);
    set_share(&b, 2);
    assert_int_equal(connect(&b, h, 4), 2);

    /* After the time of the lease they end, without anybody having set the part. */
    limits_part_until(b.limits, b.now);
    assert_int_equal(ask(&b, h, 0).messages, 0);
    assert_true(last_change(&b, 0, &c));
    assert_true(c.state.is_emptied);
    limits_release(h, b.now);
    end_bed(&b);
}

/* Two lanes of one site at this node: neither keeps the other one from the seats. */
static void lanes_of_a_site_share_its_seats(void **state)
{
    struct bed b;
    struct limit_change c;
    (void)state;
    make_shared_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &four);
    struct limits_hold *other = hold(&b, 1, "ip2", "site", &four);
    (void)ask(&b, h, 4);
    set_share(&b, 4);
    assert_int_equal(connect(&b, h, 4), 4);
    (void)last_change(&b, 0, &c);
    assert_int_equal(ask(&b, other, 4).messages, 0);
    assert_true(last_change(&b, 0, &c));
    assert_int_equal(c.state.most_connections, 2);
    (void)last_change(&b, 1, &c);
    disconnect(&b, h);
    assert_true(last_change(&b, 1, &c)); /* it may ask again */
    assert_int_equal(connect(&b, other, 4), 1);
    disconnect(&b, h);
    assert_int_equal(connect(&b, h, 1), 0); /* that is for the other one */
    assert_int_equal(connect(&b, other, 4), 1);
    assert_int_equal(look(&b).in_use, 4);

    /* Who lacks nothing any more leaves the seats to the other one. */
    disconnect(&b, other);
    disconnect(&b, other);
    pass(&b, 2 * SECOND);
    assert_int_equal(connect(&b, h, 9), 2);
    limits_release(h, b.now);
    limits_release(other, b.now);
    end_bed(&b);
}

static void a_reload_counts_what_is_there(void **state)
{
    struct bed b;
    const struct limit_rules none = {.serial = 1}, three = {.serial = 2, .lane.connections = 3};
    const struct limit_rules again = {.serial = 3};
    (void)state;
    make_shared_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &none);
    assert_int_equal(ask(&b, h, 5).connects, LIMIT_UNBOUNDED);
    for (int i = 0; i < 5; i++) {
        limits_connected(h, b.now, b.now);
    }
    assert_int_equal(limits_set_rules(h, &three, b.now), 0);
    assert_int_equal(ask(&b, h, 1).why, LIMIT_BY_CONNECTIONS);
    assert_int_equal(look(&b).in_use, 5);
    assert_int_equal(look(&b).want, 3);
    assert_int_equal(limits_set_rules(h, &again, b.now), 0);
    assert_int_equal(ask(&b, h, 1).connects, LIMIT_UNBOUNDED);
    struct limits_part_view v;
    assert_false(limits_part_look(b.limits, 0, b.now, &v));
    limits_release(h, b.now);
    end_bed(&b);
}

/* A reload that changes nothing: who was told to have fewer is to have them yet. */
static void a_reload_takes_nothing_back(void **state)
{
    struct bed b;
    struct limit_change c;
    struct limit_rules again = four;
    (void)state;
    make_shared_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &four);
    (void)ask(&b, h, 4);
    set_share(&b, 4);
    assert_int_equal(connect(&b, h, 4), 4);
    set_share(&b, 1);
    assert_true(last_change(&b, 0, &c));
    assert_int_equal(c.state.most_connections, 1);
    again.serial = 1;
    assert_int_equal(limits_set_rules(h, &again, b.now), 0);
    assert_true(last_change(&b, 0, &c));
    assert_int_equal(c.state.most_connections, 1);
    assert_int_equal(look(&b).share, 1);

    /* So is it when another scheduler comes to the lane. */
    struct limits_hold *other = hold(&b, 1, "ip1", "site", &again);
    assert_false(last_change(&b, 0, &c));
    limits_release(other, b.now);
    limits_release(h, b.now);
    end_bed(&b);
}

/* Nobody has mail, and idle connections are more than a limit that was lowered. */
static void a_lower_limit_counts_what_is_open(void **state)
{
    struct bed b;
    struct limit_change c;
    const struct limit_rules two = {.site.connections = 2, .serial = 1};
    (void)state;
    make_shared_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &four);
    (void)ask(&b, h, 4);
    set_share(&b, 4);
    assert_int_equal(connect(&b, h, 4), 4);
    (void)last_change(&b, 0, &c);
    assert_int_equal(limits_set_rules(h, &two, b.now), 0);
    struct limits_part_view v;
    assert_true(limits_part_look(b.limits, 0, b.now, &v));
    assert_int_equal(v.parts, 2);
    assert_int_equal(v.in_use, 4);
    assert_int_equal(v.want, 2);
    assert_true(last_change(&b, 0, &c));
    assert_true(c.state.is_emptied);
    set_share(&b, 2);
    assert_true(last_change(&b, 0, &c));
    assert_int_equal(c.state.most_connections, 2);
    limits_release(h, b.now);
    end_bed(&b);
}

static void a_node_that_is_alone_has_none(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &four);
    assert_int_equal(ask(&b, h, 9).connects, LIMIT_UNBOUNDED);
    limits_release(h, b.now);
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_needs_a_seat),
        cmocka_unit_test(what_was_lent_and_not_used_goes_back),
        cmocka_unit_test(who_has_too_many_is_told),
        cmocka_unit_test(lanes_of_a_site_share_its_seats),
        cmocka_unit_test(a_reload_counts_what_is_there),
        cmocka_unit_test(a_reload_takes_nothing_back),
        cmocka_unit_test(a_lower_limit_counts_what_is_open),
        cmocka_unit_test(a_node_that_is_alone_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
