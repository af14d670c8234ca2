/* The chain of causes that `why` answers with: what holds mail back, because of what, by which
 * option, until when. Built by the handlers on one clerk's thread.
 *
 * Each link is an object: what, because?, class? and rule? (of the reply that because is), limit?, value?, at? (FILE:LINE of the option, or
 * "default"), until?, next? (what happens then, or what can be done), and level: a link explains
 * the nearest one before it that has a lower level. */
#ifndef ENGINE_WHY_CHAIN_H
#define ENGINE_WHY_CHAIN_H

#include "base/attr.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/config/config_option.h"
#include "engine/config/label.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clerk;
struct config;

#define WHY_LINKS_MAX 300

struct why {
    struct clerk *clerk;
    const struct config *config; /* valid until clerk_quiesce: see why_refresh */
    uint32_t transport_count;    /* of config, also those that are gone */
    usec_t now;                  /* wall */
    struct label
        owner; /* whoever asks is bound to this tenant: nothing is said of what tenants share,
                           such as receivers, gates and places in memory; len 0: all is */
    json_t *about, *chain; /* NULL: out of memory */
    usec_t next_change;    /* wall; USEC_NEVER: nothing is known */
};

void why_init(struct why *w, struct clerk *k);
void why_fini(struct why *w);
/* Take the settings in force anew. Due after a walk, during which a reload may have happened. */
void why_refresh(struct why *w);
/* {"about", "chain", "next_change"?}; what w has goes with it. NULL: out of memory */
json_t *why_answer(struct why *w);

/* The next link; borrowed. Beyond WHY_LINKS_MAX, or without memory, it is NULL, which all
 * functions below accept. */
json_t *why_link(struct why *w, int level, const char *what, ...) PRINTF_LIKE(3, 4);
void why_because(json_t *link, struct slice text);
void why_next(json_t *link, const char *what, ...) PRINTF_LIKE(2, 3);
/* A time at which it ends (wall); earlier ones become next_change. */
void why_until(struct why *w, json_t *link, usec_t until);
/* The option that makes the limit, where it is set, and its value there. */
void why_number(struct why *w, json_t *link, enum config_section section, size_t index,
                const char *option, int64_t value);
void why_span(struct why *w, json_t *link, enum config_section section, size_t index,
              const char *option, usec_t value);
void why_word(struct why *w, json_t *link, enum config_section section, size_t index,
              const char *option, const char *value);

/* 90s, 15m, 2h30m, 3d: for texts. returns ret */
#define WHY_SPAN_TEXT 40
const char *why_span_text(usec_t span, char ret[static WHY_SPAN_TEXT]);

#endif
