/* Between reading the file (config_load.c) and the rules between options (config_check.c): where a
 * value came from, and how to complain about it. Nobody else includes this. */
#ifndef ENGINE_CONFIG_LOAD_H
#define ENGINE_CONFIG_LOAD_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "engine/config/config_option.h"
#include "engine/config/config_origin.h"

#include <stdbool.h>
#include <stddef.h>

struct config_loader;

/* Where the index-th section of this kind (0 where it stands once) sets the option; the section's
 * own line when it does not set it or `name` is NULL; inside a transport, the top level's line when
 * only that sets it. */
struct config_place config_place_of(const struct config_loader *l, enum config_section section,
                                    size_t index, const char *name);
/* "FILE:LINE: key: message"; the message says "what is wrong; what would be right". */
void config_complain(struct config_loader *l, struct config_place place, const char *key,
                     const char *fmt, ...) PRINTF_LIKE(4, 5);
void config_warn(struct config_loader *l, struct config_place place, const char *key,
                 const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Complain about a title that is no name, 1 to 64 letters, digits and - _ . */
void config_check_name(struct config_loader *l, enum config_section section, size_t index,
                       const char *name);
/* Which title of a kind of section a name stands near, as the end of a complaint. */
const char *config_check_meant(const struct config *c, enum config_section section,
                               const char *name, char ret[static CONFIG_NEAR_TEXT]);
/* The part of config_check about sources and pools; before transports. errors: -ENOMEM */
MUST_USE int config_check_egress(struct config_loader *l, struct config *c);
/* ... about how many sources a transport has with those of tenants; after both. errors: -ENOMEM */
MUST_USE int config_check_source_counts(struct config_loader *l, const struct config *c);
/* ... about tenants; after pools. errors: -ENOMEM */
MUST_USE int config_check_tenants(struct config_loader *l, struct config *c);
/* ... about keys that sign, and the tenants that name some; after tenants. */
void config_check_dkim(struct config_loader *l, struct config *c);
/* ... about suppression. errors: -ENOMEM */
MUST_USE int config_check_suppressions(struct config_loader *l, struct config *c);
/* ... about the cluster. */
void config_check_cluster(struct config_loader *l, const struct config *c);
void config_check_heard(struct config_loader *l, struct config *c);
/* ... about the transports that their mail takes; after transports and routes. */
void config_check_tenant_transports(struct config_loader *l, struct config *c);
/* ... about providers and domains; after transports. errors: -ENOMEM */
MUST_USE int config_check_receivers(struct config_loader *l, struct config *c);
/* ... about the warm-up of a source. errors: -ENOMEM */
MUST_USE int config_check_warmup(struct config_loader *l, struct config *c, size_t index);

/* The part of config_check about http sections; after listeners. */
void config_check_http(struct config_loader *l, struct config *c);
/* The part of config_check about webhooks and CSV files. */
void config_check_feed(struct config_loader *l, struct config *c);

/* Complete what follows from other options or from the system, and check every rule that needs
 * more than one option. errors: -ENOMEM; complaints are no error here */
MUST_USE int config_check(struct config_loader *l, struct config *c);

#endif
