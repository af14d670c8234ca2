/* What stands of a lane, in words. */
#include "engine/cli/cli_lane.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#define NOW 1800000000.0

static void sites(void **state)
{
    char text[CLI_LANE_SITE];
    (void)state;
    assert_string_equal(cli_lane_site("provider:google", text), "provider:google");
    assert_string_equal(
        cli_lane_site("mx1.example.com,mx2.example.com,mx3.example.com,mx4.example.com", text),
        "mx1.example.com,mx2.example...,mx4.example.com");
}

static void paces(void **state)
{
    static const struct {
        const char *lane, *text;
    } cases[] = {
        {"{}", "none"},
        {"{\"paces\":[{\"of\":\"messages\",\"per_second\":19.64}]}", "19.6/s"},
        {"{\"paces\":[{\"of\":\"messages\",\"per_second\":2000}]}", "2000/s"},
        {"{\"paces\":[{\"of\":\"messages\",\"per_second\":0.05}]}", "3/min"},
        {"{\"paces\":[{\"of\":\"messages\",\"per_second\":0.001}]}", "3.6/h"},
        {"{\"paces\":[{\"of\":\"messages\",\"per_second\":9},{\"of\":\"connects\",\"per_second\":2}"
         "]}",
         "2/s connects"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[CLI_LANE_PACE];
        json_t *lane = json_loads(cases[i].lane, 0, NULL);
        assert_string_equal(cli_lane_pace(lane, text), cases[i].text);
        json_decref(lane);
    }
}

static void take(void *ctx, const char *name, const char *text)
{
    char *out = ctx;
    size_t len = strlen(out);
    (void)snprintf(out + len, 4000 - len, "%s: %s\n", name, text);
}

static void facts(void **state)
{
    char text[4000] = "";
    json_t *lane = json_loads(
        "{\"state\":\"closed\",\"closed\":{\"by\":\"receiver\",\"until\":1800000600,\"since\":"
        "1799999700,\"times\":2,\"rule\":\"spamhaus\",\"text\":\"554 blocked\"},"
        "\"paces\":[{\"of\":\"recipients\",\"per_second\":4,\"until\":1800000010,\"since\":"
        "1799999990,"
        "\"times\":1,\"text\":\"421 slow\"}],\"ceilings\":[{\"of\":\"messages\",\"most\":50},"
        "{\"of\":\"connections\",\"most\":5}],\"waits\":{\"for\":\"quota\",\"of\":\"tenant\","
        "\"until\":1800003600},"
        "\"quotas\":[{\"of\":\"source\",\"left\":0},{\"of\":\"lane\",\"quota\":\"50/"
        "d\",\"left\":7}],"
        "\"rates\":[{\"of\":\"site\",\"unit\":\"messages\",\"rate\":\"20/s\"}],"
        "\"closed_destinations\":1}",
        0, NULL);
    (void)state;
    assert_non_null(lane);
    cli_lane_facts(lane, NOW, take, text);
    cli_lane_rates(lane, take, text);
    assert_string_equal(
        text,
        "closed: by the receiver, tried in 10m00s, since 5m00s ago, said 2 times, rule spamhaus: "
        "554 "
        "blocked\n"
        "pace: 4/s recipients, nothing is let through, next trial in 10s, since 10s ago: 421 slow\n"
        "ceiling: 50 messages a connection\n"
        "ceiling: 5 connections\n"
        "quota: that of the source is used up\n"
        "waits: for the quota of the tenant, its next message goes in 1h00m\n"
        "avoided: 1 destination keeps away from it\n"
        "rate: 20/s messages, of the site\n"
        "quota: that of the warm-up of the source, 0 left\n"
        "quota: 50/d of the lane, 7 left\n");
    json_decref(lane);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites),
        cmocka_unit_test(paces),
        cmocka_unit_test(facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
