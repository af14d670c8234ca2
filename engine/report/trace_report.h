/* `GET /v1/trace`: what recent sessions with a destination said and heard. */
#ifndef ENGINE_TRACE_REPORT_H
#define ENGINE_TRACE_REPORT_H

#include "engine/http/api.h"

api_handler trace_report_list;

#endif
