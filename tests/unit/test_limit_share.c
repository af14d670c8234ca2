/* Shares of a limit: their text, what is fair, and the steps of one node. */
#include "base/error.h"
#include "engine/cluster/limit_share.h"
#include "tests/unit/unit.h"

#include <stdio.h>

#define SECOND USEC_PER_SEC

static struct limit_share value(const char *text)
{
    struct limit_share v;
    assert_int_equal(limit_share_parse(slice_of(text), &v), 0);
    return v;
}

static void assert_value(const struct limit_share *v, const char *text)
{
    struct buf out;
    buf_init(&out, 0);
    limit_share_print(&out, v);
    buf_append_char(&out, '\0');
    assert_string_equal(out.data, text);
    buf_fini(&out);
}

static void values_are_read_as_they_are_printed(void **state)
{
    static const char *const good[] = {"1 0 0", "1 4294967295 1000000000 1:0:1000000 65535:7:9"};
    static const struct {
        const char *text;
        int err;
    } bad[] = {{"", ERR_SYNTAX},
               {"2 0 0", ERR_SYNTAX},
               {"1 0", ERR_SYNTAX},
               {"1 0 0 ", ERR_SYNTAX},
               {"1 00 0", ERR_SYNTAX},
               {"1 0 0 1:2", ERR_SYNTAX},
               {"1 0 0 1:2:3:4", ERR_SYNTAX},
               {"1 0 0 0:2:3", ERR_SYNTAX},
               {"1 0 0 2:2:3 1:2:3", ERR_SYNTAX},
               {"1 0 0 1:2:3 1:2:3", ERR_SYNTAX},
               {"1 0 0 1:-2:3", ERR_SYNTAX},
               {"1 0 0 1:+2:3", ERR_SYNTAX},
               {"1 4294967296 0", ERR_LIMIT},
               {"1 99999999999999999999999 0", ERR_LIMIT},
               {"1 0 1000000001", ERR_LIMIT},
               {"1 0 0 65536:0:0", ERR_LIMIT},
               {"1 0 0 1:1000001:0", ERR_LIMIT}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct limit_share v = value(good[i]);
        assert_value(&v, good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct limit_share v = {.turn = 77};
        if (limit_share_parse(slice_of(bad[i].text), &v) != bad[i].err || v.turn != 77) {
            fail_msg("\"%s\"", bad[i].text);
        }
    }
    struct buf out;
    buf_init(&out, 0);
    buf_append_str(&out, "1 0 0");
    struct limit_share v;
    for (int i = 1; i <= LIMIT_SHARE_NODES_MAX; i++) {
        buf_printf(&out, " %d:0:0", i);
    }
    assert_int_equal(limit_share_parse(buf_slice(&out), &v), 0);
    buf_append_str(&out, " 100:0:0");
    assert_int_equal(limit_share_parse(buf_slice(&out), &v), ERR_LIMIT);
    buf_fini(&out);
}

static void assert_fair(const char *text, uint32_t limit, const char *expected)
{
    struct limit_share v = value(text);
    uint32_t fair[LIMIT_SHARE_NODES_MAX];
    char got[256] = "";
    size_t at = 0;
    uint32_t contested = limit_share_fair(&v, limit, fair);
    at += (size_t)snprintf(got, sizeof(got), "%u:", contested);
    for (uint32_t i = 0; i < v.count; i++) {
        at += (size_t)snprintf(got + at, sizeof(got) - at, " %u", fair[i]);
    }
    assert_string_equal(got, expected);
}

static void what_is_fair(void **state)
{
    assert_fair("1 0 0", 20, "0:");
    assert_fair("1 0 0 1:0:20 2:0:20 3:0:20 4:0:20", 20, "0: 5 5 5 5");
    assert_fair("1 0 0 1:0:2 2:0:20 3:0:20 4:0:20", 20, "0: 2 6 6 6");
    assert_fair("1 0 0 1:0:2 2:0:3 3:0:4 4:0:5", 20, "0: 2 3 4 5");
    assert_fair("1 0 0 1:0:1 2:0:6 3:0:30 4:0:40", 20, "2: 1 6 7 6");
    assert_fair("1 1 0 1:0:1 2:0:6 3:0:30 4:0:40", 20, "2: 1 6 6 7");
    assert_fair("1 0 0 1:0:9 2:0:9 3:0:9 4:0:9", 2, "4: 1 1 0 0");
    assert_fair("1 1 0 1:0:9 2:0:9 3:0:9 4:0:9", 2, "4: 0 0 1 1");
    assert_fair("1 4 0 1:0:9 2:0:9 3:0:9", 2, "3: 1 0 1");
    assert_fair("1 0 0 1:0:0 2:0:0", 2, "0: 0 0");
}

/* What a fair division is, held against many random ones. */
static void fair_is_max_min(void **state)
{
    uint64_t x = 42;
    for (int round = 0; round < 20000; round++) {
        struct limit_share v = {.turn = (uint32_t)round, .count = (uint32_t)(1 + round % 17)};
        uint32_t fair[LIMIT_SHARE_NODES_MAX], limit = (uint32_t)(1 + (x >> 33) % 40), sum = 0;
        uint64_t wants = 0;
        for (uint32_t i = 0; i < v.count; i++) {
            x = x * 6364136223846793005U + 1442695040888963407U;
            v.entries[i] =
                (struct limit_share_entry){(uint16_t)(i + 1), 0, (uint32_t)((x >> 40) % 12)};
            wants += v.entries[i].want;
        }
        (void)limit_share_fair(&v, limit, fair);
        for (uint32_t i = 0; i < v.count; i++) {
            assert_true(fair[i] <= v.entries[i].want);
            sum += fair[i];
            for (uint32_t k = 0; k < v.count; k++) {
                /* Who wants more has at least what anybody else has, but for a unit. */
                assert_true(fair[i] == v.entries[i].want || fair[i] + 1 >= fair[k]);
            }
        }
        assert_int_equal(sum, wants < limit ? wants : limit);
    }
}

static struct limit_share_step step(struct limit_share_self *self, const char *text, usec_t now)
{
    struct limit_share v = value(text);
    struct limit_share_step s;
    limit_share_next(&v, self, now, &s);
    return s;
}

static void a_node_takes_only_what_is_free(void **state)
{
    struct limit_share_self self = {.node = 2, .limit = 20, .want = 30};
    struct limit_share_step s = step(&self, "1 0 0 1:20:20", SECOND);
    assert_true(s.is_due); /* its want is told */
    assert_value(&s.value, "1 0 0 1:20:20 2:0:20");
    assert_int_equal(s.then_use, 0);
    assert_true(limit_share_put(&self, &s, SECOND));
    s = step(&self, "1 0 0 1:17:20 2:0:20", SECOND);
    assert_value(&s.value, "1 0 0 1:17:20 2:3:20");
    assert_int_equal(s.may_use, 0); /* until the put has succeeded */
    assert_int_equal(s.then_use, 3);
    s = step(&self, "1 0 0 1:10:20 2:10:20", SECOND);
    assert_false(s.is_due);
    assert_int_equal(s.may_use, 10);
}

static void a_node_gives_back_after_closing(void **state)
{
    struct limit_share_self self = {.node = 1, .limit = 20, .want = 20, .in_use = 20};
    struct limit_share_step s = step(&self, "1 0 0 1:20:20 2:0:20", SECOND);
    assert_false(s.is_due);
    assert_int_equal(s.may_use, 10);
    self.in_use = 17;
    s = step(&self, "1 0 0 1:20:20 2:0:20", SECOND);
    assert_value(&s.value, "1 0 0 1:17:20 2:0:20");
    self.in_use = 2;
    s = step(&self, "1 0 0 1:17:20 2:3:20", SECOND);
    assert_value(&s.value, "1 0 0 1:10:20 2:3:20");
    assert_int_equal(s.may_use, 10);
    self.in_use = self.want = 0;
    s = step(&self, "1 0 0 1:10:20 2:10:20", SECOND);
    assert_value(&s.value, "1 0 0 2:10:20");
}

static void wants_that_hardly_move_wait(void **state)
{
    struct limit_share_self self = {.node = 1, .limit = 200, .want = 100};
    struct limit_share_step s = step(&self, "1 0 0", 5 * SECOND);
    assert_value(&s.value, "1 0 0 1:100:100");
    assert_true(limit_share_put(&self, &s, 5 * SECOND));
    self.want = 110;
    s = step(&self, "1 0 0 1:100:100", 5 * SECOND + 1);
    assert_false(s.is_due);
    assert_int_equal(s.look_at, 6 * SECOND);
    s = step(&self, "1 0 0 1:100:100", 6 * SECOND);
    assert_value(&s.value, "1 0 0 1:110:110");
    self.want = 125;
    s = step(&self, "1 0 0 1:100:100", 5 * SECOND + 1);
    assert_value(&s.value, "1 0 0 1:125:125");
}

static void turns_go_on(void **state)
{
    struct limit_share_self self = {.node = 1, .limit = 2, .want = 5, .in_use = 1};
    const char *full = "1 0 0 1:1:2 2:1:2 3:0:2 4:0:2";
    struct limit_share_step s = step(&self, full, 100 * SECOND);
    assert_false(s.is_due);
    assert_int_equal(s.look_at, 110 * SECOND); /* four of which two go: two turns in 20 s */
    s = step(&self, full, 110 * SECOND);
    assert_value(&s.value, "1 1 0 1:1:2 2:1:2 3:0:2 4:0:2");
    assert_int_equal(s.may_use, 0);
    assert_true(limit_share_put(&self, &s, 110 * SECOND));
    self.in_use = 0;
    s = step(&self, "1 1 0 1:1:2 2:1:2 3:0:2 4:0:2", 111 * SECOND);
    assert_value(&s.value, "1 1 0 1:0:2 2:1:2 3:0:2 4:0:2");
    assert_int_equal(s.look_at, 120 * SECOND);
    /* Those behind wait longer, in case that the first does not do it. */
    struct limit_share_self third = {.node = 3, .limit = 2, .want = 5};
    s = step(&third, full, 100 * SECOND);
    assert_int_equal(s.look_at, 110 * SECOND + SECOND / 2);
    /* With 16 nodes a turn is shorter, so that each has one in 20 s. */
    s = step(&self,
             "1 1 0 1:1:2 2:1:2 3:0:2 4:0:2 5:0:2 6:0:2 7:0:2 8:0:2 9:0:2 10:0:2 11:0:2 12:0:2 "
             "13:0:2 14:0:2 15:0:2 16:0:2",
             110 * SECOND);
    assert_int_equal(s.look_at, 112 * SECOND + SECOND / 2);
}

static void a_void_share_is_no_share(void **state)
{
    struct limit_share_self self = {.node = 1, .limit = 20, .want = 20, .in_use = 3};
    limit_share_void(&self);
    struct limit_share_step s = step(&self, "1 0 0 1:10:20 2:10:20", SECOND);
    assert_true(s.is_due);
    assert_int_equal(s.may_use, 0);                  /* it may be an old value that says so */
    assert_value(&s.value, "1 0 0 1:10:20 2:10:20"); /* nobody had taken it */
    assert_int_equal(s.then_use, 10);
    assert_true(limit_share_put(&self, &s, SECOND));
    assert_false(self.is_void);
    /* Others had taken it while the node stood still with three in use: it closes them. */
    limit_share_void(&self);
    s = step(&self, "1 0 0 2:20:20", SECOND);
    assert_value(&s.value, "1 0 0 1:0:20 2:20:20");
    assert_int_equal(s.may_use, 0);
    /* It stood still once more before the answer came. */
    limit_share_void(&self);
    assert_false(limit_share_put(&self, &s, SECOND));
    assert_true(self.is_void);
}

static void tokens_go_with_the_units(void **state)
{
    struct limit_share_self self = {
        .node = 1, .is_rate = true, .limit = 1000, .want = 1000, .tokens = 8000};
    struct limit_share_step s = step(&self, "1 0 0 1:1000:1000 2:0:1000", SECOND);
    assert_value(&s.value, "1 0 4000 1:500:1000 2:0:1000");
    assert_int_equal(s.give, 4000);
    assert_int_equal(s.take, 0);
    assert_int_equal(s.may_use, 500); /* given first */
    struct limit_share_self other = {.node = 2, .is_rate = true, .limit = 1000, .want = 1000};
    s = step(&other, "1 0 4000 1:500:1000 2:0:1000 3:100:100", SECOND);
    assert_value(&s.value, "1 0 0 1:500:1000 2:400:1000 3:100:100");
    assert_int_equal(s.take, 4000);
    assert_int_equal(s.may_use, 0); /* taken later */
    assert_int_equal(s.then_use, 400);
    assert_int_equal(limit_share_parts(0), 1);
    assert_int_equal(limit_share_parts(7), 7);
    assert_int_equal(limit_share_parts(5000), 1000);
}

static void quotas_are_eaten_in_chunks(void **state)
{
    assert_int_equal(limit_share_chunk(0, 5000), 50);
    assert_int_equal(limit_share_chunk(4980, 5000), 20);
    assert_int_equal(limit_share_chunk(5000, 5000), 0);
    assert_int_equal(limit_share_chunk(UINT64_MAX, 5000), 0);
    assert_int_equal(limit_share_chunk(6, 7), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_as_they_are_printed),
        cmocka_unit_test(what_is_fair),
        cmocka_unit_test(fair_is_max_min),
        cmocka_unit_test(a_node_takes_only_what_is_free),
        cmocka_unit_test(a_node_gives_back_after_closing),
        cmocka_unit_test(wants_that_hardly_move_wait),
        cmocka_unit_test(turns_go_on),
        cmocka_unit_test(a_void_share_is_no_share),
        cmocka_unit_test(tokens_go_with_the_units),
        cmocka_unit_test(quotas_are_eaten_in_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
