/* Tables of sessions, their bounds, and the file of a day. */
#include "base/buf.h"
#include "base/error.h"
#include "engine/tls_report/tls_day.h"
#include "engine/tls_report/tls_report.h"
#include "engine/tls_report/tls_tally.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tls_session session_of(const char *domain, enum tls_failure failure)
{
    return (struct tls_session){
        .domain = slice_of(domain),
        .basis = TLS_BASIS_STS,
        .policy_domain = slice_of(domain),
        .policy = SLICE("id1"),
        .failure = failure,
        .sending_ip = SLICE("192.0.2.1"),
        .mx_host = SLICE("mx.example.com"),
        .receiving_ip = SLICE("2001:db8::1"),
        .reason = SLICE("why \"so\""),
    };
}

static struct tls_policy_tally *only_policy(struct tls_tally *t)
{
    struct tls_domain_tally *d = list_first(tls_tally_domains(t), struct tls_domain_tally, link);
    assert_int_equal(d->policy_count, 1);
    return list_first(&d->policies, struct tls_policy_tally, link);
}

static void names_are_those_of_the_standard(void **state)
{
    for (int i = 0; i < TLS_FAILURE_COUNT; i++) {
        assert_int_equal(tls_failure_find(tls_failure_name((enum tls_failure)i)), i);
    }
    for (int i = 0; i < TLS_BASIS_COUNT; i++) {
        assert_int_equal(tls_basis_find(tls_basis_name((enum tls_basis)i)), i);
    }
    assert_int_equal(tls_failure_find("nonsense"), TLS_FAILURE_COUNT);
    assert_int_equal(tls_basis_find(""), TLS_BASIS_COUNT);
}

static void alike_sessions_count_together(void **state)
{
    struct tls_tally *a = tls_tally_new(7), *b = tls_tally_new(7);
    struct tls_session good = session_of("example.com", TLS_FAILURE_NONE);
    struct tls_session bad = session_of("example.com", TLS_FAILURE_EXPIRED);
    tls_tally_add(a, &good, 2);
    tls_tally_add(a, &bad, 1);
    tls_tally_add(b, &bad, 3);
    bad.reason = SLICE("another");
    tls_tally_add(b, &bad, 1);
    tls_tally_merge(a, b);
    struct tls_policy_tally *p = only_policy(a);
    assert_int_equal(p->successes, 2);
    assert_int_equal(p->failures, 5);
    assert_int_equal(p->detail_count, 2);
    assert_int_equal(list_first(&p->details, struct tls_detail, link)->count, 4);
    assert_int_equal(tls_tally_count(a), 1);
    assert_int_equal(tls_tally_left_out(a), 0);
    tls_tally_free(a);
    tls_tally_free(b);
}

static void failures_beyond_the_bound_count_by_their_type(void **state)
{
    struct tls_tally *t = tls_tally_new(7);
    for (unsigned i = 0; i < 3 * TLS_TALLY_DETAILS; i++) {
        char reason[32];
        struct tls_session s =
            session_of("example.com", i % 2 == 0 ? TLS_FAILURE_EXPIRED : TLS_FAILURE_VALIDATION);
        s.reason =
            slice_of_printed(reason, sizeof(reason), snprintf(reason, sizeof(reason), "%u", i));
        tls_tally_add(t, &s, 1);
    }
    struct tls_policy_tally *p = only_policy(t);
    assert_int_equal(p->failures, 3 * TLS_TALLY_DETAILS);
    assert_int_equal(p->detail_count, TLS_TALLY_DETAILS + 2);
    uint64_t sum = 0;
    list_foreach(d, &p->details, struct tls_detail, link)
    {
        sum += d->count;
    }
    assert_int_equal(sum, p->failures);
    tls_tally_free(t);
}

static void domains_and_policies_beyond_the_bound_are_left_out(void **state)
{
    struct tls_tally *t = tls_tally_new(7);
    struct tls_session s = session_of("", TLS_FAILURE_NONE);
    char text[32];
    for (unsigned i = 0; i < TLS_TALLY_DOMAINS + 5; i++) {
        s.domain = slice_of_printed(text, sizeof(text), snprintf(text, sizeof(text), "d%u", i));
        tls_tally_add(t, &s, 2);
    }
    assert_int_equal(tls_tally_count(t), TLS_TALLY_DOMAINS);
    assert_int_equal(tls_tally_left_out(t), 10);
    s.domain = SLICE("d0");
    for (unsigned i = 0; i < TLS_TALLY_POLICIES + 4; i++) {
        s.policy = slice_of_printed(text, sizeof(text), snprintf(text, sizeof(text), "p%u", i));
        tls_tally_add(t, &s, 1);
    }
    assert_int_equal(tls_tally_left_out(t), 15);
    tls_tally_free(t);
}

/* A folder of its own; -1 as *ret is not possible here. */
static int make_folder(char path[32])
{
    (void)snprintf(path, 32, "/tmp/tls_tally.XXXXXX");
    assert_non_null(mkdtemp(path));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    return folder;
}

static void a_day_comes_back_from_its_file(void **state)
{
    char path[32];
    int folder = make_folder(path);
    int64_t days[4];
    struct tls_tally *t = tls_tally_new(20000), *back = NULL;
    struct tls_session s = session_of("example.com", TLS_FAILURE_STS_WEBPKI);
    tls_tally_add(t, &s, 3);
    s.failure = TLS_FAILURE_NONE;
    tls_tally_add(t, &s, 4);
    tls_tally_give_text(t, &s, SLICE("version: STSv1\nmode: testing\nmx: *.example.com\n"));
    struct tls_session other = session_of("example.org", TLS_FAILURE_TLSA_INVALID);
    other.basis = TLS_BASIS_TLSA;
    other.policy = SLICE("_25._tcp.mx. IN TLSA 3 1 1 AB\n_25._tcp.mx. IN TLSA 3 1 1 CD\n");
    tls_tally_add(t, &other, 1);
    list_last(tls_tally_domains(t), struct tls_domain_tally, link)->ways_done = 5;
    tls_tally_leave_out(t, 9);
    assert_int_equal(tls_day_save(folder, t), 0);
    assert_int_equal(tls_day_list(folder, days, 4), 1);
    assert_int_equal(days[0], 20000);
    assert_int_equal(tls_day_load(folder, 20000, &back), 0);
    assert_int_equal(tls_tally_left_out(back), 9);
    assert_int_equal(tls_tally_count(back), 2);
    assert_int_equal(list_last(tls_tally_domains(back), struct tls_domain_tally, link)->ways_done,
                     5);
    /* All that a file holds of a domain, and what a report says, is the same. */
    struct list *was = tls_tally_domains(t)->next, *is = tls_tally_domains(back)->next;
    for (; was != tls_tally_domains(t); was = was->next, is = is->next) {
        json_t *x = tls_report_policies(container_of(was, struct tls_domain_tally, link), true);
        json_t *y = tls_report_policies(container_of(is, struct tls_domain_tally, link), true);
        assert_true(json_equal(x, y));
        json_decref(x);
        json_decref(y);
    }
    /* Sessions that are counted later join what was there. */
    s.failure = TLS_FAILURE_NONE;
    tls_tally_add(back, &s, 1);
    struct tls_domain_tally *d = list_first(tls_tally_domains(back), struct tls_domain_tally, link);
    assert_int_equal(d->policy_count, 1);
    tls_tally_free(t);
    tls_tally_free(back);
    tls_day_remove(folder, 20000);
    assert_int_equal(tls_day_load(folder, 20000, &back), -ENOENT);
    (void)close(folder);
    assert_int_equal(rmdir(path), 0);
}

static void what_is_no_file_of_a_day_is_refused(void **state)
{
    static const struct {
        const char *text;
        bool is_read; /* some of it */
    } rows[] = {
        {"", false},
        {"nonsense\n", false},
        {"{\"format\":2,\"day\":5}\n", false},
        {"{\"format\":1,\"day\":6}\n", false},
        {"{\"format\":1,\"day\":5}\n{\"domain\":5}\n", true},
        {"{\"format\":1,\"day\":5}\n{\"domain\":\"a\",\"policies\":5}\n", true},
        {"{\"format\":1,\"day\":5}\n{\"domain\":\"a\",\"policies\":[5,{\"policy\":{}}]}\n", true},
        {"{\"format\":1,\"day\":5}\n{\"domain\":\"a\",\"policies\":[{\"policy\":{\"policy-type\":"
         "\"sts\"},\"failure-details\":[{},{\"result-type\":\"x\"},5]}]}\n",
         true},
        {"{\"format\":1,\"day\":5}\n{\"doma", true},
    };
    char path[32], name[64];
    int folder = make_folder(path);
    (void)snprintf(name, sizeof(name), "%s/5", path);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tls_tally *t = NULL;
        FILE *file = fopen(name, "w");
        assert_non_null(file);
        (void)fputs(rows[i].text, file);
        assert_int_equal(fclose(file), 0);
        int err = tls_day_load(folder, 5, &t);
        if (err != ERR_SYNTAX || (t != NULL) != rows[i].is_read) {
            fail_msg("%s: %d", rows[i].text, err);
        }
        tls_tally_free(t);
    }
    (void)close(folder);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_standard),
        cmocka_unit_test(alike_sessions_count_together),
        cmocka_unit_test(failures_beyond_the_bound_count_by_their_type),
        cmocka_unit_test(domains_and_policies_beyond_the_bound_are_left_out),
        cmocka_unit_test(a_day_comes_back_from_its_file),
        cmocka_unit_test(what_is_no_file_of_a_day_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
