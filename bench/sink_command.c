/* The commands of an SMTP receiver that accepts nearly everything (RFC 5321). Called by the
 * session with one line at a time; does no I/O. */
#include "bench/options.h"
#include "bench/sink_session.h"

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

static bool is_announced(const struct sink_session *s, enum sink_extension extension)
{
    return (s->worker->sink->options->extensions & extension) != 0;
}

static void greet_back(struct sink_session *s, bool is_esmtp)
{
    static const struct {
        enum sink_extension extension;
        const char *name;
    } plain[] = {{SINK_PIPELINING, "PIPELINING"},
                 {SINK_CHUNKING, "CHUNKING"},
                 {SINK_8BITMIME, "8BITMIME"},
                 {SINK_SMTPUTF8, "SMTPUTF8"},
                 {SINK_ENHANCEDSTATUSCODES, "ENHANCEDSTATUSCODES"}};
    const struct sink *sink = s->worker->sink;
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
    if (is_esmtp && is_announced(s, SINK_SIZE)) {
        last = s->out.len;
        buf_printf(&s->out, "250-SIZE %llu\r\n", (unsigned long long)sink->options->size_limit);
    }
    if (!s->out.failed) {
        s->out.data[last + 3] = ' ';
    }
}

/* Only what EHLO announced. */
static bool is_known_parameter(const struct sink_session *s, struct slice word)
{
    if (slice_ieq(word, SLICE("SMTPUTF8"))) {
        return is_announced(s, SINK_SMTPUTF8);
    }
    if (slice_ieq(word, SLICE("BODY=8BITMIME")) || slice_ieq(word, SLICE("BODY=7BIT"))) {
        return is_announced(s, SINK_8BITMIME);
    }
    return word.len > 5 && slice_ieq(slice_to(word, 5), SLICE("SIZE=")) &&
           is_announced(s, SINK_SIZE);
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
    sink_session_begin(s);
    buf_append_slice(&s->sender, path);
    sink_session_reply(s, "250 2.1.0 Ok");
}

/* Refuse the recipient if the options say so. returns: true when it was answered */
static bool rejects(struct sink_session *s, struct slice address)
{
    const struct sink_options *o = s->worker->sink->options;
    for (int i = 0; i < o->rejection_count; i++) {
        const struct sink_rejection *r = &o->rejections[i];
        if (sink_worker_draw(s->worker, r->share)) {
            struct sink_count *count = &s->worker->count;
            buf_printf(&s->out, "%d %s\r\n", r->code, r->text);
            count->total.rejected++;
            count->listeners[s->listener_index].tally.rejected++;
            sink_count_domain(count, address)->rejected++;
            return true;
        }
    }
    return false;
}

/* returns: false when a delay has begun */
static bool rcpt(struct sink_session *s, struct slice argument)
{
    struct slice path;
    struct slice params;
    if (sink_session_pause(s, s->worker->sink->options->delay_rcpt)) {
        return false;
    }
    if (!take_path(argument, &path, &params) || path.len == 0 || params.len > 0) {
        sink_session_reply(s, "501 5.1.3 bad recipient");
    } else if (!s->has_sender) {
        sink_session_reply(s, "503 5.5.1 MAIL first");
    } else if (s->recipient_count >= RECIPIENTS_MAX) {
        sink_session_reply(s, "452 4.5.3 too many recipients");
    } else if (!rejects(s, path)) {
        buf_append_slice(&s->recipients, path);
        buf_append_char(&s->recipients, '\n');
        s->recipient_count++;
        sink_session_reply(s, "250 2.1.5 Ok");
    }
    return true;
}

static void data(struct sink_session *s)
{
    if (!s->has_sender) {
        sink_session_reply(s, "503 5.5.1 MAIL first");
    } else if (s->is_chunked) {
        sink_session_reply(s, "503 5.5.1 BDAT goes on");
    } else if (s->recipient_count == 0) {
        sink_session_reply(s, "554 5.5.1 no valid recipients");
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

static void starttls(struct sink_session *s)
{
    if (s->worker->sink->tls == NULL || stream_is_tls(&s->stream)) {
        sink_session_reply(s, "502 5.5.1 not offered");
        return;
    }
    sink_session_reset(s);
    sink_session_reply(s, "220 2.0.0 go on");
    s->state = SINK_HANDSHAKE;
}

bool sink_command(struct sink_session *s, struct slice line)
{
    struct slice argument;
    if ((argument = argument_of(line, SLICE("RCPT TO:"))).data != NULL) {
        return rcpt(s, argument);
    }
    if ((argument = argument_of(line, SLICE("MAIL FROM:"))).data != NULL) {
        mail(s, argument);
    } else if (slice_ieq(line, SLICE("DATA"))) {
        data(s);
    } else if (is_announced(s, SINK_CHUNKING) &&
               (argument = argument_of(line, SLICE("BDAT"))).data != NULL) {
        bdat(s, argument);
    } else if (argument_of(line, SLICE("EHLO")).data != NULL) {
        greet_back(s, true);
    } else if (argument_of(line, SLICE("HELO")).data != NULL) {
        greet_back(s, false);
    } else if (slice_ieq(line, SLICE("STARTTLS"))) {
        starttls(s);
    } else if (slice_ieq(line, SLICE("RSET"))) {
        sink_session_reset(s);
        sink_session_reply(s, "250 2.0.0 Ok");
    } else if (argument_of(line, SLICE("NOOP")).data != NULL) {
        sink_session_reply(s, "250 2.0.0 Ok");
    } else if (argument_of(line, SLICE("VRFY")).data != NULL) {
        sink_session_reply(s, "252 2.0.0 try to send something");
    } else if (slice_ieq(line, SLICE("QUIT"))) {
        sink_session_reply(s, "221 2.0.0 Bye");
        s->state = SINK_CLOSING;
    } else {
        sink_session_reply(s, "500 5.5.2 what?");
    }
    return true;
}
