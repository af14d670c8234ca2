/* Reports: from bytes to what they say.
 * Called on a thread that may take its time. Must not believe what it reads. */
#include "engine/heard/heard.h"

#include "engine/heard/heard_kind.h"
#include "engine/heard/heard_private.h"

#include <gmime/gmime.h>
#include <string.h>

void heard_setup(void)
{
    g_mime_init(); /* counts how often, and works once */
}

/* A status that says only that it failed gives way to one that the receiver's words have. */
static void complete(struct heard_recipient *recipient)
{
    struct slice status;
    size_t len = strlen(recipient->status);
    bool is_vague = len == 0 || strcmp(recipient->status + 1, ".0.0") == 0;
    if (is_vague && heard_find_status(slice_of(recipient->diagnostic), &status)) {
        heard_set(recipient->status, sizeof(recipient->status), status);
    }
}

void heard_read(struct slice message, struct slice recipient, struct heard *ret)
{
    struct heard_parts parts;
    memset(ret, 0, sizeof(*ret));
    ret->shape = "";
    if (message.len > HEARD_BYTES_MAX) {
        message = slice_to(message, HEARD_BYTES_MAX);
        ret->is_cut = true;
    }
    heard_parts_read(message, ret, &parts);
    heard_decide(&parts, recipient);
    for (size_t i = 0; i < ret->recipient_count; i++) {
        complete(&ret->recipients[i]);
    }
    heard_parts_fini(&parts);
}

const char *heard_kind_text(enum heard_kind kind)
{
    static const char *const texts[HEARD_KIND_COUNT] = {"unknown", "bounce", "complaint",
                                                        "unsubscribe", "auto-reply"};
    return kind < HEARD_KIND_COUNT ? texts[kind] : "";
}

const char *heard_action_text(enum heard_action action)
{
    static const char *const texts[HEARD_ACTION_COUNT] = {"failed", "delayed", "delivered",
                                                          "relayed", "expanded"};
    return action < HEARD_ACTION_COUNT ? texts[action] : "";
}
