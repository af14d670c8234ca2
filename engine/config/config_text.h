/* Values of options as the file would say them. Pure. */
#ifndef ENGINE_CONFIG_TEXT_H
#define ENGINE_CONFIG_TEXT_H

#include "base/buf.h"
#include "engine/config/config_option.h"

/* Append the value; nothing for a text, an address or a list that is not set. */
void config_text_value(const struct config_option *o, const void *field, struct buf *out);

#endif
