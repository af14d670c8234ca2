/* DNS answers, read by a cursor that checks every step and remembers the first failure.
 * Called by the lookup layer and the fuzzer with bytes from strangers.
 * Must not allocate, loop without bound or look at the additional section. */
#include "dns/dns_wire.h"

#include "base/error.h"

#include <assert.h>
#include <string.h>

enum {
    HEADER_BYTES = 12,
    WIRE_NAME_MAX = 255, /* RFC 1035 2.3.4, length bytes and root included */
    CLASS_IN = 1,
    TLSA_HEAD_BYTES = 3, /* usage, selector, matching type (RFC 6698 2.1) */
    FLAG_QR = 0x8000,
    FLAG_TC = 0x0200,
    FLAG_AD = 0x0020,
};

/* Reads past the end give zeros and set `failed`; everything after that stays failed. */
struct cursor {
    const uint8_t *data;
    size_t len;
    size_t at;
    bool failed;
};

/* One record of the answer section; offsets into the packet. */
struct raw_record {
    uint16_t owner, rdata, rdata_len, type;
    uint32_t ttl;
};

static uint32_t cursor_read(struct cursor *c, size_t bytes)
{
    uint32_t value = 0;

    if (c->failed || c->len - c->at < bytes) {
        c->failed = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | c->data[c->at++];
    }
    return value;
}

static void cursor_skip(struct cursor *c, size_t bytes)
{
    if (c->failed || c->len - c->at < bytes) {
        c->failed = true;
        return;
    }
    c->at += bytes;
}

static bool is_host_byte(uint8_t b)
{
    return (b >= 'a' && b <= 'z') || (b >= '0' && b <= '9') || b == '-' || b == '_';
}

static uint8_t lower_label_byte(uint8_t b)
{
    return b >= 'A' && b <= 'Z' ? (uint8_t)(b | 0x20) : b;
}

static void name_append_label(struct dns_name *name, const uint8_t *label, size_t len)
{
    if (!name->is_valid) {
        return;
    }
    size_t at = name->len;
    if (at > 0) {
        name->text[at++] = '.';
    }
    /* The wire limit of 255 leaves at most 253 bytes of text, checked by the caller. */
    assert(at + len <= DNS_NAME_MAX);
    for (size_t i = 0; i < len; i++) {
        uint8_t b = lower_label_byte(label[i]);
        if (!is_host_byte(b)) {
            name->is_valid = false;
            return;
        }
        name->text[at++] = (char)b;
    }
    name->len = (uint8_t)at;
}

/* Read a name, compressed or not. A pointer must lead before the name or the part of it that held
 * the pointer, so each jump moves towards the start and the walk ends. */
static void cursor_read_name(struct cursor *c, struct dns_name *ret)
{
    size_t at = c->at;
    size_t barrier = c->at;
    size_t end = 0; /* where the cursor goes on: behind the first pointer, or the root */
    size_t wire_bytes = 1;

    ret->len = 0;
    ret->is_valid = true;
    while (!c->failed) {
        if (at >= c->len) {
            c->failed = true;
            break;
        }
        uint8_t head = c->data[at];
        if (head == 0) {
            end = end == 0 ? at + 1 : end;
            break;
        }
        if ((head & 0xc0) == 0xc0) {
            if (c->len - at < 2) {
                c->failed = true;
                break;
            }
            size_t target = (size_t)(head & 0x3f) << 8 | c->data[at + 1];
            end = end == 0 ? at + 2 : end;
            if (target >= barrier || target < HEADER_BYTES) {
                c->failed = true;
                break;
            }
            barrier = at = target;
            continue;
        }
        wire_bytes += (size_t)head + 1;
        if (head > DNS_LABEL_MAX || wire_bytes > WIRE_NAME_MAX || c->len - at <= head) {
            c->failed = true;
            break;
        }
        name_append_label(ret, c->data + at + 1, head);
        at += (size_t)head + 1;
    }
    if (c->failed || !ret->is_valid) {
        ret->len = 0;
        ret->is_valid = false;
    }
    ret->text[ret->len] = '\0';
    if (!c->failed) {
        c->at = end;
    }
}

static bool name_eq(const struct dns_name *a, const struct dns_name *b)
{
    return a->is_valid && b->is_valid && slice_eq(dns_name_slice(a), dns_name_slice(b));
}

static uint32_t ttl_of(uint32_t wire)
{
    return wire > INT32_MAX ? 0 : wire;
}

/* Pass over a name without following pointers: walks over sections stay cheap. */
static void cursor_skip_name(struct cursor *c)
{
    for (;;) {
        uint32_t head = cursor_read(c, 1);
        if (c->failed || head == 0) {
            return;
        }
        if (head >= 0xc0) {
            cursor_skip(c, 1);
            return;
        }
        if (head > DNS_LABEL_MAX) {
            c->failed = true;
            return;
        }
        cursor_skip(c, head);
    }
}

/* Read the head of one record; the cursor is behind the record's data afterwards. */
static struct raw_record cursor_read_record(struct cursor *c)
{
    struct raw_record raw = {.owner = (uint16_t)c->at};

    cursor_skip_name(c);
    raw.type = (uint16_t)cursor_read(c, 2);
    uint32_t class = cursor_read(c, 2);
    raw.ttl = ttl_of(cursor_read(c, 4));
    raw.rdata_len = (uint16_t)cursor_read(c, 2);
    raw.rdata = (uint16_t)c->at;
    cursor_skip(c, raw.rdata_len);
    if (class != CLASS_IN) {
        raw.type = 0;
    }
    return raw;
}

static struct cursor cursor_at(const struct cursor *c, size_t at)
{
    return (struct cursor){c->data, c->len, at, false};
}

static bool owner_is(const struct cursor *c, const struct raw_record *raw,
                     const struct dns_name *name)
{
    struct cursor at = cursor_at(c, raw->owner);
    struct dns_name owner;

    cursor_read_name(&at, &owner);
    return name_eq(&owner, name);
}

/* A name that must fill the record's data from `skip` to its end. */
static bool read_rdata_name(const struct cursor *c, const struct raw_record *raw, size_t skip,
                            struct dns_name *ret)
{
    struct cursor at = cursor_at(c, raw->rdata + skip);

    if (raw->rdata_len <= skip) {
        return false;
    }
    cursor_read_name(&at, ret);
    return !at.failed && at.at == (size_t)raw->rdata + raw->rdata_len;
}

/* Least of the SOA's TTL and its minimum field, which is the last of 20 bytes after two names. */
static void read_soa(struct cursor *c, const struct raw_record *raw, struct dns_answer *ret)
{
    struct cursor at = cursor_at(c, raw->rdata);
    struct dns_name skipped;

    cursor_read_name(&at, &skipped);
    cursor_read_name(&at, &skipped);
    cursor_skip(&at, 16);
    uint32_t minimum = ttl_of(cursor_read(&at, 4));
    if (at.failed || at.at != (size_t)raw->rdata + raw->rdata_len) {
        c->failed = true;
        return;
    }
    ret->has_soa = true;
    ret->negative_ttl = raw->ttl < minimum ? raw->ttl : minimum;
}

/* Room for one more record: a free place, or the MX of greatest preference if this one is less. */
static struct dns_record *place_record(struct dns_answer *ret, enum dns_type type,
                                       uint16_t preference)
{
    bool is_address = type == DNS_TYPE_A || type == DNS_TYPE_AAAA;
    if (ret->record_count < (is_address ? DNS_ADDRESSES_MAX : DNS_RECORDS_MAX)) {
        return &ret->records[ret->record_count++];
    }
    ret->skipped++;
    if (type != DNS_TYPE_MX) {
        return NULL;
    }
    struct dns_record *worst = &ret->records[0];
    for (size_t i = 1; i < DNS_RECORDS_MAX; i++) {
        if (ret->records[i].preference > worst->preference) {
            worst = &ret->records[i];
        }
    }
    return worst->preference > preference ? worst : NULL;
}

static void read_address(struct cursor *c, const struct raw_record *raw, struct ip *ret)
{
    size_t bytes = raw->type == DNS_TYPE_A ? 4 : 16;

    if (raw->rdata_len != bytes) {
        c->failed = true;
        return;
    }
    ret->family = raw->type == DNS_TYPE_A ? 4 : 6;
    memcpy(ret->bytes, c->data + raw->rdata, bytes);
}

/* TXT is strings, each behind its length, that fill the data (RFC 1035 3.3.14). */
static bool is_strings(const struct cursor *c, const struct raw_record *raw)
{
    size_t at = 0;

    while (at < raw->rdata_len) {
        at += (size_t)c->data[raw->rdata + at] + 1;
    }
    return at == raw->rdata_len && at > 0;
}

static void read_record(struct cursor *c, const struct raw_record *raw, struct dns_answer *ret)
{
    struct cursor at = cursor_at(c, raw->rdata);
    struct dns_record record = {.ttl = raw->ttl};

    switch ((enum dns_type)raw->type) {
    case DNS_TYPE_MX:
        record.preference = (uint16_t)cursor_read(&at, 2);
        c->failed |= at.failed || !read_rdata_name(c, raw, 2, &record.exchange);
        break;
    case DNS_TYPE_CNAME:
        c->failed |= !read_rdata_name(c, raw, 0, &record.exchange);
        break;
    case DNS_TYPE_TLSA:
        c->failed |= raw->rdata_len < TLSA_HEAD_BYTES;
        break;
    case DNS_TYPE_TXT:
        c->failed |= !is_strings(c, raw);
        break;
    case DNS_TYPE_A:
    case DNS_TYPE_AAAA:
        read_address(c, raw, &record.ip);
        break;
    case DNS_TYPE_SOA:
    default:
        assert(false); /* the resolver asks for no such record */
    }
    record.data = slice_make((const char *)c->data + raw->rdata, raw->rdata_len);
    if (c->failed) {
        return;
    }
    struct dns_record *place = place_record(ret, raw->type, record.preference);
    if (place != NULL) {
        *place = record;
    }
}

/* Follow one CNAME owned by ret->name; false when there is none. */
static bool follow_alias(struct cursor *c, size_t start, uint32_t count, struct dns_answer *ret)
{
    struct cursor walk = cursor_at(c, start);

    for (uint32_t i = 0; i < count; i++) {
        struct raw_record raw = cursor_read_record(&walk);
        if (raw.type != DNS_TYPE_CNAME || !owner_is(c, &raw, &ret->name)) {
            continue;
        }
        struct dns_name target;
        if (!read_rdata_name(c, &raw, 0, &target)) {
            c->failed = true;
            return false;
        }
        ret->name = target;
        ret->alias_count++;
        if (raw.ttl < ret->alias_ttl) {
            ret->alias_ttl = raw.ttl;
        }
        return target.is_valid && target.len > 0;
    }
    return false;
}

/* The answer section: first the aliases, in whatever order they were sent, then the records that
 * the last name owns. */
static void read_answers(struct cursor *c, uint32_t count, enum dns_type type,
                         struct dns_answer *ret)
{
    size_t start = c->at;
    bool has_alias = false;

    for (uint32_t i = 0; i < count && !c->failed; i++) {
        has_alias |= cursor_read_record(c).type == DNS_TYPE_CNAME;
    }
    while (has_alias && type != DNS_TYPE_CNAME && !c->failed && !ret->is_alias_loop) {
        if (!follow_alias(c, start, count, ret)) {
            break;
        }
        ret->is_alias_loop = ret->alias_count > DNS_CNAME_MAX;
    }
    struct cursor walk = cursor_at(c, start);
    for (uint32_t i = 0; i < count && !c->failed; i++) {
        struct raw_record raw = cursor_read_record(&walk);
        if (raw.type == type && owner_is(c, &raw, &ret->name)) {
            read_record(c, &raw, ret);
        }
    }
}

static void read_authority(struct cursor *c, uint32_t count, struct dns_answer *ret)
{
    for (uint32_t i = 0; i < count && !c->failed; i++) {
        struct raw_record raw = cursor_read_record(c);
        if (raw.type == DNS_TYPE_SOA && !ret->has_soa && !c->failed) {
            read_soa(c, &raw, ret);
        }
    }
}

int dns_wire_parse(const uint8_t *data, size_t len, const struct dns_name *name, enum dns_type type,
                   struct dns_answer *ret)
{
    struct cursor c = {data, len, 0, false};
    struct dns_name question;

    if (len > UINT16_MAX) {
        return ERR_SYNTAX;
    }
    ret->id = (uint16_t)cursor_read(&c, 2);
    uint32_t flags = cursor_read(&c, 2);
    uint32_t question_count = cursor_read(&c, 2);
    uint32_t answer_count = cursor_read(&c, 2);
    uint32_t authority_count = cursor_read(&c, 2);
    cursor_skip(&c, 2);
    cursor_read_name(&c, &question);
    uint32_t question_type = cursor_read(&c, 2);
    uint32_t question_class = cursor_read(&c, 2);
    if (c.failed || (flags & FLAG_QR) == 0 || question_count != 1 || !name_eq(&question, name) ||
        question_type != (uint32_t)type || question_class != CLASS_IN) {
        return ERR_SYNTAX;
    }
    ret->rcode = flags & 0xf;
    ret->is_truncated = (flags & FLAG_TC) != 0;
    ret->is_authentic = (flags & FLAG_AD) != 0;
    ret->is_alias_loop = false;
    ret->has_soa = false;
    ret->alias_count = 0;
    ret->alias_ttl = UINT32_MAX;
    ret->negative_ttl = 0;
    ret->name = *name;
    ret->skipped = 0;
    ret->record_count = 0;
    if (ret->is_truncated) {
        /* What is there may end anywhere; the caller may not use it anyway. */
        return 0;
    }
    read_answers(&c, answer_count, type, ret);
    read_authority(&c, authority_count, ret);
    return c.failed ? ERR_SYNTAX : 0;
}

int dns_name_from_text(struct slice text, struct dns_name *ret)
{
    struct dns_name name = {.is_valid = true};
    size_t label_len = 0;

    if (text.len > 0 && text.data[text.len - 1] == '.') {
        text.len--;
    }
    if (text.len == 0 || text.len > DNS_NAME_MAX) {
        return ERR_SYNTAX;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t b = lower_label_byte((uint8_t)text.data[i]);
        if (b == '.' ? label_len == 0 : !is_host_byte(b) || ++label_len > DNS_LABEL_MAX) {
            return ERR_SYNTAX;
        }
        if (b == '.') {
            label_len = 0;
        }
        name.text[i] = (char)b;
    }
    if (label_len == 0) {
        return ERR_SYNTAX;
    }
    name.len = (uint8_t)text.len;
    *ret = name;
    return 0;
}

const char *dns_type_text(enum dns_type type)
{
    switch (type) {
    case DNS_TYPE_A:
        return "A";
    case DNS_TYPE_CNAME:
        return "CNAME";
    case DNS_TYPE_SOA:
        return "SOA";
    case DNS_TYPE_MX:
        return "MX";
    case DNS_TYPE_TXT:
        return "TXT";
    case DNS_TYPE_AAAA:
        return "AAAA";
    case DNS_TYPE_TLSA:
        return "TLSA";
    default:
        return "?";
    }
}
