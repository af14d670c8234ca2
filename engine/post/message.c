#include "engine/post/message.h"

#include "base/buf.h"
#include "base/packed.h"
#include "engine/config/config.h"
#include "engine/heard/return_book.h"
#include "engine/post/signing.h"
#include "engine/state/settings.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Addresses of a page. Pages are small, as one slow recipient keeps its whole page in memory. */
enum { PAGE = 64 };

static size_t envelope_bytes(const struct spool_envelope *e)
{
    return e->sender.len + e->peer_name.len + e->peer_address.len + e->protocol.len +
           e->auth_user.len + e->tenant.len + e->campaign.len;
}

/* Copies s to *at and moves *at behind it. */
static struct slice keep_envelope_text(char **at, struct slice s)
{
    struct slice kept = {*at, s.len};
    if (s.len > 0) {
        memcpy(*at, s.data, s.len);
    }
    *at += s.len;
    return kept;
}

static uint32_t page_count(const struct message *m)
{
    return (m->envelope.recipient_count + PAGE - 1) / PAGE;
}

/* Most messages have one recipient: a whole page for each would be most of the memory of a full
 * active queue. */
static uint32_t page_entries(const struct message *m, uint32_t page)
{
    uint32_t left = m->envelope.recipient_count - page * PAGE;
    return left < PAGE ? left : PAGE;
}

static size_t page_bytes(uint32_t entries)
{
    return sizeof(struct message_page) + entries * sizeof(char *);
}

/* Behind the struct: the page table, `extra` bytes for the caller (*ret_extra, aligned), and the
 * envelope's strings. */
static struct message *create(const struct spool_envelope *envelope, size_t extra, char **ret_extra)
{
    uint32_t pages = (envelope->recipient_count + PAGE - 1) / PAGE;
    size_t table = pages * sizeof(struct message_page *);
    struct message *m = malloc(sizeof(*m) + table + extra + envelope_bytes(envelope) + 1);
    if (m == NULL) {
        return NULL;
    }
    memset(m, 0, sizeof(*m));
    m->pages = (struct message_page **)(m + 1);
    memset(m->pages, 0, table);
    char *at = (char *)m->pages + table;
    *ret_extra = at;
    at += extra;
    m->envelope = *envelope;
    m->envelope.sender = keep_envelope_text(&at, envelope->sender);
    m->envelope.peer_name = keep_envelope_text(&at, envelope->peer_name);
    m->envelope.peer_address = keep_envelope_text(&at, envelope->peer_address);
    m->envelope.protocol = keep_envelope_text(&at, envelope->protocol);
    m->envelope.auth_user = keep_envelope_text(&at, envelope->auth_user);
    m->envelope.tenant = keep_envelope_text(&at, envelope->tenant);
    m->envelope.campaign = keep_envelope_text(&at, envelope->campaign);
    list_init(&m->active);
    list_init(&m->in_flow);
    m->whole_at = MESSAGE_IN_PARTS;
    message_account_init(&m->account);
    atomic_init(&m->references, 1);
    return m;
}

struct message *message_new_whole(const struct spool_envelope *envelope, struct slice packed)
{
    uint32_t count = envelope->recipient_count;
    assert(count <= SPOOL_BATCH_RECIPIENTS);
    size_t pages = (count + PAGE - 1) / PAGE * sizeof(struct message_page) + count * sizeof(char *);
    char *extra;
    struct message *m = create(envelope, pages + packed.len, &extra);
    if (m == NULL) {
        return NULL;
    }
    memset(extra, 0, pages);
    m->is_whole = true;
    for (uint32_t p = 0; p < page_count(m); p++) {
        m->pages[p] = (void *)(extra + p * page_bytes(PAGE));
    }
    /* The list is taken over as it is: addresses point into it, and message_packed returns it. */
    char *list = extra + pages;
    memcpy(list, packed.data, packed.len);
    struct slice rest = slice_make(list, packed.len), address;
    for (uint32_t i = 0; i < count; i++) {
        m->pages[i / PAGE]->addresses[i % PAGE] = list + (packed.len - rest.len);
        bool has_next = packed_next(&rest, &address);
        assert(has_next);
    }
    return m;
}

struct message *message_new(const struct spool_envelope *envelope)
{
    char *extra;
    return create(envelope, 0, &extra);
}

/* Acquire: partner of message_unload's release. */
static bool is_unused(const struct message_page *page)
{
    return page != NULL && atomic_load_explicit(&page->loaded, memory_order_acquire) == 0;
}

/* errors: -ENOMEM */
static int make_page(struct message *m, uint32_t p)
{
    for (uint32_t i = 0; i < page_count(m); i++) {
        if (is_unused(m->pages[i])) {
            free(m->pages[i]);
            m->pages[i] = NULL;
        }
    }
    m->pages[p] = calloc(1, page_bytes(page_entries(m, p)));
    return m->pages[p] == NULL ? -ENOMEM : 0;
}

int message_load(struct message *m, uint32_t index, struct slice address)
{
    assert(!m->is_whole && index < m->envelope.recipient_count);
    char *at = malloc(packed_bytes(address));
    if (at == NULL || (m->pages[index / PAGE] == NULL && make_page(m, index / PAGE) != 0)) {
        free(at);
        return -ENOMEM;
    }
    struct message_page *page = m->pages[index / PAGE];
    char **slot = &page->addresses[index % PAGE];
    packed_write(at, address);
    if (*slot == NULL) {
        /* Only we free pages, so nothing needs ordering here. */
        atomic_fetch_add_explicit(&page->loaded, 1, memory_order_relaxed);
    }
    free(*slot);
    *slot = at;
    return 0;
}

void message_unload(struct message *m, uint32_t index)
{
    struct message_page *page = m->pages[index / PAGE];
    if (!m->is_whole && page != NULL && page->addresses[index % PAGE] != NULL) {
        free(page->addresses[index % PAGE]);
        page->addresses[index % PAGE] = NULL;
        /* Release: the page is free for the taking once the last address is out. */
        atomic_fetch_sub_explicit(&page->loaded, 1, memory_order_release);
    }
}

struct slice message_address(const struct message *m, uint32_t index)
{
    const char *at = m->pages[index / PAGE]->addresses[index % PAGE];
    assert(at != NULL);
    return packed_read(at);
}

usec_t message_expires(const struct message *m, const struct config *config)
{
    const struct spool_envelope *e = &m->envelope;
    if (e->expires != 0) {
        return e->expires;
    }
    return e->created + config_queue_lifetime(config, e->tenant, e->sender.len == 0);
}

struct return_subject message_subject(const struct message *m, uint32_t index)
{
    const struct spool_envelope *e = &m->envelope;
    return (struct return_subject){
        .message = e->id,
        .begun = (e->not_before > e->created ? e->not_before : e->created) / USEC_PER_SEC,
        .recipient = index,
        .tenant = e->tenant,
        .campaign = e->campaign,
        .address = message_address(m, index),
    };
}

struct slice message_packed(const struct message *m)
{
    assert(m->is_whole && m->envelope.recipient_count > 0);
    /* The list that message_new_whole took over. */
    struct slice last = message_address(m, m->envelope.recipient_count - 1);
    const char *first = m->pages[0]->addresses[0];
    return slice_make(first, (size_t)(last.data + last.len - first));
}

void message_keep_body(struct message *m, struct buf *body)
{
    size_t bytes;
    char *data = buf_detach(body, &bytes);
    assert(data != NULL && bytes > 0);
    m->body_bytes = bytes;
    rcu_publish(&m->body, data);
}

bool message_body(const struct message *m, struct slice *ret)
{
    const char *data = rcu_load(&m->body);
    if (data == NULL) {
        return false;
    }
    *ret = slice_make(data, m->body_bytes);
    return true;
}

static void body_is_unused(struct rcu_retired *retired)
{
    struct message *m = container_of(retired, struct message, retired);
    free(m->unseen_body);
    m->unseen_body = NULL;
    message_put(m);
}

/* The first grace period after message_drop_body is over: every pass under way began after the
 * commit and can read the content from the tables. */
static void body_is_elsewhere(struct rcu_retired *retired)
{
    struct message *m = container_of(retired, struct message, retired);
    m->unseen_body = m->body;
    rcu_publish(&m->body, NULL);
    rcu_retire(retired, body_is_unused);
}

void message_drop_body(struct message *m)
{
    message_get(m);
    rcu_retire(&m->retired, body_is_elsewhere);
}

uint64_t message_sent_bytes(const struct message *m)
{
    return m->envelope.size_bytes + (m->signing == NULL ? 0 : m->signing->fields_len);
}

void message_get(struct message *m)
{
    /* Whoever calls already holds a reference, so nothing needs ordering here. */
    atomic_fetch_add_explicit(&m->references, 1, memory_order_relaxed);
}

void message_put(struct message *m)
{
    /* Release: our uses come before; acquire: the last one sees everybody's. */
    if (atomic_fetch_sub_explicit(&m->references, 1, memory_order_acq_rel) == 1) {
        message_destroy(m);
    }
}

bool message_is_last(const struct message *m)
{
    return atomic_load_explicit(&m->references, memory_order_acquire) == 1;
}

void message_destroy(struct message *m)
{
    message_account_fini(&m->account);
    for (uint32_t p = 0; !m->is_whole && p < page_count(m); p++) {
        for (uint32_t i = 0; m->pages[p] != NULL && i < page_entries(m, p); i++) {
            free(m->pages[p]->addresses[i]);
        }
        free(m->pages[p]);
    }
    settings_put(m->settings);
    signing_free(m->signing);
    free(m->parts);
    free(m->body);
    free(m);
}

/* The eight digits of half an id, the first one in the lowest byte: all at once, as each message's id
 * is written several times. */
static uint64_t id_digits(uint32_t half)
{
    const uint64_t ones = ~(uint64_t)0 / 255;
    uint64_t d = half;
    d = (d | d << 16) & UINT64_C(0x0000ffff0000ffff);
    d = (d | d << 8) & UINT64_C(0x00ff00ff00ff00ff);
    d = (d | d << 4) & (ones * 15); /* a digit in each byte, the last one in the lowest */
    uint64_t letters = (d + ones * 6) >> 4 & ones; /* 1 in the bytes of digits above 9 */
    d += ones * '0' + letters * ('a' - '0' - 10);
    return __builtin_bswap64(d);
}

void message_id_format(uint64_t id, char ret[MESSAGE_ID_TEXT])
{
    uint64_t halves[] = {htole64(id_digits((uint32_t)(id >> 32))),
                         htole64(id_digits((uint32_t)id))};
    memcpy(ret, halves, sizeof(halves));
    ret[MESSAGE_ID_TEXT - 1] = '\0';
}

bool message_id_parse(struct slice text, uint64_t *ret)
{
    uint64_t id = 0;
    if (text.len != MESSAGE_ID_TEXT - 1) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        uint64_t digit;
        if (c >= '0' && c <= '9') {
            digit = (uint64_t)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            digit = (uint64_t)((c | 0x20) - 'a') + 10;
        } else {
            return false;
        }
        id = id << 4 | digit;
    }
    *ret = id;
    return true;
}
