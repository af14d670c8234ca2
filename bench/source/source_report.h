/* The numbers of a load for people and programs. */
#ifndef BENCH_SOURCE_REPORT_H
#define BENCH_SOURCE_REPORT_H

#include "base/buf.h"
#include "bench/source/source_load.h"

#include <stdbool.h>

/* One JSON object and a newline. The load's thread. */
void source_report_json(const struct source_load *l, struct buf *out);
/* Append one line of figures, without its line end. */
void source_report_line(const struct source_load *l, struct buf *out);
/* true when everything that was wanted was accepted */
bool source_report_is_complete(const struct source_load *l);

#endif
