/* The table of all options: what the parser accepts, checks and defaults, and what the reference
 * says. One row an option; nothing about an option is written anywhere else, except rules between
 * options (config_check.c). */
#ifndef ENGINE_CONFIG_OPTION_H
#define ENGINE_CONFIG_OPTION_H

#include "base/slice.h"
#include "engine/config/config_near.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_type {
    CONFIG_TYPE_INT,       /* int; min..max */
    CONFIG_TYPE_BOOL,      /* bool */
    CONFIG_TYPE_TIME,      /* usec_t; min..max in seconds; `unit` when none is written */
    CONFIG_TYPE_SIZE,      /* uint64_t bytes */
    CONFIG_TYPE_TEXT,      /* char *; min..max bytes */
    CONFIG_TYPE_FEEDBACK,  /* char *; read by sched_feedback_parse once the rule is known */
    CONFIG_TYPE_CHOICE,    /* an enum: index into `choices` */
    CONFIG_TYPE_IP,        /* struct ip; min: its family, 4 or 6 */
    CONFIG_TYPE_ADDRESS,   /* struct config_address, with port */
    CONFIG_TYPE_RATE,      /* struct rate_rule */
    CONFIG_TYPE_QUOTA,     /* struct rate_rule, of an hour or a day */
    CONFIG_TYPE_DATE,      /* int64_t: days since 1970; 0: not set */
    CONFIG_TYPE_TEXTS,     /* struct config_texts; from here on lists, see config_option_is_list */
    CONFIG_TYPE_PATTERNS,  /* struct config_texts: as in name_pattern.h */
    CONFIG_TYPE_NUMBERS,   /* struct config_numbers; min..max each */
    CONFIG_TYPE_QUOTAS,    /* struct config_quotas, of a day each */
    CONFIG_TYPE_NETWORKS,  /* struct config_networks */
    CONFIG_TYPE_ADDRESSES, /* struct config_addresses */
    CONFIG_TYPE_COUNT
};

enum config_section {
    CONFIG_SECTION_GLOBAL,
    CONFIG_SECTION_SPOOL,
    CONFIG_SECTION_LISTENER,
    CONFIG_SECTION_DNS,
    CONFIG_SECTION_EVENT_LOG,
    CONFIG_SECTION_CONTROL,
    CONFIG_SECTION_REPLIES,
    CONFIG_SECTION_TLS_REPORT,
    CONFIG_SECTION_CLUSTER,
    CONFIG_SECTION_HTTP,
    CONFIG_SECTION_WEBHOOK,
    CONFIG_SECTION_CSV,
    CONFIG_SECTION_TENANT,
    CONFIG_SECTION_DKIM,
    CONFIG_SECTION_SUPPRESSION,
    CONFIG_SECTION_SOURCE,
    CONFIG_SECTION_POOL,
    CONFIG_SECTION_TRANSPORT, /* rows are also accepted at top level, as defaults */
    CONFIG_SECTION_PROVIDER,  /* has rows of transports, see is_receivers */
    CONFIG_SECTION_DOMAIN,    /* the same */
    CONFIG_SECTION_ROUTE,
    CONFIG_SECTION_COUNT
};

struct config_option {
    const char *name;
    enum config_section section;
    enum config_type type;
    size_t offset;           /* into the section's struct, see config_section_info.of */
    const char *initial;     /* default, in the file's syntax; NULL: unset */
    const char *initial_doc; /* how the reference shows a default that is computed; or NULL */
    int64_t min, max;
    char unit;                  /* TIME: 's', 'h' or 'd' */
    const char *const *choices; /* CHOICE: NULL-terminated */
    const char *doc;            /* Markdown, one paragraph */
    bool needs_restart;         /* a reload leaves the value as it was */
    bool
        is_receivers; /* a transport's that `provider` and `domain` have as well, without default */
    bool is_lanes;    /* ... and that a site's lanes have, not a destination alone */
};

struct config_section_info {
    const char *name;  /* as written in the file; "" for the top level */
    const char *title; /* what its title is, or NULL: the section has none and stands once */
    const char *of;    /* the struct its rows fill */
    const char *doc;
};

extern const struct config_option config_options[];
extern const size_t config_option_count;
extern const struct config_section_info config_sections[CONFIG_SECTION_COUNT];

static inline bool config_option_is_list(const struct config_option *o)
{
    return o->type >= CONFIG_TYPE_TEXTS;
}

/* A section of this kind may set the option. */
static inline bool config_option_is_in(const struct config_option *o, enum config_section section)
{
    return o->section == section || (o->is_receivers && (section == CONFIG_SECTION_PROVIDER ||
                                                         section == CONFIG_SECTION_DOMAIN));
}

/* The bit of an option that is_receivers in config_receiver.set. */
unsigned config_option_receiver_bit(const struct config_option *o);

/* The row that `name` means inside a section (at top level transport rows count), or NULL. */
const struct config_option *config_option_find(enum config_section section, const char *name);
/* CONFIG_SECTION_COUNT when there is no such section. */
enum config_section config_section_find(const char *name);
/* The known name (option, or section at top level) nearest to `name` by edits, or NULL when none
 * is near enough to be a slip of the pen. */
const char *config_option_nearest(enum config_section section, const char *name);
/* The same of sections. */
const char *config_section_nearest(const char *name);

#endif
