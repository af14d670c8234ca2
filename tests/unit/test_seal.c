/* What one message goes out with: signed once, kept until its signature would soon expire, and not signed
 * where a signature would do harm. */
#include "base/packed.h"
#include "base/rcu.h"
#include "engine/key/key_choice.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"
#include "engine/signer/seal.h"
#include "engine/state/settings.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/key_files.h"
#include "tests/unit/spool_fixture.h"

#include <string.h>

#define DAY  (24 * 3600 * USEC_PER_SEC)
#define BORN (1700000000 * USEC_PER_SEC)

#define FROM "From: a@x.test\r\n"

/* A signer's means, and the one message that it looks at. */
struct bed {
    struct key_files files;
    struct settings settings;
    struct seal seal;
    struct message *message;
};

static struct message *message_of(const char *content)
{
    struct buf body;
    struct spool_envelope e = {
        .id = 1, .size_bytes = strlen(content), .recipient_count = 1, .sender = SLICE("a@x.test")};
    struct message *m = message_new_whole(&e, slice_make("\0\1b", 3));
    assert_non_null(m);
    buf_init(&body, 0);
    buf_append_str(&body, content);
    message_keep_body(m, &body);
    return m;
}

static void bed_init(struct bed *b, const char *config, const char *content)
{
    struct buf pem;
    memset(b, 0, sizeof(*b));
    key_files_init(&b->files);
    buf_init(&pem, 0);
    dkim_keys_put_published(&pem);
    key_files_put(&b->files, "e", buf_slice(&pem), 0600);
    buf_fini(&pem);
    assert_int_equal(key_files_load(&b->files, config, NULL), 0);
    b->settings.config = b->files.sample.config;
    b->settings.keys = b->files.ring;
    seal_init(&b->seal, reader, NULL);
    b->message = message_of(content);
}

static void bed_fini(struct bed *b)
{
    message_put(b->message);
    seal_fini(&b->seal);
    key_files_unload(&b->files);
    key_files_fini(&b->files);
}

/* What the signer does with it at that time. ret_count: signatures that were made */
static enum seal_result seal_at(struct bed *b, usec_t now, uint32_t *ret_count)
{
    struct seal_job job = {.message = b->message, .result = SEAL_RESULT_COUNT};
    assert_int_equal(seal_messages(&b->seal, &b->settings, &job, 1, now), 1);
    assert_int_equal(job.err, 0);
    assert_true(b->message->signing->is_done);
    *ret_count = job.signatures;
    return job.result;
}

static bool has_text(struct slice text, const char *part)
{
    return memmem(text.data, text.len, part, strlen(part)) != NULL;
}

static void expect_seal(struct bed *b, usec_t now, enum seal_result wanted, const char *part)
{
    uint32_t count = 9;
    assert_int_equal(seal_at(b, now, &count), wanted);
    assert_int_equal(count, wanted == SEAL_SIGNED ? 1 : 0);
    if (part == NULL) {
        assert_int_equal(signing_fields(b->message->signing).len, 0);
    } else {
        assert_true(has_text(signing_fields(b->message->signing), part));
    }
}

static void a_signature_is_kept_until_a_quarter_of_its_time_is_left(void **state)
{
    struct bed b;
    bed_init(&b, "dkim \"s._domainkey.x.test\" {\n key = \"@/e\"\n expire = \"4d\" }\n",
             FROM "\r\nhello\r\n");
    expect_seal(&b, BORN, SEAL_SIGNED, "x=1700345600;");
    expect_seal(&b, BORN + 1, SEAL_KEPT, "x=1700345600;");
    expect_seal(&b, BORN + 3 * DAY - 1, SEAL_KEPT, "x=1700345600;");
    expect_seal(&b, BORN + 3 * DAY, SEAL_SIGNED, "x=1700604800;");
    expect_seal(&b, BORN + 3 * DAY - 1, SEAL_SIGNED, "x=1700604799;"); /* the clock went back */
    expect_seal(&b, BORN + 100 * DAY, SEAL_SIGNED, "x=1708985600;");
    bed_fini(&b);
}

static void a_signature_that_does_not_expire_is_kept(void **state)
{
    struct bed b;
    bed_init(&b, "dkim \"s._domainkey.x.test\" {\n key = \"@/e\"\n expire = 0 }\n",
             FROM "\r\nhello\r\n");
    expect_seal(&b, BORN, SEAL_SIGNED, "d=x.test;");
    expect_seal(&b, BORN + 1000 * DAY, SEAL_KEPT, "t=1700000000;");
    assert_false(has_text(signing_fields(b.message->signing), "x="));
    bed_fini(&b);
}

static void the_key_that_expires_first_decides(void **state)
{
    struct bed b;
    uint32_t count = 0;
    bed_init(&b,
             "dkim \"l._domainkey.x.test\" {\n key = \"@/e\"\n expire = \"40d\" }\n"
             "dkim \"s._domainkey.x.test\" {\n key = \"@/e\"\n expire = \"4d\" }\n",
             FROM "\r\nhello\r\n");
    assert_int_equal(seal_at(&b, BORN, &count), SEAL_SIGNED);
    assert_int_equal(count, 2);
    assert_int_equal(seal_at(&b, BORN + 2 * DAY, &count), SEAL_KEPT);
    assert_int_equal(count, 0);
    assert_int_equal(seal_at(&b, BORN + 3 * DAY, &count), SEAL_SIGNED);
    assert_int_equal(count, 2);
    bed_fini(&b);
}

/* Only a valid message is to be signed: RFC 6376 section 3.8. */
static void a_header_with_a_line_that_is_no_field_is_not_signed(void **state)
{
    static const struct {
        const char *content;
        enum seal_result result;
    } rows[] = {
        {FROM "no field\r\n\r\nhello\r\n", SEAL_SHAPE},
        {FROM "two words: of a name\r\n\r\nhello\r\n", SEAL_SHAPE},
        {"From a@x.test Mon Nov 23 00:00:00 2026\r\n" FROM "\r\nhello\r\n", SEAL_SHAPE},
        {" begins with a fold\r\n" FROM "\r\nhello\r\n", SEAL_SHAPE},
        {FROM ": no name\r\n\r\nhello\r\n", SEAL_SHAPE},
        {FROM "\xc3\xa4: name of 8 bits\r\n\r\nhello\r\n", SEAL_SHAPE},
        {FROM "Subject : blank before the colon\r\n\r\nhello\r\n", SEAL_SIGNED},
        {FROM "Subject: a\r\n fold\r\n\r\nno field\r\n", SEAL_SIGNED},
        {FROM, SEAL_SIGNED}, /* no body, and no line before it */
        {"Subject: of nobody\r\n\r\nhello\r\n", SEAL_FROM},
        {"From: b@y.test\r\nno field\r\n\r\nhello\r\n", SEAL_NO_KEY},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bed b;
        bed_init(&b, "dkim \"s._domainkey.x.test\" {\n key = \"@/e\" }\n", rows[i].content);
        expect_seal(&b, BORN, rows[i].result,
                    rows[i].result == SEAL_SIGNED ? "DKIM-Signature" : NULL);
        bed_fini(&b);
    }
}

static void the_feedback_field_is_made_and_signed(void **state)
{
    struct bed b;
    bed_init(&b,
             "dkim \"s._domainkey.x.test\" {\n key = \"@/e\" }\n"
             "tenant \"*\" { feedback_id = \"{campaign}:{tenant}:{class}:me\" }\n",
             FROM "\r\nhello\r\n");
    expect_seal(&b, BORN, SEAL_SIGNED, "Feedback-ID: -:-:");
    assert_true(has_text(signing_fields(b.message->signing), ":Feedback-ID"));
    bed_fini(&b);
}

static void several_get_what_each_gets_alone(void **state)
{
    static const char *const contents[] = {
        FROM "Subject: one\r\n\r\nhello\r\n",
        "Subject: of nobody\r\n\r\nhello\r\n",
        FROM "Subject: three\r\n\r\nanother  body \r\n",
        "From: b@y.test\r\n\r\nhello\r\n",
        FROM "Subject: five\r\n\r\n",
    };
    static const enum seal_result results[] = {SEAL_SIGNED, SEAL_FROM, SEAL_SIGNED, SEAL_NO_KEY,
                                               SEAL_SIGNED};
    enum { COUNT = sizeof(contents) / sizeof(contents[0]) };
    struct seal_job jobs[COUNT];
    struct bed b;
    bed_init(&b,
             "dkim \"l._domainkey.x.test\" {\n key = \"@/e\" }\n"
             "dkim \"s._domainkey.x.test\" {\n key = \"@/e\" }\n"
             "tenant \"*\" { feedback_id = \"{campaign}:{tenant}:{class}:me\" }\n",
             contents[0]);
    for (size_t i = 0; i < COUNT; i++) {
        jobs[i] = (struct seal_job){.message = message_of(contents[i]), .err = 1};
    }
    for (size_t done = 0; done < COUNT;) { /* a busy machine makes a call end early */
        done += seal_messages(&b.seal, &b.settings, jobs + done, COUNT - done, BORN);
    }
    for (size_t i = 0; i < COUNT; i++) {
        struct message *m = message_of(contents[i]);
        struct seal_job alone = {.message = m};
        assert_int_equal(seal_messages(&b.seal, &b.settings, &alone, 1, BORN), 1);
        assert_int_equal(jobs[i].err, 0);
        assert_int_equal(jobs[i].result, results[i]);
        assert_int_equal(jobs[i].signatures, results[i] == SEAL_SIGNED ? 2 : 0);
        assert_true(slice_eq(signing_fields(jobs[i].message->signing), signing_fields(m->signing)));
        assert_int_equal(signing_fields(m->signing).len > 0, results[i] == SEAL_SIGNED);
        message_put(jobs[i].message);
        message_put(m);
    }
    bed_fini(&b);
}

/* As a signer's thread is. */
static int set_up_signer(void **state)
{
    rcu_start();
    rcu_join();
    return 0;
}

static int tear_down_signer(void **state)
{
    rcu_leave();
    rcu_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_signature_is_kept_until_a_quarter_of_its_time_is_left,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_signature_that_does_not_expire_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(the_key_that_expires_first_decides, setup, teardown),
        cmocka_unit_test_setup_teardown(a_header_with_a_line_that_is_no_field_is_not_signed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_feedback_field_is_made_and_signed, setup, teardown),
        cmocka_unit_test_setup_teardown(several_get_what_each_gets_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, set_up_signer, tear_down_signer);
}
