/* Every verb of the operators' interface with the handler that serves it. */
#ifndef ENGINE_API_ROUTES_H
#define ENGINE_API_ROUTES_H

#include "engine/http/api.h"

#include <stddef.h>

extern const struct api_route api_routes[];
extern const size_t api_route_count;

#endif
