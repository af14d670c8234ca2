/* Reads and writes the counters' file. Called by main at start and stop; must not know its format. */
#include "engine/writer/counter_file.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/config/config.h"
#include "engine/heard/heard.h"
#include "engine/state/engine.h"
#include "engine/tally/tally_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TOTALS = 23 + SEAL_RESULT_COUNT,
    FILE_MAX = 16 << 20, /* 1,000 rows of each table take less than 1 MB */
    CHUNK = 65536,
};

static const char *path_of_counters(const struct engine *e, char room[static PATH_MAX])
{
    (void)snprintf(room, PATH_MAX, "%s/counters", e->config->spool.path);
    return room;
}

/* The counters of the engine that are not the tally's. The names are the file's. */
static void list_totals(struct engine *e, struct tally_total ret[static TOTALS])
{
    static const char *const seals[SEAL_RESULT_COUNT] = {
        [SEAL_SIGNED] = "seals_signed",   [SEAL_KEPT] = "seals_kept",
        [SEAL_NO_KEY] = "seals_no_key",   [SEAL_FROM] = "seals_from",
        [SEAL_FOREIGN] = "seals_foreign", [SEAL_UNKNOWN] = "seals_unknown",
        [SEAL_SHAPE] = "seals_shape",     [SEAL_UNREADABLE] = "seals_unreadable",
        [SEAL_FAILED] = "seals_failed",
    };
    const struct tally_total totals[TOTALS - SEAL_RESULT_COUNT] = {
        {"received", &e->received},
        {"refused", &e->refused},
        {"delivered", &e->delivered},
        {"deferred", &e->deferred},
        {"failed", &e->failed},
        {"expired", &e->expired},
        {"dropped", &e->dropped},
        {"ambiguous", &e->ambiguous},
        {"notices_suppressed", &e->notices_suppressed},
        {"odd_labels", &e->odd_labels},
        {"suppressed", &e->suppressed},
        {"suppressed_refused", &e->suppressed_refused},
        {"suppressions_added", &e->suppressions_added},
        {"suppressions_removed", &e->suppressions_removed},
        {"signatures", &e->signatures},
        {"heard_unknown", &e->heard[HEARD_UNKNOWN]},
        {"heard_bounces", &e->heard[HEARD_BOUNCE]},
        {"heard_complaints", &e->heard[HEARD_COMPLAINT]},
        {"heard_unsubscribes", &e->heard[HEARD_UNSUBSCRIBE]},
        {"heard_auto_replies", &e->heard[HEARD_AUTO_REPLY]},
        {"tls_left_out", &e->tls_left_out},
        {"tls_unsent", &e->tls_unsent},
        {"given_back", &e->given_back},
    };
    memcpy(ret, totals, sizeof(totals));
    for (size_t i = 0; i < SEAL_RESULT_COUNT; i++) {
        ret[TOTALS - SEAL_RESULT_COUNT + i] = (struct tally_total){seals[i], &e->seals[i]};
    }
}

/* errors: -errno, -ENOENT where there is none */
static int read_counters(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -errno;
    }
    size_t got = 0;
    do {
        char *at = buf_reserve(out, CHUNK);
        got = at == NULL ? 0 : fread(at, 1, CHUNK, file);
        out->len += got;
    } while (got > 0);
    int err = ferror(file) != 0 ? -EIO : 0;
    (void)fclose(file); /* it was only read */
    return out->failed ? -ENOMEM : err;
}

void counter_file_take(struct engine *e)
{
    char room[PATH_MAX];
    struct tally_total totals[TOTALS];
    struct buf text;
    const char *path = path_of_counters(e, room);
    buf_init(&text, FILE_MAX);
    int err = read_counters(path, &text);
    if (err == 0) {
        list_totals(e, totals);
        err = tally_memory_read(e->tally, totals, TOTALS, buf_slice(&text));
    }
    if (err != 0 && err != -ENOENT) {
        log_error("%s: %s: counters begin at 0", path, err_str(err));
    }
    if (err != -ENOENT && unlink(path) != 0) {
        log_error("%s: %s: it would be counted again", path, err_str(-errno));
    }
    buf_fini(&text);
}

void counter_file_leave(struct engine *e)
{
    char room[PATH_MAX];
    struct tally_total totals[TOTALS];
    struct buf text;
    const char *path = path_of_counters(e, room);
    buf_init(&text, FILE_MAX);
    list_totals(e, totals);
    tally_memory_write(e->tally, totals, TOTALS, &text);
    int err = text.failed ? -ENOMEM : file_replace(path, buf_slice(&text));
    if (err != 0) {
        log_error("%s: %s: counters of the next run begin at 0", path, err_str(err));
    }
    buf_fini(&text);
}
