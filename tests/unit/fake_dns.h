/* A name server for tests, on loopback, run by the thread that tests: it answers only inside
 * fake_dns_poll(). UDP and TCP on one port; answers come from a table of records. */
#ifndef TESTS_UNIT_FAKE_DNS_H
#define TESTS_UNIT_FAKE_DNS_H

#include "tests/unit/dns_packet.h"

#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* type 0 holds what the server does with every question about the name:
 *   SERVFAIL REFUSED NOTIMP FORMERR  that code         DROP     no answer
 *   NOEDNS   FORMERR unless without EDNS               GARBAGE  no DNS message
 *   FORGED   wrong id, wrong question, then the right answer, twice
 *   TC       truncated over UDP                        TCGONE   the same, and TCP closes
 *   STOP     an alias is sent without what is behind it
 * A name "*.x" holds for all names below x. */
struct fake_record {
    const char *name;
    unsigned type;
    const char *value; /* address, CNAME target, "PREFERENCE EXCHANGE", text, RDATA of TLSA without
                        * zeros, or see above */
};

enum { FAKE_LOG_MAX = 4096, FAKE_CONNECTIONS = 8, FAKE_WATCHES = 64, FAKE_MANY = 1000 };

struct fake_dns {
    const struct fake_record *records; /* until name == NULL */
    char address[32];
    int udp, tcp;
    int connections[FAKE_CONNECTIONS];
    unsigned flags; /* set in each answer */
    bool is_silent; /* leaves questions in the socket */
    uint32_t ttl;
    int log_count;
    struct {
        char name[256];
        unsigned type;
    } log[FAKE_LOG_MAX];
    /* sockets of the one who asks */
    struct pollfd watches[FAKE_WATCHES];
};

static inline void fake_dns_open(struct fake_dns *f, const struct fake_record *records)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    bool is_bound = false;

    memset(f, 0, sizeof(*f));
    f->records = records;
    f->ttl = 60;
    memset(f->connections, -1, sizeof(f->connections));
    for (int i = 0; i < FAKE_WATCHES; i++) {
        f->watches[i].fd = -1;
    }
    for (int i = 0; i < 100 && !is_bound;
         i++) { /* as somebody else may ask or answer at that port */
        sa.sin_port = 0;
        f->tcp = socket(AF_INET, SOCK_STREAM, 0);
        int failed = bind(f->tcp, (struct sockaddr *)&sa, sizeof(sa)) | listen(f->tcp, 8) |
                     getsockname(f->tcp, (struct sockaddr *)&sa, &len);
        assert(failed == 0);
        f->udp = socket(AF_INET, SOCK_DGRAM, 0);
        is_bound = bind(f->udp, (struct sockaddr *)&sa, sizeof(sa)) == 0;
        if (!is_bound) {
            close(f->tcp);
            close(f->udp);
        }
    }
    assert(is_bound);
    snprintf(f->address, sizeof(f->address), "127.0.0.1:%d", ntohs(sa.sin_port));
}

static inline void fake_dns_close(struct fake_dns *f)
{
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        if (f->connections[i] >= 0) {
            close(f->connections[i]);
        }
    }
    close(f->tcp);
    close(f->udp);
}

/* hooks.watch of the one who asks; ctx is the fake_dns. */
static inline void fake_dns_watch(void *ctx, int fd, bool want_read, bool want_write)
{
    struct fake_dns *f = ctx;
    struct pollfd *place = NULL;

    for (int i = 0; i < FAKE_WATCHES; i++) {
        if (f->watches[i].fd == fd || (place == NULL && f->watches[i].fd < 0)) {
            place = &f->watches[i];
            if (place->fd == fd) {
                break;
            }
        }
    }
    assert(place != NULL);
    place->fd = want_read || want_write ? fd : -1;
    place->events = (short)((want_read ? POLLIN : 0) | (want_write ? POLLOUT : 0));
    place->revents = 0;
}

static inline int fake_dns_asked(const struct fake_dns *f, const char *name, unsigned type)
{
    int count = 0;
    for (int i = 0; i < f->log_count; i++) {
        count += strcasecmp(f->log[i].name, name) == 0 && (type == 0 || f->log[i].type == type);
    }
    return count;
}

static inline bool fake_matches(const char *pattern, const char *name)
{
    size_t len = strlen(name);
    if (strncmp(pattern, "*.", 2) != 0) {
        return strcasecmp(pattern, name) == 0;
    }
    return len > strlen(pattern + 1) &&
           strcasecmp(name + len - strlen(pattern + 1), pattern + 1) == 0;
}

static inline const char *fake_behaviour(const struct fake_dns *f, const char *name)
{
    for (const struct fake_record *r = f->records; r->name != NULL; r++) {
        if (r->type == 0 && fake_matches(r->name, name)) {
            return r->value;
        }
    }
    return "";
}

static inline void fake_add_record(struct packet *p, const struct fake_dns *f, const char *owner,
                                   const struct fake_record *r)
{
    char *end;
    if (r->type == 16 || r->type == 52) {
        size_t at = packet_begin(p, PACKET_ANSWER, owner, r->type, f->ttl);
        const uint8_t len = (uint8_t)strlen(r->value);
        packet_put(p, &len, r->type == 16);
        packet_put(p, r->value, len);
        packet_end(p, at);
    } else if (r->type == 15) {
        unsigned preference = (unsigned)strtoul(r->value, &end, 10);
        packet_mx(p, owner, f->ttl, preference, end + 1);
    } else if (r->type == 5) {
        packet_cname(p, owner, f->ttl, r->value);
    } else {
        packet_address(p, PACKET_ANSWER, owner, f->ttl, r->value);
    }
}

/* Records of the name, and of the name its alias leads to; false when the name does not exist. */
static inline bool fake_add_answers(struct packet *p, const struct fake_dns *f, const char *name,
                                    unsigned type, int depth, int *ret_count)
{
    const char *alias = NULL;
    bool exists = false;

    for (const struct fake_record *r = f->records; r->name != NULL; r++) {
        if (!fake_matches(r->name, name)) {
            continue;
        }
        exists = true;
        if (r->type == type || r->type == 5) {
            fake_add_record(p, f, name, r);
            *ret_count += r->type == type;
            alias = r->type == 5 ? r->value : alias;
        }
    }
    if (alias == NULL || strcmp(fake_behaviour(f, name), "STOP") == 0) {
        *ret_count += alias != NULL;
        return exists;
    }
    return depth == 20 || fake_add_answers(p, f, alias, type, depth + 1, ret_count);
}

static inline void fake_build(struct packet *p, const struct fake_dns *f, unsigned id,
                              const char *name, unsigned type)
{
    char exchange[64];
    int count = 0;

    packet_start(p, id, 0x8180 | f->flags, name, type);
    if (strcmp(name, "many.test") == 0 && type == 15) {
        for (unsigned i = 0; i < FAKE_MANY; i++) {
            snprintf(exchange, sizeof(exchange), "mx%u.many.test", i);
            packet_mx(p, "@", f->ttl, i, exchange);
        }
        return;
    }
    if (!fake_add_answers(p, f, name, type, 0, &count)) {
        p->data[3] |= 3;
    }
    if (count == 0) {
        packet_soa(p, "test", 60, 60);
    }
}

/* Answer one question; sends through `reply` any number of messages. */
static inline void fake_answer(struct fake_dns *f, const uint8_t *query, size_t len, bool is_tcp,
                               void (*reply)(void *to, const struct packet *p), void *to)
{
    static const char *const codes[] = {"-", "FORMERR", "SERVFAIL", "-", "NOTIMP", "REFUSED"};
    static struct packet p;
    char name[256] = "";
    size_t at = 12;
    size_t out = 0;

    while (at < len && query[at] != 0) {
        memcpy(name + out, query + at + 1, query[at]);
        out += query[at];
        at += query[at] + 1u;
        name[out++] = query[at] == 0 ? '\0' : '.';
    }
    unsigned type = (unsigned)query[at + 1] << 8 | query[at + 2];
    unsigned id = (unsigned)query[0] << 8 | query[1];
    if (f->log_count < FAKE_LOG_MAX) {
        memcpy(f->log[f->log_count].name, name, sizeof(name));
        f->log[f->log_count++].type = type;
    }
    const char *does = fake_behaviour(f, name);
    if (strcmp(does, "DROP") == 0 || (is_tcp && strcmp(does, "TCGONE") == 0)) {
        return;
    }
    fake_build(&p, f, id, name, type);
    bool is_noedns = strcmp(does, "NOEDNS") == 0 && query[11] > 0;
    for (unsigned code = 1; code < 6; code++) {
        if (strcmp(does, codes[code]) == 0 || (code == 1 && is_noedns)) {
            packet_start(&p, id, 0x8180 | code, name, type);
        }
    }
    if (!is_tcp && strncmp(does, "TC", 2) == 0) {
        packet_start(&p, id, 0x8380, name, type);
    }
    if (strcmp(does, "GARBAGE") == 0) {
        p.len = 13;
        p.data[7] = 200;
    }
    if (strcmp(does, "FORGED") == 0) {
        static struct packet forged;
        packet_start(&forged, id ^ 0x5555, 0x8180, name, type);
        packet_mx(&forged, "@", 60, 1, "evil.test");
        reply(to, &forged);
        packet_start(&forged, id, 0x8180, "evil.test", type);
        packet_mx(&forged, "@", 60, 1, "evil.test");
        reply(to, &forged);
        reply(to, &p);
    }
    reply(to, &p);
}

struct fake_peer {
    int fd;
    struct sockaddr_in sa;
};

static inline void fake_reply_udp(void *to, const struct packet *p)
{
    const struct fake_peer *peer = to;
    ssize_t sent =
        sendto(peer->fd, p->data, p->len, 0, (const struct sockaddr *)&peer->sa, sizeof(peer->sa));
    assert(sent == (ssize_t)p->len);
}

static inline void fake_reply_tcp(void *to, const struct packet *p)
{
    const struct fake_peer *peer = to;
    const uint8_t head[2] = {(uint8_t)(p->len >> 8), (uint8_t)p->len};
    ssize_t sent =
        send(peer->fd, head, 2, MSG_NOSIGNAL) + send(peer->fd, p->data, p->len, MSG_NOSIGNAL);
    assert(sent == (ssize_t)p->len + 2);
}

static inline void fake_read_udp(struct fake_dns *f)
{
    uint8_t query[2048];
    struct fake_peer peer = {.fd = f->udp};
    socklen_t sa_len = sizeof(peer.sa);
    ssize_t len;

    while ((len = recvfrom(f->udp, query, sizeof(query), MSG_DONTWAIT, (struct sockaddr *)&peer.sa,
                           &sa_len)) > 0) {
        fake_answer(f, query, (size_t)len, false, fake_reply_udp, &peer);
    }
}

static inline void fake_read_tcp(struct fake_dns *f, int *connection)
{
    uint8_t query[2050];
    struct fake_peer peer = {.fd = *connection};
    ssize_t got = recv(*connection, query, sizeof(query), MSG_DONTWAIT);
    ssize_t at = 0;

    while (got > at + 2) { /* on loopback a question arrives whole */
        int before = f->log_count;
        ssize_t len = (ssize_t)query[at] << 8 | query[at + 1];
        assert(at + 2 + len <= got);
        fake_answer(f, query + at + 2, (size_t)len, true, fake_reply_tcp, &peer);
        at += 2 + len;
        if (strcmp(fake_behaviour(f, f->log[before].name), "TCGONE") == 0) {
            got = 0;
        }
    }
    if (got <= 0) {
        close(*connection);
        *connection = -1;
    }
}

/* Wait until something happens, let the server answer, then tell the asker about its sockets. */
static inline void fake_dns_poll(struct fake_dns *f, int timeout_msec,
                                 void (*event)(void *asker, int fd, bool readable, bool writable),
                                 void *asker)
{
    struct pollfd fds[FAKE_WATCHES + 2 + FAKE_CONNECTIONS];

    memcpy(fds, f->watches, sizeof(f->watches));
    fds[FAKE_WATCHES] = (struct pollfd){.fd = f->is_silent ? -1 : f->udp, .events = POLLIN};
    fds[FAKE_WATCHES + 1] = (struct pollfd){.fd = f->tcp, .events = POLLIN};
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        fds[FAKE_WATCHES + 2 + i] = (struct pollfd){.fd = f->connections[i], .events = POLLIN};
    }
    int ready = poll(fds, FAKE_WATCHES + 2 + FAKE_CONNECTIONS, timeout_msec);
    assert(ready >= 0);
    if (fds[FAKE_WATCHES].revents != 0) {
        fake_read_udp(f);
    }
    for (int i = 0; i < FAKE_CONNECTIONS; i++) {
        if (fds[FAKE_WATCHES + 2 + i].revents != 0) {
            fake_read_tcp(f, &f->connections[i]);
        } else if (f->connections[i] < 0 && fds[FAKE_WATCHES + 1].revents != 0) {
            f->connections[i] = accept(f->tcp, NULL, NULL);
            fds[FAKE_WATCHES + 1].revents = 0;
        }
    }
    for (int i = 0; i < FAKE_WATCHES; i++) {
        /* An event before may have closed this one. */
        if (fds[i].fd >= 0 && fds[i].revents != 0 && f->watches[i].fd == fds[i].fd) {
            event(asker, fds[i].fd, (fds[i].revents & ~POLLOUT) != 0,
                  (fds[i].revents & POLLOUT) != 0);
        }
    }
}

#endif
