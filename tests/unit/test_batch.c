/* The vectors EN: how recipients become entries. And that a batch is taken whole or not. */
#include "tests/unit/sched_bed.h"

#include <string.h>

/* EN-1 */
static void grouping(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 2;
    bed_open(&b);
    bed_message(&b, 'A', "zed@dd bob@dd amy@ee Cat@dd ann@dd bob@dd");
    assert_string_equal(bed_select(&b), "A dd Cat@dd,ann@dd");
    assert_string_equal(bed_select(&b), "A ee amy@ee");
    assert_string_equal(bed_select(&b), "A dd bob@dd,bob@dd");
    assert_string_equal(bed_select(&b), "A dd zed@dd");
    assert_string_equal(bed_select(&b), "none");
    bed_close(&b);
}

/* EN-2: a limit of one makes every recipient a destination; the nexthop stays what it was. */
static void one_recipient_each(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 1;
    bed_open(&b);
    bed_message(&b, 'A', "zed@dd bob@dd Zed@dd");
    assert_string_equal(bed_select(&b), "A bob@dd bob@dd");
    assert_string_equal(bed_select(&b), "A zed@dd Zed@dd");
    assert_string_equal(bed_select(&b), "A zed@dd zed@dd");
    assert_string_equal(bed_queue(&b, "zed@dd"), "5 2 0");
    bed_close(&b);
}

static void nexthop_of_a_recipient(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 1;
    bed_open(&b);
    struct sched_recipient r = {SLICE("Joe@example.com"), SLICE("[relay]:2525"), 7, 0};
    struct sched_message m = {.id = 1, .recipients = &r, .recipient_count = 1};
    struct sched_action a;
    assert_int_equal(sched_submit(b.sched, &m, 0), 0);
    assert_true(sched_pull(b.sched, &a, 0));
    assert_int_equal(a.kind, SCHED_DELIVER);
    assert_true(slice_eq(sched_destination_name(a.destination), SLICE("joe@[relay]:2525")));
    assert_true(slice_eq(sched_destination_nexthop(a.destination), SLICE("[relay]:2525")));
    uint32_t count;
    assert_int_equal(sched_entry_indexes(a.entry, &count)[0], 7);
    assert_int_equal(count, 1);
    struct sched_outcome o = {.entry = a.entry};
    sched_report(b.sched, &o, 0);
    assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_FINISHED);
    bed_close(&b);
}

/* The order within a destination: by domain, and who has none comes last, whoever came first. */
static void recipients_without_a_domain_come_last(void **state)
{
    static const struct slice names[] = {SLICE("x@dom"), SLICE("postmaster"), SLICE("y@dom")};
    static const uint32_t turns[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}};
    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
        static struct bed b;
        struct sched_recipient recipients[3];
        struct sched_action a;
        uint32_t count;
        bed_init(&b);
        bed_open(&b);
        for (uint32_t k = 0; k < 3; k++) {
            recipients[k] =
                (struct sched_recipient){names[turns[i][k]], SLICE("relay"), turns[i][k], 0};
        }
        struct sched_message m = {.id = 1, .recipients = recipients, .recipient_count = 3};
        assert_int_equal(sched_submit(b.sched, &m, 0), 0);
        assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_DELIVER);
        const uint32_t *got = sched_entry_indexes(a.entry, &count);
        assert_int_equal(count, 3);
        assert_int_equal(got[0], 0);
        assert_int_equal(got[1], 2);
        assert_int_equal(got[2], 1);
        struct sched_outcome o = {.entry = a.entry};
        sched_report(b.sched, &o, 0);
        assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_FINISHED);
        bed_close(&b);
    }
}

/* What lies behind the end of a name that another one begins with does not count. */
static void the_shorter_domain_comes_first(void **state)
{
    const struct slice names[] = {slice_make("y@abz", 4), SLICE("x@aba")};
    for (uint32_t turn = 0; turn < 2; turn++) {
        static struct bed b;
        struct sched_recipient recipients[2];
        struct sched_action a;
        uint32_t count;
        bed_init(&b);
        bed_open(&b);
        for (uint32_t k = 0; k < 2; k++) {
            recipients[k] = (struct sched_recipient){names[k ^ turn], SLICE("relay"), k ^ turn, 0};
        }
        struct sched_message m = {.id = 1, .recipients = recipients, .recipient_count = 2};
        assert_int_equal(sched_submit(b.sched, &m, 0), 0);
        assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_DELIVER);
        const uint32_t *got = sched_entry_indexes(a.entry, &count);
        assert_int_equal(count, 2);
        assert_int_equal(got[0], 0);
        assert_int_equal(got[1], 1);
        struct sched_outcome o = {.entry = a.entry};
        sched_report(b.sched, &o, 0);
        assert_true(sched_pull(b.sched, &a, 0) && a.kind == SCHED_FINISHED);
        bed_close(&b);
    }
}

static void no_limit(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 0;
    bed_open(&b);
    bed_message(&b, 'A', "c@dd b@dd a@dd no-at-sign@dd x@ee");
    assert_string_equal(bed_select(&b), "A dd a@dd,b@dd,c@dd,no-at-sign@dd");
    bed_close(&b);
}

/* Names that agree in what the sort compares first, and names shorter than that. */
static void order_of_destinations(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_open(&b);
    bed_message(&b, 'A', "x@eight-ch x@eight-cha.b x@eight-c x@b x@eight-cha.a x@eight-ch x@ab");
    assert_string_equal(bed_select(&b), "A ab x@ab");
    assert_string_equal(bed_select(&b), "A b x@b");
    assert_string_equal(bed_select(&b), "A eight-c x@eight-c");
    assert_string_equal(bed_select(&b), "A eight-ch x@eight-ch,x@eight-ch");
    assert_string_equal(bed_select(&b), "A eight-cha.a x@eight-cha.a");
    assert_string_equal(bed_select(&b), "A eight-cha.b x@eight-cha.b");
    bed_close(&b);
}

static void empty_message(void **state)
{
    static struct bed b;
    bed_init(&b);
    bed_open(&b);
    bed_message(&b, 'A', "");
    assert_string_equal(bed_log(&b), "finished A");
    bed_close(&b);
}

/* Refill tops up the last waiting entry (4.5). */
static void topping_up(void **state)
{
    static struct bed b;
    bed_init(&b);
    b.config.destination_recipient_limit = 4;
    b.config.destination_concurrency_limit = 1;
    b.config.message_recipient_limit = 6;
    b.config.message_recipient_minimum = 6;
    b.config.recipient_refill_limit = 4;
    bed_open(&b);
    bed_message(&b, 'A', "f@dd e@dd d@dd c@dd b@dd a@dd j@dd i@dd h@dd g@dd");
    /* Six are read: a full entry and a partial one; the pool has room, so the rest follows at the
     * first selection and fills the partial one. */
    assert_string_equal(bed_select(&b), "A dd a@dd,b@dd,c@dd,d@dd");
    bed_report(&b, 1, BED_OK);
    assert_string_equal(bed_select(&b), "A dd e@dd,f@dd,g@dd,h@dd");
    bed_report(&b, 2, BED_OK);
    assert_string_equal(bed_select(&b), "A dd i@dd,j@dd");
    bed_close(&b);
}

/* Fail each allocation in turn. */
static void out_of_memory(void **state)
{
    static struct bed b;
    for (int limit = 0; limit < 3; limit++) {
        bed_init(&b);
        b.config.destination_recipient_limit = limit;
        bed_open(&b);
        bed_message(&b, 'A', "a@aa b@bb");
        long objects = b.objects;
        long allowed = 0;
        for (;; allowed++) {
            b.fail_after = allowed;
            bool is_taken = bed_try_message(
                &b, 'B',
                "a@aa c@cc d@dd e@dd f@dd g@gg h@hh i@ii j@jj k@jj l@jj m@mm n@nn o@oo "
                "p@pp q@qq");
            b.fail_after = -1;
            if (is_taken) {
                break;
            }
            /* An array that grew before the failure stays grown; nothing else stays. */
            assert_in_range(b.objects, objects, objects + 1);
            assert_string_equal(bed_queue(&b, "jj"), "-");
        }
        assert_true(allowed > 10);
        assert_string_equal(bed_log(&b), "");
        bed_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grouping),
        cmocka_unit_test(one_recipient_each),
        cmocka_unit_test(nexthop_of_a_recipient),
        cmocka_unit_test(the_shorter_domain_comes_first),
        cmocka_unit_test(no_limit),
        cmocka_unit_test(recipients_without_a_domain_come_last),
        cmocka_unit_test(order_of_destinations),
        cmocka_unit_test(empty_message),
        cmocka_unit_test(topping_up),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
