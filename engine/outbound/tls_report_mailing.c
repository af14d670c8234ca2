/* Makes an intake of a report. The answer comes as LETTER_STORED to the box behind the http thread's. */
#include "engine/outbound/tls_report_mailing.h"

#include "base/date.h"
#include "base/error.h"
#include "base/packed.h"
#include "engine/config/config.h"
#include "engine/key/body_tap.h"
#include "engine/post/intake.h"
#include "engine/post/letter.h"
#include "engine/post/message.h"
#include "engine/post/signing.h"

#include <errno.h>

static int write_mail(struct intake *in, uint64_t id, const char *hostname,
                      const struct tls_mailing_request *request)
{
    char text[MESSAGE_ID_TEXT], date[DATE_BYTES];
    usec_t now = clock_wall();
    message_id_format(id, text);
    date_format(now, date);
    buf_printf(&in->body, "Received: by %s (sluice)\r\n\tid %s;\r\n\t%s\r\n", hostname, text, date);
    return tls_report_mail(request->head, request->domain, request->to, request->gzip, now,
                           &in->body);
}

static struct slice keep(struct buf *strings, struct slice text)
{
    struct slice kept = {strings->data + strings->len, text.len};
    buf_append_slice(strings, text);
    return kept;
}

/* What the signer needs, when there are keys. Without memory for it the mail goes out unsigned. */
static void prepare_signing(struct intake *in, const struct key_ring *keys)
{
    struct body_tap *tap = keys == NULL ? NULL : body_tap_new();
    struct signing *g = tap == NULL ? NULL : signing_new();
    if (g != NULL) {
        body_tap_feed(tap, keys, buf_slice(&in->body));
        g->forms = (uint8_t)body_tap_finish(tap, g->hashes);
        in->signing = g;
    }
    body_tap_free(tap);
}

/* errors: -ENOMEM */
static int fill(struct intake *in, const struct engine *e, uint64_t id,
                const struct tls_mailing_request *request, const struct settings *s)
{
    struct slice from = slice_of(request->head->from), protocol = SLICE("TLSRPT");
    int err = write_mail(in, id, s->config->hostname, request);
    packed_append(&in->packed, slice_of(request->to));
    in->packed_count = 1;
    if (err != 0 || in->packed.failed ||
        buf_reserve(&in->strings, from.len + protocol.len + 1) == NULL) {
        return -ENOMEM;
    }
    in->worker = (uint16_t)(e->worker_count + 1); /* whose the answer is */
    in->envelope = (struct spool_envelope){
        .id = id,
        .created = clock_wall(),
        .size_bytes = in->body.len,
        .recipient_count = 1,
        .flags = SPOOL_FLAG_NO_NOTICES | SPOOL_FLAG_TLS_OPTIONAL | SPOOL_FLAG_TLS_REPORT,
        .sender = keep(&in->strings, from),
        .peer_name = SLICE(""),
        .peer_address = SLICE(""),
        .protocol = keep(&in->strings, protocol),
        .auth_user = SLICE(""),
        .tenant = SLICE(""),
        .campaign = SLICE(""),
    };
    prepare_signing(in, s->keys);
    in->message = intake_message(in); /* NULL: read back from the spool */
    return 0;
}

int tls_mailing_begin(struct tls_mailing *m, struct engine *e, const struct settings *s,
                      const struct tls_mailing_request *request, struct outbox *to_writer)
{
    uint64_t id = engine_new_id(e);
    struct intake *in = engine_id_is_reserved(e, id) && !m->is_away ? intake_new() : NULL;
    if (in == NULL) {
        return ERR_AGAIN;
    }
    int err = fill(in, e, id, request, s);
    if (err != 0) {
        intake_free(in);
        return err;
    }
    m->is_away = true;
    atomic_fetch_add_explicit(&e->intake_bytes, in->body.len + in->packed.len,
                              memory_order_relaxed);
    letter_put_store(to_writer, in);
    return 0;
}

void tls_mailing_end(struct tls_mailing *m, struct intake *in)
{
    m->is_away = false;
    m->error = in->error;
    intake_free(in);
}
