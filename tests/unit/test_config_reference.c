/* docs/configuration.md is what the table prints. SOURCE_FOLDER comes from the build. */
#include "tests/unit/config_sample.h"

#include <stdlib.h>

static void file_is_current(void **state)
{
    (void)state;
    char *printed = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&printed, &len);
    assert_non_null(out);
    config_reference_print(out);
    assert_int_equal(fclose(out), 0);
    char *stored = malloc(len + 2);
    assert_non_null(stored);
    FILE *in = fopen(SOURCE_FOLDER "/docs/configuration.md", "r");
    assert_non_null(in);
    size_t n = fread(stored, 1, len + 1, in);
    stored[n] = '\0';
    assert_int_equal(fclose(in), 0);
    if (n != len || memcmp(stored, printed, len) != 0) {
        fail_msg("docs/configuration.md is old: sluice check --reference > docs/configuration.md");
    }
    free(stored);
    free(printed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(file_is_current)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
