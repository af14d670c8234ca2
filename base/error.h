/* Errors of the whole tree: 0, a negative errno, or one of the codes below.
 * Owned by base; every room returns them; nothing here logs or exits. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

enum err {
    ERR_OK = 0,
    /* Any -errno (-ENOMEM, -ENOSPC, ...) lies between 0 and ERR_OWN. */
    ERR_OWN = -1000,
    ERR_SYNTAX = -1001,  /* input does not follow its grammar */
    ERR_LIMIT = -1002,   /* input is larger than a limit allows */
    ERR_CORRUPT = -1003, /* a stored record fails its checksum or version */
    ERR_AGAIN = -1004,   /* needs more input or another pass; nothing happened */
    ERR_CLOSED = -1005,  /* the peer closed */
    ERR_LOCKED = -1006,  /* somebody else holds it */
    ERR_MISSING = -1007, /* no such thing */
    ERR_TLS = -1008,     /* the TLS library refused; details in the stream */
    ERR_QUOTA = -1009,   /* whoever wants it has as much as it may have */
};

/* Text for a code of enum err or a negative errno; static or thread-local storage, never freed. */
const char *err_str(int err);

#endif
