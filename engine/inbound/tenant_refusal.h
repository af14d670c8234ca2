/* Why a tenant's mail is not taken, as a reply to its client: it may not have more of it queued, or the
 * recipient is suppressed. */
#ifndef ENGINE_TENANT_REFUSAL_H
#define ENGINE_TENANT_REFUSAL_H

#include "base/attr.h"
#include "base/slice.h"
#include "net/smtp_server.h"

#include <stdbool.h>

enum { TENANT_REFUSAL_TEXT = 160 };

struct engine;
struct spool_reader;

/* is_full     the spool writer said that it has as many as it may
 * ret_status  static
 * returns     false: it may have more */
MUST_USE bool tenant_refusal(const struct engine *e, struct slice tenant, bool is_full,
                             int *ret_code, const char **ret_status,
                             char ret_text[static TENANT_REFUSAL_TEXT]);

/* Whether the recipient is on a list that refuses it at intake; ret: what follows the code 550.
 * reader  in a pass; NULL: nobody is refused */
MUST_USE bool tenant_suppresses(struct engine *e, struct spool_reader *reader, struct slice tenant,
                                struct slice address, char ret[static SMTP_SERVER_REFUSAL_MAX]);

#endif
