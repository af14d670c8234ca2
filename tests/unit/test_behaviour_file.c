/* Behaviour files: who gets what, and what each mistake is told. */
#include "base/error.h"
#include "bench/sink/behaviour_file.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct complaints {
    char text[8192];
    size_t count;
};

static void complain(void *ctx, const char *line)
{
    struct complaints *c = ctx;
    size_t len = strlen(c->text);
    (void)snprintf(c->text + len, sizeof(c->text) - len, "%s\n", line);
    c->count++;
}

static int read_text(const char *text, const struct behaviour *base, struct complaints *c,
                     struct behaviour_file *ret)
{
    const struct behaviour_reader reader = {SOURCE_FOLDER "/bench/profiles", complain, c};
    *c = (struct complaints){"", 0};
    return behaviour_file_read_text(text, "b.conf", base, &reader, ret);
}

static struct behaviour_file must_read(const char *text, const struct behaviour *base)
{
    struct complaints c;
    struct behaviour_file f;
    int err = read_text(text, base, &c, &f);
    assert_string_equal(c.text, "");
    assert_int_equal(err, 0);
    return f;
}

static const struct behaviour *at(const struct behaviour_file *f, const char *ip, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_storage address = {0};
    size_t destination;
    assert_int_equal(inet_pton(AF_INET, ip, &in.sin_addr), 1);
    memcpy(&address, &in, sizeof(in));
    return behaviour_file_of(f, &address, &destination);
}

static void test_layers(void **state)
{
    struct behaviour base;
    char why[BEHAVIOUR_WHY_BYTES];
    (void)state;
    behaviour_init(&base);
    assert_int_equal(behaviour_read(&base, BEHAVIOUR_DELAY_DOT, "5", why), 0);
    assert_int_equal(behaviour_read(&base, BEHAVIOUR_REJECT, "dot:0.5:451 x", why), 0);
    struct behaviour_file f = must_read("/* two\n lines */ profile \"slow\" {\n"
                                        "  delay_dot = \"10-30\" connections = 7\n"
                                        "  fault = {\"reset:0.25\", \"421:0.5\"}\n"
                                        "}\n"
                                        "profile slower { use = slow tarpit = 3 connections = 8 }\n"
                                        "default { delay_ehlo = 9 }\n"
                                        "destination \"127.0.1.1-127.0.1.9\" { use = slower\n"
                                        "  delay_ehlo = 10 reject = {} }\n"
                                        "destination \"127.0.1.5:25\" { silent = yes\n"
                                        "  extensions = {size, \"8bitmime,chunking\"} }\n"
                                        "domain \"D1.Test\" { rate = 6000/m greylist = 60 }\n",
                                        &base);
    const struct behaviour *b = at(&f, "127.0.2.1", 25);
    assert_int_equal(b->delays[STAGE_DOT].most, 5000);
    assert_int_equal(b->delays[STAGE_EHLO].least, 9000);
    assert_int_equal(b->rejection_count, 1);
    b = at(&f, "127.0.1.9", 25);
    assert_int_equal(b->delays[STAGE_DOT].least, 10000);
    assert_int_equal(b->delays[STAGE_DOT].most, 30000);
    assert_int_equal(b->delays[STAGE_EHLO].least, 10000);
    assert_int_equal(b->tarpit, 3000);
    assert_int_equal(b->connections, 8);
    assert_true(b->fault_shares[FAULT_RESET] == 0.25 && b->fault_shares[FAULT_421] == 0.5);
    assert_false(b->is_silent);
    assert_ptr_equal(at(&f, "127.0.1.5", 26), at(&f, "127.0.1.5", 27)); /* another port */
    b = at(&f, "127.0.1.5", 25);
    assert_true(b->is_silent);
    assert_int_equal(b->extensions, EXTENSION_SIZE | EXTENSION_8BITMIME | EXTENSION_CHUNKING);
    assert_int_equal(b->tarpit, 0); /* the last section alone, over default */
    assert_int_equal(f.domain_count, 1);
    assert_string_equal(f.domains[0].name, "d1.test");
    b = &f.domains[0].behaviour;
    assert_int_equal(b->rate.count, 1);
    assert_int_equal(b->rate.steps[0].rate.count, 6000);
    assert_int_equal(b->rate.steps[0].rate.span, 60 * USEC_PER_SEC);
    assert_int_equal(b->rate.steps[0].rate.burst, 6000);
    assert_int_equal(b->greylist, 60 * USEC_PER_SEC);
    assert_true(behaviour_has(b, BEHAVIOUR_RATE) && !behaviour_has(b, BEHAVIOUR_DELAY_RCPT));
    behaviour_file_fini(&f);
    behaviour_fini(&base);
}

/* Sections of clients lie over each destination, as it stands below them. */
static void test_clients(void **state)
{
    struct behaviour base;
    (void)state;
    behaviour_init(&base);
    struct behaviour_file f =
        must_read("client \"127.0.0.2-127.0.0.5\" { rate_per_client = {20/s, \"5/s from 9\"} }\n"
                  "default { rate_per_client = 100/s tarpit = 1 }\n"
                  "destination \"127.0.1.1\" { tarpit = 2 recipient_rate_per_client = 60/m }\n"
                  "client \"127.0.0.4\" { use = bad }\n"
                  "profile bad { reject = {\"mail:1:554 5.7.1 [{client}] blocked\"} }\n",
                  &base);
    static const struct {
        const char *client;
        size_t destination, step_count, rejection_count;
        uint64_t rate;
        usec_t tarpit;
    } cases[] = {
        {"127.0.0.1", 0, 1, 0, 100, 2}, {"127.0.0.1", 1, 1, 0, 100, 1},
        {"127.0.0.2", 0, 2, 0, 20, 2},  {"127.0.0.5", 1, 2, 0, 20, 1},
        {"127.0.0.4", 0, 1, 1, 100, 2}, {"127.0.0.4", 1, 1, 1, 100, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(999)};
        struct sockaddr_storage address = {0};
        assert_int_equal(inet_pton(AF_INET, cases[i].client, &in.sin_addr), 1);
        memcpy(&address, &in, sizeof(in));
        const struct behaviour *b = behaviour_file_towards(&f, cases[i].destination, &address);
        assert_int_equal(b->rate_per_client.count, cases[i].step_count);
        assert_int_equal(b->rate_per_client.steps[0].rate.count, cases[i].rate);
        assert_int_equal(b->rejection_count, cases[i].rejection_count);
        assert_int_equal(b->tarpit, cases[i].tarpit * USEC_PER_MSEC);
        assert_int_equal(b->recipient_rate_per_client.count, cases[i].destination == 0 ? 1 : 0);
    }
    behaviour_file_fini(&f);
}

static void test_no_file_is_the_command_line(void **state)
{
    struct behaviour base;
    struct complaints c = {"", 0};
    struct behaviour_file f;
    const struct behaviour_reader reader = {NULL, complain, &c};
    (void)state;
    behaviour_init(&base);
    base.set = 1U << BEHAVIOUR_CONNECTIONS;
    base.connections = 3;
    assert_int_equal(behaviour_file_read(NULL, &base, &reader, &f), 0);
    assert_int_equal(at(&f, "127.0.0.1", 25)->connections, 3);
    assert_int_equal(f.destination_count + f.domain_count, 0);
    behaviour_file_fini(&f);
}

/* Each with the line it must name, and words of what is wrong and of what would be right. */
static void test_mistakes(void **state)
{
    static const struct {
        const char *text, *complaint;
    } cases[] = {
        {"default {\n\n delay_dto = 3 }",
         "b.conf:3: delay_dto: there is no such key; did you mean"},
        {"default { delay_dot = 3s }",
         "b.conf:1: delay_dot: \"3s\" is not a time; write milliseconds, such as 20, or 10-30"},
        {"default { delay_dot = \"30-10\" }", "b.conf:1: delay_dot: 30-10 is out of range; write"},
        {"default { tarpit = x }", "b.conf:1: tarpit: \"x\" is not a whole number; write"},
        {"default { greylist = 9999999 }",
         "b.conf:1: greylist: 9999999 is out of range; write 0 to 2592000 seconds"},
        {"default {\nrate = 100\n}",
         "b.conf:2: rate: \"100\" is not a rate; write a number of messages and /s"},
        {"default { rate = 0/s }", "b.conf:1: rate: 0/s is out of range; write 1 to"},
        {"default { rate_reply = \"250 ok\" }",
         "b.conf:1: rate_reply: \"250 ok\" is not a refusal; write a code from 400 to 599"},
        {"default { reject = {\"rcpt:0.1:550 x\",\n\"rcpt:2:550 x\"} }",
         "b.conf:2: reject: \"rcpt:2:550 x\" is not a rejection; write STAGE:SHARE:CODE TEXT"},
        {"default { reject = \"quit:0.1:550 x\" }",
         "b.conf:1: reject: \"quit:0.1:550 x\" is not a"},
        {"default { fault = {\"burn:0.1\"} }",
         "b.conf:1: fault: \"burn:0.1\" is not a fault; write KIND:SHARE"},
        {"default { extensions = {size, dsn} }",
         "b.conf:1: extensions: there is no extension \"dsn\"; write none, pipelining"},
        {"default { silent = maybe }",
         "b.conf:1: silent: \"maybe\" is neither yes nor no; write yes or no"},
        {"default {\n connections = 3\n connections = 4 }",
         "b.conf:3: connections: it was already set in line 2; keep one of them"},
        {"default { }\ndefault { }",
         "b.conf:2: default: the section was already in line 1; keep one of them"},
        {"\ndestination \"127.0.1\" { }",
         "b.conf:2: destination: \"127.0.1\" is no listening address; write ADDRESS"},
        {"destination \"127.0.1.9-127.0.1.1\" { }", "is no listening address; write ADDRESS"},
        {"destination \"127.0.1.1\" { }\ndestination \"127.0.1.1\" { }",
         "b.conf:2: 127.0.1.1: a section of this kind already has this title; keep one of them"},
        {"domain \"x@d1.test\" { }",
         "b.conf:1: domain: \"x@d1.test\" is no domain; write what stands behind the @"},
        {"domain \"d1.test\" {\n delay_banner = 3 }",
         "b.conf:2: delay_banner: a domain only acts at rcpt and dot; write it into a destination"},
        {"domain \"d1.test\" { reject = \"mail:1:550 x\" }", "reject: a domain only acts at rcpt"},
        {"default { use = nobody }",
         "b.conf:1: use: there is no profile \"nobody\", neither in this file nor in"},
        {"default { use = \"../x\" }", "b.conf:1: use: there is no profile \"../x\" in this file"},
        {"profile a { use = b }\nprofile b { use = a }",
         "b.conf:2: use: profiles use each other in a circle"},
        {"default { description = x }", "b.conf:1: description: only a profile has it; write"},
        {"rate = 3/s", "b.conf:1: rate: it stands outside of every section; write it into default"},
        {"destinaton \"127.0.1.1\" { }", "b.conf:1: destinaton: there is no such section; did you "
                                         "mean destination?"},
        {"client \"127.0.0.2:25\" { }",
         "b.conf:1: client: \"127.0.0.2:25\" is no address of a client"},
        {"client x { }", "b.conf:1: client: \"x\" is no address of a client; write ADDRESS"},
        {"client \"127.0.0.2\" {\n rate = 3/s }",
         "b.conf:2: rate: it is everybody's together; write rate_per_client"},
        {"client \"127.0.0.2\" { silent = yes }", "silent: it is of the listening address; write"},
        {"domain \"d1.test\" { rate_stage = mail }", "rate_stage: a domain only acts at rcpt"},
        {"domain \"d1.test\" { connection_rate_per_client = 3/m }", "a domain only acts at rcpt"},
        {"default { rate_stage = data }", "\"data\" is no stage where a rate acts; write mail"},
        {"default { rate_per_client = {3/s,\n \"4/s\"} }",
         "b.conf:2: rate_per_client: 4/s begins no later than the one before"},
        {"default { greylist_reply = \"later\" }", "greylist_reply: \"later\" is not a refusal"},
        {"default { round_trip = \"9-3\" }", "round_trip: 9-3 is out of range; write"},
        {"frobnicate \"x\" { }", "b.conf:1: frobnicate: there is no such section; write default"},
        {"default {\n rate = 3/s\n", "b.conf:1: syntax: this brace is never closed; write }"},
        {"default { rate = \"3/s\n }", "b.conf:1: syntax: this quote is never closed; write"},
        {"default { rate 3/s }", "b.conf:1: syntax: missing equal sign"},
    };
    struct behaviour base;
    struct complaints c;
    (void)state;
    behaviour_init(&base);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct behaviour_file f = {0};
        assert_int_equal(read_text(cases[i].text, &base, &c, &f), ERR_SYNTAX);
        if (strstr(c.text, cases[i].complaint) == NULL) {
            print_error("mistake %zu\ngot: %s", i, c.text);
        }
        assert_non_null(strstr(c.text, cases[i].complaint));
        assert_int_equal(f.destination_count, 0);
    }
}

/* One run finds them all, in the order of the lines. */
static void test_many_mistakes_at_once(void **state)
{
    struct behaviour base;
    struct complaints c;
    struct behaviour_file f;
    (void)state;
    behaviour_init(&base);
    assert_int_equal(read_text("default {\n colour = red\n rate = 1\n}\nnothing {\n}\n"
                               "domain d1.test { connections = 3 }\n"
                               "destination x { flavour = 3\n delay_dot = x }\n",
                               &base, &c, &f),
                     ERR_SYNTAX);
    assert_int_equal(c.count, 7);
    static const int lines[] = {2, 3, 5, 7, 8, 8, 9};
    const char *at_line = c.text;
    for (size_t i = 0; i < c.count; i++) {
        assert_int_equal(atoi(at_line + sizeof("b.conf:") - 1), lines[i]);
        at_line = strchr(at_line, '\n') + 1;
    }
}

static const char *profiles[16];
static size_t profile_count;

static void note_profile(const char *name, const char *description)
{
    assert_in_range(strlen(description), 10, 100);
    assert_in_range(profile_count, 0, 15);
    profiles[profile_count++] = strdup(name);
}

static void test_profiles(void **state)
{
    struct complaints c = {"", 0};
    struct behaviour base;
    char text[200];
    const struct behaviour_reader reader = {SOURCE_FOLDER "/bench/profiles", complain, &c};
    const struct behaviour_reader nowhere = {SOURCE_FOLDER "/no/such/folder", complain, &c};
    (void)state;
    behaviour_init(&base);
    assert_int_equal(behaviour_file_list(&reader, note_profile), 0);
    assert_string_equal(c.text, "");
    assert_true(profile_count >= 4);
    for (size_t i = 0; i < profile_count; i++) {
        (void)snprintf(text, sizeof(text),
                       "default { use = \"%s\" }\ndomain d.test { use = \"%s\" }", profiles[i],
                       profiles[i]);
        struct behaviour_file f = must_read(text, &base);
        assert_true(f.common.connections_per_client > 0);
        assert_true(f.common.messages_per_connection > 0);
        behaviour_file_fini(&f);
        union {
            const char *in;
            char *out;
        } name = {profiles[i]};
        free(name.out);
    }
    assert_true(behaviour_file_list(&nowhere, note_profile) < 0);
}

static void test_many_sections(void **state)
{
    struct behaviour base;
    const size_t room = 3000UL * 64;
    char *text = malloc(room);
    size_t len = 0;
    (void)state;
    assert_non_null(text);
    behaviour_init(&base);
    for (int i = 0; i < 3000; i++) {
        len +=
            (size_t)snprintf(text + len, room - len,
                             "destination \"127.1.%d.%d\" { tarpit = %d }\n", i / 256, i % 256, i);
    }
    struct behaviour_file f = must_read(text, &base);
    assert_int_equal(f.destination_count, 3000);
    assert_int_equal(at(&f, "127.1.7.3", 25)->tarpit, (7 * 256 + 3) * USEC_PER_MSEC);
    behaviour_file_fini(&f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),   cmocka_unit_test(test_no_file_is_the_command_line),
        cmocka_unit_test(test_mistakes), cmocka_unit_test(test_many_mistakes_at_once),
        cmocka_unit_test(test_profiles), cmocka_unit_test(test_many_sections),
        cmocka_unit_test(test_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
