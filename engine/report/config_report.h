/* The running configuration, for the operators' interface.
 *
 * GET /v1/config: one object an option, sections in the order of the reference
 *   section      "" for the top level; "transport"
 *   title?       of sections that have one: "smtp"
 *   option, value
 *   at           "FILE:LINE", or "default"
 *   needs_restart   a reload leaves it as it was: the value is that of the start */
#ifndef ENGINE_CONFIG_REPORT_H
#define ENGINE_CONFIG_REPORT_H

#include "engine/http/api.h"

api_handler config_report_list;

#endif
