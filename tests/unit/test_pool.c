#include "base/pool.h"
#include "tests/unit/unit.h"

#include <string.h>

#define OBJECTS 1000

static void objects_do_not_overlap(void **state)
{
    const size_t sizes[] = {1, 8, 15, 16, 17, 200};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct pool p;
        pool_init(&p, sizes[s], 7);
        unsigned char *objects[OBJECTS];
        for (size_t i = 0; i < OBJECTS; i++) {
            objects[i] = pool_get(&p);
            assert_non_null(objects[i]);
            assert_int_equal((uintptr_t)objects[i] % 16, 0);
            memset(objects[i], (int)(i % 251), sizes[s]);
        }
        assert_int_equal(p.in_use, OBJECTS);
        for (size_t i = 0; i < OBJECTS; i++) {
            for (size_t at = 0; at < sizes[s]; at++) {
                assert_int_equal(objects[i][at], i % 251);
            }
            pool_put(&p, objects[i]);
        }
        assert_int_equal(p.in_use, 0);
        pool_fini(&p);
    }
}

static void memory_is_used_again(void **state)
{
    struct pool p;
    pool_init(&p, 32, 4);
    void *first = pool_get(&p);
    assert_non_null(first);
    void *blocks = p.blocks;
    for (int i = 0; i < 100; i++) {
        void *object = pool_get(&p);
        assert_non_null(object);
        pool_put(&p, object);
    }
    assert_ptr_equal(p.blocks, blocks); /* two objects at a time never need a second block */
    pool_put(&p, first);
    pool_fini(&p);
}

static void an_unused_pool_ends_too(void **state)
{
    struct pool p;
    pool_init(&p, 100, 10);
    pool_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_do_not_overlap),
        cmocka_unit_test(memory_is_used_again),
        cmocka_unit_test(an_unused_pool_ends_too),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
