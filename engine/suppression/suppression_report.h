/* What the lists of suppressed recipients have, for the operators' interface: in order, page by page, and
 * who is on them. Called on a clerk's thread; changes are suppress_request.h's. */
#ifndef ENGINE_SUPPRESSION_REPORT_H
#define ENGINE_SUPPRESSION_REPORT_H

#include "engine/http/api.h"

/* GET: entries of one list or of all, behind `after`, those that begin with `match`; as CSV where asked. */
api_handler suppression_report_list;
/* GET of an address: what suppresses mail of the tenant to it; 404 where nothing does. */
api_handler suppression_report_show;
extern const char *const suppression_report_params[];

#endif
