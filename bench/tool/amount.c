/* Parsing and drawing of amounts. Called by the command line and by whoever renders messages; has
 * no random source itself. */
#include "bench/tool/amount.h"

#include "base/error.h"
#include "bench/tool/draw.h"
#include "bench/tool/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX   100000 /* entries */
#define SHARE_MAX  1e12
#define SIGMA_MAX  10
#define VALUES_WHY "each value is a whole number from 1 up to the limit of the option"
#define LIST_WHY   "a list is VALUE:SHARE,VALUE:SHARE, such as \"4096:0.9,102400:0.1\""
#define NORMAL_WHY "it is lognormal:MEDIAN:SIGMA:MAX, such as \"lognormal:8192:1.5:1000000\""

static const char prefix[] = "lognormal:";

static int wrong_amount(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_SYNTAX;
}

static int parse_lognormal(struct amount *a, char *text, uint64_t limit, const char **ret_why)
{
    char *rest = NULL;
    const char *median = strtok_r(text, ":", &rest);
    const char *sigma = strtok_r(NULL, ":", &rest);
    const char *most = strtok_r(NULL, ":", &rest);
    if (median == NULL || sigma == NULL || most == NULL || strtok_r(NULL, ":", &rest) != NULL) {
        return wrong_amount(ret_why, NORMAL_WHY);
    }
    a->least = 1;
    if (options_integer(most, limit, &a->most) != 0 || a->most == 0) {
        return wrong_amount(ret_why, "MAX is a whole number from 1 up to the limit of the option");
    }
    if (options_number(median, (double)a->most, &a->median) != 0 || a->median < 1) {
        return wrong_amount(ret_why, "MEDIAN is a number from 1 to MAX");
    }
    if (options_number(sigma, SIGMA_MAX, &a->sigma) != 0) {
        return wrong_amount(ret_why, "SIGMA, of the natural logarithm, is a number from 0 to 10");
    }
    return 0;
}

static uint32_t count_items(const char *text)
{
    uint32_t count = 1;
    for (; *text != '\0'; text++) {
        count += *text == ',' ? 1 : 0;
    }
    return count;
}

/* The next of a comma-separated list, which strtok would take for shorter where an item is empty.
 */
static char *next_item(char **rest)
{
    return strsep(rest, ",");
}

static int build_choice(struct choice *c, const double *weights, uint32_t count,
                        const char **ret_why)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i];
    }
    return sum > 0 ? choice_init(c, weights, count)
                   : wrong_amount(ret_why, "at least one share must be above 0");
}

static int parse_list(struct amount *a, char *text, uint64_t limit, const char **ret_why)
{
    uint32_t count = count_items(text);
    char *rest = text;
    int err = 0;
    if (count > LIST_MAX) {
        return wrong_amount(ret_why, "a list has at most 100000 entries");
    }
    a->values = calloc(count, sizeof(*a->values));
    double *shares = calloc(count, sizeof(*shares));
    a->least = UINT64_MAX;
    for (uint32_t i = 0; i < count && err == 0; i++) {
        char *value = next_item(&rest);
        char *share = strchr(value, ':');
        if (a->values == NULL || shares == NULL) {
            err = -ENOMEM;
        } else if (share == NULL) {
            err = wrong_amount(ret_why, LIST_WHY);
        } else {
            *share++ = '\0';
            if (options_integer(value, limit, &a->values[i]) != 0 || a->values[i] == 0) {
                err = wrong_amount(ret_why, VALUES_WHY);
            } else if (options_number(share, SHARE_MAX, &shares[i]) != 0) {
                err = wrong_amount(ret_why, "each share is a number >= 0");
            }
            a->least = a->values[i] < a->least ? a->values[i] : a->least;
            a->most = a->values[i] > a->most ? a->values[i] : a->most;
        }
    }
    if (err == 0) {
        err = build_choice(&a->choice, shares, count, ret_why);
    }
    free(shares);
    return err;
}

int amount_parse(struct amount *a, const char *text, uint64_t limit, const char **ret_why)
{
    struct amount parsed = {0};
    int err = 0;
    *ret_why = "";
    char *copy = strdup(text);
    if (copy == NULL) {
        return -ENOMEM;
    }
    if (strncmp(copy, prefix, sizeof(prefix) - 1) == 0) {
        err = parse_lognormal(&parsed, copy + sizeof(prefix) - 1, limit, ret_why);
    } else if (strpbrk(copy, ":,") != NULL) {
        err = parse_list(&parsed, copy, limit, ret_why);
    } else {
        uint64_t value = 0;
        if (options_integer(copy, limit, &value) != 0 || value == 0) {
            err = wrong_amount(ret_why, VALUES_WHY);
        }
        parsed = amount_constant(value);
    }
    free(copy);
    if (err != 0) {
        amount_fini(&parsed);
        return err;
    }
    *a = parsed;
    return 0;
}

void amount_fini(struct amount *a)
{
    free(a->values);
    choice_fini(&a->choice);
    *a = (struct amount){0};
}

/* Box and Muller 1958: the two halves of the bits are two uniform numbers. */
static double draw_normal(uint64_t random)
{
    double radius = sqrt(-2 * log(draw_uniform(random)));
    return radius * cos(2 * M_PI * draw_uniform(random << 32));
}

uint64_t amount_draw(const struct amount *a, uint64_t random)
{
    if (amount_is_constant(a)) {
        return a->least;
    }
    if (a->values != NULL) {
        return a->values[choice_pick(&a->choice, random)];
    }
    double value = round(a->median * exp(a->sigma * draw_normal(random)));
    if (value >= (double)a->most) {
        return a->most;
    }
    return value <= (double)a->least ? a->least : (uint64_t)value;
}

int amount_parse_weights(const char *text, double **ret, uint32_t *ret_count, const char **ret_why)
{
    uint32_t count = count_items(text);
    double sum = 0;
    int err = 0;
    *ret_why = "";
    char *copy = strdup(text);
    double *weights = calloc(count, sizeof(*weights));
    if (copy == NULL || weights == NULL) {
        err = -ENOMEM;
    }
    char *rest = copy;
    for (uint32_t i = 0; i < count && err == 0; i++) {
        if (options_number(next_item(&rest), SHARE_MAX, &weights[i]) != 0) {
            err =
                wrong_amount(ret_why, "weights are numbers >= 0 with commas, such as \"5,1,0.5\"");
        }
        sum += weights[i];
    }
    if (err == 0 && sum <= 0) {
        err = wrong_amount(ret_why, "at least one weight must be above 0");
    }
    free(copy);
    if (err != 0) {
        free(weights);
        return err;
    }
    *ret = weights;
    *ret_count = count;
    return 0;
}
