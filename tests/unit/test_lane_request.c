/* What a request for an order on lanes may say, and what it may not. */
#include "base/error.h"
#include "engine/lane/lane_request.h"
#include "tests/unit/unit.h"

#include <string.h>

static int read_text(json_t **ret_body, const char *body, struct lane_request *ret, char *text)
{
    *ret_body = json_loads(body, 0, NULL);
    assert_non_null(*ret_body);
    return lane_request_read(*ret_body, ret, text);
}

static void what_is_taken(void **state)
{
    static const struct {
        const char *body;
        enum limit_order_kind kind;
        bool has_source;
        const char *source, *reason;
        long long seconds;
        double rate;
    } taken[] = {
        {"{\"order\":\"open\",\"site\":\"x\"}", LIMIT_ORDER_OPEN, false, "", "", 0, 0},
        {"{\"order\":\"close\",\"site\":\"x\"}", LIMIT_ORDER_CLOSE, false, "", "", 3600, 0},
        {"{\"order\":\"close\",\"site\":\"x\",\"source\":\"\",\"for\":90}", LIMIT_ORDER_CLOSE, true,
         "", "", 90, 0},
        {"{\"order\":\"close\",\"site\":\"x\",\"source\":null,\"for\":\"2h\",\"reason\":\"r\"}",
         LIMIT_ORDER_CLOSE, false, "", "r", 7200, 0},
        {"{\"order\":\"pace\",\"site\":\"x\",\"source\":\"s\",\"rate\":\"20/s\"}", LIMIT_ORDER_PACE,
         true, "s", "", 0, 20},
        {"{\"order\":\"pace\",\"site\":\"x\",\"rate\":\"90/min\"}", LIMIT_ORDER_PACE, false, "", "",
         0, 1.5},
        {"{\"order\":\"pace\",\"site\":\"x\",\"rate\":\"none\"}", LIMIT_ORDER_UNPACE, false, "", "",
         0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        struct lane_request r;
        char text[LANE_REQUEST_TEXT_MAX];
        json_t *body;
        if (read_text(&body, taken[i].body, &r, text) != 0) {
            fail_msg("%s: %s", taken[i].body, text);
        }
        assert_int_equal(r.kind, taken[i].kind);
        assert_true(slice_eq(r.site, SLICE("x")));
        assert_int_equal(r.has_source, taken[i].has_source);
        assert_true(slice_eq(r.source, slice_of(taken[i].source)));
        assert_true(slice_eq(r.reason, slice_of(taken[i].reason)));
        if (r.kind == LIMIT_ORDER_CLOSE) {
            assert_int_equal(r.span, taken[i].seconds * USEC_PER_SEC);
        }
        assert_true(r.rate == taken[i].rate);
        json_decref(body);
    }
}

static void what_is_refused(void **state)
{
    static const struct {
        const char *body, *text;
    } refused[] = {
        {"{}", "order: one of open, close, pace"},
        {"{\"order\":\"shut\",\"site\":\"x\"}", "order: one of"},
        {"{\"order\":1,\"site\":\"x\"}", "order: one of"},
        {"{\"order\":\"open\"}", "site: as `sluice sites` names it"},
        {"{\"order\":\"open\",\"site\":\"\",\"source\":\"s\"}", "site: as `sluice sites` names it"},
        {"{\"order\":\"close\",\"source\":\"s\"}", "site: as `sluice sites` names it"},
        {"{\"order\":\"open\",\"site\":\"\"}", "site: as `sluice sites` names it"},
        {"{\"order\":\"open\",\"site\":7}", "site: a text"},
        {"{\"order\":\"open\",\"site\":\"x\",\"sourse\":\"s\"}", "sourse: there is no such member"},
        {"{\"order\":\"open\",\"site\":\"x\",\"for\":\"2h\"}", "for: only close"},
        {"{\"order\":\"close\",\"site\":\"x\",\"for\":\"0\"}", "longer than 0"},
        {"{\"order\":\"close\",\"site\":\"x\",\"for\":-4}", "longer than 0"},
        {"{\"order\":\"close\",\"site\":\"x\",\"for\":\"367d\"}", "at most 366 days"},
        {"{\"order\":\"close\",\"site\":\"x\",\"for\":[]}", "for: a span"},
        {"{\"order\":\"close\",\"site\":\"x\",\"rate\":\"2/s\"}", "rate: only pace"},
        {"{\"order\":\"close\",\"site\":\"x\",\"reason\":\"a\\nb\"}", "reason: one line"},
        {"{\"order\":\"pace\",\"site\":\"x\"}", "rate: messages in a time such as"},
        {"{\"order\":\"pace\",\"site\":\"x\",\"rate\":\"2/s, burst 9\"}",
         "rate: a pace has no burst"},
        {"{\"order\":\"pace\",\"site\":\"x\",\"rate\":\"2/d\"}", "rate: at least 1/h"},
        {"{\"order\":\"pace\",\"site\":\"x\",\"rate\":\"0/s\"}", "rate: "},
        {"{\"order\":\"pace\",\"site\":\"x\",\"rate\":\"fast\"}", "rate: "},
    };
    struct lane_request r;
    char text[LANE_REQUEST_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        json_t *body;
        int err = read_text(&body, refused[i].body, &r, text);
        if (err != ERR_SYNTAX || strstr(text, refused[i].text) == NULL) {
            fail_msg("%s: %d %s", refused[i].body, err, text);
        }
        json_decref(body);
    }
    assert_int_equal(lane_request_read(NULL, &r, text), ERR_SYNTAX);
    char reason[400];
    memset(reason, 'r', LANE_REQUEST_REASON_MAX + 1);
    reason[LANE_REQUEST_REASON_MAX + 1] = '\0';
    json_t *body = json_pack("{s:s, s:s, s:s}", "order", "open", "site", "x", "reason", reason);
    assert_int_equal(lane_request_read(body, &r, text), ERR_SYNTAX);
    json_decref(body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
