/* `sluice suspend`, `bounce`, `drop`, `resume`, `orders` and `flush`: standing orders and the mail
 * they are about (order_report.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/order/selector.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* --- what was asked for ----------------------------------------------------------------------- */

/* Every row of these commands has an option for each word. */
static bool has_selector(const struct cli_args *args)
{
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        if (cli_has(args, selector_word_text(word))) {
            return true;
        }
    }
    return false;
}

/* false: out of memory */
static bool set_member(json_t *o, const char *name, const char *value)
{
    return value == NULL || json_object_set_new(o, name, json_string(value)) == 0;
}

/* An object with the selectors. NULL: not understood or out of memory; complained */
static json_t *selector_object(const struct cli *cli, const struct cli_args *args)
{
    struct selector s;
    json_t *o = json_object();
    selector_init(&s);
    for (enum selector_word word = 0; word < SELECTOR_COUNT && o != NULL; word++) {
        const char *name = selector_word_text(word), *value = cli_value(args, name);
        int err = value == NULL ? 0 : selector_set(&s, slice_of(name), slice_of(value));
        if (err != 0 || !set_member(o, name, value)) {
            (void)fprintf(cli->err, "sluice %s: --%s: not empty, UTF-8, at most %d bytes\n",
                          args->row->name, name, SELECTOR_VALUE_MAX);
            json_decref(o);
            o = NULL;
        }
    }
    selector_fini(&s);
    return o;
}

/* Takes the body. returns an exit code, and *ret the answer: NULL when there is none (complained)
 */
static int post(const struct cli *cli, const char *command, const char *path, json_t *body,
                json_t **ret)
{
    struct api_answer a;
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    json_decref(body);
    *ret = NULL;
    if (text == NULL) {
        return EX_OSERR;
    }
    int code = api_client_call(cli, "POST", path, text, &a);
    free(text);
    if (code == 0) {
        *ret = api_answer_object(&a);
        code = *ret == NULL ? EX_PROTOCOL : 0;
    }
    if (code == 0 && cli->is_json) {
        (void)fwrite(a.body.data, 1, a.body.len, cli->out); /* flushed and checked by cli_main */
    }
    (void)api_client_complain(cli, command, &a, code);
    api_answer_fini(&a);
    return code;
}

/* --- printing --------------------------------------------------------------------------------- */

static void print_selectors(FILE *out, const json_t *o)
{
    bool has_any = false;
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        const char *value = cli_member_text(o, selector_word_text(word));
        if (value[0] != '\0') {
            (void)fprintf(out, " %s=", selector_word_text(word));
            cli_print_safe(out, value);
            has_any = true;
        }
    }
    if (cli_member_text(o, "site")[0] != '\0') { /* a reply asked for it */
        (void)fputs(" site=", out);
        cli_print_safe(out, cli_member_text(o, "site"));
        has_any = true;
    }
    if (!has_any) {
        (void)fputs(" all mail", out);
    }
}

static void print_match(FILE *out, const json_t *o)
{
    const json_t *match = json_object_get(o, "would_match");
    if (match != NULL) {
        long long messages = cli_member_number(match, "messages");
        long long recipients = cli_member_number(match, "recipients");
        (void)fprintf(out, ": %lld message%s with %lld recipient%s", messages,
                      messages == 1 ? "" : "s", recipients, recipients == 1 ? "" : "s");
    }
}

/* Not an error: the order may be early. */
static void print_warnings(const struct cli *cli, const char *command, const json_t *o)
{
    const json_t *list = json_object_get(o, "warnings");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        (void)fprintf(cli->err, "sluice %s: warning: ", command);
        cli_print_safe(cli->err, text == NULL ? "" : text);
        (void)fputc('\n', cli->err);
    }
}

static void print_order(const struct cli *cli, const json_t *o)
{
    char span[CLI_SPAN_TEXT];
    if (cli->is_json) {
        return;
    }
    if (cli_member_text(o, "id")[0] != '\0') {
        (void)fprintf(cli->out, "order %s: %s", cli_member_text(o, "id"),
                      cli_member_text(o, "order"));
    } else {
        (void)fprintf(cli->out, "would %s", cli_member_text(o, "order"));
    }
    print_selectors(cli->out, o);
    if (json_is_true(json_object_get(o, "once"))) {
        (void)fputs(", what is queued now", cli->out);
    } else {
        double left = json_number_value(json_object_get(o, "until")) -
                      json_number_value(json_object_get(o, "created"));
        (void)fprintf(cli->out, " for %s", cli_span_text(left, span));
    }
    print_match(cli->out, o);
    (void)fputc('\n', cli->out);
}

/* --- suspend, bounce, drop -------------------------------------------------------------------- */

/* NULL: complained, or out of memory */
static json_t *order_body(const struct cli *cli, const struct cli_args *args, bool is_dry_run)
{
    json_t *o = selector_object(cli, args);
    if (o == NULL) {
        return NULL;
    }
    bool is_suspend = strcmp(args->row->name, "suspend") == 0;
    const char *span = cli_value(args, "for"), *reason = cli_value(args, "reason");
    if (!set_member(o, "order", args->row->name) ||
        !set_member(o, "for", span == NULL && is_dry_run && !is_suspend ? "0" : span) ||
        !set_member(o, "reason", reason == NULL && is_dry_run ? "dry run" : reason) ||
        json_object_set_new(o, "dry_run", json_boolean(is_dry_run)) != 0 ||
        json_object_set_new(o, "all", json_boolean(cli_has(args, "all"))) != 0 ||
        json_object_set_new(o, "here", json_boolean(cli_has(args, "here"))) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static int send_order(const struct cli *cli, const struct cli_args *args, bool is_dry_run)
{
    json_t *answer, *body = order_body(cli, args, is_dry_run);
    if (body == NULL) {
        return EX_USAGE;
    }
    int code = post(cli, args->row->name, "/v1/orders", body, &answer);
    if (code == 0) {
        print_order(cli, answer);
        print_warnings(cli, args->row->name, answer);
    }
    json_decref(answer);
    return code;
}

/* What cannot be undone is shown first and wants a word. */
static int confirm(const struct cli *cli, const struct cli_args *args)
{
    char line[16] = "";
    int code = send_order(cli, args, true);
    if (code != 0) {
        return code;
    }
    if (isatty(fileno(cli->in)) == 0) {
        (void)fprintf(cli->err, "sluice %s: this cannot be undone; again with --yes to do it\n",
                      args->row->name);
        return EX_USAGE;
    }
    (void)fprintf(cli->err, "This cannot be undone. Do it? Type yes: ");
    (void)fflush(cli->err);
    if (fgets(line, sizeof(line), cli->in) == NULL || strcmp(line, "yes\n") != 0) {
        (void)fprintf(cli->err, "nothing was done\n");
        return EX_USAGE;
    }
    return 0;
}

int cli_order(const struct cli *cli, const struct cli_args *args)
{
    const char *name = args->row->name, *missing = NULL;
    bool is_dry_run = cli_has(args, "dry-run"), is_suspend = strcmp(name, "suspend") == 0;
    if (!has_selector(args) && !cli_has(args, "all")) {
        missing = "say which mail: --tenant, --campaign, --domain, --destination, --transport, "
                  "--source, or --all";
    } else if (!is_dry_run && !cli_has(args, "reason")) {
        missing = "--reason TEXT is missing: whoever finds the order wants to know why";
    } else if (!is_dry_run && !is_suspend && !cli_has(args, "for")) {
        missing = "--for SPAN is missing; --for 0 is for what is queued now and no longer";
    }
    if (missing != NULL) {
        (void)fprintf(cli->err, "sluice %s: %s\n", name, missing);
        return EX_USAGE;
    }
    if (!is_dry_run && !is_suspend && !cli_has(args, "yes")) {
        int code = confirm(cli, args);
        if (code != 0) {
            return code;
        }
    }
    return send_order(cli, args, is_dry_run);
}

/* --- resume ----------------------------------------------------------------------------------- */

static int lift(const struct cli *cli, const struct cli_args *args, const char *id)
{
    struct api_answer a = {.status = 0};
    struct buf url;
    buf_init(&url, 0);
    api_client_url(&url, "/v1/orders/", id);
    api_client_query(&url, "reason", cli_value(args, "reason"));
    int code = url.failed ? EX_OSERR : api_client_call(cli, "DELETE", url.data, NULL, &a);
    if (code == 0 && cli->is_json) {
        (void)fwrite(a.body.data, 1, a.body.len, cli->out); /* flushed and checked by cli_main */
    } else if (code == 0) {
        json_t *o = api_answer_object(&a);
        (void)fprintf(cli->out, "ended: %s", cli_member_text(o, "order"));
        print_selectors(cli->out, o);
        (void)fputc('\n', cli->out);
        json_decref(o);
    }
    (void)api_client_complain(cli, "resume", &a, code);
    api_answer_fini(&a);
    buf_fini(&url);
    return code;
}

static bool is_meant(const struct cli_args *args, const struct selector *wanted, const json_t *o)
{
    struct selector s;
    const char *word;
    if (args->argc > 0) {
        return strcmp(cli_member_text(o, "id"), args->argv[0]) == 0;
    }
    selector_init(&s);
    bool is =
        selector_from_json(&s, o, &word) == 0 && (cli_has(args, "all") || selector_eq(&s, wanted));
    selector_fini(&s);
    return is;
}

/* Lift all orders that were given with the same selectors. */
static int lift_all(const struct cli *cli, const struct cli_args *args, struct api_answer *list,
                    const struct selector *wanted)
{
    int code = 0, count = 0;
    json_t *o;
    while (code == 0 && (o = api_answer_next(list)) != NULL) {
        if (is_meant(args, wanted, o)) {
            count++;
            if (cli_has(args, "dry-run")) {
                (void)fputs("would end: ", cli->out);
                print_order(cli, o);
            } else {
                code = lift(cli, args, cli_member_text(o, "id"));
            }
        }
        json_decref(o);
    }
    if (code == 0 && count == 0) {
        (void)fprintf(
            cli->err,
            "sluice resume: no order has this ID, or these selectors; see sluice orders\n");
        code = EX_NOINPUT;
    }
    return code;
}

int cli_resume(const struct cli *cli, const struct cli_args *args)
{
    struct api_answer list;
    struct selector wanted;
    const char *word;
    bool names_order = args->argc > 0;
    if (names_order == (has_selector(args) || cli_has(args, "all"))) {
        (void)fprintf(cli->err, "sluice resume: the ID of an order, or its selectors, or --all\n");
        return EX_USAGE;
    }
    if (names_order && !cli_has(args, "dry-run")) {
        return lift(cli, args, args->argv[0]);
    }
    json_t *object = selector_object(cli, args);
    selector_init(&wanted);
    if (object == NULL || selector_from_json(&wanted, object, &word) != 0) {
        json_decref(object);
        return EX_USAGE;
    }
    int code = api_client_call(cli, "GET", "/v1/orders", NULL, &list);
    code = code != 0 ? api_client_complain(cli, "resume", &list, code)
                     : lift_all(cli, args, &list, &wanted);
    api_answer_fini(&list);
    selector_fini(&wanted);
    json_decref(object);
    return code;
}

/* --- orders ----------------------------------------------------------------------------------- */

static void add_awaited(struct cli_table *t, const json_t *nodes)
{
    struct buf note;
    buf_init(&note, 0);
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const char *name = json_string_value(json_array_get(nodes, i));
        buf_printf(&note, "%s%s", i == 0 ? "not yet at: " : ", ", name == NULL ? "" : name);
    }
    if (note.len > 0 && !note.failed) {
        buf_append_char(&note, '\0');
        cli_table_note(t, note.data);
    }
    buf_fini(&note);
}

static void add_order(void *ctx, const json_t *o)
{
    struct cli_table *t = ctx;
    char span[CLI_SPAN_TEXT];
    struct buf what;
    buf_init(&what, 0);
    for (enum selector_word word = 0; word < SELECTOR_COUNT; word++) {
        const char *value = cli_member_text(o, selector_word_text(word));
        if (value[0] != '\0') {
            buf_printf(&what, "%s%s=%s", what.len > 0 ? " " : "", selector_word_text(word), value);
        }
    }
    if (what.len == 0) {
        buf_append_str(&what, "all mail");
    }
    buf_append_char(&what, '\0');
    cli_table_text(t, cli_member_text(o, "id"));
    cli_table_text(t, cli_member_text(o, "order"));
    cli_table_text(t, what.failed ? "" : what.data);
    cli_table_text(t,
                   json_is_true(json_object_get(o, "once"))
                       ? "once"
                       : cli_span_text(json_number_value(json_object_get(o, "remaining")), span));
    cli_table_number(t, cli_member_number(o, "matched"));
    cli_table_text(t, cli_member_text(o, "by"));
    cli_table_text(t, cli_member_text(o, "reason"));
    add_awaited(t, json_object_get(o, "awaited"));
    buf_fini(&what);
}

int cli_orders(const struct cli *cli, const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"ID", true},      {"ORDER", false}, {"MAIL", false},   {"LEFT", true},
        {"MATCHED", true}, {"BY", false},    {"REASON", false}, {NULL, false},
    };
    struct buf url;
    (void)args; /* the command has no arguments */
    buf_init(&url, 0);
    api_client_url(&url, "/v1/orders", "");
    return api_client_table(cli, "orders", &url, columns, add_order, "no orders");
}

/* --- flush ------------------------------------------------------------------------------------ */

int cli_flush(const struct cli *cli, const struct cli_args *args)
{
    bool is_dry_run = cli_has(args, "dry-run");
    json_t *answer, *body = selector_object(cli, args);
    if (body == NULL || json_object_set_new(body, "dry_run", json_boolean(is_dry_run)) != 0) {
        json_decref(body);
        return EX_USAGE;
    }
    int code = post(cli, "flush", "/v1/flush", body, &answer);
    if (code == 0 && !cli->is_json) {
        (void)fputs(is_dry_run ? "would try" : "tries now:", cli->out);
        print_selectors(cli->out, answer);
        print_match(cli->out, answer);
        (void)fputc('\n', cli->out);
    }
    print_warnings(cli, "flush", answer);
    json_decref(answer);
    return code;
}
