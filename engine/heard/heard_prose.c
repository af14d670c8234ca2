/* Bounces written for people: by qmail, old Exims, sendmails, Exchanges, and all that came after
 * them. The text above the returned message is cut into recipients and what is said of each.
 *
 * A line names a recipient when an address is all of it, stands in brackets at its start, or follows
 * one of a few phrases; what follows up to the next such line is the reason. It may be read wrong:
 * an address counts only when its hash agrees with a token, and a reason only by the rules for
 * replies.
 * Called by heard.c. Must not be asked where a delivery status tells the same. */
#include "engine/heard/heard_private.h"

#include <string.h>
#include <strings.h>

/* A text that only bounces have, and whose it is. */
static const struct {
    const char *words, *shape;
} strong[] = {
    {"this is the qmail-send program", "qmail"},
    {"wasn't able to deliver your message to the following addresses", "qmail"},
    {"created automatically by mail delivery software", "Exim"},
    {"could not be delivered to one or more of its", "Exim"},
    {"the following addresses had permanent fatal errors", "sendmail"},
    {"the following addresses had transient non-fatal errors", "sendmail"},
    {"the original message was received at", "sendmail"},
    {"this is the postfix program at host", "Postfix"},
    {"this is the mail system at host", "Postfix"},
    {"did not reach the following recipient(s)", "Exchange"},
    {"did not reach some or all of the intended recipients", "Exchange"},
    {"the following recipient(s) could not be reached", "Exchange"},
    {"delivery has failed to these recipients", "Exchange"},
    {"your message couldn't be delivered to the recipients shown below", "Exchange"},
    {"diagnostic information for administrators", "Exchange"},
    {"delivery to the following recipient failed permanently", "Gmail"},
    {"delivery to the following recipients failed", "Exchange"},
    {"delivery to the following recipient has been delayed", "Gmail"},
    {"sorry, we were unable to deliver your message", "Yahoo"},
    {"message from yahoo", "Yahoo"},
    {"was not delivered to:", "Domino"},
    {"user mailbox exceeds allowed size:", "IMail"},
    {"the message that you sent was undeliverable to the following", "GroupWise"},
    {"permanent fatal delivery error", "MDaemon"},
    {"the following addresses had delivery errors", "MDaemon"},
    {"message undeliverable", "Courier"},
    {"undelivered message follows", "Courier"},
    {"could not deliver the message to the following", "other"},
    {"could not be delivered to the following", "other"},
    {"could not be delivered to:", "other"},
    {"undeliverable to the following", "other"},
    {"unable to deliver your message to", "other"},
    {"unable to deliver message to", "other"},
    {"undeliverable mail", "other"},
    {"failed to deliver to", "other"},
};

/* Subjects of bounces. */
static const char *const subjects[] = {"failure notice",
                                       "delivery status notification",
                                       "undelivered mail",
                                       "undeliverable",
                                       "returned mail",
                                       "mail delivery fail",
                                       "delivery failure",
                                       "mail delivery system",
                                       "delivery notification",
                                       "message not delivered",
                                       "nondeliverable",
                                       "non-deliverable",
                                       "failed delivery",
                                       "mail system error",
                                       "delivery failed",
                                       "could not send message",
                                       "warning: message",
                                       "delivery error",
                                       "unzustellbar",
                                       "non remis",
                                       "no se puede entregar",
                                       "non recapitabile",
                                       NULL};

/* Lines under which the returned message stands. */
static const char *const separators[] = {"--- below this line is a copy of the message",
                                         "------ this is a copy of the message",
                                         "----- original message",
                                         "--- original message",
                                         "---- original message",
                                         "----- unsent message below",
                                         "--- the header of the original message",
                                         "----- message header follows",
                                         "--- undelivered message follows",
                                         "original message headers:",
                                         "original message follows",
                                         "--- message from yahoo",
                                         "--- enclosed is the original message",
                                         "----- header of the original message",
                                         "----- message headers",
                                         NULL};

/* Without such a line: how its header begins. */
static const char *const first_fields[] = {"received: from", "return-path:", NULL};

/* Phrases with the address behind them on the same line. */
static const char *const naming[] = {"undeliverable to",
                                     "exceeds allowed size:",
                                     "unknown user:",
                                     "user unknown:",
                                     "no such user:",
                                     "rcpt to:",
                                     "unknown recipient",
                                     "invalid recipient",
                                     "deliver to",
                                     "delivered to:",
                                     "recipient:",
                                     "mailbox for",
                                     NULL};

static const char *const delays[] = {"warning message only",
                                     "has been delayed",
                                     "is delayed",
                                     "has not yet been delivered",
                                     "will continue to try",
                                     "will keep trying",
                                     "still trying",
                                     "transient non-fatal errors",
                                     "could not send message for past",
                                     "message still undelivered",
                                     NULL};

/* --- lines ------------------------------------------------------------------------------------ */

static struct slice take_line(struct slice *text)
{
    size_t len = slice_find(*text, '\n');
    struct slice line = slice_to(*text, len);
    *text = slice_from(*text, len < text->len ? len + 1 : len);
    return line;
}

static bool begins_any(struct slice line, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (heard_begins(line, words[i])) {
            return true;
        }
    }
    return false;
}

/* What stands above the returned message, and the message; all of it is above when there is none. */
static struct slice split(struct slice text, struct slice *ret_returned)
{
    struct slice rest = text;
    *ret_returned = slice_make("", 0);
    while (rest.len > 0) {
        const char *start = rest.data;
        struct slice line = slice_trim(take_line(&rest));
        bool is_field = begins_any(line, first_fields);
        if (is_field || begins_any(line, separators)) {
            size_t above = (size_t)(start - text.data);
            /* Empty lines may follow the separator. */
            *ret_returned = slice_trim(is_field ? slice_from(text, above) : rest);
            return slice_to(text, above);
        }
    }
    return text;
}

static bool is_of_mail_system(struct slice address)
{
    return heard_begins(address, "postmaster@") || heard_begins(address, "mailer-daemon@");
}

/* Whether an address is all of a line but for what may stand around it, or begins it in brackets. */
static bool is_alone(struct slice line, struct slice address, struct slice *ret_behind)
{
    struct slice front = slice_to(line, (size_t)(address.data - line.data));
    struct slice behind = slice_from(line, front.len + address.len);
    bool is_bracketed = front.len > 0 && front.data[front.len - 1] == '<';
    *ret_behind = behind;
    if (is_bracketed) {
        struct slice name = slice_trim(slice_to(front, front.len - 1));
        return name.len == 0 || slice_trim(behind).len <= 2;
    }
    for (size_t i = 0; i < front.len; i++) {
        if (strchr(" \t*-'\"(", front.data[i]) == NULL) {
            /* "Jane Doe (jane@example.com)", and the address twice */
            return front.data[front.len - 1] == '(' && slice_trim(behind).len <= 2;
        }
    }
    struct slice rest = slice_trim(behind);
    return rest.len == 0 || rest.data[0] == ':' || rest.data[0] == '(' || rest.data[0] == '<' ||
           rest.data[0] == '\'' || rest.data[0] == '"' || heard_begins(rest, "on ") ||
           heard_begins(rest, "- ");
}

/* The recipient that a line names, and what it says behind it. */
static bool named_by(struct slice line, struct slice *ret, struct slice *ret_behind)
{
    struct slice rest = line, address;
    if (!heard_find_address(&rest, &address) || is_of_mail_system(address)) {
        return false;
    }
    *ret = address;
    if (is_alone(line, address, ret_behind)) {
        return true;
    }
    for (size_t i = 0; naming[i] != NULL; i++) {
        if (heard_find_word(slice_to(line, (size_t)(address.data - line.data)), naming[i]) <
            (size_t)(address.data - line.data)) {
            *ret_behind = line;
            return true;
        }
    }
    return false;
}

/* --- recipients ------------------------------------------------------------------------------- */

static void finish(struct heard_recipient *recipient, struct slice reason)
{
    struct slice status;
    reason = slice_trim(reason);
    while (reason.len > 0 && (reason.data[0] == ':' || reason.data[0] == '>')) {
        reason = slice_trim(slice_from(reason, 1));
    }
    if (recipient->status[0] == '\0' && heard_find_status(reason, &status)) {
        heard_set(recipient->status, sizeof(recipient->status), status);
    }
    size_t code = heard_find_code(reason);
    heard_set(recipient->diagnostic, sizeof(recipient->diagnostic),
              code < reason.len ? slice_from(reason, code) : reason);
}

static void read_recipients(struct heard *r, struct slice text)
{
    struct heard_recipient *open = NULL;
    const char *reason = NULL;
    struct slice rest = text;
    while (rest.len > 0) {
        struct slice address, behind, line = take_line(&rest);
        if (!named_by(line, &address, &behind)) {
            continue;
        }
        /* An address that is named again, by a transcript say, goes on with its reason. */
        if (open != NULL && slice_ieq(slice_of(open->address), address)) {
            continue;
        }
        struct heard_recipient *next = heard_recipient_of(r, address);
        if (next == NULL || next->diagnostic[0] != '\0') {
            continue;
        }
        if (open != NULL) {
            finish(open, slice_make(reason, (size_t)(line.data - reason)));
        }
        open = next;
        reason = behind.data;
    }
    if (open != NULL) {
        finish(open, slice_make(reason, (size_t)(text.data + text.len - reason)));
    }
}

/* Those that only a field named have all that the text says. */
static void finish_others(struct heard *r, struct slice text)
{
    for (size_t i = 0; i < r->recipient_count; i++) {
        if (r->recipients[i].diagnostic[0] == '\0') {
            finish(&r->recipients[i], text);
        }
    }
}

/* Somebody answers a bounce, or sends it on. */
static bool is_answer(struct slice subject)
{
    static const char *const answers[] = {
        "re:", "aw:", "sv:", "antw:", "fw:", "fwd:", "wg:", "tr:", NULL};
    return begins_any(subject, answers);
}

/* Whether a person quotes the line in which the word stands. */
static bool is_quoted(struct slice text, size_t word)
{
    while (word > 0 && text.data[word - 1] != '\n') {
        word--;
    }
    return text.data[word] == '>';
}

/* NULL: no text that only bounces have */
static const char *shape_of(struct slice text)
{
    for (size_t i = 0; i < sizeof(strong) / sizeof(strong[0]); i++) {
        size_t at = heard_find_word(text, strong[i].words);
        if (at < text.len && !is_quoted(text, at)) {
            return strong[i].shape;
        }
    }
    return NULL;
}

const char *heard_prose_read(struct heard_parts *parts, struct slice text)
{
    struct heard *r = parts->report;
    struct slice returned, above = split(text, &returned);
    const char *shape = shape_of(above);
    bool has_subject =
        !is_answer(slice_of(r->subject)) && heard_has_any(slice_of(r->subject), subjects);
    if (shape == NULL && !parts->has_failed_field && !(has_subject && parts->is_from_daemon)) {
        return NULL;
    }
    if (shape != NULL && !has_subject && !parts->is_from_daemon && !parts->has_failed_field) {
        return NULL; /* somebody quotes a bounce */
    }
    read_recipients(r, above);
    finish_others(r, above);
    heard_note_addresses(r, above);
    if (returned.len > 0 && !parts->has_returned) {
        heard_returned_header(parts, returned);
    }
    bool is_delay = heard_has_any(above, delays) || heard_has_any(slice_of(r->subject), delays);
    for (size_t i = 0; is_delay && i < r->recipient_count; i++) {
        r->recipients[i].action = HEARD_DELAYED;
    }
    return shape == NULL ? "other" : shape;
}
