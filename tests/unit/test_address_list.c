#include "base/buf.h"
#include "base/error.h"
#include "engine/compose/address_list.h"
#include "tests/unit/config_sample.h"

static int append(void *ctx, struct slice address)
{
    buf_append_slice(ctx, address);
    buf_append_char(ctx, '|');
    return 0;
}

static void lists(void **state)
{
    (void)state;
    static const struct {
        const char *text, *found; /* found NULL: refused */
    } cases[] = {
        {"a@b", "a@b|"},
        {" a@b ,\r\n c@d", "a@b|c@d|"},
        {"A B <a@b>, c@d (x (y) z)", "a@b|c@d|"},
        {"\"B, A\" <a@b>", "a@b|"},
        {"\"a b\"@c", "\"a b\"@c|"},
        {"\"a\\\"b\"@c", "\"a\\\"b\"@c|"},
        {"group: a@b, c@d; , e@f", "a@b|c@d|e@f|"},
        {"undisclosed-recipients:;", ""},
        {"<@x,@y:a@b>", "a@b|"},
        {"a@[192.0.2.1], b@[IPv6:::1]", "a@[192.0.2.1]|b@[IPv6:::1]|"},
        {"a @ b . c", "a@b.c|"},
        {"<a@b> trailing", "a@b|"},
        {"", ""},
        {",,", ""},
        {"<>", ""},
        {"root", "root|"},
        {"<a@b", NULL},
        {"a@b>", NULL},
        {"<<a@b>>", NULL},
        {"\"a@b", NULL},
        {"(a", NULL},
        {"a@[b", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out;
        buf_init(&out, 0);
        int err = address_list_parse(slice_of(cases[i].text), append, &out);
        buf_append_char(&out, '\0');
        assert_int_equal(err, cases[i].found == NULL ? ERR_SYNTAX : 0);
        if (err == 0) {
            assert_string_equal(out.data, cases[i].found);
        }
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
