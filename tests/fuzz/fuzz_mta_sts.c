/* MTA-STS records and policies out of arbitrary bytes: what is taken obeys its limits, and a policy
 * means the same whichever line ends it has. */
#include "net/mta_sts.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_record(struct slice text)
{
    struct slice id;
    if (mta_sts_record(&text, 1, &id) == 0) {
        require(id.len > 0 && id.len <= MTA_STS_ID_MAX);
        require(id.data > text.data && id.data + id.len <= text.data + text.len);
    }
}

/* With CRLF where the text has LF; NULL when there is no memory. */
static char *with_crlf(struct slice text, size_t *ret_len)
{
    char *copy = malloc(2 * text.len + 1);
    size_t len = 0;
    for (size_t i = 0; copy != NULL && i < text.len; i++) {
        if (text.data[i] == '\n' && (i == 0 || text.data[i - 1] != '\r')) {
            copy[len++] = '\r';
        }
        copy[len++] = text.data[i];
    }
    *ret_len = len;
    return copy;
}

static void check_policy(struct slice text, struct slice host)
{
    struct mta_sts_policy policy;
    struct mta_sts_policy other;
    if (mta_sts_policy_parse(text, &policy) != 0) {
        return;
    }
    require(policy.max_age <= MTA_STS_MAX_AGE_MAX && policy.mode <= MTA_STS_ENFORCE);
    require(!mta_sts_policy_allows(&policy, SLICE("")));
    bool allows = mta_sts_policy_allows(&policy, host);
    size_t len;
    char *copy = with_crlf(text, &len);
    if (copy != NULL && len <= MTA_STS_POLICY_MAX) {
        require(mta_sts_policy_parse(slice_make(copy, len), &other) == 0);
        require(other.mode == policy.mode && other.max_age == policy.max_age);
        require(mta_sts_policy_allows(&other, host) == allows);
    }
    free(copy);
}

/* The first byte is the length of a host name, which follows; then the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || (size_t)data[0] + 1 > size) {
        return 0;
    }
    struct slice all = slice_make((const char *)data + 1, size - 1);
    struct slice text = slice_from(all, data[0]);
    check_record(text);
    check_policy(text, slice_to(all, data[0]));
    return 0;
}
