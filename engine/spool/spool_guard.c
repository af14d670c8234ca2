#include "engine/spool/spool_guard.h"

#include "base/error.h"
#include "engine/spool/spool_page.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

enum { GUARDS_MAX = 16 }; /* stores open at once in a process: one, but for tests and embedders */

/* Published with release when a map is guarded; the handler reads it with acquire. */
static _Atomic(struct spool_guard *) guards[GUARDS_MAX];
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before; /* under install_lock; the handler reads it when all is over */

static _Thread_local volatile sig_atomic_t commits; /* this thread is inside of a commit */
static _Thread_local uint64_t thread_faults;

uint64_t spool_guard_thread_faults(void)
{
    return thread_faults;
}

static struct spool_guard *guard_of(const char *address)
{
    for (int i = 0; i < GUARDS_MAX; i++) {
        struct spool_guard *g = atomic_load_explicit(&guards[i], memory_order_acquire);
        if (g != NULL && address >= g->base && address < g->base + g->map_bytes) {
            return g;
        }
    }
    return NULL;
}

static void die(const struct spool_guard *g)
{
    (void)!write(STDERR_FILENO, g->last_words, strlen(g->last_words)); /* nobody else to tell */
    _exit(EX_DATAERR);
}

static void remember(struct spool_guard *g, uint64_t page)
{
    for (int i = 0; i < SPOOL_GUARD_PAGES; i++) {
        uint64_t there = atomic_load_explicit(&g->pages[i], memory_order_seq_cst);
        if (there == 0 && atomic_compare_exchange_strong(&g->pages[i], &there, page)) {
            return;
        }
        if ((there & ~SPOOL_GUARD_DATA) == page) {
            return;
        }
    }
    atomic_store_explicit(&g->is_full, true, memory_order_seq_cst);
}

/* A leaf of one record with an empty key: no key is found in it, and a walk passes it over. Made
 * elsewhere and then moved into place, so that no other thread sees it half made. */
static bool cover(const struct spool_guard *g, uint64_t page)
{
    const struct spool_node nothing = {.key = SLICE(""), .value = SLICE("")};
    char *made =
        mmap(NULL, g->page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return false;
    }
    spool_leaf_init(made, g->page_bytes, page);
    return spool_leaf_add(made, g->page_bytes, &nothing) &&
           mprotect(made, g->page_bytes, PROT_READ) == 0 &&
           mremap(made, g->page_bytes, g->page_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                  g->base + page * g->page_bytes) != MAP_FAILED;
}

static void wait_for_commit(const struct spool_guard *g)
{
    const struct timespec moment = {0, 1000000};
    while (atomic_load_explicit(&g->is_committing, memory_order_seq_cst)) {
        (void)nanosleep(&moment, NULL);
    }
}

/* Calls nothing that is not allowed in a handler: atomics and system calls only. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int error = errno;
    (void)number;
    (void)context;
    struct spool_guard *g = guard_of(info->si_addr);
    if (g == NULL) {
        (void)sigaction(SIGBUS, &before, NULL); /* not ours: what would have happened, does */
        return;
    }
    uint64_t page = (uint64_t)((const char *)info->si_addr - g->base) / g->page_bytes;
    if (commits || page < 2) {
        die(g);
    }
    atomic_fetch_add_explicit(&g->faults, 1, memory_order_seq_cst);
    wait_for_commit(g);
    if (!cover(g, page)) {
        die(g);
    }
    remember(g, page);
    /* Once more: whoever has seen the first has perhaps looked for the page before it was there. */
    atomic_fetch_add_explicit(&g->faults, 1, memory_order_seq_cst);
    thread_faults++;
    errno = error;
}

/* Each time: the program around us may have set one of its own meanwhile. errors: -errno */
static int install(void)
{
    struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction there;
    (void)sigemptyset(&ours.sa_mask); /* cannot fail */
    pthread_mutex_lock(&install_lock);
    int err = sigaction(SIGBUS, &ours, &there) != 0 ? -errno : 0;
    bool is_other = (there.sa_flags & SA_SIGINFO) == 0 || there.sa_sigaction != on_bus_error;
    if (err == 0 && is_other) {
        before = there;
    }
    pthread_mutex_unlock(&install_lock);
    return err;
}

int spool_guard_open(struct spool_guard *g, void *base, size_t map_bytes, size_t page_bytes, int fd)
{
    assert(g->base == NULL);
    int err = install();
    if (err != 0) {
        return err;
    }
    g->base = base;
    g->map_bytes = map_bytes;
    g->page_bytes = page_bytes;
    g->fd = fd;
    for (int i = 0; i < GUARDS_MAX; i++) {
        struct spool_guard *none = NULL;
        if (atomic_compare_exchange_strong(&guards[i], &none, g)) {
            return 0;
        }
    }
    g->base = NULL;
    return ERR_LIMIT;
}

static void forget_pages(struct spool_guard *g)
{
    for (int i = 0; i < SPOOL_GUARD_PAGES; i++) {
        atomic_store_explicit(&g->pages[i], 0, memory_order_seq_cst);
    }
    atomic_store_explicit(&g->is_full, false, memory_order_seq_cst);
}

void spool_guard_close(struct spool_guard *g)
{
    for (int i = 0; i < GUARDS_MAX; i++) {
        struct spool_guard *ours = g;
        (void)atomic_compare_exchange_strong(&guards[i], &ours, NULL); /* another's stays */
    }
    g->base = NULL;
    forget_pages(g);
}

bool spool_guard_covers(struct spool_guard *g, const void *bytes, size_t len)
{
    bool is_covered = false;
    uint64_t from = (uint64_t)((const char *)bytes - g->base) / g->page_bytes;
    uint64_t to = from + spool_large_pages(len, g->page_bytes);
    for (int i = 0; i < SPOOL_GUARD_PAGES; i++) {
        uint64_t page = atomic_load_explicit(&g->pages[i], memory_order_seq_cst);
        uint64_t number = page & ~SPOOL_GUARD_DATA;
        if (number >= from && number < to) {
            is_covered = true;
            /* Fails when the page was uncovered meanwhile: then its entry stays free. */
            (void)atomic_compare_exchange_strong(&g->pages[i], &page, number | SPOOL_GUARD_DATA);
        }
    }
    return is_covered;
}

bool spool_guard_has_tree_page(struct spool_guard *g)
{
    bool has_one = atomic_load_explicit(&g->is_full, memory_order_seq_cst);
    for (int i = 0; i < SPOOL_GUARD_PAGES; i++) {
        uint64_t page = atomic_load_explicit(&g->pages[i], memory_order_seq_cst);
        has_one = has_one || (page != 0 && (page & SPOOL_GUARD_DATA) == 0);
    }
    return has_one;
}

void spool_guard_uncover(struct spool_guard *g)
{
    for (int i = 0; i < SPOOL_GUARD_PAGES; i++) {
        uint64_t page = atomic_exchange_explicit(&g->pages[i], 0, memory_order_seq_cst);
        uint64_t at = (page & ~SPOOL_GUARD_DATA) * g->page_bytes;
        if (page != 0 && mmap(g->base + at, g->page_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, g->fd,
                              (off_t)at) == MAP_FAILED) {
            die(g);
        }
    }
}

void spool_guard_begin_commit(struct spool_guard *g)
{
    commits = 1;
    atomic_store_explicit(&g->is_committing, true, memory_order_seq_cst);
}

void spool_guard_end_commit(struct spool_guard *g)
{
    atomic_store_explicit(&g->is_committing, false, memory_order_seq_cst);
    commits = 0;
}
