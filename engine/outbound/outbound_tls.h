/* What outbound sessions are worth to reports of RFC 8460: judged where they come as far as TLS, or
 * go on without it, and counted in the worker's own table.
 *
 * Nothing is counted without `from` in section tls_report. A session counts once, whatever it
 * carries. One that was opened to deliver a report is not counted (RFC 8460 section 5.2), nor one in
 * which TLS is not to be had by our own will. */
#ifndef ENGINE_OUTBOUND_TLS_H
#define ENGINE_OUTBOUND_TLS_H

#include "base/attr.h"
#include "base/slice.h"
#include "engine/config/config.h"
#include "engine/state/settings.h"
#include "engine/tls_report/tls_tally.h"
#include "engine/worker/worker.h"

#include <stdbool.h>

struct outbound;
struct outcome_verdict;
struct request;

static inline bool outbound_tls_is_counted(const struct settings *s)
{
    return s->config->tls_report.from != NULL;
}

/* The handshake ended in time. why: its proof is not enough; NULL: it is */
void outbound_tls_count_handshake(struct outbound *c, const char *why);
/* It failed. */
void outbound_tls_count_failure(struct outbound *c, const char *why);
/* The dialogue goes on, or ends, because the server does not do STARTTLS. Does nothing over TLS. */
void outbound_tls_count_plain(struct outbound *c);
/* The session ended before MAIL: counts where STARTTLS is the reason. */
void outbound_tls_count_refusal(struct outbound *c, const struct outcome_verdict *v);
/* Of no host it could be found out whether DANE holds, so none was connected to. */
void outbound_tls_count_bad_tlsa(struct worker *w, struct slice nexthop, const char *why);
/* Count one, where it is counted at all by these settings. */
void outbound_tls_add(struct worker *w, const struct settings *s,
                      const struct tls_session *session);
/* Send what was counted to the thread that reports. */
void outbound_tls_hand_over(struct worker *w) ON_ROLE(w->post);

/* All mail that waits for the connection says `TLS-Required: No`. */
MUST_USE bool outbound_tls_is_optional(const struct outbound *c);
/* What the session is worth to a transaction that requires TLS (RFC 8689 section 4.2.1): the server
 * proved who it is, and who it should be came from where nobody could change it: DNSSEC, a policy of
 * MTA-STS, or a name that the operator wrote. */
void outbound_tls_prove(const struct outbound *c, struct request *r);

#endif
