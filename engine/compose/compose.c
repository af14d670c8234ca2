/* Owns the envelope side of an injected message: who, to whom, for whom, when. Called by inject.c;
 * the content is compose_content.c's. Every member comes from a stranger and is checked. */
#include "base/date.h"
#include "base/error.h"
#include "base/packed.h"
#include "base/span.h"
#include "engine/compose/compose_private.h"
#include "engine/compose/mime_field.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

void composition_init(struct composition *c)
{
    *c = (struct composition){0};
    buf_init(&c->packed, 0);
    buf_init(&c->content, 0);
    buf_init(&c->dkim, COMPOSE_DKIM_MAX);
}

void composition_fini(struct composition *c)
{
    buf_fini(&c->packed);
    buf_fini(&c->content);
    buf_fini(&c->dkim);
}

/* --- mistakes --------------------------------------------------------------------------------- */

/* A place names members that a stranger named. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < 32 || *text > 126) {
            *text = '?';
        }
    }
}

static void tell_mistake(struct compose_mistakes *m, const char *what, const char *prefix,
                         const char *format, va_list args) __attribute__((format(printf, 4, 0)));

static void tell_mistake(struct compose_mistakes *m, const char *what, const char *prefix,
                         const char *format, va_list args)
{
    if (m->count < COMPOSE_MISTAKES_MAX) {
        struct compose_mistake *to = &m->list[m->count];
        int len = snprintf(to->where, sizeof(to->where), "%s", prefix);
        if (len >= 0 && (size_t)len < sizeof(to->where)) {
            (void)vsnprintf(to->where + len, sizeof(to->where) - (size_t)len, format, args);
        }
        (void)snprintf(to->what, sizeof(to->what), "%s", what); /* cut: still the place */
        make_printable(to->where);
    }
    m->count++;
}

void compose_mistake(struct compose_mistakes *m, const char *what, const char *where_format, ...)
{
    va_list args;
    va_start(args, where_format);
    tell_mistake(m, what, "", where_format, args);
    va_end(args);
}

void compose_wrong(struct composer *c, const char *what, const char *where_format, ...)
{
    va_list args;
    va_start(args, where_format);
    tell_mistake(c->mistakes, what, c->prefix, where_format, args);
    va_end(args);
}

/* --- members ---------------------------------------------------------------------------------- */

const json_t *compose_member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

struct slice compose_string(const json_t *string)
{
    return slice_make(json_string_value(string), json_string_length(string));
}

bool compose_text(struct composer *c, const json_t *object, const char *where, const char *key,
                  struct slice *ret)
{
    const json_t *value = compose_member(object, key);
    if (value == NULL) {
        return false;
    }
    if (!json_is_string(value)) {
        compose_wrong(c, "is no text", "%s%s", where, key);
        return false;
    }
    *ret = compose_string(value);
    return true;
}

void compose_known_members(struct composer *c, const json_t *object, const char *where,
                           const char *const *known)
{
    for (void *at = json_object_iter((json_t *)(uintptr_t)object); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
        const char *key = json_object_iter_key(at);
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            compose_wrong(c, "is not known", "%s%.*s", where, COMPOSE_KEY_SHOWN, key);
        }
    }
}

/* What a member of the message makes void in the defaults. */
static const char *const exclusions[][2] = {
    {"from", "sender"},        {"sender", "from"},
    {"expires", "expires_in"}, {"expires_in", "expires"},
    {"raw", "raw_base64"},     {"raw_base64", "raw"},
    {"raw", "headers"},        {"raw", "text"},
    {"raw", "html"},           {"raw", "attachments"},
    {"raw_base64", "headers"}, {"raw_base64", "text"},
    {"raw_base64", "html"},    {"raw_base64", "attachments"},
};

static bool has_field(const json_t *headers, const char *name)
{
    json_t *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)headers, key, value)
    {
        if (slice_ieq(slice_of(key), slice_of(name))) {
            return true;
        }
    }
    return false;
}

/* Fields of `own`, and those of `headers` beside them. Of two where one is refused for its size
 * anyway that one alone, as each name is compared with each. NULL when out of memory. */
static json_t *merge_headers(json_t *headers, json_t *own)
{
    if (json_object_size(own) > COMPOSE_FIELDS_MAX) {
        return json_incref(own);
    }
    if (json_object_size(headers) > COMPOSE_FIELDS_MAX) {
        return json_incref(headers);
    }
    json_t *both = json_copy(own);
    json_t *value;
    const char *key;
    json_object_foreach(headers, key, value)
    {
        if (!has_field(own, key) && json_object_set(both, key, value) != 0) {
            json_decref(both);
            return NULL;
        }
    }
    return both;
}

json_t *compose_merge(const json_t *defaults, const json_t *message)
{
    json_t *merged = json_object();
    json_t *own = json_object_get(message, "headers");
    /* Counts references only; both stay as they are. */
    if (merged == NULL || json_object_update(merged, (json_t *)(uintptr_t)defaults) != 0) {
        json_decref(merged);
        return NULL;
    }
    for (size_t i = 0; i < sizeof(exclusions) / sizeof(exclusions[0]); i++) {
        if (compose_member(message, exclusions[i][0]) != NULL) {
            /* fails when the defaults do not have the member */
            (void)json_object_del(merged, exclusions[i][1]);
        }
    }
    json_t *headers = json_incref(json_object_get(merged, "headers"));
    bool is_done = json_object_update(merged, (json_t *)(uintptr_t)message) == 0;
    if (is_done && json_is_object(own) && json_is_object(headers)) {
        json_t *both = merge_headers(headers, own);
        is_done = both != NULL && json_object_set_new(merged, "headers", both) == 0;
    }
    json_decref(headers);
    if (!is_done) {
        json_decref(merged);
        return NULL;
    }
    return merged;
}

/* --- addresses -------------------------------------------------------------------------------- */

bool compose_mailbox(struct composer *c, const json_t *value, const char *where, unsigned flags,
                     struct smtp_address *ret, struct slice *ret_name)
{
    static const char *const known[] = {"address", "name", NULL};
    const json_t *address = value;
    const char *suffix = "";
    *ret_name = SLICE("");
    if (json_is_object(value)) {
        char inside[COMPOSE_WHERE_BYTES];
        (void)snprintf(inside, sizeof(inside), "%s.", where); /* cut: only shown */
        compose_known_members(c, value, inside, known);
        address = compose_member(value, "address");
        suffix = ".address";
        if (compose_text(c, value, inside, "name", ret_name) &&
            (!mime_is_field_value(*ret_name) || ret_name->len > MIME_FIELD_DISPLAY_MAX)) {
            compose_wrong(c, "has a control character or is longer than 400 bytes", "%sname",
                          inside);
            return false;
        }
    }
    if (!json_is_string(address)) {
        compose_wrong(c, address == NULL ? "is missing" : "is no text", "%s%s", where, suffix);
        return false;
    }
    int err = smtp_address_parse(compose_string(address), flags | SMTP_ADDRESS_UTF8, ret);
    if (err != 0) {
        compose_wrong(c, err == ERR_LIMIT ? "is too long for a mail address" : "is no mail address",
                      "%s%s", where, suffix);
        return false;
    }
    c->ret->needs_utf8 = c->ret->needs_utf8 || ret->has_utf8;
    return true;
}

static void take_sender(struct composer *c)
{
    const json_t *from = compose_member(c->message, "from");
    const json_t *sender = compose_member(c->message, "sender");
    if (from != NULL && sender != NULL) {
        compose_wrong(c, "stands beside \"from\", which means the same", "sender");
    } else if (from == NULL && sender == NULL) {
        compose_wrong(c, "is missing: the envelope sender, \"\" for the null sender", "from");
    } else {
        compose_mailbox(c, from != NULL ? from : sender, from != NULL ? "from" : "sender",
                        SMTP_ADDRESS_NULL, &c->ret->sender, &c->sender_name);
    }
}

static void take_recipient(struct composer *c, const json_t *value, const char *where)
{
    const struct compose_options *o = c->options;
    struct smtp_address address;
    struct slice name;
    if (!compose_mailbox(c, value, where, 0, &address, &name)) {
        return;
    }
    if (o->has_route != NULL && !o->has_route(o->routes, address.domain)) {
        compose_wrong(c, "has a domain to which no route leads", "%s%s", where,
                      json_is_object(value) ? ".address" : "");
        return;
    }
    if (c->ret->recipient_count == 0) {
        smtp_address_copy(&c->first, &address);
        c->first_name = name;
    }
    packed_append(&c->ret->packed, smtp_address_slice(&address));
    c->ret->recipient_count++;
}

static void take_composed_recipients(struct composer *c)
{
    const json_t *list = compose_member(c->message, "recipients");
    char where[sizeof("recipients[]") + 24];
    if (json_is_string(list) || json_is_object(list)) {
        take_recipient(c, list, "recipients");
        return;
    }
    size_t count = json_array_size(list);
    if (count == 0) {
        compose_wrong(c, "is missing: an array of at least one address", "recipients");
        return;
    }
    if (c->options->recipient_limit > 0 && count > c->options->recipient_limit) {
        compose_wrong(c, "has more addresses than message may have recipients", "recipients");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(where, sizeof(where), "recipients[%zu]", i); /* it fits */
        take_recipient(c, json_array_get(list, i), where);
    }
}

/* --- whose and when --------------------------------------------------------------------------- */

static void take_label(struct composer *c, const char *key, struct label *ret)
{
    struct slice text;
    if (!compose_text(c, c->message, "", key, &text) || text.len == 0) {
        return;
    }
    label_set(ret, text);
    if (ret->len == 0) {
        compose_wrong(c, "is not 1 to 64 printable ASCII characters without space", "%s", key);
    }
}

static void take_class(struct composer *c)
{
    const json_t *value = compose_member(c->message, "class");
    c->ret->class = MAIL_CLASS_COUNT;
    if (value == NULL) {
        return;
    }
    if (json_is_string(value)) {
        c->ret->class = mail_class_find(compose_string(value));
    }
    if (c->ret->class == MAIL_CLASS_COUNT) {
        compose_wrong(c, "is none of urgent, normal and bulk", "class");
    }
}

/* One name, or several in a list or with commas between them. Which keys there are, and whose, is not
 * known here. */
static void take_dkim(struct composer *c)
{
    const json_t *value = compose_member(c->message, "dkim");
    struct buf *out = &c->ret->dkim;
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (value == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(item) || json_string_length(item) == 0) {
            compose_wrong(c, "is no list of names of keys, s1._domainkey.example.com", "dkim");
            return;
        }
        if (out->len > 0) {
            buf_append_char(out, ',');
        }
        buf_append_slice(out, compose_string(item));
    }
    if (out->failed) {
        compose_wrong(c, "is longer than 4096 bytes", "dkim");
    }
}

static void take_require_tls(struct composer *c)
{
    const json_t *value = compose_member(c->message, "require_tls");
    c->ret->requires_tls = json_is_true(value);
    if (value != NULL && !json_is_boolean(value)) {
        compose_wrong(c, "is neither true nor false", "require_tls");
    }
}

static bool seconds_to_usec(double seconds, usec_t *ret)
{
    if (!(seconds >= 0 && seconds < 1e11)) { /* NaN as well */
        return false;
    }
    *ret = (usec_t)llround(seconds * 1e6);
    return true;
}

/* All digits: seconds since 1970, as a query parameter has them. */
static bool parse_moment(struct slice text, usec_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || i == 11) {
            return date_parse(text, ret);
        }
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *ret = (usec_t)value * USEC_PER_SEC;
    return text.len > 0;
}

/* returns false: missing, or wrong, which was told */
static bool take_time(struct composer *c, const char *key, bool is_span, usec_t *ret)
{
    const json_t *value = compose_member(c->message, key);
    if (value == NULL) {
        return false;
    }
    bool is_right = false;
    if (json_is_number(value)) {
        is_right = seconds_to_usec(json_number_value(value), ret);
    } else if (json_is_string(value)) {
        is_right = is_span ? span_parse(compose_string(value), ret)
                           : parse_moment(compose_string(value), ret);
    }
    if (!is_right) {
        compose_wrong(c,
                      is_span ? "is no span like \"90s\", \"15m\", \"2h\", \"5d\""
                              : "is no time: RFC 3339 like \"2030-01-31T12:00:00Z\", or seconds "
                                "since 1970",
                      "%s", key);
    }
    return is_right;
}

static void take_times(struct composer *c)
{
    usec_t now = c->options->now, moment;
    usec_t begin = now;
    if (take_time(c, "not_before", false, &moment) && moment > now) {
        c->ret->not_before = begin = moment;
        if (moment - now > COMPOSE_SCHEDULE_AHEAD) {
            compose_wrong(c, "is more than 366 days ahead", "not_before");
            return;
        }
    }
    bool has_moment = compose_member(c->message, "expires") != NULL;
    const char *key = has_moment ? "expires" : "expires_in";
    if (has_moment && compose_member(c->message, "expires_in") != NULL) {
        compose_wrong(c, "stands beside \"expires\"", "expires_in");
        return;
    }
    if (!take_time(c, key, !has_moment, &moment)) {
        return;
    }
    moment = has_moment ? moment : begin + moment;
    if (moment <= begin) {
        compose_wrong(c, c->ret->not_before != 0 ? "is not after \"not_before\"" : "is not to come",
                      "%s", key);
    } else if (moment - begin > COMPOSE_SCHEDULE_AHEAD) {
        compose_wrong(c, "is more than 366 days ahead", "%s", key);
    } else {
        c->ret->expires = moment;
    }
}

/* The member that most likely makes a message too large. */
static const char *bulky_member(const json_t *message)
{
    if (compose_member(message, "attachments") != NULL) {
        return "attachments";
    }
    return compose_member(message, "raw") != NULL ? "raw" : "text";
}

int compose_message(const struct compose_options *options, const struct compose_input *input,
                    struct compose_mistakes *mistakes, struct composition *ret)
{
    static const char *const known[] = {
        "from",        "sender",     "recipients", "headers",    "text",        "html",
        "attachments", "raw",        "raw_base64", "tenant",     "campaign",    "class",
        "dkim",        "not_before", "expires",    "expires_in", "require_tls", NULL};
    struct composer c = {.options = options,
                         .message = input->message,
                         .prefix = input->prefix,
                         .id = input->id,
                         .mistakes = mistakes,
                         .ret = ret};
    if (!json_is_object(input->message)) {
        char place[COMPOSE_WHERE_BYTES];
        size_t len = strlen(input->prefix); /* "messages[2]." without its dot */
        (void)snprintf(place, sizeof(place), "%.*s", len > 0 ? (int)len - 1 : 0, input->prefix);
        compose_mistake(mistakes, "is no object", "%s", place);
        return 0;
    }
    compose_known_members(&c, input->message, "", known);
    take_sender(&c);
    take_composed_recipients(&c);
    take_label(&c, "tenant", &ret->tenant);
    take_label(&c, "campaign", &ret->campaign);
    take_class(&c);
    take_dkim(&c);
    take_require_tls(&c);
    take_times(&c);
    int err = compose_content(&c, input->raw);
    if (err != 0 || ret->packed.failed || ret->content.failed) {
        return err != 0 ? err : -ENOMEM;
    }
    if (options->size_limit > 0 && ret->content.len > options->size_limit) {
        char what[COMPOSE_WHERE_BYTES];
        (void)snprintf(what, sizeof(what), "is %zu bytes with this, of %llu allowed",
                       ret->content.len, (unsigned long long)options->size_limit);
        compose_wrong(&c, what, "%s", bulky_member(input->message));
    }
    return 0;
}
