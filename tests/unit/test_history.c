/* The newest records of one writer, read alone and while it writes. */
#include "base/history.h"
#include "base/thread.h"
#include "tests/unit/unit.h"

#include <stdatomic.h>

struct record {
    uint64_t number, twice, thrice;
};

static struct record record_of(uint64_t n)
{
    return (struct record){n, 2 * n, 3 * n};
}

static void put(struct history *h, uint64_t n)
{
    struct record r = record_of(n);
    history_put(h, &r);
}

static void the_newest_stay(void **state)
{
    struct history *h = history_new(4, sizeof(struct record));
    struct record r;
    assert_non_null(h);
    assert_int_equal(history_end(h), 0);
    assert_int_equal(history_begin(h), 0);
    assert_false(history_get(h, 0, &r));
    for (uint64_t i = 0; i < 3; i++) {
        put(h, i);
    }
    assert_int_equal(history_begin(h), 0);
    assert_int_equal(history_end(h), 3);
    assert_true(history_get(h, 0, &r));
    assert_int_equal(r.thrice, 0);
    assert_false(history_get(h, 3, &r));
    for (uint64_t i = 3; i < 10; i++) {
        put(h, i);
    }
    assert_int_equal(history_begin(h), 6);
    assert_false(history_get(h, 5, &r));
    for (uint64_t i = 6; i < 10; i++) {
        assert_true(history_get(h, i, &r));
        assert_int_equal(r.number, i);
        assert_int_equal(r.thrice, 3 * i);
    }
    history_free(h);
}

enum { WRITTEN = 300000 };

static void write_all(void *arg)
{
    for (uint64_t i = 0; i < WRITTEN; i++) {
        put(arg, i);
    }
}

static void no_record_is_mixed(void **state)
{
    struct history *h = history_new(2, sizeof(struct record));
    struct thread writer;
    uint64_t read = 0;
    assert_non_null(h);
    assert_int_equal(thread_start(&writer, "writer", write_all, h), 0);
    for (uint64_t end = 0; end < WRITTEN;) {
        struct record r;
        end = history_end(h);
        for (uint64_t i = history_begin(h); i < end; i++) {
            if (history_get(h, i, &r)) {
                assert_int_equal(r.number, i);
                assert_int_equal(r.twice, 2 * i);
                assert_int_equal(r.thrice, 3 * i);
                read++;
            }
        }
    }
    thread_join(&writer);
    assert_true(read > 0);
    history_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_stay),
        cmocka_unit_test(no_record_is_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
