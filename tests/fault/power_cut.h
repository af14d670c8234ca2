/* What a disk would hold if the power failed now: changes below a folder, remembered with what
 * stood there before until they are synced, and the roll-back of some of those that are not. Part
 * of fault_preload, which reports the calls; needs no guest.
 *
 * Modelled:
 *
 * - Contents. A write is kept by a successful fsync or fdatasync of its file, or at once through a
 *   descriptor with O_DSYNC or O_SYNC. Of the others each unit (512 or 4096 bytes) is what it was
 *   after some of the writes to it: a page cache writes a page back as it is then. In one file by
 *   name, `torn`, a unit that was being written may be garbage instead, all of it, also what the
 *   writes did not touch. (LMDB counts on its meta pages being one or the other.)
 * - Size. The same, as one more unit of the file: one that is lost cuts off what lies behind.
 * - Names. mkdir, creation, unlink and rename are kept by fsync of their folder or of the file; the
 *   others are lost from the newest on back to some point, as in a journal of metadata.
 *
 * Not modelled: writes through mappings, attributes, links; barriers of the file system that keep
 * more than was asked for; sectors that give an error when read; names outside of the folder.
 *
 * Threads: any, one at a time, between power_cut_lock and power_cut_unlock; the change itself is
 * made in between as well. Must not call what fault_preload replaces, only the kernel. */
#ifndef TESTS_FAULT_POWER_CUT_H
#define TESTS_FAULT_POWER_CUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* seed  of the choice of what survives: all, nothing, only the newest change, only the oldest, or
 *       each unit with some probability; and of the unit
 * torn  a file's name, or NULL; the caller keeps it */
void power_cut_start(const char *folder, const char *torn, uint64_t seed);
void power_cut_lock(void);
void power_cut_unlock(void);

/* Before a write. at: -1 = where the descriptor stands; is_complete: the call will have returned
 * when the power fails, so that a descriptor's own sync counts */
void power_cut_writes(int fd, off64_t at, size_t len, bool is_complete);
/* Before the size becomes this one. */
void power_cut_resizes(int fd, off64_t size);
/* After a sync that succeeded, of a file or a folder. */
void power_cut_synced(int fd);

/* Before an open that may create or truncate. returns: true when the file is there */
bool power_cut_opens(int folder_fd, const char *path, int flags);
/* After it has created a file, or a folder was made. */
void power_cut_created(int folder_fd, const char *path);
/* Before the name goes, or is replaced (from: its new name was this one before). */
void power_cut_unlinks(int folder_fd, const char *path);
void power_cut_renames(int from_fd, const char *from, int to_fd, const char *to);

/* The power fails: the process stands still, loses what it loses, and is killed. */
_Noreturn void power_cut_now(void);

#endif
