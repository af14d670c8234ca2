/* Shows the settings in force, and of what only a restart changes those of the start. Called on a
 * clerk's thread; of passwords only the names of their files are known. */
#include "engine/report/config_report.h"

#include "base/buf.h"
#include "engine/config/config.h"
#include "engine/config/config_origin.h"
#include "engine/config/config_section.h"
#include "engine/config/config_text.h"
#include "engine/http/clerk.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"

#include <string.h>

/* The only option whose value may itself be a secret; all others are in files of their own. */
static bool is_secret(const struct config_option *o)
{
    return o->section == CONFIG_SECTION_WEBHOOK && strcmp(o->name, "headers") == 0;
}

static void put_option(struct api_call *c, const struct config *from, const struct config_option *o,
                       enum config_section section, size_t index)
{
    char at[CONFIG_ORIGIN_BYTES];
    const char *title = config_section_title(from, section, index);
    struct buf text;
    json_t *object = json_object();
    buf_init(&text, 0);
    if (is_secret(o)) {
        buf_append_str(&text, "(not shown)");
    } else {
        config_text_value(o, config_section_value(from, section, o, index), &text);
    }
    api_set_text(object, "section", slice_of(config_sections[section].name));
    if (title != NULL) {
        api_set_text(object, "title", config_section_shown(section, title));
    }
    api_set_text(object, "option", slice_of(o->name));
    api_set_text(object, "value", text.len > 0 ? buf_slice(&text) : SLICE(""));
    (void)config_origin(from, section, index, o->name, at); /* or "default" */
    api_set_text(object, "at", slice_of(at));
    (void)json_object_set_new(object, "needs_restart", json_boolean(o->needs_restart));
    buf_fini(&text);
    api_put(c, object);
}

/* Options of a section that is in force. */
static void put_section(struct api_call *c, const struct config *started, const struct config *now,
                        enum config_section section, size_t index)
{
    const char *title = config_section_title(now, section, index);
    size_t old = title == NULL ? 0 : config_section_find_title(started, section, title);
    bool is_old = old < config_section_count(started, section);
    if (!is_old && !config_section_is_live(section)) {
        return; /* a new section of this kind takes effect with a restart */
    }
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *o = &config_options[i];
        bool is_shown = o->section == section || (config_option_is_in(o, section) &&
                                                  config_section_sets(now, section, index, o));
        if (is_shown) {
            bool is_fixed = o->needs_restart && is_old;
            put_option(c, is_fixed ? started : now, o, section, is_fixed ? old : index);
        }
    }
}

void config_report_list(struct clerk *k, struct api_call *c)
{
    const struct config *started = k->engine->config;
    const struct config *now = settings_of(k->engine)->config;
    for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
        size_t count = config_section_count(now, (enum config_section)s);
        for (size_t i = 0; i < count && !api_is_long(c); i++) {
            if (s == CONFIG_SECTION_TRANSPORT && now->transports[i].is_gone) {
                continue;
            }
            put_section(c, started, now, (enum config_section)s, i);
        }
    }
    api_end(c, api_is_long(c));
}
