/* What kind a report is, by what its parts and its header say.
 * Called by heard.c. Must not look at tokens: whether we wrote the original decides nothing here. */
#include "engine/heard/heard_kind.h"

#include "engine/config/label.h"

#include <string.h>
#include <strings.h>

/* Subjects with which programs answer for people. */
static const char *const absences[] = {"out of office",
                                       "out of the office",
                                       "automatic reply",
                                       "auto-reply",
                                       "autoreply",
                                       "auto reply",
                                       "auto response",
                                       "autoresponse",
                                       "auto-response",
                                       "vacation reply",
                                       "on vacation",
                                       "away from my mail",
                                       "abwesenheit",
                                       "automatische antwort",
                                       "automatisch antwoord",
                                       "afwezig",
                                       "absence du bureau",
                                       "réponse automatique",
                                       "respuesta autom",
                                       "fuera de la oficina",
                                       "resposta autom",
                                       "risposta automatica",
                                       "fuori sede",
                                       "autosvar",
                                       "automaattinen",
                                       "automatyczna odpowied",
                                       "автоответ",
                                       "自動応答",
                                       "自动回复",
                                       "자동 회신",
                                       NULL};

/* Nothing but the wish is in the subject: of "Unsubscribe from our old list is now easier" a person's
 * program makes "Re: Unsubscribe from ...", and wishes nothing. */
static bool is_wish(struct slice subject)
{
    static const char *const wishes[] = {"unsubscribe",
                                         "un-subscribe",
                                         "unsubscribe me",
                                         "please unsubscribe",
                                         "please unsubscribe me",
                                         "unsubscribe please",
                                         "unsubscribe request",
                                         "request to unsubscribe",
                                         "remove",
                                         "remove me",
                                         "please remove me",
                                         "opt-out",
                                         "opt out",
                                         "optout",
                                         "abmelden",
                                         "abmeldung",
                                         "désinscription",
                                         "désabonnement",
                                         "cancelar suscripción",
                                         "cancella iscrizione",
                                         "uitschrijven",
                                         NULL};
    while (heard_begins(subject, "re:") || heard_begins(subject, "aw:") ||
           heard_begins(subject, "fw:") || heard_begins(subject, "sv:")) {
        subject = slice_trim(slice_from(subject, 3));
    }
    while (subject.len > 0 && strchr(".!", subject.data[subject.len - 1]) != NULL) {
        subject.len--;
    }
    for (size_t i = 0; wishes[i] != NULL; i++) {
        if (slice_ieq(subject, slice_of(wishes[i]))) {
            return true;
        }
    }
    return false;
}

/* A wish as all that the subject says, or the address that it was sent to. */
static bool is_unsubscribe(const struct heard *r, struct slice recipient)
{
    size_t at = slice_find(recipient, '@');
    return is_wish(slice_of(r->subject)) || label_is_unsubscribe(slice_to(recipient, at));
}

static void settle_kind(struct heard *r, enum heard_kind kind, const char *shape)
{
    r->kind = kind;
    r->shape = shape;
}

void heard_decide(struct heard_parts *parts, struct slice recipient)
{
    struct heard *r = parts->report;
    struct slice prose = buf_slice(parts->prose.len > 0 ? &parts->prose : &parts->plain);
    const char *shape;
    if (parts->has_feedback) {
        bool is_opt_out = heard_begins(slice_of(r->feedback_type), "opt-out");
        settle_kind(r, is_opt_out ? HEARD_UNSUBSCRIBE : HEARD_COMPLAINT, "RFC 5965");
    } else if (parts->has_status && r->recipient_count > 0) {
        settle_kind(r, HEARD_BOUNCE, "RFC 3464");
    } else if (parts->is_jmrp) {
        settle_kind(r, HEARD_COMPLAINT, "JMRP");
        heard_set(r->feedback_type, sizeof(r->feedback_type), SLICE("abuse"));
    } else if ((shape = heard_prose_read(parts, prose)) != NULL) {
        settle_kind(r, HEARD_BOUNCE, shape);
    } else if (parts->has_status) {
        settle_kind(r, HEARD_BOUNCE, "RFC 3464 without a recipient");
    } else if (parts->has_disposition) {
        settle_kind(r, HEARD_AUTO_REPLY, "RFC 8098");
    } else if (!parts->is_auto_replied && is_unsubscribe(r, recipient)) {
        settle_kind(r, HEARD_UNSUBSCRIBE, "mail");
    } else if (parts->is_auto_submitted && !parts->has_list_field) {
        settle_kind(r, HEARD_AUTO_REPLY, "RFC 3834");
    } else if (heard_has_any(slice_of(r->subject), absences)) {
        settle_kind(r, HEARD_AUTO_REPLY, "subject");
    } else {
        settle_kind(r, HEARD_UNKNOWN, "");
    }
    if (r->kind == HEARD_AUTO_REPLY || r->kind == HEARD_UNSUBSCRIBE) {
        heard_note_address(r, slice_of(r->from)); /* it is the recipient who writes */
    }
    if (r->kind == HEARD_UNSUBSCRIBE) {
        /* Maybe from an address that the mail was sent on to; our links name the one it was for. */
        heard_note_addresses(r, slice_of(r->subject));
    }
}
