/* Reading command lines. Called once by the main thread of a tool. */
#include "bench/tool/options.h"

#include "base/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

int options_read(const struct options *o, int argc, char **argv, void *ctx, int *ret_status)
{
    int id;
    int index = 0;
    *ret_status = EX_USAGE;
    while ((id = getopt_long(argc, argv, "", o->table, &index)) != -1) {
        if (id == OPTIONS_HELP) {
            (void)fputs(o->usage, stdout);
            *ret_status = EX_OK;
            return -1;
        }
        if (id == '?') {
            return -1; /* getopt_long said why */
        }
        if (o->take(ctx, id, optarg) != 0) {
            (void)fprintf(stderr, "%s: --%s %s: not understood; see --help\n", o->program,
                          o->table[index].name, optarg);
            return -1;
        }
    }
    return optind;
}

int options_read_all(const struct options *o, int argc, char **argv, void *ctx, int *ret_status)
{
    int first = options_read(o, argc, argv, ctx, ret_status);
    if (first >= 0 && first < argc) {
        (void)fprintf(stderr, "%s: %s: no such argument; see --help\n", o->program, argv[first]);
        return -1;
    }
    return first < 0 ? first : 0;
}

static bool is_whole(const char *text, const char *end)
{
    return end != text && *end == '\0' && errno == 0;
}

int options_integer(const char *text, uint64_t limit, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || !is_whole(text, end) || value > limit) {
        return ERR_SYNTAX;
    }
    *ret = value;
    return 0;
}

int options_number(const char *text, double limit, double *ret)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (!is_whole(text, end) || !(value >= 0 && value <= limit)) {
        return ERR_SYNTAX;
    }
    *ret = value;
    return 0;
}
