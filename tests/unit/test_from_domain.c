/* What From says, and when it is not believed. */
#include "base/error.h"
#include "engine/key/from_domain.h"
#include "net/dkim/dkim_header.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static int read_from(const char *text, char ret[static 1000])
{
    struct dkim_header h;
    struct from_domains f;
    assert_int_equal(dkim_header_parse(slice_of(text), &h), 0);
    int err = from_domains_read(&h, &f);
    ret[0] = '\0';
    for (size_t i = 0; err == 0 && i < f.count; i++) {
        size_t len = strlen(ret);
        (void)snprintf(ret + len, 1000 - len, "%s" SLICE_FMT, i == 0 ? "" : " ",
                       SLICE_ARG(f.names[i]));
    }
    dkim_header_fini(&h);
    return err;
}

static void addresses_have_their_domains(void **state)
{
    static const struct {
        const char *header, *wanted;
    } rows[] = {
        {"From: a@x.test\r\n", "x.test"},
        {"FROM : a@X.TEST\r\n", "x.test"},
        {"Subject: y\r\nfrom: \"B, @ C\" <a@x.test>\r\nTo: b@y.test\r\n", "x.test"},
        {"From: A <a@x.test>,\r\n B <b@sub.y.test>, c@x.test\r\n", "x.test sub.y.test"},
        {"From: A\r\n\t(comment <c@z.test>)\r\n <a@x.test>\r\n", "x.test"},
        {"From: \"a@evil.test\"@x.test\r\n", "x.test"},
        {"From: friends: a@x.test, b@y.test;\r\n", "x.test y.test"},
        {"From: a@x.test\r\nFrom: b@y.test\r\n", "y.test x.test"},
        {"From: b@y.test <a@x.test>\r\n", "x.test"},
        {"From: <@relay.test:a@x.test>\r\n", "x.test"},
        {"From: a@b\303\274cher.test\r\n", "xn--bcher-kva.test"},
        {"From: a@B\303\234CHER.test, b@XN--BCHER-KVA.test\r\n", "xn--bcher-kva.test"},
        {"From: a@localhost\r\n\r\nFrom: b@body.test\r\n", "localhost"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char found[1000];
        assert_int_equal(read_from(rows[i].header, found), 0);
        assert_string_equal(found, rows[i].wanted);
    }
}

static void doubt_is_an_error(void **state)
{
    static const struct {
        const char *header;
        int err;
    } rows[] = {
        {"Subject: x\r\n", ERR_MISSING},
        {"From:\r\n", ERR_MISSING},
        {"From: undisclosed:;\r\n", ERR_MISSING},
        {"Sender: a@x.test\r\n\r\nFrom: a@x.test\r\n", ERR_MISSING},
        {"From: a@\342\202\254\377.test\r\n", ERR_SYNTAX}, /* no UTF-8 */
        {"From: someone\r\n", ERR_SYNTAX},
        {"From: a@x.test@y.test\r\n", ERR_SYNTAX},
        {"From: <a@x.test> <b@y.test>\r\n", ERR_SYNTAX},
        {"From: <a@x.test\r\n", ERR_SYNTAX},
        {"From: \"a <a@x.test>\r\n", ERR_SYNTAX},
        {"From: (a@x.test\r\n", ERR_SYNTAX},
        {"From: @x.test\r\n", ERR_SYNTAX},
        {"From: a@\r\n", ERR_SYNTAX},
        {"From: a@[192.0.2.1]\r\n", ERR_SYNTAX},
        {"From: a@x..test\r\n", ERR_SYNTAX},
        {"From: a@x.test.\r\n", ERR_SYNTAX},
        {"From: a@x.test, b@\r\n", ERR_SYNTAX},
        {"From: a@x.test\r\nFrom: b\r\n", ERR_SYNTAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char found[1000];
        assert_int_equal(read_from(rows[i].header, found), rows[i].err);
    }
}

static void domains_are_bounded(void **state)
{
    char text[8000], found[1000];
    for (unsigned count = FROM_DOMAINS_MAX; count <= FROM_DOMAINS_MAX + 1; count++) {
        size_t len = (size_t)snprintf(text, sizeof(text), "From: a@same.test");
        for (unsigned i = 1; i < count; i++) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, ",\r\n a@same.test, a@d%u.test",
                                    i);
        }
        (void)snprintf(text + len, sizeof(text) - len, "\r\n");
        assert_int_equal(read_from(text, found), count > FROM_DOMAINS_MAX ? ERR_LIMIT : 0);
    }
    for (int bytes = FROM_DOMAIN_BYTES; bytes <= FROM_DOMAIN_BYTES + 1; bytes++) {
        char domain[300];
        memset(domain, 'd', sizeof(domain));
        (void)snprintf(text, sizeof(text), "From: a@%.*s\r\n", bytes, domain);
        assert_int_equal(read_from(text, found), bytes > FROM_DOMAIN_BYTES ? ERR_SYNTAX : 0);
    }
    char with_nul[] = "From: a@x.test\0b@y.test\r\n";
    struct dkim_header h;
    struct from_domains f;
    assert_int_equal(dkim_header_parse(slice_make(with_nul, sizeof(with_nul) - 1), &h), 0);
    assert_int_equal(from_domains_read(&h, &f), ERR_SYNTAX);
    dkim_header_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_their_domains),
        cmocka_unit_test(doubt_is_an_error),
        cmocka_unit_test(domains_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
