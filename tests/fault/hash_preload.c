/* LD_PRELOAD library that counts the bytes that a program gives to hashes of OpenSSL: the file HASH_FILE,
 * 16 bytes, has those of threads whose names begin with "signer", then those of all others (uint64_t
 * each, native). */
#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static _Atomic uint64_t *bytes; /* [2] */
static int (*real_update)(EVP_MD_CTX *, const void *, size_t);

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("HASH_FILE");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *found = dlsym(RTLD_NEXT, "EVP_DigestUpdate");
    if (fd < 0 || found == NULL) {
        abort();
    }
    *(void **)&real_update = found;
    bytes = mmap(NULL, 2 * sizeof(*bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        abort();
    }
    (void)close(fd);
}

int EVP_DigestUpdate(EVP_MD_CTX *ctx, const void *data, size_t len)
{
    char name[16] = "";
    (void)prctl(PR_GET_NAME, name);
    atomic_fetch_add_explicit(&bytes[strncmp(name, "signer", 6) == 0 ? 0 : 1], len,
                              memory_order_relaxed);
    return real_update(ctx, data, len);
}
