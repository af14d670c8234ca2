/* sluice-instructions: takes one fixed message again and again through the stages of its way,
 * without thread, clock, file or network. tests/instructions counts what that takes. */
#include "base/error.h"
#include "bench/source/source_message.h"
#include "bench/stage/stage.h"
#include "bench/tool/options.h"

#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define MESSAGE_BYTES 4096

static const struct {
    const char *name;
    bool (*run)(const struct stage_message *m, uint64_t messages);
} stages[] = {
    {"receive", stage_receive},
    {"inject", stage_inject},
    {"inject-batch", stage_inject_batch},
    {"record", stage_record},
    {"log", stage_log},
    {"tally", stage_tally},
    {"sign", stage_sign},
    {"schedule", stage_schedule},
    {"schedule-50", stage_schedule_many},
    {"schedule-site", stage_schedule_site},
    {"schedule-lanes", stage_schedule_lanes},
    {"schedule-flows", stage_schedule_flows},
    {"deliver", stage_deliver},
};
enum { STAGE_COUNT = sizeof(stages) / sizeof(stages[0]) };

static const char usage[] =
    "usage: sluice-instructions [option...]\n"
    "Takes a message of 4 KB again and again through the stages of sluice, without thread, clock,\n"
    "file or network, and checks what comes out. Count its instructions with valgrind:\n"
    "tests/instructions/check_instructions.py does.\n"
    "\n"
    "  --stage NAME    receive, inject, inject-batch, record, log, tally, sign, schedule,\n"
    "                  schedule-50, schedule-site, schedule-lanes, schedule-flows or deliver;\n"
    "                  without it: all\n"
    "  --messages N    through each stage (1000)\n"
    "  --build         print how this program was built, and nothing else\n"
    "\n"
    "Prints a line for each stage; exit status 0 when all came out right.\n";

enum option_id { OPT_STAGE = 256, OPT_MESSAGES, OPT_BUILD };

static const struct option table[] = {
    {"stage", required_argument, NULL, OPT_STAGE},
    {"messages", required_argument, NULL, OPT_MESSAGES},
    {"build", no_argument, NULL, OPT_BUILD},
    {"help", no_argument, NULL, OPTIONS_HELP},
    {NULL, 0, NULL, 0},
};

struct wanted {
    int stage; /* -1: all */
    uint64_t messages;
    bool prints_build;
};

static int take_option(void *ctx, int id, const char *text)
{
    struct wanted *w = ctx;
    switch (id) {
    case OPT_STAGE:
        for (int i = 0; i < STAGE_COUNT; i++) {
            if (strcmp(text, stages[i].name) == 0) {
                w->stage = i;
                return 0;
            }
        }
        return ERR_SYNTAX;
    case OPT_MESSAGES:
        return options_integer(text, UINT32_MAX, &w->messages);
    default:
        w->prints_build = true;
        return 0;
    }
}

/* Message 1 of sluice-source, with a date of its own instead of today's. */
static bool prepare_message(struct stage_message *m)
{
    static char domain[] = "example.test";
    static char *domains[] = {domain};
    static struct buf recipient;
    const struct source_options o = {
        .size = amount_constant(MESSAGE_BYTES),
        .recipients = amount_constant(1),
        .domains = domains,
        .domain_count = 1,
        .sender = "bounce@source.test",
        .id_prefix = "instructions",
    };
    struct source_template t;
    buf_init(&m->content, 0);
    if (source_template_init(&t, &o) != 0) {
        return false;
    }
    (void)snprintf(t.date, sizeof(t.date), "Sun, 01 Nov 2026 00:00:00 +0000");
    source_message_content(&t, 1, 0, &m->content);
    source_message_recipient(&t, 1, 0, &recipient);
    buf_append(&recipient, "", 1);
    m->sender = o.sender;
    m->recipient = recipient.data;
    m->domain = domain;
    source_template_fini(&t);
    return !m->content.failed && !recipient.failed;
}

bool stage_fail(const char *stage, const char *what)
{
    (void)fprintf(stderr, "sluice-instructions: %s: %s\n", stage, what);
    return false;
}

int main(int argc, char **argv)
{
    struct wanted w = {.stage = -1, .messages = 1000};
    const struct options options = {"sluice-instructions", usage, table, take_option};
    struct stage_message m;
    int status;
    if (options_read_all(&options, argc, argv, &w, &status) != 0) {
        return status;
    }
    if (w.prints_build) {
        (void)printf(INSTRUCTIONS_BUILD ", glibc %s\n", gnu_get_libc_version());
        return EX_OK;
    }
    if (!prepare_message(&m)) {
        (void)fputs("sluice-instructions: out of memory\n", stderr);
        return EX_OSERR;
    }
    status = EX_OK;
    for (int i = 0; i < STAGE_COUNT; i++) {
        if (w.stage != -1 && w.stage != i) {
            continue;
        }
        if (stages[i].run(&m, w.messages)) {
            (void)printf("%s: %" PRIu64 " messages\n", stages[i].name, w.messages);
        } else {
            status = EX_SOFTWARE;
        }
    }
    buf_fini(&m.content);
    return status;
}
