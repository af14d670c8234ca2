#include "engine/post/hearing.h"

#include <stdlib.h>

struct hearing *hearing_new(void)
{
    struct hearing *h = calloc(1, sizeof(*h));
    if (h != NULL) {
        buf_init(&h->content, HEARD_BYTES_MAX);
        buf_init(&h->lines, 0);
    }
    return h;
}

void hearing_free(struct hearing *h)
{
    if (h != NULL) {
        buf_fini(&h->content);
        buf_fini(&h->lines);
        free(h);
    }
}
