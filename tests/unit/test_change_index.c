/* The last failure of each destination in a history of windows. */
#include "engine/report/change_index.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static void put(struct history *h, uint64_t transport, const char *name,
                enum sched_change_cause cause, const char *text)
{
    struct sched_thread_change c;
    memset(&c, 0, sizeof(c));
    c.transport = transport;
    c.change.cause = cause;
    (void)snprintf(c.change.name, sizeof(c.change.name), "%.63s", name);
    (void)snprintf(c.change.text, sizeof(c.change.text), "%.100s", text);
    history_put(h, &c);
}

static const char *find(const struct change_index *x, uint32_t transport, const char *name)
{
    static struct sched_thread_change c;
    return change_index_find(x, transport, slice_of(name), &c) ? c.change.text : NULL;
}

static void the_newest_failure(void **state)
{
    struct change_index x;
    char name[200];
    (void)state;
    struct history *h = history_new(16, sizeof(struct sched_thread_change));
    assert_non_null(h);
    change_index_init(&x, h);
    assert_null(find(&x, 0, "a.example"));
    change_index_fini(&x);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    put(h, 0, "a.example", SCHED_CHANGE_DEAD, "old");
    put(h, 0, "a.example", SCHED_CHANGE_NEGATIVE, "new");
    put(h, 1, "a.example", SCHED_CHANGE_DEAD, "of another transport");
    put(h, 0, "a.example", SCHED_CHANGE_POSITIVE, "");
    put(h, 0, "b.example", SCHED_CHANGE_DEAD, "");
    put(h, 0, name, SCHED_CHANGE_DEAD, "long name");
    change_index_init(&x, h);
    assert_string_equal(find(&x, 0, "a.example"), "new");
    assert_string_equal(find(&x, 1, "a.example"), "of another transport");
    assert_null(find(&x, 0, "b.example"));
    assert_null(find(&x, 0, "c.example"));
    assert_string_equal(find(&x, 0, name), "long name");
    /* The writer goes on: what was overwritten is not found any more. */
    for (int i = 0; i < 40; i++) {
        put(h, 0, "z.example", SCHED_CHANGE_DEAD, "z");
    }
    assert_null(find(&x, 0, "a.example"));
    change_index_fini(&x);
    history_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_newest_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
