/* Reports out of arbitrary bytes: every list is within its room, every text ends and is printable,
 * and what is read depends on the bytes alone.
 *
 * The first line is the address that it was sent to. */
#include "engine/heard/heard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_text(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    require(len < size);
    for (size_t i = 0; i < len; i++) {
        require((unsigned char)text[i] >= ' ' && text[i] != 127);
    }
}

#define CHECK(array) check_text((array), sizeof(array))

static void check_recipient(const struct heard_recipient *r)
{
    require(r->action < HEARD_ACTION_COUNT && r->address[0] != '\0');
    CHECK(r->address);
    CHECK(r->original);
    CHECK(r->status);
    CHECK(r->diagnostic);
    CHECK(r->remote_mta);
}

static void check(const struct heard *h)
{
    require(h->kind < HEARD_KIND_COUNT && h->shape != NULL);
    require(h->recipient_count <= HEARD_RECIPIENT_MAX && h->address_count <= HEARD_ADDRESS_MAX);
    require(h->token_count <= HEARD_TOKEN_MAX && h->returned_token_count <= HEARD_TOKEN_MAX);
    for (size_t i = 0; i < h->recipient_count; i++) {
        check_recipient(&h->recipients[i]);
    }
    for (size_t i = 0; i < h->address_count; i++) {
        CHECK(h->addresses[i]);
    }
    CHECK(h->from);
    CHECK(h->subject);
    CHECK(h->reporting_mta);
    CHECK(h->arrival_date);
    CHECK(h->original_message_id);
    CHECK(h->feedback_type);
    CHECK(h->user_agent);
    CHECK(h->source_ip);
    CHECK(h->original_mail_from);
    CHECK(h->reported_domain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct heard first, second;
    struct slice text = slice_make((const char *)data, size);
    size_t len = slice_find(text, '\n');
    struct slice recipient = slice_to(text, len);
    heard_setup();
    heard_read(text, recipient, &first);
    heard_read(text, recipient, &second);
    check(&first);
    require(memcmp(&first, &second, sizeof(first)) == 0);
    return 0;
}
