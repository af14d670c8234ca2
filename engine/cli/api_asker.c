/* Owns one connection to the control socket and the question that is under way on it. Called by
 * cli_top.c; must not block but in api_asker_wait. */
#include "engine/cli/api_asker.h"

#include "engine/cli/api_client_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

struct api_asker {
    char *socket_path;
    CURLM *multi;
    CURL *curl;
    bool is_busy; /* curl is in multi, or failed to get there */
    bool has_failed;
    struct api_answer answer; /* of the question under way */
};

int api_asker_new(const char *socket_path, struct api_asker **ret)
{
    struct api_asker *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->socket_path = strdup(socket_path);
    a->multi = curl_multi_init();
    a->curl = curl_easy_init();
    if (a->socket_path == NULL || a->multi == NULL || a->curl == NULL) {
        api_asker_free(a);
        return -ENOMEM;
    }
    *ret = a;
    return 0;
}

static void end_question(struct api_asker *a)
{
    if (a->is_busy) {
        /* fails when the transfer was not begun */
        (void)curl_multi_remove_handle(a->multi, a->curl);
        a->is_busy = false;
    }
}

void api_asker_free(struct api_asker *a)
{
    if (a == NULL) {
        return;
    }
    if (a->is_busy) {
        end_question(a);
        api_answer_fini(&a->answer);
    }
    curl_easy_cleanup(a->curl);
    (void)curl_multi_cleanup(a->multi); /* nothing could be done about it */
    free(a->socket_path);
    free(a);
}

int api_asker_ask(struct api_asker *a, const char *path_and_query)
{
    struct buf url;
    assert(!a->is_busy);
    buf_init(&url, 0);
    buf_printf(&url, "http://localhost%s", path_and_query);
    buf_append_char(&url, '\0');
    api_client_init_answer(&a->answer);
    const struct api_client_request r = {.method = "GET", .url = url.data, .body = SLICE("")};
    bool is_good = !url.failed && api_client_prepare(a->curl, a->socket_path, &r, &a->answer);
    buf_fini(&url);
    if (!is_good) {
        api_answer_fini(&a->answer);
        return -ENOMEM;
    }
    a->is_busy = true;
    a->has_failed = curl_multi_add_handle(a->multi, a->curl) != CURLM_OK;
    return 0;
}

bool api_asker_is_busy(const struct api_asker *a)
{
    return a->is_busy;
}

bool api_asker_wait(struct api_asker *a, int fd, int timeout_ms)
{
    struct curl_waitfd extra = {.fd = fd, .events = CURL_WAIT_POLLIN};
    int running = 0;
    if (a->is_busy && !a->has_failed) {
        a->has_failed = curl_multi_perform(a->multi, &running) != CURLM_OK;
    }
    /* An answer that is complete is taken at once. */
    int timeout = a->is_busy && running == 0 ? 0 : timeout_ms;
    if (curl_multi_poll(a->multi, &extra, 1, timeout, NULL) != CURLM_OK) {
        a->has_failed = true;
    }
    return (extra.revents & ~(CURL_WAIT_POLLIN | CURL_WAIT_POLLPRI)) == 0;
}

bool api_asker_take(struct api_asker *a, struct api_answer *ret, int *ret_code)
{
    int left = 0;
    CURLcode result = CURLE_OUT_OF_MEMORY;
    if (!a->is_busy) {
        return false;
    }
    if (!a->has_failed) {
        int running;
        a->has_failed = curl_multi_perform(a->multi, &running) != CURLM_OK;
    }
    if (!a->has_failed) {
        const struct CURLMsg *message = curl_multi_info_read(a->multi, &left);
        if (message == NULL || message->msg != CURLMSG_DONE) {
            return false;
        }
        result = message->data.result;
    }
    end_question(a);
    *ret = a->answer;
    *ret_code = api_client_judge(a->curl, result, a->socket_path, ret);
    return true;
}
