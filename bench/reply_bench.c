/* Speed of classifying replies by the shipped rules.
 *
 * usage: sluice-reply-bench [FILE]
 * Classifies the examples of the rules, or the replies in FILE, one each line, again and again, and
 * beside them a reply that no rule is about. Prints microseconds of CPU a reply, the best of five. */
#include "base/error.h"
#include "engine/reply/reply_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 5, REPLIES_MAX = 10000, CALLS = 20000 };

struct bench_replies {
    struct reply items[REPLIES_MAX];
    size_t count;
};

static void complain_aloud(void *ctx, bool is_warning, const char *line)
{
    (void)ctx;
    (void)is_warning;
    (void)fprintf(stderr, "%s\n", line);
}

/* The lines stay in memory: replies are slices of them. */
static void read_bench_file(const char *path, struct bench_replies *ret)
{
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    if (in == NULL) {
        perror(path);
        exit(1);
    }
    while ((len = getline(&line, &room, in)) > 0 && ret->count < REPLIES_MAX) {
        reply_read(slice_make(line, (size_t)len), &ret->items[ret->count++]);
        line = NULL;
        room = 0;
    }
    (void)fclose(in); /* it was only read */
}

static void take_examples(const struct reply_set *s, struct bench_replies *ret)
{
    for (size_t i = 0; i < reply_set_count(s); i++) {
        const struct reply_rule *rule = reply_set_rule(s, i);
        struct reply *reply = &ret->items[ret->count++];
        reply_read(slice_of(rule->example), reply);
        reply->stage = reply_rule_stage(rule);
    }
}

static double cpu_usec(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* it always can */
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void measure(const char *what, const struct reply_set *s,
                    const struct bench_replies *replies)
{
    struct reply_matcher *m = reply_matcher_new();
    double best = 0;
    size_t met = 0;
    if (m == NULL) {
        exit(1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double start = cpu_usec();
        met = 0;
        for (size_t i = 0; i < CALLS; i++) {
            struct reply_verdict v;
            reply_set_classify(s, m, &replies->items[i % replies->count], &v);
            met += v.rule != REPLY_NO_RULE;
        }
        double each = (cpu_usec() - start) / CALLS;
        best = round == 0 || each < best ? each : best;
    }
    printf("%-28s %6zu replies, %5.1f %% by a rule: %.2f us a reply\n", what, replies->count,
           100.0 * (double)met / CALLS, best);
    reply_matcher_free(m);
}

int main(int argc, char **argv)
{
    static struct bench_replies replies, none = {.count = 1};
    const struct config_texts files = {NULL, 0};
    const struct config_sink sink = {.complain = complain_aloud};
    struct reply_set *s;
    double start = cpu_usec();
    if (reply_set_load(&files, true, &sink, &s) != 0) {
        return 1;
    }
    printf("%zu rules, loaded in %.1f ms\n", reply_set_count(s), (cpu_usec() - start) / 1000);
    if (argc > 1) {
        read_bench_file(argv[1], &replies);
    } else {
        take_examples(s, &replies);
    }
    reply_read(
        SLICE("451 4.9.9 Quux xyzzy from 192.0.2.1 to 198.51.100.7, see https://mx.example.org/"
              "help?id=AF1234-5678 and try what is written there once more"),
        &none.items[0]);
    if (replies.count > 0) {
        measure(argc > 1 ? argv[1] : "examples of the rules", s, &replies);
    }
    measure("a reply without a rule", s, &none);
    reply_set_free(s);
    return 0;
}
