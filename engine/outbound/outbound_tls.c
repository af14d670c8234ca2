/* Owns no state: reads a connection, says what its session is good for, and counts in its worker's table. Called by the files of the
 * outbound connection and by resolution. Must not change what becomes of a session. */
#include "engine/outbound/outbound_tls.h"

#include "base/buf.h"
#include "base/clock.h"
#include "dns/nexthop.h"
#include "engine/outbound/outbound_private.h"
#include "engine/outbound/request.h"
#include "engine/post/delivery.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"

#define DAY (86400 * USEC_PER_SEC)

void outbound_tls_hand_over(struct worker *w)
{
    post_assert_owner(&w->post);
    if (w->tls_tally != NULL) {
        letter_put_tls_tally(w->to_tls_reporter, w->tls_tally);
        w->tls_tally = NULL;
    }
}

void outbound_tls_add(struct worker *w, const struct settings *s, const struct tls_session *session)
{
    int64_t day = clock_wall() / DAY;
    post_assert_owner(&w->post);
    if (!outbound_tls_is_counted(s)) {
        return;
    }
    if (w->tls_tally != NULL && tls_tally_day(w->tls_tally) != day) {
        outbound_tls_hand_over(w);
    }
    w->tls_tally = w->tls_tally == NULL ? tls_tally_new(day) : w->tls_tally;
    if (w->tls_tally != NULL) { /* else one session is missing in a report */
        tls_tally_add(w->tls_tally, session, 1);
    }
}

/* "_25._tcp.mx.example.com. IN TLSA 3 1 1 0123...", a line each */
static void write_tlsa(const struct dns_host *h, struct buf *out)
{
    struct slice base = dane_base(h->tlsa);
    for (uint32_t i = 0; i < h->tlsa->count && out->len < TLS_TALLY_POLICY_MAX; i++) {
        const struct dns_tlsa *t = &h->tlsa->tlsa[i];
        buf_printf(out, "_%u._tcp." SLICE_FMT ". IN TLSA %u %u %u ", h->port, SLICE_ARG(base),
                   t->usage, t->selector, t->matching);
        for (size_t b = 0; b < t->data.len && out->len < TLS_TALLY_POLICY_MAX; b++) {
            buf_printf(out, "%02X", (unsigned)(unsigned char)t->data.data[b]);
        }
        buf_append_char(out, '\n');
    }
}

/* Which policy of the domain the session was under. tlsa: memory for its records */
static void set_basis(const struct outbound *c, struct tls_session *s, struct buf *tlsa)
{
    const struct dns_host *h = &c->hosts->list[c->host];
    s->policy_domain = s->domain;
    if (h->dane != DNS_DANE_NONE) {
        s->basis = TLS_BASIS_TLSA;
        s->policy_domain = dane_base(h->tlsa);
        write_tlsa(h, tlsa);
        s->policy = buf_slice(tlsa);
    } else if (c->hosts->policy.len > 0 || c->hosts->tried.len > 0) {
        s->basis = TLS_BASIS_STS;
        s->policy = c->hosts->policy.len > 0 ? c->hosts->policy : c->hosts->tried;
    } else if (c->hosts->tried_failure != TLS_FAILURE_NONE) {
        s->basis = TLS_BASIS_STS;
    }
}

/* The delivery for which the session was opened; NULL: it is not to be counted. */
static const struct delivery *counted_delivery(struct outbound *c)
{
    if (!outbound_tls_is_counted(c->settings) || c->is_tls_counted || c->is_relaxed ||
        c->policy.level == TLS_LEVEL_NONE || list_is_empty(&c->waiting)) {
        return NULL;
    }
    const struct delivery *d = list_first(&c->waiting, const struct request, link)->delivery;
    c->is_tls_counted = true;
    return (d->message->envelope.flags & SPOOL_FLAG_TLS_REPORT) != 0 ? NULL : d;
}

static void count_session(struct outbound *c, enum tls_failure failure, struct slice reason)
{
    const struct delivery *d = counted_delivery(c);
    const struct dns_host *h = &c->hosts->list[c->host];
    struct nexthop hop;
    struct buf tlsa;
    if (d == NULL || nexthop_parse(d->nexthop, 0, &hop) != 0 || hop.name.len == 0) {
        return; /* an address has no domain that could ask for reports */
    }
    struct ip ours = egress_address(&c->egress, h, &c->stream);
    char ours_text[IP_TEXT_MAX] = "";
    struct tls_session s = {
        .domain = dns_name_slice(&hop.name),
        .failure = failure,
        .sending_ip = ours.family == 0 ? SLICE("") : slice_of(ip_text(&ours, ours_text)),
        .mx_host = h->name,
        .receiving_ip = slice_of(c->address),
        .reason = reason,
    };
    buf_init(&tlsa, 0);
    set_basis(c, &s, &tlsa);
    outbound_tls_add(c->worker, c->settings, &s);
    buf_fini(&tlsa);
}

static enum tls_failure failure_of(enum tls_fault fault)
{
    switch (fault) {
    case TLS_FAULT_NAME:
        return TLS_FAILURE_HOST_MISMATCH;
    case TLS_FAULT_EXPIRED:
        return TLS_FAILURE_EXPIRED;
    case TLS_FAULT_UNTRUSTED:
        return TLS_FAILURE_NOT_TRUSTED;
    case TLS_FAULT_DANE:
        return TLS_FAILURE_TLSA_INVALID;
    case TLS_FAULT_NONE:
    case TLS_FAULT_OTHER:
    default:
        return TLS_FAILURE_VALIDATION;
    }
}

void outbound_tls_count_failure(struct outbound *c, const char *why)
{
    count_session(c, failure_of(stream_tls_fault(&c->stream)), slice_of(why));
}

/* What the session would have failed for, had the domain's policy been binding, or known. */
static enum tls_failure unbound_failure(const struct outbound *c, struct slice *ret_reason)
{
    const struct dns_host *h = &c->hosts->list[c->host];
    *ret_reason = SLICE("");
    if (h->dane == DNS_DANE_UNUSABLE) {
        *ret_reason = SLICE("no TLSA record is usable");
        return TLS_FAILURE_TLSA_INVALID;
    }
    if (c->hosts->tried.len > 0 && !c->tls.is_verified) {
        *ret_reason = slice_of(c->tls.verify_text == NULL ? "" : c->tls.verify_text);
        return failure_of(c->tls.fault);
    }
    if (c->hosts->tried.len > 0 && h->is_outside) {
        *ret_reason = SLICE("the MX host is not in the policy");
        return TLS_FAILURE_VALIDATION;
    }
    return (enum tls_failure)c->hosts->tried_failure;
}

void outbound_tls_count_handshake(struct outbound *c, const char *why)
{
    struct slice reason = slice_of(why == NULL ? "" : why);
    enum tls_failure failure = why != NULL ? failure_of(c->tls.fault) : unbound_failure(c, &reason);
    count_session(c, failure, reason);
}

void outbound_tls_count_plain(struct outbound *c)
{
    if (c->tls.protocol == NULL) {
        count_session(c, TLS_FAILURE_STARTTLS_NOT_SUPPORTED,
                      c->smtp.features.has_starttls ? SLICE("STARTTLS was refused") : SLICE(""));
    }
}

void outbound_tls_count_refusal(struct outbound *c, const struct outcome_verdict *v)
{
    if (v->stage == OUTCOME_STAGE_STARTTLS && v->code != 421) {
        outbound_tls_count_plain(c);
    }
}

void outbound_tls_count_bad_tlsa(struct worker *w, struct slice nexthop, const char *why)
{
    struct nexthop hop;
    if (nexthop_parse(nexthop, 0, &hop) != 0 || hop.name.len == 0) {
        return;
    }
    const struct tls_session s = {
        .domain = dns_name_slice(&hop.name),
        .basis = TLS_BASIS_TLSA,
        .policy_domain = dns_name_slice(&hop.name),
        .failure = TLS_FAILURE_DNSSEC_INVALID,
        .reason = slice_of(why),
    };
    outbound_tls_add(w, settings_of(w->engine), &s);
}

/* --- RFC 8689 --------------------------------------------------------------------------------- */

bool outbound_tls_is_optional(const struct outbound *c)
{
    list_foreach(r, &c->waiting, const struct request, link)
    {
        if ((r->delivery->message->envelope.flags & SPOOL_FLAG_TLS_OPTIONAL) == 0) {
            return false;
        }
    }
    return true;
}

void outbound_tls_prove(const struct outbound *c, struct request *r)
{
    const struct dns_host *h = &c->hosts->list[c->host];
    struct slice nexthop = r->delivery->nexthop;
    if (!r->transaction.requires_tls) {
        return;
    }
    bool is_name_safe =
        h->is_authentic || c->hosts->policy.len > 0 || (nexthop.len > 0 && nexthop.data[0] == '[');
    r->transaction.is_tls_proved = c->tls.protocol != NULL && c->tls.is_verified && is_name_safe;
    r->transaction.is_tls_broken = c->is_tls_broken;
}
