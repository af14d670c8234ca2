/* From fields out of arbitrary bytes: what is believed has one address after the other with a name of
 * a domain each, found again in the text, and the same whatever the case of letters. */
#include "engine/key/body_tap.h"
#include "engine/key/from_domain.h"
#include "net/dkim/dkim_header.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool is_part(struct slice domain, struct slice text)
{
    for (size_t at = 0; at + domain.len <= text.len; at++) {
        if (slice_ieq(slice_make(text.data + at, domain.len), domain)) {
            return true;
        }
    }
    return false;
}

static void check_domains(const struct from_domains *f, struct slice text)
{
    require(f->count > 0 && f->count <= FROM_DOMAINS_MAX && f->used <= sizeof(f->text));
    for (size_t i = 0; i < f->count; i++) {
        struct slice d = f->names[i];
        require(d.len > 0 && d.len <= FROM_DOMAIN_BYTES && d.data[0] != '.' &&
                d.data[d.len - 1] != '.');
        for (size_t j = 0; j < d.len; j++) {
            require(strchr("@<>()[]\"\\,:; \t\r\n", d.data[j]) == NULL);
        }
        for (size_t j = 0; j < i; j++) {
            require(!slice_eq(d, f->names[j]));
        }
        bool has_folds =
            memchr(text.data, '(', text.len) != NULL || memchr(text.data, ' ', text.len) != NULL ||
            memchr(text.data, '\t', text.len) != NULL ||
            memchr(text.data, '\r', text.len) != NULL || memchr(text.data, '\n', text.len) != NULL;
        require(has_folds || is_part(d, text));
    }
}

/* What is hashed of a body does not depend on where the content is cut. */
static void check_tap(struct slice content)
{
    uint8_t hashes[2][2][DKIM_HASH_BYTES];
    for (int i = 0; i < 2; i++) {
        struct body_tap *t = body_tap_new();
        struct slice rest = content;
        require(t != NULL);
        body_tap_want(t, 3);
        while (rest.len > 0) {
            size_t len = i == 0 || rest.len < 5 ? rest.len : 5;
            body_tap_feed(t, NULL, slice_to(rest, len));
            rest = slice_from(rest, len);
        }
        require(body_tap_finish(t, hashes[i]) == 3);
        body_tap_free(t);
    }
    require(memcmp(hashes[0], hashes[1], sizeof(hashes[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = slice_make((const char *)data, size);
    struct dkim_header header;
    struct from_domains from;
    if (size > 100000 || dkim_header_parse(text, &header) != 0) {
        return 0;
    }
    if (from_domains_read(&header, &from) == 0) {
        check_domains(&from, text);
    }
    dkim_header_fini(&header);
    check_tap(text);
    return 0;
}
