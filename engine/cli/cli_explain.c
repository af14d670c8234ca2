/* Every option of a section, with its value and where it was set. From the configuration file alone;
 * the running daemon's are GET /v1/config. Used by `sluice check --explain` and `sluice explain`. */
#include "engine/cli/cli_explain.h"

#include "base/slice.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_table.h"
#include "engine/config/config_origin.h"
#include "engine/config/config_section.h"
#include "engine/config/config_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* --- options ---------------------------------------------------------------------------------- */

static const struct cli_column columns[] = {
    {"OPTION", false}, {"VALUE", false}, {"SET AT", false}, {NULL, false}};

/* "" when it is not set at all */
static char *value_of(const struct config *c, enum config_section section,
                      const struct config_option *o, size_t index)
{
    struct buf text;
    buf_init(&text, 0);
    config_text_value(o, config_section_value(c, section, o, index), &text);
    char *value = text.failed ? NULL : slice_dup(buf_slice(&text));
    buf_fini(&text);
    return value;
}

/* Calls `take` for each row of one section; out of memory: for fewer. */
static void each_option(const struct config *c, enum config_section section, size_t index,
                        cli_explain_take *take, void *ctx)
{
    char at[CONFIG_ORIGIN_BYTES];
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        bool is_shown = o->section == section || (config_option_is_in(o, section) &&
                                                  config_section_sets(c, section, index, o));
        char *value = is_shown ? value_of(c, section, o, index) : NULL;
        if (value != NULL) {
            (void)config_origin(c, section, index, o->name, at); /* or "default" */
            take(ctx, o->name, value, at);
        }
        free(value);
    }
}

void cli_explain_begin(struct cli_table *t)
{
    cli_table_init(t, columns);
}

void cli_explain_row(void *ctx, const char *option, const char *value, const char *at)
{
    struct cli_table *t = ctx;
    cli_table_text(t, option);
    cli_table_text(t, value);
    cli_table_text(t, at);
}

void cli_explain_object(void *ctx, const char *option, const char *value, const char *at)
{
    json_t *o = json_pack("{s:s, s:s?, s:s}", "option", option, "value", value, "at", at);
    (void)json_array_append_new(ctx, o); /* NULL, not UTF-8 or no memory: the list is shorter */
}

void cli_explain_section(FILE *out, const struct config *c, enum config_section section,
                         size_t index)
{
    char at[CONFIG_ORIGIN_BYTES];
    struct cli_table t;
    const char *title = config_section_title(c, section, index);
    if (title != NULL) {
        (void)config_origin(c, section, index, NULL, at); /* a section with a title has a place */
        (void)fprintf(out, "\n%s \"", config_sections[section].name);
        cli_print_safe(out, title);
        (void)fputs("\" at ", out);
        cli_print_safe(out, at);
        (void)fputc('\n', out);
    } else {
        (void)fprintf(out, "\n%s\n",
                      section == CONFIG_SECTION_GLOBAL ? "top level"
                                                       : config_sections[section].name);
    }
    cli_explain_begin(&t);
    each_option(c, section, index, cli_explain_row, &t);
    cli_table_print(&t, out);
    cli_table_fini(&t);
}

json_t *cli_explain_section_object(const struct config *c, enum config_section section,
                                   size_t index)
{
    char at[CONFIG_ORIGIN_BYTES];
    json_t *options = json_array();
    (void)config_origin(c, section, index, NULL, at);
    each_option(c, section, index, cli_explain_object, options);
    return json_pack("{s:s, s:s, s:o}", "name", config_section_title(c, section, index), "at", at,
                     "options", options);
}

void cli_explain_all(const struct cli *cli, const struct config *c)
{
    for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
        size_t count = config_section_count(c, (enum config_section)s);
        for (size_t i = 0; i < count; i++) {
            cli_explain_section(cli->out, c, (enum config_section)s, i);
        }
    }
}
