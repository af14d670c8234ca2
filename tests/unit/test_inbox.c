/* What watchers told, taken in order: engine/nodes/inbox.h. */
#include "engine/nodes/inbox.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* Whether one of those that were put since says that the servers begin anew. */
static bool take(struct inbox *i)
{
    bool is_anew = false;
    struct told *next;
    for (struct told *t = inbox_take(i); t != NULL; t = next) {
        next = t->next;
        is_anew = inbox_is_anew(i, t) || is_anew;
        free(t);
    }
    return is_anew;
}

static void put(struct inbox *i, const char *key, uint64_t revision)
{
    assert_true(inbox_put(i, key, "value", 5, revision));
}

static void begin(struct inbox *i)
{
    assert_true(inbox_put(i, NULL, NULL, 0, 0));
}

static void end(struct inbox *i)
{
    assert_true(inbox_put(i, NULL, "", 0, 0));
}

static void less_than_before_is_a_new_beginning(void **state)
{
    struct inbox i;
    (void)state;
    inbox_init(&i, 100);
    begin(&i);
    put(&i, "a", 3);
    put(&i, "b", 7);
    end(&i);
    assert_false(take(&i));
    put(&i, "a", 8);
    assert_false(take(&i));

    /* A connection was lost, and nothing else. */
    begin(&i);
    put(&i, "b", 7);
    assert_false(take(&i));
    put(&i, "a", 8);
    end(&i);
    assert_false(take(&i));

    begin(&i);
    put(&i, "a", 1);
    assert_false(take(&i)); /* more may follow */
    end(&i);
    assert_true(take(&i));
    put(&i, "a", 2);
    begin(&i);
    put(&i, "a", 2);
    end(&i);
    assert_false(take(&i));
    begin(&i);
    end(&i);
    assert_true(take(&i)); /* there is nothing at all */
    begin(&i);
    end(&i);
    assert_false(take(&i));
    inbox_fini(&i);
}

static void what_has_no_room_is_dropped(void **state)
{
    struct inbox i;
    (void)state;
    inbox_init(&i, 2);
    put(&i, "a", 1);
    put(&i, "b", 2);
    assert_false(inbox_put(&i, "c", "", 0, 3));
    assert_false(take(&i));
    put(&i, "c", 3);
    inbox_fini(&i); /* and frees it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_than_before_is_a_new_beginning),
        cmocka_unit_test(what_has_no_room_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
