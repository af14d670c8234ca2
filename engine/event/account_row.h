/* An event as a row of an accounting file: comma-separated values under PowerMTA's names of
 * columns, quoted as in RFC 4180, one line feed at the end. Pure: any thread. */
#ifndef ENGINE_ACCOUNT_ROW_H
#define ENGINE_ACCOUNT_ROW_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

enum account_column {
    ACCOUNT_TYPE, /* d: delivered, b: failed for good, t: will be tried again, r: received */
    ACCOUNT_TIME_LOGGED,
    ACCOUNT_TIME_QUEUED,
    ACCOUNT_ORIG,
    ACCOUNT_RCPT,
    ACCOUNT_ORCPT,
    ACCOUNT_DSN_ACTION,
    ACCOUNT_DSN_STATUS,
    ACCOUNT_DSN_DIAG,
    ACCOUNT_DSN_MTA,
    ACCOUNT_BOUNCE_CAT,
    ACCOUNT_SRC_TYPE,
    ACCOUNT_SRC_MTA,
    ACCOUNT_DLV_TYPE,
    ACCOUNT_DLV_SOURCE_IP,
    ACCOUNT_DLV_DESTINATION_IP,
    ACCOUNT_DLV_ESMTP_AVAILABLE,
    ACCOUNT_DLV_SIZE,
    ACCOUNT_VMTA,
    ACCOUNT_JOB_ID,
    ACCOUNT_ENV_ID,
    ACCOUNT_QUEUE,
    ACCOUNT_VMTA_POOL,
    ACCOUNT_MSG_ID, /* PowerMTA does not have this column and those that follow */
    ACCOUNT_TENANT,
    ACCOUNT_ATTEMPTS,
    ACCOUNT_DELAY,
    ACCOUNT_REPLY_CLASS,
    ACCOUNT_MAIL_CLASS,
    ACCOUNT_DKIM,
    ACCOUNT_DKIM_KEYS,
    ACCOUNT_COLUMN_COUNT
};

/* returns: ACCOUNT_COLUMN_COUNT when no column has this name */
enum account_column account_column_find(struct slice name);

/* What the log does not say but the configuration does; each returns a text or NULL. */
struct account_names {
    const char *(*source_address)(void *ctx, const char *source, bool is_v6);
    const char *(*pool_of)(void *ctx, const char *transport);
    void *ctx;
};

/* The line of names. Failure is the buffer's sticky flag, here and below. */
void account_row_names(struct buf *out, const enum account_column *columns, size_t count);
/* One row.
 *
 * line     of the event log
 * names    NULL: nothing is known beside the line
 * errors   ERR_SYNTAX: it is no event; nothing was written */
MUST_USE int account_row(struct buf *out, struct slice line, const enum account_column *columns,
                         size_t count, const struct account_names *names);

#endif
