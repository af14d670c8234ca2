/* `sluice classify`: what replies mean by the rules of the configuration, and which rule says so.
 * Needs no daemon. */
#include "base/buf.h"
#include "base/error.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/config/config.h"
#include "engine/reply/reply_set.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

struct classifier {
    const struct cli *cli;
    struct reply_set *set;
    struct reply_matcher *matcher;
    struct slice provider;
    enum reply_stage stage;
    bool is_table; /* several replies: a row each */
    struct cli_table table;
};

static void complain(void *ctx, bool is_warning, const char *line)
{
    (void)is_warning; /* the line says so */
    (void)fprintf(ctx, "%s\n", line);
}

/* --- what is said ----------------------------------------------------------------------------- */

/* "slow 0.5, pause 10m"; of a rule without any, and without a rule, what the class does. */
static void put_actions(const struct reply_rule *rule, struct buf *out)
{
    char text[REPLY_ACTION_TEXT_MAX];
    for (uint32_t i = 0; rule != NULL && i < rule->action_count; i++) {
        buf_append_str(out, i == 0 ? "" : ", ");
        buf_append_str(out, reply_action_text(&rule->actions[i], text));
    }
    if (rule == NULL || rule->action_count == 0) {
        buf_append_str(out, "by class");
    }
    buf_append_char(out, '\0');
}

static void put_place(const struct reply_rule *rule, const struct reply_verdict *v, struct buf *out)
{
    if (rule != NULL) {
        buf_printf(out, "%s:%u", rule->file, rule->line);
    } else if (v->why != NULL) {
        buf_printf(out, "no rule; by %s", v->why);
    }
    buf_append_char(out, '\0');
}

static const char *or_dash(const char *text)
{
    return text[0] == '\0' ? "-" : text;
}

static void say_lines(const struct classifier *c, const struct reply_verdict *v,
                      const char *actions, const char *rule, const char *place)
{
    FILE *out = c->cli->out;
    (void)fprintf(out, "class   %s\n", or_dash(reply_class_text(v->class)));
    (void)fprintf(out, "scope   %s\n", or_dash(reply_scope_text(v->scope)));
    (void)fprintf(out, "action  %s\n", actions);
    (void)fprintf(out, "rule    %s\n", or_dash(rule));
    (void)fputs("at      ", out);
    cli_print_safe(out, or_dash(place));
    (void)fputc('\n', out);
}

static void say_json(const struct classifier *c, struct slice line, const struct reply_verdict *v,
                     const char *actions, const struct reply_rule *rule)
{
    json_t *o =
        json_pack("{s:s, s:s%}", "class", reply_class_text(v->class), "reply", line.data, line.len);
    if (o == NULL) { /* it is not UTF-8 */
        o = json_pack("{s:s}", "class", reply_class_text(v->class));
    }
    if (v->scope != REPLY_SCOPE_NONE) {
        (void)json_object_set_new(o, "scope", json_string(reply_scope_text(v->scope)));
    }
    (void)json_object_set_new(o, "action", json_string(actions)); /* no memory: it is missing */
    if (rule != NULL) {
        (void)json_object_set_new(o, "rule", json_string(rule->name));
        (void)json_object_set_new(o, "file", json_string(rule->file));
        (void)json_object_set_new(o, "line", json_integer(rule->line));
    } else if (v->why != NULL) {
        (void)json_object_set_new(o, "why", json_string(v->why));
    }
    (void)json_dumpf(o, c->cli->out, JSON_COMPACT); /* a full disk is told at the flush */
    (void)fputc('\n', c->cli->out);
    json_decref(o);
}

static void add_row(struct classifier *c, const struct reply_verdict *v, const char *actions,
                    const char *rule, const char *place, struct slice line)
{
    char *note = slice_dup(line);
    cli_table_text(&c->table, or_dash(reply_class_text(v->class)));
    cli_table_text(&c->table, or_dash(reply_scope_text(v->scope)));
    cli_table_text(&c->table, actions);
    cli_table_text(&c->table, or_dash(rule));
    cli_table_text(&c->table, place);
    cli_table_note(&c->table, note == NULL ? "" : note);
    free(note);
}

static int classify(struct classifier *c, struct slice line)
{
    struct reply reply;
    struct reply_verdict v;
    struct buf actions, place;
    reply_read(line, &reply);
    reply.provider = c->provider;
    reply.stage = c->stage != REPLY_AT_NOTHING ? c->stage : reply.stage;
    reply_set_classify(c->set, c->matcher, &reply, &v);
    const struct reply_rule *rule = v.rule == REPLY_NO_RULE ? NULL : reply_set_rule(c->set, v.rule);
    const char *name = rule == NULL ? "" : rule->name;
    buf_init(&actions, 0);
    buf_init(&place, 0);
    put_actions(rule, &actions);
    put_place(rule, &v, &place);
    int code = actions.failed || place.failed ? EX_OSERR : EX_OK;
    if (code == EX_OK && c->cli->is_json) {
        say_json(c, line, &v, actions.data, rule);
    } else if (code == EX_OK && c->is_table) {
        add_row(c, &v, actions.data, name, place.data, line);
    } else if (code == EX_OK) {
        say_lines(c, &v, actions.data, name, place.data);
    }
    buf_fini(&actions);
    buf_fini(&place);
    return code;
}

/* --- what is asked ---------------------------------------------------------------------------- */

static int classify_lines(struct classifier *c, FILE *in)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    int code = EX_OK;
    while (code == EX_OK && (len = getline(&line, &room, in)) >= 0) {
        struct slice text = slice_trim(slice_make(line, (size_t)len));
        if (text.len > 0) {
            code = classify(c, text);
        }
    }
    free(line);
    return code;
}

static int classify_file(struct classifier *c, const char *path)
{
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        (void)fprintf(c->cli->err, "sluice classify: %s: %s\n", path, strerror(errno));
        return EX_NOINPUT;
    }
    int code = classify_lines(c, in);
    (void)fclose(in); /* it was only read */
    return code;
}

/* `sluice classify 550 5.1.1 no such user`, without quotes: all operands are one reply. */
static bool is_one_reply(int argc, char **argv)
{
    const char *first = argv[0];
    return argc > 1 && strlen(first) == 3 && isdigit((unsigned char)first[0]) &&
           isdigit((unsigned char)first[1]) && isdigit((unsigned char)first[2]);
}

static int classify_operands(struct classifier *c, int argc, char **argv)
{
    struct buf joined;
    int code = EX_OK;
    buf_init(&joined, 0);
    bool is_one = is_one_reply(argc, argv);
    for (int i = 0; i < argc; i++) {
        buf_printf(&joined, "%s%s", i == 0 ? "" : " ", argv[i]);
    }
    if (joined.failed) {
        code = EX_OSERR;
    } else if (is_one) {
        code = classify(c, buf_slice(&joined));
    }
    c->is_table = c->is_table || (argc > 1 && !is_one);
    for (int i = 0; i < argc && !is_one && code == EX_OK; i++) {
        code = classify(c, slice_of(argv[i]));
    }
    buf_fini(&joined);
    return code;
}

static int run(struct classifier *c, const struct cli_args *args)
{
    static const struct cli_column columns[] = {{"CLASS", false},  {"SCOPE", false},
                                                {"ACTION", false}, {"RULE", false},
                                                {"AT", false},     {NULL, false}};
    const char *file = cli_value(args, "file");
    int code = EX_OK;
    cli_table_init(&c->table, columns);
    c->is_table = file != NULL || args->argc == 0;
    if (file != NULL) {
        code = classify_file(c, file);
    } else if (args->argc == 0) {
        code = classify_lines(c, c->cli->in);
    }
    if (code == EX_OK && args->argc > 0) {
        code = classify_operands(c, args->argc, args->argv);
    }
    cli_table_print(&c->table, c->cli->out);
    cli_table_fini(&c->table);
    return code;
}

int cli_classify(const struct cli *cli, const struct cli_args *args)
{
    const char *provider = cli_value(args, "provider"), *stage = cli_value(args, "stage");
    struct classifier c = {
        .cli = cli,
        .provider = slice_of(provider == NULL ? "" : provider),
        .stage = stage == NULL ? REPLY_AT_NOTHING : reply_stage_find(slice_of(stage)),
    };
    struct config *config = NULL;
    const struct config_sink sink = {.complain = complain, .ctx = cli->err};
    int code = cli_config(cli, false, &config);
    if (code != 0) {
        return code;
    }
    int err = reply_set_load(&config->reply_files, config->has_shipped_replies, &sink, &c.set);
    c.matcher = reply_matcher_new();
    if (err == ERR_SYNTAX) {
        code = EX_CONFIG;
    } else if (err != 0 || c.matcher == NULL) {
        code = EX_OSERR;
    } else if (cli_has(args, "unknown")) {
        code = cli_unknown(cli, args, c.set, c.matcher);
    } else {
        code = run(&c, args);
    }
    reply_matcher_free(c.matcher);
    reply_set_free(c.set);
    config_free(config);
    return code;
}
