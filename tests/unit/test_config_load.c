/* Every class of mistake with its file and line, several in one run, and what arrives of a right
 * configuration. */
#include "base/error.h"
#include "tests/unit/config_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define LOGIN  "transport t { smtp_auth_user = u smtp_auth_password_file = p }\n"
#define ROUTED "transport smtp {} route \"*\" { transport = smtp }\n"

struct mistake {
    const char *text;
    const char *said; /* a line begins so */
};

static const struct mistake mistakes[] = {
    /* unknown names, with the nearest known one */
    {"\nwrokers = 2\n",
     "f:2: wrokers: there is no such option at the top level; did you mean workers?"},
    {"spool { paht = x }",
     "f:1: paht: there is no such option in section spool; did you mean path?"},
    {"zzz \"x\" {\n a = 1\n}\nworkers = x",
     "f:1: zzz: there is no such section; remove it, or see the configuration reference"},
    {"zzz = 1", "f:1: zzz: there is no such option at the top level; remove"},
    {"transprot a { x = 1 }", "f:1: transprot: there is no such section; did you mean transport?"},
    {"dns { spool { path = x } }",
     "f:1: spool: there is no section inside a section; close section dns first"},
    {"dns {\n listener = x }",
     "f:2: listener: there is no such option in section dns; it is a section; write it outside, as "
     "listener \"TITLE\" { ... }"},
    {"\ntransport a { rotate_keep = 5 }",
     "f:2: rotate_keep: there is no such option in section transport; it belongs in section "
     "event_log"},
    {"dns { queue_run_delay = 5 }",
     "f:1: queue_run_delay: there is no such option in section dns; it belongs at the top level"},
    {"spool = x", "f:1: syntax: missing opening brace for section 'spool'; it is no option: write"},
    {"transport = x", "f:1: syntax: missing title for section 'transport'; it is a section: write"},
    /* what others call it */
    {"transport a {\n max-smtp-out = 20 }",
     "f:2: max-smtp-out: there is no such option in section transport; what PowerMTA calls so is "
     "here: destination_concurrency_limit"},
    {"Max_Smtp_Out = 20",
     "f:1: Max_Smtp_Out: there is no such option at the top level; what Power"},
    {"max_deliveries_per_connection = 20",
     "f:1: max_deliveries_per_connection: there is no such option at the top level; what KumoMTA "
     "calls so is here: smtp_connection_reuse_count_limit"},
    {"remote_max_parallel = 2",
     "f:1: remote_max_parallel: there is no such option at the top level; what Exim calls so is "
     "here: destination_concurrency_limit"},
    {"mynetworks = 10.0.0.0/8",
     "f:1: mynetworks: there is no such option at the top level; what Postfix calls so is here: "
     "relay_from in a listener"},
    {"action \"x\" { }",
     "f:1: action: there is no such section; what OpenSMTPD has in it is here: a section tran"},
    {"<virtual-mta a>\n</virtual-mta>", "f:1: <virtual-mta: there is no such option at the top "
                                        "level; what PowerMTA calls so is here: a section source"},
    {"\"spool|path\" = 1", "f:1: "},
    /* wrong types */
    {"workers = two", "f:1: workers: \"two\" is not a whole number; write digits only"},
    {"allow_loopback = 1", "f:1: allow_loopback: \"1\" is neither yes nor no; write yes or no"},
    {"queue_run_delay = 5y", "f:1: queue_run_delay: \"5y\" is not a time; write"},
    {"map_size = 5X", "f:1: map_size: \"5X\" is not a size; write"},
    {"transport a { smtp_tls_security_level = secure }",
     "f:1: smtp_tls_security_level: \"secure\" is not known; write one of none, may, encrypt, "
     "verify, "
     "dane, mta-sts"},
    {"transport a { smtp_tls_security_level = encypt }",
     "f:1: smtp_tls_security_level: \"encypt\" is not known; write one of none, may, encrypt, "
     "verify, dane, mta-sts; did you mean \"encrypt\"?"},
    {"destination_rate_delay = 0/s", "f:1: destination_rate_delay: \"0/s\" is not a time; write a "
                                     "whole number and s, m, h, d or w, such as 0s, or a rate"},
    {"queue_run_delay = 5/m", "f:1: queue_run_delay: \"5/m\" is not a time; write"},
    {"queue_run_delay = 500ms", "f:1: queue_run_delay: 500ms is out of range; write 1s or more"},
    {"transport a { smtp_tls_key_file = k }",
     "f:1: smtp_tls_key_file: it is the key of no certificate; add smtp_tls_cert_file"},
    {"transport a {}\n"
     "route b { transport = a nexthop = n smtp_tls_security_level = dane }\n"
     "route c { transport = a nexthop = N\n smtp_tls_security_level = may }",
     "f:4: smtp_tls_security_level: route \"b\" in line 2 has another level for the same transport "
     "and nexthop \"n\"; write the same in both"},
    {"transport a { smtp_tls_security_level = verify }\n"
     "route b { transport = a nexthop = n }\n"
     "route c { transport = a nexthop = n smtp_tls_security_level = may }",
     "f:3: smtp_tls_security_level: route \"b\" in line 2 has another level for the same transport "
     "and nexthop \"n\"; write the same in both"},
    {"workers = {1}", "f:1: syntax: unexpected token '{'; write NAME = VALUE"},
    /* out of range, below the minimum of the reference, inside sections with the right line */
    {"transport a {\n\n initial_destination_concurrency = 0 }",
     "f:3: initial_destination_concurrency: 0 is out of range; write 1 or more"},
    {"pipeline_depth = 1001",
     "f:1: pipeline_depth: 1001 is out of range; write a number from 1 to 1000"},
    {"delivery_slot_discount = 101", "f:1: delivery_slot_discount: 101 is out of range"},
    {"maximal_queue_lifetime = 101d", "f:1: maximal_queue_lifetime: 101d is out of range"},
    {"queue_run_delay = 0", "f:1: queue_run_delay: 0 is out of range; write 1s or more"},
    {"recipient_refill_delay = 0s", "f:1: recipient_refill_delay: 0s is out of range"},
    /* feedback */
    {"transport a {\n destination_concurrency_positive_feedback = \"4/2\" }",
     "f:2: destination_concurrency_positive_feedback: \"4/2\" is not a feedback of 0 to 1; write"},
    {"transport a { destination_concurrency_negative_feedback = concurrency }",
     "f:1: destination_concurrency_negative_feedback: \"concurrency\" is not a feedback"},
    {"destination_concurrency_negative_feedback = \"1/sqrt_concurrency\"\n"
     "transport a { concurrency_feedback_rule = postfix3 }",
     "f:1: destination_concurrency_negative_feedback: \"1/sqrt_concurrency\" is not a feedback"},
    /* duplicates */
    {"transport a {}\ntransport a {}",
     "f:2: a: a section of this kind already has this title; keep"},
    {"listener \"127.0.0.1:1\" {}\nlistener \"127.0.0.1:1\" {}", "f:2: 127.0.0.1:1: a section"},
    {ROUTED "route \"A.b\" { transport = smtp }\nroute \"a.B.\" { transport = smtp }",
     "f:3: route: there is a route \"a.b\" already; keep one"},
    {"dns { servers = {127.0.0.1, 127.0.0.2}\n servers = {127.0.0.3} }",
     "f:2: servers: it was already set in line 1; keep one of them"},
    {"workers = 1\nworkers = 2", "f:2: workers: it was already set in line 1; keep one of them"},
    /* receivers, rates, warm-up; the text of a rate's mistake is rate_text.c's */
    {"transport t {\n max_message_rate = \"100/s/s\" }",
     "f:2: max_message_rate: \"100/s/s\" has two units; write one, such as 100/s"},
    {"provider p {\n max_message_quota = \"5/s\" }",
     "f:2: max_message_quota: \"5/s\" counts by less than an hour; write a quota with /h or /d"},
    {"provider p { mx = {\"*.a\",\n \"b*.a\"} }",
     "f:2: mx: \"b*.a\" is not a pattern of names; write a name, with *. in front of it for each"},
    {"provider p { mx = {\"*.a\"} }\nprovider q { domains = {x}\n mx = {\"b.A.\"} }",
     "f:3: mx: \"b.A.\" can be the same name as \"*.a\" of provider \"p\"; keep it in one of them"},
    {"provider p {\n process_limit = 5 }",
     "f:2: process_limit: there is no such option in section provider; it belongs in section "
     "transport"},
    {"domain \"a.b.\" {}\ndomain A.B {}",
     "f:2: domain: there is a domain \"a.b\" already; keep one"},
    {"\ndomain \".a.b\" {}",
     "f:2: domain: \".a.b\" is not a recipients' domain; write its name, such "
     "as example.com; patterns of domains stand in provider { domains = }"},
    {"source s {\n warmup = {\"5/d\"} }",
     "f:2: warmup: it needs since beside it; write both, such as"},
    {"source s { warmup = {\"5/d\",\n\"9/h\"} }",
     "f:2: warmup: \"9/h\" is no quota of a day; write"},
    {"source s { since = 2026-12-32 warmup = {\"5/d\"} }",
     "f:1: since: \"2026-12-32\" is no day of the calendar; write one such as 2026-12-01"},
    {"pool dedicated { sources = {s} }\nsource s {}\ntenant a { pool = dedicatd }",
     "f:3: pool: there is no pool \"dedicatd\"; name one that this file defines; did you mean "
     "\"dedicated\"?"},
    /* a name that is empty: the library says nothing about it */
    {"\n\"\"", "f:2: syntax: \"\" stands where a name should; write NAME = VALUE, or remove it"},
    {"user = \"\"\ndns {\n\"\" = 5 }", "f:3: syntax: \"\" stands where a name should; write"},
    {"defer_transports = {a, \"\"}\n\"\" \"x\" {}", "f:2: syntax: \"\" stands where a name"},
    {"workers = 2 \"\"", "f:1: syntax: \"\" stands where a name should; write"},
    /* references */
    {ROUTED "route a.b {\n transport = smpt }",
     "f:3: transport: there is no transport \"smpt\"; name one that this file defines"},
    {"\nroute a.b { }", "f:2: transport: route \"a.b\" names no transport; write transport ="},
    {ROUTED "route a.b {\n transport = smpt }", "f:3: transport: there is no transport \"smpt\"; "
                                                "name one that this file defines; did you mean "
                                                "\"smtp\"?"},
    {ROUTED "defer_transports = {smpt}",
     "f:2: defer_transports: there is no transport \"smpt\"; name a transport of this file; did "
     "you mean \"smtp\"?"},
    {"pool one {} transport a {\n source_pool = ome }",
     "f:2: source_pool: there is no pool \"ome\"; name one that this file defines; did you mean "
     "\"one\"?"},
    {ROUTED "defer_transports = {x}", "f:2: defer_transports: there is no transport \"x\"; name"},
    {ROUTED "route a.b { transport = smtp nexthop = \"[a\" }",
     "f:2: nexthop: \"[a\" is not a nexthop"},
    {ROUTED "route a.b { transport = smtp nexthop = \"a b\" }", "f:2: nexthop: \"a b\""},
    {ROUTED "route \"*.b\" { transport = smtp }", "f:2: route: \"*.b\" is not a pattern; write"},
    {ROUTED "route \"u@b\" { transport = smtp }", "f:2: route: \"u@b\" is not a pattern; write"},
    {ROUTED "listener \"127.0.0.1:2525\" {}\n"
            "route a.b { transport = smtp\n nexthop = \"[127.0.0.1]:2525\" }",
     "f:4: nexthop: \"[127.0.0.1]:2525\" leads back to listener \"127.0.0.1:2525\""},
    {"smtp_tcp_port = 2525 " ROUTED "listener \"0.0.0.0:2525\" {}\n"
     "route a.b { transport = smtp nexthop = \"[127.0.0.3]\" }",
     "f:3: nexthop: \"[127.0.0.3]\" leads back to listener \"0.0.0.0:2525\""},
    /* passwords */
    {"transport a {\n smtp_auth_user = u }",
     "f:2: smtp_auth_user: it needs smtp_auth_password_file beside it; write both"},
    {"transport a {\n smtp_auth_password_file = p }",
     "f:2: smtp_auth_password_file: it needs smtp_auth_user beside it; write both"},
    {LOGIN "route a.b {\n transport = t }",
     "f:2: nexthop: transport \"t\" has a smtp_auth_user, whose password would go to every"},
    {LOGIN "route a.b { transport = t nexthop = \"[h]\"\n smtp_tls_security_level = none }",
     "f:3: smtp_tls_security_level: without TLS the password of transport \"t\" is never sent"},
    /* listeners */
    {"\nlistener \"localhost:25\" {}", "f:2: listener: \"localhost:25\" is not a numeric address"},
    {"\nhttp \"localhost:25\" {}", "f:2: http: \"localhost:25\" is not a numeric address"},
    {"listener \"127.0.0.1:1\" {}\nhttp \"127.0.0.1:1\" {}",
     "f:2: http: \"127.0.0.1:1\" is the address of listener \"127.0.0.1:1\" already"},
    {"http \"127.0.0.1:1\" {}\nhttp \"127.0.0.1:01\" {}",
     "f:2: http: \"127.0.0.1:01\" is the address of http \"127.0.0.1:1\" already"},
    {"http \"0.0.0.0:1\" {}", "f:1: tokens_file: http \"0.0.0.0:1\" can be reached from elsewhere"},
    {"http \"[2001:db8::1]:1\" {}", "f:1: tokens_file: http"},
    {"http \"127.0.0.1:1\" {\n tls_key = k }", "f:2: tls_key: it needs tls_certificate beside it"},
    {"http \"127.0.0.1:1\" {\n tls_certificate = k }", "f:2: tls_certificate: it needs tls_key"},
    {"http \"127.0.0.1:1\" {\n connection_limit = 0 }", "f:2: connection_limit"},
    {"listener \"127.0.0.1:1\" {\n relay_from = {\"10.0.0.1/8\"} }",
     "f:2: relay_from: \"10.0.0.1/8\" is not a network; write"},
    {"listener \"127.0.0.1:1\" {\n users = u }", "f:2: users: AUTH is offered over TLS only; add"},
    {"listener \"127.0.0.1:1\" {\n tenant = \"a b\" }", "f:2: tenant: \"a b\" is no tenant's name"},
    {"listener \"127.0.0.1:1\" {\n tenant_header = \"X-T:\" }",
     "f:2: tenant_header: \"X-T:\" is not the name of a header field"},
    {"listener \"127.0.0.1:1\" {\n campaign_header = \"X T\" }",
     "f:2: campaign_header: \"X T\" is not the name of a header field"},
    {"listener \"127.0.0.1:1\" { require_tls = yes }", "f:1: require_tls: there is no TLS; add"},
    {"listener \"127.0.0.1:1\" {\n\n tls_key = k }",
     "f:3: tls_key: it needs tls_certificate beside it"},
    {"dns {\n servers = {\"ns.example.com\"} }",
     "f:2: servers: \"ns.example.com\" is not a numeric"},
    {"hostname = \"a b\"", "f:1: hostname: \"a b\" is not a host name; write"},
    {"transport \"a b\" {}", "f:1: transport: \"a b\" is not a usable name; write"},
    {"spool_journal = 4000", "f:1: spool_journal: it is too small to be of use; write 0 for none"},
    {"map_size = 16M", "f: spool_reserve: it leaves nothing of map_size; write less"},
    /* sources and pools */
    {"source \"a b\" {}", "f:1: source: \"a b\" is not a usable name; write"},
    {"source a {\n address = \"::1\" }",
     "f:2: address: \"::1\" is not an IPv4 address; write one, such as 192.0.2.1"},
    {"source a {\n address6 = \"127.0.0.1\" }",
     "f:2: address6: \"127.0.0.1\" is not an IPv6 address; write one, such as 2001:db8::1"},
    {"source a {\n address = \"0.0.0.0\" }", "f:2: address: nothing can be sent from 0.0.0.0;"},
    {"source a {\n address6 = \"fe80::1\" }", "f:2: address6: nothing can be sent from fe80::1;"},
    {"source a {\n helo_name = \"a b\" }", "f:2: helo_name: \"a b\" is not a host name; write"},
    {"source a { address = 127.0.0.1\n haproxy = \"127.0.0.1\" }",
     "f:2: haproxy: \"127.0.0.1\" is not a numeric address with port; write ADDR:PORT"},
    {"source a { address = 127.0.0.1\n haproxy = \"127.0.0.1:1\"\n socks5 = \"127.0.0.1:2\" }",
     "f:3: socks5: source \"a\" has haproxy already; keep one of them"},
    {"source a {\n haproxy = \"127.0.0.1:1\" }",
     "f:2: haproxy: the proxy must be told an address to connect from; write address"},
    {"source a { socks5 = \"127.0.0.1:1\"\n address = 127.0.0.1 }",
     "f:2: address: a SOCKS proxy chooses the address; remove it"},
    {"source a { socks5 = \"127.0.0.1:1\"\n socks5_user = u }",
     "f:2: socks5_user: it needs socks5_password_file beside it"},
    {"source a {\n socks5_user = u }", "f:2: socks5_user: there is no SOCKS proxy; write socks5"},
    {"source a {\n socks5_password_file = u }", "f:2: socks5_password_file: there is no SOCKS"},
    {"source a {} pool p {\n sources = {a, b} }",
     "f:2: sources: there is no source \"b\"; name sources of this file"},
    {"source a {} pool p {\n sources = {a, a} }", "f:2: sources: source \"a\" is there twice;"},
    {"source a {} pool p { sources = {a}\n weights = {1, 2} }",
     "f:2: weights: there are 2 for 1 sources; write one for each source"},
    {"source a {} pool p { sources = {a}\n weights = {-1} }", "f:2: weights: -1 is out of range"},
    {"source a {} pool p { sources = {a}\n weights = {0} }", "f:2: weights: all of them are 0"},
    {"\npool p {}", "f:2: sources: pool \"p\" is empty; write sources ="},
    {"\npool p { sources = {} }", "f:2: sources: pool \"p\" is empty; write sources ="},
    {"transport a {\n source_pool = p }",
     "f:2: source_pool: there is no pool \"p\"; name one that this file defines"},
    {"source_pool = p\ntransport a {}", "f:1: source_pool: there is no pool \"p\"; name one"},
/* return addresses: a token of 48 bytes and a plus sign have to fit beside them */
#define LABEL "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa." /* 50 bytes */
    {"transport a {\n verp = \"bounces\" }", "f:2: verp: \"bounces\" is not LOCAL@DOMAIN"},
    {"transport a {\n verp = \"a+b@b.test\" }", "f:2: verp: \"a+b@b.test\" is not LOCAL@DOMAIN"},
    {"transport a {\n verp = \"bouncesofourswhole@b.test\" }",
     "f:2: verp: \"bouncesofourswhole@b.test\" has 18"},
    {"transport a {\n verp = \"b@" LABEL LABEL LABEL LABEL "test\" }", "f:2: verp: \"b@aaaaaaaa"},
    {"tenant a {\n verp = \"b@" LABEL LABEL LABEL LABEL "test\" }", "f:2: verp: \"b@aaaaaaaa"},
    {"transport a {\n list_unsubscribe = \"u@b.test\" }",
     "f:2: list_unsubscribe: nobody would know \"u@b.test\" for what it is; begin it with"},
    {"tenant a {\n list_unsubscribe = \"unsubscribe+x@b.test\" }",
     "f:2: list_unsubscribe: \"unsubscribe+x@b.test\" is not LOCAL@DOMAIN"},
    {"tenant a {\n list_unsubscribe = \"unsubscribe-acmes@b.test\" }",
     "f:2: list_unsubscribe: \"unsubscribe-acmes@b.test\" has 17"},
    {"transport a {\n list_unsubscribe_url = \"http://b.test/{token}\" }",
     "f:2: list_unsubscribe_url: \"http://b.test/{token}\" is no https URL with {token}"},
    {"transport a {\n list_unsubscribe_url = \"https://b.test/\" }",
     "f:2: list_unsubscribe_url: \"https://b.test/\" is no https URL with {token} in it"},
    {"tenant a {\n list_unsubscribe_url = \"https://b.test/{token}{id}\" }",
     "f:2: list_unsubscribe_url: \"{id}\" cannot stand in it; write printable ASCII"},
    {"tenant a {\n list_unsubscribe_url = \"https://b.test/{token},x\" }",
     "f:2: list_unsubscribe_url: \",x\" cannot stand in it"},
#undef LABEL
    /* syntax */
    {"\nspool {\n", "f:2: syntax: this brace is never closed; write }"},
    {"dns { servers = {\n", "f:1: syntax: this brace is never closed; write }"},
    {"}", "f:1: syntax: unexpected closing brace; remove it"},
    {"workers 2", "f:1: syntax: missing equal sign after option 'workers'; write NAME = VALUE"},
    {"listener { }", "f:1: syntax: missing title for section 'listener'; it is a section: write"},
    {"\nuser = \"abc\n\n", "f:2: syntax: this quote is never closed; write"},
    {"user = 'abc\n", "f:1: syntax: this quote is never closed; write"},
    {"\n/* x\n\n", "f:2: syntax: this comment is never closed; write */"},
    {"user =", "f:2: syntax: premature end of file; complete"},
    {"include(\"/nonexistent/x\")",
     "f:1: include: /nonexistent/x: No such file or directory; name"},
    {"include(a, b)", "f:1: include: it takes one file; write include(\"FILE\")"},
};

static void each_mistake_has_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        struct sample s;
        sample_load(&s, mistakes[i].text);
        if (s.err != ERR_SYNTAX) {
            fail_msg("for \"%s\": result %d, said \"%s\"", mistakes[i].text, s.err, s.said);
        }
        const char *found = strstr(s.said, mistakes[i].said);
        if (found == NULL || (found != s.said && found[-1] != '\n')) {
            fail_msg("for \"%s\"\nexpected \"%s\"\nsaid     \"%s\"", mistakes[i].text,
                     mistakes[i].said, s.said);
        }
    }
}

static void many_mistakes_at_once(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, "wrokers = 2\nfoo = {1, 2}   # c\n/* two\n lines */ spool { paht = 3 }\n"
                    "bar \"x\" { y = 3 z { q = 3 } }\nbaz(1,2)\nworkers = abc\n"
                    "transport a { hold = 7\n recipient_refill_limit = 0 zz = 1\n}\n"
                    "transport a {}\nroute \"*\" { transport = b }\n");
    static const char *const starts[] = {
        "f:1: wrokers:", "f:2: foo:",     "f:4: paht:",      "f:5: bar:",
        "f:6: baz:",     "f:7: workers:", "f:8: hold:",      "f:9: recipient_refill_limit:",
        "f:9: zz:",      "f:11: a:",      "f:12: transport:"};
    const char *at = s.said;
    assert_int_equal(s.errors, (int)(sizeof(starts) / sizeof(starts[0])));
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        assert_non_null(strstr(s.said, starts[i]));
        if (strstr(starts[i], "zz") == NULL && strstr(starts[i], "refill") == NULL) {
            assert_true(strncmp(at, starts[i], strlen(starts[i])) == 0 || i == 8 || i == 7);
        }
        at = strchr(at, '\n') + 1;
    }
}

static void precedence_of_values(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, "destination_concurrency_limit = 7 smtp_helo_name = a.example\n"
                    "transport x { destination_concurrency_limit = 9 hold = yes }\n"
                    "transport y { smtp_helo_name = b.example\n"
                    " destination_concurrency_positive_feedback = \"1/sqrt_concurrency\" }\n"
                    "defer_transports = {y}\n"
                    "route \"*\" { transport = x }\n");
    assert_int_equal(s.err, 0);
    const struct config_transport *x = &s.config->transports[0];
    const struct config_transport *y = &s.config->transports[1];
    assert_int_equal(x->sched.destination_concurrency_limit, 9);
    assert_int_equal(y->sched.destination_concurrency_limit, 7);
    assert_string_equal(x->smtp.smtp_helo_name, "a.example");
    assert_string_equal(y->smtp.smtp_helo_name, "b.example");
    assert_true(x->sched.hold && y->sched.hold);
    assert_int_equal(y->sched.destination_concurrency_positive_feedback.kind, SCHED_FEEDBACK_SQRT);
    assert_int_equal(config_transport_find(s.config, SLICE("y")), 1);
    assert_int_equal(config_transport_find(s.config, SLICE("z")), 2);
    config_free(s.config);
}

static void warnings_and_corrections(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, ROUTED "message_recipient_limit = 10\nbounce_queue_lifetime = 6d\n"
                           "minimal_backoff_time = 2h\n"
                           "listener \"[::]:25\" { relay_from = {\"0.0.0.0/0\"} }\n");
    assert_int_equal(s.err, 0);
    assert_int_equal(s.warnings, 4);
    assert_int_equal(s.config->message_recipient_limit, 20000);
    assert_int_equal(s.config->transports[0].sched.message_recipient_limit, 20000);
    assert_int_equal(s.config->bounce_queue_lifetime, s.config->maximal_queue_lifetime);
    assert_non_null(strstr(s.said, "f:2: message_recipient_limit: warning: 10 is less than"));
    config_free(s.config);
    sample_load(&s, "");
    assert_int_equal(s.err, 0);
    assert_int_equal(s.warnings, 1);
    config_free(s.config);
    sample_load(&s, ROUTED "tenant t {\n list_unsubscribe = \"leave@b.test\" }\n");
    assert_int_equal(s.warnings, 1);
    assert_non_null(strstr(s.said, "list_unsubscribe: warning: nothing signs mail, and only"));
    config_free(s.config);
}

static void how_safely_passwords_are_sent(void **state)
{
    static const struct {
        const char *options, *said; /* NULL: nothing */
    } rows[] = {
        {"", "f:2: smtp_tls_security_level: warning: whoever pretends to be \"[h]\" gets the"},
        {"smtp_tls_security_level = encrypt", "warning: whoever pretends to be \"[h]\" gets the"},
        {"smtp_tls_security_level = mta-sts", "warning: whoever pretends to be \"[h]\" gets the"},
        {"smtp_tls_security_level = verify", NULL},
        {"smtp_tls_security_level = dane", NULL},
        {"} transport t2 { smtp_auth_requires_tls = no smtp_auth_user = u "
         "smtp_auth_password_file = p} route b { transport = t2 nexthop = \"[h]\"",
         "f:2: smtp_tls_security_level: warning: the password of transport \"t2\" may be sent in "
         "clear; write verify"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sample s;
        char text[1000];
        (void)snprintf(text, sizeof(text), LOGIN "route a { transport = t nexthop = \"[h]\" %s }\n",
                       rows[i].options);
        sample_load(&s, text);
        assert_int_equal(s.err, 0);
        assert_true(rows[i].said == NULL ? s.warnings == 0 : strstr(s.said, rows[i].said) != NULL);
        config_free(s.config);
    }
}

static void sources_and_pools(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s, ROUTED "source_pool = p\n"
                           "source a { address = 127.0.0.1 helo_name = a.example }\n"
                           "source b { address = 192.0.2.77 haproxy = \"[::1]:1\" }\n"
                           "source c { socks5 = \"127.0.0.1:1080\" socks5_user = u\n"
                           " socks5_password_file = \"/p\" }\n"
                           "pool p { sources = {b, a} weights = {3, 0} }\n"
                           "pool q { sources = {c} }\ntransport t { source_pool = q }\n");
    assert_int_equal(s.err, 0);
    assert_int_equal(s.warnings, 0);
    const struct config *c = s.config;
    assert_int_equal(c->egress_source_count, 3);
    assert_int_equal(c->egress_sources[0].address.family, 4);
    assert_string_equal(c->egress_sources[0].helo_name, "a.example");
    assert_int_equal(c->egress_sources[1].haproxy.address.ss_family, AF_INET6);
    assert_string_equal(c->egress_sources[2].socks5_user, "u");
    const struct config_egress_pool *p = c->transports[0].pool;
    assert_ptr_equal(p, &c->egress_pools[0]);
    assert_ptr_equal(p->sources[0], &c->egress_sources[1]);
    assert_ptr_equal(p->sources[1], &c->egress_sources[0]);
    assert_int_equal(p->weights.items[0], 3);
    assert_int_equal(p->weights.items[1], 0);
    assert_ptr_equal(c->transports[1].pool, &c->egress_pools[1]);
    assert_int_equal(c->egress_pools[1].weights.items[0], 1);
    config_free(s.config);
    sample_load(&s, ROUTED "source a {\n address = 192.0.2.77 }\n");
    assert_int_equal(s.err, 0);
    assert_non_null(strstr(s.said, "f:3: address: warning: this machine has no address "
                                   "192.0.2.77; until it has, connections from source \"a\" fail"));
    config_free(s.config);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void files_and_includes(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_config_load.XXXXXX", a[64], b[64], expected[128];
    struct sample s = {.config = NULL};
    struct config_sink sink = {.complain = sample_complain, .ctx = &s};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(a, sizeof(a), "%s/a", folder);
    (void)snprintf(b, sizeof(b), "%s/b", folder);
    write_file(a, "workers = 3\ninclude(\"b\")\nroute \"*\" { transport = smtp }\nworkers = 4\n");
    write_file(b, "/* one\n*/ transport smtp {\n hold = maybe\n foo = 1 }\n");
    assert_int_equal(config_load(a, &sink, &s.config), ERR_SYNTAX);
    (void)snprintf(expected, sizeof(expected), "%s:3: hold: ", b);
    assert_non_null(strstr(s.said, expected));
    (void)snprintf(expected, sizeof(expected), "%s:4: foo: ", b);
    assert_non_null(strstr(s.said, expected));
    (void)snprintf(expected, sizeof(expected), "%s:4: workers: it was already set in line 1", a);
    assert_non_null(strstr(s.said, expected));
    write_file(b, "transport smtp {}\n");
    write_file(a, "include(\"b\")\nroute \"*\" { transport = smtp }\nworkers = 4");
    assert_int_equal(config_load(a, &sink, &s.config), 0);
    assert_string_equal(s.config->path, a);
    assert_int_equal(s.config->workers, 4);
    config_free(s.config);
    write_file(b, "include(\"a\")\n");
    s.said[0] = '\0';
    assert_int_equal(config_load(a, &sink, &s.config), ERR_SYNTAX);
    assert_non_null(strstr(s.said, "too deeply"));
    assert_int_equal(unlink(b), 0);
    assert_int_equal(unlink(a), 0);
    assert_int_equal(config_load(a, &sink, &s.config), -ENOENT);
    assert_int_equal(rmdir(folder), 0);
}

/* In the order of names; a folder may be called like a pattern, and none matching is right. */
static void included_patterns(void **state)
{
    (void)state;
    char folder[] = "/tmp/test_[c]onfig.XXXXXX", path[4][64];
    static const char *const names[] = {"main", "20.conf", "10.conf", "30.other"};
    struct sample s = {.config = NULL};
    struct config_sink sink = {.complain = sample_complain, .ctx = &s};
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path[i], sizeof(path[i]), "%s/%s", folder, names[i]);
    }
    write_file(path[0],
               "include(\"*.conf\")\ninclude(\"*.none\")\nroute \"*\" { transport = a }\n");
    write_file(path[1], "transport b {}\n");
    write_file(path[2], "transport a {}\n");
    write_file(path[3], "wrong\n");
    assert_int_equal(config_load(path[0], &sink, &s.config), 0);
    assert_int_equal(s.config->transport_count, 2);
    assert_string_equal(s.config->transports[0].name, "a");
    config_free(s.config);
    write_file(path[1], "transport b { foo = 1 }\n");
    s.said[0] = '\0';
    assert_int_equal(config_load(path[0], &sink, &s.config), ERR_SYNTAX);
    assert_non_null(strstr(s.said, "20.conf:1: foo: "));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(unlink(path[i]), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void quoting_and_comments(void **state)
{
    (void)state;
    struct sample s;
    sample_load(&s,
                "# one\n// two\n/* three * / */ spool { path = \"/a/#b//c/*d*/\" } # end\n" ROUTED
                "dns { servers = {'127.0.0.1:53',\n \"::1\" // c\n } }\n"
                "event_log { path = none } control { path = \"/c\" }");
    assert_int_equal(s.err, 0);
    assert_string_equal(s.config->spool.path, "/a/#b//c/*d*/");
    assert_int_equal(s.config->dns.servers.count, 2);
    assert_string_equal(s.config->event_log_path, "none");
    assert_string_equal(s.config->control_path, "/c");
    config_free(s.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_has_its_line),
        cmocka_unit_test(many_mistakes_at_once),
        cmocka_unit_test(precedence_of_values),
        cmocka_unit_test(warnings_and_corrections),
        cmocka_unit_test(how_safely_passwords_are_sent),
        cmocka_unit_test(sources_and_pools),
        cmocka_unit_test(files_and_includes),
        cmocka_unit_test(included_patterns),
        cmocka_unit_test(quoting_and_comments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
