/* The rules that the program brings: replies.conf, as bytes in the program, so that they are there
 * without a file and always fit it. Made by the build; the same text is installed for readers. */
#ifndef ENGINE_REPLY_SHIPPED_H
#define ENGINE_REPLY_SHIPPED_H

#include <stddef.h>

extern const unsigned char reply_shipped_bytes[];
extern const size_t reply_shipped_size;
extern const char reply_shipped_path[]; /* where it is installed */

#endif
