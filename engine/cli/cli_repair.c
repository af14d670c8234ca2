/* `sluice repair --salvage`: a spool that the daemon cannot open is built anew from what can be
 * read of it. Works on the files themselves; the daemon must not run. `--from-log`: a spool that is
 * lost is made anew from what servers of a cluster have of it. */
#include "base/error.h"
#include "engine/cli/cli.h"
#include "engine/cli/cli_options.h"
#include "engine/nodes/log_restore.h"
#include "engine/spool/spool_salvage.h"

#include <sysexits.h>

static const char *const fates[SPOOL_FATE_COUNT] = {
    [SPOOL_KEPT] = "kept", [SPOOL_REPEAT] = "may-repeat", [SPOOL_LOST] = "lost"};

static void print_message(void *ctx, enum spool_fate fate, uint64_t id)
{
    const struct cli *cli = ctx;
    (void)fprintf(cli->out,
                  cli->is_json ? "{\"fate\": \"%s\", \"id\": \"%016llx\"}\n" : "%-10s  %016llx\n",
                  fates[fate], (unsigned long long)id);
}

static void print_sum(const struct cli *cli, const struct config *config,
                      const struct spool_salvage *s)
{
    (void)fprintf(cli->err,
                  "%llu kept, %llu may repeat, %llu lost; %llu bad pages; the damaged file is "
                  "%s/%s\n",
                  (unsigned long long)s->counts[SPOOL_KEPT],
                  (unsigned long long)s->counts[SPOOL_REPEAT],
                  (unsigned long long)s->counts[SPOOL_LOST], (unsigned long long)s->bad_pages,
                  config->spool.path, s->old_name);
    if (s->is_root_unsure) {
        (void)fprintf(cli->err, "the newest root cannot be read: every message may be one that was "
                                "delivered before, and the last ones may be missing\n");
    }
    if (s->is_queue_guess) {
        (void)fprintf(cli->err,
                      "places in the queue were lost: messages that had none are queued by "
                      "their own times\n");
    }
    (void)fprintf(cli->err,
                  "mail of the journal is not in this list: the next start takes it over\n");
}

static int restore(const struct cli *cli, const struct config *config, const char *node)
{
    char text[LOG_RESTORE_TEXT];
    struct log_restore r;
    if (config->cluster.servers.count == 0) {
        (void)fprintf(cli->err, "sluice repair: --from-log: there are no servers to ask; write "
                                "cluster { node = \"...\"  servers = {...} }\n");
        return EX_CONFIG;
    }
    int err = log_restore(config, node, &r, text);
    if (err != 0) {
        (void)fprintf(cli->err, "sluice repair: %s; there is no spool in %s\n", text,
                      config->spool.path);
        return err == ERR_CLOSED || err == ERR_LOCKED ? EX_TEMPFAIL : EX_IOERR;
    }
    (void)fprintf(cli->err,
                  "%llu messages in %s; %llu frames, %llu of them void, %llu unreadable, %llu "
                  "bytes\n",
                  (unsigned long long)r.messages, config->spool.path, (unsigned long long)r.frames,
                  (unsigned long long)r.void_frames, (unsigned long long)r.damaged,
                  (unsigned long long)r.bytes);
    return EX_OK;
}

int cli_repair(const struct cli *cli, const struct cli_args *args)
{
    struct config *config = NULL;
    char text[256] = "";
    if (cli_has(args, "salvage") == cli_has(args, "from-log")) {
        (void)fprintf(cli->err,
                      "sluice repair: say --salvage: it builds the spool anew from what can "
                      "be read; or --from-log NODE: from what the cluster's servers have; stop "
                      "the daemon first\n");
        return EX_USAGE;
    }
    int code = cli_config(cli, false, &config);
    if (code != 0) {
        return code;
    }
    if (cli_has(args, "from-log")) {
        code = restore(cli, config, cli_value(args, "from-log"));
        config_free(config);
        return code;
    }
    const struct spool_options options = {.path = config->spool.path,
                                          .map_size = config->spool.map_size};
    struct spool_salvage salvage = {.on_message = print_message, .ctx = (void *)(uintptr_t)cli};
    int err = spool_salvage(&options, &salvage, text);
    if (err == 0) {
        print_sum(cli, config, &salvage);
    } else {
        (void)fprintf(cli->err, "sluice repair: %s; nothing was changed\n", text);
    }
    config_free(config);
    if (err == 0) {
        return EX_OK;
    }
    return err == ERR_LOCKED ? EX_TEMPFAIL : EX_IOERR;
}
