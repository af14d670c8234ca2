/* The answer to `queue hosts`: what the schedulers' destdbs know (control_client.h). */
#ifndef ENGINE_HOST_REPORT_H
#define ENGINE_HOST_REPORT_H

#include "base/slice.h"

struct answer;
struct engine;

/* All of it, with its end. Control thread, online for RCU.
 *
 * filter   only hosts with this in "TRANSPORT [ADDRESS]:PORT"; "": all */
void host_report_answer(const struct engine *e, struct answer *a, struct slice filter);

#endif
