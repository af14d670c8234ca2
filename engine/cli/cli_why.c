/* `sluice why`: what holds mail back, as an indented chain of causes (why_chain.h). */
#include "engine/cli/api_client.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"

#include <string.h>
#include <sysexits.h>

enum { INDENT = 4, LEVEL_MAX = 8 };

/* "  limit NAME = VALUE, set at PLACE" */
static void print_limit(FILE *out, int indent, const json_t *link)
{
    const json_t *value = json_object_get(link, "value");
    if (cli_member_text(link, "limit")[0] == '\0') {
        return;
    }
    (void)fprintf(out, "%*s%s", indent, "", cli_member_text(link, "limit"));
    if (json_is_integer(value)) {
        (void)fprintf(out, " = %lld", (long long)json_integer_value(value));
    } else if (json_is_string(value)) {
        (void)fputs(" = ", out);
        cli_print_safe(out, json_string_value(value));
    }
    const char *at = cli_member_text(link, "at");
    if (at[0] != '\0') {
        (void)fputs(strcmp(at, "default") == 0 ? " (" : " (set at ", out);
        cli_print_safe(out, at);
        (void)fputc(')', out);
    }
    (void)fputc('\n', out);
}

static void print_line(FILE *out, int indent, const char *before, const char *text)
{
    if (text[0] != '\0') {
        (void)fprintf(out, "%*s%s", indent, "", before);
        cli_print_safe(out, text);
        (void)fputc('\n', out);
    }
}

static int link_depth(const json_t *link)
{
    long long level = cli_member_number(link, "level");
    if (level < 0) {
        return 0;
    }
    return level > LEVEL_MAX ? LEVEL_MAX : (int)level;
}

static void print_link(FILE *out, const json_t *link, double now)
{
    char when[CLI_WHEN_TEXT];
    int indent = INDENT * link_depth(link);
    const char *until = cli_when_text(json_object_get(link, "until"), now, when);
    (void)fprintf(out, "%*s", indent, "");
    cli_print_safe(out, cli_member_text(link, "what"));
    (void)fputc('\n', out);
    print_line(out, indent + 2, "because ", cli_member_text(link, "because"));
    print_limit(out, indent + 2, link);
    double at = json_number_value(json_object_get(link, "until"));
    print_line(out, indent + 2, "changes ",
               until[0] != '\0' && at <= now ? "now: it is overdue" : until);
    print_line(out, indent + 2, "", cli_member_text(link, "next"));
}

static void print_about(FILE *out, const json_t *about)
{
    static const char *const kinds[] = {"message", "destination", "tenant"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *name = cli_member_text(about, kinds[i]);
        if (name[0] != '\0') {
            (void)fprintf(out, "%s ", kinds[i]);
            cli_print_safe(out, name);
            (void)fputc('\n', out);
            return; /* a message has a tenant as well */
        }
    }
}

void cli_why_print(void *ctx, const json_t *o)
{
    FILE *out = ctx;
    char when[CLI_WHEN_TEXT];
    const json_t *chain = json_object_get(o, "chain");
    const json_t *next = json_object_get(o, "next_change");
    double now = cli_now();
    print_about(out, json_object_get(o, "about"));
    for (size_t i = 0; i < json_array_size(chain); i++) {
        print_link(out, json_array_get(chain, i), now);
    }
    if (next != NULL) {
        (void)fprintf(out, "next change %s\n", cli_when_text(next, now, when));
    }
}

static const char *question_kind(const struct cli_args *args)
{
    const char *name = args->argv[0];
    if (cli_has(args, "destination") || cli_has(args, "tenant")) {
        return cli_has(args, "destination") ? "destination" : "tenant";
    }
    if (strlen(name) == 16 && strspn(name, "0123456789abcdefABCDEF") == 16) {
        return "message";
    }
    return strpbrk(name, ".[") != NULL ? "destination" : "tenant";
}

int cli_why(const struct cli *cli, const struct cli_args *args)
{
    struct buf url;
    if (cli_has(args, "destination") && cli_has(args, "tenant")) {
        (void)fprintf(cli->err, "sluice why: --destination or --tenant, not both\n");
        return EX_USAGE;
    }
    buf_init(&url, 0);
    api_client_url(&url, "/v1/why", "");
    api_client_query(&url, question_kind(args), args->argv[0]);
    int code =
        url.failed ? EX_OSERR : api_client_show(cli, "why", url.data, cli_why_print, cli->out);
    buf_fini(&url);
    return code;
}
