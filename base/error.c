#include "base/error.h"

#include <string.h>

const char *err_str(int err)
{
    switch (err) {
    case ERR_OK:
        return "success";
    case ERR_SYNTAX:
        return "syntax error";
    case ERR_LIMIT:
        return "limit exceeded";
    case ERR_CORRUPT:
        return "corrupt record";
    case ERR_AGAIN:
        return "not ready yet";
    case ERR_CLOSED:
        return "closed by peer";
    case ERR_LOCKED:
        return "locked by another process";
    case ERR_MISSING:
        return "not found";
    case ERR_TLS:
        return "TLS failure";
    case ERR_QUOTA:
        return "its quota is used up";
    default:
        break;
    }
    if (err < 0 && err > ERR_OWN) {
        return strerror(-err);
    }
    return "unknown error";
}
