/* The resolver's settings from the configuration and from this machine's addresses. */
#ifndef ENGINE_DNS_SETUP_H
#define ENGINE_DNS_SETUP_H

#include "base/attr.h"
#include "dns/resolver.h"

struct engine;

/* The shared cache. NULL when out of memory. */
struct dns_cache *dns_setup_cache(const struct engine *e);
/* A worker's resolver. errors: as resolver_new */
MUST_USE int dns_setup_resolver(const struct engine *e, const struct resolver_hooks *hooks,
                                struct resolver **ret);

#endif
