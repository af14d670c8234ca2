/* Owns a rule's life and all of its conditions but the text. Called for each reply that refuses. */
#include "engine/reply/reply_rule.h"

#include <stdlib.h>
#include <string.h>

/* x is any digit, and alone any number. */
static bool fits_number(const char *wanted, size_t wanted_len, const char *number, size_t len)
{
    if (wanted_len == 1 && wanted[0] == 'x') {
        return true;
    }
    size_t same = 0;
    while (same < len && same < wanted_len &&
           (wanted[same] == 'x' || wanted[same] == number[same])) {
        same++;
    }
    return same == len && same == wanted_len;
}

/* The numbers of a status code are compared one by one. */
static bool fits_status(const char *wanted, const char *status)
{
    for (;;) {
        size_t a = strcspn(wanted, "."), b = strcspn(status, ".");
        if (b == 0 || !fits_number(wanted, a, status, b)) {
            return false;
        }
        if (wanted[a] == '\0' || status[b] == '\0') {
            return wanted[a] == status[b];
        }
        wanted += a + 1;
        status += b + 1;
    }
}

/* A provider's name, or one that begins so and goes on with a hyphen. */
static bool is_of(struct slice provider, struct slice rule)
{
    return provider.len >= rule.len && slice_ieq(slice_to(provider, rule.len), rule) &&
           (provider.len == rule.len || provider.data[rule.len] == '-');
}

bool reply_rule_fits(const struct reply_rule *r, const struct reply *reply)
{
    bool fits = r->status_count == 0;
    if (r->stages != 0 && reply->stage != REPLY_AT_NOTHING &&
        (r->stages & 1u << reply->stage) == 0) {
        return false;
    }
    for (uint32_t i = 0; i < r->status_count && !fits; i++) {
        fits = fits_status(r->statuses[i], reply->status);
    }
    return fits && (r->provider == NULL || reply->provider.len == 0 ||
                    is_of(reply->provider, slice_of(r->provider)));
}

enum reply_stage reply_rule_stage(const struct reply_rule *r)
{
    return r->stages == 0 ? REPLY_AT_NOTHING : (enum reply_stage)__builtin_ctz(r->stages);
}

void reply_rule_fini(struct reply_rule *r)
{
    free(r->name);
    free(r->provider);
    free(r->text);
    free(r->example);
    *r = (struct reply_rule){.name = NULL};
}
