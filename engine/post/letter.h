/* What the letters between the engine's threads mean; each receiver knows its own kinds. What travels
 * in them is described where it is declared; how they travel is base/mailbox.h. */
#ifndef ENGINE_LETTER_H
#define ENGINE_LETTER_H

enum letter_kind {
    /* to the spool writer */
    LETTER_STAGE,     /* struct intake: bytes or recipients of an unfinished reception */
    LETTER_STORE,     /* struct intake: the reception is complete */
    LETTER_DISCARD,   /* number: message id of a staged reception that ended */
    LETTER_RESULT,    /* struct result */
    LETTER_NO_RESULT, /* struct message (lent), number: see result_send */
    LETTER_DAMAGED,   /* struct spool_position (heap): its record fails its checksum */
    LETTER_PARK,      /* struct spool_position (heap), and number: suspended until then, wall */
    LETTER_ROTATE,    /* reopen the event log */
    LETTER_RETURNED,  /* struct message: arrived, but it has to come from the spool later */
    /* to the activator */
    LETTER_ARRIVED, /* struct message, committed just now; NULL: see number (position) */
    LETTER_SETTLED, /* struct message or NULL, and number, its id: it is no longer active */
    LETTER_READ,    /* struct read_request */
    LETTER_HELD,    /* number: wall time; a message is held until then */
    LETTER_SWEEP,   /* struct sweep: find mail that is not active and try it now; number: see
                     * order_book_wanted_review */
    /* to a scheduler */
    LETTER_SUBMIT,   /* struct submission: a message's first recipients */
    LETTER_MORE,     /* struct submission: what LETTER_READ asked for */
    LETTER_REPORT,   /* struct delivery */
    LETTER_RESOLVED, /* struct resolution */
    LETTER_LOST,     /* number: transport << 48 | worker << 32 | connection, an idle one that
                      * the peer closed, or one whose end was promised or asked for */
    LETTER_REVIVE,   /* struct sweep: its selector names dead destinations to be tried at once */
    LETTER_ORDERS,   /* standing orders have changed; by way of the activator */
    LETTER_SETTINGS, /* struct settings, a reference: go on by these */
    /* to a worker */
    LETTER_STORED,        /* struct intake: committed, or refused with its error */
    LETTER_STAGED,        /* struct intake: staged, or refused with its error */
    LETTER_DELIVER,       /* struct delivery */
    LETTER_RESOLVE,       /* struct resolution */
    LETTER_CLOSE,         /* number: LOST is awaited << 48 | transport << 32 | connection */
    LETTER_ADOPT,         /* number: descriptor of a trusted local SMTP session */
    LETTER_AUTHENTICATED, /* struct auth_request */
    LETTER_STS_ANSWER,    /* struct sts_question */
    LETTER_TRACE,         /* struct trace_question, with a reference */
    /* to a clerk, and back to the http thread */
    LETTER_CALL,   /* struct api_call */
    LETTER_ANSWER, /* struct api_call, answered */
    LETTER_INNER,  /* struct api_call from inside the process */
    /* to the thread that knows MTA-STS policies */
    LETTER_STS_QUESTION, /* struct sts_question */
};

#endif
