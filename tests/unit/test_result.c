/* What a result keeps of names and replies. */
#include "engine/post/result.h"
#include "tests/unit/unit.h"

#include <string.h>

static void kept_text_stays_where_it_is(void **state)
{
    static char reply[1000];
    struct result *r = result_new(NULL, 40);
    assert_non_null(r);
    r->destination = result_keep(r, SLICE("example.com"));
    r->host_name = result_keep(r, SLICE("mx.example.com"));
    for (uint32_t i = 0; i < 40; i++) {
        memset(reply, 'a' + (int)(i / 4), sizeof(reply));
        result_add(r, i, RESULT_DEFERRED, 450, "4.2.0", slice_make(reply, sizeof(reply)));
    }
    assert_true(slice_eq(r->destination, SLICE("example.com")));
    assert_true(slice_eq(r->host_name, SLICE("mx.example.com")));
    for (uint32_t i = 0; i < 40; i++) {
        struct slice text = result_text(r, &r->recipients[i]);
        memset(reply, 'a' + (int)(i / 4), sizeof(reply));
        assert_true(slice_eq(text, slice_make(reply, sizeof(reply))));
        assert_ptr_equal(text.data, result_text(r, &r->recipients[i / 4 * 4]).data); /* shared */
    }
    result_free(r);
}

static void text_is_cut_at_a_limit(void **state)
{
    static char reply[1000];
    struct result *r = result_new(NULL, 1);
    size_t bytes = 0;
    assert_non_null(r);
    for (int i = 0; i < 100; i++) {
        bytes += result_keep(r, slice_make(reply, sizeof(reply))).len;
    }
    assert_true(bytes >= 2 * sizeof(reply) && bytes < 4 * sizeof(reply));
    assert_int_equal(result_keep(r, SLICE("x")).len, 0);
    result_free(r);
    result_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_text_stays_where_it_is),
        cmocka_unit_test(text_is_cut_at_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
