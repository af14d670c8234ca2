#include "base/error.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

static void every_code_has_its_own_text(void **state)
{
    const int codes[] = {ERR_OK,     ERR_SYNTAX, ERR_LIMIT,   ERR_CORRUPT, ERR_AGAIN,
                         ERR_CLOSED, ERR_LOCKED, ERR_MISSING, ERR_TLS,     -12345};
    const size_t count = sizeof(codes) / sizeof(codes[0]);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(err_str(codes[i])) > 0);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(err_str(codes[i]), err_str(codes[j]));
        }
    }
}

static void an_errno_has_the_text_of_the_system(void **state)
{
    assert_string_equal(err_str(-ENOSPC), strerror(ENOSPC));
    assert_string_equal(err_str(-ENOMEM), strerror(ENOMEM));
}

static void positive_numbers_are_no_errors_of_ours(void **state)
{
    assert_string_equal(err_str(ENOSPC), err_str(-12345));
    assert_string_equal(err_str(ERR_OWN), err_str(-12345));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_own_text),
        cmocka_unit_test(an_errno_has_the_text_of_the_system),
        cmocka_unit_test(positive_numbers_are_no_errors_of_ours),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
