#include "engine/post/signing.h"

#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct signing *signing_new(void)
{
    return calloc(1, sizeof(struct signing));
}

void signing_free(struct signing *s)
{
    if (s != NULL) {
        free(s->wanted);
        free(s->fields);
        free(s->told);
        free(s);
    }
}

void signing_tell(struct signing *s, struct slice result, const struct slice *keys, size_t count)
{
    struct buf out;
    size_t room =
        2 * result.len + 64; /* for both and the words around them: memory is taken once */
    for (size_t i = 0; i < count; i++) {
        room += 2 * keys[i].len + 4;
    }
    buf_init(&out, 0);
    (void)buf_reserve(&out, room); /* out.failed says whether there was memory */
    buf_append_str(&out, ",\"dkim\":\"");
    buf_append_slice(&out, result);
    buf_append_char(&out, '"');
    for (size_t i = 0; i < count; i++) {
        buf_append_str(&out, i == 0 ? ",\"dkim_keys\":[\"" : "\",\"");
        buf_append_slice(&out, keys[i]);
    }
    buf_append_str(&out, count == 0 ? "" : "\"]");
    size_t event_len = out.len;
    buf_append_str(&out, "DKIM: ");
    buf_append_slice(&out, result);
    for (size_t i = 0; i < count; i++) {
        buf_append_str(&out, i == 0 ? ", by " : " ");
        buf_append_slice(&out, keys[i]);
    }
    size_t len = 0;
    char *told = buf_detach(&out, &len); /* NULL: its events and traces say nothing of it */
    free(s->told);
    s->told = told;
    s->event_len = told == NULL ? 0 : (uint32_t)event_len;
    s->note_len = told == NULL ? 0 : (uint32_t)(len - event_len);
}

struct spool_signing signing_record(const struct signing *s)
{
    struct spool_signing record = {
        .forms = s->forms,
        .mark = s->mark,
        .signed_at = s->signed_at,
        .expires = s->expires,
        .wanted = slice_of(s->wanted == NULL ? "" : s->wanted),
        .fields = signing_fields(s),
    };
    memcpy(record.hashes, s->hashes, sizeof(record.hashes));
    return record;
}

int signing_restore(struct signing *s, const struct spool_signing *record)
{
    char *wanted = record->wanted.len == 0 ? NULL : slice_dup(record->wanted);
    char *fields = record->fields.len == 0 ? NULL : slice_dup(record->fields);
    if ((record->wanted.len > 0 && wanted == NULL) || (record->fields.len > 0 && fields == NULL)) {
        free(wanted);
        free(fields);
        return -ENOMEM;
    }
    free(s->wanted);
    free(s->fields);
    free(s->told);
    *s = (struct signing){
        .forms = record->forms,
        .is_stored = true,
        .mark = record->mark,
        .signed_at = record->signed_at,
        .expires = record->expires,
        .wanted = wanted,
        .fields = fields,
        .fields_len = record->fields.len,
    };
    memcpy(s->hashes, record->hashes, sizeof(s->hashes));
    return 0;
}
