/* Texts of reports: addresses, tokens, codes in them, and their copies in the report.
 * Called by the files of the module. Must not take anything for true. */
#include "engine/heard/heard_private.h"

#include <string.h>
#include <strings.h>

void heard_set(char *text, size_t size, struct slice from)
{
    size_t len = 0;
    bool wants_blank = false;
    for (size_t i = 0; i < from.len && len + 1 < size; i++) {
        unsigned char c = (unsigned char)from.data[i];
        if (c <= ' ') {
            wants_blank = len > 0;
            continue;
        }
        if (c == 127) {
            continue;
        }
        if (wants_blank) {
            text[len++] = ' ';
            wants_blank = false;
        }
        if (len + 1 < size) {
            text[len++] = (char)c;
        }
    }
    text[len] = '\0';
}

/* Colons of a line with those that are folded into it: no field that is read has so many. */
enum { COLONS_MAX = 100 };

void heard_flatten(struct slice text, struct buf *out)
{
    bool begins = true; /* at the start of a line */
    unsigned colons = 0;
    size_t first = out->len;
    buf_append_slice(out, text);
    for (size_t i = first; i < out->len; i++) {
        char *c = &out->data[i];
        if (begins && *c != ' ' && *c != '\t') {
            colons = 0;
        }
        begins = *c == '\n';
        if (*c == ':' && ++colons > COLONS_MAX) {
            *c = ' ';
        }
    }
}

/* --- addresses and tokens --------------------------------------------------------------------- */

static bool is_of_domain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || (unsigned char)c > 127;
}

static bool is_of_local(char c)
{
    return is_of_domain(c) || (c != '\0' && strchr("!#$%&'*+/=?^_`{|}~", c) != NULL);
}

/* The address around the at sign at `at`: without quotes and dots that are the sentence's. */
static bool address_around(struct slice text, size_t at, struct slice *ret)
{
    size_t begin = at, end = at + 1;
    while (begin > 0 && is_of_local(text.data[begin - 1])) {
        begin--;
    }
    while (end < text.len && is_of_domain(text.data[end])) {
        end++;
    }
    while (begin < at && (text.data[begin] == '\'' || text.data[begin] == '`')) {
        begin++;
    }
    while (end > at + 1 && (text.data[end - 1] == '.' || text.data[end - 1] == '-')) {
        end--;
    }
    *ret = slice_make(text.data + begin, end - begin);
    struct slice domain = slice_make(text.data + at + 1, end - at - 1);
    size_t dot = slice_find(domain, '.');
    return begin < at && dot > 0 && dot < domain.len && ret->len < HEARD_ADDRESS_BYTES;
}

bool heard_find_address(struct slice *in, struct slice *ret)
{
    size_t from = 0;
    while (from < in->len) {
        size_t at = from + slice_find(slice_from(*in, from), '@');
        if (at >= in->len) {
            break;
        }
        if (address_around(*in, at, ret)) {
            *in = slice_from(*in, (size_t)(ret->data + ret->len - in->data));
            return true;
        }
        from = at + 1;
    }
    *in = slice_from(*in, in->len);
    return false;
}

void heard_note_address(struct heard *r, struct slice address)
{
    if (address.len == 0 || address.len >= HEARD_ADDRESS_BYTES) {
        return;
    }
    for (size_t i = 0; i < r->address_count; i++) {
        if (slice_ieq(slice_of(r->addresses[i]), address)) {
            return;
        }
    }
    if (r->address_count == HEARD_ADDRESS_MAX) {
        r->is_cut = true;
        return;
    }
    heard_set(r->addresses[r->address_count++], HEARD_ADDRESS_BYTES, address);
}

void heard_note_addresses(struct heard *r, struct slice text)
{
    struct slice address;
    while (heard_find_address(&text, &address)) {
        heard_note_address(r, address);
    }
}

void heard_note_tokens(struct heard *r, struct slice text, bool is_returned)
{
    char(*list)[RETURN_TOKEN_LEN] = is_returned ? r->returned_tokens : r->tokens;
    size_t *count = is_returned ? &r->returned_token_count : &r->token_count;
    struct slice token;
    while (return_token_find(&text, &token)) {
        size_t i = 0;
        while (i < *count && strncasecmp(list[i], token.data, RETURN_TOKEN_LEN) != 0) {
            i++;
        }
        if (i < *count) {
            continue;
        }
        if (*count == HEARD_TOKEN_MAX) {
            r->is_cut = true;
            return;
        }
        memcpy(list[(*count)++], token.data, RETURN_TOKEN_LEN);
    }
}

struct heard_recipient *heard_recipient_of(struct heard *r, struct slice address)
{
    for (size_t i = 0; i < r->recipient_count; i++) {
        if (slice_ieq(slice_of(r->recipients[i].address), address)) {
            return &r->recipients[i];
        }
    }
    if (r->recipient_count == HEARD_RECIPIENT_MAX) {
        r->is_cut = true;
        return NULL;
    }
    struct heard_recipient *recipient = &r->recipients[r->recipient_count++];
    memset(recipient, 0, sizeof(*recipient));
    heard_set(recipient->address, sizeof(recipient->address), address);
    heard_note_address(r, address);
    return recipient;
}

/* --- words and codes -------------------------------------------------------------------------- */

size_t heard_find_word(struct slice text, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= text.len; i++) {
        if ((text.data[i] | 32) == (word[0] | 32) && strncasecmp(text.data + i, word, len) == 0) {
            return i;
        }
    }
    return text.len;
}

bool heard_begins(struct slice text, const char *word)
{
    size_t len = strlen(word);
    return text.len >= len && strncasecmp(text.data, word, len) == 0;
}

bool heard_has_any(struct slice text, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        if (heard_find_word(text, words[i]) < text.len) {
            return true;
        }
    }
    return false;
}

static bool is_digit(struct slice text, size_t at)
{
    return at < text.len && text.data[at] >= '0' && text.data[at] <= '9';
}

/* The end of one to three digits at `at`; `at` itself: there are none, or more. */
static size_t number_end(struct slice text, size_t at)
{
    size_t end = at;
    while (is_digit(text, end)) {
        end++;
    }
    return end - at <= 3 ? end : at;
}

static bool is_word_start(struct slice text, size_t at)
{
    return at == 0 || (!is_digit(text, at - 1) && text.data[at - 1] != '.' &&
                       ((text.data[at - 1] | 32) < 'a' || (text.data[at - 1] | 32) > 'z'));
}

bool heard_find_status(struct slice text, struct slice *ret)
{
    for (size_t i = 0; i + 5 <= text.len; i++) {
        if ((text.data[i] != '5' && text.data[i] != '4' && text.data[i] != '2') ||
            text.data[i + 1] != '.' || !is_word_start(text, i)) {
            continue;
        }
        size_t subject = number_end(text, i + 2);
        if (subject == i + 2 || subject >= text.len || text.data[subject] != '.') {
            continue;
        }
        size_t end = number_end(text, subject + 1);
        if (end == subject + 1 ||
            (end + 1 < text.len && text.data[end] == '.' && is_digit(text, end + 1))) {
            continue; /* an address of four numbers */
        }
        *ret = slice_make(text.data + i, end - i);
        return true;
    }
    return false;
}

size_t heard_find_code(struct slice text)
{
    for (size_t i = 0; i + 3 <= text.len; i++) {
        bool is_class = text.data[i] == '5' || text.data[i] == '4';
        if (is_class && is_word_start(text, i) && text.data[i + 1] >= '0' &&
            text.data[i + 1] <= '7' && is_digit(text, i + 2) &&
            (i + 3 == text.len || text.data[i + 3] == ' ' || text.data[i + 3] == '-' ||
             text.data[i + 3] == ':' || text.data[i + 3] == '#')) {
            return i;
        }
    }
    return text.len;
}
