/* How one destination behaves: what the options of the command line and the keys of a behaviour
 * file set, and how each value is written. Pure except for allocation; knows no files and no
 * addresses. */
#ifndef BENCH_BEHAVIOUR_H
#define BENCH_BEHAVIOUR_H

#include "base/attr.h"
#include "base/clock.h"
#include "bench/sink/rate_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BEHAVIOUR_WHY_BYTES   VALUE_WHY_BYTES
#define BEHAVIOUR_REPLY_BYTES 200

enum behaviour_key {
    BEHAVIOUR_DELAY_BANNER, /* the delays in the order of enum behaviour_stage */
    BEHAVIOUR_DELAY_EHLO,
    BEHAVIOUR_DELAY_MAIL,
    BEHAVIOUR_DELAY_RCPT,
    BEHAVIOUR_DELAY_DATA,
    BEHAVIOUR_DELAY_DOT,
    BEHAVIOUR_ROUND_TRIP,
    BEHAVIOUR_TARPIT,
    BEHAVIOUR_CONNECTIONS,
    BEHAVIOUR_CONNECTIONS_PER_CLIENT,
    BEHAVIOUR_MESSAGES_PER_CONNECTION,
    BEHAVIOUR_RECIPIENTS_PER_MESSAGE,
    BEHAVIOUR_RATE,
    BEHAVIOUR_RATE_PER_CLIENT,
    BEHAVIOUR_RATE_STAGE,
    BEHAVIOUR_RATE_REPLY,
    BEHAVIOUR_CONNECTION_RATE_PER_CLIENT,
    BEHAVIOUR_CONNECTION_REPLY,
    BEHAVIOUR_MESSAGES_REPLY,
    BEHAVIOUR_RECIPIENT_RATE_PER_CLIENT,
    BEHAVIOUR_RECIPIENT_REPLY,
    BEHAVIOUR_REJECT,
    BEHAVIOUR_GREYLIST,
    BEHAVIOUR_GREYLIST_REPLY,
    BEHAVIOUR_FAULT,
    BEHAVIOUR_SILENT,
    BEHAVIOUR_EXTENSIONS,
    BEHAVIOUR_HOLD,
    BEHAVIOUR_KEY_COUNT,
};

enum behaviour_stage {
    STAGE_BANNER,
    STAGE_EHLO,
    STAGE_MAIL,
    STAGE_RCPT,
    STAGE_DATA,
    STAGE_DOT, /* the end of the data, or of the last chunk */
    STAGE_COUNT,
};

enum behaviour_fault {
    FAULT_RESET, /* the connection */
    FAULT_STALL, /* never say anything again */
    FAULT_421,
    FAULT_CLOSE, /* without a word, behind the answer to a message */
    FAULT_COUNT,
};

enum behaviour_extension { /* bits */
                           EXTENSION_PIPELINING = 1,
                           EXTENSION_CHUNKING = 2,
                           EXTENSION_8BITMIME = 4,
                           EXTENSION_SMTPUTF8 = 8,
                           EXTENSION_ENHANCEDSTATUSCODES = 16,
                           EXTENSION_SIZE = 32,
                           EXTENSIONS_USUAL = 63 - EXTENSION_CHUNKING,
};

struct behaviour_delay {
    usec_t least, most; /* uniform between them */
};

struct behaviour_rejection {
    enum behaviour_stage stage;
    double share; /* 0..1 */
    char reply[BEHAVIOUR_REPLY_BYTES];
};

struct behaviour {
    uint32_t set; /* bits of enum behaviour_key: what was written somewhere */
    struct behaviour_delay delays[STAGE_COUNT];
    struct behaviour_delay round_trip; /* replies are under way so long; input does not wait */
    usec_t tarpit; /* the n-th reply of a connection takes n times this longer */
    uint32_t connections, connections_per_client; /* to one listening address; 0 = no limit */
    uint32_t messages_per_connection, recipients_per_message; /* 0 = no limit */
    struct rate_plan rate;                                    /* of messages, from everybody */
    struct rate_plan rate_per_client;                         /* of messages */
    struct rate_plan connection_rate_per_client;              /* of connections begun */
    struct rate_plan recipient_rate_per_client;               /* of recipients accepted */
    enum behaviour_stage rate_stage; /* MAIL, RCPT or DOT: where both rates of messages act */
    /* What is said beyond a limit; '{client}', '{sender}' and '{domain}' in it are filled in. */
    char rate_reply[BEHAVIOUR_REPLY_BYTES];
    char connection_reply[BEHAVIOUR_REPLY_BYTES];
    char messages_reply[BEHAVIOUR_REPLY_BYTES];
    char recipient_reply[BEHAVIOUR_REPLY_BYTES];
    char greylist_reply[BEHAVIOUR_REPLY_BYTES];
    struct behaviour_rejection *rejections; /* heap; tried in this order */
    size_t rejection_count;
    usec_t greylist;                  /* 0 = off */
    double fault_shares[FAULT_COUNT]; /* of the commands, but CLOSE: of the messages */
    bool is_silent;                   /* accepts nothing, and its backlog is full */
    bool does_hold;                   /* no greeting before the sink is told to */
    unsigned extensions;              /* set of enum behaviour_extension */
};

/* Everything off, the usual extensions. */
void behaviour_init(struct behaviour *b);
void behaviour_fini(struct behaviour *b); /* accepts a zeroed one */

/* The key of this name; BEHAVIOUR_KEY_COUNT when there is none. */
enum behaviour_key behaviour_key_find(const char *name);
const char *behaviour_key_name(enum behaviour_key key);
bool behaviour_key_is_list(enum behaviour_key key);
/* May a recipient domain have it, or only a listening address? */
bool behaviour_key_is_for_domains(enum behaviour_key key);
/* May the client that connects have it, or only the listening address? */
bool behaviour_key_is_for_clients(enum behaviour_key key);

/* Read one value of a key, of a list one more item (the first replaces what is there unless the key
 * is in `set`), and note it in `set`.
 *
 * errors   ERR_SYNTAX: ret_why says "what is wrong; what would be right"; -ENOMEM
 */
MUST_USE int behaviour_read(struct behaviour *b, enum behaviour_key key, const char *text,
                            char ret_why[BEHAVIOUR_WHY_BYTES]);
/* Take over what was written in `from`. errors: -ENOMEM, `into` is whole */
MUST_USE int behaviour_overlay(struct behaviour *into, const struct behaviour *from);

static inline bool behaviour_has(const struct behaviour *b, enum behaviour_key key)
{
    return (b->set >> key & 1) != 0;
}

#endif
