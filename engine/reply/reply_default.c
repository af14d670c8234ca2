/* Owns the table of replies without a rule. Called by reply_set.c. */
#include "engine/reply/reply_default.h"

#include <stdlib.h>
#include <string.h>

/* The two numbers behind the class of an enhanced status; both 0: there is none, or x.0.0. */
struct detail {
    unsigned subject, detail;
};

static struct detail detail_of(const char *status)
{
    struct detail d = {0, 0};
    const char *first = strchr(status, '.');
    const char *second = first != NULL ? strchr(first + 1, '.') : NULL;
    if (second != NULL) {
        d.subject = (unsigned)strtoul(first + 1, NULL, 10);
        d.detail = (unsigned)strtoul(second + 1, NULL, 10);
    }
    return d;
}

static bool starts(struct slice text, struct slice with)
{
    return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

/* Nobody replied. */
static enum reply_class without_reply(const struct reply *r, const char **why)
{
    static const struct slice lost[] = {
        {"connect to ", 11},
        {"lost connection with ", 21},
        {"conversation with ", 18},
    };
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        if (starts(r->text, lost[i])) {
            *why = "no connection, or it was lost";
            return REPLY_UNAVAILABLE;
        }
    }
    if (starts(r->text, SLICE("Protocol error"))) {
        *why = "the dialogue went wrong";
        return REPLY_PROTOCOL;
    }
    *why = "there was no reply";
    return REPLY_OTHER;
}

/* The rows by what the reply answers; REPLY_CLASS_NONE: none of them. */
static enum reply_class by_stage(const struct reply *r, struct detail d, enum reply_scope *scope,
                                 const char **why)
{
    bool is_soft = r->code < 500;
    if (r->stage == REPLY_AT_GREETING && r->code == 421 && r->has_others) {
        *scope = REPLY_CONNECTIONS;
        *why = "421 at the greeting while other connections live";
        return REPLY_THROTTLED;
    }
    if ((r->stage == REPLY_AT_GREETING || r->stage == REPLY_AT_EHLO ||
         r->stage == REPLY_AT_STARTTLS) &&
        is_soft) {
        *why = "4xx before MAIL";
        return REPLY_UNAVAILABLE;
    }
    if (r->stage == REPLY_AT_AUTH) {
        *why = "a reply to AUTH";
        return REPLY_AUTH;
    }
    if (r->stage == REPLY_AT_MAIL && is_soft &&
        ((r->code == 421 && d.subject != 4) || d.subject == 7 ||
         (d.subject == 3 && d.detail == 2))) {
        *scope = r->is_later_mail ? REPLY_SESSION : REPLY_MESSAGES;
        *why = r->is_later_mail ? "421, 4.7.x or 4.3.2 to a later MAIL of a session"
                                : "421, 4.7.x or 4.3.2 to MAIL";
        return REPLY_THROTTLED;
    }
    bool may_be_rcpt = r->stage == REPLY_AT_RCPT || r->stage == REPLY_AT_NOTHING;
    if (may_be_rcpt && (r->code == 450 || r->code == 451) && d.subject == 7 && d.detail == 1 &&
        !r->is_known_here) {
        *why = "450 or 451 4.7.1 to RCPT";
        return REPLY_GREYLISTED;
    }
    if (r->stage == REPLY_AT_END && is_soft && d.subject != 2) {
        *why = "4xx at the end of the content";
        return REPLY_OTHER;
    }
    return REPLY_CLASS_NONE;
}

/* RFC 3463 and RFC 7372; detail 0: any other of the subject */
static const struct {
    unsigned subject, detail;
    enum reply_class class;
} statuses[] = {
    {1, 7, REPLY_POLICY},      {1, 8, REPLY_POLICY},      {1, 0, REPLY_MAILBOX},
    {2, 1, REPLY_MAILBOX},     {2, 2, REPLY_FULL},        {2, 3, REPLY_CONTENT},
    {2, 0, REPLY_OTHER},       {3, 1, REPLY_FULL},        {3, 4, REPLY_CONTENT},
    {3, 0, REPLY_UNAVAILABLE}, {4, 0, REPLY_UNAVAILABLE}, {5, 3, REPLY_OTHER},
    {5, 0, REPLY_PROTOCOL},    {6, 0, REPLY_CONTENT},     {7, 8, REPLY_AUTH},
    {7, 9, REPLY_AUTH},        {7, 20, REPLY_AUTH},       {7, 21, REPLY_AUTH},
    {7, 22, REPLY_AUTH},       {7, 23, REPLY_AUTH},       {7, 24, REPLY_AUTH},
    {7, 25, REPLY_AUTH},       {7, 26, REPLY_AUTH},       {7, 0, REPLY_POLICY},
};

static enum reply_class by_status(struct detail d)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        if (statuses[i].subject == d.subject &&
            (statuses[i].detail == d.detail || statuses[i].detail == 0)) {
            return statuses[i].class;
        }
    }
    return REPLY_CLASS_NONE;
}

/* RFC 5321, 7504, 4954; a code that means more than one thing says nothing without its stage. Of 550
 * alone nobody may conclude that there is no such recipient, as addresses are suppressed by that:
 * receivers say it of anything, so words or a status have to say so. */
static enum reply_class by_code(const struct reply *r)
{
    bool is_rcpt = r->stage == REPLY_AT_RCPT || (r->stage == REPLY_AT_NOTHING && !r->is_report);
    if (r->is_unsaid) { /* the code is from the status, which said no more */
        return r->code < 500 ? REPLY_UNAVAILABLE : REPLY_OTHER;
    }
    switch (r->code) {
    case 421:
    case 432:
    case 451:
        return REPLY_UNAVAILABLE;
    case 450:
        return is_rcpt ? REPLY_MAILBOX : REPLY_OTHER;
    case 452:
    case 552:
        return is_rcpt ? REPLY_FULL : REPLY_OTHER;
    case 454:
    case 530:
    case 534:
    case 535:
    case 538:
        return REPLY_AUTH;
    case 500:
    case 501:
    case 502:
    case 503:
    case 504:
    case 555:
        return REPLY_PROTOCOL;
    case 551:
    case 556:
        return is_rcpt ? REPLY_MAILBOX : REPLY_POLICY;
    case 521:
    case 550:
    case 553:
        return is_rcpt ? REPLY_OTHER : REPLY_POLICY;
    case 554:
        return REPLY_POLICY;
    default:
        return REPLY_OTHER;
    }
}

enum reply_class reply_default(const struct reply *reply, enum reply_scope *ret_scope,
                               const char **ret_why)
{
    struct detail d = detail_of(reply->status);
    *ret_scope = REPLY_SCOPE_NONE;
    if (reply->code == 0) {
        return without_reply(reply, ret_why);
    }
    enum reply_class class = by_stage(reply, d, ret_scope, ret_why);
    if (class == REPLY_CLASS_NONE) {
        class = by_status(d);
        *ret_why = "its enhanced status";
    }
    if (class == REPLY_MAILBOX && reply->stage < REPLY_AT_RCPT) {
        class = REPLY_POLICY; /* of the sender, as the recipient was not named yet */
    }
    if (class == REPLY_CLASS_NONE) {
        class = by_code(reply);
        *ret_why = reply->is_unsaid ? "no reply is in the report" : "its code";
    }
    return class;
}
