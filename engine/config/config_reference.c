/* Owns the shape of docs/configuration.md; every word about an option comes from the table. Called
 * by `sluice check --reference`. */
#include "engine/config/config.h"
#include "engine/config/config_lint.h"
#include "engine/config/config_option.h"

#include <limits.h>
#include <string.h>

static const char not_yet[] = " (This version checks it, and does not act on it yet.)";

static const char *type_text(const struct config_option *o)
{
    static const char *const texts[CONFIG_TYPE_COUNT] = {
        [CONFIG_TYPE_INT] = "number",
        [CONFIG_TYPE_BOOL] = "yes or no",
        [CONFIG_TYPE_TIME] = "time",
        [CONFIG_TYPE_SIZE] = "size",
        [CONFIG_TYPE_TEXT] = "text",
        [CONFIG_TYPE_FEEDBACK] = "feedback",
        [CONFIG_TYPE_CHOICE] = "one of",
        [CONFIG_TYPE_IP] = "address",
        [CONFIG_TYPE_ADDRESS] = "address and port",
        [CONFIG_TYPE_RATE] = "rate",
        [CONFIG_TYPE_QUOTA] = "quota",
        [CONFIG_TYPE_DATE] = "date",
        [CONFIG_TYPE_TEXTS] = "list of names",
        [CONFIG_TYPE_PATTERNS] = "list of patterns",
        [CONFIG_TYPE_QUOTAS] = "list of quotas",
        [CONFIG_TYPE_NUMBERS] = "list of numbers",
        [CONFIG_TYPE_NETWORKS] = "list of networks",
        [CONFIG_TYPE_ADDRESSES] = "list of addresses",
    };
    return texts[o->type];
}

static void print_range(FILE *out, const struct config_option *o)
{
    const char *unit = o->type == CONFIG_TYPE_TIME ? "s" : "";
    if (o->type == CONFIG_TYPE_INT || o->type == CONFIG_TYPE_NUMBERS ||
        o->type == CONFIG_TYPE_TIME) {
        if (o->max >= INT_MAX) {
            (void)fprintf(out, ", %lld%s or more", (long long)o->min, unit);
        } else {
            (void)fprintf(out, ", %lld%s to %lld%s", (long long)o->min, unit, (long long)o->max,
                          unit);
        }
    } else if (o->type == CONFIG_TYPE_SIZE && o->min > 0) {
        (void)fprintf(out, ", %lldM or more", (long long)(o->min >> 20));
    } else if (o->type == CONFIG_TYPE_CHOICE) {
        for (size_t i = 0; o->choices[i] != NULL; i++) {
            (void)fprintf(out, "%s `%s`", i == 0 ? "" : ",", o->choices[i]);
        }
    }
}

static void print_option(FILE *out, const struct config_option *o)
{
    (void)fprintf(out, "### %s\n\n*%s", o->name, type_text(o));
    print_range(out, o);
    if (o->initial_doc != NULL) {
        (void)fprintf(out, "; default: %s*\n\n", o->initial_doc);
    } else {
        (void)fprintf(out, "; default: `%s`*\n\n", o->initial);
    }
    (void)fprintf(out, "%s%s%s\n\n", o->doc,
                  o->needs_restart ? " A change of it needs a restart." : "",
                  config_lint_is_inert(o->section, o->name) ? not_yet : "");
}

/* The names of a transport's options that the section has, of lanes or not. */
static void print_names(FILE *out, enum config_section section, bool is_lanes)
{
    const char *separator = "";
    bool is_inert = config_lint_is_inert(section, NULL);
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        if (o->is_receivers && o->is_lanes == is_lanes) {
            (void)fprintf(out, "%s`%s`%s", separator, o->name,
                          !is_inert && config_lint_is_inert(section, o->name) ? " (not yet)" : "");
            separator = ", ";
        }
    }
}

static void print_receivers(FILE *out, enum config_section section)
{
    (void)fputs("Options of `transport` that may stand here, about the site and its connections: ",
                out);
    print_names(out, section, true);
    (void)fputs("; about a destination: ", out);
    print_names(out, section, false);
    (void)fputs(".\n\n", out);
    if (section == CONFIG_SECTION_DOMAIN) {
        (void)fputs("With one of the first kind the domain is a site of its own, whatever other "
                    "domains have its hosts; where a provider has it, they are bounds for this "
                    "domain beside those of the provider's site (which this version checks, and "
                    "does not keep yet).\n\n",
                    out);
    }
}

static void print_section(FILE *out, enum config_section section)
{
    const struct config_section_info *info = &config_sections[section];
    if (section == CONFIG_SECTION_GLOBAL) {
        (void)fprintf(out, "## Top level\n\n");
    } else if (info->title != NULL) {
        (void)fprintf(out, "## %s \"%s\" { }\n\n", info->name, info->title);
    } else {
        (void)fprintf(out, "## %s { }\n\n", info->name);
    }
    (void)fprintf(out, "%s%s\n\n", info->doc, config_lint_is_inert(section, NULL) ? not_yet : "");
    for (size_t i = 0; i < config_option_count; i++) {
        if (config_options[i].section == section) {
            print_option(out, &config_options[i]);
        }
    }
    if (section == CONFIG_SECTION_PROVIDER || section == CONFIG_SECTION_DOMAIN) {
        print_receivers(out, section);
    }
}

static const char head[] =
    "# Configuration reference\n"
    "\n"
    "This file is generated by `sluice check --reference`; edit engine/config/config_option.c "
    "instead.\n"
    "\n"
    "`sluice check -c FILE` says whether a configuration is right and, if not, what is wrong in\n"
    "which line and what would be right. Every command reads /etc/sluice/sluice.conf unless `-c`\n"
    "or the environment's SLUICE_CONFIG names another file.\n"
    "\n"
    "```\n"
    "spool { path = \"/var/spool/sluice\" }\n"
    "listener \"127.0.0.1:2525\" { relay_from = {\"127.0.0.0/8\"} }\n"
    "transport smtp { destination_concurrency_limit = 20 }\n"
    "route \"*\" { transport = \"smtp\" }\n"
    "```\n"
    "\n"
    "## Syntax\n"
    "\n"
    "`NAME = VALUE`, lists as `NAME = {VALUE, VALUE}`, sections as `SECTION { ... }` or\n"
    "`SECTION \"TITLE\" { ... }`. A value with anything but letters, digits and `. - _ / : [ ]` "
    "stands\n"
    "in quotes. Comments begin with `#` or `//`, or stand between `/*` and `*/`. Inside double "
    "quotes\n"
    "`${NAME}` is replaced by the environment variable. `include(\"FILE\")` at the top level "
    "reads\n"
    "another file; a relative name starts at the folder of the including file. With `*`, `?` or "
    "`[ ]`\n"
    "in it, `include(\"conf.d/*.conf\")`, it reads all files that match, in the order of their "
    "names;\n"
    "there may be none. An option may be "
    "set\n"
    "once in each section, and a title used once for each kind of section.\n"
    "\n"
    "- *number*: decimal digits.\n"
    "- *time*: a whole number and `s`, `m`, `h`, `d` or `w`; seconds when no unit is written. "
    "Also\n"
    "  several, the largest unit first, as they are printed: `2h30m`, and `ms` at the end: "
    "`1s500ms`.\n"
    "  For `destination_rate_delay` and `transport_rate_delay` also a rate, `100/m`: the pause "
    "that "
    "follows\n"
    "  from it, in whole milliseconds, never a shorter one.\n"
    "- *size*: a whole number of bytes, or with `K`, `M`, `G` or `T` (powers of 1,024).\n"
    "- *rate*: a whole number of messages, recipients or connections in a time, `100/s`, "
    "`600/min`, `\"5,000/h\"`,\n"
    "  `\"50 per day\"`, with a burst that may go at once `\"600/min, burst 10\"`; `none`.\n"
    "- *quota*: so many in each hour or day of UTC, `200/h`, `5000/d`; `none`.\n"
    "- *date*: `2026-12-01`.\n"
    "- *pattern*: a name, in front of which stands `*.` once for each label that may be any: "
    "`*.example.com`\n"
    "  is `mx1.example.com`, and neither `example.com` nor `a.mx1.example.com`.\n"
    "- *yes or no*: `yes`, `true`, `on`; `no`, `false`, `off`.\n"
    "- *network*: an address or a prefix without host bits, `192.0.2.0/24`, `2001:db8::/32`.\n"
    "\n"
    "Everything that is not understood is an error: unknown names, values out of range, a route "
    "to\n"
    "a transport that does not exist. A configuration with an error starts nothing (exit code "
    "78).\n"
    "\n";

static const char tail[] =
    "## Parameters of Postfix that have no counterpart\n"
    "\n"
    "`transport_retry_time`, `daemon_timeout`, `ipc_timeout`: there are no delivery agents that\n"
    "could be silent or missing. `in_flow_delay`: `intake_memory` brakes intake.\n"
    "`qmgr_clog_warn_time` and `address_verify_pending_request_limit`: no such feature.\n"
    "`smtp_xforward_timeout`: XFORWARD is not sent.\n";

void config_reference_print(FILE *out)
{
    (void)fputs(head, out);
    for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
        print_section(out, (enum config_section)s);
    }
    (void)fputs(tail, out);
}
