/* Rates and quotas of domains inside a provider: one for all transports that send there. */
#include "tests/unit/limits_bed.h"

static struct limit_domain_answer ask_of_domain(struct bed *b, unsigned borrower,
                                                const struct limit_domain *domain,
                                                uint32_t recipients)
{
    const struct limit_domain_ask ask = {recipients, b->now, b->wall};
    struct limit_domain_answer answer;
    limits_domain_take(b->borrowers[borrower], domain, &ask, &answer);
    return answer;
}

static struct limit_domain_answer take_of_domain(struct bed *b, uint32_t count, uint64_t serial)
{
    const struct limit_domain domain = {
        .name = SLICE("a.test"), .quota = per(count, DAY), .serial = serial};
    return ask_of_domain(b, 0, &domain, 1);
}

/* Comes when it was told, as a core does, for so long. `gone` counts the messages of each transport. */
static void run_domain(struct bed *b, const struct limit_domain *domain, uint32_t recipients,
                       usec_t span, uint32_t gone[static 3])
{
    usec_t next[3] = {0}, end = b->now + span;
    while (b->now < end) {
        usec_t first = end;
        for (unsigned i = 0; i < 3; i++) {
            while (next[i] <= b->now) {
                struct limit_domain_answer a = ask_of_domain(b, i, domain, recipients);
                gone[i] += a.is_taken;
                assert_true(a.is_taken || a.until > b->now);
                assert_true(a.until <= b->now || a.why == LIMIT_BY_RATE);
                next[i] = a.until;
                if (a.until > b->now) {
                    break;
                }
            }
            first = next[i] < first ? next[i] : first;
        }
        b->wall += first - b->now;
        b->now = first;
    }
}

/* All transports that send there together have the rate, exactly; those that wait have their turns. */
static void a_domains_rate_is_one_for_all_transports(void **state)
{
    static const struct {
        struct rate_rule messages, recipients;
        uint32_t each, want; /* recipients a message; messages in a minute */
    } cases[] = {
        {{.count = 20, .span = USEC_PER_SEC}, {0}, 1, 1200},
        {{.count = 300, .span = 60 * USEC_PER_SEC}, {0}, 1, 300},
        {{.count = 2000, .span = USEC_PER_SEC}, {0}, 1, 120000},
        {{0}, {.count = 100, .span = USEC_PER_SEC}, 10, 600},
        {{.count = 50, .span = USEC_PER_SEC}, {.count = 100, .span = USEC_PER_SEC}, 5, 1200},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed b;
        make_bed(&b);
        const struct limit_domain domain = {.name = SLICE("a.test"),
                                            .messages = cases[i].messages,
                                            .recipients = cases[i].recipients,
                                            .serial = 1};
        uint32_t gone[3] = {0}, more[3] = {0};
        run_domain(&b, &domain, cases[i].each, 10 * USEC_PER_SEC, more); /* the burst is used */
        run_domain(&b, &domain, cases[i].each, 60 * USEC_PER_SEC, gone);
        uint32_t all = gone[0] + gone[1] + gone[2];
        assert_in_range(all, cases[i].want * 99 / 100, cases[i].want * 101 / 100 + 1);
        for (unsigned k = 0; k < 3; k++) {
            assert_in_range(gone[k], all * 30 / 100, all * 37 / 100);
        }
        end_bed(&b);
    }
}

/* What was not sent does not count, and a transport that does not come keeps nobody waiting for long. */
static void a_domains_rate_counts_what_was_sent(void **state)
{
    struct bed b;
    const struct limit_domain domain = {
        .name = SLICE("a.test"), .messages = {.count = 5, .span = USEC_PER_SEC}, .serial = 1};
    (void)state;
    make_bed(&b);
    assert_true(ask_of_domain(&b, 0, &domain, 1).is_taken);
    struct limit_domain_answer refused = ask_of_domain(&b, 1, &domain, 1);
    assert_false(refused.is_taken);
    assert_int_equal(refused.why, LIMIT_BY_RATE);
    assert_in_range(refused.until, b.now + USEC_PER_SEC / 6, b.now + USEC_PER_SEC / 5);
    limits_domain_give_back(b.limits, domain.name, 1, b.wall);
    assert_true(ask_of_domain(&b, 1, &domain, 1).is_taken);
    assert_false(ask_of_domain(&b, 2, &domain, 1).is_taken);
    b.now = refused.until;
    struct limit_domain_answer later = ask_of_domain(&b, 1, &domain, 1); /* it is 2's turn */
    assert_false(later.is_taken);
    assert_in_range(later.until, b.now + 1, b.now + USEC_PER_SEC / 50);
    b.now = later.until;
    assert_true(ask_of_domain(&b, 1, &domain, 1).is_taken);
    end_bed(&b);
}

/* Beside what its lanes have; nobody holds the meter. */
static void a_domains_quota_counts_its_messages(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    struct limit_domain_answer answer = take_of_domain(&b, 3, 1);
    assert_true(answer.is_taken && answer.until == 0);
    assert_true(take_of_domain(&b, 3, 1).is_taken);
    answer = take_of_domain(&b, 3, 1);
    assert_true(answer.is_taken && answer.turn == b.now + 12 * HOUR);
    assert_true(answer.until > b.now && answer.until < answer.turn);
    assert_false(take_of_domain(&b, 3, 1).is_taken);
    limits_domain_give_back(b.limits, SLICE("a.test"), 1, b.wall);
    assert_true(take_of_domain(&b, 3, 1).is_taken);
    limits_domain_give_back(b.limits, SLICE("b.test"), 1, b.wall); /* nothing is known of it */
    /* A reload: what was used stays used. Who has not heard of it yet changes nothing. */
    assert_true(take_of_domain(&b, 4, 2).is_taken);
    assert_false(take_of_domain(&b, 9, 1).is_taken);
    b.now += 12 * HOUR;
    b.wall += 12 * HOUR;
    assert_true(take_of_domain(&b, 4, 2).is_taken);
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_domains_rate_is_one_for_all_transports),
        cmocka_unit_test(a_domains_rate_counts_what_was_sent),
        cmocka_unit_test(a_domains_quota_counts_its_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
