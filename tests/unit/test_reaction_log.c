/* What was done to lanes as lines of the event log: what they say, who is woken and how often, and
 * that a flood loses only what it says it lost. */
#include "base/error.h"
#include "engine/event/event_line.h"
#include "engine/event/event_log.h"
#include "engine/event/reaction_line.h"
#include "engine/writer/reaction_log.h"
#include "tests/unit/limits_bed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void lines(void **state)
{
    struct buf out;
    buf_init(&out, 0);
    const struct reaction_line closed = {
        .time = 1796126400 * SECOND + 250000,
        .reaction = SLICE("destination-closed"),
        .cause = SLICE("blocked"),
        .rule = SLICE("spamhaus"),
        .text = SLICE("550 \"no\"\n\xff"),
        .source = SLICE("ip1"),
        .site = SLICE("provider:x"),
        .hosts = SLICE("mx.x.test"),
        .destination = SLICE("x.test"),
        .until = 1796127300 * SECOND,
    };
    reaction_line_format(&out, &closed);
    const struct reaction_line paced = {
        .time = SECOND, .reaction = SLICE("paced"), .value = 12.5, .unit = SLICE("messages")};
    reaction_line_format(&out, &paced);
    const struct reaction_line lost = {.time = SECOND, .reaction = SLICE("lost"), .count = 7};
    reaction_line_format(&out, &lost);
    assert_false(out.failed);
    buf_append_char(&out, '\0');
    assert_string_equal(
        out.data,
        "{\"type\":\"Reaction\",\"reaction\":\"destination-closed\",\"cause\":\"blocked\","
        "\"source\":\"ip1\",\"site\":\"provider:x\",\"hosts\":\"mx.x.test\","
        "\"destination\":\"x.test\",\"rule\":\"spamhaus\","
        "\"text\":\"550 \\\"no\\\"\\n\xef\xbf\xbd\",\"timestamp\":1796126400,"
        "\"event_time\":\"2026-12-01T12:00:00.250000Z\",\"until\":\"2026-12-01T12:15:00.000000Z\"}"
        "\n"
        "{\"type\":\"Reaction\",\"reaction\":\"paced\",\"value\":12.5,\"unit\":\"messages\","
        "\"timestamp\":1,\"event_time\":\"1970-01-01T00:00:01.000000Z\"}\n"
        "{\"type\":\"Reaction\",\"reaction\":\"lost\",\"count\":7,\"timestamp\":1,"
        "\"event_time\":\"1970-01-01T00:00:01.000000Z\"}\n");
    struct slice line = slice_to(slice_of(out.data), slice_find(slice_of(out.data), '\n'));
    assert_true(event_line_is_whole(line));
    assert_false(event_line_is_of_mail(line));
    assert_true(event_line_time(line) == 1796126400 * SECOND);
    assert_int_not_equal(event_line_type_bit(event_line_type(line)), 0);
    buf_fini(&out);
}

/* --- the log ---------------------------------------------------------------------------------- */

struct scene {
    struct bed bed;
    char path[64];
    struct event_log log;
    struct reaction_log reactions;
    struct limits_hold *hold;
    int wakes;
};

static void wake(void *ctx)
{
    ((struct scene *)ctx)->wakes++;
}

static void begin_scene(struct scene *s)
{
    make_bed(&s->bed);
    s->wakes = 0;
    (void)snprintf(s->path, sizeof(s->path), "/tmp/reaction_log.XXXXXX");
    int fd = mkstemp(s->path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(event_log_open(&s->log, s->path), 0);
    reaction_log_init(&s->reactions, s->bed.limits, &s->log, wake, s);
    reaction_log_write(&s->reactions, clock_mono(), false); /* from here on it is awaited */
    assert_true(reaction_log_due(&s->reactions) == USEC_NEVER);
    s->hold = hold(&s->bed, 0, "ip1", "site", NULL);
}

static void end_scene(struct scene *s)
{
    limits_release(s->hold, s->bed.now);
    reaction_log_fini(&s->reactions);
    assert_int_equal(event_log_close(&s->log), 0);
    (void)unlink(s->path);
    end_bed(&s->bed);
}

/* One destination more that our address is closed to. */
static void react(struct scene *s, unsigned number)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "d%u.test", number);
    struct limit_refusal r = blocked(&s->bed, name, 1);
    r.scope = REPLY_DESTINATION;
    (void)refuse(&s->bed, s->hold, &r);
}

/* How many lines the file has with this text; *ret_lost: the sum of what was lost. */
static unsigned count_lines(const struct scene *s, const char *text, unsigned *ret_lost)
{
    char line[4096];
    unsigned count = 0;
    FILE *f = fopen(s->path, "r");
    assert_non_null(f);
    *ret_lost = 0;
    while (fgets(line, sizeof(line), f) != NULL) {
        const char *lost = strstr(line, "\"reaction\":\"lost\",\"count\":");
        assert_true(event_line_is_whole(slice_make(line, strlen(line) - 1)));
        count += strstr(line, text) != NULL;
        *ret_lost += lost != NULL ? (unsigned)strtoul(strstr(lost, "count") + 7, NULL, 10) : 0;
    }
    (void)fclose(f);
    return count;
}

static void wakes_once(void **state)
{
    struct scene s;
    unsigned lost;
    begin_scene(&s);
    react(&s, 1);
    assert_int_equal(s.wakes, 1);
    assert_false(reaction_log_may_sleep(&s.reactions)); /* it came before the sleep */
    for (unsigned i = 2; i <= 200; i++) {
        react(&s, i);
    }
    assert_int_equal(s.wakes, 1);
    usec_t now = clock_mono();
    reaction_log_write(&s.reactions, now, false); /* seen, and not due yet */
    assert_int_equal(s.log.bytes, 0);
    usec_t due = reaction_log_due(&s.reactions);
    assert_true(due > now && due <= now + SECOND);
    assert_true(reaction_log_may_sleep(&s.reactions));
    reaction_log_write(&s.reactions, due, false);
    assert_int_equal(count_lines(&s, "destination-closed", &lost), 200);
    assert_int_equal(lost, 0);
    assert_true(reaction_log_due(&s.reactions) == USEC_NEVER);
    react(&s, 201);
    assert_int_equal(s.wakes, 2);
    reaction_log_write(&s.reactions, now, true); /* a stop waits for nothing */
    assert_int_equal(count_lines(&s, "d201.test", &lost), 1);
    for (unsigned i = 202; i <= 600; i++) {
        react(&s, i);
    }
    reaction_log_write(&s.reactions, now, false); /* nor do many */
    assert_int_equal(count_lines(&s, "destination-closed", &lost), 600);
    end_scene(&s);
}

static void a_flood_is_counted(void **state)
{
    enum { FLOOD = 20000 };
    struct scene s;
    unsigned lost;
    begin_scene(&s);
    for (unsigned i = 0; i < FLOOD; i++) {
        react(&s, i);
    }
    reaction_log_write(&s.reactions, clock_mono(), true);
    unsigned count = count_lines(&s, "destination-closed", &lost);
    assert_int_equal(count, LIMITS_REACTIONS_KEPT); /* nobody wrote meanwhile */
    assert_int_equal(count + lost, FLOOD);
    assert_true(s.reactions.lines.capacity < 1 << 20);
    assert_int_equal(s.wakes, 1);
    end_scene(&s);
}

/* While the file takes nothing, nothing piles up; afterwards it goes on. */
static void a_log_that_fails(void **state)
{
    struct scene s;
    unsigned lost;
    begin_scene(&s);
    int fd = s.log.fd;
    s.log.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    for (unsigned i = 0; i < 3000; i++) {
        react(&s, i);
        if (i % 1000 == 0) {
            reaction_log_write(&s.reactions, clock_mono(), true);
            assert_true(reaction_log_due(&s.reactions) != USEC_NEVER);
        }
    }
    assert_true(s.reactions.lines.capacity < 1 << 20);
    (void)close(s.log.fd);
    s.log.fd = fd;
    reaction_log_write(&s.reactions, clock_mono(), true);
    unsigned count = count_lines(&s, "destination-closed", &lost);
    assert_int_equal(count + lost, 3000);
    assert_int_equal(count, LIMITS_REACTIONS_KEPT + 1); /* the first was taken before */
    end_scene(&s);
}

/* What operators do stands there, too. */
static void orders(void **state)
{
    struct scene s;
    unsigned lost;
    begin_scene(&s);
    struct limit_key key = key_of("ip1", "site");
    const struct limit_order all[] = {
        {.kind = LIMIT_ORDER_CLOSE, .span = HOUR, .reason = SLICE("me: move")},
        {.kind = LIMIT_ORDER_OPEN, .reason = SLICE("me: moved")},
        {.kind = LIMIT_ORDER_PACE, .rate = 5, .reason = SLICE("me: slow")},
        {.kind = LIMIT_ORDER_UNPACE, .reason = SLICE("me: fast")},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(limits_order(s.bed.limits, &key, &all[i], s.bed.now), 0);
    }
    reaction_log_write(&s.reactions, clock_mono(), true);
    assert_int_equal(count_lines(&s, "\"cause\":\"order\"", &lost), 4);
    assert_int_equal(count_lines(&s, "\"closed\",\"cause\":\"order\",\"source\":\"ip1\"", &lost),
                     1);
    assert_int_equal(count_lines(&s, "\"opened\",", &lost), 1);
    assert_int_equal(
        count_lines(&s, "\"value\":5,\"unit\":\"messages\",\"text\":\"me: slow\"", &lost), 1);
    assert_int_equal(count_lines(&s, "\"reaction\":\"unpaced\"", &lost), 1);
    end_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(wakes_once),
        cmocka_unit_test(a_flood_is_counted),
        cmocka_unit_test(a_log_that_fails),
        cmocka_unit_test(orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
