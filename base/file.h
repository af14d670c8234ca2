/* Files written as a whole or to the end: what a write, a sync or a rename alone would leave to
 * each caller. Called by whoever keeps files; blocks on the disk, so never on the loop of a worker.
 *
 * A replaced file shows its old contents or its new ones to whoever looks, after a power cut too. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/attr.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

/* Write all bytes where the file stands, in as many calls as it takes.
 *
 * ret_done   bytes written, on failure too; may be NULL
 * errors     -errno; -EIO when the file takes nothing and says nothing */
MUST_USE int file_write(int fd, struct slice bytes, size_t *ret_done);

/* Write all bytes at an offset. errors: as file_write */
MUST_USE int file_write_at(int fd, struct slice bytes, uint64_t offset);

/* Sync the folder in which path stands, so that a new name lasts. A folder that cannot be synced
 * (some file systems refuse) is left as it is. */
void file_sync_folder_of(const char *path);

/* Write `bytes` to folder/draft, sync, rename it to folder/name, sync the folder: a rename is
 * durable only with the folder that it changed. What stood at draft is gone.
 *
 * folder   descriptor of a folder
 * errors   -errno. The old contents stay, unless only the last sync failed: then the new ones are
 *          there, but a power cut may bring the old ones back */
MUST_USE int file_replace_at(int folder, const char *name, const char *draft, struct slice bytes);

/* The same by a path; the draft is PATH.new. errors: as file_replace_at, -ENAMETOOLONG */
MUST_USE int file_replace(const char *path, struct slice bytes);

#endif
