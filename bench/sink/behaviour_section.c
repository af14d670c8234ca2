/* Behaviour files through libconfuse. Its callbacks take no context: `reading` is the reading in
 * progress, one at a time in a process. It ends at the first statement it does not know; then that
 * statement is blanked (engine/config/config_source.h) and the text parsed again. */
#include "bench/sink/behaviour_section.h"

#include "base/error.h"
#include "engine/config/config_option.h"

#include <confuse.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMPLAINTS_MAX  200
#define COMPLAINT_BYTES 1024
#define SOURCES_MAX     64
#define PASSES_MAX      100
/* Each section has it and no file can name it; its default is parsed where a section begins. */
#define START_OPTION "\001start"

struct behaviour_complaint {
    struct behaviour_place place;
    size_t order;
    bool is_kept; /* survives the next pass, which cannot find it again */
    char text[COMPLAINT_BYTES];
};

static const char *const kinds[BEHAVIOUR_KIND_COUNT] = {
    [BEHAVIOUR_DEFAULT] = "default", [BEHAVIOUR_DESTINATION] = "destination",
    [BEHAVIOUR_DOMAIN] = "domain",   [BEHAVIOUR_CLIENT] = "client",
    [BEHAVIOUR_PROFILE] = "profile",
};

static struct {
    struct behaviour_sections *sections;
    size_t source;
    struct behaviour_section *current;
    bool has_told_unclosed; /* the library's own words about it name the end of the file */
    /* What ended the pass, when blanking it may help. */
    bool is_unknown, is_duplicate;
    unsigned obstacle_line;
    char obstacle[256];
} reading;

/* --- complaints ------------------------------------------------------------------------------- */

void behaviour_complain(struct behaviour_sections *s, struct behaviour_place place, const char *key,
                        const char *fmt, ...)
{
    va_list ap;
    if (s->complaint_count == COMPLAINTS_MAX) {
        return;
    }
    if (s->complaints == NULL) {
        s->complaints = calloc(COMPLAINTS_MAX, sizeof(*s->complaints));
    }
    if (s->complaints == NULL) {
        abort(); /* start-up */
    }
    struct behaviour_complaint *c = &s->complaints[s->complaint_count];
    *c = (struct behaviour_complaint){place, s->complaint_count, false, ""};
    size_t len = (size_t)snprintf(c->text, sizeof(c->text), "%.80s: ", key);
    va_start(ap, fmt);
    (void)vsnprintf(c->text + len, sizeof(c->text) - len, fmt, ap); /* cut where it is too long */
    va_end(ap);
    for (char *p = c->text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = '?'; /* complaints go to terminals */
        }
    }
    for (size_t i = 0; i < s->complaint_count; i++) {
        const struct behaviour_complaint *old = &s->complaints[i];
        if (old->place.source == place.source && old->place.line == place.line &&
            strcmp(old->text, c->text) == 0) {
            return;
        }
    }
    s->complaint_count++;
}

static int compare_sections(const void *a, const void *b)
{
    const struct behaviour_complaint *x = a;
    const struct behaviour_complaint *y = b;
    if (x->place.source != y->place.source) {
        return x->place.source < y->place.source ? -1 : 1;
    }
    if (x->place.line != y->place.line) {
        return x->place.line < y->place.line ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

bool behaviour_sections_tell(struct behaviour_sections *s,
                             void (*complain)(void *ctx, const char *line), void *ctx)
{
    char line[1400];
    if (s->complaint_count > 0) {
        qsort(s->complaints, s->complaint_count, sizeof(*s->complaints), compare_sections);
    }
    for (size_t i = 0; i < s->complaint_count; i++) {
        const struct behaviour_complaint *c = &s->complaints[i];
        const char *file = s->sources[c->place.source].name;
        if (c->place.line > 0) {
            (void)snprintf(line, sizeof(line), "%s:%u: %s", file, c->place.line, c->text);
        } else {
            (void)snprintf(line, sizeof(line), "%s: %s", file, c->text);
        }
        complain(ctx, line);
    }
    return s->complaint_count > 0;
}

/* A new pass finds everything of this source again, except what was blanked. */
static void drop_complaints(struct behaviour_sections *s, size_t source)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->complaint_count; i++) {
        struct behaviour_complaint *c = &s->complaints[i];
        if (c->place.source != source || c->is_kept) {
            s->complaints[kept++] = *c;
        }
    }
    s->complaint_count = kept;
}

static struct behaviour_place place_here(const cfg_t *cfg)
{
    return (struct behaviour_place){reading.source, cfg->line > 0 ? (unsigned)cfg->line : 0};
}

/* The known name nearest to one that is not known, or NULL. */
static const char *nearest(bool is_section, const char *name)
{
    size_t len = strlen(name);
    size_t best = len / 3 + (len > 3 ? 2 : 1); /* about a third of the letters may be wrong */
    const char *found = NULL;
    size_t count = is_section ? BEHAVIOUR_KIND_COUNT : BEHAVIOUR_KEY_COUNT;
    for (size_t i = 0; i < count && len <= CONFIG_NEAREST_BYTES; i++) {
        const char *known = is_section ? kinds[i] : behaviour_key_name((enum behaviour_key)i);
        size_t distance = config_option_distance(name, known);
        if (distance < best) {
            best = distance;
            found = known;
        }
    }
    return found;
}

static void complain_unknown(const cfg_t *cfg, const char *name)
{
    bool is_root = strcmp(cfg->name, "root") == 0;
    const char *near = nearest(is_root, name);
    if (is_root && behaviour_key_find(name) != BEHAVIOUR_KEY_COUNT) {
        behaviour_complain(reading.sections, place_here(cfg), name,
                           "it stands outside of every section; write it into default { ... } or "
                           "destination \"ADDRESS\" { ... }");
    } else if (near != NULL) {
        behaviour_complain(reading.sections, place_here(cfg), name,
                           "there is no such %s; did you mean %s?", is_root ? "section" : "key",
                           near);
    } else {
        behaviour_complain(reading.sections, place_here(cfg), name,
                           is_root
                               ? "there is no such section; write default, destination, domain, "
                                 "client or profile"
                               : "there is no such key; remove it, or see sluice-sink --help");
    }
}

/* --- what libconfuse calls -------------------------------------------------------------------- */

static char *copy(const char *text)
{
    char *result = strdup(text);
    if (result == NULL) {
        abort(); /* start-up */
    }
    return result;
}

static int on_start(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    struct behaviour_sections *all = reading.sections;
    (void)opt;
    *(const char **)result = value;
    if (all->count == all->capacity) {
        all->capacity = all->capacity == 0 ? 16 : 2 * all->capacity;
        all->items = realloc(all->items, all->capacity * sizeof(*all->items));
    }
    struct behaviour_section *s = calloc(1, sizeof(*s));
    if (all->items == NULL || s == NULL) {
        abort(); /* start-up */
    }
    s->place = place_here(cfg);
    s->title = copy(cfg->title != NULL ? cfg->title : "");
    for (size_t i = 0; i < BEHAVIOUR_KIND_COUNT; i++) {
        if (strcmp(cfg->name, kinds[i]) == 0) {
            s->kind = (enum behaviour_kind)i;
        }
    }
    behaviour_init(&s->own);
    all->items[all->count++] = s;
    reading.current = s;
    return 0;
}

/* "use" and "description". */
static void set_text(const cfg_t *cfg, const char *key, const char *value)
{
    struct behaviour_section *s = reading.current;
    bool is_use = strcmp(key, "use") == 0;
    char **field = is_use ? &s->use : &s->description;
    if (!is_use && s->kind != BEHAVIOUR_PROFILE) {
        behaviour_complain(reading.sections, place_here(cfg), key,
                           "only a profile has it; write a comment");
    } else if (*field != NULL) {
        behaviour_complain(reading.sections, place_here(cfg), key,
                           "it was already set in this section; keep one of them");
    } else {
        *field = copy(value);
        s->use_line = is_use ? place_here(cfg).line : s->use_line;
    }
}

/* What a domain cannot do: it acts at RCPT and at the end of data. */
static bool is_for_domain(enum behaviour_key key, const char *value)
{
    if (key == BEHAVIOUR_REJECT) {
        return strncasecmp(value, "rcpt:", 5) == 0 || strncasecmp(value, "dot:", 4) == 0;
    }
    return behaviour_key_is_for_domains(key) &&
           (key != BEHAVIOUR_RATE_STAGE || strcasecmp(value, "mail") != 0);
}

/* returns: false when it was complained about */
static bool is_allowed(const cfg_t *cfg, enum behaviour_key key, const char *value)
{
    enum behaviour_kind kind = reading.current->kind;
    if (kind == BEHAVIOUR_DOMAIN && !is_for_domain(key, value)) {
        behaviour_complain(reading.sections, place_here(cfg), behaviour_key_name(key),
                           "a domain only acts at rcpt and dot; write it into a destination "
                           "section");
        return false;
    }
    if (kind == BEHAVIOUR_CLIENT && !behaviour_key_is_for_clients(key)) {
        behaviour_complain(reading.sections, place_here(cfg), behaviour_key_name(key),
                           key == BEHAVIOUR_RATE
                               ? "it is everybody's together; write rate_per_client"
                               : "it is of the listening address; write it into a destination "
                                 "section");
        return false;
    }
    return true;
}

static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    struct behaviour_section *s = reading.current;
    char why[BEHAVIOUR_WHY_BYTES];
    *(const char **)result = value;
    enum behaviour_key key = behaviour_key_find(opt->name);
    if (key == BEHAVIOUR_KEY_COUNT) {
        set_text(cfg, opt->name, value);
        return 0;
    }
    if (!is_allowed(cfg, key, value)) {
        return 0;
    }
    if (behaviour_has(&s->own, key) && !behaviour_key_is_list(key)) {
        behaviour_complain(reading.sections, place_here(cfg), opt->name,
                           "it was already set in line %u; keep one of them", s->lines[key]);
    }
    s->lines[key] = place_here(cfg).line;
    int err = behaviour_read(&s->own, key, value, why);
    if (err != 0) {
        behaviour_complain(reading.sections, place_here(cfg), opt->name, "%s",
                           err == ERR_SYNTAX ? why : err_str(err));
    }
    return 0;
}

/* The name in 'quotes' at the end of the message. */
static bool quoted_name(const char *message)
{
    const char *start = strchr(message, '\'');
    const char *end = start != NULL ? strrchr(start + 1, '\'') : NULL;
    if (end == NULL || (size_t)(end - start) > sizeof(reading.obstacle)) {
        return false;
    }
    size_t len = (size_t)(end - start) - 1;
    memcpy(reading.obstacle, start + 1, len);
    reading.obstacle[len] = '\0';
    return true;
}

__attribute__((format(printf, 2, 0))) static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
    char message[512];
    (void)vsnprintf(message, sizeof(message), fmt, ap);
    reading.obstacle_line = place_here(cfg).line;
    if (strncmp(message, "no such option", 14) == 0 && quoted_name(message)) {
        reading.is_unknown = true;
        complain_unknown(cfg, reading.obstacle);
    } else if (strncmp(message, "found duplicate title", 21) == 0 && quoted_name(message)) {
        reading.is_duplicate = true;
        behaviour_complain(reading.sections, place_here(cfg), reading.obstacle,
                           "a section of this kind already has this title; keep one of them");
    } else if (!(reading.has_told_unclosed && (strncmp(message, "premature", 9) == 0 ||
                                               strncmp(message, "unterminated", 12) == 0))) {
        behaviour_complain(reading.sections, place_here(cfg), "syntax",
                           "%s; write KEY = VALUE, KEY = {VALUE, VALUE} or SECTION \"TITLE\" "
                           "{ ... }",
                           message);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

/* Forget the sections of this source that an earlier pass has read. */
static void drop_sections(struct behaviour_sections *s, size_t from)
{
    for (size_t i = from; i < s->count; i++) {
        free(s->items[i]->title);
        free(s->items[i]->use);
        free(s->items[i]->description);
        behaviour_fini(&s->items[i]->own);
        free(s->items[i]);
    }
    s->count = from;
}

static int parse_section(cfg_opt_t *root)
{
    struct config_source *source = &reading.sections->sources[reading.source];
    bool is_quote = false;
    reading.is_unknown = reading.is_duplicate = reading.has_told_unclosed = false;
    unsigned unclosed = config_source_unclosed(source, &is_quote);
    if (unclosed > 0) {
        reading.has_told_unclosed = true;
        behaviour_complain(
            reading.sections, (struct behaviour_place){reading.source, unclosed}, "syntax",
            is_quote ? "this quote is never closed; write the same quote where the text ends"
                     : "this brace is never closed; write } where its section or list ends");
    }
    cfg_t *cfg = cfg_init(root, CFGF_NONE);
    FILE *f = fmemopen(source->text, source->len, "r");
    if (cfg == NULL || f == NULL) {
        abort(); /* start-up */
    }
    (void)cfg_set_error_function(cfg, on_error); /* the old one is the library's own */
    int result = cfg_parse_fp(cfg, f);
    (void)fclose(f); /* memory only */
    (void)cfg_free(cfg);
    return result;
}

/* One pass. returns: ERR_AGAIN when an obstacle was blanked and another may find more */
static int parse_pass(cfg_opt_t *root, size_t first_section)
{
    struct behaviour_sections *s = reading.sections;
    drop_complaints(s, reading.source);
    drop_sections(s, first_section);
    if (parse_section(root) == CFG_SUCCESS) {
        return 0;
    }
    struct config_source *source = &s->sources[reading.source];
    bool is_blanked = (reading.is_unknown &&
                       config_source_blank_word(source, reading.obstacle_line, reading.obstacle)) ||
                      (reading.is_duplicate &&
                       config_source_blank_title(source, reading.obstacle_line, reading.obstacle));
    if (!is_blanked || s->complaint_count == COMPLAINTS_MAX) {
        return ERR_SYNTAX;
    }
    s->complaints[s->complaint_count - 1].is_kept = true; /* the obstacle's is the last one */
    return ERR_AGAIN;
}

static int parse_all(struct behaviour_sections *s)
{
    static char start_default[] = "0";
    cfg_opt_t keys[BEHAVIOUR_KEY_COUNT + 4] = {0}; /* and use, description, start, the end */
    cfg_opt_t root[BEHAVIOUR_KIND_COUNT + 1] = {0};
    size_t n = 0;
    for (; n < BEHAVIOUR_KEY_COUNT; n++) {
        enum behaviour_key key = (enum behaviour_key)n;
        int flags = CFGF_NODEFAULT | (behaviour_key_is_list(key) ? CFGF_LIST : CFGF_NONE);
        keys[n] = (cfg_opt_t)CFG_STR_CB(behaviour_key_name(key), NULL, flags, on_value);
    }
    keys[n++] = (cfg_opt_t)CFG_STR_CB("use", NULL, CFGF_NODEFAULT, on_value);
    keys[n++] = (cfg_opt_t)CFG_STR_CB("description", NULL, CFGF_NODEFAULT, on_value);
    keys[n] = (cfg_opt_t)CFG_STR_CB(START_OPTION, NULL, CFGF_NONE, on_start);
    keys[n].def.parsed = start_default;
    for (size_t i = 0; i < BEHAVIOUR_KIND_COUNT; i++) {
        /* All may come more than once: only those are not created before the file is read. */
        int flags =
            i == BEHAVIOUR_DEFAULT ? CFGF_MULTI : CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES;
        root[i] = (cfg_opt_t)CFG_SEC(kinds[i], keys, flags);
    }
    size_t first_section = s->count;
    int err = ERR_AGAIN;
    for (int pass = 0; err == ERR_AGAIN && pass < PASSES_MAX; pass++) {
        err = parse_pass(root, first_section);
    }
    return err == ERR_AGAIN ? ERR_SYNTAX : err;
}

int behaviour_sections_read(struct behaviour_sections *s, const char *name, const char *text)
{
    if (s->sources == NULL) {
        s->sources = calloc(SOURCES_MAX, sizeof(*s->sources));
    }
    if (s->sources == NULL || s->source_count == SOURCES_MAX) {
        return s->sources == NULL ? -ENOMEM : ERR_LIMIT;
    }
    struct config_source *source = &s->sources[s->source_count];
    int err = text != NULL ? config_source_set(source, name, slice_of(text))
                           : config_source_read(source, name);
    if (err != 0) {
        return err;
    }
    reading.sections = s;
    reading.source = s->source_count++;
    err = parse_all(s);
    reading.sections = NULL;
    reading.current = NULL;
    return err;
}

struct behaviour_section *behaviour_sections_profile(const struct behaviour_sections *s,
                                                     const char *title)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i]->kind == BEHAVIOUR_PROFILE && strcmp(s->items[i]->title, title) == 0) {
            return s->items[i];
        }
    }
    return NULL;
}

void behaviour_sections_fini(struct behaviour_sections *s)
{
    drop_sections(s, 0);
    for (size_t i = 0; i < s->source_count; i++) {
        config_source_fini(&s->sources[i]);
    }
    free(s->items);
    free(s->sources);
    free(s->complaints);
    *s = (struct behaviour_sections){0};
}
