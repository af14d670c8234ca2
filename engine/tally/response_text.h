/* What replies of receivers have in common: a reply's text without what differs from one delivery
 * to the next. Pure. */
#ifndef ENGINE_RESPONSE_TEXT_H
#define ENGINE_RESPONSE_TEXT_H

#include "base/slice.h"

#include <stddef.h>

#define RESPONSE_TEXT_MAX 200 /* bytes of a template; the rest is cut */

/* Numbers, addresses of mail and of hosts, names of hosts in front of their address, tokens with
 * digits and long random ones, and what stands in quotes become "*". What tells reasons apart
 * stays: codes of receivers (TSS04, RP-001, S77719, AUP#1260, OFR_506) and enhanced status codes
 * (4.7.28). Who said it, and the codes that it begins with, are left out. White space and control
 * bytes become single spaces.
 *
 * text     any bytes; only the first kilobyte is looked at
 * returns  bytes of ret */
size_t response_text_template(struct slice text, char ret[RESPONSE_TEXT_MAX]);

#endif
