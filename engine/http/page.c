/* Hands out the page; what it shows it asks for like everybody else. Called on the http thread. */
#include "engine/http/page.h"

#include "engine/http/api_private.h"

void page_show(struct clerk *k, struct api_call *c)
{
    (void)k; /* the page is constant */
    c->policy = page_policy;
    api_raw(c, 200, "text/html; charset=utf-8", slice_make((const char *)page_bytes, page_size));
}
