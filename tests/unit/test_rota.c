/* Whose mail becomes active next: shares of places, classes and their floors, the reserve. */
#include "engine/activator/rota.h"
#include "tests/unit/unit.h"

#include <stdio.h>

enum { FLOWS = 40 };

static struct rota rota;
static struct rota_flow flows[FLOWS];
static struct rota_room room;

static int set_up(void **state)
{
    rota_init(&rota);
    room = (struct rota_room){.places = 1000};
    for (int i = 0; i < FLOWS; i++) {
        rota_flow_init(&flows[i]);
    }
    return 0;
}

static int tear_down(void **state)
{
    for (int i = 0; i < FLOWS; i++) {
        rota_rest(&rota, &flows[i]);
    }
    rota_fini(&rota);
    return 0;
}

/* A flow that waits. */
static void add(int i, enum mail_class class, const char *tenant, uint32_t weight)
{
    assert_int_equal(rota_bind(&rota, &flows[i], class, slice_of(tenant), weight), 0);
    assert_int_equal(rota_wait(&rota, &flows[i]), 0);
}

static void count(int i, int by)
{
    rota_count(&rota, &flows[i], by);
    room.used += (uint32_t)by;
}

/* Gives one place away. -1: nobody gets it */
static int give(void)
{
    struct rota_flow *f = rota_next(&rota, &room);
    if (f == NULL) {
        return -1;
    }
    int i = (int)(f - flows);
    count(i, 1);
    rota_pass(&rota, f);
    return i;
}

static void give_all(void)
{
    while (give() >= 0) {
    }
}

static void equals_take_turns(void **state)
{
    add(0, MAIL_NORMAL, "a", 1);
    add(1, MAIL_NORMAL, "b", 1);
    add(2, MAIL_NORMAL, "c", 1);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            assert_int_equal(give(), i);
            count(i, -1); /* delivered at once */
        }
    }
}

static void tenants_have_places_by_weight(void **state)
{
    add(0, MAIL_NORMAL, "a", 5);
    add(1, MAIL_NORMAL, "b", 3);
    add(2, MAIL_NORMAL, "b", 3); /* another campaign */
    add(3, MAIL_NORMAL, "c", 1);
    for (int i = 0; i < 810; i++) {
        assert_true(give() >= 0);
    }
    assert_in_range(flows[0].active, 449, 451);
    assert_in_range(flows[1].active, 134, 136);
    assert_in_range(flows[2].active, 134, 136);
    assert_in_range(flows[3].active, 89, 91);
}

/* Places that become free go to those that came late, until all have the same. */
static void who_comes_late_gets_what_becomes_free(void **state)
{
    add(0, MAIL_NORMAL, "slow", 1);
    give_all();
    assert_int_equal(flows[0].active, 875);
    add(1, MAIL_NORMAL, "late", 1);
    assert_int_equal(give(), 1); /* of the reserve */
    assert_int_equal(give(), 1);
    assert_int_equal(give(), -1);
    for (int i = 0; i < 100; i++) {
        count(0, -1);
        (void)give();
    }
    assert_int_equal(flows[0].active, 775);
    assert_int_equal(flows[1].active, 100); /* the reserve is whole again */
    for (int i = 0; i < 100; i++) {         /* fast: it takes every place that it gives back */
        count(1, -1);
        assert_int_equal(give(), 1);
    }
}

static void the_reserve_is_for_many(void **state)
{
    char name[16];
    add(0, MAIL_NORMAL, "big", 1);
    give_all();
    for (int i = 1; i < 31; i++) { /* campaigns of the one that has all */
        add(i, MAIL_NORMAL, "big", 1);
    }
    give_all();
    assert_int_equal(room.used, 875 + 2 * 30);
    for (int i = 31; i < FLOWS; i++) {
        (void)snprintf(name, sizeof(name), "t%d", i);
        add(i, MAIL_BULK, name, 1);
    }
    give_all();
    for (int i = 31; i < FLOWS; i++) {
        assert_int_equal(flows[i].active, 2);
    }
    room.used += 1000 - 62 - room.used; /* campaigns may not take the last half of it */
    rota_rest(&rota, &flows[1]);
    rota_rest(&rota, &flows[39]);
    count(1, -2);
    count(39, -2);
    room.used += 4;
    assert_int_equal(rota_wait(&rota, &flows[1]), 0);
    assert_null(rota_next(&rota, &room));
    assert_int_equal(rota_wait(&rota, &flows[39]), 0);
    assert_int_equal(give(), 39);
}

static void without_places_for_it_there_is_no_reserve(void **state)
{
    room.places = 7;
    add(0, MAIL_NORMAL, "a", 1);
    give_all();
    assert_int_equal(flows[0].active, 7);
}

static void classes_have_floors(void **state)
{
    add(0, MAIL_URGENT, "a", 1);
    add(1, MAIL_NORMAL, "a", 1);
    add(2, MAIL_BULK, "a", 1);
    give_all();
    assert_in_range(flows[0].active, 785, 789);
    assert_in_range(flows[1].active + flows[2].active, 86, 90);
    assert_in_range(flows[2].active, 8, 10);
}

static void urgent_goes_first_of_one_that_comes(void **state)
{
    add(0, MAIL_BULK, "a", 1000);
    give_all();
    count(0, -400);
    add(1, MAIL_NORMAL, "b", 1);
    add(2, MAIL_URGENT, "c", 1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(give(), 2); /* the others hold more than a tenth */
    }
    rota_rest(&rota, &flows[2]);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(give(), 1);
    }
}

static void mail_in_memory_does_not_pass_those_that_wait(void **state)
{
    assert_int_equal(rota_bind(&rota, &flows[0], MAIL_NORMAL, SLICE("a"), 1), 0);
    assert_int_equal(rota_bind(&rota, &flows[2], MAIL_URGENT, SLICE("a"), 1), 0);
    for (int i = 0; i < 10; i++) {
        assert_true(rota_may_enter(&rota, &flows[0], &room));
        count(0, 1);
    }
    add(1, MAIL_NORMAL, "b", 1);
    assert_false(rota_may_enter(&rota, &flows[0], &room));
    assert_false(rota_is_waiting(&flows[0]));
    assert_true(rota_may_enter(&rota, &flows[2], &room));
    count(1, 11);
    assert_true(rota_may_enter(&rota, &flows[0], &room));
    room.used = room.places;
    assert_false(rota_may_enter(&rota, &flows[2], &room));
}

/* Asks for as many places as `most`, and moves those that are given. Returns how many */
static uint32_t move_places(uint32_t most)
{
    struct rota_flow *from[64];
    uint32_t planned = rota_plan(&rota, &room, from, most);
    for (uint32_t i = 0; i < planned; i++) {
        count((int)(from[i] - flows), -1);
    }
    give_all();
    return planned;
}

static void who_has_more_gives_back(void **state)
{
    add(0, MAIL_NORMAL, "full", 1);
    give_all();
    assert_int_equal(move_places(64), 0); /* nobody else waits */
    add(1, MAIL_NORMAL, "late", 3);
    add(2, MAIL_NORMAL, "late", 3); /* another campaign */
    give_all();
    uint32_t moved = 0;
    for (uint32_t n = 1; n > 0; moved += n) {
        n = move_places(64);
    }
    assert_in_range(flows[0].active, 218, 221);
    assert_in_range(flows[1].active, 327, 330);
    assert_in_range(flows[2].active, 327, 330);
    assert_in_range(moved, 650, 660);
    assert_int_equal(room.used, 875);
}

static void a_plan_changes_nothing(void **state)
{
    struct rota_flow *from[64];
    add(0, MAIL_BULK, "full", 1);
    give_all();
    add(1, MAIL_NORMAL, "late", 1);
    give_all();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rota_plan(&rota, &room, from, 64), 64);
        assert_ptr_equal(from[0], &flows[0]);
        assert_ptr_equal(from[63], &flows[0]);
        assert_int_equal(flows[0].active, 875);
        assert_int_equal(flows[1].active, 2);
    }
    room.used = 874;
    assert_int_equal(rota_plan(&rota, &room, from, 64), 0); /* there is room */
}

/* What cannot be given is not asked for again, until it may be. */
static void who_cannot_give_is_left_out(void **state)
{
    struct rota_flow *from[64];
    add(0, MAIL_NORMAL, "fast", 1);
    give_all();
    count(0, -400);
    add(1, MAIL_NORMAL, "slow", 1);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(give(), 1);
    }
    add(2, MAIL_NORMAL, "late", 1);
    give_all();
    for (int i = 0; i < 475; i++) {
        rota_fix(&flows[0]);
    }
    assert_int_equal(rota_plan(&rota, &room, from, 64), 64);
    for (int i = 0; i < 64; i++) {
        assert_ptr_equal(from[i], &flows[1]);
    }
    rota_unfix(&rota);
    assert_int_equal(rota_plan(&rota, &room, from, 64), 64);
    assert_ptr_equal(from[0], &flows[0]);
}

static void a_campaign_gives_to_another_one(void **state)
{
    add(0, MAIL_NORMAL, "shop", 1);
    give_all();
    add(1, MAIL_NORMAL, "shop", 1);
    give_all();
    while (move_places(64) > 0) {
    }
    assert_in_range(flows[0].active, 437, 438);
    assert_in_range(flows[1].active, 437, 438);
}

static void lower_classes_give_down_to_their_floors(void **state)
{
    add(0, MAIL_BULK, "a", 1);
    give_all();
    add(1, MAIL_URGENT, "b", 1);
    while (move_places(64) > 0) {
    }
    assert_in_range(flows[0].active, 86, 89);
    add(2, MAIL_NORMAL, "c", 1);
    while (move_places(64) > 0) {
    }
    assert_in_range(flows[1].active, 785, 789);
    assert_in_range(flows[0].active, 8, 10);
    /* They do not have to leave more to it when it does not wait. */
    rota_rest(&rota, &flows[0]);
    rota_rest(&rota, &flows[2]);
    assert_int_equal(move_places(64), 0);
}

static uint32_t new_weight(void *ctx, struct slice tenant)
{
    return slice_eq(tenant, SLICE("b")) ? 10 : 0;
}

static void weights_change(void **state)
{
    add(0, MAIL_NORMAL, "A", 1);
    add(1, MAIL_NORMAL, "b", 1);
    assert_true(rota_is_bound(&flows[0], MAIL_NORMAL, SLICE("a")));
    assert_false(rota_is_bound(&flows[0], MAIL_BULK, SLICE("a")));
    for (int i = 0; i < 100; i++) {
        (void)give();
    }
    assert_int_equal(flows[0].active, 50);
    rota_weigh(&rota, new_weight, NULL);
    for (int i = 0; i < 450; i++) {
        assert_int_equal(give(), 1);
    }
    rota_rest(&rota, &flows[1]);
    count(1, -500);
    assert_int_equal(rota_bind(&rota, &flows[1], MAIL_BULK, SLICE("c"), 1), 0);
    assert_true(rota_is_bound(&flows[1], MAIL_BULK, SLICE("c")));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equals_take_turns),
        TEST(tenants_have_places_by_weight),
        TEST(who_comes_late_gets_what_becomes_free),
        TEST(the_reserve_is_for_many),
        TEST(without_places_for_it_there_is_no_reserve),
        TEST(classes_have_floors),
        TEST(urgent_goes_first_of_one_that_comes),
        TEST(mail_in_memory_does_not_pass_those_that_wait),
        TEST(weights_change),
        TEST(who_has_more_gives_back),
        TEST(a_plan_changes_nothing),
        TEST(who_cannot_give_is_left_out),
        TEST(a_campaign_gives_to_another_one),
        TEST(lower_classes_give_down_to_their_floors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
