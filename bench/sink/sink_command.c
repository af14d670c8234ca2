/* The commands of an SMTP receiver that accepts nearly everything (RFC 5321). Called by the
 * session with one line at a time; does no I/O. */
#include "bench/sink/sink_session.h"
#include "bench/tool/options.h"

#include <stdio.h>
#include <string.h>

#define RECIPIENTS_MAX 1000000

/* The argument behind a keyword such as "MAIL FROM:", any case; data == NULL when it is another. */
static struct slice argument_of(struct slice line, struct slice keyword)
{
    if (line.len < keyword.len || !slice_ieq(slice_to(line, keyword.len), keyword)) {
        return (struct slice){0};
    }
    struct slice rest = slice_from(line, keyword.len);
    char last = keyword.data[keyword.len - 1];
    if (last != ':' && rest.len > 0 && rest.data[0] != ' ') {
        return (struct slice){0};
    }
    rest = slice_trim(rest);
    return rest.data == NULL ? SLICE("") : rest;
}

/* Split "<path> params". returns: false when it is not one */
static bool take_path(struct slice argument, struct slice *ret_path, struct slice *ret_params)
{
    bool is_quoted = false;
    if (argument.len == 0 || argument.data[0] != '<') {
        return false;
    }
    for (size_t i = 1; i < argument.len; i++) {
        char c = argument.data[i];
        if (c == '\\' && is_quoted) {
            i++;
        } else if (c == '"') {
            is_quoted = !is_quoted;
        } else if (c == '>' && !is_quoted) {
            *ret_path = slice_make(argument.data + 1, i - 1);
            *ret_params = slice_trim(slice_from(argument, i + 1));
            return true;
        }
    }
    return false;
}

static bool is_announced(const struct sink_session *s, enum behaviour_extension extension)
{
    return (s->behaviour->extensions & extension) != 0;
}

static void greet_back(struct sink_session *s, bool is_esmtp)
{
    static const struct {
        enum behaviour_extension extension;
        const char *name;
    } plain[] = {{EXTENSION_PIPELINING, "PIPELINING"},
                 {EXTENSION_CHUNKING, "CHUNKING"},
                 {EXTENSION_8BITMIME, "8BITMIME"},
                 {EXTENSION_SMTPUTF8, "SMTPUTF8"},
                 {EXTENSION_ENHANCEDSTATUSCODES, "ENHANCEDSTATUSCODES"}};
    const struct sink *sink = s->worker->sink;
    const char *refusal = sink_session_rejection(s, s->behaviour, STAGE_EHLO);
    if (refusal != NULL) {
        sink_session_refuse(s, refusal, (struct slice){0});
        return;
    }
    sink_session_reset(s);
    size_t last = s->out.len; /* where the last line begins */
    buf_printf(&s->out, "250-%s\r\n", sink->options->hostname);
    for (size_t i = 0; is_esmtp && i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (is_announced(s, plain[i].extension)) {
            last = s->out.len;
            buf_printf(&s->out, "250-%s\r\n", plain[i].name);
        }
    }
    if (is_esmtp && sink->tls != NULL && !stream_is_tls(&s->stream)) {
        last = s->out.len;
        buf_append_str(&s->out, "250-STARTTLS\r\n");
    }
    if (is_esmtp && is_announced(s, EXTENSION_SIZE)) {
        last = s->out.len;
        buf_printf(&s->out, "250-SIZE %llu\r\n", (unsigned long long)sink->options->size_limit);
    }
    if (!s->out.failed) {
        s->out.data[last + 3] = ' ';
    }
}

/* Whether EHLO announced the parameter. */
static bool is_known_parameter(const struct sink_session *s, struct slice word)
{
    if (slice_ieq(word, SLICE("SMTPUTF8"))) {
        return is_announced(s, EXTENSION_SMTPUTF8);
    }
    if (slice_ieq(word, SLICE("BODY=8BITMIME")) || slice_ieq(word, SLICE("BODY=7BIT"))) {
        return is_announced(s, EXTENSION_8BITMIME);
    }
    return word.len > 5 && slice_ieq(slice_to(word, 5), SLICE("SIZE=")) &&
           is_announced(s, EXTENSION_SIZE);
}

static void mail(struct sink_session *s, struct slice argument)
{
    struct slice path;
    struct slice params;
    if (!take_path(argument, &path, &params)) {
        sink_session_reply(s, "501 5.1.7 bad sender");
        return;
    }
    if (s->has_sender) {
        sink_session_reply(s, "503 5.5.1 nested MAIL");
        return;
    }
    while (params.len > 0) {
        size_t len = slice_find(params, ' ');
        if (!is_known_parameter(s, slice_to(params, len))) {
            sink_session_reply(s, "555 5.5.4 unknown parameter");
            return;
        }
        params = slice_trim(slice_from(params, len));
    }
    sink_session_reset(s);
    buf_append_slice(&s->sender, path);
    const char *refusal = sink_limit_mail(s);
    if (refusal != NULL) {
        sink_delivery_refuse(s, refusal);
        return;
    }
    sink_session_begin(s);
    sink_session_reply(s, "250 2.1.0 Ok");
}

static void take_recipient(struct sink_session *s, struct sink_rule *domain, struct slice address)
{
    const char *refusal = sink_limit_recipient(s, domain, address);
    if (refusal != NULL) {
        struct sink_count *count = &s->worker->count;
        count->listeners[s->listener_index].tally.rejected++;
        sink_count_domain(count, address)->rejected++;
        sink_session_count(s, HAPPENED_RECIPIENT_REFUSAL, 1, clock_wall());
        if (domain != NULL && sink_rule_has_rate(domain)) {
            sink_clients_count(&domain->clients, sink_session_known_to(s, domain),
                               HAPPENED_RECIPIENT_REFUSAL, 1, clock_wall());
        }
        sink_session_refuse(s, refusal, address);
        s->is_counting_behind = s->state == SINK_CLOSING;
        return;
    }
    buf_append_slice(&s->recipients, address);
    buf_append_char(&s->recipients, '\n');
    s->recipient_count++;
    s->domain = s->domain != NULL ? s->domain : domain;
    sink_session_reply(s, "250 2.1.5 Ok");
}

/* returns: false when a delay has begun */
static bool rcpt(struct sink_session *s, struct slice argument)
{
    struct slice path = {0};
    struct slice params;
    bool is_path = take_path(argument, &path, &params) && path.len > 0 && params.len == 0;
    struct sink_rule *domain = sink_rules_find(&s->worker->sink->domains, path);
    const struct behaviour *b = sink_session_behaviour(s, domain, BEHAVIOUR_DELAY_RCPT);
    if (sink_session_pause(s, b->delays[STAGE_RCPT])) {
        return false;
    }
    if (!is_path) {
        sink_session_reply(s, "501 5.1.3 bad recipient");
    } else if (!s->has_sender) {
        sink_session_reply(s, "503 5.5.1 MAIL first");
    } else if (s->recipient_count >= RECIPIENTS_MAX) {
        sink_session_reply(s, "452 4.5.3 too many recipients");
    } else {
        take_recipient(s, domain, path);
    }
    return true;
}

static void data(struct sink_session *s, struct slice argument)
{
    const char *refusal;
    (void)argument;
    if (!s->has_sender) {
        sink_session_reply(s, "503 5.5.1 MAIL first");
    } else if (s->is_chunked) {
        sink_session_reply(s, "503 5.5.1 BDAT goes on");
    } else if (s->recipient_count == 0) {
        sink_session_reply(s, "554 5.5.1 no valid recipients");
    } else if ((refusal = sink_session_rejection(s, s->behaviour, STAGE_DATA)) != NULL) {
        sink_delivery_refuse(s, refusal);
        sink_session_reset(s);
    } else {
        sink_session_reply(s, "354 go on");
        sink_content_begin(&s->content);
        s->state = SINK_CONTENT;
    }
}

/* "BDAT 1234 LAST" (RFC 3030); the bytes follow at once, whatever the answer is. */
static void bdat(struct sink_session *s, struct slice argument)
{
    char number[24] = "";
    size_t len = slice_find(argument, ' ');
    struct slice mark = slice_trim(slice_from(argument, len));
    if (len < sizeof(number)) {
        memcpy(number, argument.data, len);
    }
    s->is_last_chunk = slice_ieq(mark, SLICE("LAST"));
    if (options_integer(number, INT64_MAX, &s->chunk_size) != 0 ||
        (mark.len > 0 && !s->is_last_chunk)) {
        sink_session_reply(s, "501 5.5.4 BDAT SIZE [LAST]");
        s->state = SINK_CLOSING; /* where the next command begins is not known */
        return;
    }
    s->chunk_left = s->chunk_size;
    s->is_chunk_refused = !s->has_sender || s->recipient_count == 0;
    s->state = SINK_CHUNK;
    if (!s->is_chunk_refused && !s->is_chunked) {
        s->is_chunked = true;
        sink_content_begin(&s->content);
    }
}

static void starttls(struct sink_session *s, struct slice argument)
{
    (void)argument;
    if (s->worker->sink->tls == NULL || stream_is_tls(&s->stream)) {
        sink_session_reply(s, "502 5.5.1 not offered");
        return;
    }
    sink_session_reset(s);
    sink_session_reply(s, "220 2.0.0 go on");
    s->state = SINK_HANDSHAKE;
}

static void ehlo(struct sink_session *s, struct slice argument)
{
    (void)argument;
    greet_back(s, true);
}

static void helo(struct sink_session *s, struct slice argument)
{
    (void)argument;
    greet_back(s, false);
}

static void rset(struct sink_session *s, struct slice argument)
{
    (void)argument;
    sink_session_reset(s);
    sink_session_reply(s, "250 2.0.0 Ok");
}

static void noop(struct sink_session *s, struct slice argument)
{
    (void)argument;
    sink_session_reply(s, "250 2.0.0 Ok");
}

static void vrfy(struct sink_session *s, struct slice argument)
{
    (void)argument;
    sink_session_reply(s, "252 2.0.0 try to send something");
}

static void quit(struct sink_session *s, struct slice argument)
{
    (void)argument;
    sink_session_reply(s, "221 2.0.0 Bye");
    s->state = SINK_CLOSING;
}

static void unknown(struct sink_session *s, struct slice argument)
{
    (void)argument;
    sink_session_reply(s, "500 5.5.2 what?");
}

struct command {
    struct slice keyword;
    enum behaviour_stage stage; /* STAGE_COUNT: none */
    bool has_argument;
    void (*run)(struct sink_session *s, struct slice argument);
};

/* RCPT is not among them: what it waits for is in its argument. */
static const struct command commands[] = {
    {{"MAIL FROM:", 10}, STAGE_MAIL, true, mail},    {{"DATA", 4}, STAGE_DATA, false, data},
    {{"BDAT", 4}, STAGE_COUNT, true, bdat}, /* answered when the bytes of its chunk have come */
    {{"EHLO", 4}, STAGE_EHLO, true, ehlo},           {{"HELO", 4}, STAGE_EHLO, true, helo},
    {{"STARTTLS", 8}, STAGE_COUNT, false, starttls}, {{"RSET", 4}, STAGE_COUNT, false, rset},
    {{"NOOP", 4}, STAGE_COUNT, true, noop},          {{"VRFY", 4}, STAGE_COUNT, true, vrfy},
    {{"QUIT", 4}, STAGE_COUNT, false, quit},
};

static const struct command *find_command(const struct sink_session *s, struct slice line,
                                          struct slice *ret_argument)
{
    static const struct command other = {{"", 0}, STAGE_COUNT, false, unknown};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const struct command *c = &commands[i];
        if (c->has_argument) {
            *ret_argument = argument_of(line, c->keyword);
        }
        if (c->has_argument ? ret_argument->data != NULL : slice_ieq(line, c->keyword)) {
            return c->run == bdat && !is_announced(s, EXTENSION_CHUNKING) ? &other : c;
        }
    }
    return &other;
}

bool sink_command(struct sink_session *s, struct slice line)
{
    struct slice argument = argument_of(line, SLICE("RCPT TO:"));
    if (argument.data != NULL) {
        return rcpt(s, argument);
    }
    const struct command *c = find_command(s, line, &argument);
    const struct behaviour_delay none = {0, 0};
    if (c->run != bdat &&
        sink_session_pause(s, c->stage < STAGE_COUNT ? s->behaviour->delays[c->stage] : none)) {
        return false;
    }
    c->run(s, argument);
    return true;
}

uint64_t sink_command_behind(struct sink_session *s, struct slice line)
{
    char number[24] = "";
    uint64_t size_bytes = 0;
    if (argument_of(line, SLICE("MAIL FROM:")).data != NULL) {
        sink_session_count(s, HAPPENED_REFUSAL, 1, clock_wall());
    }
    struct slice argument = argument_of(line, SLICE("BDAT"));
    size_t len = argument.data == NULL ? sizeof(number) : slice_find(argument, ' ');
    if (len < sizeof(number)) {
        memcpy(number, argument.data, len);
    }
    return options_integer(number, INT64_MAX, &size_bytes) == 0 ? size_bytes : 0;
}
