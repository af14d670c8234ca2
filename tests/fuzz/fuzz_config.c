/* Fuzz target: any text as a configuration. A text that loads must also be routable and free
 * cleanly; one that does not must have said why. Texts with include are skipped: they would read
 * files of the machine. */
#include "engine/config/config.h"
#include "engine/config/router.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_complaint(void *ctx, bool is_warning, const char *line)
{
    if (line[0] == '\0' || strchr(line, '\n') != NULL) {
        abort();
    }
    *(int *)ctx += is_warning ? 0 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int errors = 0;
    struct config_sink sink = {.complain = count_complaint, .ctx = &errors};
    struct config *config = NULL;
    if (size > 65536 || memmem(data, size, "include", 7) != NULL ||
        memmem(data, size, "${", 2) != NULL) {
        return 0;
    }
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    int err = config_load_text(text, "f", &sink, &config);
    if ((err == 0) != (config != NULL) || (err == 0) != (errors == 0)) {
        abort();
    }
    if (config != NULL) {
        struct route_result result;
        struct router *router = router_new(config);
        bool is_routed = router != NULL && router_route(router, SLICE("a.example.com"), &result);
        if (is_routed && result.transport >= config->transport_count) {
            abort();
        }
        router_free(router);
    }
    config_free(config);
    free(text);
    return 0;
}
