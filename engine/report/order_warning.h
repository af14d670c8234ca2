/* Names in an order that nothing here has: most are mistyped. The order stands, its giver is told.
 */
#ifndef ENGINE_ORDER_WARNING_H
#define ENGINE_ORDER_WARNING_H

#include <jansson.h>

struct clerk;
struct selector;

/* A text for each such name; NULL: there are none, or it could not be found out. For a selector
 * that no queued mail matches. On a clerk that walks; a new reference. */
json_t *order_warning_list(struct clerk *k, const struct selector *selector);

/* The same of what the configuration alone says, at once: any clerk. */
json_t *order_warning_of_config(struct clerk *k, const struct selector *selector);

#endif
