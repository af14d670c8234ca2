/* Numbers of nodes: each its own, kept, never given again; random histories against a plain model. */
#include "base/error.h"
#include "engine/nodes/node_numbers.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value as the servers hold it. */
struct store {
    char *value; /* NULL: none */
    size_t len;
};

static void keep(struct store *s, const struct node_numbers_step *step)
{
    if (step->value != NULL) {
        free(s->value);
        s->value = step->value;
        s->len = step->len;
    }
}

static int take(struct store *s, const char *name, uint16_t wanted, uint16_t *ret)
{
    struct node_numbers_step step;
    int err = node_numbers_take(slice_make(s->value, s->len), name, wanted, &step);
    keep(s, &step);
    *ret = step.number;
    return err;
}

static void test_each_its_own(void **state)
{
    struct store s = {NULL, 0};
    struct node_numbers_step step;
    uint16_t a, b, again;
    assert_int_equal(take(&s, "a", 0, &a), 0);
    assert_int_equal(take(&s, "b", 0, &b), 0);
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_string_equal(s.value, "{\"format\":1,\"next\":3,\"nodes\":{\"a\":1,\"b\":2}}");
    assert_int_equal(node_numbers_take(slice_make(s.value, s.len), "a", 0, &step), 0);
    assert_null(step.value); /* nothing is to be put */
    assert_int_equal(step.number, 1);
    /* Forgotten, and back under the old name: another number. */
    assert_int_equal(node_numbers_drop(slice_make(s.value, s.len), "b", &step), 0);
    keep(&s, &step);
    assert_int_equal(node_numbers_drop(slice_make(s.value, s.len), "b", &step), 0);
    assert_null(step.value);
    assert_int_equal(take(&s, "b", 0, &again), 0);
    assert_int_equal(again, 3);
    free(s.value);
}

/* The servers lost the value: nodes come with what they were, in any order. */
static void test_wanted(void **state)
{
    struct store s = {NULL, 0};
    uint16_t number;
    assert_int_equal(take(&s, "c", 3, &number), 0);
    assert_int_equal(number, 3);
    assert_int_equal(take(&s, "a", 1, &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(take(&s, "new", 0, &number), 0);
    assert_int_equal(number, 4);
    assert_int_equal(take(&s, "late", 3, &number), 0); /* somebody has it */
    assert_int_equal(number, 5);
    assert_int_equal(take(&s, "b", UINT16_MAX, &number), 0);
    assert_int_equal(number, UINT16_MAX);
    assert_int_equal(take(&s, "none left", 0, &number), ERR_LIMIT);
    assert_int_equal(number, 0);
    assert_int_equal(take(&s, "below", 7, &number), 0);
    assert_int_equal(number, 7);
    free(s.value);
}

/* errors of node_numbers_own; the value becomes what it says */
static int own(struct store *s, const char *name, uint16_t spool, uint16_t *ret)
{
    struct node_numbers_step step;
    int err = node_numbers_own(slice_make(s->value, s->len), name, spool, &step);
    if (step.value != NULL) {
        free(s->value);
        s->value = step.value;
        s->len = step.len;
    }
    *ret = step.number;
    return err;
}

/* The number is the spool's: with a new one the node gets another. */
static void test_of_spools(void **state)
{
    struct store s = {NULL, 0};
    uint16_t number;
    assert_int_equal(own(&s, "a", 0, &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(own(&s, "b", 0, &number), 0);
    assert_int_equal(number, 2);
    assert_int_equal(own(&s, "a", 1, &number), 0);
    assert_int_equal(number, 1);
    assert_int_equal(own(&s, "a", 0, &number), 0);
    assert_int_equal(number, 3);
    assert_int_equal(own(&s, "a", 1, &number), 0); /* an old spool has been put back */
    assert_int_equal(number, 1);
    assert_int_equal(own(&s, "a", 2, &number), ERR_LOCKED); /* b has it */
    assert_int_equal(number, 0);
    assert_int_equal(own(&s, "c", 0, &number), 0);
    assert_int_equal(number, 4);
    assert_int_equal(own(&s, "c", 9, &number), 0);
    assert_int_equal(own(&s, "d", 0, &number), 0);
    assert_int_equal(number, 10);
    free(s.value);
}

static void test_too_long(void **state)
{
    struct store s = {NULL, 0};
    uint16_t number;
    char name[33];
    int err = 0;
    unsigned count = 0;
    for (; err == 0; count++) {
        (void)snprintf(name, sizeof(name), "node-with-a-long-name-%010u", count);
        err = take(&s, name, 0, &number);
    }
    assert_int_equal(err, ERR_LIMIT);
    assert_true(count > 1000 && s.len <= 65536);
    free(s.value);
}

static void test_hostile(void **state)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "null",
        "{}",
        "{\"format\":2,\"next\":1,\"nodes\":{}}",
        "{\"format\":1,\"next\":0,\"nodes\":{}}",
        "{\"format\":1,\"next\":65537,\"nodes\":{}}",
        "{\"format\":1,\"next\":\"1\",\"nodes\":{}}",
        "{\"format\":1,\"next\":1,\"nodes\":[]}",
        "{\"format\":1,\"next\":1}",
        "{\"format\":1,\"next\":1,\"nodes\":{\"a\":1}}",
        "{\"format\":1,\"next\":3,\"nodes\":{\"a\":0}}",
        "{\"format\":1,\"next\":3,\"nodes\":{\"a\":-1}}",
        "{\"format\":1,\"next\":3,\"nodes\":{\"a\":1.0}}",
        "{\"format\":1,\"next\":3,\"nodes\":{\"a\":2,\"b\":2}}",
        "{\"format\":1,\"next\":3,\"nodes\":{\"a\":1,\"a\":2}}",
        "{\"format\":1,\"next\":65536,\"nodes\":{\"a\":65536}}",
        "{\"format\":1,\"next\":9223372036854775808,\"nodes\":{}}",
    };
    struct node_numbers_step step;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(node_numbers_take(slice_of(wrong[i]), "a", 1, &step), ERR_SYNTAX);
        assert_null(step.value);
        assert_int_equal(step.number, 0);
        assert_int_equal(node_numbers_drop(slice_of(wrong[i]), "a", &step), ERR_SYNTAX);
        assert_null(step.value);
    }
}

#define NAMES 12

/* Nodes join, are forgotten, and come back while the value stays or is lost; who had a number before
 * a loss and is there is the same afterwards. */
static void test_random(void **state)
{
    unsigned seed = 1;
    for (int world = 0; world < 200; world++) {
        struct store s = {NULL, 0};
        uint16_t has[NAMES] = {0};
        int owner[1024];
        memset(owner, -1, sizeof(owner));
        for (int i = 0; i < 60; i++) {
            int who = rand_r(&seed) % NAMES;
            char name[8];
            (void)snprintf(name, sizeof(name), "n%d", who);
            if (rand_r(&seed) % 5 == 0) {
                struct node_numbers_step step;
                assert_int_equal(node_numbers_drop(slice_make(s.value, s.len), name, &step), 0);
                keep(&s, &step);
                has[who] = 0;
                continue;
            }
            uint16_t number;
            assert_int_equal(take(&s, name, has[who], &number), 0);
            assert_true(number > 0 && number < 1024);
            assert_true(has[who] == 0 || has[who] == number);
            assert_true(owner[number] == -1 || owner[number] == who); /* nobody else's, ever */
            assert_true(has[who] == number || owner[number] == -1);   /* and new, when it is */
            owner[number] = who;
            has[who] = number;
        }
        free(s.value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_its_own), cmocka_unit_test(test_wanted),
        cmocka_unit_test(test_of_spools),
        cmocka_unit_test(test_too_long),     cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
