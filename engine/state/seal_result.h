/* What became of the signatures of a message that was about to be scheduled: counted in struct engine
 * by the threads that sign, and shown by metrics. */
#ifndef ENGINE_SEAL_RESULT_H
#define ENGINE_SEAL_RESULT_H

/* Each message is counted under one, each time that it becomes active. */
enum seal_result {
    SEAL_SIGNED,
    SEAL_KEPT,       /* it goes out with the signatures of an earlier attempt */
    SEAL_NO_KEY,     /* no key is for it */
    SEAL_FOREIGN,    /* its From, or a key that its request names, belongs to other tenants */
    SEAL_UNKNOWN,    /* its request names a key that there is not any more */
    SEAL_FROM,       /* it has no From, or one that cannot be read without doubt */
    SEAL_SHAPE,      /* its header is too large, or a line of it is no field */
    SEAL_UNREADABLE, /* its content cannot be read, as its delivery will find */
    SEAL_FAILED,     /* a key could not sign: it is tried again */
    SEAL_RESULT_COUNT
};

/* As counters name it; static. */
static inline const char *seal_result_text(enum seal_result result)
{
    static const char *const texts[SEAL_RESULT_COUNT] = {
        [SEAL_SIGNED] = "signed",   [SEAL_KEPT] = "kept",
        [SEAL_NO_KEY] = "no_key",   [SEAL_FOREIGN] = "foreign",
        [SEAL_UNKNOWN] = "unknown", [SEAL_FROM] = "from",
        [SEAL_SHAPE] = "shape",     [SEAL_UNREADABLE] = "unreadable",
        [SEAL_FAILED] = "failed"};
    return texts[result];
}

#endif
