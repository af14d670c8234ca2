/* What a request for an order may say, and what it may not. */
#include "base/error.h"
#include "engine/report/order_request.h"
#include "tests/unit/unit.h"

#include <string.h>

#define NOW (1000 * USEC_PER_SEC)

static int read_text(const char *body, struct order_request *ret, char *text)
{
    json_t *object = json_loads(body, 0, NULL);
    assert_non_null(object);
    int err = order_request_read(object, "local", NOW, ret, text);
    json_decref(object);
    return err;
}

static void what_is_taken(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum order_kind kind;
        usec_t seconds;
        bool is_once, is_dry_run, is_here;
        const char *description;
    } taken[] = {
        {"{\"order\":\"suspend\",\"reason\":\"r\",\"tenant\":\"acme\"}", ORDER_SUSPEND, 3600, false,
         false, false, "suspend tenant=acme"},
        {"{\"order\":\"suspend\",\"reason\":\"r\",\"here\":true}", ORDER_SUSPEND, 3600, false,
         false, true, "suspend all mail"},
        {"{\"order\":\"suspend\",\"reason\":\"r\",\"for\":90,\"source\":\"ip*\",\"domain\":null}",
         ORDER_SUSPEND, 90, false, false, false, "suspend source=ip*"},
        {"{\"order\":\"bounce\",\"reason\":\"r\",\"for\":\"2h\",\"campaign\":\"c\",\"domain\":"
         "\"d\"}",
         ORDER_BOUNCE, 7200, false, false, false, "bounce campaign=c domain=d"},
        {"{\"order\":\"drop\",\"reason\":\"r\",\"for\":\"0\",\"all\":true,\"dry_run\":true}",
         ORDER_DROP, ORDER_ONCE_SPAN / USEC_PER_SEC, true, true, false, "drop all mail"},
        {"{\"order\":\"drop\",\"reason\":\"r\",\"for\":\"366d\",\"transport\":\"t\","
         "\"destination\":\"x\"}",
         ORDER_DROP, 366 * 86400, false, false, false, "drop destination=x transport=t"},
    };
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        struct order_request r;
        char text[ORDER_REQUEST_TEXT_MAX];
        if (read_text(taken[i].body, &r, text) != 0) {
            fail_msg("%s: %s", taken[i].body, text);
        }
        assert_int_equal(r.order.kind, taken[i].kind);
        assert_int_equal(r.order.created, NOW);
        assert_int_equal(r.order.until - NOW, taken[i].seconds * USEC_PER_SEC);
        assert_int_equal(r.order.is_once, taken[i].is_once);
        assert_int_equal(r.is_dry_run, taken[i].is_dry_run);
        assert_int_equal(r.is_here, taken[i].is_here);
        assert_string_equal(r.order.reason, "r");
        assert_string_equal(r.order.by, "local");
        order_describe(&r.order, text, sizeof(text));
        assert_string_equal(text, taken[i].description);
        order_describe(&r.order, text, 10);
        assert_int_equal(strlen(text), 9);
        order_fini(&r.order);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
#define SUSPEND(more) "{\"order\":\"suspend\",\"reason\":\"r\"" more "}"
#define DROP(more)    "{\"order\":\"drop\",\"reason\":\"r\"" more "}"
    static const struct {
        const char *body, *says;
    } refused[] = {
        {"{}", "order"},
        {"{\"order\":\"none\",\"reason\":\"r\"}", "order"},
        {"{\"order\":7,\"reason\":\"r\"}", "order"},
        {"{\"order\":\"suspend\"}", "reason"},
        {"{\"order\":\"suspend\",\"reason\":\"\"}", "reason"},
        {"{\"order\":\"suspend\",\"reason\":7}", "reason"},
        {"{\"order\":\"suspend\",\"reason\":\"a\\nb\"}", "reason"},
        {SUSPEND(",\"tennant\":\"acme\""), "tennant"},
        {SUSPEND(",\"tenant\":\"\""), "tenant"},
        {SUSPEND(",\"tenant\":[\"a\"]"), "tenant"},
        {SUSPEND(",\"for\":\"0\""), "for"},
        {SUSPEND(",\"for\":\"soon\""), "for"},
        {SUSPEND(",\"for\":-1"), "for"},
        {SUSPEND(",\"for\":1.5"), "for"},
        {SUSPEND(",\"for\":\"367d\""), "for"},
        {SUSPEND(",\"for\":31622401"), "for"},
        {SUSPEND(",\"dry_run\":\"yes\""), "dry_run"},
        {SUSPEND(",\"here\":1"), "here"},
        {DROP(",\"tenant\":\"acme\""), "for"},
        {DROP(",\"for\":\"1h\""), "all"},
        {DROP(",\"for\":\"1h\",\"all\":false"), "all"},
        {DROP(",\"for\":\"1h\",\"all\":1"), "all"},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct order_request r;
        char text[ORDER_REQUEST_TEXT_MAX];
        if (read_text(refused[i].body, &r, text) == 0 || strstr(text, refused[i].says) == NULL) {
            fail_msg("%s: %s", refused[i].body, text);
        }
        order_fini(&r.order);
    }
    struct order_request r;
    char text[ORDER_REQUEST_TEXT_MAX];
    assert_int_equal(order_request_read(NULL, "local", NOW, &r, text), ERR_SYNTAX);
    order_fini(&r.order);
}

static void flushes(void **state)
{
    (void)state;
    struct selector s;
    bool is_dry_run;
    char text[ORDER_REQUEST_TEXT_MAX];
    assert_int_equal(order_request_read_flush(NULL, &s, &is_dry_run, text), 0);
    assert_true(selector_is_empty(&s) && !is_dry_run);
    json_t *body = json_pack("{s:s, s:b}", "tenant", "acme", "dry_run", 1);
    assert_int_equal(order_request_read_flush(body, &s, &is_dry_run, text), 0);
    assert_true(!selector_is_empty(&s) && is_dry_run);
    selector_fini(&s);
    assert_int_equal(json_object_set_new(body, "reason", json_string("r")), 0);
    assert_int_equal(order_request_read_flush(body, &s, &is_dry_run, text), ERR_SYNTAX);
    assert_non_null(strstr(text, "reason"));
    selector_fini(&s);
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(flushes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
