#include "engine/intake.h"

#include "engine/message.h"

#include <stdlib.h>

struct intake *intake_new(void)
{
    struct intake *in = calloc(1, sizeof(*in));
    if (in != NULL) {
        buf_init(&in->strings, 0);
        buf_init(&in->packed, 0);
        buf_init(&in->body, 0);
    }
    return in;
}

void intake_free(struct intake *in)
{
    if (in == NULL) {
        return;
    }
    if (in->message != NULL) {
        message_put(in->message);
    }
    buf_fini(&in->strings);
    buf_fini(&in->packed);
    buf_fini(&in->body);
    free(in);
}

struct message *intake_message(const struct intake *in)
{
    if (in->batch > 0) {
        return NULL;
    }
    return message_new_whole(&in->envelope, buf_slice(&in->packed));
}
