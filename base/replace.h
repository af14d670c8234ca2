/* A small file that is replaced as a whole: whoever looks finds the old contents or the new ones,
 * after a power cut too. Called by whoever keeps such files; blocks on the disk, so never on the
 * path of mail. */
#ifndef BASE_REPLACE_H
#define BASE_REPLACE_H

#include "base/attr.h"
#include "base/slice.h"

/* Write `bytes` to folder/draft, sync, rename it to folder/name, sync the folder: a rename is
 * durable only with the folder that it changed. What stood at draft is gone.
 *
 * folder   descriptor of a folder
 * errors   -errno. The old contents stay, unless only the last sync failed: then the new ones are
 *          there, but a power cut may bring the old ones back */
MUST_USE int replace_file(int folder, const char *name, const char *draft, struct slice bytes);

#endif
