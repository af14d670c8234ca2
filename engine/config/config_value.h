/* From the text of a value to its typed field. Knows syntax and limits of each type; nothing of
 * files, lines or other options. Pure except for allocation. */
#ifndef ENGINE_CONFIG_VALUE_H
#define ENGINE_CONFIG_VALUE_H

#include "base/attr.h"
#include "engine/config/config.h"
#include "engine/config/config_option.h"

#include <stddef.h>

#define CONFIG_WHY_BYTES 256

/* Is `text` a value (of a list: an item) of this option?
 *
 * errors   ERR_SYNTAX: ret_why says "what is wrong; what would be right" */
MUST_USE int config_value_check(const struct config_option *o, const char *text,
                                char ret_why[CONFIG_WHY_BYTES]);

/* Store value(s) that config_value_check accepted into the field; what was there is freed. A list
 * takes any number of items, everything else exactly one.
 *
 * errors   -ENOMEM */
MUST_USE int config_value_set(const struct config_option *o, const char *const *items, size_t count,
                              void *field);
/* Two values of the same option. */
MUST_USE bool config_value_equal(const struct config_option *o, const void *a, const void *b);
/* Free what the field owns, and zero the field. */
void config_value_clear(const struct config_option *o, void *field);

/* ADDR:PORT, [ADDR6]:PORT; ADDR alone when default_port is not 0. Numeric only.
 * errors: ERR_SYNTAX */
MUST_USE int config_address_parse(struct slice text, int default_port, struct config_address *ret);
/* ADDR or ADDR/BITS, both families. errors: ERR_SYNTAX, also when host bits are set */
MUST_USE int config_network_parse(struct slice text, struct config_network *ret);

#endif
