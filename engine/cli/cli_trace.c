/* `sluice trace DESTINATION`: what recent sessions said and heard, and with -f what is said now
 * (trace_report.h). Following is asking a few times a second for what is new. */
#include "base/plural.h"
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define text_of   cli_member_text
#define number_of cli_member_number

enum {
    SEEN_MAX = 512,      /* sessions remembered while following, the last ones */
    POLL_USEC = 250000,  /* between questions */
    PATIENCE_TRIES = 20, /* questions in a row without an answer, until following ends */
};

struct seen {
    long long session; /* 0: none */
    long long lines;   /* number of the next line to print */
    bool is_told;      /* the outcome of the session was printed */
};

struct follower {
    const struct cli *cli;
    struct seen seen[SEEN_MAX];
    size_t next_seen;
    long long last_session; /* whose lines were printed last; 0: none */
};

/* --- printing --------------------------------------------------------------------------------- */

static void print_time(FILE *out, const json_t *o)
{
    struct tm tm;
    char text[32];
    time_t t = (time_t)json_number_value(json_object_get(o, "started"));
    if (localtime_r(&t, &tm) != NULL && strftime(text, sizeof(text), "%F %T", &tm) > 0) {
        (void)fputs(text, out);
    }
}

static void print_title(FILE *out, const json_t *o)
{
    (void)fprintf(out, "session %lld: ", number_of(o, "session"));
    print_time(out, o);
    (void)fputs(", ", out);
    cli_print_safe(out, text_of(o, "destination"));
    (void)fputs(" by ", out);
    cli_print_safe(out, text_of(o, "transport"));
    (void)fputs(", host ", out);
    cli_print_safe(out, text_of(o, "host"));
    (void)fputc('[', out);
    cli_print_safe(out, text_of(o, "address"));
    (void)fputc(']', out);
    if (text_of(o, "source")[0] != '\0') {
        (void)fputs(", source ", out);
        cli_print_safe(out, text_of(o, "source"));
    }
    if (json_is_true(json_object_get(o, "excerpt"))) {
        (void)fputs(" (an earlier part)", out);
    }
    (void)fputc('\n', out);
}

static void print_outcome(FILE *out, const json_t *o)
{
    long long delivered = number_of(o, "delivered");
    (void)fputs("           = ", out);
    cli_print_safe(out, text_of(o, "outcome"));
    (void)fprintf(out, "; %lld %s delivered\n", delivered,
                  plural((uint64_t)delivered, "message", "messages"));
}

static void print_line(FILE *out, const json_t *line)
{
    (void)fprintf(out, "%10.3f %s ", json_number_value(json_object_get(line, "t")),
                  text_of(line, "dir"));
    cli_print_safe(out, text_of(line, "text"));
    (void)fputc('\n', out);
}

void cli_trace_print(void *ctx, const json_t *o)
{
    FILE *out = ctx;
    const json_t *lines = json_object_get(o, "lines");
    print_title(out, o);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        print_line(out, json_array_get(lines, i));
    }
    print_outcome(out, o);
}

/* --- following -------------------------------------------------------------------------------- */

static struct seen *seen_of(struct follower *f, long long session)
{
    for (size_t i = 0; i < SEEN_MAX; i++) {
        if (f->seen[i].session == session) {
            return &f->seen[i];
        }
    }
    struct seen *s = &f->seen[f->next_seen];
    f->next_seen = (f->next_seen + 1) % SEEN_MAX;
    *s = (struct seen){.session = session};
    return s;
}

/* What of the session was not printed yet. */
static void print_new(struct follower *f, const json_t *o)
{
    FILE *out = f->cli->out;
    const json_t *lines = json_object_get(o, "lines");
    struct seen *s = seen_of(f, number_of(o, "session"));
    bool is_open = json_is_true(json_object_get(o, "open"));
    bool is_excerpt = json_is_true(json_object_get(o, "excerpt"));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        long long n = number_of(line, "n");
        if (n < s->lines) {
            continue;
        }
        if (f->last_session != s->session) {
            print_title(out, o);
            f->last_session = s->session;
        }
        /* Where lines were left out a line of the session's own says how many. */
        if (n > s->lines && s->lines > 0 && strncmp(text_of(line, "text"), "... ", 4) != 0) {
            (void)fprintf(out, "           - %lld lines dropped\n", n - s->lines);
        }
        print_line(out, line);
        s->lines = n + 1;
    }
    if (!is_open && !is_excerpt && !s->is_told) {
        if (f->last_session != s->session) {
            print_title(out, o);
            f->last_session = s->session;
        }
        print_outcome(out, o);
        s->is_told = true;
    }
}

static void print_missed(FILE *out, const json_t *end)
{
    long long sessions = number_of(end, "missed_sessions");
    if (sessions > 0) {
        (void)fprintf(out, "%lld sessions dropped, with %lld lines\n", sessions,
                      number_of(end, "missed_lines"));
    }
}

/* Take one answer. returns false when it was cut */
static bool take_trace_answer(struct follower *f, struct api_answer *a, long long *after)
{
    json_t *o = NULL;
    while ((o = api_answer_next(a)) != NULL) {
        if (f->cli->is_json) {
            (void)json_dumpf(o, f->cli->out, JSON_COMPACT); /* the flush below tells */
            (void)fputc('\n', f->cli->out);
        } else {
            print_new(f, o);
        }
        json_decref(o);
    }
    if (!a->has_ended) {
        return false;
    }
    if (!f->cli->is_json) {
        print_missed(f->cli->out, a->end);
    }
    *after = number_of(a->end, "next");
    return fflush(f->cli->out) == 0;
}

static void make_url(struct buf *url, const struct cli_args *args, const char *limit,
                     long long after)
{
    char text[24];
    buf_init(url, 0);
    api_client_url(url, "/v1/trace", "");
    api_client_query(url, "destination", args->argv[0]);
    api_client_query(url, "transport", cli_value(args, "transport"));
    api_client_query(url, "failed", cli_has(args, "failed") ? "1" : NULL);
    api_client_query(url, "limit", limit);
    if (after > 0) {
        (void)snprintf(text, sizeof(text), "%lld", after);
        api_client_query(url, "after", text);
    }
}

/* Until the output or the daemon goes away. The first answer has the last sessions. */
static int follow(struct follower *f, const struct cli_args *args, const char *limit)
{
    long long after = 0;
    int tries = 0;
    for (;;) {
        struct buf url;
        struct api_answer a;
        make_url(&url, args, after == 0 ? limit : "100", after);
        if (url.failed) {
            buf_fini(&url);
            return EX_OSERR;
        }
        int code = api_client_call(f->cli, "GET", url.data, NULL, &a);
        buf_fini(&url);
        bool is_busy = code == EX_UNAVAILABLE && after > 0 && ++tries < PATIENCE_TRIES;
        if (code != 0 && !is_busy) {
            code = api_client_complain(f->cli, "trace", &a, code);
            api_answer_fini(&a);
            return code;
        }
        if (code == 0) {
            tries = 0;
            bool goes_on = take_trace_answer(f, &a, &after);
            if (!goes_on) {
                api_answer_fini(&a);
                return EX_IOERR;
            }
        }
        api_answer_fini(&a);
        (void)usleep(POLL_USEC); /* shorter is as good */
    }
}

int cli_trace(const struct cli *cli, const struct cli_args *args)
{
    const char *limit = cli_value(args, "last");
    limit = limit == NULL ? "4" : limit;
    if (cli_has(args, "follow")) {
        struct follower *f = calloc(1, sizeof(*f));
        if (f == NULL) {
            return EX_OSERR;
        }
        f->cli = cli;
        int code = follow(f, args, limit);
        free(f);
        return code;
    }
    struct buf url;
    make_url(&url, args, limit, 0);
    int code = url.failed
                   ? EX_OSERR
                   : api_client_list(
                         cli, "trace", url.data, cli_trace_print, cli->out,
                         "no session with that destination is recorded; sluice explain DOMAIN says "
                         "which one a domain's mail goes to");
    buf_fini(&url);
    return code;
}
