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

/* How much of a message GMime may have: it compares each line that begins with two dashes with every
 * boundary that is open, and makes an object of each part, however many. */
static size_t bounded_length(struct slice message)
{
    size_t at = 0, borders = 0, boundaries = 0;
    while (at < message.len) {
        struct slice line = slice_from(message, at);
        size_t end = slice_find(line, '\n');
        line = slice_to(line, end);
        borders += line.len > 1 && line.data[0] == '-' && line.data[1] == '-' ? 1 : 0;
        for (size_t from = 0; from < line.len; boundaries++) {
            from += heard_find_word(slice_from(line, from), "boundary") + 1;
            if (from > line.len) {
                break;
            }
        }
        if (borders > HEARD_BORDERS_MAX || boundaries > HEARD_PARTS_MAX) {
            return at;
        }
        at += end + 1;
    }
    return message.len;
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
    size_t bounded = bounded_length(message);
    ret->is_cut |= bounded < message.len;
    message = slice_to(message, bounded);
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
