/* Building a spool anew from what can still be read of a damaged one: `sluice repair --salvage`.
 * Nothing else of the spool is open; the daemon must not run. */
#ifndef ENGINE_SPOOL_SALVAGE_H
#define ENGINE_SPOOL_SALVAGE_H

#include "base/attr.h"
#include "engine/spool/spool_store.h"

#include <stdbool.h>
#include <stdint.h>

enum spool_fate {
    SPOOL_KEPT,   /* whole, and nothing that was known of it is lost */
    SPOOL_REPEAT, /* whole, but who has it may be lost, or it may be a removed message's old copy */
    SPOOL_LOST,   /* a part of it cannot be read */
    SPOOL_FATE_COUNT,
};

struct spool_salvage {
    /* Each message, once, in no order. */
    void (*on_message)(void *ctx, enum spool_fate fate, uint64_t id);
    void *ctx;
    uint64_t counts[SPOOL_FATE_COUNT];
    uint64_t bad_pages;  /* of trees, as far as they were come across */
    bool is_root_unsure; /* the last transaction may be missing: any message may repeat */
    bool is_queue_guess; /* places in the queue were lost; messages are queued anew */
    char old_name[64];   /* of the damaged file, in the same folder */
};

/* Reads every page by itself, copies what passes its checksum into a new environment, checks that
 * the messages are whole, and puts that in the place of the old one, which is kept. The journal is
 * left for the next start to take over.
 *
 * What hangs on pages that are lost is looked for in the whole file. Where the list of free pages
 * is readable such a page is what hung there; else it may as well be an old copy, and what comes
 * from it is called SPOOL_REPEAT.
 *
 * options  as for spool_store_open; of these the path and the map's size count
 * errors   ERR_LOCKED, -errno, ERR_CORRUPT; text says what (256 bytes); nothing was changed then */
MUST_USE int spool_salvage(const struct spool_options *options, struct spool_salvage *salvage,
                           char text[256]);

#endif
