/* Owns listening sockets beside those who accept on them. Called by main alone; knows nothing of
 * sections, and accepts nothing. */
#include "engine/state/sockets.h"

#include "base/error.h"
#include "base/log.h"
#include "dns/ip.h"
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 3 }; /* SD_LISTEN_FDS_START */

#define SOCKETS_MAX      4096
#define RESERVED_BACKLOG 1024 /* as a listener has it */

struct fd_list {
    int *fds;
    size_t count;
};

struct sockets {
    struct fd_list given, kept;
};

static int add_fd(struct fd_list *l, int fd)
{
    int *grown = reallocarray(l->fds, l->count + 1, sizeof(*grown));
    if (grown == NULL) {
        return -ENOMEM;
    }
    l->fds = grown;
    l->fds[l->count++] = fd;
    return 0;
}

static bool is_listening(int fd)
{
    int value = 0;
    socklen_t len = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value != 0;
}

/* The number that a variable holds; 0: it is not there, or is none. */
static unsigned long number_in(const char *variable)
{
    const char *text = getenv(variable);
    char *end = NULL;
    unsigned long n = text == NULL ? 0 : strtoul(text, &end, 10);
    return text == NULL || end == text || *end != '\0' ? 0 : n;
}

static void take_given(struct sockets *s)
{
    unsigned long count = number_in("LISTEN_FDS");
    if (number_in("LISTEN_PID") != (unsigned long)getpid() || count > SOCKETS_MAX) {
        count = 0; /* they are meant for another process */
    }
    for (int fd = FIRST; fd < FIRST + (int)count; fd++) {
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
            fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || !is_listening(fd)) {
            log_warning("descriptor %d of LISTEN_FDS does not listen", fd);
        } else if (add_fd(&s->given, fd) != 0) {
            log_error("out of memory: descriptor %d of LISTEN_FDS is not used", fd);
        }
    }
    (void)unsetenv("LISTEN_FDS"); /* not for programs that this one may start */
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDNAMES");
}

struct sockets *sockets_new(bool takes_given)
{
    struct sockets *s = calloc(1, sizeof(*s));
    if (s != NULL && takes_given) {
        take_given(s);
    }
    return s;
}

static void close_all(struct fd_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        (void)close(l->fds[i]); /* nothing was written to it */
    }
    free(l->fds);
    *l = (struct fd_list){NULL, 0};
}

void sockets_free(struct sockets *s)
{
    if (s != NULL) {
        close_all(&s->given);
        close_all(&s->kept);
        free(s);
    }
}

/* ret: "ADDR:PORT", or what kind of socket it is */
static void address_text(int fd, char ret[static IP_TEXT_MAX + 10])
{
    struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(at);
    struct ip ip;
    uint16_t port;
    char text[IP_TEXT_MAX];
    if (getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
        ip_from_sockaddr(&at, &ip, &port) == 0) {
        (void)snprintf(ret, IP_TEXT_MAX + 10, ip.family == 6 ? "[%s]:%u" : "%s:%u",
                       ip_text(&ip, text), (unsigned)port);
    } else {
        (void)snprintf(ret, IP_TEXT_MAX + 10, "no TCP address");
    }
}

static bool listens_at(int fd, const struct ip *wanted, uint16_t wanted_port)
{
    struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(at);
    struct ip ip;
    uint16_t port;
    return getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
           ip_from_sockaddr(&at, &ip, &port) == 0 && port == wanted_port && ip_eq(&ip, wanted);
}

int sockets_take(struct sockets *s, const struct sockaddr_storage *address)
{
    struct ip ip;
    uint16_t port;
    if (ip_from_sockaddr(address, &ip, &port) != 0) {
        return ERR_MISSING;
    }
    for (size_t i = 0; i < s->given.count; i++) {
        int fd = s->given.fds[i];
        if (listens_at(fd, &ip, port)) {
            s->given.fds[i] = s->given.fds[--s->given.count];
            return fd;
        }
    }
    return ERR_MISSING;
}

int sockets_keep(struct sockets *s, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, FIRST);
    if (copy < 0) {
        return -errno;
    }
    int err = add_fd(&s->kept, copy);
    if (err != 0) {
        (void)close(copy);
    }
    return err;
}

int sockets_reserve(struct sockets *s, const struct sockaddr_storage *address, socklen_t len)
{
    struct ip ip;
    uint16_t port;
    if (ip_from_sockaddr(address, &ip, &port) != 0) {
        return -EAFNOSUPPORT;
    }
    for (size_t i = 0; i < s->kept.count; i++) {
        if (listens_at(s->kept.fds[i], &ip, port)) {
            return 0;
        }
    }
    int fd = listen_open((const struct sockaddr *)address, len, RESERVED_BACKLOG, false);
    if (fd < 0) {
        return fd;
    }
    int err = add_fd(&s->kept, fd);
    if (err != 0) {
        (void)close(fd);
    }
    return err;
}

size_t sockets_kept(const struct sockets *s)
{
    return s->kept.count;
}

void sockets_drop(struct sockets *s, size_t count)
{
    while (s->kept.count > count) {
        (void)close(s->kept.fds[--s->kept.count]); /* nothing was written to it */
    }
}

void sockets_close_left(struct sockets *s)
{
    for (size_t i = 0; i < s->given.count; i++) {
        char text[IP_TEXT_MAX + 10];
        address_text(s->given.fds[i], text);
        log_warning("a socket was given that belongs to no section (%s); it is closed", text);
    }
    close_all(&s->given);
}

/* Out of the way of the numbers that they get. errors: -errno */
static int move_up(struct fd_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        int fd = fcntl(l->fds[i], F_DUPFD_CLOEXEC, FIRST + (int)l->count);
        if (fd < 0) {
            return -errno;
        }
        (void)close(l->fds[i]); /* the copy is as good */
        l->fds[i] = fd;
    }
    return 0;
}

int sockets_hand_over(struct sockets *s, const char *program, char *const argv[])
{
    char text[24];
    int count = (int)s->kept.count;
    int err = move_up(&s->kept);
    for (int i = 0; err == 0 && i < count; i++) {
        err = dup2(s->kept.fds[i], FIRST + i) < 0 ? -errno : 0; /* stays open over execve */
    }
    (void)snprintf(text, sizeof(text), "%d", count);
    if (err == 0 && setenv("LISTEN_FDS", text, 1) != 0) {
        err = -ENOMEM;
    }
    (void)snprintf(text, sizeof(text), "%ld", (long)getpid());
    if (err == 0 && setenv("LISTEN_PID", text, 1) != 0) {
        err = -ENOMEM;
    }
    if (err == 0) {
        /* Whatever a library has left open; without the call it would be open in the next process. */
        (void)close_range((unsigned)(FIRST + count), ~0U, 0);
        (void)execv(program, argv);
        err = -errno;
    }
    return err;
}
