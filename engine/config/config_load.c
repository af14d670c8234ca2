/* Owns one reading of the configuration: libconfuse as the parser, every complaint with its file
 * and line.
 *
 * libconfuse ends at the first statement it does not know. Then that statement is blanked
 * (config_source.c) and the text parsed again, so one run shows all mistakes. Its callbacks take no
 * context: `loading` is the reading in progress, one at a time in a process. */
#include "engine/config/config_load.h"

#include "base/buf.h"
#include "base/error.h"
#include "engine/config/config_fill.h"
#include "engine/config/config_foreign.h"
#include "engine/config/config_source.h"
#include "engine/config/config_value.h"

#include <confuse.h>
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PASSES        100
#define MAX_INCLUDE_DEPTH 10
#define MAX_COMPLAINTS    200
#define MAX_SOURCES       1000

struct complaint {
    struct config_place place;
    size_t order; /* of those at the same place */
    bool is_warning;
    bool is_kept; /* survives the next pass, which cannot find it again */
    char *text;   /* "key: message" */
};

enum obstacle { OBSTACLE_NONE, OBSTACLE_UNKNOWN, OBSTACLE_DUPLICATE };

struct config_loader {
    struct config_source *sources;
    size_t source_count;
    size_t current; /* source being parsed */
    int include_depth;
    struct complaint *complaints;
    size_t complaint_count, next_order;
    cfg_opt_t *opts[CONFIG_SECTION_COUNT];
    cfg_t *root;
    enum obstacle obstacle; /* what ended the pass */
    struct config_place obstacle_place;
    char obstacle_name[256];
    bool has_told_unclosed; /* the library's own words about it come too late in the file */
    bool out_of_memory;
};

static struct config_loader *loading;

/* --- complaints ------------------------------------------------------------------------------- */

static void add_complaint(struct config_loader *l, struct config_place place, bool is_warning,
                          const char *key, const char *message)
{
    if (l->complaint_count == MAX_COMPLAINTS) {
        return;
    }
    struct complaint *c = &l->complaints[l->complaint_count];
    *c = (struct complaint){place, l->next_order++, is_warning, false, NULL};
    if (asprintf(&c->text, "%s: %s%s", key, is_warning ? "warning: " : "", message) < 0) {
        l->out_of_memory = true;
        return;
    }
    for (char *p = c->text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = '?'; /* complaints go to terminals */
        }
    }
    l->complaint_count++;
}

void config_complain(struct config_loader *l, struct config_place place, const char *key,
                     const char *fmt, ...)
{
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap); /* cut where it is too long */
    va_end(ap);
    add_complaint(l, place, false, key, message);
}

void config_warn(struct config_loader *l, struct config_place place, const char *key,
                 const char *fmt, ...)
{
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    add_complaint(l, place, true, key, message);
}

/* A new pass finds everything again except what was blanked. */
static void drop_complaints(struct config_loader *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->complaint_count; i++) {
        if (l->complaints[i].is_kept) {
            l->complaints[kept++] = l->complaints[i];
        } else {
            free(l->complaints[i].text);
        }
    }
    l->complaint_count = kept;
}

static int compare_complaints(const void *a, const void *b)
{
    const struct complaint *x = a;
    const struct complaint *y = b;
    if (x->place.source != y->place.source) {
        return x->place.source < y->place.source ? -1 : 1;
    }
    if (x->place.line != y->place.line) {
        return x->place.line < y->place.line ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

/* returns true when one of the complaints is an error */
static bool tell_complaints(struct config_loader *l, const struct config_sink *sink)
{
    bool has_error = false;
    qsort(l->complaints, l->complaint_count, sizeof(l->complaints[0]), compare_complaints);
    for (size_t i = 0; i < l->complaint_count; i++) {
        const struct complaint *c = &l->complaints[i];
        const char *file = l->sources[c->place.source].name;
        char line[1400];
        if (c->place.line > 0) {
            (void)snprintf(line, sizeof(line), "%s:%u: %s", file, c->place.line, c->text);
        } else {
            (void)snprintf(line, sizeof(line), "%s: %s", file, c->text);
        }
        has_error = has_error || !c->is_warning;
        sink->complain(sink->ctx, c->is_warning, line);
    }
    return has_error;
}

/* --- what libconfuse calls -------------------------------------------------------------------- */

static enum config_section section_of(const cfg_t *cfg)
{
    return strcmp(cfg->name, "root") == 0 ? CONFIG_SECTION_GLOBAL : config_section_find(cfg->name);
}

static struct config_place place_here(const cfg_t *cfg)
{
    return (struct config_place){loading->current, cfg->line > 0 ? (unsigned)cfg->line : 0};
}

static void set_place(cfg_opt_t *opt, const cfg_t *cfg)
{
    opt->def.number = cfg->line;
    opt->def.fpnumber = (double)loading->current;
}

/* The first section that has an option of this name; CONFIG_SECTION_COUNT: none has. */
static enum config_section owner_of(const char *name)
{
    for (int s = CONFIG_SECTION_GLOBAL; s < CONFIG_SECTION_COUNT; s++) {
        const struct config_option *o = config_option_find((enum config_section)s, name);
        if (o != NULL) {
            return o->section;
        }
    }
    return CONFIG_SECTION_COUNT;
}

static void complain_unknown_section(cfg_t *cfg, const char *name)
{
    const struct config_foreign *foreign = config_foreign_find(name);
    const char *nearest = config_section_nearest(name);
    if (section_of(cfg) != CONFIG_SECTION_GLOBAL) {
        config_complain(loading, place_here(cfg), name,
                        "there is no section inside a section; close section %s first", cfg->name);
    } else if (foreign != NULL) {
        config_complain(loading, place_here(cfg), name,
                        "there is no such section; what %s has in it is here: %s", foreign->server,
                        foreign->ours);
    } else if (nearest != NULL) {
        config_complain(loading, place_here(cfg), name,
                        "there is no such section; did you mean %s?", nearest);
    } else {
        config_complain(loading, place_here(cfg), name,
                        "there is no such section; remove it, or see the configuration reference");
    }
}

/* What to do about an option that is not known. */
static void advise(enum config_section section, const char *name, char *ret, size_t ret_bytes)
{
    const struct config_foreign *foreign = config_foreign_find(name);
    const char *nearest = config_option_nearest(section, name);
    enum config_section owner = owner_of(name);
    if (config_section_find(name) != CONFIG_SECTION_COUNT) {
        (void)snprintf(ret, ret_bytes, "it is a section; write it outside, as %s%s { ... }", name,
                       config_sections[config_section_find(name)].title != NULL ? " \"TITLE\""
                                                                                : "");
    } else if (owner != CONFIG_SECTION_COUNT) {
        (void)snprintf(ret, ret_bytes, "it belongs %s%s",
                       owner == CONFIG_SECTION_GLOBAL ? "at the top level" : "in section ",
                       config_sections[owner].name);
    } else if (foreign != NULL) {
        (void)snprintf(ret, ret_bytes, "what %s calls so is here: %s", foreign->server,
                       foreign->ours);
    } else if (nearest != NULL) {
        (void)snprintf(ret, ret_bytes, "did you mean %s?", nearest);
    } else {
        (void)snprintf(ret, ret_bytes, "remove it, or see the configuration reference");
    }
}

static void complain_unknown(cfg_t *cfg, const char *name)
{
    struct config_place place = place_here(cfg);
    enum config_section section = section_of(cfg);
    char where[80] = "at the top level", what[300];
    if (config_source_is_section(&loading->sources[place.source], place.line, name)) {
        complain_unknown_section(cfg, name);
        return;
    }
    if (section != CONFIG_SECTION_GLOBAL) {
        (void)snprintf(where, sizeof(where), "in section %s", cfg->name);
    }
    advise(section, name, what, sizeof(what));
    config_complain(loading, place, name, "there is no such option %s; %s", where, what);
}

static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    char why[CONFIG_WHY_BYTES];
    *(const char **)result = value;
    const struct config_option *o = config_option_find(section_of(cfg), opt->name);
    if (o == NULL) {
        complain_unknown(cfg, opt->name);
        return 0;
    }
    /* Each item of a list comes here; the first one of a new list is alone in it. */
    if (opt->def.number != 0 && (!config_option_is_list(o) || cfg_opt_size(opt) <= 1)) {
        config_complain(loading, place_here(cfg), o->name,
                        "it was already set in line %ld; keep one of them", opt->def.number);
    }
    set_place(opt, cfg);
    if (config_value_check(o, value, why) < 0) {
        config_complain(loading, place_here(cfg), o->name, "%s", why);
    }
    return 0;
}

static int on_start(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    *(const char **)result = value;
    if (opt->def.number == 0) {
        set_place(opt, cfg);
    } else {
        complain_unknown(cfg, opt->name);
    }
    return 0;
}

/* What to do about each message of the library, by how it begins. */
static const char *syntax_hint(const char *message)
{
    static const struct {
        const char *start, *hint;
    } hints[] = {
        {"unexpected closing brace", "remove it, or open the section it belongs to"},
        {"unexpected token",
         "write NAME = VALUE, NAME = {VALUE, VALUE} or SECTION \"TITLE\" { ... }"},
        {"missing equal sign", "write NAME = VALUE"},
        {"premature end of file", "complete the last statement"},
        {"missing title", "it is a section: write its title in quotes before its opening brace"},
        {"missing opening brace", "it is no option: write { after the section's name and title"},
        {"missing parenthesis", "write include(\"FILE\")"},
        {"syntax error in call", "write include(\"FILE\")"},
        {"attempt to append", "write = instead of +="},
    };
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (strncmp(message, hints[i].start, strlen(hints[i].start)) == 0) {
            return hints[i].hint;
        }
    }
    return "see the configuration reference";
}

/* The name in 'quotes' at the end of the message; false when there is none. */
static bool quoted_name(const char *message, char *ret, size_t ret_bytes)
{
    const char *start = strchr(message, '\'');
    const char *end = start != NULL ? strrchr(start + 1, '\'') : NULL;
    if (end == NULL || (size_t)(end - start) > ret_bytes) {
        return false;
    }
    size_t len = (size_t)(end - start) - 1;
    memcpy(ret, start + 1, len);
    ret[len] = '\0';
    return true;
}

__attribute__((format(printf, 2, 0))) static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
    struct config_loader *l = loading;
    char message[512];
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    bool is_unknown = strncmp(message, "no such option", 14) == 0;
    bool is_duplicate = strncmp(message, "found duplicate title", 21) == 0;
    l->obstacle_place = place_here(cfg);
    if (is_unknown && quoted_name(message, l->obstacle_name, sizeof(l->obstacle_name))) {
        l->obstacle = OBSTACLE_UNKNOWN;
        complain_unknown(cfg, l->obstacle_name);
    } else if (is_duplicate && quoted_name(message, l->obstacle_name, sizeof(l->obstacle_name))) {
        l->obstacle = OBSTACLE_DUPLICATE;
        config_complain(l, l->obstacle_place, l->obstacle_name,
                        "a section of this kind already has this title; keep one of them");
    } else if (!(l->has_told_unclosed && (strncmp(message, "premature", 9) == 0 ||
                                          strncmp(message, "unterminated", 12) == 0))) {
        config_complain(l, l->obstacle_place, "syntax", "%s; %s", message, syntax_hint(message));
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static int add_config_source(struct config_loader *l, const char *path, size_t *ret)
{
    for (size_t i = 0; i < l->source_count; i++) {
        if (strcmp(l->sources[i].name, path) == 0) {
            *ret = i;
            return 0;
        }
    }
    if (l->source_count == MAX_SOURCES) {
        return ERR_LIMIT;
    }
    int err = config_source_read(&l->sources[l->source_count], path);
    if (err == 0) {
        *ret = l->source_count++;
    }
    return err;
}

/* Parse one source in the context of the root section; nests (include). */
static int parse_source(cfg_t *cfg, size_t source)
{
    struct config_source *s = &loading->sources[source];
    size_t outer = loading->current;
    bool is_quote = false;
    unsigned unclosed = config_source_unclosed(s, &is_quote);
    if (unclosed > 0) {
        loading->has_told_unclosed = true;
        config_complain(loading, (struct config_place){source, unclosed}, "syntax",
                        is_quote
                            ? "this quote is never closed; write the same quote where the text ends"
                            : "this brace is never closed; write } where its section or list ends");
    }
    unsigned nameless = config_source_nameless(s);
    if (nameless > 0 && unclosed == 0) {
        config_complain(loading, (struct config_place){source, nameless}, "syntax",
                        "\"\" stands where a name should; write NAME = VALUE, or remove it");
    }
    if (s->open_comment > 0) {
        config_complain(loading, (struct config_place){source, s->open_comment}, "syntax",
                        "this comment is never closed; write */ where it ends");
    }
    int outer_line = cfg->line;
    FILE *f = fmemopen(s->text, s->len, "r");
    if (f == NULL) {
        loading->out_of_memory = true;
        return CFG_PARSE_ERROR;
    }
    loading->current = source;
    int result = cfg_parse_fp(cfg, f);
    (void)fclose(f); /* memory only */
    loading->current = outer;
    cfg->line = outer_line;
    return result;
}

static int include_file(cfg_t *cfg, const char *path)
{
    struct config_loader *l = loading;
    size_t source = 0;
    int err = add_config_source(l, path, &source);
    if (err < 0) {
        config_complain(l, place_here(cfg), "include", "%s: %s; %s", path,
                        err == ERR_SYNTAX ? "it has a NUL byte" : err_str(err),
                        config_source_advice(err));
        return 0;
    }
    l->include_depth++;
    int result = parse_source(cfg, source);
    l->include_depth--;
    return result == CFG_SUCCESS ? 0 : 1;
}

/* All files that match, in the order of their names; none is right as well. */
static int include_all(cfg_t *cfg, const char *pattern)
{
    glob_t found;
    int result = 0, err = glob(pattern, 0, NULL, &found);
    if (err == GLOB_NOMATCH) {
        return 0;
    }
    if (err != 0) {
        loading->out_of_memory = loading->out_of_memory || err == GLOB_NOSPACE;
        config_complain(loading, place_here(cfg), "include",
                        "%s: cannot be searched; name a folder that can be read", pattern);
        return 0;
    }
    for (size_t i = 0; i < found.gl_pathc && result == 0; i++) {
        result = include_file(cfg, found.gl_pathv[i]);
    }
    globfree(&found);
    return result;
}

/* The folder of the including file in front of a relative name; what glob would take for a pattern
 * there is escaped. returns false when it is too long */
static bool included_path(const char *from, const char *name, bool is_pattern, char *ret,
                          size_t ret_bytes)
{
    const char *slash = name[0] == '/' ? NULL : strrchr(from, '/');
    const char *end = slash == NULL ? from : slash + 1;
    size_t len = 0;
    for (const char *p = from; p < end && len + 2 < ret_bytes; p++) {
        if (is_pattern && strchr("*?[]\\", *p) != NULL) {
            ret[len++] = '\\';
        }
        ret[len++] = *p;
    }
    int rest = snprintf(ret + len, ret_bytes - len, "%s", name);
    return rest >= 0 && len + (size_t)rest < ret_bytes;
}

/* include("FILE") or include("PATTERN"), relative to the including file's folder. */
static int on_include(cfg_t *cfg, cfg_opt_t *opt, int argc, const char **argv)
{
    struct config_loader *l = loading;
    char path[4096];
    if (argc != 1 || argv[0][0] == '\0') {
        config_complain(l, place_here(cfg), "include",
                        "it takes one file; write include(\"FILE\")");
        return 1;
    }
    bool is_pattern = strpbrk(argv[0], "*?[") != NULL;
    if (!included_path(l->sources[l->current].name, argv[0], is_pattern, path, sizeof(path)) ||
        l->include_depth == MAX_INCLUDE_DEPTH) {
        config_complain(l, place_here(cfg), "include",
                        "files include each other too deeply; nest %d levels at most",
                        MAX_INCLUDE_DEPTH);
        return 1;
    }
    return is_pattern ? include_all(cfg, path) : include_file(cfg, path);
}

/* --- libconfuse's view of the table ----------------------------------------------------------- */

static void free_opts(struct config_loader *l)
{
    for (int s = 0; s < CONFIG_SECTION_COUNT; s++) {
        free(l->opts[s]);
        l->opts[s] = NULL;
    }
}

static int build_opts(struct config_loader *l)
{
    static char start_default[] = "0";
    for (int s = CONFIG_SECTION_COUNT - 1; s >= 0; s--) {
        /* room for every option, every section, include, start and the end mark */
        size_t room = config_option_count + CONFIG_SECTION_COUNT + 3;
        cfg_opt_t *opts = calloc(room, sizeof(*opts));
        size_t n = 0;
        if (opts == NULL) {
            return -ENOMEM;
        }
        l->opts[s] = opts;
        for (size_t i = 0; i < config_option_count; i++) {
            const struct config_option *o = &config_options[i];
            if (config_option_find((enum config_section)s, o->name) == o) {
                int flags = CFGF_NODEFAULT | (config_option_is_list(o) ? CFGF_LIST : CFGF_NONE);
                opts[n++] = (cfg_opt_t)CFG_STR_CB(o->name, NULL, flags, on_value);
            }
        }
        for (int sub = 1; s == CONFIG_SECTION_GLOBAL && sub < CONFIG_SECTION_COUNT; sub++) {
            int flags = config_sections[sub].title != NULL
                            ? CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES
                            : CFGF_NONE;
            opts[n++] = (cfg_opt_t)CFG_SEC(config_sections[sub].name, l->opts[sub], flags);
        }
        if (s == CONFIG_SECTION_GLOBAL) {
            opts[n++] = (cfg_opt_t)CFG_FUNC("include", on_include);
        } else if (config_sections[s].title != NULL) {
            opts[n] = (cfg_opt_t)CFG_STR_CB(CONFIG_START_OPTION, NULL, CFGF_NONE, on_start);
            opts[n++].def.parsed = start_default;
        }
    }
    return 0;
}

/* One pass over the text. returns ERR_AGAIN when an obstacle was blanked and another pass may find
 * more; ERR_SYNTAX when the parser could not go on; 0 when l->root holds everything */
static int parse_pass(struct config_loader *l)
{
    drop_complaints(l);
    l->obstacle = OBSTACLE_NONE;
    l->has_told_unclosed = false;
    l->current = 0;
    l->root = cfg_init(l->opts[CONFIG_SECTION_GLOBAL], CFGF_NONE);
    if (l->root == NULL) {
        return -ENOMEM;
    }
    (void)cfg_set_error_function(l->root, on_error); /* the old one is the library's own */
    if (parse_source(l->root, 0) == CFG_SUCCESS) {
        return 0;
    }
    (void)cfg_free(l->root); /* also resets the lexer */
    l->root = NULL;
    struct config_source *s = &l->sources[l->obstacle_place.source];
    bool is_blanked = false;
    if (l->obstacle == OBSTACLE_UNKNOWN) {
        is_blanked = config_source_blank_word(s, l->obstacle_place.line, l->obstacle_name);
    } else if (l->obstacle == OBSTACLE_DUPLICATE) {
        is_blanked = config_source_blank_title(s, l->obstacle_place.line, l->obstacle_name);
    }
    if (l->out_of_memory) {
        return -ENOMEM;
    }
    if (!is_blanked) {
        return ERR_SYNTAX;
    }
    l->complaints[l->complaint_count - 1].is_kept = true; /* the obstacle's is the last one */
    return ERR_AGAIN;
}

/* --- the calls -------------------------------------------------------------------------------- */

struct config_place config_place_of(const struct config_loader *l, enum config_section section,
                                    size_t index, const char *name)
{
    return config_fill_place(l->root, section, index, name);
}

static int loader_init(struct config_loader *l)
{
    *l = (struct config_loader){0};
    l->sources = calloc(MAX_SOURCES, sizeof(*l->sources));
    l->complaints = calloc(MAX_COMPLAINTS, sizeof(*l->complaints));
    return l->sources == NULL || l->complaints == NULL ? -ENOMEM : build_opts(l);
}

static void loader_fini(struct config_loader *l)
{
    if (l->root != NULL) {
        (void)cfg_free(l->root);
    }
    for (size_t i = 0; i < l->source_count; i++) {
        config_source_fini(&l->sources[i]);
    }
    for (size_t i = 0; i < l->complaint_count; i++) {
        free(l->complaints[i].text);
    }
    free(l->sources);
    free(l->complaints);
    free_opts(l);
}

/* From sources[0] to a snapshot. */
static int load_config(struct config_loader *l, const struct config_sink *sink, struct config **ret)
{
    int err = ERR_AGAIN;
    loading = l;
    for (int pass = 0; err == ERR_AGAIN && pass < MAX_PASSES; pass++) {
        err = parse_pass(l);
    }
    struct config *c = err == 0 ? calloc(1, sizeof(*c)) : NULL;
    if (err == 0) {
        err = c == NULL ? -ENOMEM : config_fill(l->root, c);
    }
    for (size_t i = 0; i < l->source_count && err == 0; i++) {
        err = config_origins_add_file(c->origins, l->sources[i].name);
    }
    if (err == 0) {
        c->path = strdup(l->sources[0].name);
        err = c->path == NULL ? -ENOMEM : config_check(l, c);
    }
    loading = NULL;
    bool has_error = tell_complaints(l, sink);
    if (err == ERR_AGAIN || (err == 0 && has_error)) {
        err = ERR_SYNTAX;
    }
    if (err < 0) {
        config_free(c);
        return err;
    }
    *ret = c;
    return 0;
}

int config_load(const char *path, const struct config_sink *sink, struct config **ret)
{
    struct config_loader l;
    int err = loader_init(&l);
    if (err == 0) {
        err = config_source_read(&l.sources[0], path);
        if (err == 0) {
            l.source_count = 1;
            err = load_config(&l, sink, ret);
        } else {
            char line[4400];
            (void)snprintf(line, sizeof(line), "%s: %s; %s: -c FILE", path,
                           err == ERR_SYNTAX ? "it has a NUL byte" : err_str(err),
                           config_source_advice(err));
            sink->complain(sink->ctx, false, line);
        }
    }
    loader_fini(&l);
    return err;
}

int config_load_text(const char *text, const char *name, const struct config_sink *sink,
                     struct config **ret)
{
    struct config_loader l;
    int err = loader_init(&l);
    if (err == 0) {
        err = config_source_set(&l.sources[0], name, slice_of(text));
        l.source_count = err == 0 ? 1 : 0;
    }
    if (err == 0) {
        err = load_config(&l, sink, ret);
    }
    loader_fini(&l);
    return err;
}
