/* The page for browsers, made of page/index.html at build time (page/embed.py). */
#ifndef ENGINE_PAGE_H
#define ENGINE_PAGE_H

#include "engine/http/api.h"

#include <stddef.h>

extern const unsigned char page_bytes[];
extern const size_t page_size;
/* Its Content-Security-Policy: of scripts only those that stand in it. */
extern const char page_policy[];

api_handler page_show;

#endif
