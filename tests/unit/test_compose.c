#include "engine/compose/compose.h"
#include "tests/unit/unit.h"

#include <string.h>

#define NOW 1700000000 /* Tue, 14 Nov 2023 22:13:20 +0000 */

static bool routes_all_but_one(const void *routes, struct slice domain)
{
    (void)routes;
    return !slice_eq(domain, SLICE("nowhere.example"));
}

static struct compose_options options = {
    .hostname = {"host.example", 12},
    .now = (usec_t)NOW * USEC_PER_SEC,
    .recipient_limit = 5,
    .hop_limit = 3,
    .has_route = routes_all_but_one,
};

struct made {
    struct composition c;
    struct compose_mistakes mistakes;
    char *content; /* with a NUL */
};

static void make_json(struct made *m, json_t *message, struct slice raw)
{
    m->mistakes.count = 0;
    composition_init(&m->c);
    const struct compose_input input = {message, raw, "", 0xabc};
    assert_int_equal(compose_message(&options, &input, &m->mistakes, &m->c), 0);
    buf_append_char(&m->c.content, '\0');
    m->content = m->c.content.data;
    json_decref(message);
}

static void make(struct made *m, const char *text)
{
    json_error_t error;
    json_t *message = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (message == NULL) {
        fail_msg("%s: %s", text, error.text);
    }
    make_json(m, message, (struct slice){0});
}

static void unmake(struct made *m)
{
    composition_fini(&m->c);
}

#define ENVELOPE "\"from\":\"s@a.example\",\"recipients\":[\"r@b.example\"],"

/* The one mistake of a message is at this place. */
static void is_wrong(const char *text, const char *where)
{
    struct made m;
    make(&m, text);
    if (m.mistakes.count != 1 || strcmp(m.mistakes.list[0].where, where) != 0) {
        fail_msg("%s: %u mistakes, the first at \"%s\": %s", text, m.mistakes.count,
                 m.mistakes.count > 0 ? m.mistakes.list[0].where : "-",
                 m.mistakes.count > 0 ? m.mistakes.list[0].what : "-");
    }
    assert_true(m.mistakes.list[0].what[0] != '\0');
    unmake(&m);
}

static void has(const char *text, const char *part)
{
    struct made m;
    make(&m, text);
    if (m.mistakes.count != 0) {
        fail_msg("%s: %s: %s", text, m.mistakes.list[0].where, m.mistakes.list[0].what);
    }
    if (strstr(m.content, part) == NULL) {
        fail_msg("%s: no \"%s\" in\n%s", text, part, m.content);
    }
    unmake(&m);
}

static void has_not(const char *text, const char *part)
{
    struct made m;
    make(&m, text);
    assert_int_equal(m.mistakes.count, 0);
    assert_null(strstr(m.content, part));
    unmake(&m);
}

static void smallest_message(void **state)
{
    struct made m;
    make(&m, "{" ENVELOPE "\"text\":\"hello\\n\"}");
    assert_int_equal(m.mistakes.count, 0);
    assert_string_equal(m.content, "From: s@a.example\r\n"
                                   "To: r@b.example\r\n"
                                   "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
                                   "Message-ID: <0000000000000abc@host.example>\r\n"
                                   "MIME-Version: 1.0\r\n"
                                   "Content-Type: text/plain; charset=utf-8\r\n"
                                   "Content-Transfer-Encoding: 7bit\r\n"
                                   "\r\nhello\r\n");
    assert_int_equal(m.c.recipient_count, 1);
    assert_int_equal(m.c.packed.len, 13);
    assert_memory_equal(m.c.packed.data, "\0\x0br@b.example", 13);
    assert_int_equal(m.c.sender.len, 11);
    assert_int_equal(m.c.tenant.len + m.c.campaign.len, 0);
    assert_int_equal(m.c.not_before, 0);
    assert_int_equal(m.c.expires, 0);
    assert_false(m.c.has_8bit || m.c.needs_utf8 || m.c.has_leading_dot);
    unmake(&m);
}

static void envelopes(void **state)
{
    struct made m;
    make(&m, "{\"sender\":\"\",\"recipients\":[{\"address\":\"A@B.Example\",\"name\":\"N, M\"}],"
             "\"headers\":{\"From\":\"x@y.example\"},\"text\":\".\"}");
    assert_int_equal(m.mistakes.count, 0);
    assert_int_equal(m.c.sender.len, 0);
    assert_memory_equal(m.c.packed.data,
                        "\0\x0b"
                        "A@b.example",
                        13);
    assert_non_null(strstr(m.content, "\r\nFrom: x@y.example\r\n"));
    assert_memory_equal(m.content, "To: \"N, M\" <A@b.example>\r\n", 26);
    assert_true(m.c.has_leading_dot);
    unmake(&m);
    has("{\"from\":{\"address\":\"a@b.example\",\"name\":\"Bülow\"},\"recipients\":\"r@b.example\","
        "\"text\":\"\"}",
        "From: =?utf-8?Q?B=C3=BClow?= <a@b.example>\r\n");
    has("{\"from\":\"a@b.example\",\"recipients\":[\"r@b.example\",\"s@b.example\"],\"text\":\"\"}",
        "To: undisclosed-recipients:;\r\n");
    make(&m, "{\"from\":\"ü@b.example\",\"recipients\":\"r@b.example\",\"text\":\"\"}");
    assert_int_equal(m.mistakes.count, 0);
    assert_true(m.c.needs_utf8 && m.c.has_8bit);
    unmake(&m);
}

static void wrong_envelopes(void **state)
{
    is_wrong("{\"recipients\":[\"r@b.example\"],\"text\":\"\",\"headers\":{\"From\":\"a@b.c\"}}",
             "from");
    is_wrong("{\"from\":\"a\",\"recipients\":[\"r@b.example\"],\"text\":\"\","
             "\"headers\":{\"From\":\"a@b.c\"}}",
             "from");
    is_wrong("{\"from\":\"\",\"recipients\":[\"r@b.example\"],\"text\":\"\"}", "headers.From");
    is_wrong("{\"from\":\"a@b.example\",\"sender\":\"\",\"recipients\":\"r@b.example\",\"text\":"
             "\"\",\"headers\":{\"From\":\"a@b.c\"}}",
             "sender");
    is_wrong("{\"from\":\"a@b.example\",\"text\":\"\"}", "recipients");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[],\"text\":\"\"}", "recipients");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[1],\"text\":\"\"}", "recipients[0]");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[\"a@b.example\",{\"name\":\"x\"}],"
             "\"text\":\"\"}",
             "recipients[1].address");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[{\"address\":\"a b@c.example\"}],"
             "\"text\":\"\"}",
             "recipients[0].address");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[{\"address\":\"a@c.example\",\"name\":"
             "\"x\\r\\nBcc: y\"}],\"text\":\"\"}",
             "recipients[0].name");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[{\"address\":\"a@c.example\",\"nam\":1}],"
             "\"text\":\"\"}",
             "recipients[0].nam");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[\"a@nowhere.example\"],\"text\":\"\"}",
             "recipients[0]");
    is_wrong("{\"from\":\"a@b.example\",\"recipients\":[\"a@b.c\",\"a@b.c\",\"a@b.c\",\"a@b.c\","
             "\"a@b.c\",\"a@b.c\"],\"text\":\"\"}",
             "recipients");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"recipient\":\"x\"}", "recipient");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"a\\n\":\"x\"}", "a?");
    is_wrong("17", "");
    is_wrong("{\"from\":\"a@b.example\\r\\n\",\"recipients\":\"r@b.example\",\"text\":\"\","
             "\"headers\":{\"From\":\"a@b.c\"}}",
             "from");
}

static void labels(void **state)
{
    struct made m;
    make(&m, "{" ENVELOPE "\"text\":\"\",\"tenant\":\"acme\",\"campaign\":\"2030/x\"}");
    assert_int_equal(m.mistakes.count, 0);
    assert_true(slice_eq(label_slice(&m.c.tenant), SLICE("acme")));
    assert_true(slice_eq(label_slice(&m.c.campaign), SLICE("2030/x")));
    unmake(&m);
    is_wrong("{" ENVELOPE "\"text\":\"\",\"tenant\":\"a b\"}", "tenant");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"tenant\":7}", "tenant");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"class\":\"first\"}", "class");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"class\":1}", "class");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"require_tls\":\"yes\"}", "require_tls");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"campaign\":\"ü\"}", "campaign");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"campaign\":"
             "\"0123456789012345678901234567890123456789012345678901234567890123x\"}",
             "campaign");
}

static void times_are(const char *members, int64_t not_before, int64_t expires)
{
    struct made m;
    char text[300];
    (void)snprintf(text, sizeof(text), "{" ENVELOPE "\"text\":\"\",%s}", members);
    make(&m, text);
    if (m.mistakes.count > 0) {
        fail_msg("%s: %s", text, m.mistakes.list[0].what);
    }
    assert_int_equal(m.c.not_before, not_before * USEC_PER_SEC);
    assert_int_equal(m.c.expires, expires * USEC_PER_SEC);
    unmake(&m);
}

static void times(void **state)
{
    times_are("\"not_before\":1700000060", NOW + 60, 0);
    times_are("\"not_before\":\"2023-11-14T22:14:20Z\"", NOW + 60, 0);
    times_are("\"not_before\":\"1700000060\"", NOW + 60, 0);
    times_are("\"not_before\":1600000000", 0, 0); /* long ago: at once */
    times_are("\"expires\":1700000060", 0, NOW + 60);
    times_are("\"expires_in\":\"90s\"", 0, NOW + 90);
    times_are("\"expires_in\":\"2h\"", 0, NOW + 7200);
    times_are("\"expires_in\":60", 0, NOW + 60);
    times_are("\"expires_in\":\"1d\",\"not_before\":1700000060", NOW + 60, NOW + 60 + 86400);
    times_are("\"expires_in\":null,\"not_before\":null", 0, 0);
    is_wrong("{" ENVELOPE "\"text\":\"\",\"not_before\":\"tomorrow\"}", "not_before");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"not_before\":-1}", "not_before");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"not_before\":1e300}", "not_before");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"not_before\":true}", "not_before");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"not_before\":1800000000}", "not_before");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"expires\":1700000000}", "expires");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"expires_in\":\"2x\"}", "expires_in");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"expires_in\":\"99999999d\"}", "expires_in");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"expires_in\":\"999999999d\"}", "expires_in");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"expires_in\":\"1h\",\"expires\":1700000060}",
             "expires_in");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"not_before\":1700000060,\"expires\":1700000030}",
             "expires");
    has("{" ENVELOPE "\"text\":\"\",\"not_before\":1700000060}",
        "Date: Tue, 14 Nov 2023 22:14:20 +0000\r\n");
}

#define HEADERS(h) "{" ENVELOPE "\"text\":\"\",\"headers\":{" h "}}"

static void headers(void **state)
{
    has(HEADERS("\"Subject\":\"Grüße\""), "\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n");
    has(HEADERS("\"X-A\":[\"1\",\"2\"]"), "\r\nX-A: 1\r\nX-A: 2\r\n");
    has(HEADERS("\"Message-ID\":\"<x@y>\""), "\r\nMessage-ID: <x@y>\r\n");
    has_not(HEADERS("\"message-id\":\"<x@y>\""), "host.example");
    has_not(HEADERS("\"DATE\":\"Tue, 14 Nov 2023 22:13:20 +0000\""), "Date:");
    has(HEADERS("\"To\":\"a: b@c.example, D <e@f.example>;\""),
        "\r\nTo: a: b@c.example, D <e@f.example>;\r\n");
    has(HEADERS("\"To\":[\"b@c.example\",{\"address\":\"e@f.example\",\"name\":\"D\"}]"),
        "\r\nTo: b@c.example, D <e@f.example>\r\n");
    has(HEADERS("\"From\":\"Jürgen <j@c.example>, \\\"M, ü\\\" <m@c.example>\""),
        "\r\nFrom: =?utf-8?Q?J=C3=BCrgen?= <j@c.example>, =?utf-8?Q?M=2C_=C3=BC?=\r\n"
        " <m@c.example>\r\n");
    has(HEADERS("\"Subject\":null"), "From:");
    has(HEADERS("\"References\":\"<a@b> <c@d>\""), "\r\nReferences: <a@b> <c@d>\r\n");
}

static void wrong_headers(void **state)
{
    is_wrong(HEADERS("\"Subject\":\"a\\r\\nBcc: b@c.example\""), "headers.Subject");
    is_wrong(HEADERS("\"Subject\":\"a\\n b\""), "headers.Subject");
    is_wrong(HEADERS("\"Subject\":\"a\\u0000b\""), "headers.Subject");
    is_wrong(HEADERS("\"X-A\":[\"a\",\"b\\rc\"]"), "headers.X-A[1]");
    is_wrong(HEADERS("\"X-A\":7"), "headers.X-A");
    is_wrong(HEADERS("\"X A\":\"b\""), "headers.X A");
    is_wrong(HEADERS("\"X:A\\r\\n\":\"b\""), "headers.X:A??");
    is_wrong(HEADERS("\"\":\"b\""), "headers.");
    is_wrong(HEADERS("\"Bcc\":\"b@c.example\""), "headers.Bcc");
    is_wrong(HEADERS("\"Content-Type\":\"text/html\""), "headers.Content-Type");
    is_wrong(HEADERS("\"MIME-Version\":\"1.0\""), "headers.MIME-Version");
    is_wrong(HEADERS("\"Subject\":[\"a\",\"b\"]"), "headers.Subject");
    is_wrong(HEADERS("\"Message-ID\":\"<ü@b>\""), "headers.Message-ID");
    is_wrong(HEADERS("\"To\":\"a b c\""), "headers.To");
    is_wrong(HEADERS("\"To\":\"ü <a@b.example\""), "headers.To");
    is_wrong(HEADERS("\"To\":[\"a@b.example\",\"a\"]"), "headers.To[1]");
    is_wrong(HEADERS("\"To\":[]"), "headers.To");
    is_wrong(HEADERS("\"To\":\"a@b.example\\r\\nX: y\""), "headers.To");
    is_wrong(HEADERS("\"To\":[{\"address\":\"a@b.example\",\"name\":\"\\n\"}]"),
             "headers.To[0].name");
    is_wrong("{" ENVELOPE "\"text\":\"\",\"headers\":[]}", "headers");
    struct made m;
    make(&m, HEADERS("\"Subject\":\"a\",\"subject\":\"b\""));
    assert_int_equal(m.mistakes.count, 2);
    unmake(&m);
    char text[1200] = HEADERS("\"X-A\":\"");
    text[strlen(text) - 2] = '\0';
    size_t len = strlen(text);
    memset(text + len, 'a', 901);
    strcpy(text + len + 901, "\"}}");
    is_wrong(text, "headers.X-A");
}

static void attachments(void **state)
{
    has("{" ENVELOPE "\"attachments\":[{\"content\":\"aGFsbG8=\"}]}",
        "Content-Type: application/octet-stream\r\n");
    has("{" ENVELOPE "\"attachments\":[{\"content\":\"aGFsbG8=\",\"filename\":\"ä.txt\","
        "\"content_type\":\"text/plain; charset=\\\"utf-8\\\"\"}],\"text\":\"x\"}",
        "Content-Disposition: attachment;\r\n filename*=utf-8''%C3%A4.txt\r\n");
    has("{" ENVELOPE "\"attachments\":[{\"content\":\"aGFsbG8=\",\"disposition\":\"inline\"}]}",
        "Content-Disposition: inline\r\n");
#define ATTACHED(a) "{" ENVELOPE "\"text\":\"\",\"attachments\":[{\"content\":\"\"}," a "]}"
    is_wrong(ATTACHED("7"), "attachments[1]");
    is_wrong(ATTACHED("{}"), "attachments[1].content");
    is_wrong(ATTACHED("{\"content\":7}"), "attachments[1].content");
    is_wrong(ATTACHED("{\"content\":\"a\"}"), "attachments[1].content");
    is_wrong(ATTACHED("{\"content\":\"\",\"data\":\"\"}"), "attachments[1].data");
    is_wrong(ATTACHED("{\"content\":\"\",\"filename\":\"a\\r\\nb\"}"), "attachments[1].filename");
    is_wrong(ATTACHED("{\"content\":\"\",\"content_type\":\"a\"}"), "attachments[1].content_type");
    is_wrong(ATTACHED("{\"content\":\"\",\"content_type\":\"a/b; c=\\r\\nX: y\"}"),
             "attachments[1].content_type");
    is_wrong(ATTACHED("{\"content\":\"\",\"content_type\":\"multipart/mixed\"}"),
             "attachments[1].content_type");
    is_wrong(ATTACHED("{\"content\":\"\",\"content_type\":\"Message/rfc822\"}"),
             "attachments[1].content_type");
    is_wrong(ATTACHED("{\"content\":\"\",\"content_id\":\"<a>\"}"), "attachments[1].content_id");
    is_wrong(ATTACHED("{\"content\":\"\",\"content_id\":\"\"}"), "attachments[1].content_id");
    is_wrong(ATTACHED("{\"content\":\"\",\"disposition\":\"x\"}"), "attachments[1].disposition");
    is_wrong("{" ENVELOPE "\"attachments\":{}}", "attachments");
    is_wrong("{" ENVELOPE "\"attachments\":[]}", "text");
    is_wrong("{" ENVELOPE "\"text\":\"a\\u0000\"}", "text");
    is_wrong("{" ENVELOPE "\"html\":7}", "html");
}

static void finished_text(void **state)
{
    struct made m;
    make(&m, "{" ENVELOPE "\"raw\":\"From: a@b\\nX: ü\\r\\n\\n.\\rb\"}");
    assert_int_equal(m.mistakes.count, 0);
    assert_string_equal(m.content, "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
                                   "Message-ID: <0000000000000abc@host.example>\r\n"
                                   "From: a@b\r\nX: ü\r\n\r\n.\r\nb\r\n");
    assert_true(m.c.has_8bit && m.c.has_leading_dot && !m.c.needs_utf8);
    unmake(&m);
    has("{" ENVELOPE "\"raw_base64\":\"RnJvbTogYUBiCgp4\\nCg==\"}", "From: a@b\r\n\r\nx\r\n");
    has("{" ENVELOPE "\"raw\":\"\\nbody\"}", "From: s@a.example\r\n");
    has("{" ENVELOPE "\"raw\":\"Subject: x\"}", "Subject: x\r\n");
    is_wrong("{" ENVELOPE "\"raw\":\"body\"}", "raw");
    is_wrong("{" ENVELOPE "\"raw\":\"\"}", "raw");
    is_wrong("{" ENVELOPE "\"raw\":\"A: b\\nbody without an empty line\\n\"}", "raw");
    is_wrong("{" ENVELOPE "\"raw\":\"A: b\\n\\n\\u0000\"}", "raw");
    is_wrong("{" ENVELOPE "\"raw\":7}", "raw");
    is_wrong("{" ENVELOPE "\"raw_base64\":\"a\"}", "raw_base64");
    is_wrong("{" ENVELOPE "\"raw\":\"A: b\\n\\n\",\"text\":\"\"}", "text");
    is_wrong("{" ENVELOPE "\"raw\":\"A: b\\n\\n\",\"raw_base64\":\"\"}", "raw_base64");
    is_wrong("{" ENVELOPE "\"raw\":\"Received: 1\\nReceived: 2\\nReceived: 3\\nReceived: 4\\n\"}",
             "raw");
    is_wrong("{\"from\":\"\",\"recipients\":\"r@b.example\",\"raw\":\"A: b\\n\\n\"}",
             "headers.From");
    make_json(&m, json_loads("{\"from\":\"s@a.example\",\"recipients\":\"r@b.example\"}", 0, NULL),
              SLICE("From: x\n\n\xff"));
    assert_int_equal(m.mistakes.count, 0);
    assert_true(m.c.has_8bit);
    unmake(&m);
}

static void size_is_limited(void **state)
{
    options.size_limit = 300;
    is_wrong("{" ENVELOPE "\"text\":\"0123456789012345678901234567890123456789012345678901234567890"
             "0123456789012345678901234567890123456789012345678901234567890\"}",
             "text");
    options.size_limit = 0;
}

static void defaults_are_merged(void **state)
{
    static const struct {
        const char *defaults, *message, *merged;
    } cases[] = {
        {"{}", "{\"a\":1}", "{\"a\":1}"},
        {"{\"a\":2,\"b\":3}", "{\"a\":1}", "{\"a\":1,\"b\":3}"},
        {"{\"headers\":{\"X\":1,\"Y\":2}}", "{\"headers\":{\"x\":3}}",
         "{\"headers\":{\"x\":3,\"Y\":2}}"},
        {"{\"headers\":{\"X\":1}}", "{}", "{\"headers\":{\"X\":1}}"},
        {"{\"headers\":{\"X\":1}}", "{\"headers\":7}", "{\"headers\":7}"},
        {"{\"from\":1}", "{\"sender\":2}", "{\"sender\":2}"},
        {"{\"expires_in\":1}", "{\"expires\":2}", "{\"expires\":2}"},
        {"{\"text\":1,\"headers\":{},\"tenant\":3}", "{\"raw\":2}", "{\"raw\":2,\"tenant\":3}"},
        {"{\"tenant\":1}", "{\"tenant\":null}", "{\"tenant\":null}"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *defaults = json_loads(cases[i].defaults, 0, NULL);
        json_t *message = json_loads(cases[i].message, 0, NULL);
        json_t *expected = json_loads(cases[i].merged, 0, NULL);
        json_t *before = json_deep_copy(message);
        json_t *merged = compose_merge(defaults, message);
        assert_non_null(merged);
        assert_true(json_equal(merged, expected));
        assert_true(json_equal(message, before));
        json_decref(merged);
        json_decref(defaults);
        json_decref(message);
        json_decref(expected);
        json_decref(before);
    }
}

/* "headers" of so many names. */
static json_t *with_fields(const char *name, int count)
{
    char key[32];
    json_t *headers = json_object();
    for (int i = 0; i < count; i++) {
        (void)snprintf(key, sizeof(key), "%s%d", name, i);
        assert_int_equal(json_object_set_new(headers, key, json_string("v")), 0);
    }
    return json_pack("{s:s, s:[s], s:s, s:o}", "from", "s@a.example", "recipients", "r@b.example",
                     "text", "", "headers", headers);
}

static void fields_are_limited(void **state)
{
    static const struct {
        int own, common;
        bool is_right;
    } cases[] = {{200, 0, true},  {201, 0, false}, {100, 100, true},     {101, 100, false},
                 {201, 1, false}, {1, 201, false}, {20000, 20000, false}}; /* none is compared with
                                                                              all others */
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct made m;
        json_t *own = with_fields("X-", cases[i].own);
        json_t *common = with_fields("Y-", cases[i].common);
        make_json(&m, compose_merge(common, own), (struct slice){0});
        assert_int_equal(m.mistakes.count, cases[i].is_right ? 0 : 1);
        assert_true(cases[i].is_right || strcmp(m.mistakes.list[0].where, "headers") == 0);
        unmake(&m);
        json_decref(own);
        json_decref(common);
    }
}

static void many_mistakes_are_counted(void **state)
{
    struct made m;
    char text[2000] = "{" ENVELOPE "\"text\":\"\"";
    for (int i = 0; i < 30; i++) {
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), ",\"x%d\":1", i);
    }
    strcat(text, "}");
    make(&m, text);
    assert_int_equal(m.mistakes.count, 30);
    assert_string_equal(m.mistakes.list[COMPOSE_MISTAKES_MAX - 1].where, "x19");
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smallest_message),
        cmocka_unit_test(envelopes),
        cmocka_unit_test(wrong_envelopes),
        cmocka_unit_test(labels),
        cmocka_unit_test(times),
        cmocka_unit_test(headers),
        cmocka_unit_test(wrong_headers),
        cmocka_unit_test(attachments),
        cmocka_unit_test(finished_text),
        cmocka_unit_test(size_is_limited),
        cmocka_unit_test(defaults_are_merged),
        cmocka_unit_test(fields_are_limited),
        cmocka_unit_test(many_mistakes_are_counted),
    };
    return cmocka_run_group_tests_name("compose", tests, NULL, NULL);
}
