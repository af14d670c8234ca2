/* The counters that the spool writer keeps of one message: its reception and its delivery. Called
 * by sluice-instructions. */
#include "bench/stage/stage.h"
#include "engine/config/config.h"
#include "engine/post/message.h"
#include "engine/post/result.h"
#include "engine/tally/tally.h"

#define TENANTS 20
#define CREATED ((usec_t)1793491200 * USEC_PER_SEC) /* 2026-11-01T00:00:00Z */

static bool is_right(const struct tally *t, uint64_t messages)
{
    uint64_t received = 0, delivered = 0, spans = 0;
    for (uint32_t i = 0; i < tally_table_rows(t->tenants); i++) {
        const struct tally_row *row = tally_table_row(t->tenants, i);
        received += tally_row_value(row, TALLY_RECEIVED);
        delivered += tally_row_value(row, TALLY_DELIVERED);
    }
    for (uint32_t i = 0; i <= TALLY_SPAN_BOUNDS; i++) {
        spans += tally_bucket(&t->spans[0][TALLY_QUEUE_TIME], i);
    }
    return received == messages && delivered == messages && spans == messages;
}

bool stage_tally(const struct stage_message *m, uint64_t messages)
{
    static char name[] = "smtp";
    struct config_transport transport = {.name = name};
    const struct config config = {.transports = &transport, .transport_count = 1};
    struct tally *t = tally_new(&config);
    struct result_recipient to = {.kind = RESULT_DELIVERED, .code = 250, .status = "2.0.0"};
    struct result result = {.dispatched = CREATED + 420,
                            .done = CREATED + 1570,
                            .source = SLICE("ip-192-0-2-1"),
                            .count = 1,
                            .recipients = &to};
    char tenant[] = "tenant-00";
    /* One for all: to clear one is no work of the counters, and grows with what a message is. */
    struct message message = {.envelope = {.created = CREATED,
                                           .size_bytes = m->content.len,
                                           .recipient_count = 1,
                                           .tenant = slice_of(tenant)}};
    for (uint64_t i = 0; t != NULL && i < messages; i++) {
        tenant[8] = (char)('a' + i % TENANTS);
        message.account.tenant_row = tally_tenant(t, &message.envelope);
        tally_received(t, message.account.tenant_row, &message.envelope);
        tally_result(t, &message, &result);
    }
    bool is_good = t != NULL && is_right(t, messages);
    tally_free(t);
    return is_good || stage_fail("tally", "not all messages were counted");
}
