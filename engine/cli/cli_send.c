/* `sluice send`: the message on standard input goes to the daemon over its control socket, in an
 * ordinary SMTP session. The header is held in memory, the body streams. Nothing is queued unless
 * every recipient and the message were accepted. */
#include "base/error.h"
#include "base/hash.h"
#include "engine/cli/cli.h"
#include "engine/cli/control_client.h"
#include "engine/compose/send_message.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define SEND_TIMEOUT              (600 * USEC_PER_SEC)
#define SEND_PIECE_BYTES          65536
#define SEND_RECIPIENTS_MAX_BYTES ((size_t)256 << 20)

struct send {
    const struct cli *cli;
    struct config *config;
    char *sender;          /* heap; "" = null sender */
    const char *full_name; /* "" when not given */
    bool takes_recipients;
    struct send_body body;
    struct buf recipients; /* NUL-terminated addresses */
    struct buf raw;        /* read from standard input, not yet converted */
    struct buf out;        /* converted, not yet sent */
    struct control_client client;
    bool has_8bitmime, has_smtputf8;
};

static int fail_send(const struct send *s, int code, const char *what, const char *why)
{
    (void)fprintf(s->cli->err, "sluice send: %s%s%s\n", what, why[0] == '\0' ? "" : ": ", why);
    return code;
}

/* --- options ---------------------------------------------------------------------------------- */

static int set_sender(struct send *s, const char *text)
{
    size_t len = strlen(text);
    bool is_angled = len >= 2 && text[0] == '<' && text[len - 1] == '>';
    free(s->sender);
    s->sender = is_angled ? strndup(text + 1, len - 2) : strdup(text);
    if (s->sender == NULL) {
        return EX_OSERR;
    }
    for (const char *p = s->sender; *p != '\0'; p++) {
        if ((unsigned char)*p <= ' ' || *p == '<' || *p == '>' || *p == 0x7f) {
            return fail_send(s, EX_DATAERR, text, "is not an address");
        }
    }
    return 0;
}

static int add_recipient(struct send *s, const char *text)
{
    size_t len = strlen(text);
    struct slice address = slice_make(text, len);
    if (len >= 2 && text[0] == '<' && text[len - 1] == '>') {
        address = slice_make(text + 1, len - 2);
    }
    if (send_message_recipient(address, slice_of(s->config->hostname), &s->recipients) < 0) {
        return fail_send(s, EX_DATAERR, text, "is not an address");
    }
    return 0;
}

/* Read one option as sendmail has them. ret_used: arguments taken beyond this one. */
static int read_option(struct send *s, const char *arg, const char *next, int *ret_used)
{
    char option = arg[1];
    const char *value = arg[2] != '\0' ? arg + 2 : next;
    *ret_used = 0;
    if (strchr("fFrBCDdhLMNOopqRVX", option) != NULL && option != 'o' && option != 'q') {
        *ret_used = arg[2] == '\0' ? 1 : 0;
        if (value == NULL) {
            return fail_send(s, EX_USAGE, arg, "needs a value");
        }
    }
    switch (option) {
    case 'f':
    case 'r':
        return set_sender(s, value);
    case 'F':
        s->full_name = value;
        return 0;
    case 't':
        s->takes_recipients = true;
        return 0;
    case 'i':
        s->body.dot_ends = false;
        return 0;
    case 'o':
        if (strcmp(arg, "-oi") == 0) {
            s->body.dot_ends = false;
        }
        return 0;
    case 'b':
        return strcmp(arg, "-bm") == 0
                   ? 0
                   : fail_send(s, EX_USAGE, arg, "this mode of sendmail is not offered");
    case 'B':
    case 'C':
    case 'D':
    case 'd':
    case 'e':
    case 'G':
    case 'h':
    case 'L':
    case 'M':
    case 'm':
    case 'N':
    case 'n':
    case 'O':
    case 'p':
    case 'R':
    case 'U':
    case 'V':
    case 'v':
    case 'X':
        return 0; /* sendmail's, without meaning here */
    default:
        return fail_send(s, EX_USAGE, arg, "is not understood");
    }
}

static int read_options(struct send *s, int argc, char **argv)
{
    int i = 0;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        int used = 0;
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        int code = read_option(s, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &used);
        if (code != 0) {
            return code;
        }
        i += used;
    }
    for (; i < argc; i++) {
        int code = add_recipient(s, argv[i]);
        if (code != 0) {
            return code;
        }
    }
    if (s->recipients.len == 0 && !s->takes_recipients) {
        return fail_send(s, EX_USAGE, "no recipients", "name some, or use -t");
    }
    return 0;
}

static const char *user_name(void)
{
    const struct passwd *user = getpwuid(geteuid());
    return user != NULL ? user->pw_name : "nobody";
}

/* The user's name at this host, when -f names nobody. */
static int complete_sender(struct send *s)
{
    const char *name = s->sender != NULL ? s->sender : user_name();
    if (name[0] == '\0' || strchr(name, '@') != NULL) {
        return 0;
    }
    char *full = NULL;
    if (asprintf(&full, "%s@%s", name, s->config->hostname) < 0) {
        return EX_OSERR;
    }
    free(s->sender);
    s->sender = full;
    return 0;
}

/* --- standard input --------------------------------------------------------------------------- */

/* One more piece into `raw`; false at the end of the input. */
static bool read_piece(struct send *s, int *ret_code)
{
    char *room = buf_reserve(&s->raw, SEND_PIECE_BYTES);
    if (room == NULL) {
        *ret_code = fail_send(s, EX_OSERR, "out of memory", "");
        return false;
    }
    size_t n = fread(room, 1, SEND_PIECE_BYTES, s->cli->in);
    s->raw.len += n;
    if (n == 0 && ferror(s->cli->in) != 0) {
        *ret_code = fail_send(s, EX_IOERR, "standard input", strerror(errno));
    }
    return n > 0;
}

/* Read the header, complete it into `out`, leave what was read of the body in `raw`. */
static int read_header(struct send *s)
{
    size_t header = 0, body = 0;
    int code = 0;
    bool is_all = false;
    while (!send_message_split(s->raw.len > 0 ? buf_slice(&s->raw) : SLICE(""), is_all, &header,
                               &body)) {
        if (s->raw.len > SEND_HEADER_MAX_BYTES) {
            return fail_send(s, EX_DATAERR, "the header is larger than 1 MB", "");
        }
        is_all = !read_piece(s, &code);
        if (code != 0) {
            return code;
        }
    }
    struct send_options options = {
        .sender = slice_of(s->sender),
        .full_name = slice_of(s->full_name),
        .hostname = slice_of(s->config->hostname),
        .takes_recipients = s->takes_recipients,
        .now = clock_wall(),
        .unique = hash_random_seed(),
    };
    struct slice text = header > 0 ? slice_make(s->raw.data, header) : SLICE("");
    int err = send_message_header(text, &options, &s->out, &s->recipients);
    if (err == ERR_SYNTAX) {
        return fail_send(s, EX_DATAERR, "an address in the header is not understood", "");
    }
    if (err < 0) {
        return fail_send(s, EX_DATAERR, "the header", err_str(err));
    }
    buf_consume(&s->raw, body);
    return s->recipients.len > 0 ? 0 : fail_send(s, EX_USAGE, "the header names no recipients", "");
}

/* --- SMTP ------------------------------------------------------------------------------------- */

static int broken(const struct send *s, int err)
{
    return fail_send(s, EX_TEMPFAIL, "the connection to the daemon broke", err_str(err));
}

/* One reply. ret_text: its last line, valid until the next reply. errors: negative */
static int read_reply(struct send *s, struct slice *ret_text)
{
    for (;;) {
        struct slice line;
        int err = control_client_line(&s->client, &line);
        if (err < 0) {
            return err;
        }
        if (line.len < 3 || line.data[0] < '2' || line.data[0] > '5') {
            return ERR_SYNTAX;
        }
        if (line.len > 4) {
            struct slice word = slice_trim(slice_from(line, 4));
            s->has_8bitmime = s->has_8bitmime || slice_ieq(word, SLICE("8BITMIME"));
            s->has_smtputf8 = s->has_smtputf8 || slice_ieq(word, SLICE("SMTPUTF8"));
        }
        if (line.len == 3 || line.data[3] != '-') {
            *ret_text = line;
            return line.data[0] - '0';
        }
    }
}

/* Send a command and judge its reply: 0 when its class is `wanted`, else the exit code. */
static int command(struct send *s, const char *text, int wanted, int code_if_refused)
{
    struct slice reply = SLICE("");
    int class = control_client_write(&s->client, text, strlen(text));
    class = class < 0 ? class : read_reply(s, &reply);
    if (class < 0) {
        return broken(s, class);
    }
    if (class == wanted) {
        return 0;
    }
    (void)fprintf(s->cli->err, "sluice send: " SLICE_FMT "\n", SLICE_ARG(reply));
    return class == 4 ? EX_TEMPFAIL : code_if_refused;
}

static bool has_8bit(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] > 0x7f) {
            return true;
        }
    }
    return false;
}

static int send_envelope(struct send *s)
{
    struct buf line;
    buf_init(&line, 0);
    bool needs_utf8 = has_8bit(slice_of(s->sender)) || has_8bit(buf_slice(&s->recipients));
    buf_printf(&line, "MAIL FROM:<%s>%s%s\r\n", s->sender, s->has_8bitmime ? " BODY=8BITMIME" : "",
               needs_utf8 && s->has_smtputf8 ? " SMTPUTF8" : "");
    buf_append_char(&line, '\0');
    int code = line.failed ? EX_OSERR : command(s, line.data, 2, EX_UNAVAILABLE);
    for (size_t at = 0; at < s->recipients.len && (code == 0 || code == EX_NOUSER);) {
        const char *address = s->recipients.data + at;
        buf_clear(&line);
        buf_printf(&line, "RCPT TO:<%s>\r\n", address);
        buf_append_char(&line, '\0');
        int one = line.failed ? EX_OSERR : command(s, line.data, 2, EX_NOUSER);
        if (one == EX_NOUSER) {
            (void)fprintf(s->cli->err, "sluice send: recipient %s was refused\n", address);
        }
        code = one != 0 ? one : code;
        at += strlen(address) + 1;
    }
    buf_fini(&line);
    return code;
}

static int send_content(struct send *s)
{
    int code = 0;
    bool is_more = true;
    while (is_more) {
        send_body_convert(&s->body, s->raw.len > 0 ? buf_slice(&s->raw) : SLICE(""), &s->out);
        buf_clear(&s->raw);
        is_more = !s->body.has_ended && read_piece(s, &code);
        if (!is_more && code == 0) {
            send_body_finish(&s->body, &s->out);
        }
        if (code != 0 || s->out.failed) {
            return code != 0 ? code : fail_send(s, EX_OSERR, "out of memory", "");
        }
        int err = s->out.len == 0 ? 0 : control_client_write(&s->client, s->out.data, s->out.len);
        if (err < 0) {
            return broken(s, err);
        }
        buf_clear(&s->out);
    }
    return 0;
}

static void print_queued(const struct send *s, struct slice reply)
{
    if (!s->cli->is_json) {
        return;
    }
    (void)fputs("{\"queued\": true, \"reply\": \"", s->cli->out);
    for (size_t i = 0; i < reply.len; i++) {
        char c = reply.data[i];
        if (c == '"' || c == '\\') {
            (void)fputc('\\', s->cli->out);
        }
        (void)fputc((unsigned char)c < 0x20 ? ' ' : c, s->cli->out);
    }
    (void)fputs("\"}\n", s->cli->out);
}

static int transact(struct send *s)
{
    char hello[300];
    struct slice reply = SLICE("");
    int class = read_reply(s, &reply);
    if (class < 0) {
        return broken(s, class);
    }
    if (class != 2) {
        (void)fprintf(s->cli->err, "sluice send: " SLICE_FMT "\n", SLICE_ARG(reply));
        return class == 4 ? EX_TEMPFAIL : EX_UNAVAILABLE;
    }
    (void)snprintf(hello, sizeof(hello), "EHLO %s\r\n", s->config->hostname);
    int code = command(s, hello, 2, EX_UNAVAILABLE);
    code = code != 0 ? code : send_envelope(s);
    code = code != 0 ? code : command(s, "DATA\r\n", 3, EX_UNAVAILABLE);
    code = code != 0 ? code : send_content(s);
    if (code != 0) {
        return code; /* closing without the final dot leaves nothing behind */
    }
    class = read_reply(s, &reply);
    if (class < 0) {
        return broken(s, class);
    }
    if (class != 2) {
        (void)fprintf(s->cli->err, "sluice send: " SLICE_FMT "\n", SLICE_ARG(reply));
        return class == 4 ? EX_TEMPFAIL : EX_UNAVAILABLE;
    }
    print_queued(s, reply);
    class = control_client_write(&s->client, "QUIT\r\n", 6);
    (void)class; /* the message is queued, whether QUIT arrives or not */
    return EX_OK;
}

static int connect_and_send(struct send *s)
{
    const char *path = s->config->control_path;
    int err = control_client_open(&s->client, path, "SMTP", SEND_TIMEOUT);
    if (err == -ENOENT || err == -ECONNREFUSED) {
        return fail_send(s, EX_TEMPFAIL, "the daemon is not running: nobody listens on", path);
    }
    if (err < 0) {
        (void)fprintf(s->cli->err, "sluice send: %s: %s\n", path, err_str(err));
        return err == -EACCES || err == -EPERM ? EX_NOPERM : EX_TEMPFAIL;
    }
    int code = transact(s);
    control_client_close(&s->client);
    return code;
}

int cli_send(const struct cli *cli, const struct cli_args *args)
{
    struct send s = {.cli = cli, .full_name = "", .body = {.dot_ends = true}};
    int code = cli_config(cli, false, &s.config);
    if (code != 0) {
        return code;
    }
    buf_init(&s.recipients, SEND_RECIPIENTS_MAX_BYTES);
    buf_init(&s.raw, 0);
    buf_init(&s.out, 0);
    code = read_options(&s, args->argc, args->argv);
    code = code != 0 ? code : complete_sender(&s);
    code = code != 0 ? code : read_header(&s);
    code = code != 0 ? code : connect_and_send(&s);
    buf_fini(&s.recipients);
    buf_fini(&s.raw);
    buf_fini(&s.out);
    free(s.sender);
    config_free(s.config);
    return code;
}
