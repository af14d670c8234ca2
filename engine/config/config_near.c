/* See config_near.h. */
#include "engine/config/config_near.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void config_near_begin(struct config_near *n, const char *name)
{
    size_t len = strlen(name);
    *n = (struct config_near){.name = name};
    if (len > 0 && len <= CONFIG_NEAREST_BYTES) {
        n->best = len / 3 + (len > 3 ? 2 : 1); /* about a third of the letters may be wrong */
    }
}

void config_near_offer(struct config_near *n, const char *known)
{
    if (n->best == 0 || strlen(known) > CONFIG_NEAREST_BYTES) {
        return;
    }
    size_t distance = strcasecmp(n->name, known) == 0 ? 0 : config_option_distance(n->name, known);
    if (distance < n->best) {
        n->best = distance;
        n->found = known;
    }
}

const char *config_near_text(const struct config_near *n, char ret[static CONFIG_NEAR_TEXT])
{
    ret[0] = '\0';
    if (n->found != NULL) {
        (void)snprintf(ret, CONFIG_NEAR_TEXT, "; did you mean \"%s\"?", n->found);
    }
    return ret;
}

size_t config_option_distance(const char *a, const char *b)
{
    size_t row[CONFIG_NEAREST_BYTES + 1];
    size_t b_len = strlen(b);
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            if (row[j] + 1 < best) {
                best = row[j] + 1;
            }
            if (row[j - 1] + 1 < best) {
                best = row[j - 1] + 1;
            }
            row[j] = best;
        }
    }
    return row[b_len];
}
