/* Runs of text in what a peer sent, found a block of bytes at a time. Pure; called by whatever in
 * net/ looks at each byte of mail or of replies, where these loops are what a byte costs. */
#ifndef NET_SMTP_TEXT_H
#define NET_SMTP_TEXT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

/* Bytes at the start of s that are neither CR, LF nor NUL.
 *
 * ret_8bit  whether one of them is above 127 */
size_t smtp_text_span(struct slice s, bool *ret_8bit);

/* Bytes at the start of s that are printable ASCII: 0x20 to 0x7e. */
size_t smtp_text_printable(struct slice s);

#endif
