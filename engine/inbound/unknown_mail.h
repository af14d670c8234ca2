/* Mail for us that was not understood, kept to be read by people: files heard/unknown/ID.eml of the
 * spool, the newest UNKNOWN_MAIL_MAX of them, and no more than UNKNOWN_MAIL_BYTES.
 *
 * Owner: the thread that hears, which blocks on the disk for them and alone adds files. Any thread may list,
 * read and remove them by the spool's path: files are whole when they have their name, and the owner looks
 * at the folder again before it removes one for want of room. */
#ifndef ENGINE_UNKNOWN_MAIL_H
#define ENGINE_UNKNOWN_MAIL_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"

#include <stddef.h>
#include <stdint.h>

#define UNKNOWN_MAIL_MAX   1000
#define UNKNOWN_MAIL_BYTES (64ULL << 20)

struct hearing;
struct unknown_mail;

/* Looks at what an earlier run kept. errors: -errno */
MUST_USE int unknown_mail_new(const char *spool_path, struct unknown_mail **ret);
void unknown_mail_free(struct unknown_mail *u); /* accepts NULL */
/* Write and sync its content, and remove what is then too much. errors: -errno */
MUST_USE int unknown_mail_keep(struct unknown_mail *u, const struct hearing *h);

/* --- any thread; blocks on the disk ------------------------------------------------------------- */

struct unknown_mail_file {
    uint64_t id;
    uint64_t bytes;
    usec_t kept; /* wall */
};

/* What is kept, the newest first.
 *
 * ret_count  up to UNKNOWN_MAIL_MAX; 0 where nothing was ever kept
 * errors     -errno */
MUST_USE int unknown_mail_list(const char *spool_path,
                               struct unknown_mail_file ret[static UNKNOWN_MAIL_MAX],
                               size_t *ret_count);
/* Append the first `max` bytes of one. errors: ERR_MISSING, -errno, -ENOMEM */
MUST_USE int unknown_mail_read(const char *spool_path, uint64_t id, size_t max, struct buf *out);
/* errors: ERR_MISSING, -errno */
MUST_USE int unknown_mail_remove(const char *spool_path, uint64_t id);

#endif
