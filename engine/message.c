#include "engine/message.h"

#include <stdlib.h>
#include <string.h>

#include "engine/result.h"

static size_t envelope_bytes(const struct spool_envelope *e)
{
    return e->sender.len + e->peer_name.len + e->peer_address.len + e->protocol.len +
           e->auth_user.len;
}

/* Copies s to *at and moves *at behind it. */
static struct slice keep(char **at, struct slice s)
{
    struct slice kept = {*at, s.len};
    if (s.len > 0) {
        memcpy(*at, s.data, s.len);
    }
    *at += s.len;
    return kept;
}

/* Behind the struct: the recipient array, the envelope's strings, the addresses. */
struct message *message_reserve(const struct spool_envelope *envelope, uint32_t count,
                                size_t address_bytes)
{
    size_t array = (size_t)count * sizeof(struct message_recipient);
    struct message *m =
        malloc(sizeof(*m) + array + envelope_bytes(envelope) + address_bytes + 1);
    if (m == NULL) {
        return NULL;
    }
    memset(m, 0, sizeof(*m));
    m->recipients = (struct message_recipient *)(m + 1);
    char *at = (char *)m->recipients + array;
    m->envelope = *envelope;
    m->envelope.sender = keep(&at, envelope->sender);
    m->envelope.peer_name = keep(&at, envelope->peer_name);
    m->envelope.peer_address = keep(&at, envelope->peer_address);
    m->envelope.protocol = keep(&at, envelope->protocol);
    m->envelope.auth_user = keep(&at, envelope->auth_user);
    list_init(&m->touched);
    list_init(&m->active);
    atomic_init(&m->references, 1);
    m->strings_end = at;
    return m;
}

void message_append(struct message *m, struct slice address, uint32_t index)
{
    m->recipients[m->count].address = keep(&m->strings_end, address);
    m->recipients[m->count].index = index;
    m->count++;
}

struct message *message_new(const struct spool_envelope *envelope, struct slice packed,
                            uint32_t count)
{
    struct message *m = message_reserve(envelope, count, packed.len);
    struct slice address;
    if (m == NULL) {
        return NULL;
    }
    while (m->count < count && spool_packed_next(&packed, &address)) {
        message_append(m, address, m->count);
    }
    return m;
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
    result_free_all(m->fresh);
    result_free_all(m->kept);
    free(m);
}

static const char id_digits[] = "0123456789abcdef";

void message_id_format(uint64_t id, char ret[MESSAGE_ID_TEXT])
{
    for (int i = MESSAGE_ID_TEXT - 2; i >= 0; i--) {
        ret[i] = id_digits[id & 15];
        id >>= 4;
    }
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
            digit = (uint64_t)((c | 0x20) - 'a' + 10);
        } else {
            return false;
        }
        id = id << 4 | digit;
    }
    *ret = id;
    return true;
}
