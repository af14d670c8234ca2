/* A mailed report on its way into the spool: an ordinary message from then on, that is queued,
 * signed and tried as others are, but for what its flags say: TLS is not insisted on, sessions for
 * it are not counted, and its failure tells nobody.
 *
 * Called by the thread that reports on TLS; one report is under way at a time. */
#ifndef ENGINE_TLS_REPORT_MAILING_H
#define ENGINE_TLS_REPORT_MAILING_H

#include "base/attr.h"
#include "base/mailbox.h"
#include "base/slice.h"
#include "engine/state/engine.h"
#include "engine/state/settings.h"
#include "engine/tls_report/tls_report.h"

#include <stdbool.h>

struct intake;

struct tls_mailing {
    bool is_away; /* the writer has it */
    int error;    /* of the last one that came back */
};

struct tls_mailing_request {
    const struct tls_report_head *head;
    const char *domain, *to;
    struct slice gzip;
};

/* Compose the mail and send it to the writer. errors: -ENOMEM, ERR_AGAIN: no id can be had now */
MUST_USE int tls_mailing_begin(struct tls_mailing *m, struct engine *e, const struct settings *s,
                               const struct tls_mailing_request *request, struct outbox *to_writer);
/* LETTER_STORED: takes the intake over. */
void tls_mailing_end(struct tls_mailing *m, struct intake *in);

#endif
