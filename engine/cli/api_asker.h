/* Questions to the daemon for somebody who has other things to wait for: one after the other over
 * one connection that is kept. One thread. */
#ifndef ENGINE_API_ASKER_H
#define ENGINE_API_ASKER_H

#include "base/attr.h"
#include "engine/cli/api_client.h"

#include <stdbool.h>

struct api_asker;

/* errors: -ENOMEM */
MUST_USE int api_asker_new(const char *socket_path, struct api_asker **ret);
/* A question that is under way is given up. Accepts NULL. */
void api_asker_free(struct api_asker *a);
/* Begin a GET; none may be under way.  errors: -ENOMEM */
MUST_USE int api_asker_ask(struct api_asker *a, const char *path_and_query);
bool api_asker_is_busy(const struct api_asker *a);
/* Wait until something of the answer came, there is input on fd, a signal came or the time is over.
 *
 * returns  false: nobody is at the other end of fd any more */
MUST_USE bool api_asker_wait(struct api_asker *a, int fd, int timeout_ms);
/* The answer is there, or will never be; the next question may be asked.
 *
 * ret       the caller frees it with api_answer_fini
 * ret_code  as api_client_call returns
 * returns   false: not yet, nothing set */
MUST_USE bool api_asker_take(struct api_asker *a, struct api_answer *ret, int *ret_code);

#endif
