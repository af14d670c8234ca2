/* The thread that reports on TLS by RFC 8460: it collects what workers have counted, keeps it as
 * files in `tls-report` of the spool, and sends each day's reports after it is over.
 *
 * Workers are asked every two seconds and answer with the table as a whole; what a crash loses is
 * what was counted since the last file was written. Without `from` in section tls_report nothing is
 * asked, and what is left is removed. DNS and HTTPS are waited for here, one at a time: a report is
 * in no hurry. A domain's reports are tried for 24 hours after the end of the day, by mail until the
 * spool has them, by HTTPS until the host has. */
#ifndef ENGINE_TLS_REPORTER_H
#define ENGINE_TLS_REPORTER_H

#include "base/attr.h"
#include "base/mailbox.h"

struct engine;
struct tls_reporter;

/* errors: -ENOMEM, -errno of the folder */
MUST_USE int tls_reporter_new(struct engine *engine, struct tls_reporter **ret);
struct mailbox *tls_reporter_box(struct tls_reporter *r);
MUST_USE int tls_reporter_start(struct tls_reporter *r);
/* Once the workers have stopped: what they sent is in the files then. */
void tls_reporter_stop(struct tls_reporter *r);
void tls_reporter_free(struct tls_reporter *r); /* accepts NULL */

#endif
