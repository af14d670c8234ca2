/* What the files of the commands' HTTP client share. */
#ifndef ENGINE_API_CLIENT_PRIVATE_H
#define ENGINE_API_CLIENT_PRIVATE_H

#include "engine/cli/api_client.h"

#include <curl/curl.h>

struct api_client_request {
    const char *method, *url;
    struct curl_slist *headers; /* or NULL */
    struct slice body;          /* of a POST */
};

/* Prepare a request to the control socket. Its answer goes to `a`, which has to stay where it is
 * until the transfer is over, like headers and body.
 *
 * returns  false when out of memory */
MUST_USE bool api_client_prepare(CURL *curl, const char *socket_path,
                                 const struct api_client_request *r, struct api_answer *a);
/* It is over: set status and error.  returns an exit code */
MUST_USE int api_client_judge(CURL *curl, CURLcode result, const char *socket_path,
                              struct api_answer *a);
void api_client_init_answer(struct api_answer *a);

#endif
