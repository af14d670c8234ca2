/* `sluice counts`: how much is queued, in groups (counts_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <string.h>
#include <sysexits.h>

void cli_filter(struct buf *url, const struct cli_args *args)
{
    static const char *const names[] = {"tenant",    "campaign", "domain", "destination",
                                        "transport", "source",   "sender", "recipient",
                                        "state",     "older"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        api_client_query(url, names[i], cli_value(args, names[i]));
    }
}

#define WORDS_MAX 10 /* the number of words that mail can be counted by */

struct group {
    const char *word, *title;
};

static const struct group groups[WORDS_MAX] = {
    {"tenant", "TENANT"},       {"campaign", "CAMPAIGN"},
    {"domain", "DOMAIN"},       {"destination", "DESTINATION"},
    {"transport", "TRANSPORT"}, {"source", "SOURCES"},
    {"state", "STATE"},         {"age", "AGE"},
    {"class", "CLASS"},         {"mail_class", "MAIL CLASS"},
};

struct counts {
    struct cli_table table;
    const struct group *by[WORDS_MAX];
    size_t by_count;
    bool is_of_nodes;
};

/* The words of --by in their order. Which are none the daemon says. */
static void take_words(struct counts *c, const char *words)
{
    while (*words != '\0') {
        size_t len = strcspn(words, ",");
        for (size_t i = 0; i < WORDS_MAX && c->by_count < WORDS_MAX; i++) {
            if (strlen(groups[i].word) == len && strncmp(groups[i].word, words, len) == 0) {
                c->by[c->by_count++] = &groups[i];
            }
        }
        words += len + (words[len] == ',' ? 1 : 0);
    }
}

static const char *cell_text(const json_t *o, const char *word)
{
    const char *value = cli_member_text(o, word);
    if (json_is_true(json_object_get(o, "other"))) {
        return "(others)";
    }
    return value[0] == '\0' ? "-" : value;
}

static void add_counts_row(struct counts *c, const json_t *o)
{
    char when[CLI_WHEN_TEXT];
    if (c->is_of_nodes) {
        cli_table_text(&c->table, cli_member_text(o, "node"));
    }
    for (size_t i = 0; i < c->by_count; i++) {
        cli_table_text(&c->table, cell_text(o, c->by[i]->word));
    }
    cli_table_number(&c->table, cli_member_number(o, "recipients"));
    cli_table_number(&c->table, cli_member_number(o, "messages"));
    cli_table_text(&c->table, cli_when_text(json_object_get(o, "oldest"), cli_now(), when));
}

/* "9 recipients in 7 messages, counted 2s ago in 0.004 s"; of several nodes without the latter */
static void print_sums(const struct cli *cli, const json_t *end)
{
    char when[CLI_WHEN_TEXT];
    long long recipients = cli_member_number(end, "recipients");
    long long messages = cli_member_number(end, "messages");
    (void)fprintf(cli->out, "%lld recipient%s in %lld message%s", recipients,
                  recipients == 1 ? "" : "s", messages, messages == 1 ? "" : "s");
    if (cli->is_all_nodes) {
        size_t absent = json_array_size(json_object_get(end, "absent"));
        size_t there = json_array_size(json_object_get(end, "nodes")) - absent;
        (void)fprintf(cli->out, " of %zu node%s%s\n", there, there == 1 ? "" : "s",
                      absent == 0 ? "" : "; others are missing");
    } else {
        (void)fprintf(cli->out, ", counted %s in %.3f s\n",
                      cli_when_text(json_object_get(end, "as_of"), cli_now(), when),
                      json_number_value(json_object_get(end, "took")));
    }
    if (cli_member_number(end, "damaged") > 0) {
        (void)fprintf(cli->out, "%lld messages are damaged and not counted\n",
                      cli_member_number(end, "damaged"));
    }
}

/* The whole answer as a table. returns an exit code; everything was said */
static int print_counts(const struct cli *cli, const char *url, struct counts *c)
{
    struct api_answer a;
    json_t *row;
    int code = api_client_call(cli, "GET", url, NULL, &a);
    while (code == 0 && (row = api_answer_next(&a)) != NULL) {
        add_counts_row(c, row);
        json_decref(row);
    }
    if (code == 0 && !a.has_ended) {
        code = EX_IOERR;
    }
    if (code == 0) {
        cli_table_print(&c->table, cli->out);
        print_sums(cli, a.end);
    }
    if (code == 0 && a.has_more) {
        (void)fprintf(cli->err,
                      "sluice counts: there are more groups; narrow it, or use --limit\n");
    }
    code = c->is_of_nodes ? api_client_tell_absent(cli, "counts", &a, code) : code;
    code = api_client_complain(cli, "counts", &a, code);
    api_answer_fini(&a);
    return code;
}

int cli_counts(const struct cli *cli, const struct cli_args *args)
{
    struct cli_column columns[WORDS_MAX + 5] = {{NULL, false}};
    struct counts c = {.is_of_nodes = cli->is_all_nodes};
    struct buf url;
    size_t n = 0;
    const char *by = cli_has(args, "by") ? cli_value(args, "by") : "state";
    take_words(&c, by);
    columns[0].title = "NODE";
    n += c.is_of_nodes ? 1 : 0;
    for (size_t i = 0; i < c.by_count; i++) {
        columns[n++] = (struct cli_column){c.by[i]->title, false};
    }
    columns[n++] = (struct cli_column){"RECIPIENTS", true};
    columns[n++] = (struct cli_column){"MESSAGES", true};
    columns[n++] = (struct cli_column){"OLDEST", true};
    buf_init(&url, 0);
    api_client_url(&url, "/v1/counts", "");
    api_client_query(&url, "by", by);
    api_client_query(&url, "limit", cli_value(args, "limit"));
    cli_filter(&url, args);
    cli_table_init(&c.table, columns);
    int code = EX_OSERR;
    if (!url.failed) {
        code = cli->is_json ? api_client_list(cli, "counts", url.data, NULL, NULL, NULL)
                            : print_counts(cli, url.data, &c);
    }
    cli_table_fini(&c.table);
    buf_fini(&url);
    return code;
}
