/* Puts replies into words. Called by reports and commands; must not know where a reply comes from.
 */
#include "engine/event/reply_line.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Take the word away from the start of the text, with the space or dash behind it. returns false
 * when the text does not begin with the word */
static bool drop_word(struct slice *text, struct slice word)
{
    if (word.len == 0 || text->len < word.len || memcmp(text->data, word.data, word.len) != 0 ||
        (text->len > word.len && text->data[word.len] != ' ' && text->data[word.len] != '-')) {
        return false;
    }
    *text = slice_from(*text, text->len > word.len ? word.len + 1 : word.len);
    return true;
}

/* Whether the text begins with an enhanced code of its own, as 5.1.1 (RFC 3463). */
static bool has_status(struct slice text)
{
    size_t at = 0, digits = 0;
    unsigned points = 0;
    for (; at < text.len && text.data[at] != ' '; at++) {
        bool is_point = text.data[at] == '.';
        if ((is_point && digits == 0) ||
            (!is_point && (text.data[at] < '0' || text.data[at] > '9'))) {
            return false;
        }
        points += is_point;
        digits = is_point ? 0 : digits + 1;
    }
    return points == 2 && digits > 0;
}

/* Who said it, "host NAME[ADDRESS] said: ", goes from the text's start to *ret when the code
 * follows.
 */
static void split_host(struct slice *text, const char *digits, struct slice *ret)
{
    char said[32];
    int len = snprintf(said, sizeof(said), " said: %s", digits);
    const char *at = digits[0] == '\0' || text->len == 0
                         ? NULL
                         : memmem(text->data, text->len, said, (size_t)len);
    if (at != NULL) {
        size_t head = (size_t)(at - text->data) + sizeof(" said: ") - 1;
        *ret = slice_to(*text, head);
        *text = slice_from(*text, head);
    }
}

const char *reply_line(unsigned code, struct slice status, struct slice text,
                       char ret[static REPLY_LINE_MAX])
{
    char digits[12] = "";
    struct slice host = SLICE("");
    if (code != 0) {
        (void)snprintf(digits, sizeof(digits), "%u", code);
    }
    split_host(&text, digits, &host);
    while (drop_word(&text, slice_of(digits)) || drop_word(&text, status)) {
    }
    /* a status in the server's own text says more than one that we derived */
    if (has_status(text)) {
        status = slice_to(text, slice_find(text, ' '));
        (void)drop_word(&text, status);
    }
    bool has_head = digits[0] != '\0' || status.len > 0;
    (void)snprintf(ret, REPLY_LINE_MAX, "%s%s" SLICE_FMT "%s" SLICE_FMT SLICE_FMT, digits,
                   digits[0] != '\0' && status.len > 0 ? " " : "", SLICE_ARG(status),
                   has_head && host.len + text.len > 0 ? " " : "", SLICE_ARG(host),
                   SLICE_ARG(text));
    return ret;
}
