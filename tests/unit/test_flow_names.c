#include "engine/activator/flow_names.h"
#include "engine/spool/spool_store.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static struct sched_flow_key take(struct flow_names *n, const char *tenant, const char *campaign,
                                  enum mail_class class)
{
    const struct spool_envelope e = {.tenant = slice_of(tenant),
                                     .campaign = slice_of(campaign),
                                     .flags = spool_class_flags(class)};
    return flow_names_take(n, &e);
}

static void assert_name(struct flow_names *n, uint32_t number, const char *expected)
{
    struct label name;
    assert_true(flow_names_tenant(n, number, &name));
    assert_true(slice_eq(label_slice(&name), slice_of(expected)));
}

static void mail_of_nobody_needs_no_number(void **state)
{
    (void)state;
    struct flow_names *n = flow_names_new();
    struct sched_flow_key f = take(n, "", "", MAIL_NORMAL);
    assert_int_equal(f.class, SCHED_NORMAL);
    assert_int_equal(f.tenant, 0);
    assert_int_equal(f.campaign, 0);
    flow_names_give_back(n, &f);
    struct label name;
    assert_false(flow_names_tenant(n, 0, &name));
    assert_false(flow_names_tenant(n, 7, &name));
    flow_names_free(n);
}

static void names_are_equal_in_either_case_and_classes_do_not_matter(void **state)
{
    (void)state;
    struct flow_names *n = flow_names_new();
    struct sched_flow_key a = take(n, "Shop", "Sale", MAIL_BULK);
    struct sched_flow_key b = take(n, "sHOP", "SALE", MAIL_URGENT);
    assert_int_equal(a.class, SCHED_BULK);
    assert_int_equal(b.class, SCHED_URGENT);
    assert_int_equal(a.tenant, b.tenant);
    assert_int_equal(a.campaign, b.campaign);
    assert_int_not_equal(a.campaign, 0);
    assert_name(n, a.tenant, "shop");
    struct label name;
    assert_false(flow_names_tenant(n, a.campaign, &name)); /* it is no tenant's */
    flow_names_free(n);
}

static void campaigns_of_two_tenants_are_two_and_one_of_nobody_is_a_third(void **state)
{
    (void)state;
    struct flow_names *n = flow_names_new();
    struct sched_flow_key a = take(n, "a", "x", MAIL_NORMAL), b = take(n, "b", "x", MAIL_NORMAL);
    struct sched_flow_key c = take(n, "", "x", MAIL_NORMAL), x = take(n, "x", "", MAIL_NORMAL);
    assert_int_not_equal(a.campaign, b.campaign);
    assert_int_not_equal(a.campaign, c.campaign);
    assert_int_not_equal(b.campaign, c.campaign);
    assert_int_equal(c.tenant, 0);
    assert_int_not_equal(x.tenant, a.campaign);
    flow_names_free(n);
}

static void a_number_is_free_with_the_last_message_and_the_one_free_longest_is_next(void **state)
{
    (void)state;
    struct flow_names *n = flow_names_new();
    struct sched_flow_key a = take(n, "a", "", MAIL_NORMAL), b = take(n, "a", "", MAIL_NORMAL);
    flow_names_give_back(n, &a);
    assert_name(n, a.tenant, "a");
    flow_names_give_back(n, &b);
    struct label name;
    assert_false(flow_names_tenant(n, a.tenant, &name));
    struct sched_flow_key c = take(n, "c", "", MAIL_NORMAL);
    assert_int_not_equal(c.tenant, a.tenant);
    flow_names_free(n);
}

/* Many come and go: as many numbers as there are names at a time, and each name has its own. */
static void numbers_follow_what_is_active(void **state)
{
    (void)state;
    enum { NAMES = 500, ROUNDS = 5 };
    static struct sched_flow_key flows[NAMES];
    struct flow_names *n = flow_names_new();
    char text[32];
    uint32_t most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < NAMES; i++) {
            snprintf(text, sizeof(text), "t%d-%d", round, i);
            flows[i] = take(n, text, "c", MAIL_NORMAL);
            most = flows[i].campaign > most ? flows[i].campaign : most;
        }
        for (int i = 0; i < NAMES; i++) {
            snprintf(text, sizeof(text), "t%d-%d", round, i);
            assert_name(n, flows[i].tenant, text);
            flow_names_give_back(n, &flows[i]);
        }
    }
    assert_in_range(most, 2 * NAMES, 4 * NAMES);
    flow_names_free(n);
}

static void beyond_the_most_campaigns_share_places_of_their_tenant(void **state)
{
    (void)state;
    enum { MORE = 5000 };
    struct flow_names *n = flow_names_new();
    static bool is_used[2 * FLOW_CAMPAIGNS_MOST];
    char text[32];
    for (int i = 0; i < FLOW_CAMPAIGNS_MOST; i++) {
        snprintf(text, sizeof(text), "c%d", i);
        (void)take(n, "shop", text, MAIL_NORMAL);
    }
    struct sched_flow_key known = take(n, "shop", "c17", MAIL_NORMAL);
    uint32_t places = 0;
    static struct sched_flow_key more[MORE];
    for (int i = 0; i < MORE; i++) {
        snprintf(text, sizeof(text), "d%d", i);
        more[i] = take(n, "shop", text, MAIL_NORMAL);
        assert_int_not_equal(more[i].campaign, known.campaign);
        places += !is_used[more[i].campaign];
        is_used[more[i].campaign] = true;
    }
    assert_in_range(places, FLOW_CAMPAIGNS_SHARED / 2, FLOW_CAMPAIGNS_SHARED);
    struct sched_flow_key other = take(n, "other", "d0", MAIL_NORMAL);
    assert_false(is_used[other.campaign]);
    for (int i = 0; i < MORE; i++) {
        flow_names_give_back(n, &more[i]);
    }
    flow_names_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mail_of_nobody_needs_no_number),
        cmocka_unit_test(names_are_equal_in_either_case_and_classes_do_not_matter),
        cmocka_unit_test(campaigns_of_two_tenants_are_two_and_one_of_nobody_is_a_third),
        cmocka_unit_test(a_number_is_free_with_the_last_message_and_the_one_free_longest_is_next),
        cmocka_unit_test(numbers_follow_what_is_active),
        cmocka_unit_test(beyond_the_most_campaigns_share_places_of_their_tenant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
