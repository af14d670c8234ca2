/* Templates out of arbitrary bytes: bounded, without control bytes, without two blanks in a row,
 * and the same again each time. */
#include "engine/tally/response_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char first[RESPONSE_TEXT_MAX], second[RESPONSE_TEXT_MAX];
    char *copy = malloc(size == 0 ? 1 : size); /* so that a read behind the end is noticed */
    require(copy != NULL);
    memcpy(copy, data, size);
    size_t len = response_text_template(slice_make(copy, size), first);
    require(len <= RESPONSE_TEXT_MAX);
    for (size_t i = 0; i < len; i++) {
        require((unsigned char)first[i] >= ' ' && first[i] != 127);
        require(i == 0 || first[i] != ' ' || first[i - 1] != ' ');
    }
    require(response_text_template(slice_make(copy, size), second) == len);
    require(memcmp(first, second, len) == 0);
    free(copy);
    return 0;
}
