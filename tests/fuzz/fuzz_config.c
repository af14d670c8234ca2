/* Fuzz target: any text as a configuration. A text that loads must also be routable and free
 * cleanly; one that does not must have said why. Texts with include are skipped: they would read
 * files of the machine. */
#include "engine/config/config.h"
#include "engine/config/policy.h"
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

/* Each transport under each provider, for a domain with a section and one without. */
static void try_policies(const struct config *c)
{
    struct policy_table *table;
    struct slice names[] = {SLICE("a.example.com"), SLICE("mx.example.com,mx2.example.com"),
                            SLICE("")};
    if (policy_table_new(c, &table) != 0) {
        return;
    }
    names[2] = c->domain_count > 0 ? slice_of(c->domains[0].options.name) : names[2];
    for (uint32_t i = 0; i < c->transport_count && i < 10; i++) {
        for (size_t n = 0; n < 9; n++) {
            const struct policy *p = policy_of(table, i, names[n / 3], names[n % 3]);
            if (p == NULL || p->transport != i || p->site == NULL) {
                abort();
            }
        }
    }
    policy_table_free(table);
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
        bool is_routed =
            router != NULL && router_route(router, SLICE("a.example.com"), SLICE("t"), &result);
        if (is_routed && result.transport >= config->transport_count) {
            abort();
        }
        router_free(router);
        try_policies(config);
    }
    config_free(config);
    free(text);
    return 0;
}
