/* Records as domains publish them, beside the key of RFC 8463. */
#include "base/error.h"
#include "net/dkim/dkim_record.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/unit.h"

#include <string.h>

#define PUBLIC "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="

static struct dkim_key *key;

static int make_key(void **state)
{
    struct buf pem;
    enum dkim_key_problem problem;
    buf_init(&pem, 0);
    dkim_keys_put_published(&pem);
    int err = dkim_key_read(buf_slice(&pem), &key, &problem);
    buf_fini(&pem);
    return err;
}

static int free_key(void **state)
{
    dkim_key_free(key);
    return 0;
}

static void one_record_is_judged(void **state)
{
    static const struct {
        const char *text;
        enum dkim_record_verdict verdict;
    } rows[] = {
        {"v=DKIM1; k=ed25519; p=" PUBLIC, DKIM_RECORD_FITS},
        {" v = DKIM1 ;\tk = ed25519; n=a note; p= 11qYAYKxCrfVS/7TyW \tQHOg7hcvPapiMlrwIaaPcHURo= "
         "; ",
         DKIM_RECORD_FITS},
        {"p=" PUBLIC "; k=ed25519", DKIM_RECORD_FITS},
        {"v=DKIM1; k=ed25519; h=sha1 : SHA256; s=other:*; x-new=1; p=" PUBLIC, DKIM_RECORD_FITS},
        {"v=DKIM1; k=ed25519; s=email; t=y:s; p=" PUBLIC, DKIM_RECORD_FITS},
        {"v=DKIM1; k=ed25519; p=", DKIM_RECORD_REVOKED},
        {"v=DKIM1; p=" PUBLIC, DKIM_RECORD_KEY_TYPE},
        {"v=DKIM1; k=rsa; p=" PUBLIC, DKIM_RECORD_KEY_TYPE},
        {"v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURa=", DKIM_RECORD_KEY},
        {"v=DKIM1; k=ed25519; p=11qYAYKxCrfVS", DKIM_RECORD_KEY},
        {"v=DKIM1; k=ed25519; p=" PUBLIC "AAAA", DKIM_RECORD_KEY},
        {"v=DKIM1; k=ed25519; h=sha1; p=" PUBLIC, DKIM_RECORD_HASH},
        {"v=DKIM1; k=ed25519; s=tlsrpt; p=" PUBLIC, DKIM_RECORD_SERVICE},
        {"v=DKIM1; k=ed25519", DKIM_RECORD_SYNTAX},
        {"v=DKIM1; ; k=ed25519; p=" PUBLIC, DKIM_RECORD_SYNTAX},
        {"k=ed25519; v=DKIM1; p=" PUBLIC, DKIM_RECORD_SYNTAX},
        {"v=DKIM1; k; p=" PUBLIC, DKIM_RECORD_SYNTAX},
        {"v=spf1 -all", DKIM_RECORD_MISSING},
        {"v=DKIM2; p=" PUBLIC, DKIM_RECORD_MISSING},
        {"a text", DKIM_RECORD_MISSING},
        {"", DKIM_RECORD_MISSING},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice text = slice_of(rows[i].text);
        struct dkim_record record;
        enum dkim_record_verdict verdict = dkim_record_judge(&text, 1, key, &record);
        if (verdict != rows[i].verdict) {
            fail_msg("%s: %s", rows[i].text, dkim_record_verdict_text(verdict));
        }
    }
}

static void other_texts_at_the_name_do_not_count(void **state)
{
    struct dkim_record record = {0};
    const struct slice texts[] = {SLICE("v=spf1 -all"), SLICE("v=DKIM1; k=ed25519; t=y; p=" PUBLIC),
                                  SLICE("v=DKIM1; k=rsa; p=AAAA")};
    assert_int_equal(dkim_record_judge(texts, 0, key, &record), DKIM_RECORD_MISSING);
    assert_int_equal(dkim_record_judge(texts, 2, key, &record), DKIM_RECORD_FITS);
    assert_true(record.is_testing);
    assert_int_equal(dkim_record_judge(texts, 3, key, &record), DKIM_RECORD_SEVERAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_record_is_judged),
        cmocka_unit_test(other_texts_at_the_name_do_not_count),
    };
    return cmocka_run_group_tests(tests, make_key, free_key);
}
