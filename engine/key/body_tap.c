/* Owns the hash that is made at reception. Pure but for libcrypto's SHA-256. */
#include "engine/key/body_tap.h"

#include "engine/key/from_domain.h"
#include "engine/key/key_choice.h"
#include "engine/key/key_ring.h"
#include "net/dkim/dkim_header.h"

#include <stdlib.h>

struct body_tap *body_tap_new(void)
{
    return calloc(1, sizeof(struct body_tap));
}

void body_tap_free(struct body_tap *t)
{
    if (t != NULL) {
        dkim_body_fini(&t->bodies[DKIM_SIMPLE]);
        dkim_body_fini(&t->bodies[DKIM_RELAXED]);
        free(t);
    }
}

size_t body_tap_find(struct slice content)
{
    if (content.len >= 2 && memcmp(content.data, "\r\n", 2) == 0) {
        return 2;
    }
    const char *found = content.len == 0 ? NULL : memmem(content.data, content.len, "\r\n\r\n", 4);
    return found == NULL ? content.len : (size_t)(found - content.data) + 4;
}

static void begin_forms(struct body_tap *t, unsigned forms)
{
    for (unsigned form = DKIM_SIMPLE; form <= DKIM_RELAXED; form++) {
        if ((forms >> form & 1) != 0 &&
            dkim_body_init(&t->bodies[form], (enum dkim_canon)form) == 0) {
            t->forms |= 1U << form; /* out of memory: the signer hashes it */
        }
    }
}

/* The whole header is there: whose mail it says that it is decides. */
static unsigned forms_of_header(const struct key_ring *ring, struct slice text)
{
    struct dkim_header header;
    struct from_domains from;
    if (ring != NULL && ring->is_one_form) {
        return ring->forms; /* whatever From says, unless it cannot be read and nothing signs it */
    }
    if (ring == NULL || dkim_header_parse(text, &header) != 0) {
        return 0;
    }
    unsigned forms =
        from_domains_read(&header, &from) != 0 ? 0 : key_choice_forms(ring, from.names, from.count);
    dkim_header_fini(&header);
    return forms;
}

/* A header that is longer than the first piece may say anything yet: whatever some key asks for. Finds
 * the empty line across pieces. returns how much of the piece is header */
static size_t look_on(struct body_tap *t, struct slice piece)
{
    static const char end[] = "\r\n\r\n";
    char seam[6];
    size_t ahead = piece.len < 3 ? piece.len : 3;
    memcpy(seam, t->last, t->last_len);
    memcpy(seam + t->last_len, piece.data, ahead);
    const char *found = memmem(seam, t->last_len + ahead, end, 4);
    if (found != NULL) {
        t->is_in_body = true;
        return (size_t)(found - seam) + 4 - t->last_len;
    }
    found = memmem(piece.data, piece.len, end, 4);
    if (found != NULL) {
        t->is_in_body = true;
        return (size_t)(found - piece.data) + 4;
    }
    const struct slice all = ahead < piece.len ? piece : slice_make(seam, t->last_len + ahead);
    size_t keep = all.len < 3 ? all.len : 3;
    memmove(t->last, all.data + all.len - keep, keep);
    t->last_len = (uint8_t)keep;
    return piece.len;
}

void body_tap_want(struct body_tap *t, unsigned forms)
{
    t->is_wanted = true;
    begin_forms(t, forms);
}

/* The first piece: mostly it has the whole header. returns  how much of it is header */
static size_t look_at_first(struct body_tap *t, const struct key_ring *ring, struct slice piece)
{
    size_t at = body_tap_find(piece);
    t->has_begun = true;
    t->is_in_body = at < piece.len || (at == 2 && memcmp(piece.data, "\r\n", 2) == 0) ||
                    (at >= 4 && memcmp(piece.data + at - 4, "\r\n\r\n", 4) == 0);
    if (!t->is_wanted && t->is_in_body) {
        begin_forms(t, forms_of_header(ring, slice_to(piece, at)));
    } else if (!t->is_wanted && ring != NULL) {
        begin_forms(t, ring->forms);
    }
    if (!t->is_in_body) {
        size_t keep = piece.len < 3 ? piece.len : 3;
        memcpy(t->last, piece.data + piece.len - keep, keep);
        t->last_len = (uint8_t)keep;
    }
    return at;
}

void body_tap_feed(struct body_tap *t, const struct key_ring *ring, struct slice piece)
{
    if (piece.len == 0) {
        return;
    }
    if (!t->has_begun) {
        piece = slice_from(piece, look_at_first(t, ring, piece));
    } else if (!t->is_in_body) {
        piece = slice_from(piece, look_on(t, piece));
    }
    for (unsigned form = DKIM_SIMPLE; piece.len > 0 && form <= DKIM_RELAXED; form++) {
        if ((t->forms >> form & 1) != 0) {
            dkim_body_update(&t->bodies[form], piece);
        }
    }
}

unsigned body_tap_finish(struct body_tap *t, uint8_t ret_hashes[2][DKIM_HASH_BYTES])
{
    unsigned forms = 0;
    for (unsigned form = DKIM_SIMPLE; form <= DKIM_RELAXED; form++) {
        if ((t->forms >> form & 1) != 0 &&
            dkim_body_finish(&t->bodies[form], ret_hashes[form]) == 0) {
            forms |= 1U << form;
        }
    }
    return forms;
}
