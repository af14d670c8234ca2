/* Whose mail is signed by which keys. */
#include "engine/key/key_choice.h"
#include "tests/unit/dkim_keys.h"
#include "tests/unit/key_files.h"

static void load(struct key_files *f, const char *text)
{
    struct buf pem;
    key_files_init(f);
    buf_init(&pem, 0);
    dkim_keys_put_published(&pem);
    key_files_put(f, "e", buf_slice(&pem), 0600);
    buf_fini(&pem);
    assert_int_equal(key_files_load(f, text, NULL), 0);
}

static void unload(struct key_files *f)
{
    key_files_unload(f);
    key_files_fini(f);
}

/* The selectors of the keys that sign, or why none does.
 *
 * from  domains with a comma between them */
static const char *chosen(const struct key_files *f, const char *from, const char *tenant,
                          const char *wanted)
{
    static const char *const verdicts[KEY_VERDICT_COUNT] = {[KEY_CHOSEN] = "?",
                                                            [KEY_NONE] = "none",
                                                            [KEY_FOREIGN] = "foreign",
                                                            [KEY_UNKNOWN] = "unknown"};
    static char text[1000];
    struct slice domains[8], rest = slice_of(from);
    struct key_question q = {
        .from = domains, .tenant = slice_of(tenant), .wanted = slice_of(wanted)};
    while (rest.len > 0) {
        size_t comma = slice_find(rest, ',');
        domains[q.from_count++] = slice_to(rest, comma);
        rest = slice_from(rest, comma < rest.len ? comma + 1 : comma);
    }
    struct key_choice c;
    key_choose(f->ring, &q, &c);
    assert_int_equal(c.verdict == KEY_CHOSEN, c.count > 0);
    if (c.verdict != KEY_CHOSEN) {
        assert_int_equal(key_choice_mark(&c), 0);
        return verdicts[c.verdict];
    }
    assert_int_not_equal(key_choice_mark(&c), 0);
    text[0] = '\0';
    for (size_t i = 0; i < c.count; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, "%s" SLICE_FMT, i == 0 ? "" : " ",
                       SLICE_ARG(c.keys[i]->terms.selector));
    }
    return text;
}

#define KEY(title, more) "dkim \"" title "\" { key = \"@/e\"\n" more "}\n"

static void keys_follow_the_from_domain(void **state)
{
    struct key_files f;
    load(&f, KEY("r1._domainkey.a.test", "") KEY("e1._domainkey.a.test", "")
                 KEY("s._domainkey.sub.a.test", "")
                     KEY("any._domainkey.esp.test", "from_domains = {\"*\"}\n")
                         KEY("two._domainkey.b.test", "from_domains = {\"b.test\", \"C.Test\"}\n"));
    assert_string_equal(chosen(&f, "a.test", "", ""), "r1 e1");
    assert_string_equal(chosen(&f, "sub.a.test", "", ""), "s");
    assert_string_equal(chosen(&f, "deep.sub.a.test", "", ""), "s");
    assert_string_equal(chosen(&f, "x.y.a.test", "", ""), "r1 e1");
    assert_string_equal(chosen(&f, "xa.test", "", ""), "any");
    assert_string_equal(chosen(&f, "test", "", ""), "any");
    assert_string_equal(chosen(&f, "c.test", "", ""), "two");
    assert_string_equal(chosen(&f, "esp.test", "", ""), "any");
    assert_string_equal(chosen(&f, "a.test,c.test", "", ""), "r1 e1 two");
    assert_string_equal(chosen(&f, "a.test,x.a.test", "", ""), "r1 e1");
    unload(&f);
    load(&f, KEY("r1._domainkey.a.test", ""));
    assert_string_equal(chosen(&f, "b.test", "", ""), "none");
    assert_string_equal(chosen(&f, "test", "", ""), "none");
    unload(&f);
}

static void also_adds_the_keys_of_other_domains(void **state)
{
    struct key_files f;
    load(&f, KEY("a._domainkey.a.test", "also = {\"ESP.test\"}\n")
                 KEY("o1._domainkey.esp.test", "also = {\"third.test\"}\n")
                     KEY("o2._domainkey.esp.test", "") KEY("t._domainkey.third.test", ""));
    assert_string_equal(chosen(&f, "a.test", "", ""), "a o1 o2");
    assert_string_equal(chosen(&f, "esp.test", "", ""), "o1 o2 t");
    assert_string_equal(chosen(&f, "a.test,esp.test", "", ""), "a o1 o2 t");
    unload(&f);
}

static void domains_of_tenants_are_signed_for_them_alone(void **state)
{
    struct key_files f;
    load(&f,
         KEY("a._domainkey.a.test", "") KEY("b._domainkey.b.test", "")
             KEY("any._domainkey.esp.test",
                 "from_domains = {\"*\"}\n") "tenant \"one\" { from_domains = {\"A.test\", "
                                             "\"shared.test\"} }\n"
                                             "tenant \"two\" { from_domains = {\"news.a.test\", "
                                             "\"shared.test\"} }\n"
                                             "tenant \"*\" { from_domains = {\"free.test\"} }\n");
    assert_string_equal(chosen(&f, "a.test", "one", ""), "a");
    assert_string_equal(chosen(&f, "a.test", "ONE", ""), "a");
    assert_string_equal(chosen(&f, "a.test", "two", ""), "foreign");
    assert_string_equal(chosen(&f, "a.test", "", ""), "foreign");
    assert_string_equal(chosen(&f, "x.a.test", "one", ""), "a");
    assert_string_equal(chosen(&f, "x.a.test", "two", ""), "foreign");
    assert_string_equal(chosen(&f, "news.a.test", "two", ""), "a");
    assert_string_equal(chosen(&f, "deep.news.a.test", "two", ""), "a");
    assert_string_equal(chosen(&f, "news.a.test", "one", ""), "foreign");
    assert_string_equal(chosen(&f, "shared.test", "one", ""), "any");
    assert_string_equal(chosen(&f, "shared.test", "two", ""), "any");
    assert_string_equal(chosen(&f, "shared.test", "three", ""), "foreign");
    assert_string_equal(chosen(&f, "free.test", "three", ""), "any");
    assert_string_equal(chosen(&f, "free.test", "", ""), "any");
    assert_string_equal(chosen(&f, "free.test", "one", ""), "foreign");
    assert_string_equal(chosen(&f, "b.test", "three", ""), "b");
    assert_string_equal(chosen(&f, "b.test,a.test", "three", ""), "foreign");
    assert_string_equal(chosen(&f, "a.test,b.test", "one", ""), "a b");
    unload(&f);
}

static void a_tenant_and_a_request_may_name_keys(void **state)
{
    struct key_files f;
    load(&f, KEY("a._domainkey.a.test", "") KEY("o._domainkey.esp.test", "")
                 KEY("p._domainkey.esp.test",
                     "also = {\"a.test\"}\n") "tenant \"one\" { dkim = {\"O._domainkey.esp.test\"} "
                                              "from_domains = {\"a.test\"} }\n");
    assert_string_equal(chosen(&f, "any.test", "one", ""), "o");
    assert_string_equal(chosen(&f, "a.test", "one", ""), "o");
    assert_string_equal(chosen(&f, "a.test", "two", ""), "foreign");
    assert_string_equal(chosen(&f, "any.test", "two", ""), "none");
    assert_string_equal(chosen(&f, "a.test", "one", "A._domainkey.A.test, p._domainkey.esp.test"),
                        "a p");
    assert_string_equal(chosen(&f, "any.test", "two", "p._domainkey.esp.test"), "p a");
    assert_string_equal(chosen(&f, "any.test", "two", "a._domainkey.a.test"), "foreign");
    assert_string_equal(chosen(&f, "a.test", "two", "o._domainkey.esp.test"), "foreign");
    assert_string_equal(chosen(&f, "a.test", "one", "x._domainkey.a.test"), "unknown");
    assert_string_equal(chosen(&f, "a.test", "one", "o"), "unknown");
    struct slice about;
    assert_int_equal(key_choice_allows(f.ring, SLICE("two"), SLICE("a._domainkey.a.test"), &about),
                     KEY_FOREIGN);
    assert_true(slice_eq(about, SLICE("a._domainkey.a.test")));
    assert_int_equal(key_choice_allows(f.ring, SLICE("one"), SLICE("a._domainkey.a.test"), &about),
                     KEY_CHOSEN);
    unload(&f);
}

static void keys_of_one_message_are_bounded(void **state)
{
    char text[8000] = "";
    struct key_files f;
    for (int i = 0; i < KEY_CHOICE_MAX + 4; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, KEY("k%02d._domainkey.a.test", ""), i);
    }
    load(&f, text);
    const char *found = chosen(&f, "a.test", "", "");
    assert_int_equal(strlen(found), KEY_CHOICE_MAX * 4 - 1);
    unload(&f);
}

static void forms_are_those_of_keys_that_may_sign(void **state)
{
    struct key_files f;
    load(&f, KEY("a._domainkey.a.test", "canonicalization = \"relaxed/simple\"\n")
                 KEY("b._domainkey.b.test", "also = {\"a.test\"}\n"));
    const struct slice a = SLICE("x.a.test"), b = SLICE("b.test"), c = SLICE("c.test");
    assert_int_equal(key_choice_forms(f.ring, &a, 1), 1U << DKIM_SIMPLE);
    assert_int_equal(key_choice_forms(f.ring, &b, 1), 1U << DKIM_SIMPLE | 1U << DKIM_RELAXED);
    assert_int_equal(key_choice_forms(f.ring, &c, 1), 0);
    unload(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_follow_the_from_domain),
        cmocka_unit_test(also_adds_the_keys_of_other_domains),
        cmocka_unit_test(domains_of_tenants_are_signed_for_them_alone),
        cmocka_unit_test(a_tenant_and_a_request_may_name_keys),
        cmocka_unit_test(keys_of_one_message_are_bounded),
        cmocka_unit_test(forms_are_those_of_keys_that_may_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
