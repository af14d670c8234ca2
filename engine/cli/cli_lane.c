/* Puts what stands of lanes into words. Called by cli_lanes.c and cli_way.c. */
#include "engine/cli/cli_lane.h"

#include "engine/cli/cli_table.h"

#include <stdio.h>
#include <string.h>

#define text_of   cli_member_text
#define number_of cli_member_number

const char *cli_lane_site(const char *site, char ret[static CLI_LANE_SITE])
{
    enum { SHOWN = 46, TAIL = 16 };
    size_t len = strlen(site);
    if (len <= SHOWN) {
        (void)snprintf(ret, CLI_LANE_SITE, "%s", site);
    } else {
        (void)snprintf(ret, CLI_LANE_SITE, "%.*s..%s", SHOWN - TAIL - 2, site, site + len - TAIL);
    }
    return ret;
}

static double per_second(const json_t *pace)
{
    return json_number_value(json_object_get(pace, "per_second"));
}

/* Slow ones by the minute or the hour: "0.0014/s" says nothing to anybody. */
static void rate_text(double rate, char *ret, size_t size)
{
    if (rate >= 100) {
        (void)snprintf(ret, size, "%.0f/s", rate);
    } else if (rate >= 0.1) {
        (void)snprintf(ret, size, "%.3g/s", rate);
    } else if (rate * 60 >= 0.1) {
        (void)snprintf(ret, size, "%.3g/min", rate * 60);
    } else {
        (void)snprintf(ret, size, "%.3g/h", rate * 3600);
    }
}

const char *cli_lane_pace(const json_t *lane, char ret[static CLI_LANE_PACE])
{
    const json_t *list = json_object_get(lane, "paces"), *slowest = NULL;
    char rate[32];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pace = json_array_get(list, i);
        slowest = slowest == NULL || per_second(pace) < per_second(slowest) ? pace : slowest;
    }
    if (slowest == NULL) {
        (void)snprintf(ret, CLI_LANE_PACE, "none");
        return ret;
    }
    rate_text(per_second(slowest), rate, sizeof(rate));
    bool is_messages = strcmp(text_of(slowest, "of"), "messages") == 0;
    (void)snprintf(ret, CLI_LANE_PACE, "%s%s%s", rate, is_messages ? "" : " ",
                   is_messages ? "" : text_of(slowest, "of"));
    return ret;
}

/* "since 3m00s ago, 4 times, rule google-slow: TEXT" */
static void cause_text(const json_t *fact, double now, char *ret, size_t size)
{
    char when[CLI_WHEN_TEXT];
    const char *rule = text_of(fact, "rule"), *text = text_of(fact, "text");
    const json_t *since = json_object_get(fact, "since");
    long long times = number_of(fact, "times");
    ret[0] = '\0';
    if (since == NULL) {
        return;
    }
    int len = snprintf(ret, size, ", since %s", cli_when_text(since, now, when));
    if (times > 1) {
        len += snprintf(ret + len, size - (size_t)len, ", said %lld times", times);
    }
    if (rule[0] != '\0') {
        len += snprintf(ret + len, size - (size_t)len, ", rule %.100s", rule);
    }
    if (text[0] != '\0') {
        (void)snprintf(ret + len, size - (size_t)len, ": %.600s", text);
    }
}

struct telling {
    double now;
    cli_lane_take *take;
    void *ctx;
};

static void tell(const struct telling *t, const char *name, const char *what, const json_t *fact)
{
    char cause[CLI_LANE_LINE - 200], line[CLI_LANE_LINE];
    cause_text(fact, t->now, cause, sizeof(cause));
    (void)snprintf(line, sizeof(line), "%.180s%s", what, cause);
    t->take(t->ctx, name, line);
}

static void tell_stop(const struct telling *t, const json_t *lane, const char *name)
{
    const json_t *stop = json_object_get(lane, name), *until = json_object_get(stop, "until");
    char when[CLI_WHEN_TEXT], what[120];
    if (stop == NULL) {
        return;
    }
    bool is_ordered = strcmp(text_of(stop, "by"), "order") == 0;
    bool is_probed = strcmp(text_of(lane, "state"), "probing") == 0;
    if (is_probed) {
        (void)snprintf(what, sizeof(what), "one delivery at a time tries whether it is over");
    } else {
        const char *then = strcmp(name, "paused") == 0 ? "over" : "tried";
        (void)snprintf(what, sizeof(what), "%s, %s %s", is_ordered ? "by order" : "by the receiver",
                       is_ordered ? "opens" : then, cli_when_text(until, t->now, when));
    }
    tell(t, name, what, stop);
}

static void tell_paces(const struct telling *t, const json_t *lane)
{
    const json_t *list = json_object_get(lane, "paces");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pace = json_array_get(list, i), *until = json_object_get(pace, "until");
        char rate[32], when[CLI_WHEN_TEXT], what[160];
        rate_text(per_second(pace), rate, sizeof(rate));
        (void)snprintf(what, sizeof(what), "%s %s%s%s", rate, text_of(pace, "of"),
                       until == NULL ? "" : ", nothing is let through, next trial ",
                       cli_when_text(until, t->now, when));
        tell(t, "pace", what, pace);
    }
}

static void tell_ceilings(const struct telling *t, const json_t *lane)
{
    const json_t *list = json_object_get(lane, "ceilings");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        char what[80];
        (void)snprintf(what, sizeof(what), "%lld %s", number_of(one, "most"),
                       strcmp(text_of(one, "of"), "messages") == 0 ? "messages a connection"
                                                                   : "connections");
        tell(t, "ceiling", what, one);
    }
}

static void tell_waits(const struct telling *t, const json_t *lane)
{
    const json_t *waits = json_object_get(lane, "waits"), *list = json_object_get(lane, "quotas");
    char when[CLI_WHEN_TEXT], what[160];
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *quota = json_array_get(list, i);
        if (number_of(quota, "left") == 0) {
            (void)snprintf(what, sizeof(what), "that of the %s is used up", text_of(quota, "of"));
            tell(t, "quota", what, NULL);
        }
    }
    const char *cause = text_of(waits, "for");
    if (strcmp(cause, "rate") == 0 || strcmp(cause, "quota") == 0) {
        (void)snprintf(what, sizeof(what), "for the %s of the %s, its next message goes %s", cause,
                       text_of(waits, "of"),
                       cli_when_text(json_object_get(waits, "until"), t->now, when));
        tell(t, "waits", what, NULL);
    } else if (strcmp(cause, "share") == 0) {
        (void)snprintf(what, sizeof(what), "for this node's share of the rate or quota of the %s",
                       text_of(waits, "of"));
        tell(t, "waits", what, NULL);
    } else if (strcmp(cause, "connections") == 0) {
        (void)snprintf(what, sizeof(what), "for this node's share of the connections of the %s",
                       text_of(waits, "of"));
        tell(t, "waits", what, NULL);
    } else if (strcmp(cause, "pace") == 0) { /* others are told with what made them */
        (void)snprintf(what, sizeof(what), "for its pace, its next message goes %s",
                       cli_when_text(json_object_get(waits, "until"), t->now, when));
        tell(t, "waits", what, NULL);
    }
}

static void tell_suspended(const struct telling *t, const json_t *lane)
{
    const json_t *order = json_object_get(lane, "suspended");
    char when[CLI_WHEN_TEXT], what[160];
    if (order != NULL) {
        (void)snprintf(
            what, sizeof(what), "its source, by order %s, over %s: %.80s", text_of(order, "order"),
            cli_when_text(json_object_get(order, "until"), t->now, when), text_of(order, "reason"));
        tell(t, "suspended", what, NULL);
    }
}

void cli_lane_suspensions(const json_t *o, double now, cli_lane_take *take, void *ctx)
{
    const json_t *list = json_object_get(o, "suspensions");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *tenant = text_of(one, "tenant"), *campaign = text_of(one, "campaign");
        char when[CLI_WHEN_TEXT], what[CLI_LANE_LINE];
        (void)snprintf(
            what, sizeof(what), "%s%.80s%s%s%.80s at this site, by order %s, over %s: %.80s",
            tenant[0] == '\0' ? "" : "tenant ", tenant,
            tenant[0] == '\0' || campaign[0] == '\0' ? "" : ", ",
            campaign[0] == '\0' ? "" : "campaign ", campaign, text_of(one, "order"),
            cli_when_text(json_object_get(one, "until"), now, when), text_of(one, "reason"));
        take(ctx, "suspended", what);
    }
}

void cli_lane_facts(const json_t *lane, double now, cli_lane_take *take, void *ctx)
{
    const struct telling t = {now, take, ctx};
    long long away = number_of(lane, "closed_destinations");
    tell_suspended(&t, lane);
    cli_lane_suspensions(lane, now, take, ctx);
    tell_stop(&t, lane, "closed");
    tell_stop(&t, lane, "paused");
    tell_paces(&t, lane);
    tell_ceilings(&t, lane);
    tell_waits(&t, lane);
    if (away > 0) {
        char what[80];
        (void)snprintf(what, sizeof(what), "%lld destination%s away from it", away,
                       away == 1 ? " keeps" : "s keep");
        tell(&t, "avoided", what, NULL);
    }
}

void cli_lane_rates(const json_t *lane, cli_lane_take *take, void *ctx)
{
    const json_t *rates = json_object_get(lane, "rates"), *quotas = json_object_get(lane, "quotas");
    char line[200];
    for (size_t i = 0; i < json_array_size(rates); i++) {
        const json_t *o = json_array_get(rates, i);
        (void)snprintf(line, sizeof(line), "%s %s, of the %s", text_of(o, "rate"),
                       text_of(o, "unit"), text_of(o, "of"));
        take(ctx, "rate", line);
    }
    for (size_t i = 0; i < json_array_size(quotas); i++) {
        const json_t *o = json_array_get(quotas, i);
        const char *quota = text_of(o, "quota");
        (void)snprintf(line, sizeof(line), "%s of the %s, %lld left",
                       quota[0] == '\0' ? "that of the warm-up" : quota, text_of(o, "of"),
                       number_of(o, "left"));
        take(ctx, "quota", line);
    }
}
