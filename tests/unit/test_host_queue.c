/* Destinations that wait for room at a host: who comes first when there is some. */
#include "tests/unit/sched_bed.h"

static void open_bed(struct bed *b, int limit)
{
    bed_init(b);
    b->config.must_resolve = true;
    b->config.host_concurrency_limit = limit;
    b->config.delivery_slot_cost = 0;
    bed_open(b);
}

static void ask(struct bed *b, char letter, const char *address, const char *servers)
{
    bed_message(b, letter, address);
    bed_servers(b, b->asked_count - 1, servers);
}

/* Each was looked at while the host was full. */
static void the_oldest_message_goes_first(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_select(&b), "A aa a@aa");
    ask(&b, 'B', "b@bb", "x10");
    ask(&b, 'C', "c@cc", "x10");
    ask(&b, 'D', "d@dd", "y10");
    assert_string_equal(bed_select(&b), "D dd d@dd");
    bed_outcome(&b, 1, bed_gone);
    assert_string_equal(bed_select(&b), "B bb b@bb");
    assert_string_equal(bed_select(&b), "none");
    bed_outcome(&b, b.delivered, bed_gone);
    assert_string_equal(bed_select(&b), "C cc c@cc");
    bed_close(&b);
}

/* Whichever of its hosts has room leads to the destination, and so does none of another group. */
static void any_host_of_the_group_will_do(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    ask(&b, 'A', "a@aa", "x10");
    ask(&b, 'B', "b@bb", "y10");
    assert_string_equal(bed_place(&b), "x0+");
    assert_string_equal(bed_place(&b), "y1+");
    ask(&b, 'C', "c@cc", "x10 y10 z20");
    ask(&b, 'D', "d@dd", "w10");
    assert_string_equal(bed_place(&b), "w2+");
    bed_outcome(&b, 2, bed_gone);
    assert_int_equal(bed_place(&b)[0], 'y');
    assert_int_equal(b.deliveries[b.delivered].letter, 'C');
    bed_close(&b);
}

/* What is looked at in vain would be marked as passed over. */
static void a_full_host_is_no_reason_to_look_at_jobs(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    ask(&b, 'B', "b@bb", "x10");
    assert_string_equal(bed_place(&b), "none");
    struct sched_job_view v;
    for (uint64_t cursor = 0; sched_view_jobs(b.sched, &cursor, &v);) {
        assert_int_equal(v.why, SCHED_WHY_NOTHING);
    }
    bed_close(&b);
}

/* Its servers are replaced while it waits. */
static void a_new_list_of_servers_is_followed(void **state)
{
    static struct bed b;
    open_bed(&b, 1);
    ask(&b, 'A', "a@aa", "x10");
    assert_string_equal(bed_place(&b), "x0+");
    bed_message(&b, 'B', "b@bb");
    bed_resolved(&b, b.asked_count - 1, SCHED_RESOLVED, &b, 1);
    assert_string_equal(bed_place(&b), "-1+");
    bed_advance(&b, 1);
    bed_message(&b, 'C', "c@bb");
    assert_string_equal(bed_place(&b), "-2+"); /* asks again, as the hosts are out of date */
    bed_message(&b, 'D', "d@bb");
    bed_servers(&b, b.asked_count - 1, "x10");
    assert_string_equal(bed_place(&b), "none");
    bed_outcome(&b, 1, bed_gone);
    assert_int_equal(bed_place(&b)[0], 'x');
    assert_int_equal(b.deliveries[b.delivered].letter, 'D');
    bed_close(&b);
}

static void a_displaced_entry_waits_for_room_too(void **state)
{
    static struct bed b;
    const struct sched_outcome unreachable = {
        .again = true, .server_failed = true, .server_tried = true};
    open_bed(&b, 1);
    ask(&b, 'A', "a@aa", "x10 y20");
    assert_string_equal(bed_place(&b), "x0+");
    ask(&b, 'B', "b@bb", "y10");
    assert_string_equal(bed_place(&b), "y1+");
    bed_outcome(&b, 1, unreachable);
    assert_string_equal(bed_place(&b), "none");
    bed_outcome(&b, 2, bed_gone);
    assert_int_equal(bed_place(&b)[0], 'y');
    assert_int_equal(b.deliveries[b.delivered].letter, 'A');
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_message_goes_first),
        cmocka_unit_test(any_host_of_the_group_will_do),
        cmocka_unit_test(a_full_host_is_no_reason_to_look_at_jobs),
        cmocka_unit_test(a_displaced_entry_waits_for_room_too),
        cmocka_unit_test(a_new_list_of_servers_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
