/* The commands against a scripted daemon: a thread that listens on a Unix socket in a folder of its
 * own, expects lines and answers. */
#include "engine/cli/cli.h"
#include "tests/unit/config_sample.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

/* `run` needs the engine, which this test leaves out. */
int cli_run(const struct cli *cli, const struct cli_args *args)
{
    (void)cli;
    (void)args;
    return 42;
}

static char folder[] = "/tmp/test_cli.XXXXXX", config_path[64], control_path[64];

struct daemon {
    int fd;
    pthread_t thread;
    const char *const *script; /* "<text" is read up to its end, ">text" is written */
    char got[8192];
    size_t len;
};

static void *daemon_run(void *arg)
{
    struct daemon *d = arg;
    int fd = accept(d->fd, NULL, NULL);
    for (size_t i = 0; d->script[i] != NULL; i++) {
        const char *text = d->script[i] + 1;
        if (d->script[i][0] == '>') {
            if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
                break;
            }
            continue;
        }
        d->got[d->len] = '\0';
        while (d->len + 1 < sizeof(d->got) && strstr(d->got, text) == NULL) {
            ssize_t n = read(fd, d->got + d->len, sizeof(d->got) - 1 - d->len);
            if (n <= 0) {
                break;
            }
            d->len += (size_t)n;
            d->got[d->len] = '\0';
        }
    }
    (void)close(fd);
    return NULL;
}

static void daemon_start(struct daemon *d, const char *const *script)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *d = (struct daemon){.script = script};
    memcpy(address.sun_path, control_path, strlen(control_path) + 1);
    (void)unlink(control_path);
    d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(d->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(d->fd, 1), 0);
    assert_int_equal(pthread_create(&d->thread, NULL, daemon_run, d), 0);
}

static void daemon_stop(struct daemon *d)
{
    assert_int_equal(pthread_join(d->thread, NULL), 0);
    (void)close(d->fd);
    (void)unlink(control_path);
}

struct ran {
    int code;
    char *out, *err;
    size_t out_len, err_len;
};

/* words: the command line, separated by single spaces; ~ stands for a space in
 * them, @ for -c and the configuration. */
static void run(struct ran *r, const char *words, const char *input)
{
    char copy[512], *argv[32], program[] = "sluice", c[] = "-c", *rest = copy;
    int argc = 0;
    struct cli cli = {.in = NULL};
    argv[argc++] = program;
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *word; (word = strsep(&rest, " ")) != NULL && argc < 30;) {
        if (strcmp(word, "@") == 0) {
            argv[argc++] = c;
            word = config_path;
        }
        for (char *p = word; *p != '\0' && word != config_path; p++) {
            *p = *p == '~' ? ' ' : *p;
        }
        if (word[0] != '\0') {
            argv[argc++] = word;
        }
    }
    argv[argc] = NULL;
    cli.in = input[0] == '\0' ? fopen("/dev/null", "r")
                              : fmemopen((void *)(uintptr_t)input, strlen(input), "r");
    cli.out = open_memstream(&r->out, &r->out_len);
    cli.err = open_memstream(&r->err, &r->err_len);
    r->code = cli_main(&cli, argc, argv);
    (void)fclose(cli.in);
    assert_int_equal(fclose(cli.out), 0);
    assert_int_equal(fclose(cli.err), 0);
}

static void expect(const char *words, int code, const char *out, const char *err)
{
    struct ran r;
    run(&r, words, "");
    if (r.code != code || strstr(r.out, out) == NULL || strstr(r.err, err) == NULL) {
        fail_msg("%s: code %d\nout %s\nerr %s", words, r.code, r.out, r.err);
    }
    free(r.out);
    free(r.err);
}

static void dispatch(void **state)
{
    (void)state;
    expect("", EX_USAGE, "", "usage: sluice COMMAND");
    expect("nothing", EX_USAGE, "", "there is no command \"nothing\"");
    expect("--help", EX_OK, "usage: sluice COMMAND", "");
    expect("--version", EX_OK, "sluice ", "");
    expect("version", EX_OK, "sluice " SLUICE_VERSION, "");
    expect("version --json", EX_OK, "\"version\": \"" SLUICE_VERSION "\"", "");
    expect("send --help", EX_OK, "usage: sluice send", "");
    expect("version -c", EX_USAGE, "", "-c needs a file");
    expect("run @", 42, "", "");
    expect("@ check", EX_OK, "", "");
    expect("check @ --json", EX_OK, "\"ok\": true", "");
    expect("check -c /nonexistent", EX_NOINPUT, "", "/nonexistent: No such file");
    expect("check --reference", EX_OK, "# Configuration reference", "");
    expect("check -c /proc/version", EX_CONFIG, "", "/proc/version:1: ");
    expect("check -c /proc/version --json", EX_CONFIG, "\"ok\": false", "");
    expect("messages @", EX_UNAVAILABLE, "", "the daemon is not running");
    expect("message @ x!", EX_USAGE, "", "\"x!\" is not the id of a message");
    expect("message @", EX_USAGE, "", "ID is missing");
    expect("messages @ --limit x", EX_USAGE, "", "--limit: \"x\" is not a number");
    expect("messages @ --limit=5 --limit=6", EX_USAGE, "", "--limit=6 is given twice");
    expect("messages @ --limit", EX_USAGE, "", "--limit needs N");
    expect("messages @ --what", EX_USAGE, "", "--what is not understood");
    expect("messages @ more", EX_USAGE, "", "\"more\" is not understood");
    expect("destinations @ --state asleep", EX_USAGE, "", "\"asleep\" is not ready|dead");
    expect("destinations --help", EX_OK, "  --state ready|dead|suspended|resolving\n", "");
    expect("help", EX_OK, "usage: sluice COMMAND", "");
    expect("help messages", EX_OK, "  --limit N ", "");
    expect("help nothing", EX_USAGE, "", "there is no command \"nothing\"");
    expect("completion fish", EX_USAGE, "", "\"fish\" is not bash|zsh");
    expect("completion zsh", EX_OK, "#compdef sluice\n", "");
    expect("send @", EX_USAGE, "", "no recipients");
    expect("send @ -Q a@b", EX_USAGE, "", "-Q: is not understood");
    expect("send @ -f", EX_USAGE, "", "-f: needs a value");
    expect("send @ a@b", EX_TEMPFAIL, "", "the daemon is not running");
}

/* Help, completion and manual have everything of the table, and the table makes sense. */
static void one_table(void **state)
{
    (void)state;
    struct ran man, bash;
    char text[100];
    run(&man, "help --man", "");
    run(&bash, "completion bash", "");
    for (size_t i = 0; i < cli_row_count; i++) {
        const struct cli_row *row = &cli_rows[i];
        assert_non_null(row->summary);
        assert_non_null(row->operands);
        assert_non_null(row->help);
        assert_true(row->is_raw || (row->operands[0] == '\0') == (row->operands_max == 0));
        (void)snprintf(text, sizeof(text), ".SS sluice %s", row->name);
        assert_non_null(strstr(man.out, text));
        (void)snprintf(text, sizeof(text), "    %s:*) words=", row->name);
        assert_non_null(strstr(bash.out, text));
        size_t count = 0;
        for (const struct cli_option *o = row->options; o != NULL && o->name != NULL; o++) {
            assert_true(o->letter != 0 || o->name[0] != '\0');
            assert_true((o->kind == CLI_FLAG) == (o->value == NULL));
            assert_non_null(o->help);
            for (const struct cli_option *p = row->options; p != o; p++) {
                assert_true(o->letter == 0 || o->letter != p->letter);
                assert_true(o->name[0] == '\0' || strcmp(o->name, p->name) != 0);
            }
            count++;
        }
        assert_true(count < CLI_OPTIONS_MAX);
    }
    free(man.out);
    free(man.err);
    free(bash.out);
    free(bash.err);
}

static void send_a_message(void **state)
{
    (void)state;
    static const char *const script[] = {"<SMTP\r\n",
                                         ">220 h ESMTP\r\n",
                                         "<EHLO h.example\r\n",
                                         ">250-h\r\n250-SIZE\r\n",
                                         ">250 8BITMIME\r\n",
                                         "<MAIL FROM:<s@x> BODY=8BITMIME\r\n",
                                         ">250 ok\r\n",
                                         "<RCPT TO:<a@b>\r\n",
                                         ">250 ok\r\n",
                                         "<RCPT TO:<root@h.example>\r\n",
                                         ">250 ok\r\n",
                                         "<RCPT TO:<c@d>\r\n",
                                         ">250 ok\r\n",
                                         "<DATA\r\n",
                                         ">354 go\r\n",
                                         "<\r\n.\r\n",
                                         ">250 2.0.0 queued as 1\r\n",
                                         "<QUIT\r\n",
                                         NULL};
    struct daemon d;
    struct ran r;
    daemon_start(&d, script);
    run(&r, "send @ --json -oi -t -f s@x a@b root",
        "To: c@d\nFrom: f@g\nDate: x\nMessage-ID: y\n\nhello\n.\nend");
    daemon_stop(&d);
    assert_int_equal(r.code, EX_OK);
    assert_non_null(strstr(r.out, "\"reply\": \"250 2.0.0 queued as 1\""));
    assert_non_null(strstr(d.got, "DATA\r\nTo: c@d\r\nFrom: f@g\r\nDate: x\r\nMessage-ID: y\r\n\r\n"
                                  "hello\r\n..\r\nend\r\n.\r\nQUIT\r\n"));
    free(r.out);
    free(r.err);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const unknown[] = {"<SMTP\r\n",
                                          ">220 h\r\n",
                                          "<EHLO",
                                          ">250 h\r\n",
                                          "<MAIL FROM:<s@x>\r\n",
                                          ">250 ok\r\n",
                                          "<TO:<a@b>\r\n",
                                          ">550 5.1.1 no\r\n",
                                          "<TO:<c@d>\r\n",
                                          ">250 ok\r\n",
                                          NULL};
    static const char *const later[] = {"<SMTP\r\n", ">220 h\r\n",          "<EHLO", ">250 h\r\n",
                                        "<MAIL",     ">452 4.3.1 full\r\n", NULL};
    static const char *const gone[] = {"<SMTP\r\n", ">220 h\r\n", "<EHLO", NULL};
    static const char *const never[] = {"<SMTP\r\n", ">554 no\r\n", NULL};
    static const struct {
        const char *const *script;
        int code;
        const char *err;
    } cases[] = {{unknown, EX_NOUSER, "550 5.1.1 no\nsluice send: recipient a@b was refused"},
                 {later, EX_TEMPFAIL, "452 4.3.1 full"},
                 {gone, EX_TEMPFAIL, "broke"},
                 {never, EX_UNAVAILABLE, "554 no"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct daemon d;
        struct ran r;
        daemon_start(&d, cases[i].script);
        run(&r, "send @ -i -f s@x a@b c@d", "x\n");
        daemon_stop(&d);
        assert_int_equal(r.code, cases[i].code);
        assert_non_null(strstr(r.err, cases[i].err));
        assert_null(strstr(d.got, "DATA"));
        free(r.out);
        free(r.err);
    }
}

static void ask(const char *const *script, const char *words, int code, const char *out,
                const char *err)
{
    struct daemon d;
    daemon_start(&d, script);
    expect(words, code, out, err);
    daemon_stop(&d);
}

#define ANSWER(type, body)                                                                         \
    ">HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/" type "\r\n\r\n" body, NULL
#define LINES(body)  ANSWER("x-ndjson", body)
#define OBJECT(body) ANSWER("json", body)
#define MESSAGE                                                                                    \
    "{\"id\":\"00000000000000a1\",\"created\":1700000000.5,\"sender\":\"s@x\",\"size\":1234,"      \
    "\"recipients\":2,\"pending\":1,\"state\":\"deferred\",\"due\":99999999999.0,\"attempts\":3,"  \
    "\"last_reply\":\"451 4.3.0 \\u001b later\",\"new_member\":1"

static void answers(void **state)
{
    (void)state;
    static const char *const list[] = {
        "<GET /v1/messages?limit=5&after=a0 HTTP/1.1\r\n",
        LINES(MESSAGE "}\n{\"end\":true,\"count\":1,\"more\":true}\n")};
    static const char *const empty[] = {"<GET /v1/messages HTTP/1.1\r\n",
                                        LINES("{\"end\":true,\"count\":0,\"more\":false}\n")};
    static const char *const cut[] = {"<GET /v1/messages", LINES(MESSAGE "}\n")};
    static const char *const junk[] = {"<GET /v1/messages", LINES("hello\n")};
    static const char *const missing[] = {
        "<GET /v1/messages/a1?limit=10000 HTTP/1.1\r\n",
        ">HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"
        "{\"error\":\"no message a1\\u001b[2J\",\"code\":\"missing\"}\n",
        NULL};
    static const char *const show[] = {
        "<GET /v1/messages/a1?limit=10000 ",
        OBJECT(MESSAGE ",\"list\":[{\"recipient\":\"r@y\",\"index\":0,\"state\":\"deferred\","
                       "\"transport\":\"smtp\",\"destination\":\"y\",\"time\":1700000001,"
                       "\"code\":451,\"status\":\"4.3.0\",\"reply\":\"later\","
                       "\"remote_mta\":\"mx.y\"}],\"more\":false}\n")};
    static const char *const status[] = {
        "<GET /v1/status HTTP/1.1\r\n",
        OBJECT("{\"version\":\"1\",\"messages\":7,\"incoming\":1,\"deferred\":6,"
               "\"quarantined\":0,\"active\":0,\"gates\":[\"low space\"]}\n")};
    static const char *const hosts[] = {
        "<GET /v1/hosts?match=%5B%3A%3A1%20%26 HTTP/1.1\r\n",
        LINES(
            "{\"transport\":\"x\",\"address\":\"::1\",\"port\":25,\"state\":\"retry\",\"until\":1,"
            "\"connections\":0,\"in_flight\":0,\"failures\":3,\"notes\":[\"a\",\"b\"]}\n"
            "{\"end\":true,\"count\":1,\"more\":false}\n")};
    ask(hosts, "hosts @ [::1~&", EX_OK, "[::1]:25 ", "");
    ask(hosts, "hosts @ [::1~&", EX_OK, " ago a, b\n", "");
    ask(list, "messages @ --limit 5 --after a0", EX_OK, "00000000000000a1", "there are more");
    ask(list, "messages @ --limit 5 --after a0", EX_OK, "451 4.3.0 ? later", "");
    ask(list, "messages --json @ --limit 5 --after a0", EX_OK, MESSAGE "}\n", "");
    ask(empty, "messages @", EX_OK, "nothing is queued", "");
    ask(empty, "messages @ --json", EX_OK, "", "");
    ask(cut, "messages @", EX_IOERR, "a1", "cut off");
    ask(junk, "messages @", EX_PROTOCOL, "", "not understood");
    ask(missing, "message @ a1", EX_NOINPUT, "", "no message a1?[2J\n");
    ask(show, "message @ a1", EX_OK, "deferred  r@y  via smtp, y\n", "");
    ask(show, "message @ a1", EX_OK, "ago: 451 4.3.0 later from mx.y", "");
    ask(status, "status @", EX_OK, "messages 7: incoming 1, active 0, deferred 6", "");
    ask(status, "status @", EX_OK, "no mail is taken: low space\n", "");
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(config_path, sizeof(config_path), "%s/conf", folder);
    (void)snprintf(control_path, sizeof(control_path), "%s/control", folder);
    FILE *f = fopen(config_path, "w");
    if (f == NULL) {
        return -1;
    }
    (void)fprintf(f,
                  "hostname = h.example control { path = \"%s\" }\n"
                  "transport smtp {} route \"*\" { transport = smtp }\n",
                  control_path);
    return fclose(f);
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(config_path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dispatch), cmocka_unit_test(one_table), cmocka_unit_test(send_a_message),
        cmocka_unit_test(refusals), cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
