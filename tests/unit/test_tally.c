/* Which counters a message moves on its way. */
#include "base/rcu.h"
#include "engine/config/config.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/tally/responses.h"
#include "engine/tally/tally.h"
#include "engine/tally/tally_memory.h"
#include "tests/unit/unit.h"

static struct tally *tally;
static struct result_recipient recipients[3];
static struct result result;
static struct message message;
static const usec_t created = 1000 * USEC_PER_SEC;

static int set_up(void **state)
{
    static char smtp[] = "smtp", bulk[] = "bulk";
    static struct config_transport transports[] = {{.name = smtp}, {.name = bulk}};
    const struct config config = {.transports = transports, .transport_count = 2};
    tally = tally_new(&config);
    message = (struct message){
        .envelope = {
            .created = created, .size_bytes = 4096, .recipient_count = 3, .tenant = SLICE("acme")}};
    for (int i = 0; i < 3; i++) {
        recipients[i] = (struct result_recipient){.kind = RESULT_DELIVERED, .code = 250};
    }
    result = (struct result){.transport = 1,
                             .dispatched = created + 3 * USEC_PER_SEC,
                             .done = created + 3 * USEC_PER_SEC + 70 * USEC_PER_MSEC,
                             .source = SLICE("ip1"),
                             .destination = SLICE("example.com"),
                             .count = 3,
                             .recipients = recipients};
    return tally == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    tally_free(tally);
    return 0;
}

static uint64_t value(struct tally_table *t, const char *name, enum tally_value v)
{
    return tally_row_value(tally_table_row(t, tally_table_find(t, slice_of(name))), v);
}

/* Number of spans in the bucket up to `bound`. */
static uint64_t spans(uint32_t transport, enum tally_span which, usec_t bound)
{
    for (uint32_t i = 0; i < TALLY_SPAN_BOUNDS; i++) {
        if (tally_span_bounds[i] == bound) {
            return tally_bucket(&tally->spans[transport][which], i);
        }
    }
    return tally_bucket(&tally->spans[transport][which], TALLY_SPAN_BOUNDS);
}

/* What was counted goes on in another tally, whatever the order of its transports; odd text adds nothing. */
static void counters_go_on(void **state)
{
    (void)state;
    static char smtp[] = "smtp", bulk[] = "bulk", other[] = "more";
    static struct config_transport transports[] = {{.name = bulk}, {.name = other}, {.name = smtp}};
    const struct config config = {.transports = transports, .transport_count = 3};
    _Atomic uint64_t first = 7, second = 0;
    const struct tally_total totals[] = {{"first", &first}, {"second", &second}};
    struct buf text;
    buf_init(&text, 0);
    uint16_t row = tally_tenant(tally, &message.envelope);
    tally_received(tally, row, &message.envelope);
    tally_result(tally, &message, &result);
    tally_memory_write(tally, totals, 2, &text);
    assert_false(text.failed);
    struct tally *kept = tally;
    tally = tally_new(&config);
    assert_int_equal(tally_memory_read(tally, totals, 2, buf_slice(&text)), 0);
    assert_int_equal(tally_memory_read(tally, totals, 2, buf_slice(&text)), 0); /* it adds */
    assert_int_equal(first, 21);
    assert_int_equal(value(tally->tenants, "acme", TALLY_RECEIVED), 2);
    assert_int_equal(value(tally->tenants, "acme", TALLY_DELIVERED), 6);
    assert_int_equal(value(tally->transports, "bulk", TALLY_DELIVERED), 6);
    assert_int_equal(value(tally->sources, "ip1", TALLY_DELIVERED), 6);
    assert_int_equal(spans(0, TALLY_DELIVERY_TIME, 100 * USEC_PER_MSEC), 2);
    assert_int_equal(spans(2, TALLY_DELIVERY_TIME, 100 * USEC_PER_MSEC), 0);
    for (size_t cut = 0; cut + 2 < text.len; cut += 7) {
        assert_int_equal(tally_memory_read(tally, totals, 2, slice_make(text.data, cut)),
                         ERR_SYNTAX);
    }
    assert_int_equal(tally_memory_read(tally, totals, 2,
                                       SLICE("{\"totals\":{\"first\":-1},\"tenants\":[1],"
                                             "\"received\":{\"a\":2},\"sources\":{\"rows\":3}}")),
                     0);
    assert_int_equal(first, 21);
    assert_int_equal(value(tally->tenants, "acme", TALLY_RECEIVED), 2);
    tally_free(kept);
    buf_fini(&text);
}

static void a_reception_is_its_tenants(void **state)
{
    uint16_t row = tally_tenant(tally, &message.envelope);
    assert_int_not_equal(row, 0);
    tally_received(tally, row, &message.envelope);
    assert_int_equal(value(tally->tenants, "acme", TALLY_RECEIVED), 1);
    assert_int_equal(value(tally->tenants, "acme", TALLY_RECIPIENTS), 3);
    assert_int_equal(value(tally->tenants, "acme", TALLY_BYTES), 4096);
    message.envelope.tenant = SLICE("");
    tally_received(tally, tally_tenant(tally, &message.envelope), &message.envelope);
    assert_int_equal(value(tally->tenants, "", TALLY_RECEIVED), 1);
}

static void a_delivery_moves_all(void **state)
{
    tally_result(tally, &message, &result);
    assert_int_not_equal(message.account.tenant_row, 0);
    assert_int_equal(value(tally->tenants, "acme", TALLY_DELIVERED), 3);
    assert_int_equal(value(tally->transports, "bulk", TALLY_DELIVERED), 3);
    assert_int_equal(value(tally->transports, "smtp", TALLY_DELIVERED), 0);
    assert_int_equal(value(tally->sources, "ip1", TALLY_DELIVERED), 3);
    assert_int_equal(spans(1, TALLY_QUEUE_TIME, 5 * USEC_PER_SEC), 3);
    assert_int_equal(spans(1, TALLY_DELIVERY_TIME, 100 * USEC_PER_MSEC), 1);
    assert_int_equal(atomic_load(&tally->spans[1][TALLY_QUEUE_TIME].sum), 3 * 3070000);
}

static void kinds_are_apart(void **state)
{
    struct response_view v;
    uint32_t cursor = 0;
    recipients[1] = (struct result_recipient){
        .kind = RESULT_DEFERRED, .code = 450, .status = "4.2.2", .text = SLICE("full 1")};
    recipients[2] = (struct result_recipient){
        .kind = RESULT_DEFERRED, .code = 450, .status = "4.2.2", .text = SLICE("full 2")};
    tally_result(tally, &message, &result);
    assert_int_equal(value(tally->tenants, "acme", TALLY_DELIVERED), 1);
    assert_int_equal(value(tally->tenants, "acme", TALLY_DEFERRED), 2);
    assert_int_equal(value(tally->sources, "ip1", TALLY_DEFERRED), 2);
    rcu_join();
    assert_true(responses_next(tally->responses, &cursor, &v));
    assert_int_equal(v.count, 2);
    assert_true(slice_eq(v.tenants[0], SLICE("acme")));
    assert_false(responses_next(tally->responses, &cursor, &v));
    rcu_leave();
}

static void parked_ones_are_not_counted(void **state)
{
    recipients[1].kind = RESULT_PARKED;
    recipients[2].kind = RESULT_DROPPED;
    tally_result(tally, &message, &result);
    assert_int_equal(value(tally->tenants, "acme", TALLY_DELIVERED), 1);
    assert_int_equal(value(tally->tenants, "acme", TALLY_DROPPED), 1);
    assert_int_equal(value(tally->tenants, "acme", TALLY_DEFERRED), 0);
    rcu_join();
    struct response_view v;
    uint32_t cursor = 0;
    assert_false(responses_next(tally->responses, &cursor, &v));
    rcu_leave();
}

static void what_nobody_tried_has_no_source(void **state)
{
    result.transport = RESULT_NO_TRANSPORT;
    result.dispatched = 0;
    result.source = SLICE("");
    result.count = 1;
    recipients[0].kind = RESULT_FAILED;
    recipients[0].class = REPLY_CONTENT;
    tally_result(tally, &message, &result);
    assert_int_equal(value(tally->transports, "", TALLY_FAILED), 1);
    assert_int_equal(value(tally->tenants, "acme", TALLY_CONTENT), 1);
    assert_int_equal(value(tally->tenants, "acme", TALLY_POLICY), 0);
    assert_int_equal(value(tally->sources, "", TALLY_FAILED), 0);
    assert_int_equal(value(tally->tenants, "acme", TALLY_FAILED), 1);
    tally_expired(tally, &message, 2);
    assert_int_equal(value(tally->tenants, "acme", TALLY_EXPIRED), 2);
}

static void bounds_are_inclusive(void **state)
{
    const struct {
        usec_t span, bound;
    } cases[] = {
        {-5, USEC_PER_MSEC},
        {0, USEC_PER_MSEC},
        {USEC_PER_MSEC, USEC_PER_MSEC},
        {USEC_PER_MSEC + 1, 2 * USEC_PER_MSEC},
        {USEC_PER_SEC, USEC_PER_SEC},
        {7 * 86400LL * USEC_PER_SEC, 7 * 86400LL * USEC_PER_SEC},
        {7 * 86400LL * USEC_PER_SEC + 1, USEC_NEVER},
    };
    result.transport = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        result.done = created + cases[i].span;
        uint64_t before = spans(0, TALLY_QUEUE_TIME, cases[i].bound);
        tally_result(tally, &message, &result);
        assert_int_equal(spans(0, TALLY_QUEUE_TIME, cases[i].bound), before + 3);
    }
    for (uint32_t i = 1; i < TALLY_SPAN_BOUNDS; i++) {
        assert_true(tally_span_bounds[i] > tally_span_bounds[i - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reception_is_its_tenants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counters_go_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_delivery_moves_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kinds_are_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parked_ones_are_not_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_nobody_tried_has_no_source, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_are_inclusive, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
