/* The grammar of command lines. Called by smtp_server with lines that strangers sent; every
 * parser here takes a slice, advances it, and refuses what it does not know. */
#include "net/smtp_command.h"

#include "base/error.h"

static bool is_command_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool smtp_command_is_alien(char first)
{
    return !is_command_letter(first) && first != ' ' && first != '\t' && first != '\r' &&
           first != '\n';
}

static const struct {
    const char *name;
    enum smtp_verb verb;
} verbs[] = {
    {"MAIL", SMTP_VERB_MAIL},         {"RCPT", SMTP_VERB_RCPT},
    {"DATA", SMTP_VERB_DATA},         {"BDAT", SMTP_VERB_BDAT},
    {"RSET", SMTP_VERB_RSET},         {"EHLO", SMTP_VERB_EHLO},
    {"HELO", SMTP_VERB_HELO},         {"QUIT", SMTP_VERB_QUIT},
    {"NOOP", SMTP_VERB_NOOP},         {"STARTTLS", SMTP_VERB_STARTTLS},
    {"AUTH", SMTP_VERB_AUTH},         {"VRFY", SMTP_VERB_VRFY},
    {"EXPN", SMTP_VERB_EXPN},         {"HELP", SMTP_VERB_HELP},
    {"GET", SMTP_VERB_FORBIDDEN},     {"POST", SMTP_VERB_FORBIDDEN},
    {"CONNECT", SMTP_VERB_FORBIDDEN}, {"HEAD", SMTP_VERB_FORBIDDEN},
    {"PUT", SMTP_VERB_FORBIDDEN},     {"DELETE", SMTP_VERB_FORBIDDEN},
    {"OPTIONS", SMTP_VERB_FORBIDDEN}, {"TRACE", SMTP_VERB_FORBIDDEN},
    {"PATCH", SMTP_VERB_FORBIDDEN},   {"PRI", SMTP_VERB_FORBIDDEN},
};

static enum smtp_verb find_verb(struct slice word)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (slice_ieq(word, slice_of(verbs[i].name))) {
            return verbs[i].verb;
        }
    }
    /* "Host: x", "Subject: x": a request or a message that was sent as commands. */
    bool is_header = word.len > 1 && word.data[word.len - 1] == ':';
    return is_header ? SMTP_VERB_FORBIDDEN : SMTP_VERB_UNKNOWN;
}

static struct slice skip_spaces(struct slice s)
{
    while (s.len > 0 && s.data[0] == ' ') {
        s = slice_from(s, 1);
    }
    return s;
}

struct smtp_command smtp_command_parse(struct slice line)
{
    struct smtp_command ret = {.verb = SMTP_VERB_BAD};

    if (line.len > 0 && smtp_command_is_alien(line.data[0])) {
        ret.verb = SMTP_VERB_FORBIDDEN;
        return ret;
    }
    if (line.len == 0 || line.data[0] == ' ') {
        return ret;
    }
    for (size_t i = 0; i < line.len; i++) {
        unsigned char c = (unsigned char)line.data[i];
        if (c < 32 || c == 127) {
            return ret;
        }
        ret.has_8bit = ret.has_8bit || c > 127;
    }
    struct slice word = slice_to(line, slice_find(line, ' '));
    ret.verb = find_verb(word);
    ret.args = slice_trim(slice_from(line, word.len));
    return ret;
}

/* "FROM:" or "TO:" in any case, spaces behind it forgiven. */
static bool skip_keyword(struct slice *in, struct slice keyword)
{
    if (in->len < keyword.len || !slice_ieq(slice_to(*in, keyword.len), keyword)) {
        return false;
    }
    *in = skip_spaces(slice_from(*in, keyword.len));
    return true;
}

bool smtp_command_is_bdat(struct slice line)
{
    return line.len >= 4 && slice_ieq(slice_to(line, 4), SLICE("BDAT"));
}

static bool has_8bit(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.data[i] > 127) {
            return true;
        }
    }
    return false;
}

/* Decimal digits only; saturates. */
static bool parse_param_number(struct slice text, uint64_t *ret)
{
    uint64_t value = 0;
    bool is_stuck = false;

    if (text.len == 0) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(text.data[i] - '0');
        is_stuck = is_stuck || __builtin_mul_overflow(value, 10, &value) ||
                   __builtin_add_overflow(value, digit, &value);
    }
    *ret = is_stuck ? UINT64_MAX : value;
    return true;
}

static bool is_upper_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

/* xtext of RFC 3461 section 4, without coded control characters: "+0D+0A" must go nowhere. */
static bool is_xtext(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c < 33 || c > 126 || c == '=') {
            return false;
        }
        if (c == '+') {
            if (text.len - i < 3 || !is_upper_hex(text.data[i + 1]) ||
                !is_upper_hex(text.data[i + 2]) || text.data[i + 1] < '2' ||
                (text.data[i + 1] == '7' && text.data[i + 2] == 'F')) {
                return false;
            }
            i += 2;
        }
    }
    return text.len > 0;
}

enum parameter {
    PARAMETER_SIZE = 1,
    PARAMETER_BODY = 2,
    PARAMETER_SMTPUTF8 = 4,
    PARAMETER_AUTH = 8,
    PARAMETER_MT_PRIORITY = 16,
    PARAMETER_REQUIRETLS = 32,
};

static unsigned find_parameter(struct slice key, struct smtp_command_offers offers)
{
    if (slice_ieq(key, SLICE("SIZE"))) {
        return PARAMETER_SIZE;
    }
    if (slice_ieq(key, SLICE("BODY"))) {
        return PARAMETER_BODY;
    }
    if (offers.smtputf8 && slice_ieq(key, SLICE("SMTPUTF8"))) {
        return PARAMETER_SMTPUTF8;
    }
    if (offers.mt_priority && slice_ieq(key, SLICE("MT-PRIORITY"))) {
        return PARAMETER_MT_PRIORITY;
    }
    if (offers.requiretls && slice_ieq(key, SLICE("REQUIRETLS"))) {
        return PARAMETER_REQUIRETLS;
    }
    return offers.auth && slice_ieq(key, SLICE("AUTH")) ? PARAMETER_AUTH : 0;
}

/* "0", "1" to "9", "-1" to "-9". */
static bool parse_priority(struct slice text, int8_t *ret)
{
    bool is_negative = text.len == 2 && text.data[0] == '-';
    struct slice digit = slice_from(text, is_negative ? 1 : 0);
    if (digit.len != 1 || digit.data[0] < (is_negative ? '1' : '0') || digit.data[0] > '9') {
        return false;
    }
    int value = digit.data[0] - '0';
    *ret = (int8_t)(is_negative ? -value : value);
    return true;
}

static bool set_parameter(unsigned parameter, bool has_value, struct slice value,
                          struct smtp_mail *ret)
{
    switch (parameter) {
    case PARAMETER_SIZE:
        return has_value && parse_param_number(value, &ret->size);
    case PARAMETER_BODY:
        ret->is_8bitmime = slice_ieq(value, SLICE("8BITMIME"));
        return ret->is_8bitmime || slice_ieq(value, SLICE("7BIT"));
    case PARAMETER_SMTPUTF8:
        ret->is_smtputf8 = true;
        return !has_value;
    case PARAMETER_REQUIRETLS:
        ret->requires_tls = true;
        return !has_value;
    case PARAMETER_MT_PRIORITY:
        ret->has_priority = true;
        return has_value && parse_priority(value, &ret->priority);
    default: /* AUTH= is checked and forgotten: we trust nobody's identity but the session's */
        return slice_eq(value, SLICE("<>")) || is_xtext(value);
    }
}

/* " KEY=value KEY ...", each after at least one space. */
static enum smtp_command_fault parse_parameters(struct slice in, struct smtp_command_offers offers,
                                                struct smtp_mail *ret)
{
    unsigned seen = 0;

    while (in.len > 0) {
        if (in.data[0] != ' ') {
            return SMTP_COMMAND_BAD_SYNTAX;
        }
        in = skip_spaces(in);
        struct slice word = slice_to(in, slice_find(in, ' '));
        in = slice_from(in, word.len);
        if (word.len == 0) {
            break;
        }
        size_t equals = slice_find(word, '=');
        bool has_value = equals < word.len;
        struct slice value = slice_from(word, has_value ? equals + 1 : word.len);
        unsigned parameter = find_parameter(slice_to(word, equals), offers);
        if (parameter == 0) {
            return SMTP_COMMAND_UNKNOWN_PARAMETER;
        }
        if ((seen & parameter) != 0 || !set_parameter(parameter, has_value, value, ret)) {
            return SMTP_COMMAND_BAD_PARAMETER;
        }
        seen |= parameter;
    }
    return SMTP_COMMAND_OK;
}

enum smtp_command_fault smtp_command_mail(struct slice args, struct smtp_command_offers offers,
                                          struct smtp_mail *ret)
{
    const unsigned flags = SMTP_ADDRESS_UTF8 | SMTP_ADDRESS_NULL | SMTP_ADDRESS_POSTMASTER;
    struct slice in = args;

    ret->size = 0;
    ret->is_8bitmime = false;
    ret->is_smtputf8 = false;
    ret->requires_tls = false;
    ret->has_priority = false;
    ret->priority = 0;
    if (!skip_keyword(&in, SLICE("FROM:"))) {
        return SMTP_COMMAND_BAD_SYNTAX;
    }
    struct slice path = in;
    if (smtp_address_parse_path(&in, flags, &ret->sender) != ERR_OK) {
        return SMTP_COMMAND_BAD_ADDRESS;
    }
    path.len -= in.len;
    enum smtp_command_fault fault = parse_parameters(in, offers, ret);
    if (fault != SMTP_COMMAND_OK) {
        return fault;
    }
    return has_8bit(path) && !ret->is_smtputf8 ? SMTP_COMMAND_NEEDS_UTF8 : SMTP_COMMAND_OK;
}

enum smtp_command_fault smtp_command_rcpt(struct slice args, bool is_smtputf8,
                                          struct smtp_address *ret)
{
    struct slice in = args;

    if (!skip_keyword(&in, SLICE("TO:"))) {
        return SMTP_COMMAND_BAD_SYNTAX;
    }
    if (smtp_address_parse_path(&in, SMTP_ADDRESS_UTF8 | SMTP_ADDRESS_POSTMASTER, ret) != ERR_OK) {
        return SMTP_COMMAND_BAD_ADDRESS;
    }
    if (in.len > 0) {
        return in.data[0] == ' ' ? SMTP_COMMAND_UNKNOWN_PARAMETER : SMTP_COMMAND_BAD_SYNTAX;
    }
    return has_8bit(args) && !is_smtputf8 ? SMTP_COMMAND_NEEDS_UTF8 : SMTP_COMMAND_OK;
}

bool smtp_command_bdat(struct slice args, uint64_t *ret_size, bool *ret_last)
{
    struct slice number = slice_to(args, slice_find(args, ' '));
    struct slice rest = skip_spaces(slice_from(args, number.len));

    if (!parse_param_number(number, ret_size)) {
        return false;
    }
    *ret_last = slice_ieq(rest, SLICE("LAST"));
    return *ret_last || rest.len == 0;
}
