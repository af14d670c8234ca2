/* What lanes learned, written to a file and read again: all of it, none of a damaged one. */
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "engine/limit/limits_memory.h"
#include "sched/limit/pace.h"
#include "tests/unit/limits_bed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/test_limits_memory.%d", (int)getpid());
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

/* The daemon stops, and starts again with a monotonic clock that begins anew. */
static int restart(struct bed *b)
{
    usec_t wall = b->wall;
    assert_int_equal(limits_memory_save(b->limits, path, b->now, b->wall), 0);
    end_bed(b);
    make_bed(b);
    b->now = 5 * SECOND;
    b->wall = wall + MINUTE;
    return limits_memory_load(b->limits, path, b->now, b->wall);
}

static struct limit_lane_report report_of(struct bed *b, const char *source, const char *site)
{
    struct limit_lane_report report;
    struct limit_key key = key_of(source, site);
    assert_true(limits_report_lane(b->limits, &key, b->now, b->wall, &report));
    return report;
}

static void what_was_learned_comes_back(void **state)
{
    struct bed b;
    struct limit_change change;
    struct limit_lane_report before, after;
    struct limit_destination_report found[2];
    struct limit_key key = key_of("ip 1", "a%b \xc3\xa9");
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip 1", "a%b \xc3\xa9", NULL);
    for (unsigned i = 0; i < 500; i++) {
        accept_one(&b, h, b.now);
        pass(&b, 3 * USEC_PER_MSEC);
    }
    for (enum reply_scope scope = REPLY_MESSAGES; scope <= REPLY_SESSION; scope++) {
        struct limit_refusal r = throttled(&b, scope);
        r.session_messages = 7;
        r.rule = SLICE("a rule");
        (void)refuse(&b, h, &r);
    }
    struct limit_refusal r = blocked(&b, "x.example", 1);
    (void)refuse(&b, h, &r);
    pass(&b, 4 * SECOND);
    before = report_of(&b, "ip 1", "a%b \xc3\xa9");
    limits_release(h, b.now);
    assert_int_equal(restart(&b), 0);
    after = report_of(&b, "ip 1", "a%b \xc3\xa9");
    for (unsigned i = 0; i < LIMIT_PACES; i++) {
        assert_true(before.paces[i] > 0);
        assert_true(fabs(after.paces[i] - before.paces[i]) < 1e-6);
        assert_string_equal(after.pace_facts[i].rule, "a rule");
        assert_string_equal(after.pace_facts[i].text, "4.7.28 slow down");
        assert_int_equal(after.pace_facts[i].times, before.pace_facts[i].times);
    }
    assert_int_equal(after.state.most_messages, 7);
    assert_int_equal(after.state.most_connections, before.state.most_connections);
    assert_int_equal(limits_report_destinations(b.limits, &key, found, 2, b.now, b.wall), 1);
    assert_string_equal(found[0].destination, "x.example");
    assert_true(found[0].until == b.wall + 15 * MINUTE - 4 * SECOND);
    h = hold(&b, 0, "ip 1", "a%b \xc3\xa9", NULL);
    assert_true(limits_next_change(b.borrowers[0], &change, b.now));
    assert_true(change.state.is_limited);
    assert_true(limits_next_change(b.borrowers[0], &change, b.now));
    assert_int_equal(change.kind, LIMIT_CLOSED_DESTINATION);
    /* It took something a moment before the restart, so nobody is charged. */
    struct limit_refusal again = throttled(&b, REPLY_MESSAGES);
    assert_int_equal(refuse(&b, h, &again).fate, LIMIT_FATE_AGAIN);
    limits_release(h, b.now);
    end_bed(&b);
}

/* As limits_memory_save leaves it. */
static void write_file(const char *lines)
{
    char text[1024];
    int len = snprintf(text, sizeof(text), "sluice-limits 1\n%s", lines);
    uint64_t sum = hash_checksum(text, (size_t)len);
    len += snprintf(text + len, sizeof(text) - (size_t)len, "end %016" PRIx64 "\n", sum);
    assert_int_equal(file_replace(path, slice_make(text, (size_t)len)), 0);
}

static bool file_has(const char *line)
{
    char text[4096] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) < sizeof(text) - 1);
    assert_int_equal(fclose(f), 0);
    return strstr(text, line) != NULL;
}

/* What is refused by chance lowers no pace, before the restart and after it. */
static void what_is_chance_comes_back(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    write_file("lane ip1 site -\npace messages 10000000000 10000000000 1000 1000\n"
               "chance messages 20000000\n"
               "lane ip2 site -\npace messages 10000000000 10000000000 1000 1000\n"
               "lane ip3 site -\nchance messages 30000000\n"
               "lane ip4 site -\nchance messages 60000000\n");
    assert_int_equal(limits_memory_load(b.limits, path, b.now, b.wall), 0);
    struct limits_hold *sick = hold(&b, 0, "ip1", "site", NULL);
    struct limits_hold *other = hold(&b, 0, "ip2", "site", NULL);
    pass(&b, SECOND);
    struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
    (void)refuse(&b, sick, &r);
    (void)refuse(&b, other, &r);
    assert_true(report_of(&b, "ip1", "site").paces[PACE_MESSAGES] > 9.99);
    assert_true(report_of(&b, "ip2", "site").paces[PACE_MESSAGES] < 9.9);
    limits_release(sick, b.now);
    limits_release(other, b.now);
    assert_int_equal(restart(&b), 0);
    assert_int_equal(limits_memory_save(b.limits, path, b.now, b.wall), 0);
    assert_true(file_has("chance messages 20000000\n"));
    assert_true(file_has("chance messages 30000000\n")); /* without a pace, too */
    assert_false(file_has("chance messages 60000000\n"));
    end_bed(&b);
}

static void a_closed_lane_stays_closed(void **state)
{
    struct bed b;
    struct limit_change change;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_refusal r = blocked(&b, "a.example", 1);
    r.text = SLICE("192.0.2.2 is listed");
    (void)refuse(&b, h, &r);
    pass(&b, 5 * MINUTE);
    limits_release(h, b.now);
    assert_int_equal(restart(&b), 0);
    h = hold(&b, 0, "ip1", "site", NULL);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.is_closed && change.state.until == b.now + 10 * MINUTE);
    assert_string_equal(change.reason, "192.0.2.2 is listed");
    /* The next closure is twice as long. */
    pass(&b, 10 * MINUTE);
    r.sent_at = b.now;
    (void)refuse(&b, h, &r);
    assert_true(last_change(&b, 0, &change));
    assert_true(change.state.until == b.now + 30 * MINUTE);
    limits_release(h, b.now);
    end_bed(&b);
}

static void quotas_and_slow_rates_go_on(void **state)
{
    struct bed b;
    const struct limit_rules rules = {.source.quota = per(10, DAY), .lane.messages = per(2, HOUR)};
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", &rules);
    assert_int_equal(lend(&b, h, 1).messages, 1);
    limits_release(h, b.now);
    assert_int_equal(restart(&b), 0);
    h = hold(&b, 0, "ip1", "site", &rules);
    struct limit_grant g = lend(&b, h, 1);
    assert_int_equal(g.messages, 0);
    assert_int_equal(g.why, LIMIT_BY_RATE);
    struct limit_lane_report report = report_of(&b, "ip1", "site");
    assert_true(report.quota_left[LIMIT_OF_SOURCE] == 9);
    limits_release(h, b.now);
    /* Over midnight it is another window. */
    b.wall += DAY;
    assert_int_equal(restart(&b), 0);
    h = hold(&b, 0, "ip1", "site", &rules);
    report = report_of(&b, "ip1", "site");
    assert_true(report.quota_left[LIMIT_OF_SOURCE] == 10);
    limits_release(h, b.now);
    end_bed(&b);
}

static void make_damage(const char *bytes, size_t len)
{
    assert_int_equal(file_replace(path, slice_make(bytes, len)), 0);
}

static void a_damaged_file_is_ignored(void **state)
{
    struct bed b;
    struct limits_totals totals;
    char bytes[4096];
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
    (void)refuse(&b, h, &r);
    limits_release(h, b.now);
    assert_int_equal(restart(&b), 0);
    end_bed(&b);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    assert_int_equal(fclose(file), 0);
    assert_in_range(len, 60, 400);
    make_bed(&b);
    for (size_t cut = 0; cut < len; cut++) {
        make_damage(bytes, cut);
        assert_int_equal(limits_memory_load(b.limits, path, b.now, b.wall), ERR_CORRUPT);
        bytes[cut] ^= 4;
        make_damage(bytes, len);
        bytes[cut] ^= 4;
        assert_int_equal(limits_memory_load(b.limits, path, b.now, b.wall), ERR_CORRUPT);
    }
    limits_totals(b.limits, &totals);
    assert_int_equal(totals.lanes, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(limits_memory_load(b.limits, path, b.now, b.wall), 0);
    end_bed(&b);
}

static void it_is_written_when_something_changed(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    assert_false(limits_memory_is_due(b.limits, b.now));
    struct limits_hold *h = hold(&b, 0, "ip1", "site", NULL);
    accept_one(&b, h, b.now);
    pass(&b, MINUTE);
    assert_false(limits_memory_is_due(b.limits, b.now)); /* there is nothing to remember */
    struct limit_refusal r = throttled(&b, REPLY_MESSAGES);
    (void)refuse(&b, h, &r);
    assert_true(limits_memory_is_due(b.limits, b.now));
    assert_int_equal(limits_memory_save(b.limits, path, b.now, b.wall), 0);
    assert_false(limits_memory_is_due(b.limits, b.now));
    (void)lend(&b, h, 1);
    pass(&b, 9 * SECOND);
    assert_false(limits_memory_is_due(b.limits, b.now));
    pass(&b, SECOND);
    assert_true(limits_memory_is_due(b.limits, b.now));
    assert_int_not_equal(limits_memory_save(b.limits, "/nowhere/at/all", b.now, b.wall), 0);
    limits_release(h, b.now);
    end_bed(&b);
}

/* Each core's own, once. */
static void windows_come_back(void **state)
{
    struct bed b;
    (void)state;
    make_bed(&b);
    struct limits_hold *h = hold(&b, 0, "ip 1", "site 1", NULL);
    limits_note_window(h, SLICE("smtp"), 7);
    limits_note_window(h, SLICE("a relay"), 19);
    limits_note_window(h, SLICE("smtp"), 12);
    limits_release(h, b.now);
    assert_int_equal(restart(&b), 0);
    h = hold(&b, 0, "ip 1", "site 1", NULL);
    assert_int_equal(limits_take_window(h, SLICE("other")), 0);
    assert_int_equal(limits_take_window(h, SLICE("smtp")), 12);
    assert_int_equal(limits_take_window(h, SLICE("smtp")), 0);
    limits_release(h, b.now);
    assert_int_equal(restart(&b), 0);
    h = hold(&b, 0, "ip 1", "site 1", NULL);
    assert_int_equal(limits_take_window(h, SLICE("smtp")), 0);
    assert_int_equal(limits_take_window(h, SLICE("a relay")), 19);
    limits_release(h, b.now);
    end_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_learned_comes_back),
        cmocka_unit_test(what_is_chance_comes_back),
        cmocka_unit_test(windows_come_back),
        cmocka_unit_test(a_closed_lane_stays_closed),
        cmocka_unit_test(quotas_and_slow_rates_go_on),
        cmocka_unit_test(a_damaged_file_is_ignored),
        cmocka_unit_test(it_is_written_when_something_changed),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
