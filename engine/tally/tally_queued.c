/* Makes rows, counts nothing. Called by the spool writer before it takes its first letter. */
#include "engine/tally/tally_queued.h"

#include "base/error.h"
#include "engine/spool/spool_store.h"
#include "engine/tally/tally.h"

#include <stdbool.h>

static int has_mail(struct spool_reader *reader, uint32_t flow, bool *ret)
{
    int err = ERR_MISSING;
    for (uint8_t c = 0; c < SPOOL_CLASS_COUNT && err == ERR_MISSING; c++) {
        const struct spool_position before = {c, 0, 0, flow};
        struct spool_position first;
        err = spool_scan_flow(reader, &before, &first);
    }
    *ret = err == 0;
    return err == ERR_MISSING ? 0 : err;
}

int tally_note_queued(struct tally *t, struct spool_reader *reader)
{
    struct spool_flow flow = {.number = 0};
    int err = spool_reader_begin(reader);
    if (err != 0) {
        return err;
    }
    for (uint32_t after = 0; err == 0; after = flow.number) {
        bool is_queued = false;
        err = spool_next_flow(reader, after, &flow);
        err = err == 0 ? has_mail(reader, flow.number, &is_queued) : err;
        if (is_queued) {
            (void)tally_table_find(t->tenants, flow.tenant); /* or it is among the others */
        }
    }
    spool_reader_end(reader);
    return err == ERR_MISSING ? 0 : err;
}
