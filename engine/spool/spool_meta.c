/* Looks at and rewrites LMDB's meta pages; called when the spool is opened or reopened, by the
 * writer. The only place that knows LMDB's file format. */
#include "engine/spool/spool_meta.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* LMDB's meta page, format 1 on 64-bit machines; touched only while the environment is closed. */
enum { META_HEADER_BYTES = 16, META_MAGIC_AT = 16, META_TXNID_AT = 144, META_PAGE_BYTES = 4096 };
static const uint32_t meta_magic = 0xBEEFC0DE;

/* No commit is told by a meta page that is missing, zero, or the initial one. */
static bool meta_is_blank(const char *page, size_t bytes)
{
    uint64_t txnid = 0;
    if (bytes >= META_TXNID_AT + sizeof(txnid)) {
        memcpy(&txnid, page + META_TXNID_AT, sizeof(txnid));
    }
    bool is_zero = true;
    for (size_t i = 0; i < bytes; i++) {
        is_zero = is_zero && page[i] == 0;
    }
    return is_zero ||
           (txnid == 0 && (bytes < META_TXNID_AT + sizeof(txnid) ||
                           memcmp(page + META_MAGIC_AT, &meta_magic, sizeof(meta_magic)) == 0));
}

/* The first commit, which a power cut may have torn, writes a page or two behind the metas. What is
 * longer has had others, whatever became of its head. */
enum { BLANK_PAGES_MAX = 4 };

bool spool_meta_is_blank(const struct spool_store *s)
{
    struct stat st;
    int fd = openat(s->folder_fd, SPOOL_DATA_FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    char head[2 * META_PAGE_BYTES];
    ssize_t n = fstat(fd, &st) != 0 ? -1 : pread(fd, head, sizeof(head), 0);
    (void)close(fd); /* read only */
    if (n < 0 || st.st_size > BLANK_PAGES_MAX * (off_t)sysconf(_SC_PAGESIZE)) {
        return false;
    }
    size_t bytes = (size_t)n;
    size_t first = bytes < META_PAGE_BYTES ? bytes : META_PAGE_BYTES;
    return meta_is_blank(head, first) && meta_is_blank(head + first, bytes - first);
}

/* Make a meta page that a failed commit may have left newer than the last good commit equal to the
 * other one, which is that commit's. LMDB does so itself, unless that write fails as well. Pages of
 * the last good commit are untouched: LMDB writes only to pages that it does not use. */
static void meta_roll_back(char *pages, size_t page_bytes, uint64_t committed)
{
    for (size_t i = 0; i < 2; i++) {
        char *page = pages + i * page_bytes;
        const char *other = pages + (1 - i) * page_bytes;
        uint64_t txnid;
        memcpy(&txnid, page + META_TXNID_AT, sizeof(txnid));
        if (memcmp(page + META_MAGIC_AT, &meta_magic, sizeof(meta_magic)) == 0 &&
            memcmp(other + META_MAGIC_AT, &meta_magic, sizeof(meta_magic)) == 0 &&
            txnid > committed) {
            memcpy(page + META_HEADER_BYTES, other + META_HEADER_BYTES,
                   page_bytes - META_HEADER_BYTES);
        }
    }
}

int spool_meta_settle(const struct spool_store *s)
{
    int fd = openat(s->folder_fd, SPOOL_DATA_FILE, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int r = 0;
    size_t bytes = 2 * s->page_bytes;
    char *pages = malloc(bytes);
    ssize_t n = pages == NULL ? -1 : pread(fd, pages, bytes, 0);
    if (pages == NULL) {
        r = -ENOMEM;
    } else if (n < 0) {
        r = -errno;
    } else if ((size_t)n != bytes) {
        r = -EIO;
    } else {
        meta_roll_back(pages, s->page_bytes, s->committed_txnid);
        errno = EIO; /* for a short write */
        if (pwrite(fd, pages, bytes, 0) != n || fdatasync(fd) != 0) {
            r = -errno;
        }
    }
    free(pages);
    if (close(fd) != 0 && r == 0) {
        r = -errno;
    }
    return r;
}
