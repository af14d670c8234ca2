/* Owns nothing: a span of time as text. Called by whoever reads one that a person wrote. */
#include "base/span.h"

#include <stddef.h>
#include <stdint.h>

#define SECONDS_MAX 1000000000

bool span_parse(struct slice text, usec_t *ret)
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    int64_t number = 0, unit = 1;
    for (size_t i = 0; text.len > 1 && i < sizeof(units) / sizeof(units[0]); i++) {
        if (text.data[text.len - 1] == units[i].letter) {
            unit = units[i].seconds;
            text = slice_to(text, text.len - 1);
            break;
        }
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        number = number * 10 + (text.data[i] - '0');
        if (number > SECONDS_MAX / unit) {
            return false;
        }
    }
    if (text.len == 0) {
        return false;
    }
    *ret = number * unit * USEC_PER_SEC;
    return true;
}
