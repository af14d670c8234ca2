/* What is written into signed mail: how to unsubscribe, for one recipient alone, and Feedback-ID. */
#include "engine/signer/seal_field.h"

#include "base/packed.h"
#include "base/rcu.h"
#include "engine/heard/return_book.h"
#include "engine/heard/return_token.h"
#include "engine/post/message.h"
#include "net/dkim/dkim_header.h"
#include "tests/unit/config_sample.h"

#include <stdlib.h>
#include <unistd.h>

#define NOW 1700000000
#define URL "https://x.test/u/{token}?r={recipient}&t={tenant}&c={campaign}"

static char folder[] = "/tmp/sluice-field-XXXXXX";
static struct return_book *book;
static struct sample sample;

/* A message as it is asked about. */
struct mail {
    const char *header, *sender, *recipient;
    uint32_t recipients; /* of that address */
    uint32_t flags;
};

/* What is written into it; freed by the caller. The token that stands in it is "TOKEN". */
static char *written(const char *config, const struct mail *mail, const struct return_book *from)
{
    struct dkim_header header;
    struct buf out, packed;
    char token[RETURN_TOKEN_LEN];
    const struct spool_envelope e = {.id = 9,
                                     .created = NOW * USEC_PER_SEC,
                                     .recipient_count = mail->recipients,
                                     .flags = mail->flags,
                                     .sender = slice_of(mail->sender),
                                     .tenant = SLICE("acme"),
                                     .campaign = SLICE("may:sale")};
    buf_init(&out, 0);
    buf_init(&packed, 0);
    for (uint32_t i = 0; i < mail->recipients; i++) {
        packed_append(&packed, slice_of(mail->recipient));
    }
    sample_load(&sample, config);
    assert_int_equal(sample.err, 0);
    assert_int_equal(dkim_header_parse(slice_of(mail->header), &header), 0);
    struct message *m = message_new_whole(&e, buf_slice(&packed));
    assert_non_null(m);
    const struct seal_fields_of of = {sample.config, m, &header, from, 0};
    seal_field_put_all(&of, &out);
    const struct return_subject subject = message_subject(m, 0);
    bool has_token = from != NULL && return_book_token(from, &subject, token);
    for (char *at; has_token && out.len > 0 &&
                   (at = memmem(out.data, out.len, token, sizeof(token))) != NULL;) {
        memcpy(at, "TOKEN", 5);
        memmove(at + 5, at + sizeof(token),
                out.len - (size_t)(at - out.data) - sizeof(token));
        out.len -= sizeof(token) - 5;
    }
    buf_append_char(&out, '\0');
    message_put(m);
    dkim_header_fini(&header);
    config_free(sample.config);
    buf_fini(&packed);
    return out.data;
}

static const struct mail plain = {"From: a@x.test\r\n", "a@x.test", "jane+x@y.test", 1, 0};

static void expect_written(const char *config, const struct mail *mail, const char *wanted)
{
    char *text = written(config, mail, book);
    assert_string_equal(text, wanted);
    free(text);
}

#define MAILTO "<mailto:unsubscribe+TOKEN@b.test?subject=unsubscribe%20jane%2Bx%40y.test>"
#define LINK   "<https://x.test/u/TOKEN?r=jane%2Bx%40y.test&t=acme&c=may%3Asale>"
#define ADDRESS "list_unsubscribe = \"unsubscribe@b.test\"\n"

static void links_by_mail_and_by_one_click(void **state)
{
    (void)state;
    expect_written("transport smtp {\n" ADDRESS "}", &plain, "List-Unsubscribe: " MAILTO "\r\n");
    expect_written("transport smtp {\n list_unsubscribe_url = \"" URL "\" }", &plain,
                   "List-Unsubscribe: " LINK "\r\nList-Unsubscribe-Post: "
                   "List-Unsubscribe=One-Click\r\n");
    expect_written("transport smtp {\n" ADDRESS "} tenant acme {\n list_unsubscribe_url = \"" URL
                   "\"\n feedback_id = \"{campaign}:x\" }",
                   &plain,
                   "Feedback-ID: may_sale:x\r\nList-Unsubscribe: " LINK ",\r\n " MAILTO
                   "\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n");
    expect_written("transport smtp {\n list_unsubscribe = \"leave@c.test\" } tenant acme {\n" ADDRESS
                   "}",
                   &plain, "List-Unsubscribe: " MAILTO "\r\n");
}

static void mail_that_gets_none(void **state)
{
    (void)state;
    static const struct mail mails[] = {
        {"From: a@x.test\r\n", "a@x.test", "j@y.test", 2, 0},
        {"From: a@x.test\r\n", "", "j@y.test", 1, 0},
        {"From: a@x.test\r\nlist-unsubscribe: <https://own.test>\r\n", "a@x.test", "j@y.test", 1, 0},
        {"From: a@x.test\r\nList-Unsubscribe-Post: x\r\n", "a@x.test", "j@y.test", 1, 0},
        {"From: a@x.test\r\n", "a@x.test", "j@y.test", 1, SPOOL_FLAG_TLS_REPORT},
    };
    for (size_t i = 0; i < sizeof(mails) / sizeof(mails[0]); i++) {
        expect_written("transport smtp {\n" ADDRESS "}", &mails[i], "");
    }
    expect_written("transport smtp {} tenant other {\n" ADDRESS "}", &plain, "");
    char *text = written("transport smtp {\n" ADDRESS "}", &plain, NULL);
    assert_string_equal(text, "");
    free(text);
}

/* A line has 998 bytes at most: a link that is longer is left out. */
static void no_line_is_too_long(void **state)
{
    (void)state;
    char longest[256] = "";
    memset(longest, '=', 240);
    memcpy(longest + 240, "@y.test", 8);
    const struct mail mail = {"From: a@x.test\r\n", "a@x.test", longest, 1, 0};
    expect_written("transport smtp {\n list_unsubscribe_url = \"" URL "{recipient}\" }", &mail, "");
    expect_written("transport smtp {\n" ADDRESS "list_unsubscribe_url = \"" URL "{recipient}\" }",
                   &mail,
                   "List-Unsubscribe: <mailto:unsubscribe+TOKEN@b.test?subject=unsubscribe>\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_by_mail_and_by_one_click),
        cmocka_unit_test(mail_that_gets_none),
        cmocka_unit_test(no_line_is_too_long),
    };
    char text[RETURN_BOOK_TEXT_MAX], command[64];
    book = return_book_new();
    if (mkdtemp(folder) == NULL || book == NULL) {
        return 1;
    }
    rcu_start();
    rcu_join();
    int failed = return_book_want(book, NOW - 1, text) != 0 ||
                 return_book_open(book, folder, NOW - 1, text) != 0;
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    rcu_leave();
    return_book_free(book);
    rcu_drain();
    rcu_stop();
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return failed + (system(command) != 0);
}
