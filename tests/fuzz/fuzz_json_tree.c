/* JSON out of arbitrary bytes: what the reader of bodies takes, libjansson takes as well, and makes
 * the same tree of it. */
#include "engine/http/json_tree.h"

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
    json_t *tree = json_tree_read(slice_make((const char *)data, size));
    if (tree == NULL) {
        return 0;
    }
    json_t *same = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    require(same != NULL);
    /* As text, in which the order of members shows. */
    char *written = json_dumps(tree, JSON_COMPACT), *also = json_dumps(same, JSON_COMPACT);
    require(written != NULL && also != NULL && strcmp(written, also) == 0);
    free(written);
    free(also);
    json_decref(tree);
    json_decref(same);
    return 0;
}
