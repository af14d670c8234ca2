/* Owns what an accounting file says of an event. Called by account_file.c's owner, the feed, and by
 * the configuration for names of columns; must not know of files. */
#include "engine/event/account_row.h"

#include "base/date.h"
#include "base/error.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

static const char *const column_names[ACCOUNT_COLUMN_COUNT] = {
    [ACCOUNT_TYPE] = "type",
    [ACCOUNT_TIME_LOGGED] = "timeLogged",
    [ACCOUNT_TIME_QUEUED] = "timeQueued",
    [ACCOUNT_ORIG] = "orig",
    [ACCOUNT_RCPT] = "rcpt",
    [ACCOUNT_ORCPT] = "orcpt",
    [ACCOUNT_DSN_ACTION] = "dsnAction",
    [ACCOUNT_DSN_STATUS] = "dsnStatus",
    [ACCOUNT_DSN_DIAG] = "dsnDiag",
    [ACCOUNT_DSN_MTA] = "dsnMta",
    [ACCOUNT_BOUNCE_CAT] = "bounceCat",
    [ACCOUNT_SRC_TYPE] = "srcType",
    [ACCOUNT_SRC_MTA] = "srcMta",
    [ACCOUNT_DLV_TYPE] = "dlvType",
    [ACCOUNT_DLV_SOURCE_IP] = "dlvSourceIp",
    [ACCOUNT_DLV_DESTINATION_IP] = "dlvDestinationIp",
    [ACCOUNT_DLV_ESMTP_AVAILABLE] = "dlvEsmtpAvailable",
    [ACCOUNT_DLV_SIZE] = "dlvSize",
    [ACCOUNT_VMTA] = "vmta",
    [ACCOUNT_JOB_ID] = "jobId",
    [ACCOUNT_ENV_ID] = "envId",
    [ACCOUNT_QUEUE] = "queue",
    [ACCOUNT_VMTA_POOL] = "vmtaPool",
    [ACCOUNT_MSG_ID] = "msgId",
    [ACCOUNT_TENANT] = "tenant",
    [ACCOUNT_ATTEMPTS] = "attempts",
    [ACCOUNT_DELAY] = "delay",
    [ACCOUNT_REPLY_CLASS] = "replyClass",
    [ACCOUNT_MAIL_CLASS] = "mailClass",
    [ACCOUNT_DKIM] = "dkim",
    [ACCOUNT_DKIM_KEYS] = "dkimKeys",
};

/* One event, parsed. */
struct entry {
    const json_t *event, *response, *peer;
    char type; /* as in the first column */
    bool is_expired;
    const struct account_names *names;
};

enum account_column account_column_find(struct slice name)
{
    size_t i = 0;
    while (i < ACCOUNT_COLUMN_COUNT && !slice_eq(name, slice_of(column_names[i]))) {
        i++;
    }
    return (enum account_column)i;
}

/* --- values ----------------------------------------------------------------------------------- */

/* "" when there is none */
static const char *event_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* RFC 4180 section 2, rules 5 to 7 */
static void put_csv_value(struct buf *out, struct slice value)
{
    bool is_plain = true;
    for (size_t i = 0; i < value.len; i++) {
        is_plain = is_plain && strchr(",\"\r\n", value.data[i]) == NULL;
    }
    if (is_plain) {
        buf_append_slice(out, value);
        return;
    }
    buf_append_char(out, '"');
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] == '"') {
            buf_append_char(out, '"');
        }
        buf_append_char(out, value.data[i]);
    }
    buf_append_char(out, '"');
}

static void put_csv_text(struct buf *out, const char *text)
{
    put_csv_value(out, slice_of(text));
}

static void put_csv_number(struct buf *out, const json_t *number)
{
    if (json_is_integer(number)) {
        buf_printf(out, "%lld", (long long)json_integer_value(number));
    } else if (json_is_real(number)) {
        buf_printf(out, "%.10g", json_real_value(number));
    }
}

/* "2026-11-22 10:16:27+0000", as PowerMTA writes it */
static void put_csv_time(struct buf *out, const json_t *seconds)
{
    struct date d;
    json_int_t value = json_integer_value(seconds);
    if (value > 0 && value < INT64_MAX / USEC_PER_SEC) {
        date_split(value * USEC_PER_SEC, &d);
        buf_printf(out, "%04u-%02u-%02u %02u:%02u:%02u+0000", d.year, d.month, d.day, d.hour,
                   d.minute, d.second);
    }
}

/* "mx.example.com (192.0.2.1)" */
static void put_peer(struct buf *out, const struct entry *e)
{
    struct buf text;
    const char *name = event_text(e->peer, "name");
    const char *address = event_text(e->peer, "addr");
    buf_init(&text, 0);
    buf_append_str(&text, name);
    if (address[0] != '\0') {
        buf_printf(&text, name[0] != '\0' ? " (%s)" : "%s", address);
    }
    put_csv_value(out, buf_slice(&text));
    out->failed = out->failed || text.failed;
    buf_fini(&text);
}

struct status {
    int class_, subject, detail; /* class_ 0: there is none */
};

static struct status status_of(const struct entry *e)
{
    const json_t *code = json_object_get(e->response, "enhanced_code");
    return (struct status){
        .class_ = (int)json_integer_value(json_object_get(code, "class")),
        .subject = (int)json_integer_value(json_object_get(code, "subject")),
        .detail = (int)json_integer_value(json_object_get(code, "detail")),
    };
}

static void put_csv_status(struct buf *out, const struct entry *e)
{
    struct status s = status_of(e);
    if (s.class_ != 0) {
        buf_printf(out, "%d.%d.%d", s.class_, s.subject, s.detail);
    }
}

/* "smtp;550 5.1.1 no such user" */
static void put_diagnosis(struct buf *out, const struct entry *e)
{
    struct buf text;
    int code = (int)json_integer_value(json_object_get(e->response, "code"));
    if (e->response == NULL) {
        return;
    }
    buf_init(&text, 0);
    buf_append_str(&text, "smtp;");
    if (code != 0) {
        buf_printf(&text, "%d ", code);
    }
    size_t before = text.len;
    put_csv_status(&text, e);
    if (text.len > before) {
        buf_append_char(&text, ' ');
    }
    buf_append_str(&text, event_text(e->response, "content"));
    put_csv_value(out, buf_slice(&text));
    out->failed = out->failed || text.failed;
    buf_fini(&text);
}

/* PowerMTA's categories by RFC 3463's codes, the best that a code alone can say. */
static const char *bounce_category(const struct entry *e)
{
    static const struct {
        int subject, detail; /* -1: any */
        const char *category;
    } rules[] = {
        {1, 1, "bad-mailbox"},      {1, 2, "bad-domain"},         {1, 3, "bad-mailbox"},
        {1, 6, "inactive-mailbox"}, {1, 7, "invalid-sender"},     {1, 8, "invalid-sender"},
        {1, 10, "bad-domain"},      {1, -1, "bad-mailbox"},       {2, 1, "inactive-mailbox"},
        {2, 2, "quota-issues"},     {2, 3, "content-related"},    {2, -1, "bad-mailbox"},
        {3, 4, "content-related"},  {3, -1, "bad-configuration"}, {4, 1, "no-answer-from-host"},
        {4, 2, "bad-connection"},   {4, 4, "routing-errors"},     {4, 6, "routing-errors"},
        {4, 7, "message-expired"},  {4, -1, "routing-errors"},    {5, -1, "protocol-errors"},
        {6, -1, "content-related"}, {7, 1, "policy-related"},     {7, -1, "policy-related"},
    };
    struct status s = status_of(e);
    if (e->type != 'b' && e->type != 't') {
        return "";
    }
    if (e->is_expired) {
        return "message-expired";
    }
    for (size_t i = 0; s.class_ != 0 && i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].subject == s.subject &&
            (rules[i].detail == s.detail || rules[i].detail == -1)) {
            return rules[i].category;
        }
    }
    return "other";
}

static const char *action(const struct entry *e)
{
    switch (e->type) {
    case 'd':
        return "relayed";
    case 'b':
        return "failed";
    case 't':
        return "delayed";
    default:
        return "";
    }
}

static const char *source_address(const struct entry *e)
{
    const char *source = event_text(e->event, "egress_source");
    bool is_v6 = strchr(event_text(e->peer, "addr"), ':') != NULL;
    const char *text = e->names == NULL || source[0] == '\0' || e->type == 'r'
                           ? NULL
                           : e->names->source_address(e->names->ctx, source, is_v6);
    return text != NULL ? text : "";
}

static const char *pool(const struct entry *e)
{
    const char *transport = event_text(e->event, "transport");
    const char *text = e->names == NULL || transport[0] == '\0'
                           ? NULL
                           : e->names->pool_of(e->names->ctx, transport);
    return text != NULL ? text : "";
}

/* "example.com/mta1" */
static void put_queue(struct buf *out, const struct entry *e)
{
    struct buf text;
    const char *recipient = event_text(e->event, "recipient");
    const char *source = event_text(e->event, "egress_source");
    const char *at = strrchr(recipient, '@');
    if (at == NULL || e->type == 'r') {
        return;
    }
    buf_init(&text, 0);
    buf_append_str(&text, at + 1);
    if (source[0] != '\0') {
        buf_append_char(&text, '/');
        buf_append_str(&text, source);
    }
    put_csv_value(out, buf_slice(&text));
    out->failed = out->failed || text.failed;
    buf_fini(&text);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Where the message came from, and where it went: the peer of the log is either. */
static void put_way(struct buf *out, const struct entry *e, enum account_column column)
{
    bool is_in = e->type == 'r';
    if (column == ACCOUNT_SRC_TYPE && is_in) {
        put_csv_text(out, event_text(e->event, "reception_protocol")[0] != '\0' ? "smtp" : "");
    } else if (column == (is_in ? ACCOUNT_SRC_MTA : ACCOUNT_DSN_MTA)) {
        put_peer(out, e);
    } else if (column == ACCOUNT_DLV_TYPE && !is_in) {
        put_csv_text(out, "smtp");
    } else if (column == ACCOUNT_DLV_DESTINATION_IP && !is_in) {
        put_csv_text(out, event_text(e->peer, "addr"));
    } else if (column == ACCOUNT_DLV_SOURCE_IP) {
        put_csv_text(out, source_address(e));
    }
}

/* Columns that are members of the event as they are; NULL: it is none of them. */
static const char *member_of(enum account_column column)
{
    static const char *const members[ACCOUNT_COLUMN_COUNT] = {
        [ACCOUNT_ORIG] = "sender",
        [ACCOUNT_RCPT] = "recipient",
        [ACCOUNT_VMTA] = "egress_source",
        [ACCOUNT_JOB_ID] = "campaign",
        [ACCOUNT_MSG_ID] = "id",
        [ACCOUNT_TENANT] = "tenant",
        [ACCOUNT_ATTEMPTS] = "num_attempts",
        [ACCOUNT_DELAY] = "delay",
        [ACCOUNT_DLV_SIZE] = "size",
        [ACCOUNT_REPLY_CLASS] = "bounce_classification",
        [ACCOUNT_MAIL_CLASS] = "mail_class",
        [ACCOUNT_DKIM] = "dkim",
    };
    return members[column];
}

static void put_member(struct buf *out, const json_t *value)
{
    if (json_is_string(value)) {
        put_csv_value(out, slice_make(json_string_value(value), json_string_length(value)));
    } else {
        put_csv_number(out, value);
    }
}

/* "s1._domainkey.example.com s2._domainkey.example.com": names of the DNS, which have no space */
static void put_keys(struct buf *out, const struct entry *e)
{
    const json_t *keys = json_object_get(e->event, "dkim_keys");
    struct buf text;
    buf_init(&text, 0);
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *name = json_string_value(json_array_get(keys, i));
        buf_append_str(&text, i == 0 ? "" : " ");
        buf_append_str(&text, name == NULL ? "" : name);
    }
    put_csv_value(out, buf_slice(&text));
    out->failed = out->failed || text.failed;
    buf_fini(&text);
}

static void put_column(struct buf *out, const struct entry *e, enum account_column column)
{
    if (member_of(column) != NULL) {
        put_member(out, json_object_get(e->event, member_of(column)));
    } else if (column == ACCOUNT_TYPE) {
        buf_append_char(out, e->type);
    } else if (column == ACCOUNT_TIME_LOGGED) {
        put_csv_time(out, json_object_get(e->event, "timestamp"));
    } else if (column == ACCOUNT_TIME_QUEUED) {
        put_csv_time(out, json_object_get(e->event, "created"));
    } else if (column == ACCOUNT_DSN_ACTION) {
        put_csv_text(out, action(e));
    } else if (column == ACCOUNT_DSN_STATUS) {
        put_csv_status(out, e);
    } else if (column == ACCOUNT_DSN_DIAG) {
        put_diagnosis(out, e);
    } else if (column == ACCOUNT_BOUNCE_CAT) {
        put_csv_text(out, bounce_category(e));
    } else if (column == ACCOUNT_QUEUE) {
        put_queue(out, e);
    } else if (column == ACCOUNT_VMTA_POOL) {
        put_csv_text(out, pool(e));
    } else if (column == ACCOUNT_DKIM_KEYS) {
        put_keys(out, e);
    } else {
        put_way(out, e, column);
    }
}

void account_row_names(struct buf *out, const enum account_column *columns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_append_str(out, column_names[columns[i]]);
        buf_append_char(out, i + 1 < count ? ',' : '\n');
    }
}

/* The letter of the event's type in column `type`; 0: an event of this type gets no row. */
static char row_type(const char *type)
{
    static const struct {
        const char *type;
        char letter;
    } rows[] = {{"Delivery", 'd'},         {"Bounce", 'b'},    {"Expiration", 'b'},
                {"AdminBounce", 'b'},      {"AdminDrop", 'b'}, {"Suppressed", 'b'},
                {"TransientFailure", 't'}, {"Reception", 'r'}, {"OOB", 'o'},
                {"Feedback", 'f'},         {"AutoReply", 'a'}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(type, rows[i].type) == 0) {
            return rows[i].letter;
        }
    }
    return 0;
}

int account_row(struct buf *out, struct slice line, const enum account_column *columns,
                size_t count, const struct account_names *names)
{
    json_t *event = json_loadb(line.data, line.len, JSON_ALLOW_NUL, NULL);
    struct entry e = {
        .event = event,
        .response = json_object_get(event, "response"),
        .peer = json_object_get(event, "peer_address"),
        .type = row_type(event_text(event, "type")),
        .is_expired = strcmp(event_text(event, "type"), "Expiration") == 0,
        .names = names,
    };
    for (size_t i = 0; e.type != 0 && i < count; i++) {
        put_column(out, &e, columns[i]);
        buf_append_char(out, i + 1 < count ? ',' : '\n');
    }
    json_decref(event);
    return e.type == 0 ? ERR_SYNTAX : 0;
}
